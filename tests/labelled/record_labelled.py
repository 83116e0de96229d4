"""Record the labelled programs under nsys. Needs a GPU, nvcc, torch and nsys.

python3 tests/labelled/record_labelled.py [NAME]... runs the programs named, or all that this machine has
GPUs for, one after another. It writes a redacted, compressed export of each, and a log of what they printed.
--held-out records the programs in held_out/. A program that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import lzma
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from labels import FOLDERS, HERE, Label, read_labels

sys.path.append(str(HERE.parent / "support"))
import record

from nsyswrap.base.run_folder import EXPORT
from nsyswrap.capture import redact

LARGEST_KB = 300
TIMEOUT_S = 150
LOG = "record.log"
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
    parser.add_argument("--held-out", action="store_true", help="record held_out/")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the captures go")
    options = parser.parse_args()
    folder = FOLDERS[options.held_out]
    labels = read_labels(folder)
    if unknown := set(options.names) - labels.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    out = options.out or folder / "captures"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, (out / LOG).open("a", encoding="utf-8") as log:
        rows = [record_one(labels[name], Path(work), out, log) for name in options.names or labels]
    print(f"{'NAME':<28}{'exit':>5} {'seconds':>8} {'KB':>7} {'kernels':>8}")
    print("\n".join(row.text() for row in rows))


def record_one(label: Label, work: Path, out: Path, log: TextIO) -> Row:
    """Run one program under nsys and keep its export; a failure becomes the row's note."""
    if label.gpus > (gpus := count_gpus()):
        return Row(label.name, None, 0, note=f"skipped: needs {label.gpus} GPUs, {gpus} found")
    print(f"{label.name} ...", flush=True)
    started = time.perf_counter()
    run = work / label.name
    code, output = profile(label, run)
    log.write(f"==== {label.name}: exit {code}\n{output}\n")
    log.flush()
    row = Row(label.name, code, time.perf_counter() - started)
    if not (run / EXPORT).exists():
        last = [line for line in output.splitlines() if line.strip()][-1:]
        row.note = f"no export: {' '.join(last)[:120]}"
        return row
    try:
        keep(run / EXPORT, out / f"{label.name}.sqlite.xz", row)
    except Exception as error:  # noqa: BLE001 - the other programs are recorded anyway
        row.note = f"not kept: {error!r}"
    return row


def profile(label: Label, run: Path) -> tuple[int | None, str]:
    """Record a program as a user would; return the exit code, None if it took too long, and all output."""
    command = [sys.executable, "-m", "nsyswrap", "profile", "--output", str(run), "--no-stats"]
    command += ["--timeout", str(TIMEOUT_S), *(["--trace", label.trace] if label.trace else [])]
    command += ["--", str(label.program), *label.arguments]
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=2 * TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def keep(export: Path, target: Path, row: Row) -> None:
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
    if row.code != 0:
        row.note = "not kept: the program failed"
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
