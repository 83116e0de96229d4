"""Memory that is allocated over time."""

from pathlib import Path

from tiny_export import PID, allocation, global_id, kernel, opened

from nsyswrap.analysis.usage import memory_use_of
from nsyswrap.api import CaptureReader
from nsyswrap.capture.schema import FREED

FREE = {"memoryOperationType": FREED}
OTHER = {"globalPid": global_id(PID + 1)}


def uses(capture: CaptureReader) -> dict[tuple[int, str], list[tuple[int, int]]]:
    return {
        (use.device, use.memory_kind): list(zip(use.times_ns.tolist(), use.bytes.tolist(), strict=True))
        for use in memory_use_of(capture)
    }


def test_bytes_are_those_between_allocation_and_free(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        kernel("k", 0, 1),
        *(allocation(1, 30, 0, **FREE), allocation(1, 10, 100), allocation(2, 10, 5)),  # no bytes in the free
        allocation(2, 40, 7),  # its free was not recorded
        allocation(9, 50, 1000, **FREE),  # allocated before the recording
        allocation(3, 20, 8, memKind=1),
        allocation(3, 60, 8, memKind=1, **FREE),
        *(allocation(4, 15, 3, memKind=4), allocation(5, 16, 2, deviceId=1, memKind=5)),
        allocation(6, 17, 1, memKind=7),
    )
    assert uses(capture) == {
        (0, "GPU memory"): [(10, 105), (30, 5), (40, 7)],
        (0, "managed memory"): [(15, 3)],
        (0, "pinned host memory"): [(20, 8), (60, 0)],
        (0, "other memory"): [(17, 1)],
        (1, "GPU memory"): [(16, 2)],
    }


def test_a_selection_keeps_what_was_allocated_before_it(tmp_path: Path) -> None:
    capture = opened(tmp_path, allocation(1, 10, 100), allocation(1, 20, 50, **OTHER), kernel("k", 30, 40))
    first, second = memory_use_of(capture)
    assert (first.bytes.tolist(), second.bytes.tolist()) == ([100], [50])  # one address in two processes
    assert uses(capture.select(time="30ns/40ns", process=PID)) == {(0, "GPU memory"): [(10, 100)]}


def test_nothing_is_said_without_a_record(tmp_path: Path) -> None:
    assert memory_use_of(opened(tmp_path, kernel("k", 0, 1))) == []
