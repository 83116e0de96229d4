"""Runs of `nsyswrap profile` in which one process is ended at a random moment, with the real nsys.

    python tests/support/endurance.py kill --count 500 --shard 1/2    # every second of 500 seeded moments
    python tests/support/endurance.py kill --only nsys:KILL:after     # one cell of the matrix
    python tests/support/endurance.py repeat --count 1000

The cells of the matrix are a process, a signal and a phase of the run. ``expected`` states how each may end,
``broken_promises`` what holds for all of them. Each run has a folder with a TMPDIR and a cache of its own,
and secrets planted in its environment. A failure is repeated three times, to tell it from a busy machine.
"""

import argparse
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT, STATUS, WORK, RunFolder, Status
from nsyswrap.record import guard

MARK = "NSYSWRAP_TEST_RUN"  # stands in the environment of all that a run starts
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PROGRAM = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(0.7); sys.exit(4)"
NSYSWRAP, NSYS, LAUNCHER, AGENT, IMPORTER, ITS_PROGRAM = (
    "nsyswrap", "nsys", "launcher", "agent", "importer", "program",
)  # fmt: skip
GUARD, BOTH_GUARDS, WITH_GUARD, ALL = "guard", "both guards", "nsyswrap and guard", "nsyswrap and both guards"
START, RUNNING, AFTER = "start", "running", "after"  # the phases
LASTS_S = {START: 0.6, RUNNING: 0.65, AFTER: 2.8}  # on a machine with little to do
ENDS_WITHIN_S = 120.0
_HOLDS_ENVIRONMENT = {REPORT, RECORDING}  # nsys' own formats: nothing can take it out of them
_FAILS = 4
_SAYS_NSYS_FAILED = 70


class Ending(NamedTuple):
    """How a run may end: its exit code, the outcome in status.json (None: no file), a part of the message."""

    code: int
    outcome: str | None
    message: str = ""


UNDISTURBED = Ending(_FAILS, "program_failed")


@dataclass(frozen=True)
class Cell:
    """Which process of a run gets which signal in which phase."""

    victim: str
    number: signal.Signals
    phase: str

    def __str__(self) -> str:
        return f"{self.victim}:{self.number.name[3:]}:{self.phase}"


@dataclass(frozen=True)
class Moment:
    """A cell, and when in its phase: ``share`` is between 0 and 1.

    ``discard``: the run keeps no .nsys-rep. ``stats``: nsys makes its tables, too.
    """

    number_of: int
    cell: Cell
    share: float
    discard: bool
    stats: bool


def cells() -> list[Cell]:
    """Return the matrix. Guards end with nsyswrap, so they are killed only; the importer has one phase."""
    ours = product((NSYSWRAP, NSYS, LAUNCHER, AGENT, GUARD), SIGNALS, (START, RUNNING, AFTER))
    made = [Cell(*cell) for cell in ours]
    made += [Cell(IMPORTER, number, AFTER) for number in SIGNALS]
    made += [Cell(ITS_PROGRAM, number, RUNNING) for number in SIGNALS]
    together = product((BOTH_GUARDS, WITH_GUARD, ALL), (START, RUNNING, AFTER))
    made += [Cell(victim, signal.SIGKILL, phase) for victim, phase in together]
    return [cell for cell in made if cell.victim != LAUNCHER or cell.phase != AFTER]  # it has ended by then


def expected(cell: Cell) -> set[Ending]:
    """Return how a run may end: at the start and after the program, a signal can come too early or late."""
    number = cell.number
    late = {UNDISTURBED} if cell.phase == AFTER else set[Ending]()
    if NSYSWRAP in cell.victim and number is signal.SIGKILL:
        killed = {Ending(-number, None)}
        return killed | {Ending(-number, "program_failed"), *late} if cell.phase == AFTER else killed
    if cell.victim == NSYSWRAP:
        stopped = {Ending(128 + number, "interrupted", f"stopped by {number.name}")}
        # By the signal, as a command without a run, or as Python ends at Ctrl-C, also while it starts.
        codes = (-number, 128 + number, 130, 1)
        too_early = {Ending(code, None) for code in codes} if cell.phase == START else set[Ending]()
        too_late = {Ending(-number, "program_failed"), Ending(130, "program_failed")} if late else late
        return stopped | too_early | too_late | late
    if cell.victim == ITS_PROGRAM:
        return {Ending(128 + number, "program_failed")}
    if cell == Cell(LAUNCHER, number, START) and number is not signal.SIGKILL:  # before it ignores signals
        return {UNDISTURBED, Ending(_SAYS_NSYS_FAILED, "nsys_failed", "nsys did not start")}
    if number is not signal.SIGKILL or cell.victim in (GUARD, BOTH_GUARDS, IMPORTER):
        return {UNDISTURBED}
    early = {UNDISTURBED} if cell.phase == START and cell.victim != NSYS else set[Ending]()  # it starts again
    words = {NSYS: "killed by signal 9|export", LAUNCHER: "did not notice that|export|start"}
    return {Ending(_SAYS_NSYS_FAILED, "nsys_failed", words.get(cell.victim, "agent|export"))} | late | early


