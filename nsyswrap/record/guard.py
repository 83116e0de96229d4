"""A script that ends a run whose nsyswrap was killed, so that no process goes on and nothing leaks.

It runs beside nsys. Its arguments are the run's mark and its two private folders. Its stdin is a pipe that
only nsyswrap holds; nsyswrap writes the process id of nsys and, at the end, ``DONE``. If the pipe closes
without ``DONE``, the script ends the program, and nsys writes its report as at any end: nsys itself is not
signalled, as this would destroy the report that it imports. What does not end in time is killed. The script
imports the standard library only, so that it starts at once.

A fork of the script takes over if the script is killed, too. Without folders the script guards a command,
which gets SIGTERM.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

MARK = "NSYSWRAP_RUN_MARK"  # the variable that every process of a run has in its environment
DONE = b"done"
LOG = "nsys.log"  # in the temporary folder: the output of nsys
OUT = "out"  # in the temporary folder: a link to the folder for nsys' report
WRITING = b"Generating '"  # nsys prints it when the recording ends
RECORDINGS = (".nsys-rep", ".sqlite", ".qdstrm")  # the files that nsys makes of a run
STOP_PROGRAM_S = 15  # a program that ignores its signal is killed after this, so that nsys can write
STOP_NSYS_S = 300  # nsys is killed after this time without output: a large report takes long
IDLE_S = 10  # an nsys without a program that does nothing for this long waits in vain
ANSWER_S = 10  # one that still does nothing after a SIGQUIT is killed after this
HUNG_S = 60  # an nsys that does nothing for this long is killed
_LEFT = "nsys-report-"  # prefix of files that nsys could not move to their place
_SETTLE_S = 1  # a command gets its signal after this, unless the kernel has sent one
_AGAIN_S = 5  # a command gets a second signal after this
_QUIET_S = 1  # a new process has its mark within this time
_ORPHAN_S = 0.2  # the kernel closes the files of a process just before it looks for another parent
_LEAVE_S = 5  # the helpers of nsys get this long to end by themselves
_POLL_S = 0.05
_LOOK_S = 1.0
_PARENT, _USER_TICKS, _SYSTEM_TICKS, _BEGAN = 1, 11, 12, 19  # fields of /proc/PID/stat after the name
# What an nsys that waits uses at most: its agent takes 1 % of a core, and writes 2 kB/s.
_WAITING_CPU, _WAITING_BYTES_S = 0.05, 50_000
_STARVED = 0.5  # share of its time that a thread with work to do waits for a busy CPU
# Folders of nsys' own programs. Those of the program are never in one of these.
_NSYS_FOLDERS = ("target-linux-", "host-linux-", "linux-desktop-")


def bound_to_us(argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv``, which gets SIGTERM when this process dies, even by SIGKILL."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("bound.py")), str(os.getpid()), *argv]


class RunProcesses:
    """The living processes of a run: those with its mark in their environment, and their descendants.

    A process that clears its environment is recognized if its parent lived at one of the calls.
    """

    def __init__(self, token: str) -> None:
        self._mark = f"{MARK}={token}".encode()
        self._known: dict[int, bytes] = {}  # process id -> start time

    def living(self) -> list[int]:
        """Return the process ids."""
        processes = Path("/proc").glob("[0-9]*")
        stats = {int(path.name): _read(path / "stat").rpartition(b")")[2].split() for path in processes}
        alive = {pid: stat for pid, stat in stats.items() if stat and stat[0] != b"Z"}
        members = {pid for pid, began in self._known.items() if pid in alive and alive[pid][_BEGAN] == began}
        members |= {pid for pid in alive if self._mark in _read(Path(f"/proc/{pid}/environ"))}
        while more := {pid for pid, stat in alive.items() if int(stat[_PARENT]) in members} - members:
            members |= more
        self._known = {pid: alive[pid][_BEGAN] for pid in members}
        return sorted(members)


def kill(pids: Iterable[int]) -> None:
    """Kill processes, as ``signal_all`` does."""
    signal_all(pids, signal.SIGKILL)


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes; one that has ended or is of another user is ignored."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def is_program(pid: int, nsys: Collection[int]) -> bool:
    """Return True if a process of a run is neither ``nsys`` nor one of its helpers, by its executable.

    False for one that has ended since it was listed.
    """
    try:
        executable = Path(f"/proc/{pid}/exe").readlink()
    except PermissionError:  # of another user: nsys and its helpers are our own
        return True
    except OSError:
        return False
    is_own = executable.name.startswith(("nsys", "QdstrmImporter")) or any(
        part.startswith(_NSYS_FOLDERS) for part in executable.parts
    )
    return pid not in nsys and not is_own


class IdleWatch:
    """Tells for how long nsys has done nothing: used no CPU, written nothing, printed nothing.

    ``temporary`` is its private folder. An nsys that waits for a CPU or for a disk works.
    """

    def __init__(self, temporary: Path) -> None:
        self._temporary = temporary
        self._bytes = 0
        self._busy_ns: dict[Path, tuple[int, int]] = {}  # thread -> time on a CPU, time in wait of one
        self.restart()

    def restart(self) -> float:
        """Begin again, as while the program runs; return 0."""
        self._at, self._idle_s, self._busy_ns = time.monotonic(), 0.0, {}
        return 0.0

    def idle_s(self, nsys: Iterable[int]) -> float:
        """Return the time in seconds. To be called often: it looks at these processes once a second."""
        passed_s = time.monotonic() - self._at
        if passed_s < _LOOK_S:
            return self._idle_s
        self._at += passed_s
        threads = [thread for pid in nsys for thread in _children(Path(f"/proc/{pid}/task"))]
        busy_ns = {thread: _busy_ns(thread) for thread in threads}
        gains = [_gain(self._busy_ns.get(thread, (0, 0)), now) for thread, now in busy_ns.items()]
        cpu_s, wait_s = (sum(gain[at] for gain in gains) / 1e9 for at in (0, 1))
        size = sum(map(_size, (self._temporary / LOG, *recordings(self._temporary))))
        size += sum(map(_size, recordings(self._temporary / OUT)))
        works = (
            cpu_s > _WAITING_CPU * passed_s
            or cpu_s + wait_s > _STARVED * passed_s
            or size - self._bytes > _WAITING_BYTES_S * passed_s
            or any(state(thread) in (b"D", b"R") for thread in threads)
        )
        self._busy_ns, self._bytes = busy_ns, size
        # A single look can mislead on a busy machine. The pauses of a job that was stopped do not count.
        idle_s = self._idle_s - 3 * _LOOK_S if works else self._idle_s + min(passed_s, 2 * _LOOK_S)
        self._idle_s = max(0.0, idle_s)
        return self._idle_s


def misses_end(nsys: Collection[int], programs: Collection[int], log: bytes, idle_s: float) -> bool:
    """Return True if nsys waits for the end of a program that has ended, as if its launcher was killed.

    It then writes its report at a SIGQUIT.
    """
    return bool(nsys) and not programs and WRITING not in log and idle_s > IDLE_S


def _gain(before: tuple[int, int], now: tuple[int, int]) -> tuple[int, int]:
    return max(0, now[0] - before[0]), max(0, now[1] - before[1])


def _busy_ns(thread: Path) -> tuple[int, int]:
    """Return for how long a thread was on a CPU, and waited for one; the second is 0 if it is not known."""
    if words := _read(thread / "schedstat").split():
        return int(words[0]), int(words[1])
    if stat := _read(thread / "stat").rpartition(b")")[2].split():
        ticks = int(stat[_USER_TICKS]) + int(stat[_SYSTEM_TICKS])
        return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK"), 0
    return 0, 0


def state(process: Path) -> bytes:
    """Return the state of a process or thread: R, S, D, T, Z; empty if it has ended."""
    return _read(process / "stat").rpartition(b")")[2].lstrip()[:1]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def gather(work: Path, temporary: Path, stem: str) -> None:
    """Move the recordings in nsys' temporary folder to ``work``/``stem``.*, unless there is one of that kind.

    A file stays where it is if the move fails, as on a full disk.
    """
    for left in sorted(temporary.glob(f"{_LEFT}*"), key=lambda path: path.stat().st_mtime, reverse=True):
        target = work / f"{stem}{left.suffix}"
        if left.suffix in RECORDINGS and not target.exists():
            left.chmod(0o600)
            part = target.with_name(f".{target.name}.part")  # a kill leaves no half of a recording
            try:
                shutil.move(left, part)
                part.rename(target)
            except OSError:
                with suppress(OSError):
                    part.unlink(missing_ok=True)


def recordings(folder: Path) -> list[Path]:
    """Return the recordings of nsys in a private folder."""
    return sorted(path for path in folder.glob("*") if path.suffix in RECORDINGS)


def remove(folder: Path) -> None:
    """Remove a private folder, except for recordings in it."""
    kept = recordings(folder)
    for path in set(folder.glob("*")) - set(kept):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)


def main(token: str, work: Path, temporary: Path, stem: str, lock: int) -> None:
    """Wait until nsyswrap is done or gone; if it is gone, end the run and clean up.

    ``lock`` is a descriptor of the run folder's lock, which stays locked until then; -1: there is none.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nsyswrap = os.getppid()
    reader, writer = os.pipe()
    fork = os.fork()
    if fork:
        os.close(reader)
        words = _until_closed(0, writer)
    else:
        os.setsid()
        os.close(writer)
        words = _until_closed(reader)
        if DONE not in words.split():  # the other was killed
            words += _until_closed(0)
    if DONE not in words.split():
        time.sleep(_ORPHAN_S)
        pids = [int(word) for word in words.split()]
        _take_over(lock)
        if stem:
            _end_recording(RunProcesses(token), pids, temporary)
            gather(work, temporary, stem)
            _protect(work)
        else:  # if nsyswrap died, the command has a signal from the kernel
            wait_s = _SETTLE_S if os.getppid() == nsyswrap else _AGAIN_S
            _end_command(RunProcesses(token), pids, wait_s)
        remove(temporary)
        remove(work)
        _give_up(lock)
    if fork:
        _tell(writer, DONE)
        os.close(writer)
        os.waitpid(fork, 0)


