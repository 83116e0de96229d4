"""What an operation waited for on the GPU: by its stream, and by events that its stream awaited."""

from pathlib import Path

import pytest
from advised import new
from tiny_export import PID, Row, call, global_id, kernel, memset, row

from nsyswrap.analysis.stream_order import StreamOrder

SYNC, EVENT = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
LONG, SHORT = "long", "short"


def launched(name: str, at: int, number: int, span: tuple[int, int], stream: int = 7) -> list[Row]:
    return [call("cudaLaunchKernel", at, at + 5, number), kernel(name, *span, number, streamId=stream)]


def place(stream: int, number: int, event: int, pid: int = PID) -> dict[str, int]:
    cells = {"deviceId": 0, "contextId": 1, "streamId": stream, "correlationId": number}
    return {**cells, "globalPid": global_id(pid), "eventSyncId": event}


def recorded(at: int, number: int, event: int, stream: int = 7, pid: int = PID) -> list[Row]:
    return [
        call("cudaEventRecord_v3020", at, at + 2, number, pid=pid),
        row(EVENT, **place(stream, number, event, pid)),
    ]


def awaited(
    at: int, number: int, event: int, stream: int, name: str = "cudaStreamWaitEvent_v3020"
) -> list[Row]:
    times = {"start": at, "end": at + 1, "syncType": 3}  # as nsys 2026.2 numbers it
    return [call(name, at, at + 2, number), row(SYNC, **times, **place(stream, number, event))]


def waited_for(tmp_path: Path, *rows: Row, span: tuple[int, int] = (100, 200)) -> int:
    """Return what the last operation waited for in this time; the first operations have the first numbers."""
    capture = new(tmp_path, *rows)
    order = StreamOrder(capture.whole)
    return order.waited_for(len(order.start_ns) - 1, *span)


# stream 7   long[100 .. 200) short[200 .. 210)
def test_the_operation_before_in_the_same_stream(tmp_path: Path) -> None:
    rows = [*launched(LONG, 10, 1, (100, 200)), *launched(SHORT, 20, 2, (200, 210))]
    assert waited_for(tmp_path, *rows) == 0
    assert waited_for(tmp_path, *rows, span=(200, 210)) == -1  # long is done by then


# stream 7   long[100 .. 200)           recorded at 20
# stream 8                   short[200 .. 210)    awaits it at 30
SIDE = [*launched(LONG, 10, 1, (100, 200)), *launched(SHORT, 40, 2, (200, 210), stream=8)]


def test_another_stream_is_no_order_without_an_event(tmp_path: Path) -> None:
    assert waited_for(tmp_path, *SIDE) == -1


def test_an_awaited_event_of_another_stream(tmp_path: Path) -> None:
    assert waited_for(tmp_path, *SIDE, *recorded(20, 3, 1), *awaited(30, 4, 1, 8)) == 0


@pytest.mark.parametrize(
    "rows",
    [
        awaited(30, 4, 0, 8),  # never recorded
        [*recorded(5, 3, 1), *awaited(30, 4, 1, 8)],  # before long was launched
        [*recorded(20, 3, 1), *awaited(50, 4, 1, 8)],  # after short was launched
        [*recorded(20, 3, 1), *awaited(30, 4, 1, 8, name="cudaStreamSynchronize_v3020")],  # the host waited
        [*recorded(20, 3, 1, pid=PID + 1), *awaited(30, 4, 1, 8)],  # in another process
    ],
)
def test_what_is_no_wait_for_the_other_stream(rows: list[Row], tmp_path: Path) -> None:
    assert waited_for(tmp_path, *SIDE, *rows) == -1


def test_a_stream_without_work_hands_a_wait_on(tmp_path: Path) -> None:
    first = [*recorded(20, 3, 1), *awaited(22, 4, 1, 9)]
    second = [*recorded(25, 5, 2, stream=9), *awaited(30, 6, 2, 8)]
    assert waited_for(tmp_path, *SIDE, *first, *second) == 0


def test_short_operations_between_are_passed(tmp_path: Path) -> None:
    between = [call("cudaMemsetAsync", 15, 18, 9), memset(200, 202, 4, correlationId=9, streamId=7)]
    rows = [*launched(LONG, 10, 1, (100, 200)), *between, *launched(SHORT, 20, 2, (202, 210))]
    assert waited_for(tmp_path, *rows) == 0


@pytest.mark.parametrize("last", [0, 1])
def test_of_the_nodes_of_a_graph_the_last_to_end_counts(last: int, tmp_path: Path) -> None:
    nodes = [kernel("node", 100 + 10 * i, 200 if i == last else 120, 1, streamId=7) for i in range(2)]
    rows = [call("cudaGraphLaunch", 10, 15, 1), *nodes, *launched(SHORT, 20, 2, (200, 210))]
    assert waited_for(tmp_path, *rows) == last


@pytest.mark.parametrize(
    ("rows", "known"),
    [
        (SIDE, True),
        ([*SIDE, *recorded(20, 3, 5), *awaited(30, 4, 5, 8)], True),
        ([*SIDE, *recorded(20, 3, 5), awaited(30, 4, 5, 8)[0]], False),  # without what tells the event
        ([*SIDE, *awaited(30, 4, 5, 8)], False),
    ],
)
def test_what_streams_awaited_is_known(tmp_path: Path, rows: list[Row], *, known: bool) -> None:
    assert StreamOrder(new(tmp_path, *rows).whole).knows_waits == known
