"""Record the labelled programs under nsys. Needs a GPU, nvcc, torch and nsys.

python3 tests/labelled/record_labelled.py [NAME]... runs the programs named, or all that this machine has
GPUs for, one on each GPU at a time. It writes a redacted, compressed export of each, what the program told
of itself (``truth.json``), and a log of what they printed. --set chooses a folder beside this file: steps,
busy, gpu_busy, cures, held_out; gpu_busy_held_out is gpu_busy/held_out. A program that fails does not stop
the others.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import queue
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labels import HERE, PROGRAMS, folder_of, read_entries

sys.path.append(str(HERE.parent / "support"))
import record

from nsyswrap.base.run_folder import EXPORT
from nsyswrap.capture import redact

SETS = "steps, busy, gpu_busy, gpu_busy_held_out, cures or held_out"
LARGEST_KB = 300
TIMEOUT_S = 90
LOG = "record.log"
TRUTH = "TRUTH "
TAKING = threading.Lock()
# Events that a fixture does not need: no report reads call chains.
DROPPED_TABLES = ("OSRT_CALLCHAINS", "CUDA_CALLCHAINS")


@dataclass
class Row:
    """What became of one program; ``note`` says what is wrong with its capture."""

    name: str
    code: int | None
    seconds: float
    kilobytes: float = 0
    kernels: int = 0
    note: str = ""

    def text(self) -> str:
        code = "-" if self.code is None else str(self.code)
        numbers = f"{code:>5} {self.seconds:>8.1f} {self.kilobytes:>7.0f} {self.kernels:>8}"
        return f"{self.name:<28}{numbers}  {self.note}".rstrip()


def main() -> None:
    """Record, and print a table of what became of each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--set", default="", metavar="NAME", help=SETS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the captures go")
    options = parser.parse_args()
    folder = folder_of(options.set)
    labels = read_entries(folder)
    if unknown := set(options.names) - labels.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    out = options.out or folder / "captures"
    out.mkdir(parents=True, exist_ok=True)
    free: queue.Queue[int] = queue.Queue()
    gpus = count_gpus()
    for gpu in range(gpus):
        free.put(gpu)
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(max(gpus, 1)) as pool:

        def record(name: str) -> Row:
            return record_one(Program(name, folder, labels[name]), Path(work), out, (gpus, free))

        # Those of several GPUs first: they wait for all of them.
        names = sorted(options.names or labels, key=lambda name: -labels[name].get("gpus", 1))
        rows = list(pool.map(record, names))
    print(f"{'NAME':<28}{'exit':>5} {'seconds':>8} {'KB':>7} {'kernels':>8}")
    print("\n".join(row.text() for row in rows))


class Program:
    """A program of a set and how its label says it is recorded."""

    def __init__(self, name: str, folder: Path, label: dict[str, Any]) -> None:
        self.name = name
        self.gpus = int(label.get("gpus", 1))
        self._label = label
        programs = folder / PROGRAMS
        self._path = (programs if programs.is_dir() else folder) / label["program"]

    def command(self, run: Path) -> list[str]:
        """Return the command that records it into ``run``, as a user would type it."""
        command = [sys.executable, "-m", "nsyswrap", "profile", "--output", str(run), "--no-stats"]
        command += ["--timeout", str(TIMEOUT_S)]
        command += ["--trace", self._label["trace"]] if self._label.get("trace") else []
        program = [str(self._path)]
        if self._label.get("compile"):
            program = [str(run.with_suffix(".bin"))]
            compiled = [*shlex.split(self._label["compile"]), "-o", *program, str(self._path)]
            subprocess.run(compiled, check=True, capture_output=True)
        return [*command, "--", *program, *self._label.get("arguments", [])]

    @property
    def fails(self) -> bool:
        """Whether the program is meant to fail."""
        return bool(self._label.get("fails"))


