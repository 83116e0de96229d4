"""The tiers ``--fast`` and ``--few``, the order of the files, and the table of the tests that did not run."""

from __future__ import annotations  # pytest of the lowest version lacks names of types

import fcntl
import gc
import os
import re
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import pytest

# A test that asks for the fixture, itself or through another one, gets the marker.
MARKERS = {"nsys": "nsys", "cluster": "slurm", "chromium": "browser", "nvcc": "nvcc", "torch": "torch"}

# The fast tier leaves out the tests with these markers. A test with several counts for the first one.
LEFT_OUT = {
    "gpu": "needs a GPU",
    "slurm": "needs Slurm",
    "browser": "needs a browser",
    "nsys": "needs nsys",
    "torch": "needs PyTorch",
    "nvcc": "needs nvcc",
    "slow": "slow",
}

# What a test with a marker takes, in seconds, roughly: workers begin with the files that take longest.
SECONDS = {"slurm": 15.0, "nsys": 4.0, "browser": 3.0, "torch": 2.5, "nvcc": 1.5, "slow": 0.3}
LONG_FILES = {"test_fuzz.py": 75.0, "test_bench.py": 30.0, "test_plots.py": 30.0}  # beside that of markers

# So many tests with a marker run at a time. With more that record, nsys itself fails now and then. One on a
# cluster runs beside these two: it mostly waits.
SLOTS = {"slurm": 1, "nsys": 2}
ASKING = "test_against_nsys"  # files that ask nsys of exports begin so: they record nothing

_REASON = pytest.StashKey[str]()
_SECOND = "how the first attempt ended"
_FOLDERS = re.compile(r"(?<!\S)/\S*/")


class Tiers:
    """Selects the tests of a tier and counts those that do not run, by reason."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.deselected: Counter[str] = Counter()
        self.files: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            # A parameter can have the name of a fixture.
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            for fixture in MARKERS.keys() & {*getattr(item, "fixturenames", ())} - parameters.keys():
                item.add_marker(MARKERS[fixture])
        if self.config.getoption("fast"):
            for item in items:
                if marker := next(filter(item.get_closest_marker, LEFT_OUT), None):
                    item.stash[_REASON] = f"left out by --fast: {LEFT_OUT[marker]}"
            self._leave_out(items)
        if self.config.getoption("few"):
            for cases in _cases(items):
                for item in cases[:-1]:
                    item.stash[_REASON] = "left out by --few: another case of the test"
            self._leave_out(items)
        if hasattr(self.config, "workerinput"):
            _longest_files_first(items, beside=self.config.workerinput["workercount"] - sum(SLOTS.values()))

    def _leave_out(self, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if _REASON in item.stash]
        items[:] = [item for item in items if _REASON not in item.stash]
        self.config.hook.pytest_deselected(items=left_out)

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        self.deselected.update(item.stash.get(_REASON, "deselected by pytest arguments") for item in items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.files[f"{skip_reason(report)} (files)"] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        kind = _slot_of(item)
        if not (hasattr(self.config, "workerinput") and kind):
            return (yield)
        with slot(Path(tempfile.gettempdir()), kind):
            return (yield)

    # With xdist every worker collects all tests. The counts of one are the counts of all.

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if (output := getattr(self.config, "workeroutput", None)) is not None:
            output["not_run"] = dict(self.deselected + self.files)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - xdist has no types
        self.deselected = Counter(getattr(node, "workeroutput", {}).get("not_run", self.deselected))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield  # the table comes last
        skipped = terminalreporter.stats.get("skipped", [])
        reports = [report for report in skipped if isinstance(report, pytest.TestReport)]
        lines = table(self.deselected + self.files + Counter(map(skip_reason, reports)))
        if lines:
            terminalreporter.section("tests that did not run")
            terminalreporter.write("".join(f"{line}\n" for line in lines))


class SecondAttempt:
    """Runs a test that records with nsys once more if it fails: nsys itself fails now and then.

    What fails for a reason of ours fails twice. The summary names the tests that needed it.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not item.get_closest_marker("nsys") or not hasattr(item, "_initrequest"):
            return None
        runtestprotocol = item.config.pluginmanager.getplugin("runner").runtestprotocol
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if failed := [report for report in reports if report.failed]:
            item._initrequest()  # noqa: SLF001 - as for a test that has not run
            _free_what_it_left()
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            for report in reports:
                report.user_properties.append((_SECOND, _told(failed[0])))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        passed = [
            one for one in terminalreporter.stats.get("passed", []) if _SECOND in dict(one.user_properties)
        ]
        if passed:
            terminalreporter.section("tests that passed at the second attempt, and how the first one ended")
        for report in passed:
            terminalreporter.write(f"{report.nodeid}\n{dict(report.user_properties)[_SECOND]}\n")


