"""Who is timed: each answers from the same export, in a process of its own."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import many

from nsyswrap.base.nsys.find import Nsys
from nsyswrap.capture.schema import EVENTS

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "nsyswrap" / "recorded" / "add2" / "both"
KERNELS = "cuda_gpu_kern_sum"
SUMMARIES = (KERNELS, "cuda_api_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_kern_exec_sum")
TRACES = ("cuda_gpu_trace", "cuda_kern_exec_trace", "cuda_api_trace")
NVTX = ("nvtx_kern_sum", "nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace")
# All five summaries; that of the kernels alone, and what comes near to it.
NSYS, OURS = "nsys stats", "nsyswrap"
OURS_ALONE, PANDAS, NSYS_AI = "nsyswrap (kernels)", "pandas (kernels)", "nsys-ai (top kernels)"
# What is held against our own five summaries.
ALL, WINDOW = "nsyswrap report -r all", "nsyswrap (1 % of the time)"
REPORT, ADVICE, VIEW = "nsyswrap report", "nsyswrap report --advice", "nsyswrap view"
PERFETTO = "nsyswrap export --perfetto"
# Two runs are compared, read as a default screen reads one; and both with NVTX ranges in them.
COMPARE, COMPARE_RANGES = "nsyswrap compare", "nsyswrap compare (NVTX)"
# The screen of 1 % of the time, without and with the times that an earlier command has stored.
SCREEN_WINDOWS = ("nsyswrap report (1 % of the time, first)", "nsyswrap report (1 % of the time)")
COLLECT, COLLECT_AGAIN = "nsyswrap collect", "nsyswrap collect, again"
# Many runs are listed, or the newest is found; and the measure of what is short.
NEWEST, RUNS = "nsyswrap report (newest run)", "nsyswrap runs"
SCREEN, IMPORT_PANDAS = "nsyswrap report add2/both", "import pandas"
HELP, TAB, IMPORT_CLICK = "nsyswrap --help", "nsyswrap report --ti<TAB>", "import click"
PROFILE, NSYS_PROFILE = "nsyswrap profile true", "nsys profile --stats=true true"
ON_EXPORT = ("summaries", "traces", "nvtx", "all", "screen", "perfetto", "compare", "collect")
START, MANY_RUNS = "start", "runs"
PARTS = (*ON_EXPORT, START, MANY_RUNS)


@dataclass(frozen=True)
class Contender:
    """What is run: ``argv(export, folder)`` may write into the folder, and into an export that is its own."""

    name: str
    argv: Callable[[Path, Path], list[str]]
    own_copy: bool = False
    ranges: bool = False  # reads the export with NVTX ranges in it
    same_as: str = ""  # who writes the same reports
    reports: Sequence[str] = ()


def both(report: str) -> tuple[str, str]:
    """Return what nsys and nsyswrap are called where they write one report."""
    return f"{NSYS} {report}", f"{OURS} {report}"


def on_export(nsys: Nsys, parts: Sequence[str]) -> list[Contender]:
    """Return those of these parts that read an export, each of them once."""
    ours = [Contender(OURS, _by_us(nsys, SUMMARIES), same_as=NSYS, reports=SUMMARIES)]
    of_parts = {
        "summaries": [*_summaries(nsys), *ours],
        "traces": [one for report in TRACES for one in _pair(nsys, report)],
        "nvtx": [one for report in NVTX for one in _pair(nsys, report, ranges=True)],
        "all": [*ours, Contender(ALL, _by_us(nsys, ["all"]))],
        "screen": [*ours, *_screens(nsys)],
        "perfetto": [*ours, Contender(PERFETTO, _perfetto)],
        "compare": _comparisons(),
        "collect": [*ours, *_collections()],
    }
    chosen = [one for part in ON_EXPORT if part in parts for one in of_parts[part]]
    return list({one.name: one for one in chosen}.values())


def _summaries(nsys: Nsys) -> Iterator[Contender]:
    """Yield those that write the five, or that of the kernels; nsys-ai only where it is installed."""
    yield Contender(NSYS, _by_nsys(nsys, SUMMARIES))
    yield Contender(OURS_ALONE, _by_us(nsys, [KERNELS]))
    yield Contender(PANDAS, _by_pandas, same_as=NSYS, reports=[KERNELS])
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    # nsys-ai writes indexes into what it reads. Offline its time is that of trying to download what it lacks.
    if program := shutil.which("nsys-ai", path=places):
        top = [program, "skill", "run", "top_kernels"]
        yield Contender(NSYS_AI, lambda export, _: [*top, str(export)], own_copy=True)


def _pair(nsys: Nsys, report: str, *, ranges: bool = False) -> Iterator[Contender]:
    theirs, ours = both(report)
    yield Contender(theirs, _by_nsys(nsys, [report]), ranges=ranges)
    yield Contender(ours, _by_us(nsys, [report]), ranges=ranges, same_as=theirs, reports=[report])


def _screens(nsys: Nsys) -> Iterator[Contender]:
    yield Contender(REPORT, lambda export, _: _nsyswrap("report", export))
    yield Contender(ADVICE, lambda export, _: _nsyswrap("report", export, "--advice"))
    yield Contender(VIEW, lambda export, folder: _nsyswrap("view", export, "-o", folder / "view.html"))
    five = _by_us(nsys, SUMMARIES)
    yield Contender(WINDOW, lambda export, folder: [*five(export, folder), f"--time={_window(export)}"])
    first, later = SCREEN_WINDOWS
    yield Contender(first, lambda export, folder: [*_cached_in(folder), *_window_screen(export)])
    yield Contender(later, lambda export, _: _window_screen(export))


def _comparisons() -> Iterator[Contender]:
    """Yield the comparison of an export with a copy, after the screen that it is held against."""
    yield Contender(REPORT, lambda export, _: _nsyswrap("report", export))
    yield Contender(COMPARE, _compare)
    yield Contender(COMPARE_RANGES, _compare, ranges=True)


def _collections() -> Iterator[Contender]:
    """Yield the collection of many captures without digests, then the same with those that it kept."""

    def collect(folder: Path) -> list[str]:
        cache = _cached_in(folder.parent / COLLECT)
        return [*cache, *_nsyswrap("collect", many.captures(), "-o", folder / "tables")]

    yield Contender(COLLECT, lambda _, folder: collect(folder))
    yield Contender(COLLECT_AGAIN, lambda _, folder: collect(folder))


def many_runs() -> list[Contender]:
    """Return what looks through many runs, beside the import that it is held against."""

    def here() -> list[str]:
        return ["env", "-C", str(many.runs()), f"XDG_STATE_HOME={many.runs()}"]

    return [
        Contender(IMPORT_PANDAS, lambda *_: [sys.executable, "-c", IMPORT_PANDAS]),
        Contender(NEWEST, lambda *_: [*here(), *_nsyswrap("report")]),
        Contender(RUNS, lambda *_: [*here(), *_nsyswrap("runs")]),
    ]


def at_the_start() -> list[Contender]:
    """Return what is short, each before the import that it is held against."""
    python = [sys.executable, "-c"]
    pressed = ["env", "_NSYSWRAP_COMPLETE=bash_complete", "COMP_WORDS=nsyswrap report --ti", "COMP_CWORD=2"]
    return [
        Contender(SCREEN, lambda *_: _nsyswrap("report", SMALL)),
        Contender(IMPORT_PANDAS, lambda *_: [*python, IMPORT_PANDAS]),
        Contender(HELP, lambda *_: _nsyswrap("--help")),
        Contender(TAB, lambda *_: [*pressed, *_nsyswrap()]),
        Contender(IMPORT_CLICK, lambda *_: [*python, IMPORT_CLICK]),
    ]


def profiling(nsys: Nsys) -> list[Contender]:
    """Return who profiles a program that does nothing, and shows what it did."""
    theirs = [nsys.path, "profile", "--stats=true"]
    return [
        Contender(NSYS_PROFILE, lambda _, folder: [*theirs, f"--output={folder / 'x'}", "true"]),
        Contender(
            PROFILE, lambda _, folder: _nsyswrap("profile", "--nsys", nsys.path, "-o", folder / "run", "true")
        ),
    ]


def environment() -> dict[str, str]:
    """Return variables with which a child imports this checkout."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    variables = {**os.environ, "PYTHONPATH": path}
    # With it each run compiles all that it imports, which no user's run does: that would be measured.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def _nsyswrap(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "nsyswrap", *map(str, arguments)]


