"""What a test asks of its profile: events of one kind, and the verdict against a saved baseline.

What is not known of events is an error, never 0.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.compare import gate
from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.gate import GateLimits, GateResult
from nsyswrap.analysis.compare.model import Comparison, Side
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.analysis.kernel_names.readable import readable
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import name_codes
from nsyswrap.analysis.no_gpu_work import missing_processes
from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, NotInCapture, UsageError
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import printable, shorten
from nsyswrap.base.units import Unit, duration, human
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import ENUMS
from nsyswrap.reports.compare import gate_lines
from nsyswrap.reports.compare.baseline import read_baseline
from nsyswrap.reports.wording.checks import why_no_gpu_work, worded
from nsyswrap.reports.wording.comparisons import worded_obstacle
from nsyswrap.reports.wording.notes import note_text

_MOST_NAMES, _NAME_WIDTH = 5, 40  # in a message
_FIRST_LETTERS = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
_FEW = "use gpu_profile(..., runs=5), and a baseline of as many runs"


@dataclass(frozen=True, repr=False)
class MatchedEvents:
    """The events that match a pattern: an array of durations in ns for each run, and of bytes for copies.

    ``noun`` and ``pattern`` name them. ``why_none`` says what else was recorded, if there are none.
    ``can_be_none``: without any, their time is 0; for other events it raises NotInCapture, as the pattern can
    be wrong.
    """

    noun: str
    pattern: str
    durations: tuple[NDArray[Any], ...]
    sizes: tuple[NDArray[Any], ...] = ()
    why_none: str = ""
    can_be_none: bool = False

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of events in each run."""
        return tuple(map(len, self.durations))

    @property
    def count(self) -> int:
        """The number of events in a run. Raises UsageError if the runs differ in it."""
        if len(set(self.counts)) > 1:
            raise UsageError(
                f"the runs have different numbers of {self._name}: {', '.join(map(str, self.counts))}",
                "use .counts, which has the number of each run",
            )
        return self.counts[0]

    @property
    def total_ns(self) -> float:
        """The sum of the durations in ns, the median of the runs."""
        return self._of_runs(self.durations, np.sum, none=0.0 if self.can_be_none else None)

    @property
    def median_ns(self) -> float:
        """The median duration in ns, the median of the runs. Raises NotInCapture if a run has no event."""
        return self._of_runs(self.durations, np.median)

    @property
    def total_bytes(self) -> float:
        """The bytes of copies, the median of the runs. Raises UsageError for other events."""
        if not self.sizes:
            raise UsageError(f"{self.noun} have no size", "copies have total_bytes")
        return self._of_runs(self.sizes, np.sum, none=0.0)

    def _of_runs(
        self,
        values: tuple[NDArray[Any], ...],
        of_one: Callable[[NDArray[Any]], Any],
        none: float | None = None,
    ) -> float:
        figures = [float(of_one(one)) if len(one) else none for one in values]
        known = [figure for figure in figures if figure is not None]
        if len(known) < len(figures):
            raise NotInCapture(f"no {self._name}", self.why_none)
        return median(known)

    @property
    def _name(self) -> str:
        return self.noun if self.pattern == "*" else f"{self.noun} named {self.pattern!r}"

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        counts = " / ".join(f"{count:,}" for count in dict.fromkeys(self.counts))
        if not all(self.counts):
            return f"<{counts} {self._name}{f': {self.why_none}' if self.why_none else ''}>"
        times = f"total {duration(self.total_ns)}, median {duration(self.median_ns)}"
        size = f", {human(self.total_bytes, Unit.BYTES)}" if self.sizes else ""
        return f"<{counts} {self._name}: {times}{size}>"


def kernels(captures: Sequence[Capture], pattern: str) -> MatchedEvents:
    """Return the kernels whose name is or matches ``pattern``: the full, the readable or the function's.

    Raises NotInCapture if CUDA was not traced, or CUDA graphs were recorded without their kernels.
    """
    for capture in captures:
        if capture.has("graph"):
            raise NotInCapture(
                f"{capture.source} has CUDA graphs without their kernels", "profile with graphs='node'"
            )
    return _named(captures, "kernel", "kernels", pattern, gate.matches)


def calls(captures: Sequence[Capture], pattern: str) -> MatchedEvents:
    """Return the API calls whose name matches. Raises NotInCapture if CUDA was not traced."""
    return _named(captures, "api", "API calls", pattern, fnmatchcase)


def copies(captures: Sequence[Capture], pattern: str) -> MatchedEvents:
    """Return the copies of the kinds that match. Raises UsageError for a pattern that no kind matches."""
    kinds = [number for number, label in ENUMS["copy_kind"][1].items() if _is_kind(label, pattern)]
    if not kinds:
        raise UsageError(f"no kind of copy matches {pattern!r}", "kinds: H2D, D2H, D2D, P2P, UM H2D, ...")
    durations, sizes = [], []
    for capture in captures:
        _check(capture, "memcpy")
        if capture.has("graph"):
            raise NotInCapture(
                f"{capture.source} has CUDA graphs without their copies", "profile with graphs='node'"
            )
        columns = _columns(capture, "memcpy", "copy_kind", "bytes")
        rows = np.isin(columns["copy_kind"], kinds)
        durations.append(_durations(capture, "memcpy")[rows])
        sizes.append(columns["bytes"][rows])
    return MatchedEvents(
        "copies", pattern, tuple(durations), tuple(sizes), _why_none(captures), can_be_none=True
    )