def moments(seed: int, count: int, chosen: Sequence[Cell] = ()) -> list[Moment]:
    """Return moments that are the same for the same seed, each cell as often as the others."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    order = list(chosen or cells())
    chance.shuffle(order)
    return [
        Moment(i, order[i % len(order)], chance.random(), chance.random() < 0.3, chance.random() < 0.3)
        for i in range(count)
    ]


class Endured:
    """One run in a folder of its own: its secret, its processes and what it left."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.mark, self.secret = folder, uuid.uuid4().hex, f"planted-{uuid.uuid4().hex}"
        self.run = folder / "run"
        (folder / "tmp").mkdir(parents=True)
        self.environment = {
            **environment,
            "TMPDIR": str(folder / "tmp"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            MARK: self.mark,
            "PLANTED": self.secret,
        }

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Profile a short program, which prints its process id."""
        command = ["profile", "-o", str(self.run), *options, sys.executable, "-c", PROGRAM]
        return subprocess.Popen(
            [sys.executable, "-m", "nsyswrap", *command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def members(self) -> dict[int, list[str]]:
        """The living processes of the run, with their command lines."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes():
                    found[int(path.name)] = (path / "cmdline").read_text(errors="replace").split("\0")
        return found

    def find(self, victim: str, nsyswrap: subprocess.Popen[bytes]) -> list[int]:
        """Wait for the processes that are meant, and return them; empty if nsyswrap ended before."""
        while nsyswrap.poll() is None:
            if pids := self._of_kind(victim, nsyswrap.pid):
                return pids
            time.sleep(0.005)
        return []

    def _of_kind(self, victim: str, nsyswrap: int) -> list[int]:
        if victim == NSYSWRAP:
            return [nsyswrap]
        members = self.members()
        guards = sorted(pid for pid, words in members.items() if guard.__file__ in words)
        if victim in (GUARD, BOTH_GUARDS, WITH_GUARD, ALL):
            wanted = 2 if victim in (BOTH_GUARDS, ALL) else 1
            own = [nsyswrap] if NSYSWRAP in victim else []
            return [*own, *guards[:wanted]] if len(guards) == 2 else []
        return [pid for pid, words in members.items() if _kind(pid, words) == victim]

    def left_running(self) -> dict[int, list[str]]:
        """Wait for all processes to end; return those that do not."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while (left := self.members()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def holding_secret(self) -> Iterator[Path]:
        """Yield every file of the run that holds the planted value."""
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and self.secret.encode() in path.read_bytes():
                yield path

    def report(self, what: Path) -> subprocess.CompletedProcess[str]:
        """Run `nsyswrap report` as a user does."""
        command = [sys.executable, "-c", "from nsyswrap.cli import main; main()", "report", str(what)]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )


def _kind(pid: int, words: list[str]) -> str:
    """Return which process of nsys this is; empty for others."""
    try:
        name = Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""
    if name == "nsys":
        return AGENT if "--start-agent" in words else NSYS if PROGRAM in words else ""  # not for its --help
    if name == "nsys-launcher":
        return LAUNCHER if words[0].endswith("nsys-launcher") and os.getpgid(pid) != pid else ""
    if name == "QdstrmImporter":
        return IMPORTER
    return ITS_PROGRAM if words[:3] == [sys.executable, "-c", PROGRAM] else ""


def readable_by_others(path: Path, root: Path) -> bool:
    """Whether group or others get to a file below ``root`` and may read it."""
    above = [folder for folder in path.parents if folder.is_relative_to(root)]
    return bool(path.stat().st_mode & 0o044) and all(folder.stat().st_mode & 0o011 for folder in above)


def broken_promises(
    run: Endured, exit_code: int, *, is_abandoned: bool = False, is_early: bool = False
) -> list[str]:
    """Return what a run that ended, however it did, should not have left or said.

    ``is_abandoned``: nobody was left to clean up. ``is_early``: the guard may not have begun.
    """
    said = [f"left running: {left}"] if (left := run.left_running()) else []
    secrets = list(run.holding_secret())
    said += [f"readable by others: {path}" for path in secrets if readable_by_others(path, run.folder)]
    said += [f"a copy: {path}" for path in run.folder.rglob("*part*") if STATUS not in path.name]
    if not is_abandoned:
        said += [
            f"mode {path.stat().st_mode & 0o777:o}: {path}"
            for path in (run.run, *run.run.rglob("*"))
            if path.exists() and path.stat().st_mode & 0o077
        ]
        left_in = [path for path in (run.folder / "tmp").iterdir() if not list(path.glob("nsys-report-*"))]
        left_in = [path for path in left_in if not (is_early and _is_empty(path))]
        said += [f"temporary file left: {path}" for path in left_in]
    is_left = (run.run / STATUS).exists()
    named = _HOLDS_ENVIRONMENT if is_left else {*_HOLDS_ENVIRONMENT, EXPORT}
    in_work = [path for path in secrets if path.parent.name.startswith(WORK)]
    loose = [path for path in secrets if path not in in_work] if is_abandoned else secrets
    said += [f"not taken out: {path}" for path in loose if path.name not in named]
    said += [f"not taken out: {path}" for path in secrets if path == run.run / EXPORT]
    if not is_left:
        return said
    try:
        status = RunFolder(run.run).read_status()
    except CaptureError as error:
        return [*said, str(error)]
    said += [f"private folder left: {path}" for path in run.run.glob(f"{WORK}*")]
    return said + _false_words(run, exit_code, status)


def _is_empty(folder: Path) -> bool:
    """Return True if a folder holds no files, but folders and links at most."""
    return not any(path.is_file() and not path.is_symlink() for path in folder.rglob("*"))


def _false_words(run: Endured, exit_code: int, status: Status) -> list[str]:
    """Return what a status says that is not so."""
    said = []
    if status.outcome in ("done", "program_failed", "timed_out") and (why := check_export(run.run / EXPORT)):
        said.append(f"{status.outcome} without a complete export: {why}")
    if exit_code == 0 and status.outcome != "done":
        said.append(f"exit code 0 of a run that is {status.outcome}")
    if status.outcome == "nsys_failed" and status.program_code not in (None, _FAILS):
        said.append(f"the program did not end with {status.program_code}")
    return said


def unreadable(run: Endured, cell: Cell) -> list[str]:
    """Return what is wrong with what `nsyswrap report DIR` says: it reads the run, or it says why not.

    It may not read a run that was killed at its start, or whose nsys was killed. The command that a message
    names has to work.
    """
    done = run.report(run.run)
    if done.returncode == 0:
        return []
    said = " ".join(done.stderr.split())
    if commands := re.findall(r"nsyswrap (report [^\s;]+)", said):
        failed = [words for words in commands if run.report(Path(shlex.split(words)[1])).returncode]
        return [f"named, but does not work: {words}: {said}" for words in failed]
    lost = "it left no recording|not found|nsys cannot import it|cannot be imported|this run has no export"
    excused = cell.phase == START or (cell.victim in (NSYS, AGENT) and cell.number is signal.SIGKILL)
    return [] if excused and re.search(lost, said) else [f"not read: exit code {done.returncode}, {said}"]


def killed(moment: Moment, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Signal one process of a run at a moment; return the promises that were broken."""
    run, cell = Endured(folder, environment), moment.cell
    options = [*(["--discard-rep"] if moment.discard else []), *([] if moment.stats else ["--no-stats"])]
    with run.start(*options) as process:
        _wait_for(cell.phase, process)
        pids = run.find(cell.victim, process)
        time.sleep(moment.share * _lasts_s(cell))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, cell.number)
        code = process.wait(ENDS_WITHIN_S)
        if process.stdout:
            process.stdout.close()
    is_early = cell == Cell(NSYSWRAP, signal.SIGKILL, START)
    said = broken_promises(run, code, is_abandoned=cell.victim == ALL, is_early=is_early)
    allowed = expected(cell) if pids else {UNDISTURBED}  # it had ended
    if not any(_is(run, code, ending) for ending in allowed):
        status = (run.run / STATUS).read_text() if (run.run / STATUS).exists() else "no status"
        said.append(f"exit code {code}, {status}; expected {allowed}")
    return said + unreadable(run, cell)


