"""nsys' rules on the GPU's time, and on options, on tiny exports: rows worked out on paper."""

from pathlib import Path

import pytest
from nsys_says import RULES
from report_tables import notes_text, rows_of
from tiny_export import graph, kernel, opened

from nsyswrap.base.errors import UsageError
from nsyswrap.reports import parse

MS = 10**6


def test_without_any_work_there_is_nothing_to_find(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, MS))
    assert rows_of(capture, "gpu_gaps") == rows_of(capture, "gpu_time_util") == []


def test_whole_graphs_are_no_work_to_nsys_and_that_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 1, 2), graph(10, 600 * MS, 1), kernel("k", 601 * MS, 602 * MS))
    for rule in RULES[4:]:
        assert len(rows_of(capture, rule)) == 1
        assert "whole-graph executions (1) do not count as busy" in notes_text(capture, rule)


def test_a_trimmed_export_has_one_process_and_no_contexts(tmp_path: Path) -> None:
    trimmed = ["globalPid", "contextId"]
    capture = opened(tmp_path, kernel("k", 1, 5), kernel("k", 2 * MS, 3 * MS), without=trimmed)
    assert rows_of(capture, "gpu_gaps:gap=1") == [f"1,{2 * MS - 5},5,,0,"]
    assert rows_of(capture, "gpu_time_util:chunks=2") == [f"1,0.0,{MS * 3 // 2},1,,0,"]


def test_one_operation_leaves_nothing_to_say(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 10))
    assert rows_of(capture, "gpu_gaps:gap=0") == rows_of(capture, "gpu_time_util:threshold=101") == []


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("gpu_time_util:chunks=0", "at least 1 and at most 1000"),
        ("gpu_time_util:chunks=1001", "at least 1 and at most 1000"),
        ("gpu_gaps:gap=-1", "at least 0"),
        ("gpu_gaps:chunks=3", "options: rows=N, gap=N"),
    ],
)
def test_options_out_of_range(asked: str, hint: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 20))
    with pytest.raises(UsageError) as caught:
        parse(asked).make(capture)
    assert caught.value.hint == hint