def launches(captures: Sequence[Capture]) -> MatchedEvents:
    """Return the calls that launched kernels or graphs. Raises NotInCapture if CUDA was not traced."""
    for capture in captures:
        _check(capture, "api")
    times = tuple(launches_of(capture).api_ns for capture in captures)
    return MatchedEvents("launches", "*", times, why_none=_why_none(captures))


def _named(
    captures: Sequence[Capture], kind: str, noun: str, pattern: str, fits: Callable[[str, str], bool]
) -> MatchedEvents:
    durations, others = [], set[str]()
    for capture in captures:
        _check(capture, kind)
        if not capture.has(kind):
            durations.append(np.empty(0, np.int64))
            continue
        codes, names = name_codes(capture.viewed(names="full", nvtx_names=False), kind)
        matching = [name == pattern or fits(name or "", pattern) for name in names]
        rows = np.array(matching, bool)[codes]
        durations.append(_durations(capture, kind)[rows])
        if not rows.any():
            others |= {readable(name) for name in names if name}
    return MatchedEvents(
        noun, pattern, tuple(durations), why_none=_others(noun, others) or _why_none(captures)
    )


def _is_kind(label: str, pattern: str) -> bool:
    prefix, _, ways = label.rpartition(" ")
    short = "2".join(_FIRST_LETTERS.get(end, end) for end in ways.split("-to-"))
    names = (label, short if not prefix else f"UM {short}")
    return any(fnmatchcase(name, pattern) for name in names)


def _check(capture: Capture, kind: str) -> None:
    """Raise CaptureError if not all events of a kind were recorded."""
    if not capture.has(kind) and capture.info.cuda_traced is False:
        capture.columns(kind, "start_ns")  # raises NotInCapture, with the option that is missing
    lost = [message.text for message in capture.diagnostics if message.loss]
    lost += [str(worded(cause)) for cause in missing_processes(capture)]
    if lost:
        raise CaptureError(f"{capture.source} is not complete: {lost[0]}", "counts would be too low")


def _columns(capture: Capture, kind: str, *fields: str) -> dict[str, NDArray[Any]]:
    if capture.has(kind):
        return capture.columns(kind, *fields)
    return {field: np.empty(0, np.int64) for field in fields}


def _durations(capture: Capture, kind: str) -> NDArray[Any]:
    return capture.durations(kind) if capture.has(kind) else np.empty(0, np.int64)


def _others(noun: str, names: set[str]) -> str:
    shown = [shorten(printable(name), _NAME_WIDTH) for name in sorted(names)[:_MOST_NAMES]]
    rest = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{noun} recorded: {', '.join(shown)}{rest}" if names else ""


def _why_none(captures: Sequence[Capture]) -> str:
    """Return why a capture has no GPU work at all; empty if all have some."""
    for capture in captures:
        if not any(map(capture.has, ("kernel", "memcpy", "memset", "graph"))):
            return str(why_no_gpu_work(capture)[0])
    return ""


@dataclass(frozen=True, repr=False)
class Verdict:
    """A comparison with a baseline. It is true if nothing that was looked at became slower.

    It is false where the sides cannot be compared, too. Where the noise is too large to tell, it is true
    unless ``limits.is_strict``.
    """

    comparison: Comparison
    result: GateResult
    limits: GateLimits

    def __bool__(self) -> bool:
        if self.comparison.no_verdicts:
            return False
        return self.result.verdict == "passed" or (
            self.result.verdict == "cannot tell" and not self.limits.is_strict
        )

    def __repr__(self) -> str:
        return f"<{self.lines[0]}>"

    @property
    def lines(self) -> list[str]:
        """The conclusion, and the figures it is drawn from: a line for each row."""
        comparison = self.comparison
        obstacles = [
            f"{one.about}: baseline {one.base}, here {one.new}"
            for one in map(worded_obstacle, comparison.obstacles)
        ]
        few = [_FEW] if comparison.no_verdicts and not obstacles else []
        lines = [
            gate_lines.conclusion(self.result, self.limits),
            *obstacles,
            *gate_lines.row_lines(self.result),
            *gate_lines.remark_lines(self.result),
            *map(note_text, comparison.remarks),
            *few,
        ]
        return [printable(line) for line in dict.fromkeys(lines)]


def verdict(
    baseline: Path, captures: Sequence[Capture], folder: Path, limits: GateLimits, *, anyway: bool
) -> Verdict:
    """Return the verdict on the runs of ``captures``, which are in ``folder``. Raises CaptureError."""
    if not paths.exists(baseline):
        command = shlex.join(["nsyswrap", "baseline", "save", str(baseline), str(folder)])
        raise CaptureError(f"{baseline} not found", f"save these runs as the baseline: {command}")
    runs = [run_figures(capture, f"run-{number}") for number, capture in enumerate(captures, 1)]
    side = Side("this test", tuple(runs))
    return verdict_of(read_baseline(baseline), side, limits, anyway=anyway)


def verdict_of(base: Side, new: Side, limits: GateLimits, *, anyway: bool = False) -> Verdict:
    """Return the verdict on two sides.

    Raises CaptureError for a pattern that no kernel matches.
    """
    comparison = compare(base, new, limits.limits, anyway=anyway)
    result = gate.gate(comparison, limits)
    if missing := gate.unmatched(result, limits):
        raise CaptureError(f"no kernel matches {', '.join(map(repr, missing))}", "see the names: .kernels()")
    return Verdict(comparison, result, limits)
