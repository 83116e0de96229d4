"""Record the captures that ship with nsyswrap, and what nsys says of them. Needs a GPU, nvcc, torch and nsys.

python tests/record.py [CHECKOUT] runs the scenarios, and writes redacted run folders to nsyswrap/recorded/
and the CSVs of `nsys stats` to tests/data/golden/. Paths of the recording machine are reduced to names.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from nsyswrap import nsys_install, redact, schema
from nsyswrap.folder import EXPORT, PROGRAM_OUTPUT
from nsyswrap.reports import NAMES, find

SCENARIOS = ("add", "add2")
PARITY = tuple(name for name in NAMES if find(name).layer == "parity")
REPORTS = (*PARITY, "cuda_gpu_kern_sum:base", "cuda_gpu_kern_sum:mangled")


def main() -> None:
    """Record everything into the checkout named, or into this one."""
    checkout = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    with tempfile.TemporaryDirectory() as work:
        for scenario in SCENARIOS:
            subprocess.run(
                [sys.executable, "-m", "nsyswrap", "scenarios", "run", scenario, "-o", f"{work}/{scenario}"],
                check=True,
            )
            for folder in sorted(Path(work, scenario).iterdir()):
                where = Path(scenario, folder.name)
                record(folder, checkout / "nsyswrap" / "recorded" / where)
                golden(
                    checkout / "nsyswrap" / "recorded" / where, checkout / "tests" / "data" / "golden" / where
                )


def record(folder: Path, target: Path) -> None:
    """Write the redacted export of a run folder, and what its program printed."""
    target.mkdir(parents=True, exist_ok=True)
    (target / EXPORT).unlink(missing_ok=True)
    redact.redact(folder / EXPORT, target / EXPORT)
    name_paths(target / EXPORT)
    shutil.copy(folder / PROGRAM_OUTPUT, target / PROGRAM_OUTPUT)


def name_paths(export: Path) -> None:
    """Reduce absolute paths in the recorded command line to their last part."""
    db = sqlite3.connect(export)
    table = schema.CAPTURE_METADATA
    rows = db.execute(
        f"SELECT name, value FROM {table} WHERE name = ? OR name LIKE ?",  # noqa: S608
        (schema.COMMAND, f"{schema.ARGUMENT_PREFIX}%"),
    ).fetchall()
    for name, value in rows:
        if value.startswith("/"):
            db.execute(f"UPDATE {table} SET value = ? WHERE name = ?", (Path(value).name, name))  # noqa: S608
    db.commit()
    db.execute("VACUUM")
    db.close()


def golden(folder: Path, target: Path) -> None:
    """Keep what `nsys stats --format csv` prints for the recorded export, one file a report."""
    target.mkdir(parents=True, exist_ok=True)
    for name in REPORTS:
        done = subprocess.run(
            [nsys_install.find()[0].path, "stats", "-q", "--format=csv", f"--report={name}", folder / EXPORT],
            capture_output=True,
            text=True,
            check=True,
        )
        if "," in done.stdout:  # a report without data prints a sentence
            content = done.stdout.strip("\n") + "\n"
            (target / f"{name.replace(':', '_')}.csv").write_text(content, encoding="utf-8")
    version = nsys_install.find()[0].version
    (target.parent.parent / "nsys.json").write_text(json.dumps({"nsys": version}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