def record_one(program: Program, work: Path, out: Path, gpus: tuple[int, queue.Queue[int]]) -> Row:
    """Run one program under nsys and keep its export; a failure becomes the row's note."""
    if program.gpus > gpus[0]:
        note = f"skipped: needs {program.gpus} GPUs, {gpus[0]} found"
        return Row(program.name, None, 0, note=note)
    with TAKING:  # or two programs would each hold one of two GPUs for ever
        mine = [gpus[1].get() for _ in range(program.gpus)]
    started = time.perf_counter()
    run = work / program.name
    try:
        code, output = profile(program, run, mine)
    finally:
        for gpu in mine:
            gpus[1].put(gpu)
    print(f"{program.name} ended", flush=True)
    with (out / LOG).open("a", encoding="utf-8") as log:
        log.write(f"==== {program.name}: exit {code}\n{output}\n")
    row = Row(program.name, code, time.perf_counter() - started)
    if not (run / EXPORT).exists():
        last = [line for line in output.splitlines() if line.strip()][-1:]
        row.note = f"no export: {' '.join(last)[:120]}"
        return row
    try:
        keep(run / EXPORT, out / f"{program.name}.sqlite.xz", row, fails=program.fails)
        told = [line.removeprefix(TRUTH) for line in output.splitlines() if line.startswith(TRUTH)]
        if told:
            (out / f"{program.name}.truth.json").write_text(json.dumps(json.loads(told[-1])) + "\n")
    except Exception as error:  # noqa: BLE001 - the other programs are recorded anyway
        row.note = f"not kept: {error!r}"
    return row


def profile(program: Program, run: Path, gpus: list[int]) -> tuple[int | None, str]:
    """Record a program on these GPUs; return the exit code, None if it took too long, and all output."""
    try:
        done = subprocess.run(
            program.command(run),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=2 * TIMEOUT_S,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(map(str, sorted(gpus)))},
        )
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode(errors="replace")
    except (OSError, subprocess.CalledProcessError) as error:
        return None, str(error)
    return done.returncode, done.stdout.decode(errors="replace")


def keep(export: Path, target: Path, row: Row, *, fails: bool = False) -> None:
    """Redact, trim and compress an export, and complete its row."""
    clean = export.with_name("redacted.sqlite")
    redact.redact(export, clean)
    trim(clean)
    record.name_paths(clean)  # ends with a VACUUM, which removes the deleted bytes
    secrets = redact.secrets_in(clean)
    packed = lzma.compress(clean.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    row.kilobytes = len(packed) / 1000
    with closing(sqlite3.connect(clean)) as db:
        row.kernels = sum(count(db, f"CUPTI_ACTIVITY_KIND_{kind}") for kind in ("KERNEL", "GRAPH_TRACE"))
    if secrets:
        row.note = f"not kept: {', '.join(secret.kind for secret in secrets)} remain"
        return
    if (row.code != 0) != fails:
        row.note = f"not kept: the program ended with {row.code}"
        return
    target.write_bytes(packed)
    if row.kilobytes > LARGEST_KB:
        row.note = f"larger than {LARGEST_KB} KB"


def trim(export: Path) -> None:
    """Delete call chains, and OS calls that ended before the first CUDA call: those of Python's imports."""
    with closing(sqlite3.connect(export)) as db:
        for table in DROPPED_TABLES:
            db.execute(f"DROP TABLE IF EXISTS {table}")
        if count(db, "OSRT_API"):
            first = "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
            db.execute(f"DELETE FROM OSRT_API WHERE end < ({first})")  # noqa: S608 - no input
            if "callchainId" in {row[1] for row in db.execute("PRAGMA table_info(OSRT_API)")}:
                db.execute("UPDATE OSRT_API SET callchainId = 0")
        db.commit()


def count(db: sqlite3.Connection, table: str) -> int:
    """Return the number of rows of a table, 0 if there is no such table."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
        return 0
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - no input


def count_gpus() -> int:
    """Return the number of GPUs that nvidia-smi lists, 0 if it cannot run."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


if __name__ == "__main__":
    main()
