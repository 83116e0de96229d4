"""NVTX ranges: what nests in what, what they are called, and what was launched inside them."""

import random
from pathlib import Path

import numpy as np
import pytest
from tiny_export import PID, call, domain, global_id, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.arrays.spans import Spans, closest, enclosures, paths, tree
from nsyswrap.analysis.nvtx_ranges import counted_ranges, kernel_ranges, nested_ranges, texts_and_domains
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import Rounding
from nsyswrap.reports.table import Table

ELSEWHERE = global_id(PID, 101)


def spans(*triples: tuple[int, int, int]) -> Spans:
    """Spans of (thread, start, end)."""
    return Spans(*(np.array(column) for column in zip(*triples, strict=True)))


def any_spans(dice: random.Random, number: int) -> list[tuple[int, int, int]]:
    starts = [dice.randrange(40) for _ in range(number)]
    return [(dice.randrange(3), start, start + dice.choice((0, 1, 5, 30))) for start in starts]


def column(table: Table, name: str) -> list[object]:
    return list(table.frame[name])


@pytest.mark.parametrize("seed", range(20))
def test_every_pair_is_found_once(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    inner, outer = any_spans(dice, 60), any_spans(dice, 40)
    found = enclosures(spans(*inner), spans(*outer))
    expected = [
        (i, o)
        for i, (thread, start, end) in enumerate(inner)
        for o, (other, begins, until) in enumerate(outer)
        if thread == other and begins <= start and until >= end
    ]
    assert sorted(zip(*(numbers.tolist() for numbers in found), strict=True)) == expected
    nearest = closest(spans(*inner), spans(*outer), np.array([end - start for _, start, end in outer]))
    for i, best in enumerate(nearest.tolist()):
        holders = [(outer[o][2] - outer[o][1], o) for held, o in expected if held == i]
        assert best == min(holders, default=(0, -1))[1]


def test_what_is_unknown_lies_in_nothing_and_holds_nothing() -> None:
    known, endless, nowhere = (1, 5, 6), (1, 0, MISSING), (MISSING, 0, 9)
    assert enclosures(spans(known), spans(endless, nowhere))[0].tolist() == []
    assert enclosures(spans(endless, nowhere), spans((1, 0, 9)))[0].tolist() == []


def test_ranges_nest_in_the_tightest_one() -> None:
    nested = tree(spans((1, 0, 90), (1, 10, 80), (1, 20, 30), (1, 75, 85), (2, 20, 30)))
    assert nested.parent.tolist() == [-1, 0, 1, 0, -1]  # the fourth only overlaps the second
    assert nested.depth.tolist() == [0, 1, 2, 1, 0]
    assert nested.top.tolist() == [0, 0, 0, 0, 4]
    assert paths(nested, np.array([1, 4, 5, 6, 9])) == [":1", ":1:4", ":1:4:5", ":1:6", ":9"]


def test_ranges_of_the_same_times_have_no_depth() -> None:
    nested = tree(spans((1, 0, 90), (1, 10, 80), (1, 10, 80), (1, 20, 30), (1, 85, 86)))
    assert nested.parent.tolist() == [-1, 2, 1, 1, 0]
    assert nested.depth.tolist() == [0, MISSING, MISSING, MISSING, 1]
    assert paths(nested, np.arange(5)) == [":0", None, None, None, ":0:4"]


def test_a_deep_stack() -> None:
    depth = 1000
    nested = tree(spans(*((1, i, 2 * depth - i) for i in range(depth))))
    assert nested.depth.tolist() == list(range(depth))
    assert set(nested.top.tolist()) == {0}


@pytest.mark.parametrize(
    ("rounding", "names"),
    [
        ("2025", ["own:a", ":a", "registered:b", ":c", ":", "own:", ":a"]),
        ("legacy", ["own:a", "a", "b", "c", None, None, "a"]),
    ],
)
def test_names(rounding: Rounding, names: list[str | None], tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        domain("own", 1),
        domain("too late", 1, start=5),
        domain(None, 2, textId="registered"),
        domain("of another process", 3, pid=200),
        nvtx("a", 1, 2, domainId=1),
        nvtx("a", 1, 2),
        nvtx(None, 1, 2, textId="b", domainId=2),
        nvtx("hidden", 1, 2, textId="c", domainId=3),
        nvtx(None, 1, 2, textId=7),  # StringIds has no 7
        nvtx(None, 1, 2, domainId=1),
        nvtx("a", 1, 2, domainId=None),
        nvtx("a mark", 1, None, eventType=34),
    ).viewed(rounding=rounding)
    for ranges in (counted_ranges(capture), nested_ranges(capture)):
        assert list(ranges.labels(ranges.code)) == names
        assert ranges.names == sorted(set(names) - {None})  # type: ignore[type-var]
        assert ranges.row.tolist() == [5, 6, 7, 8, 9, 10, 11]


def test_a_domain_has_the_name_with_which_it_was_created_first(tmp_path: Path) -> None:
    """nsys' own reports count its ranges for both; a range is selected by one name."""
    capture = opened(tmp_path, domain("x", 1), domain("y", 1, start=5), nvtx("a", 0, 10, domainId=1))
    assert texts_and_domains(capture, np.array([2]))[1] == [("a", "x")]


def test_a_domain_of_several_threads_counts_its_ranges_several_times(tmp_path: Path) -> None:
    capture = opened(tmp_path, domain("x", 1), domain("y", 1, tid=101), nvtx("a", 0, 10, domainId=1))
    sums = capture.report("nvtx_sum")
    assert column(sums, "range") == ["x:a", "y:a"]
    assert column(sums, "total_ns") == [10, 10]
    assert sums.notes == (
        "several threads created the same NVTX domain; its ranges count once per thread, as in nsys",
    )
    trace = capture.report("nvtx_pushpop_trace")
    assert column(trace, "name") == ["x:a"]
    assert trace.notes == (
        "several threads created the same NVTX domain; its ranges count once; nsys fails on such a capture",
    )


def test_a_domain_of_no_thread_names_no_range(tmp_path: Path) -> None:
    created = domain("library", 1, globalTid=None)
    rows = [created, nvtx("a", 0, 5, domainId=1, globalTid=None), nvtx("b", 0, 5, domainId=1)]
    ranges = counted_ranges(opened(tmp_path, *rows))
    assert list(ranges.labels(ranges.code)) == [":a", ":b"]


def test_a_range_that_never_ended_lasts_to_the_last_event(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("open", 10, None), nvtx("a", 20, 40), nvtx("m", 70, None, eventType=34))
    sums = capture.report("nvtx_sum")
    assert dict(zip(column(sums, "range"), column(sums, "total_ns"), strict=True)) == {":open": 60, ":a": 20}
    assert sums.notes == ("NVTX ranges without an end: 1; they end at the last NVTX event, as in nsys",)
    trace = capture.report("nvtx_pushpop_trace")  # of which marks are no part
    assert column(trace, "end_ns") == [40, 40]
    assert column(trace, "level") == [0, 1]


def test_the_times_of_ranges_are_missing_where_none_ended(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("open", 10, None))
    rows = capture.report("nvtx_sum").rows()
    assert rows == [(None, None, 1, None, None, None, None, 0.0, "PushPop", ":open")]
    [trace] = capture.report("nvtx_pushpop_trace").rows()
    assert trace[:5] == (10, None, None, 0, None)


def test_sums_tell_styles_apart(tmp_path: Path) -> None:
    ranges = [nvtx("a", 0, 10 * kind, eventType=kind) for kind in (59, 60, 70, 71)]
    capture = opened(tmp_path, *ranges)
    both = capture.report("nvtx_sum")
    assert column(both, "style") == ["StartEnd", "PushPop"]
    assert column(both, "total_ns") == [1310, 1290]
    assert column(capture.report("nvtx_pushpop_sum"), "total_ns") == [1290]
    assert column(capture.report("nvtx_startend_sum"), "total_ns") == [1310]


def test_the_range_around_a_kernel(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("inner", 10, 50), nvtx(None, 60, 80), nvtx("other", 0, 99, tid=101)),
        nvtx("ends elsewhere", 15, 49, eventType=60, endGlobalTid=ELSEWHERE),
        *(call("launch", 20, 30, 1), kernel("in inner", 200, 210, 1)),
        *(call("launch", 52, 58, 2), kernel("in outer", 200, 210, 2)),
        *(call("launch", 95, 101, 3), kernel("outside", 200, 210, 3)),
        kernel("without a call", 200, 210, 4),
        *(call("launch", 62, 68, 5), kernel("in one without a name", 200, 210, 5)),
        *(call("run", 5, 40, 6), call("drive", 11, 39, 6), kernel("called twice", 200, 210, 6)),
    )
    codes, names = kernel_ranges(capture)
    around = [names[code] if code >= 0 else None for code in codes.tolist()]
    assert around == ["inner", "outer", None, None, None, "inner"]


