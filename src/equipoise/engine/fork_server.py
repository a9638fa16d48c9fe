"""A process that has loaded once all that others need, and forks one of them whenever it is asked.

It serves the workers of a sharded run and the tasks on the real clock. A fork costs about 10 ms where a new interpreter
costs seconds. Python's own fork server does not do: it runs the user's script again in every process, has one list of
modules to preload for the whole program, hides why a preload failed, and leaves behind what a process started.

The server runs one thread and no parallel kernel, so that forking is safe. It ends when its owner does, however that dies,
and ends what it forked: every process leads a group that is killed with it, and dies when the server is killed.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from equipoise.errors import Failure, InputError

ALONE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "EQUIPOISE_THREADS")
COMMAND = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from equipoise.engine.fork_server import main; main()"
)
MESSAGE_BYTES = 65_536
MOST_FILES = 250  # that fit into one message
ANSWER_SECONDS = 20.0  # in which the server must answer
GRACE_SECONDS = 2.0  # to say its last words after its socket has closed
LOOK_SECONDS = 0.5  # between looks at whether the owner lives, should its socket have been inherited by someone
PR_SET_PDEATHSIG = 1


class ForkServer:
    """The owner's side. Closing it ends the server and everything that it forked.

    Parameters
    ----------
    what
        What the processes are, in the plural, for messages: "workers".
    target
        "module:function" that every process runs. It is called with the values and descriptors given to `fork`; what it
        returns is the exit code.
    preload
        "module:function" that the server runs once, before it forks.
    arguments
        Its arguments, plain values.
    patience
        Seconds in which the preload must be done.
    python
        The interpreter.
    """

    def __init__(
        self,
        what: str,
        target: str,
        preload: str,
        arguments: Sequence[object] = (),
        *,
        patience: float,
        python: str | None = None,
    ) -> None:
        self.what, self.owner = what, os.getpid()
        self._codes: dict[int, int] = {}
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        order = [there.fileno(), json.dumps(sys.path), self.owner, target, preload, json.dumps(list(arguments))]
        command = [python or sys.executable, "-c", COMMAND, *map(str, order)]
        try:
            self.process = subprocess.Popen(
                command,
                pass_fds=[there.fileno()],
                env=os.environ | dict.fromkeys(ALONE, "1"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            self._socket.close()
            self._errors.close()
            raise Failure(f"{what} cannot be started: {command[0]}: {error.strerror}") from None
        finally:
            there.close()
        try:
            self._answer(patience)
        except BaseException:
            self.process.kill()  # it may still be loading, and would read its socket only then
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def fork(self, values: Mapping[str, object], files: Sequence[int] = ()) -> int:
        """Start a process with these plain values and copies of these descriptors; returns its id."""
        self._send({"fork": dict(values)}, files)
        pid = int(str(self._answer(ANSWER_SECONDS)["pid"]))
        self._codes.pop(pid, None)  # of an earlier process with this number
        return pid

    def kill(self, pid: int) -> None:
        """Kill a process of this server and all that it started. One that has ended already is no error."""
        self._send({"kill": pid})

    def exit_code(self, pid: int) -> int | None:
        """As `Popen.returncode`: None while the process runs, negative for a signal."""
        with contextlib.suppress(Failure):  # `check_alive` says that the server is gone
            while self._hear(0.0) is not None:
                pass
        return self._codes.get(pid)

    def check_alive(self) -> None:
        """Raise a Failure that says how the server ended, if it has."""
        if not self.alive:
            raise self._gone()

    def close(self) -> None:
        """End it. Twice is fine; in a fork of the owner nothing happens."""
        if os.getpid() != self.owner or self._errors.closed:
            return
        self._socket.close()
        try:
            self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()  # the system then kills what it forked
            self.process.wait()
        self._errors.close()

    def _send(self, order: Mapping[str, object], files: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._socket, [json.dumps(order).encode()], files)
        except OSError:
            raise self._gone() from None

    def _answer(self, patience: float) -> dict[str, object]:
        """The next message that is an answer."""
        until = time.monotonic() + patience
        while (answer := self._hear(until - time.monotonic())) is not None:
            if "input" in answer:
                raise InputError(str(answer["input"]), code=str(answer["code"]))
            if "failure" in answer:
                raise Failure(f"{self.what} cannot be started: {answer['failure']}")
            if "gone" not in answer:
                return answer
        raise Failure(
            f"{self.what} cannot be started: their server did not answer in {patience:g} s{self._last_words()}"
        )

    def _hear(self, patience: float) -> dict[str, object] | None:
        """The next message, None if there is none in time. What it says of ended processes is remembered."""
        try:
            if not select.select([self._socket], [], [], max(patience, 0.0))[0]:
                return None
            text = self._socket.recv(MESSAGE_BYTES)
        except OSError:
            text = b""
        if not text:
            raise self._gone()
        message: dict[str, object] = json.loads(text)
        if "gone" in message:
            self._codes[int(str(message["gone"]))] = int(str(message["code"]))
        return message

    def _gone(self) -> Failure:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)
        code = self.process.returncode
        return Failure(f"the server of {self.what} is gone (exit {code}){self._last_words()}; nothing was left running")

    def _last_words(self) -> str:
        """The last line it wrote to its standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def main() -> None:
    """The server's side. Arguments: the descriptor of its socket, sys.path, its owner, target, preload and arguments."""
    orders, owner = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner decides
    try:
        warnings.simplefilter("ignore")
        target = _function(sys.argv[4])
        _function(sys.argv[5])(*json.loads(sys.argv[6]))
    except InputError as error:
        orders.send(json.dumps({"input": str(error), "code": error.code}).encode())
        return
    except Exception as error:
        orders.send(json.dumps({"failure": f"{type(error).__name__}: {error}"}).encode())
        return
    gc.freeze()  # what is loaded stays shared with what is forked
    orders.send(b'{"ready": true}')
    _Server(orders, owner, target).serve()