def _by_nsys(nsys: Nsys, reports: Sequence[str]) -> Callable[[Path, Path], list[str]]:
    """Write ``folder``/x_<report>.csv."""
    stats = [nsys.path, "stats", "-q", *_asked(reports), "--format=csv"]
    return lambda export, folder: [*stats, f"--output={folder / 'x'}", str(export)]


def _by_us(nsys: Nsys, reports: Sequence[str]) -> Callable[[Path, Path], list[str]]:
    """Write ``folder``/<report>.csv as this nsys rounds and names."""
    how = [*_asked(reports), f"--rounding={'2025' if nsys.release >= (2025,) else 'legacy'}"]
    return lambda export, folder: _nsyswrap("report", export, "--csv", folder, *how)


def _by_pandas(export: Path, folder: Path) -> list[str]:
    """Write the kernel summary into ``folder``, unrounded."""
    script = Path(__file__).with_name("with_pandas.py")
    return [sys.executable, str(script), str(export), str(folder / f"{KERNELS}.csv")]


def _perfetto(export: Path, folder: Path) -> list[str]:
    return _nsyswrap("export", export, "--perfetto", folder / "trace.pftrace.gz")


def _compare(export: Path, folder: Path) -> list[str]:
    return _nsyswrap("compare", export, shutil.copy(export, folder / "new.sqlite"))


def _window_screen(export: Path) -> list[str]:
    return _nsyswrap("report", export, f"--time={_window(export)}")


def _cached_in(folder: Path) -> list[str]:
    return ["env", f"XDG_CACHE_HOME={folder}"]


def _window(export: Path) -> str:
    """Return the middle hundredth of the time in which kernels ran, as --time takes it."""
    span = f"SELECT min(start), max(end) FROM {EVENTS['kernel'].table}"  # noqa: S608 - a table of nsys
    with closing(sqlite3.connect(export)) as db:
        first, last = db.execute(span).fetchone()
    middle, half = (first + last) / 2, (last - first) / 200
    return "/".join(f"{edge_ns / 1e9:.9f}s" for edge_ns in (middle - half, middle + half))


def _asked(reports: Sequence[str]) -> list[str]:
    return [argument for report in reports for argument in ("-r", report)]
