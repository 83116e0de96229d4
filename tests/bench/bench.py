"""Measure nsyswrap beside nsys stats, pandas and nsys-ai: whole processes, one machine, one run, in turn.

Answers are compared first, and it ends with 1 if they differ; a goal that is missed is only said.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from answers import check_numbers, check_same
from contenders import (
    KERNELS,
    ROOT,
    SUMMARIES,
    at_the_start,
    by_nsys,
    by_pandas,
    by_us,
    environment,
    on_export,
    on_two_exports,
    timed,
)
from measure import measured
from outcome import Bench, as_json, as_text, ratios

from nsyswrap.base.errors import NotACapture, NsyswrapError, OutputError, Unavailable
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.capture.schema import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.base.nsys.find import Nsys

_MAKER = str(Path(__file__).with_name("make_export.py"))
_COMPARED = 10**5  # kernels, from which on two exports are compared
_SHORT_RUNS = 5  # in each round, of what takes a fraction of a second


def main() -> int:
    """Return the exit code: 0 also where a goal is missed."""
    options = _options()
    try:
        with tempfile.TemporaryDirectory(prefix="nsyswrap-bench.") as scratch:
            _run(options, Path(scratch))
    except NsyswrapError as error:
        _say(str(error))
        return error.exit_code
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}")
        return OutputError.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("tests/bench/run", description=__doc__)
    add = parser.add_argument
    add(
        "--kernels",
        type=_sizes,
        default=[10**6],
        metavar="N[,N]",
        help="make exports of so many kernels (1e6)",
    )
    add("--export", type=Path, metavar="FILE", help="take this export instead")
    add("--rounds", type=_positive, default=3, metavar="N", help="how often each command is run (3)")
    add("--nsys", metavar="PATH", help="the nsys to measure against")
    add("--json", type=Path, metavar="FILE", help="write all that was measured into FILE")
    return parser.parse_args()


def _sizes(text: str) -> list[int]:
    return sorted({_positive(size) for size in text.split(",")})


def _positive(text: str) -> int:
    try:
        number = int(float(text))
    except (ValueError, OverflowError):
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return number


def _run(options: argparse.Namespace, scratch: Path) -> None:
    if options.json:
        options.json.touch()  # what cannot be written is said before an hour of measuring
    nsys = _nsys(options.nsys)
    on_exports = [_on(export, nsys, options.rounds, scratch) for export in _exports(options, scratch)]
    _say("the short commands")
    timed(at_the_start(), ROOT, 1, scratch)  # once for what Python compiles
    rounds = options.rounds * _SHORT_RUNS if options.rounds > 1 else 1  # one round is a trial
    costs = timed(at_the_start(), ROOT, rounds, scratch)
    start = Bench(f"Short commands: medians of {rounds} rounds", 0, costs)
    found = ratios(on_exports, start)
    print(as_text([*on_exports, start], found))
    if options.json:
        about = {"nsys": nsys.version, "python": platform.python_version(), "cpus": os.cpu_count()}
        content = json.dumps(as_json([*on_exports, start], found, **about), indent=1)
        options.json.write_text(f"{content}\n", encoding="utf-8")


def _nsys(named: str | None) -> Nsys:
    """Return the nsys to measure against; where there is none, install one as the tests do."""
    try:
        return nsys_install.find_nsys(named)[0]
    except Unavailable:
        if named or nsys_install.VARIABLE in os.environ:
            raise
    prefix = ROOT / ".cache" / "nsys"
    if subprocess.run([ROOT / "tests" / "install-nsys", prefix], stdout=sys.stderr, check=False).returncode:
        raise Unavailable("no nsys is here, and none could be installed", "name one with --nsys")
    return nsys_install.find_nsys(str(prefix / "bin" / "nsys"))[0]


def _exports(options: argparse.Namespace, scratch: Path) -> Iterator[Path]:
    """Yield the export that was named, or one of each size, which is deleted before the next is made."""
    if options.export:
        yield options.export
        return
    for kernels in options.kernels:
        _say(f"making an export of {kernels:,} kernels")
        export = scratch / f"{kernels}-kernels.sqlite"
        measured([sys.executable, _MAKER, str(export), str(kernels)], environment())
        yield export
        export.unlink()


def _on(export: Path, nsys: Nsys, rounds: int, scratch: Path) -> Bench:
    """Return what was measured on an export; a comparison of small ones says nothing of its speed."""
    kernels, calls = (_rows(export, EVENTS[kind].table) for kind in ("kernel", "api"))
    _say(f"{kernels:,} kernels: comparing what is said of them")
    _check(nsys, export, scratch)
    _say(f"{kernels:,} kernels: measuring")
    size = f"{kernels:,} kernels, {calls:,} API calls, {export.stat().st_size / 1e6:,.0f} MB"
    medians = f"medians of {rounds} round{'s' * (rounds != 1)}"
    title = f"{size}: nsys {nsys.version} and nsyswrap say the same; {medians}"
    contenders = [*on_export(nsys), *(on_two_exports() if kernels >= _COMPARED else ())]
    return Bench(title, kernels, timed(contenders, export, rounds, scratch))


def _rows(export: Path, table: str) -> int:
    """Count the rows of a table; raises NotACapture where there is none."""
    try:
        with closing(sqlite3.connect(f"{export.resolve().as_uri()}?mode=ro", uri=True)) as db:
            return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - a table of nsys
    except sqlite3.Error as error:
        raise NotACapture(f"{export}: {error}", "name an SQLite export with kernels and API calls") from None


def _check(nsys: Nsys, export: Path, scratch: Path) -> None:
    """Raise CheckFailed where those who write CSV do not agree."""
    folders = [scratch / f"{export.stem}-{who}" for who in ("nsys", "nsyswrap", "pandas")]
    for folder in folders:
        folder.mkdir()
    theirs, ours, pandas = folders
    for argv in (
        by_nsys(nsys, export, theirs),
        by_us(nsys, SUMMARIES, export, ["--csv", str(ours)]),
        by_pandas(export, pandas),
    ):
        measured(argv, environment())
    for report in SUMMARIES:
        check_same(theirs / f"x_{report}.csv", ours / f"{report}.csv")
    check_numbers(theirs / f"x_{KERNELS}.csv", pandas / f"{KERNELS}.csv")


def _say(text: str) -> None:
    print(f"tests/bench: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
