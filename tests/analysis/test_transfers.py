"""Which copies have a time of their own, and what their link could give."""

from pathlib import Path

import numpy as np
import pytest
from copy_examples import (
    DEVICE,
    GB_PER_S,
    HOST,
    INSIDE,
    MANAGED,
    MIB,
    PEER,
    PINNED,
    TO_DEVICE,
    TO_HOST,
    copy,
    found,
    gpu,
    notes,
)
from tiny_export import Row, memcpy, memset, opened

from nsyswrap.analysis.transfers import Pages
from nsyswrap.capture.schema import UM_TO_DEVICE, UM_TO_HOST


def test_operations_that_took_no_time_are_in_no_bandwidth(tmp_path: Path) -> None:
    capture = opened(
        tmp_path, copy(TO_HOST, 0, 10, 100), copy(TO_HOST, 10, 10, 700), copy(TO_DEVICE, 0, 0, 5), gpu()
    )
    columns = ("count", "total_bytes", "total_ns", "bandwidth_bytes_per_s", "med_bandwidth_bytes_per_s")
    assert found(capture, *columns, "aggregate_bytes_per_s", "left_out") == [
        (2, 800, 10, 10e9, 10e9, 10e9, 1),
        (1, 5, 0, None, None, None, 1),
    ]
    assert notes(capture) == ["2 operations took no time; excluded from bandwidths"]


def test_a_copy_that_the_driver_took_through_the_host_has_no_time_of_its_own(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        copy(TO_HOST, 0, 20, MIB, (DEVICE, DEVICE), deviceId=0),
        copy(TO_DEVICE, 20, 40, MIB, (DEVICE, 3), deviceId=1),
        copy(TO_HOST, 40, 90, MIB, (DEVICE, MANAGED)),  # managed memory may be the host's
        copy(PEER, 90, 95, MIB, (DEVICE, DEVICE)),
    )
    assert found(capture, "dst_kind", "total_bytes", "left_out", "bandwidth_bytes_per_s") == [
        ("Managed", MIB, 0, MIB / 50 * 1e9),
        ("Array", MIB, 1, None),
        ("Device", MIB, 1, None),
        ("Device", MIB, 0, MIB / 5 * 1e9),
    ]
    [note] = notes(capture)
    assert note == (
        "2 operations went between two GPUs through the host, and nsys timed only one part; excluded from "
        "bandwidths"
    )


@pytest.mark.parametrize(
    ("kind", "memory", "size", "possible"),
    [
        # The memory moves 1000 bytes/ns, and each copy takes 10 ns; the cache may hold 500 bytes of it.
        (TO_DEVICE, (PINNED, DEVICE), 10_500, True),
        (TO_DEVICE, (PINNED, DEVICE), 10_501, False),
        (PEER, (DEVICE, DEVICE), 10_501, False),
        (INSIDE, (DEVICE, DEVICE), 5500, True),  # which the memory reads and writes
        (INSIDE, (DEVICE, DEVICE), 5501, False),
    ],
)
def test_nothing_is_faster_than_the_memory_of_the_gpu(
    tmp_path: Path, kind: int, memory: tuple[int, int], size: int, *, possible: bool
) -> None:
    copied = copy(kind, 0, 10, size, memory)
    capture = opened(tmp_path, copied, gpu(cache=500))
    assert found(capture, "left_out", "bandwidth_bytes_per_s") == [(0, size * 1e8) if possible else (1, None)]
    marked = (
        "1 operation ran faster than the GPU's memory allows: the time is not that of the transfer; "
        "excluded from bandwidths"
    )
    assert notes(capture) == ([] if possible else [marked])
    for number, unknown in enumerate((gpu(cache=None), gpu(bandwidth=None), gpu(bandwidth=0))):
        (tmp_path / str(number)).mkdir()
        assert found(opened(tmp_path / str(number), copied, unknown), "left_out") == [(0,)]


LINK = ("link_bytes_per_s", "link_percent")


@pytest.mark.parametrize(
    ("operation", "link"),
    [
        (copy(INSIDE, 0, 10, 1000, (DEVICE, DEVICE)), (500e9, 20.0)),  # 100 of 500 GB/s: read and written
        (copy(INSIDE, 0, 10, 1000, (DEVICE, MANAGED)), (None, None)),
        (memcpy(INSIDE, 0, 10, 1000), (500e9, 20.0)),  # inside a device, says its direction
        (copy(5, 0, 10, 1000, (3, 3)), (500e9, 20.0)),
        (memset(0, 10, 1000), (1000e9, 10.0)),
        (memset(0, 10, 1000, memKind=5), (1000e9, 10.0)),
        (memset(0, 10, 1000, memKind=PINNED), (None, None)),
        (memset(0, 10, 1000, memKind=MANAGED), (None, None)),
        (memset(0, 10, 1000, memKind=None), (None, None)),
        (copy(TO_DEVICE, 0, 10, 1000), (None, None)),
        (copy(TO_HOST, 0, 10, 1000, (DEVICE, PINNED)), (None, None)),
        (copy(PEER, 0, 10, 1000, (DEVICE, DEVICE)), (None, None)),
        (copy(HOST, 0, 10, 1000, (PINNED, PINNED)), (None, None)),
        (copy(11, 0, 10, 1000, (7, 7)), (None, None)),
    ],
)
def test_the_link_is_known_inside_a_gpu_alone(
    tmp_path: Path, operation: Row, link: tuple[float | None, float | None]
) -> None:
    assert found(opened(tmp_path, operation, gpu()), *LINK) == [link]


@pytest.mark.parametrize(
    ("gpus", "link"),
    [
        ([], None),
        ([gpu(bandwidth=None)], None),
        ([gpu(0), gpu(1)], 500e9),
        ([gpu(0), gpu(1, 2000 * GB_PER_S)], None),  # which of them a device id means is not certain
        ([gpu(0), gpu(1, None)], None),
    ],
)
def test_gpus_have_to_agree_on_what_their_memory_gives(
    tmp_path: Path, gpus: list[Row], link: float | None
) -> None:
    capture = opened(tmp_path, copy(INSIDE, 0, 10, 1000, (DEVICE, DEVICE)), *gpus)
    assert found(capture, "link_bytes_per_s") == [(link,)]
    unknown = "peak bandwidth of the GPU's memory unknown: not in the export, or the GPUs differ"
    assert notes(capture) == ([] if link else [unknown])


@pytest.mark.parametrize(
    ("there", "back", "bounced"),
    [(1, 1, False), (2, 1, True), (1, 2, True), (0, 2, False), (2, 0, False), (0, 0, False)],
)
def test_pages_bounce_that_return_and_leave_again(there: int, back: int, *, bounced: bool) -> None:
    moves = {UM_TO_DEVICE: np.array([there]), UM_TO_HOST: np.array([back])}
    length, migrations = Pages(np.array([3]), moves, {}).back_and_forth()
    assert (length.tolist(), migrations.tolist()) == (([3], [there + back]) if bounced else ([], []))
