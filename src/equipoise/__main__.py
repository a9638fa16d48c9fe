"""python -m equipoise: the same as the command."""

from equipoise.cli import main

if __name__ == "__main__":
    main()