def _until_closed(descriptor: int, copy: int | None = None) -> bytes:
    """Read until the other end is closed. Write each part to ``copy`` as it comes."""
    words = b""
    while part := os.read(descriptor, 512):
        words += part
        if copy is not None:
            _tell(copy, part)
    return words


def _tell(descriptor: int, words: bytes) -> None:
    with suppress(BrokenPipeError):
        os.write(descriptor, words)


def _rounds(run: RunProcesses) -> Iterator[tuple[float, list[int]]]:
    """Yield the time and the living processes of a run, again and again until none has been seen for a while.

    It is the copy of ``process_watch`` for processes that are not our children.
    """
    alive_at = time.monotonic()
    while (left := run.living()) or time.monotonic() < alive_at + _QUIET_S:
        now = time.monotonic()
        alive_at = now if left else alive_at
        yield now, left
        time.sleep(_POLL_S)


def _end_recording(run: RunProcesses, nsys_pids: Collection[int], temporary: Path) -> None:
    """End the program, and wait until nsys has written its report. ``nsys_pids`` has one process id."""
    watch, stopped, is_asked = IdleWatch(temporary), set[int](), False
    began = nsys_at = printed_at = time.monotonic()
    printed = b""
    for now, left in _rounds(run):
        programs = [pid for pid in left if is_program(pid, nsys_pids)]
        helpers = [pid for pid in left if pid not in programs]
        nsys = [pid for pid in helpers if pid in nsys_pids or _records(pid)]
        nsys_at = now if nsys else nsys_at
        if (output := _read(temporary / LOG)) != printed:
            printed_at, printed = now, output
        _stop([pid for pid in programs if pid not in stopped])
        stopped |= set(programs)
        idle_s = watch.restart() if programs else watch.idle_s(helpers)
        if now > began + STOP_PROGRAM_S:
            kill(programs)
        if misses_end(nsys, programs, output, idle_s) and not is_asked:
            is_asked = True
            signal_all(nsys, signal.SIGQUIT)
            idle_s = watch.restart()
        is_late = now > printed_at + STOP_NSYS_S or now > nsys_at + _LEAVE_S
        if is_late or idle_s > (ANSWER_S if is_asked else HUNG_S):
            kill(nsys or helpers)  # when nsys dies, its agent completes the recording