def test_ranges_and_launches_outside_of_a_part_still_name_its_kernels(tmp_path: Path) -> None:
    launched = [call("launch", 1, 2, 1), kernel("early", 3, 4), kernel("late", 50, 60, 1)]
    capture = opened(tmp_path, nvtx("a", 0, 9), *launched)
    assert kernel_ranges(capture)[0].tolist() == [-1, 0]
    assert kernel_ranges(capture.select(time="50/60"))[0].tolist() == [0]


def test_projections(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("graph", 10, 30), nvtx("copy", 40, 60), nvtx("idle", 70, 90)),
        call("cudaGraphLaunch", 11, 20, 1),
        *(kernel("k", 200, 210, 1), kernel("k", 230, 250, 1)),
        *(call("cudaMemcpyAsync", 41, 50, 2), memcpy(1, 300, 340, 8, correlationId=2)),
    )
    trace = capture.report("nvtx_gpu_proj_trace")
    assert trace.rows() == [
        (":outer", 200, 140, 0, 100, "PushPop", 100, 100, 2, 0, 2, 1, None, ":1"),
        (":graph", 200, 50, 10, 20, "PushPop", 100, 100, 1, 1, 0, 2, 1, ":1:2"),
        (":copy", 300, 40, 40, 20, "PushPop", 100, 100, 1, 1, 0, 3, 1, ":1:3"),
    ]
    sums = capture.report("nvtx_gpu_proj_sum")
    assert column(sums, "range") == [":outer", ":graph", ":copy"]
    assert [row[2:5] for row in sums.rows()] == [(140, 100, 1), (50, 20, 1), (40, 20, 1)]
    assert [row[-4:] for row in sums.rows()] == [(2, 2.0, 0.0, 2.0), (1, 1.0, 1.0, 0.0), (1, 1.0, 1.0, 0.0)]


