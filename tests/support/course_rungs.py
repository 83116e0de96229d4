"""The tables in docs/course.md of the two ladders: for each rung, the finding, the repair and the gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import recorded

from nsyswrap.api import open_capture
from nsyswrap.record.scenarios import find_scenario
from nsyswrap.reports.compare.conclusion import signed

if TYPE_CHECKING:
    from pathlib import Path

    from course_page import Figures

# What each rung of a ladder changes.
REPAIRED = {
    "loader": "8 worker processes load into pinned memory; a stream of its own copies the next batch",
    "fused": "`gelu` instead of eight operations",
    "optimizer": "`Adam(fused=True)` instead of a loop over the parameters",
    "no_item": "losses and norms stay on the GPU, without `.item()`",
    "graph": "the step is captured once, and replayed",
    "coalesced": "the threads of a warp read neighboring numbers",
    "vectorized": "a thread computes four columns, which it reads as one `float4`",
    "shared": "a block keeps its tiles in shared memory; a thread computes 4 x 4 numbers",
    "streams": "four streams, so that copies run beside kernels",
}
KERNELS = "Kernels, and no finding that says why"
VERDICT = """\
The scenario runs each rung once. `nsyswrap compare --run 5 -- COMMAND... -- COMMAND...` with two of its
programs gives a verdict; `nsyswrap report RUN -r step_budget` has the steps of a run one by one.
"""


def table(name: str, figures: Figures, scratch: Path) -> str:
    """Return a table of a ladder's rungs, after checking that each repairs what was named, and gains time."""
    scenario = find_scenario(name)
    lines = []
    for above, rung in zip(scenario.variants, scenario.repairs, strict=False):
        change, saved = figures.value(rung, "change_percent"), figures.value(rung, "largest_ns")
        assert figures.value(rung, "stake_percent") >= 5
        assert change < 0 > saved
        findings = open_capture(recorded.run_folder(f"{name}/{above}", scratch)).report("advice").frame
        before, after = (figures.time(one, "step_ns") for one in (above, rung))
        named = findings.set_index("finding")["what"].get(scenario.repairs[rung])
        assert (named is None) == (scenario.repairs[rung] == "kernels")
        lines.append(
            f"| `{rung}` | {named or KERNELS}, {figures.value(rung, 'stake_percent'):.0f} % "
            f"of the step | {REPAIRED[rung]} | {before} → {after}, "
            f"{change:+.0f} %; {figures.text(rung, 'largest_part')} {signed(saved)} |\n"
        )
    head = (
        "| rung | finding on the rung before | repaired | `compare`: step, and largest part of its change |\n"
    )
    return f"\n{head}|---|---|---|---|\n{''.join(lines)}\n{VERDICT}" if lines else ""
