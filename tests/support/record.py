"""Record what the scenarios do on a GPU, and what nsys says of it. Needs a GPU, nvcc, torch, nvtx and nsys.

python tests/support/record.py [SCENARIO]... runs the scenarios (all that this machine can run) and
writes redacted run folders, and beside them every CSV of `nsys stats` and `nsys analyze`; then the tables of
docs/scenarios.md. Paths of the recording machine are reduced to names. --page makes the
pages alone, from what was recorded: that needs no GPU.
"""

import argparse
import json
import lzma
import re
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import recorded
import scenario_page

from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.run_folder import EXPORT, PROGRAM_OUTPUT
from nsyswrap.capture import redact, schema
from nsyswrap.cli.scenarios import run_cross_check, run_variants, runnable
from nsyswrap.record.scenarios import Scenario, find_scenario, scenarios

SHIPPED = ("add", "add2")
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "pb": 0}]  # records of SQLite are not aligned
# Reports with the options that change what they print; the rest of nsys' reports are taken as they are.
MORE_REPORTS = ("cuda_gpu_kern_sum:base", "cuda_gpu_kern_sum:mangled", "cuda_gpu_kern_sum:nvtx-name")
MORE_RULES = ("gpu_gaps:gap=1",)


def main() -> None:
    """Record the scenarios named, or all, into this checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    parser.add_argument("--page", action="store_true", help="make the pages in docs/ alone")
    options = parser.parse_args()
    if not options.page:
        with tempfile.TemporaryDirectory() as work:
            for scenario in map(find_scenario, options.scenarios) if options.scenarios else scenarios():
                if scenario.lacks:
                    print(f"{scenario.name} is not recorded: {'; '.join(scenario.lacks)}")
                else:
                    record(scenario, Path(work))
    scenario_page.write()


def record(scenario: Scenario, work: Path) -> None:
    """Run every variant, and the cross-check where there is one; keep what they left."""
    arguments = recorded.ARGUMENTS.get(scenario.name, ())
    for variant in keep_variants(scenario, scenario.name, runnable(scenario), arguments, work):
        if (variant / EXPORT).exists():
            golden(variant / EXPORT, f"{scenario.name}/{variant.name}")
    for name, (of, variants, given) in recorded.BESIDE.items():
        if of == scenario.name:
            keep_variants(scenario, name, variants, given, work)
    if scenario.can_cross_check:
        folder = work / f"{scenario.name}-cross-check"
        run_cross_check(scenario, folder, arguments, force=False)
        for run in folder.iterdir():
            keep(run, recorded.CROSS_CHECKS / scenario.name / run.name, packed=True)


def keep_variants(
    scenario: Scenario, name: str, variants: tuple[str, ...], arguments: tuple[str, ...], work: Path
) -> list[Path]:
    """Run these variants, keep what they left as the runs ``name/<variant>``, and return their folders."""
    shipped = name in SHIPPED
    home = recorded.SHIPPED if shipped else recorded.KEPT
    folders = run_variants(scenario, variants, work / name, arguments)
    for variant, folder in folders.items():
        keep(folder, home / name / variant, packed=not shipped)
    return list(folders.values())


def keep(folder: Path, target: Path, *, packed: bool) -> None:
    """Redact the export of a run folder in place, and keep it with what the program printed."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copy(folder / PROGRAM_OUTPUT, target)
    if not (folder / EXPORT).exists():
        return
    clean = folder / "redacted.sqlite"
    redact.redact(folder / EXPORT, clean)
    name_paths(clean)
    clean.replace(folder / EXPORT)
    if packed:
        (target / recorded.PACKED).write_bytes(lzma.compress((folder / EXPORT).read_bytes(), filters=FILTERS))
    else:
        shutil.copy(folder / EXPORT, target)


def name_paths(export: Path) -> None:
    """Reduce absolute paths in the recorded command line, and those of modules, to their last part."""
    db = sqlite3.connect(export)
    table = schema.CAPTURE_METADATA
    rows = db.execute(
        f"SELECT rowid, value FROM {table} WHERE name = ? OR name LIKE ?",  # noqa: S608
        (schema.COMMAND, f"{schema.ARGUMENT_PREFIX}%"),
    ).fetchall()
    strings = db.execute(f"SELECT id, value FROM {schema.STRINGS} WHERE value LIKE '/%'").fetchall()  # noqa: S608
    for where, key, found in ((table, "rowid", rows), (schema.STRINGS, "id", strings)):
        for row, value in found:
            if value.startswith("/"):
                db.execute(f"UPDATE {where} SET value = ? WHERE {key} = ?", (Path(value).name, row))  # noqa: S608
    db.commit()
    db.execute("VACUUM")
    db.close()


def golden(export: Path, name: str) -> None:
    """Keep every CSV that `nsys stats` and `nsys analyze` write for a recorded export."""
    found = nsys_install.find_nsys()[0]
    with tempfile.TemporaryDirectory() as folder:
        for command, options, more in (
            ("stats", "--help-reports", MORE_REPORTS),
            ("analyze", "--help-rules", MORE_RULES),
        ):
            # Newer ones list them and return 1.
            said = subprocess.run([found.path, command, options], capture_output=True, text=True, check=False)
            names = [*re.findall(r"(?m)^  (\w+)(?=\[| --)", said.stdout), *more]
            subprocess.run(
                [found.path, command, "-q", "-f", "csv", "-o", f"{folder}/x", "-r", ",".join(names), export],
                capture_output=True,
                check=True,
            )
        written = {path.stem.removeprefix("x_"): path.read_bytes() for path in Path(folder).iterdir()}
    # A report without data leaves an empty file.
    recorded.write_goldens(name, {report: content for report, content in written.items() if content})
    version = json.dumps({"nsys": found.version}) + "\n"
    (recorded.GOLDEN / "nsys.json").write_text(version, encoding="utf-8")


if __name__ == "__main__":
    main()