def _lasts_s(cell: Cell) -> float:
    """Return how long the phase of a cell lasts. nsys and nsyswrap take longer on a busy machine."""
    busy = min(4.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
    if cell.victim == IMPORTER:
        return 0.4
    return LASTS_S[cell.phase] * (busy if cell.phase == AFTER else 1)


def killed_in_the_end(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Kill nsyswrap as soon as it has written how the run ended; return the promises that were broken."""
    run = Endured(folder, environment)
    with run.start("--no-stats") as process:
        while process.poll() is None and not (run.run / STATUS).exists():
            time.sleep(0.0005)
        process.kill()
        process.communicate(timeout=ENDS_WITHIN_S)
    return broken_promises(run, process.returncode)


def _wait_for(phase: str, nsyswrap: subprocess.Popen[bytes]) -> None:
    """Wait for the begin of a phase: the first line of the program, or its end."""
    if phase == START or nsyswrap.stdout is None:
        return
    line = nsyswrap.stdout.readline()
    while phase == AFTER and line.strip().isdigit() and Path(f"/proc/{int(line)}/stat").exists():
        time.sleep(0.002)


def _is(run: Endured, code: int, ending: Ending) -> bool:
    if code != ending.code or (run.run / STATUS).exists() == (ending.outcome is None):
        return False
    if ending.outcome is None:
        return True
    status = RunFolder(run.run).read_status()
    return status.outcome == ending.outcome and bool(re.search(ending.message, status.message))


def leftovers() -> dict[str, int]:
    """Count what a process of ours could leave on the machine: semaphores, and our own descriptors."""
    others = ("NSys", "nsyswrap-fuzz-")  # of nsys, and of tests that run at the same time
    mine = [path for path in Path("/dev/shm").iterdir() if not any(name in path.name for name in others)]  # noqa: S108
    return {"/dev/shm": len(mine), "descriptors": len(list(Path("/proc/self/fd").iterdir()))}  # noqa: S108


def repeated(count: int, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Profile again and again from this process; return what is left behind of it."""
    before = leftovers()
    said: list[str] = []
    for i in range(count):
        run = Endured(folder / f"{i}", environment)
        with run.start("--no-stats") as process:
            process.communicate(timeout=ENDS_WITHIN_S)
        code = process.returncode
        said += [f"run {i}: {promise}" for promise in broken_promises(run, code)]
        said += [f"run {i}: exit code {code}"] if code != _FAILS else []
        said += [f"run {i}: left in TMPDIR: {path}" for path in (run.folder / "tmp").iterdir()]
    after = leftovers()
    return said + [
        f"{what}: {before[what]} before, {n} after" for what, n in after.items() if n > before[what]
    ]


def _many(chosen: Sequence[Moment], place: Path) -> int:
    """Make these runs. Print each that broke a promise, and how often it does so again; return how many."""
    broken = Counter[str]()
    for done, moment in enumerate(chosen, 1):
        folder = place / str(done)
        if said := killed(moment, folder, os.environ):
            again = [killed(moment, place / f"{done}-{i}", os.environ) for i in range(3)]
            often = sum(map(bool, again))
            print(f"\r{moment}: {often} of 3 again, load {os.getloadavg()[0]:.1f}", *said, sep="\n  ")
            broken[f"{moment.cell}, {'again' if often else 'once'}"] += 1
        else:
            subprocess.run(["rm", "-rf", folder], check=True)
        print(f"\r{done} of {len(chosen)}, {broken.total()} broken", end="", flush=True)
    print(f"\r{len(chosen)} moments, load {os.getloadavg()[0]:.1f}: {dict(broken) or 'every promise held'}")
    return broken.total()


def main() -> int:
    """Run what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["kill", "repeat"])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="every Nth moment, from the Kth")
    parser.add_argument("--only", default="", metavar="VICTIM:SIGNAL:PHASE", help="cells that begin so")
    asked = parser.parse_args()
    for number in SIGNALS[1:]:  # a shell ignores some in the background, and what we start would inherit it
        signal.signal(number, signal.SIG_DFL)
    with tempfile.TemporaryDirectory(prefix="nsyswrap-endurance-") as place:
        Path(place).chmod(0o755)
        if asked.what == "repeat":
            broken = repeated(asked.count, Path(place), os.environ)
            print("\n".join(broken) or f"{asked.count} runs: nothing left behind")
            return bool(broken)
        first, step = map(int, asked.shard.split("/"))
        wanted = [cell for cell in cells() if str(cell).startswith(asked.only)]
        return bool(_many(moments(asked.seed, asked.count, wanted)[first - 1 :: step], Path(place)))


if __name__ == "__main__":
    sys.exit(main())
