"""The command line: parse, call, print. Exit 0 fine, 1 certificate or run failed, 2 bad input, 130 interrupted."""

from __future__ import annotations

import gc
import sys

INTERRUPTED = 130


class Interrupted(Exception):
    """Ctrl-C in a command; the message is the command that goes on. Typer would swallow a KeyboardInterrupt's words."""


def main() -> None:
    """Entry point of `equipoise`: bad input and Ctrl-C become one line on standard error."""
    gc.set_threshold(100_000, 50, 100)  # a command is short: the usual 700 was 5 % of compiling kernels
    try:
        _hear_every_interrupt()
        code = _run()
    except (KeyboardInterrupt, Interrupted) as interrupt:
        code = _interrupted(interrupt)
    sys.exit(code)


def _run() -> int:
    from typer.exceptions import Abort, Exit, TyperException

    from equipoise.cli.app import app
    from equipoise.errors import Failure, InputError

    try:
        code = app(prog_name="equipoise", standalone_mode=False)
    except InputError as error:
        return _complain(str(error), 2)
    except Failure as error:
        return _complain(str(error), 1)
    except TyperException as error:
        return _complain(error.format_message(), 2) if error.format_message() else int(error.exit_code)
    except Exit as leaving:
        return int(leaving.exit_code)
    except Abort:
        raise KeyboardInterrupt from None
    if code == INTERRUPTED:  # before a command began
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    """One line, or one for each of several problems."""
    for line in message.splitlines() or [""]:
        print("error: " + " ".join(line.split()), file=sys.stderr)
    return code


def _interrupted(interrupt: KeyboardInterrupt | Interrupted) -> int:
    """One line, with the one that resumes where a run left it; a second Ctrl-C changes nothing any more."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resume = f"; go on with: {interrupt}" if str(interrupt) else ""
    print(f"interrupted{resume}", file=sys.stderr, flush=True)
    return INTERRUPTED


def _hear_every_interrupt() -> None:
    """Python drops an interrupt that arrives inside a destructor or a callback of C: send it once more."""
    before = sys.unraisablehook

    def hook(told: sys.UnraisableHookArgs) -> None:
        if issubclass(told.exc_type, KeyboardInterrupt):
            import os
            import signal
            import threading

            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            before(told)

    sys.unraisablehook = hook
