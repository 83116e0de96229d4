"""Run nsyswrap's commands in forks of a process that has done the imports, most of the time of a command.

Each command still is a process of its own: it has its own folder, environment, streams and exit status.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import pty
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from waiting import PATIENCE_S, give_tools_time

SERVE = "import sys, warm_cli; warm_cli.serve(int(sys.argv.pop()))"
_LENGTH = 8  # bytes, before each request
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MPL")  # variables of Python and libraries
_PIPE_BYTES = 60_000  # a pipe takes as much at once
_PACKAGES = ("base", "cli", "render", "reports", "analysis", "capture")
_LATER = ("rich.console", "rich.styled", "getpass")


class WarmCli:
    """The process, on the side of the tests. ``environment`` is what all commands have in common.

    ``prefix`` begins its command line.
    """

    def __init__(self, environment: dict[str, str], prefix: Sequence[str] = ()) -> None:
        self._environment = environment
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        path = os.pathsep.join((str(Path(__file__).parent), environment.get("PYTHONPATH", "")))
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-c", SERVE, str(theirs.fileno())],
            env={**environment, "PYTHONPATH": path},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        theirs.close()

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait(PATIENCE_S)

    def can_run(self, words: list[str], stdin: str, variables: dict[str, str]) -> bool:
        """Return True if a command with this input and these variables would do the same as a new process."""
        if "plot" in words and any(name == "HOME" or name.startswith("XDG_") for name in variables):
            return False  # matplotlib has looked for its folder
        return len(stdin) < _PIPE_BYTES and not any(name.startswith(_READ_AT_START) for name in variables)

    def run(
        self, arguments: list[str], folder: Path, stdin: str, variables: dict[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one command, as subprocess.run does."""
        (stdin_end, feed), (out, stdout_end), (err, stderr_end) = (os.pipe() for _ in range(3))
        os.write(feed, stdin.encode())
        os.close(feed)
        told = self.start(arguments, folder, variables, [stdin_end, stdout_end, stderr_end])
        with told as status, ThreadPoolExecutor(2) as threads:
            pid, late = int(status.readline()), threading.Event()

            def kill() -> None:
                late.set()
                os.kill(pid, signal.SIGKILL)

            timer = threading.Timer(timeout_s, kill)
            timer.start()
            stdout, stderr = threads.map(_text, (out, err))
            code = int(status.readline())
            timer.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(arguments, timeout_s, stdout, stderr)
        return subprocess.CompletedProcess(arguments, code, stdout, stderr)

    def at_terminal(
        self, arguments: list[str], folder: Path, variables: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run one command on a terminal; stdout is all that the terminal gets, as it gets it."""
        ours, theirs = pty.openpty()
        streams = [os.open(os.devnull, os.O_RDONLY), theirs, os.dup(theirs)]
        with self.start(arguments, folder, variables, streams) as status:
            shown = shown_on(ours)
            _, code = status
        return subprocess.CompletedProcess(arguments, int(code), shown)

    def start(
        self, arguments: list[str], folder: Path, variables: dict[str, str], streams: list[int]
    ) -> IO[str]:
        """Start one command on three descriptors, closed here; return the file of its id and its end."""
        umask = os.umask(0)
        os.umask(umask)
        request = {"arguments": arguments, "folder": str(folder), "umask": umask}
        request["environment"] = {**self._environment, **variables}
        told, tell = os.pipe()
        content = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(content).to_bytes(_LENGTH, "big")], [*streams, tell])
            self._socket.sendall(content)
        for end in (*streams, tell):
            os.close(end)
        return open(told)  # noqa: PTH123 - a descriptor


def shown_on(terminal: int) -> str:
    """Return what a terminal gets until all have closed it."""
    got = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 65536):
            got += part
    os.close(terminal)
    return got.decode(errors="surrogateescape").replace("\r\n", "\n")  # as the terminal's driver writes a \n


def _text(descriptor: int) -> str:
    with open(descriptor) as file:
        return file.read()


def serve(number: int) -> None:
    """Fork for each request on the socket ``number``, until the tests close their end."""
    import matplotlib.backends.backend_agg  # noqa: F401, PLC0415
    import pandas  # noqa: F401, ICN001, PLC0415

    import nsyswrap  # noqa: PLC0415

    for package in _PACKAGES:  # what commands import when they first use it
        [folder] = [path / package for path in map(Path, nsyswrap.__path__)]
        for module in pkgutil.walk_packages([str(folder)], f"nsyswrap.{package}."):
            importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
    give_tools_time()
    nsyswrap.base.version.version()  # asks git once
    sys.path.remove(str(Path(__file__).parent))
    gc.freeze()
    commands: dict[int, tuple[int, int]] = {}  # by the descriptor of a process: its id, and where to tell
    with socket.socket(fileno=number) as requests, selectors.PollSelector() as ready:
        ready.register(requests, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select():
                if key.fileobj is not requests:
                    ready.unregister(key.fd)
                    _tell_end(key.fd, *commands.pop(key.fd))
                elif head_and_files := _head(requests):
                    others = [*commands, *(tell for _, tell in commands.values())]
                    process, pid, tell = _started(requests, *head_and_files, others)
                    commands[process] = (pid, tell)
                    ready.register(process, selectors.EVENT_READ)
                else:
                    ready.unregister(requests)


def _head(requests: socket.socket) -> tuple[bytes, list[int]] | None:
    """Return the head of a request and its descriptors; None if there will be no other."""
    head, descriptors, *_ = socket.recv_fds(requests, _LENGTH, 4)
    return (head, descriptors) if head else None


def _started(
    requests: socket.socket, head: bytes, descriptors: list[int], others: list[int]
) -> tuple[int, int, int]:
    """Fork for a request and tell the id of the process; return its descriptor, the id, and where to tell."""
    request = json.loads(_received(requests, int.from_bytes(head, "big")))
    *streams, tell = descriptors
    if (pid := os.fork()) == 0:
        for descriptor in (requests.fileno(), tell, *others):
            os.close(descriptor)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
            os.close(descriptor)
        _run(request)
    for descriptor in streams:
        os.close(descriptor)
    os.write(tell, b"%d\n" % pid)
    return os.pidfd_open(pid), pid, tell


def _tell_end(process: int, pid: int, tell: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it
        os.write(tell, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os.close(tell)
    os.close(process)


def _received(requests: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        content += requests.recv(length - len(content))
    return content


def _run(request: dict[str, Any]) -> NoReturn:
    from nsyswrap.cli import main  # noqa: PLC0415

    atexit._clear()  # noqa: SLF001 - what the imports registered is not this process' own
    os.chdir(request["folder"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    code: object = 1
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - shown, as by the interpreter
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as the interpreter does
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
