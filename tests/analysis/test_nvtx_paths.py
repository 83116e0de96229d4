"""The paths of NVTX ranges around calls, as the timeline of Perfetto has them."""

from pathlib import Path

import numpy as np
from made_modules import training
from tiny_export import call, domain, kernel, nvtx, opened

from nsyswrap.analysis.range_tree.tree import call_paths
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING


def paths_of(capture: CaptureReader) -> list[str | None]:
    """The path of each call, then that of no call."""
    calls = np.append(np.arange(capture.whole.count("api")), -1)
    numbers, paths = call_paths(capture.whole, calls)
    return [None if number == MISSING else paths[number] for number in numbers.tolist()]


def test_names_from_the_outermost_range_on(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(domain("mine", 2), domain("GIL Trace", 3)),
        *(nvtx("step", 0, 100), nvtx("part", 10, 50, domainId=2), nvtx("Holding GIL", 15, 45, domainId=3)),
        *(call("launch", 20, 25, 1), kernel("k", 30, 40, 1)),
        *(call("launch", 60, 65, 2), call("launch", 200, 205, 3)),
    )
    assert paths_of(capture) == ["step/mine:part", "step", None, None]


def test_operations_of_pytorch_are_named_without_numbers_and_sizes(tmp_path: Path) -> None:
    texts = (
        "aten::linear, seq = 3, op_id = 4, sizes = [[2, 2]]",
        "aten::mm, op_id = 5, sizes = [[2, 2], [2]]",
    )
    ranges = (nvtx(text, i, 100 - i) for i, text in enumerate(("step, 1", *texts)))
    capture = opened(tmp_path, *ranges, call("launch", 20, 25, 1), kernel("k", 30, 40, 1))
    assert paths_of(capture) == ["step, 1/aten::linear/aten::mm", None]


def test_modules_are_paths_in_the_tree_also_of_a_backward(tmp_path: Path) -> None:
    capture = opened(tmp_path, *training(steps=1))
    assert paths_of(capture) == [
        *("GPT", "GPT/layers.0", "GPT/layers.1"),
        *("GPT/layers.1", "GPT/layers.1", "GPT/layers.0", "GPT/layers.0"),
        *("optimizer", None),
    ]
