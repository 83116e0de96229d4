"""The tables in docs/scenarios.md of the two ladders: for each rung, the finding, the repair and the gain."""

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
# Of `profile --repeat 5` and `compare`, measured once on 2026-11-26: no test repeats it.
VERDICTS = {
    "ladder_cuda": """\
The scenario runs each rung once. Five runs of each on an H100 with nsys 2025.3.1 gave a verdict for every
rung, faster each time: -89.3, -26.6, -28.5 and -54.4 % a step, each to within 1.3 points.""",
    "ladder": """\
The scenario runs each rung once. Five runs of each on an H100 with nsys 2025.3.1 gave one verdict: with
`graph` a step is faster by 65 %, between 46 and 77 %. The other rungs took 36, 31, 24 and 7 % off, and
five runs cannot tell that from noise: equal runs differ as much where the host sets the pace.""",
}
VERDICT = """\
`nsyswrap compare --run 5 -- COMMAND... -- COMMAND...` with two of its programs does this;
`nsyswrap report RUN -r step_budget` has the steps of a run one by one.
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
    return f"\n{head}|---|---|---|---|\n{''.join(lines)}\n{VERDICTS[name]}\n{VERDICT}" if lines else ""
