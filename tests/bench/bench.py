"""Measure nsyswrap beside nsys stats, pandas and nsys-ai: whole processes, one machine, one run, in turn.

Where answers of the first round differ, it ends with 1; a goal that is missed is only said.
"""

import argparse
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import many
from contenders import (
    MANY_RUNS,
    ON_EXPORT,
    PARTS,
    ROOT,
    START,
    at_the_start,
    environment,
    many_runs,
    on_export,
    profiling,
)
from made_ranges import add_ranges
from measure import measured
from outcome import Bench, as_json, as_text, ratios
from turns import Exports, timed

from nsyswrap.base.errors import NotACapture, NsyswrapError, OutputError, Unavailable
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.capture.schema import EVENTS

_MAKER = str(Path(__file__).with_name("make_export.py"))
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
    add(
        "--only",
        type=_parts,
        default=PARTS,
        metavar="PART[,PART]",
        help=f"run these: {', '.join(PARTS)} (all)",
    )
    add("--rounds", type=_positive, default=3, metavar="N", help="how often each command is run (3)")
    add("--nsys", metavar="PATH", help="the nsys to measure against")
    add("--json", type=Path, metavar="FILE", help="write all that was measured into FILE")
    return parser.parse_args()


def _sizes(text: str) -> list[int]:
    return sorted({_positive(size) for size in text.split(",")})


def _parts(text: str) -> tuple[str, ...]:
    asked = text.split(",")
    if unknown := set(asked) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no part {', '.join(sorted(unknown))}: take {', '.join(PARTS)}")
    return tuple(asked)


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
    _compile()
    benches = []
    if set(options.only) & set(ON_EXPORT):
        benches = [_on(export, nsys, options, scratch) for export in _exports(options, scratch)]
    if START in options.only:
        benches.append(_short(nsys, options.rounds, scratch))
    if MANY_RUNS in options.only:
        benches.append(_of_many_runs(options.rounds, scratch))
    found = ratios(benches)
    print(as_text(benches, found))
    if options.json:
        about = {"nsys": nsys.version, "python": platform.python_version(), "cpus": os.cpu_count()}
        content = json.dumps(as_json(benches, found, **about), indent=1)
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


def _compile() -> None:
    """Let Python compile what is measured: in a fresh checkout the first run would do it."""
    for argv in (
        ["-m", "compileall", "-q", str(ROOT / "nsyswrap")],
        ["-c", "import numpy, pandas, rich, click"],
    ):
        subprocess.run([sys.executable, *argv], env=environment(), stdout=subprocess.DEVNULL, check=False)


def _on(export: Path, nsys: Nsys, options: argparse.Namespace, scratch: Path) -> Bench:
    """Return what was measured on an export."""
    kernels, calls = (_rows(export, EVENTS[kind].table) for kind in ("kernel", "api"))
    contenders = on_export(nsys, options.only)
    exports = Exports(export, scratch / "ranges.sqlite")
    if any(one.ranges for one in contenders):
        shutil.copy(export, exports.ranges)
        add_ranges(exports.ranges)
    _say(f"{kernels:,} kernels: measuring")
    size = f"{kernels:,} kernels, {calls:,} API calls, {export.stat().st_size / 1e6:,.0f} MB"
    rounds = options.rounds
    title = f"{size}; nsys {nsys.version}; medians of {rounds} round{'s' * (rounds != 1)}"
    return Bench(title, kernels, timed(contenders, exports, rounds, scratch))


def _short(nsys: Nsys, rounds: int, scratch: Path) -> Bench:
    _say("the short commands")
    nothing = Exports(ROOT, ROOT)
    timed(at_the_start(), nothing, 1, scratch)  # once for what is read from the disk
    many = rounds * _SHORT_RUNS if rounds > 1 else 1  # one round is a trial
    costs = {
        **timed(at_the_start(), nothing, many, scratch),
        **timed(profiling(nsys), nothing, rounds, scratch),
    }
    return Bench(f"Short commands: medians; rounds: {many}, of profiling {rounds}", 0, costs)


def _of_many_runs(rounds: int, scratch: Path) -> Bench:
    _say("many runs")
    costs = timed(many_runs(), Exports(ROOT, ROOT), rounds, scratch)
    return Bench(f"Among {many.RUNS:,} runs: medians; rounds: {rounds}", 0, costs)


def _rows(export: Path, table: str) -> int:
    """Count the rows of a table; raises NotACapture where there is none."""
    try:
        with closing(sqlite3.connect(f"{export.resolve().as_uri()}?mode=ro", uri=True)) as db:
            return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - a table of nsys
    except sqlite3.Error as error:
        raise NotACapture(f"{export}: {error}", "name an SQLite export with kernels and API calls") from None


def _say(text: str) -> None:
    print(f"tests/bench: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