@contextmanager
def slot(folder: Path, kind: str) -> Generator[None]:
    """Hold one of the SLOTS of this kind, which the workers share as locks on files in ``folder``."""
    with ExitStack() as files:
        paths = [folder / f"nsyswrap-{kind}-{os.getuid()}-{number}" for number in range(SLOTS[kind])]
        locks = [files.enter_context(path.open("w")) for path in paths]
        while not any(map(_is_taken, locks)):
            time.sleep(0.05)
        yield


def _is_taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _slot_of(item: pytest.Item) -> str:
    """Return the kind of slot that a test needs; '' if it needs none."""
    if item.path.name.startswith(ASKING):
        return ""
    return next(filter(item.get_closest_marker, SLOTS), "")


def _longest_files_first(items: list[pytest.Item], beside: int) -> None:
    """Sort the items so that no worker begins a long file when the others are done, nor waits for a slot.

    A file comes when those before it that need the same slots will be done; ``beside`` files need none.
    """
    spent: defaultdict[Path, float] = defaultdict(float)
    needs: defaultdict[Path, str] = defaultdict(str)
    for item in items:
        marker = next(filter(item.get_closest_marker, SECONDS), "")
        asks = item.path.name.startswith(ASKING)
        spent[item.path] += SECONDS.get("slow" if asks else marker, 0.05)
        needs[item.path] = needs[item.path] or _slot_of(item)
    for path in spent:
        spent[path] += LONG_FILES.get(path.name, 0)
    room = {**SLOTS, "": max(1, beside)}
    begun: defaultdict[str, float] = defaultdict(float)
    start: dict[Path, float] = {}
    for path in sorted(spent, key=lambda path: (-spent[path], path)):
        start[path] = begun[needs[path]]
        begun[needs[path]] += spent[path] / room[needs[path]]
    items.sort(key=lambda item: (start[item.path], item.path))


def _cases(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the items of each test function, in their order."""
    functions = defaultdict(list)
    for item in items:
        functions[item.parent, getattr(item, "originalname", item.name)].append(item)
    return [*functions.values()]


def _free_what_it_left() -> None:
    """Free files and processes that a failed test left open; a test that runs later would fail for them."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):  # pytest's, of its failure
        vars(sys).pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _told(report: pytest.TestReport) -> str:
    """Return the traceback of a test that failed, and what was added to it."""
    return "\n".join((str(report.longrepr), *(f"{name}:\n{text}" for name, text in report.sections)))


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test was skipped, in one line, without the folders that vary from run to run."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return _FOLDERS.sub("", reason.removeprefix("Skipped: ").partition("\n")[0])


def table(not_run: Counter[str]) -> list[str]:
    """Return a line for each reason, with the number of tests, the largest number first."""
    ordered = sorted(not_run.items(), key=lambda row: (-row[1], row[0]))
    rows = [("tests", "reason"), *((str(number), reason) for reason, number in ordered)]
    return [f"{number:>5}  {reason}" for number, reason in rows] if ordered else []


def pytest_report_header() -> str:
    """Name the versions of the dependencies."""
    required = [line for line in metadata.requires("nsyswrap") or [] if "python_version" not in line]
    names = [re.split(r"[^\w-]", line)[0] for line in required if "extra ==" not in line]
    return f"versions: {', '.join(f'{name} {metadata.version(name)}' for name in (*names, 'pyarrow'))}"


def pytest_addoption(parser: pytest.Parser) -> None:
    what = ", ".join(LEFT_OUT)
    parser.addoption("--fast", action="store_true", help=f"few random examples, and no tests marked {what}")
    parser.addoption("--few", action="store_true", help="of each test the last case, and few random examples")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Tiers(config), "nsyswrap-tiers")
    config.pluginmanager.register(SecondAttempt(), "nsyswrap-second-attempt")
