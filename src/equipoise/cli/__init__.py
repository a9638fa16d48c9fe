"""The command line: one file a verb. Exit 0 fine, 1 certificate or run failed, 2 bad input."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `equipoise`: bad input becomes one line on standard error and exit code 2."""
    from typer.exceptions import Abort, Exit, TyperException

    from equipoise.cli.app import app
    from equipoise.errors import Failure, InputError

    try:
        code = app(standalone_mode=False)
    except InputError as error:
        code = _say(str(error))
    except Failure as error:
        _say(str(error))
        code = 1
    except TyperException as error:
        code = _say(error.format_message()) if error.format_message() else error.exit_code
    except Exit as leaving:
        code = leaving.exit_code
    except (Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str) -> int:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return 2
