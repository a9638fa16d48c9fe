"""Claims about `share`, one a file."""