def _function(name: str) -> Callable[..., int | None]:
    module, _, attribute = name.partition(":")
    found: Callable[..., int | None] = getattr(import_module(module), attribute)
    return found


class _Server:
    """Forks, kills and collects processes, one order at a time."""

    def __init__(self, orders: socket.socket, owner: int, target: Callable[..., int | None]) -> None:
        self.orders, self.owner, self.target = orders, owner, target
        self.pids: set[int] = set()
        self.ends: deque[bytes] = deque()  # of processes; told when the socket has room
        self.wake, self.wake_end = os.pipe()
        for end in (self.wake, self.wake_end):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_end, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until the owner is gone."""
        try:
            while os.getppid() == self.owner:
                ready, _, _ = select.select([self.orders.fileno(), self.wake], [], [], LOOK_SECONDS)
                if self.wake in ready:
                    os.read(self.wake, 4096)
                self._collect()
                if self.orders.fileno() in ready:
                    text, files, _, _ = socket.recv_fds(self.orders, MESSAGE_BYTES, MOST_FILES)
                    if not text:
                        return
                    self._obey(json.loads(text), files)
        except OSError:
            return  # the owner hung up while it was spoken to
        finally:
            for pid in self.pids:
                self._kill(pid)
            for pid in self.pids:
                os.waitpid(pid, 0)

    def _obey(self, order: dict[str, object], files: list[int]) -> None:
        if "kill" in order:
            self._kill(int(str(order["kill"])))
            return
        try:
            answer: dict[str, object] = {"pid": self._fork(order["fork"], files)}
        except OSError as error:
            answer = {"failure": f"the system has no room for another process ({error.strerror})"}
        for file in files:
            os.close(file)
        self.orders.send(json.dumps(answer).encode())

    def _fork(self, values: object, files: list[int]) -> int:
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._become_process(server)
                code = self.target(values, files) or 0
            finally:
                os._exit(code)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # here and in the process: whoever is first
        self.pids.add(pid)
        return pid

    def _become_process(self, server: int) -> None:
        """A group of its own, default signals, none of the server's descriptors."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it died before that was said
            os._exit(1)
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        self.orders.close()
        for end in (self.wake, self.wake_end):
            os.close(end)

    def _kill(self, pid: int) -> None:
        """It and what it started. It is collected later: one that is held to next to nothing dies slowly."""
        if pid in self.pids:
            for end in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    end(pid, signal.SIGKILL)

    def _collect(self) -> None:
        """Those that ended, and what they left behind."""
        for pid in list(self.pids):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                self.pids.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                self.ends.append(json.dumps({"gone": pid, "code": code}).encode())
        with contextlib.suppress(BlockingIOError):
            while self.ends:
                self.orders.send(self.ends[0], socket.MSG_DONTWAIT)
                self.ends.popleft()
