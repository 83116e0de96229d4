"""Runs of `nsyswrap profile` that are killed at random moments, or repeated many times, with the real nsys.

    python tests/support/endurance.py kill --count 500 --shard 1/2    # every second of 500 seeded moments
    python tests/support/endurance.py repeat --count 1000

Each run has a folder with a TMPDIR of its own and secrets planted in its environment. What must hold is in
``broken_promises``; the first run that breaks one ends the command with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT, STATUS, WORK, RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARK = "NSYSWRAP_TEST_RUN"  # stands in the environment of all that a run starts
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PROGRAM = "import sys, time; print('ready', flush=True); time.sleep(0.5); sys.exit(4)"
LIVES_S = {"nsyswrap": 3.0, "nsys": 2.5, "program": 0.7}  # on a machine with little to do
ENDS_WITHIN_S = 90.0
_HOLDS_ENVIRONMENT = {REPORT, RECORDING}  # nsys' own formats: nothing can take it out of them


@dataclass(frozen=True)
class Moment:
    """When which process of a run gets which signal: ``after_s`` after it was started.

    ``discard``: the run keeps no .nsys-rep.
    """

    number_of: int
    after_s: float
    victim: str
    number: signal.Signals
    discard: bool


def moments(seed: int, count: int) -> list[Moment]:
    """Return moments that are the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    made = []
    for i in range(count):
        victim = chance.choice(list(LIVES_S))
        after_s, number = chance.uniform(0, LIVES_S[victim]), chance.choice(SIGNALS)
        made.append(Moment(i, after_s, victim, number, discard=chance.random() < 0.5))
    return made


class Endured:
    """One run in a folder of its own: its secret, its processes and what it left."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.mark, self.secret = folder, uuid.uuid4().hex, f"planted-{uuid.uuid4().hex}"
        self.run = folder / "run"
        (folder / "tmp").mkdir(parents=True)
        self.environment = {
            **environment,
            "TMPDIR": str(folder / "tmp"),
            MARK: self.mark,
            "PLANTED": self.secret,
        }

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Profile a short program."""
        command = ["profile", "--no-stats", "-o", str(self.run), *options, sys.executable, "-c", PROGRAM]
        return subprocess.Popen(
            [sys.executable, "-m", "nsyswrap", *command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
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

    def find(self, victim: str, nsyswrap: subprocess.Popen[bytes]) -> int | None:
        """Wait for the process that is meant, and return it; None where it never was there."""
        while nsyswrap.poll() is None:
            if victim == "nsyswrap":
                return nsyswrap.pid
            for pid, words in self.members().items():
                is_nsys = Path(words[0]).name == "nsys" and "profile" in words
                is_program = words == [sys.executable, "-c", PROGRAM, ""]
                if (victim == "nsys" and is_nsys) or (victim == "program" and is_program):
                    return pid
            time.sleep(0.01)
        return None

    def left_running(self) -> dict[int, list[str]]:
        """Wait for all processes to end; return those that do not."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while (left := self.members()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def holding_secret(self) -> Iterator[Path]:
        """Yield every file of the run that holds the planted value."""
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and self.secret.encode() in path.read_bytes():
                yield path


def readable_by_others(path: Path, root: Path) -> bool:
    """Whether group or others get to a file below ``root`` and may read it."""
    above = [folder for folder in path.parents if folder.is_relative_to(root)]
    return bool(path.stat().st_mode & 0o044) and all(folder.stat().st_mode & 0o011 for folder in above)


def broken_promises(run: Endured, exit_code: int) -> list[str]:
    """Return what a run that ended, however it did, should not have left or said."""
    said = [f"left running: {run.left_running()}"] if run.left_running() else []
    secrets = list(run.holding_secret())
    said += [f"readable by others: {path}" for path in secrets if readable_by_others(path, run.folder)]
    said += [f"a copy: {path}" for path in run.folder.rglob("*part*") if STATUS not in path.name]
    if not (run.run / STATUS).exists():
        return said
    try:
        outcome = RunFolder(run.run).read_status().outcome
    except CaptureError as error:
        return [*said, str(error)]
    if outcome in ("done", "program_failed", "timed_out") and (why := check_export(run.run / EXPORT)):
        said.append(f"{outcome} without a complete export: {why}")
    if exit_code == 0 and outcome != "done":
        said.append(f"exit code 0 of a run that is {outcome}")
    said += [f"not taken out: {path}" for path in secrets if path.name not in _HOLDS_ENVIRONMENT]
    said += [f"private folder left: {path}" for path in run.run.glob(f"{WORK}*")]
    left = [path for path in (run.folder / "tmp").iterdir() if not list(path.glob("nsys-report-*"))]
    return said + [f"temporary file left: {path}" for path in left]


def killed(moment: Moment, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Signal one process of a run at a moment; return the promises that were broken."""
    run = Endured(folder, environment)
    with run.start(*(["--discard-rep"] if moment.discard else [])) as process:
        pid = run.find(moment.victim, process)
        time.sleep(moment.after_s)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, moment.number)
        code = process.wait(ENDS_WITHIN_S)
    never = [] if pid else [f"there was no {moment.victim}: exit code {code}"]
    return never + broken_promises(run, code)


def killed_in_the_end(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Kill nsyswrap as soon as it has written how the run ended; return the promises that were broken."""
    run = Endured(folder, environment)
    with run.start() as process:
        while process.poll() is None and not (run.run / STATUS).exists():
            time.sleep(0.0005)
        process.kill()
        code = process.wait(ENDS_WITHIN_S)
    return broken_promises(run, code)


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
        with run.start() as process:
            code = process.wait(ENDS_WITHIN_S)
        said += [f"run {i}: {promise}" for promise in broken_promises(run, code)]
        said += [f"run {i}: exit code {code}"] if code != 4 else []
        said += [f"run {i}: left in TMPDIR: {path}" for path in (run.folder / "tmp").iterdir()]
    after = leftovers()
    return said + [
        f"{what}: {before[what]} before, {n} after" for what, n in after.items() if n > before[what]
    ]


def main() -> int:
    """Run what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["kill", "repeat"])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="every Nth moment, from the Kth")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nsyswrap-endurance-") as place:
        Path(place).chmod(0o755)
        if asked.what == "repeat":
            broken = repeated(asked.count, Path(place), os.environ)
            print("\n".join(broken) or f"{asked.count} runs: nothing left behind")
            return bool(broken)
        first, step = map(int, asked.shard.split("/"))
        chosen = moments(asked.seed, asked.count)[first - 1 :: step]
        for done, moment in enumerate(chosen, 1):
            if broken := killed(moment, Path(place) / str(done), os.environ):
                print(f"{moment}\n" + "\n".join(broken))
                return 1
            print(f"\r{done} of {len(chosen)}", end="", flush=True)
        print(f"\r{len(chosen)} moments: every promise held")
        return 0


if __name__ == "__main__":
    sys.exit(main())
