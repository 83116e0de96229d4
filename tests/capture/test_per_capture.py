"""A function of a capture that is computed once for each capture."""

import gc
import weakref
from pathlib import Path

import pytest
from tiny_export import kernel, opened

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

computed: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_computed() -> None:
    computed.clear()


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    return opened(tmp_path, kernel("k", 0, 1, 1), kernel("k", 2, 3, 2))


@per_capture
def count(capture: Capture, kind: str = "kernel", *, plus: int = 0) -> int:
    """Count events."""
    computed.append(kind)
    return capture.count(kind) + plus


def test_it_is_computed_once_for_each_set_of_arguments(capture: Capture) -> None:
    assert [count(capture), count(capture)] == [2, 2]
    assert [count(capture, "api"), count(capture, "api")] == [0, 0]
    assert [count(capture, plus=1), count(capture, plus=1), count(capture, plus=2)] == [3, 3, 4]
    assert computed == ["kernel", "api", "kernel", "kernel"]


def test_an_argument_left_out_is_its_default(capture: Capture) -> None:
    assert [count(capture), count(capture, "kernel"), count(capture, kind="kernel", plus=0)] == [2, 2, 2]
    assert computed == ["kernel"]


def test_each_view_has_its_own_result(capture: Capture) -> None:
    assert [count(capture.select(time="2ns/3ns")), count(capture)] == [1, 2]


def test_the_parts_of_a_capture_share_what_is_computed_from_the_whole(capture: Capture) -> None:
    part = capture.select(time="0/5")
    assert part.whole is capture
    assert part.select(time="1/2").whole is capture
    assert capture.select(time="0/5", steps="s").whole is not capture  # it judges other steps


def test_an_exception_is_not_kept(capture: Capture) -> None:
    for _ in range(2):
        with pytest.raises(UsageError):
            count(capture, "nothing")
    assert computed == ["nothing"] * 2


def test_results_go_with_their_capture(tmp_path: Path) -> None:
    opened_here = opened(tmp_path, kernel("k", 0, 1, 1))
    assert count(opened_here) == 1
    left = weakref.ref(opened_here)
    del opened_here
    gc.collect()
    assert left() is None


def test_what_was_computed_from_a_view_can_be_freed_alone(capture: Capture) -> None:
    part = capture.select(time="0/2")
    assert (count(capture), count(part)) == (2, 1)
    times = weakref.ref(part.columns("kernel", "start_ns")["start_ns"])
    part.release()
    assert times() is None
    assert (count(capture), count(part)) == (2, 1)
    assert computed == ["kernel"] * 3  # once for the capture, twice for the part


def test_one_result_of_a_view_can_be_kept(capture: Capture) -> None:
    part = capture.select(time="0/2")
    assert count(part) == 1
    part.release(but=count)
    assert count(part) == 1
    assert computed == ["kernel"]


def test_columns_that_are_freed_are_read_again(capture: Capture) -> None:
    before = capture.columns("kernel", "start_ns", "end_ns")
    capture.release_columns({"kernel": ("start_ns", "copy_kind")})
    after = capture.columns("kernel", "start_ns", "end_ns")
    assert after["end_ns"] is before["end_ns"]
    assert after["start_ns"] is not before["start_ns"]
    assert after["start_ns"].tolist() == before["start_ns"].tolist()


def test_the_function_keeps_its_name() -> None:
    assert (count.__name__, count.__doc__) == ("count", "Count events.")


def test_what_one_function_computed_can_be_freed(capture: Capture) -> None:
    part = capture.select(time="0/2")
    assert [count(part), count(capture)] == [1, 2]
    capture.release(count)
    assert [count(part), count(capture)] == [1, 2]
    assert computed == ["kernel", "kernel", "kernel"]
