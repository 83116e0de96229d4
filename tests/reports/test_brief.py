"""What a packet for agents says that its capture cannot tell."""

from pathlib import Path

import pytest
from advised import STEP_NS, launched, looped
from tiny_export import Row, call, kernel, opened

from nsyswrap.capture.selection import Selection

CLOCKS = "clocks, throttling, other processes"
LOOP = looped(*launched(300, host=290), steps=5)


@pytest.mark.parametrize(
    ("rows", "selection", "unknown"),
    [
        (LOOP, Selection(), [CLOCKS]),
        ([kernel("k", 0, 10)], Selection(), ["the time of a step", CLOCKS]),
        ([call("cudaMalloc", 0, 10)], Selection(), ["why the GPU had no work"]),
        (
            LOOP,
            Selection(start_ns=90 * STEP_NS, end_ns=99 * STEP_NS),
            ["how busy the GPU was: all GPU work is outside of the selection"],
        ),
    ],
    ids=["steps", "no steps", "no GPU work", "none in the selection"],
)
def test_what_a_capture_cannot_tell(
    rows: list[Row], selection: Selection, unknown: list[str], tmp_path: Path
) -> None:
    capture = opened(tmp_path, *rows).viewed(selection=selection)
    assert [one["what"] for one in capture.brief()["unknown"]] == unknown
