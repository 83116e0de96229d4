"""Several captures in one table, and the labels that tell them apart."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sampled import sampled
from tiny_export import call, everything, kernel, opened

from nsyswrap.api import CaptureReader
from nsyswrap.base.text import shortest_labels
from nsyswrap.render.formats import csv, text
from nsyswrap.reports import NAMES
from nsyswrap.reports.make import combine
from nsyswrap.reports.table import Column, Schema, Table, Values, table_of

COLUMNS = (Column("avg_ns", "Avg", "h"), Column("name", "Name", "h"))
SCHEMA = Schema("r", "R", *COLUMNS)
ONE_ROW: dict[str, Values] = {"avg_ns": np.array([1]), "name": ["n"]}
OUTER = os.fsdecode(b"\xff")  # a name that is no UTF-8


def captures(folder: Path) -> list[tuple[str, CaptureReader]]:
    made = []
    for label, end in (("first", 30), ("second", 50)):
        (folder / label).mkdir()
        made.append((label, opened(folder / label, kernel("k", 20, end, 1), call("f", 0, 9, 1))))
    return made


def test_rows_of_each_capture_in_their_order_with_its_label(tmp_path: Path) -> None:
    table = combine([(label, capture.report("cuda_gpu_kern_sum")) for label, capture in captures(tmp_path)])
    assert csv.render([table])["cuda_gpu_kern_sum.csv"].splitlines() == [
        "Capture,Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name",
        "first,100.0,10,1,10.0,10.0,10,10,0.0,k",
        "second,100.0,30,1,30.0,30.0,30,30,0.0,k",
    ]
    assert table.frame["capture"].tolist() == ["first", "second"]
    assert text.render([table])["cuda_gpu_kern_sum.txt"].splitlines()[1].startswith("Capture  Time %")


@sampled(("name", "rounding"), product(NAMES, ("2025", "legacy")), fast=19)
def test_every_report_goes_together(name: str, rounding: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *everything()).viewed(rounding=rounding).report(name)
    joined = combine([("a", table), ("b", table)])
    assert joined.columns[1:] == table.columns
    assert joined.rows() == [(label, *row) for label in "ab" for row in table.rows()]
    assert (joined.rounding, joined.label) == (table.rounding, table.label)


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ([[1, None], [2]], [1, None, 2]),
        ([[1, None], [2.5, None]], [1.0, None, 2.5, None]),  # no 2^63 of what was missing
        ([[], [2.5]], [2.5]),
        ([[], []], []),
        ([[2**62 + 1], [], [3]], [2**62 + 1, 3]),
    ],
)
def test_numbers_of_two_kinds_go_together(parts: list[list[object]], values: list[object]) -> None:
    tables = [(str(i), table_of(SCHEMA, [(value, "n") for value in part])) for i, part in enumerate(parts)]
    assert [row[1] for row in combine(tables).rows()] == values


def test_integers_stay_integers_beside_a_table_without_rows() -> None:
    filled = table_of(SCHEMA, [(2**62 + 1, "n")])
    empty = Table(SCHEMA, {"avg_ns": np.empty(0), "name": []})
    assert combine([("a", empty), ("b", filled)]).rows() == [("b", 2**62 + 1, "n")]


def test_a_note_names_its_capture_unless_it_is_of_all() -> None:
    tables = [
        ("a", Table(SCHEMA, ONE_ROW, notes=("of all", "of one"))),
        ("b", Table(SCHEMA, ONE_ROW, notes=("of two", "of all"))),
        ("c", Table(SCHEMA, ONE_ROW, notes=("of all", "of two"))),
    ]
    assert combine(tables).notes == ("of all", "a: of one", "b: of two", "c: of two")


def test_what_is_selected_of_all_is_said_once() -> None:
    table = Table(SCHEMA, ONE_ROW, selection="device 0", suffix="_base")
    joined = combine([("a", table), ("b", table)])
    assert (joined.selection, joined.label) == ("device 0", "r_base")


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], []),
        (["runs/a"], ["a"]),
        (["runs/a", "runs/b"], ["a", "b"]),
        (["runs/a", "older/runs/a"], ["runs", "older/runs"]),
        (["runs/a", str(Path.cwd() / "runs/a")], ["a", "a (2)"]),
        (["x/report.sqlite", "y/report.sqlite"], ["x", "y"]),
        (["x/out.sqlite", "y/out.nsys-rep"], ["x", "y"]),
        (["x/out.sqlite", "y/out.sqlite", "y/two.sqlite"], ["x/out", "y/out", "y/two"]),
        (["a/1/out.sqlite", "b/2/out.sqlite"], ["1", "2"]),
        (["runs/a", "elsewhere/b/report.sqlite"], ["a", "b"]),
        (["c.sqlite", "d.nsys-rep", "e.qdrep"], ["c", "d", "e"]),
        (["c.sqlite", "c.nsys-rep"], ["c.sqlite", "c.nsys-rep"]),
        (["v1.2", "v1.3"], ["v1.2", "v1.3"]),
        (["runs/a", "runs/a"], ["a", "a (2)"]),
        (["runs/a", "runs/./a/", "runs/b"], ["a", "a (2)", "b"]),
        (["a", "a", "a (2)"], ["a", "a (2)", "a (2) (2)"]),
        (["/report.sqlite"], ["report"]),
        (["/"], ["/"]),
        ([f"{OUTER}.sqlite"], [r"\xff"]),
    ],
)
def test_labels_are_short_and_tell_captures_apart(paths: list[str], expected: list[str]) -> None:
    assert shortest_labels([Path(path) for path in paths]) == expected


def test_labels_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert shortest_labels([Path()]) == ["run"]
