"""A server process for the store's tests: `store_process` at the other end of a pipe."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType


class StoreServer:
    """Holds a store in a process that can be stopped, continued and killed for real."""

    def __init__(self, url: str) -> None:
        script = Path(__file__).with_name("store_process.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> str:
        """The next line it says."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        assert self._process.stdin
        print(line, file=self._process.stdin, flush=True)

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.hear()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> list[str]:
        """kill -9; what it had said until then."""
        self._process.kill()
        said, _ = self._process.communicate()
        return said.split()

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.signal(signal.SIGCONT)
            self.kill()