def _end_command(run: RunProcesses, command_pids: Collection[int], wait_s: float) -> None:
    """End a command with a signal after ``wait_s``, and kill what does not end in time."""
    began = time.monotonic()
    due = began + wait_s
    for now, left in _rounds(run):
        programs = [pid for pid in left if is_program(pid, command_pids)]
        if now > began + HUNG_S or not set(command_pids) & set(left):
            kill(left)
        elif now > began + STOP_PROGRAM_S:
            kill(programs)
        elif now > due and programs:
            _stop(command_pids)
            due = now + _AGAIN_S


def _records(pid: int) -> bool:
    """Return True for nsys itself and its importer, False for its agent and its launcher."""
    try:
        name = Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return False
    is_agent = b"--start-agent" in _read(Path(f"/proc/{pid}/cmdline"))
    return name.startswith("QdstrmImporter") or (name == "nsys" and not is_agent)


def _stop(pids: Collection[int]) -> None:
    """Send SIGTERM, and SIGCONT to what is stopped and cannot handle it."""
    signal_all(pids, signal.SIGTERM)
    signal_all(pids, signal.SIGCONT)


def _protect(folder: Path) -> None:
    """Take the rights of group and others from the files of nsys, which it gives them."""
    for path in folder.rglob("*"):
        with suppress(OSError):
            if not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)


def _take_over(lock: int) -> None:
    if lock >= 0:
        holder = f"{os.uname().nodename}, process {os.getpid()}".encode()
        with suppress(OSError):  # a full disk
            os.pwrite(lock, holder, 0)  # first, so that a reader never finds the file empty
            os.ftruncate(lock, len(holder))


def _give_up(lock: int) -> None:
    if lock >= 0:
        with suppress(OSError):  # it is removed already
            Path(f"/proc/self/fd/{lock}").readlink().unlink()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
