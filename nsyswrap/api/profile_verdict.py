"""The verdict of a test on its profile: is it slower than a saved baseline."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.analysis.compare import gate
from nsyswrap.analysis.compare.compare import compare, needs_scipy
from nsyswrap.analysis.compare.model import Side
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.text import printable
from nsyswrap.reports.compare import gate_lines
from nsyswrap.reports.compare.baseline import read_baseline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nsyswrap.analysis.compare.gate import GateLimits, GateResult
    from nsyswrap.analysis.compare.model import Comparison
    from nsyswrap.api.captures import Capture

_FEW = "use gpu_profile(..., runs=5), and a baseline of as many runs"


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
        obstacles = [f"{one.about}: baseline {one.base}, here {one.new}" for one in comparison.obstacles]
        few = [] if obstacles or comparison.no_verdicts in ("", needs_scipy()) else [_FEW]
        lines = [
            gate_lines.conclusion(self.result, self.limits),
            *obstacles,
            *gate_lines.row_lines(self.result),
            *gate_lines.remark_lines(self.result),
            *comparison.remarks,
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
    """Return the verdict on two sides; only the rows of the gate share the error rate.

    Raises CaptureError for a pattern that no kernel matches.
    """
    family = gate.is_chosen(limits, gate.chosen_groups(limits, base, new))
    comparison = compare(base, new, limits.limits, anyway=anyway, family=family)
    result = gate.gate(comparison, limits)
    if missing := gate.unmatched(result, limits):
        raise CaptureError(f"no kernel matches {', '.join(map(repr, missing))}", "see the names: .kernels()")
    return Verdict(comparison, result, limits)