def test_ranges_of_the_same_times_are_projected_without_a_level(tmp_path: Path) -> None:
    launched = [call("launch", 12, 13, 1), kernel("k", 30, 40, 1)]
    capture = opened(tmp_path, nvtx("a", 10, 20), nvtx("b", 10, 20), *launched)
    assert [row[9:] for row in capture.report("nvtx_gpu_proj_trace").rows()] == [
        (None, 1, 1, None, None),
        (None, 1, 2, None, None),
    ]
    assert [row[-2] for row in capture.report("nvtx_gpu_proj_sum").rows()] == [None, None]


def test_a_range_that_ended_on_another_thread_counts_in_sums_alone(tmp_path: Path) -> None:
    moved = nvtx("a", 0, 50, eventType=60, endGlobalTid=ELSEWHERE)
    capture = opened(tmp_path, moved, call("launch", 12, 13, 1), kernel("k", 30, 40, 1))
    assert column(capture.report("nvtx_startend_sum"), "total_ns") == [50]
    assert capture.report("nvtx_gpu_proj_trace").rows() == []
    assert column(capture.report("nvtx_kern_sum"), "range") == [None]


def test_no_ranges_at_all(tmp_path: Path) -> None:
    capture = opened(
        tmp_path, kernel("k", 5, 9, 1), call("launch", 0, 4, 1), nvtx("m", 0, None, eventType=34)
    )
    for name in ("nvtx_sum", "nvtx_pushpop_trace", "nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace"):
        assert capture.report(name).rows() == []
    assert column(capture.report("nvtx_kern_sum"), "range") == [None]
    assert kernel_ranges(capture)[0].tolist() == [-1]


def test_ranges_that_were_not_collected(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 5, 9, 1), call("launch", 0, 4, 1))
    with pytest.raises(NotInCapture, match="no NVTX events in this capture"):
        kernel_ranges(capture)
