"""Which ranges seem to measure GPU work. Drawings are in microseconds."""

import json
from pathlib import Path

import pytest
import recorded
from test_timing_audit_causation import launch, ranged, sync
from tiny_export import Row, call, memcpy, nvtx, opened

from nsyswrap.analysis.nvtx_ranges import range_labels
from nsyswrap.analysis.timing_audit import audit
from nsyswrap.analysis.timing_audit.purpose import seems_measured
from nsyswrap.api import CaptureReader, open_capture


def measured(capture: CaptureReader) -> dict[str | None, list[bool]]:
    """The marks of each name."""
    codes, names = range_labels(capture.whole, audit(capture).row)
    marks = seems_measured(capture)
    return {name: marks[codes == code].tolist() for code, name in enumerate(names) if (codes == code).any()}


def repeated(*rows: Row, times: int = 3, every: int = 200) -> list[Row]:
    """The rows, ``times`` times, ``every`` us apart."""
    again = []
    for i in range(times):
        for one in rows:
            moved = {
                name: value + 1000 * every * i
                for name, value in one.cells.items()
                if name in {"start", "end"} and isinstance(value, int)
            }
            number = one.cells.get("correlationId")
            numbers = {"correlationId": number + 100 * i} if isinstance(number, int) and number else {}
            again.append(Row(one.table, {**one.cells, **moved, **numbers}))
    return again


# step 0 [ forward 2-10: launch 4 | optimizer 20-30: launch 22 | sync 40-90 ] 100
STEP = [
    *(ranged("step", 0, 100), ranged("forward", 2, 10), ranged("optimizer", 20, 30)),
    *(*launch(1, 4, 8, 40), *launch(2, 22, 40, 80), sync(40, 90)),
]


def test_one_synchronize_per_step_measures_the_step_alone(tmp_path: Path) -> None:
    marks = measured(opened(tmp_path, *repeated(*STEP)))
    assert marks == {"step": [True] * 3, "forward": [False] * 3, "optimizer": [False] * 3}


def test_without_synchronizing_nothing_is_measured(tmp_path: Path) -> None:
    rows = [one for one in STEP if one.cells.get("correlationId") != 0]
    marks = measured(opened(tmp_path, *repeated(*rows)))
    assert not any(sum(marks.values(), []))  # noqa: RUF017 - three short lists


def test_a_synchronize_around_every_instance_measures(tmp_path: Path) -> None:
    # sync 0-5 | a 10 [ launch 12 ] 20 | sync 25-60
    rows = [sync(0, 5), ranged("a", 10, 20), *launch(1, 12, 16, 55), sync(25, 60)]
    assert measured(opened(tmp_path, *repeated(*rows))) == {"a": [True] * 3}


def test_a_result_fetched_after_the_range_does_not_measure(tmp_path: Path) -> None:
    # forward 10 [ launch 12 ] 20 | copy 25-28, synchronize its stream 30-60: as .cpu() does
    fetch = [call("cudaMemcpyAsync", 25_000, 28_000, 2), memcpy(2, 50_000, 55_000, 8, correlationId=2)]
    rows = [ranged("forward", 10, 20), *launch(1, 12, 16, 50), *fetch, sync(30, 60)]
    assert measured(opened(tmp_path, *repeated(*rows))) == {"forward": [False] * 3}


def test_a_blocking_copy_at_both_ends_measures_the_step(tmp_path: Path) -> None:
    # step 10 [ launch 12 | blocking copy 25-60 ] 70: each step begins behind the copy of the one before
    copied = [call("cudaMemcpy", 25_000, 60_000, 2), memcpy(2, 50_000, 55_000, 8, correlationId=2)]
    rows = [ranged("step", 10, 70), *launch(1, 12, 16, 50), *copied]
    assert measured(opened(tmp_path, *repeated(*rows))) == {"step": [True] * 3}


def test_a_synchronize_inside_measures_even_what_waits_for_earlier_work(tmp_path: Path) -> None:
    # launch 2 | b 10 [ launch 12 | sync 15-60 ] 70: its time includes the first launch
    rows = [*launch(1, 2, 6, 30), ranged("b", 10, 70), *launch(2, 12, 30, 50), sync(15, 60)]
    assert measured(opened(tmp_path, *repeated(*rows))) == {"b": [True] * 3}


def test_a_loss_that_is_fetched_inside_organizes(tmp_path: Path) -> None:
    # launch 2 | loss 10 [ copy 12-14 | synchronize its stream 15-60 ] 70 | launch 80: as .item() does
    fetch = [call("cudaMemcpyAsync", 12_000, 14_000, 2), memcpy(2, 50_000, 55_000, 8, correlationId=2)]
    rows = [*launch(1, 2, 6, 50), ranged("loss", 10, 70), *fetch, sync(15, 60), *launch(3, 80, 84, 90)]
    assert measured(opened(tmp_path, *repeated(*rows))) == {"loss": [False] * 3}


@pytest.mark.parametrize(("synchronized", "expected"), [(2, True), (1, False)])
def test_most_instances_of_a_name_decide_for_all(synchronized: int, expected: bool, tmp_path: Path) -> None:  # noqa: FBT001
    # of three instances one or two synchronize inside; the launch after each keeps its next one apart
    rows = [ranged("c", 10, 70), *launch(1, 12, 30, 50), *launch(2, 80, 84, 190)]
    syncs = repeated(sync(15, 60), times=synchronized)
    assert measured(opened(tmp_path, *repeated(*rows), *syncs)) == {"c": [expected] * 3}


def test_ranges_of_nsyswrap_measure_are_measured(tmp_path: Path) -> None:
    text = "nsyswrap.measure " + json.dumps({"name": "m", "host_ns": 9})
    rows = [
        ranged("m", 0, 10),
        *launch(1, 2, 8, 40),
        nvtx(text, 10_500, None, eventType=34),
        ranged("n", 20, 30),
    ]
    assert measured(opened(tmp_path, *rows)) == {"m": [True], "n": [False]}


def test_a_selection_keeps_the_marks(tmp_path: Path) -> None:
    capture = opened(tmp_path, *repeated(*STEP)).select(time="200us/350us")
    assert measured(capture) == {"step": [True], "forward": [False], "optimizer": [False]}


@pytest.mark.parametrize(
    ("run", "name", "expected"),
    [
        ("gelu/triton", "triton/gelu", True),
        ("events/sync", "sync/a * b", True),
        ("events/nosync", "nosync/a * b", False),  # a host timer without any synchronize leaves no trace
        ("nvtx/kernels", "forward", False),
        ("nvtx/kernels", "backward", False),
        ("ddp/even", "ncclAllReduce@NCCL", False),
        ("ddp/even", "even/rank 0", True),
    ],
)
def test_recorded_ranges(run: str, name: str, expected: bool, tmp_path: Path) -> None:  # noqa: FBT001
    assert set(measured(open_capture(recorded.run_folder(run, tmp_path)))[name]) == {expected}
