"""The rows of the modules: kernel time of a call, whatever the kernels are called."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from made_modules import ENGINE, Training, training
from tiny_export import KERNEL, changed, opened
from tiny_export import Row as ExportRow

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import Key, RowFigures, RunFigures, Setup, Side
from nsyswrap.analysis.compare.module_rows import hidden_modules
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.reports.wording.notes import note_texts


def figures(folder: Path, rows: Sequence[ExportRow]) -> RunFigures:
    folder.mkdir()
    return run_figures(opened(folder, *rows))


def module(name: str, phase: str = "forward") -> Key:
    return Key("module", name, phase)


# Per step: embed 3; layers 10 and 20 forward, 20 and 40 backward and 5 for each bias; adam 7.
def test_a_row_is_the_own_time_of_the_calls(tmp_path: Path) -> None:
    run = figures(tmp_path / "run", training(steps=4))
    rows = {
        key: (row.count, row.total_ns, row.typical_ns)
        for key, row in run.rows.items()
        if key.group == "module"
    }
    assert rows == {
        module("layers.1", "backward"): (4, 180, 45.0),
        module("layers.0", "backward"): (4, 100, 25.0),
        module("layers.1"): (4, 80, 20.0),
        module("layers.0"): (4, 40, 10.0),
        module("GPT"): (4, 12, 3.0),
    }
    assert not any(key.group == "range" and "aten" in key.name for key in run.rows)
    assert [key.name for key in run.rows if key.group == "range"] == ["optimizer"]


def test_a_renamed_and_fused_kernel_is_still_its_layers(tmp_path: Path) -> None:
    base = training(steps=4)
    new = [changed(row, demangledName="flash") if renamed(row) else row for row in training(4, slower=15)]
    sides = [Side(name, (figures(tmp_path / name, rows),)) for name, rows in (("base", base), ("new", new))]
    found = compare(sides[0], sides[1])
    pairs = {pair.key: pair for pair in found.of("module")}
    assert pairs[module("layers.1")].cost_ns == 4 * 15
    assert {key for key, pair in pairs.items() if pair.cost_ns} == {module("layers.1")}
    assert not any(pair.is_added or pair.is_removed for pair in pairs.values())
    assert {pair.key.name for pair in found.of("kernel") if pair.is_added} == {"flash"}


def renamed(row: ExportRow) -> bool:
    """The kernel of the last layer's forward."""
    start, end = row.cells.get("start"), row.cells.get("end")
    return row.table == KERNEL and isinstance(start, int) and isinstance(end, int) and end - start == 35


def test_a_side_without_modules_adds_and_removes_none(tmp_path: Path) -> None:
    plain = Training()
    plain.launch("gemm", 0, 5)
    sides = [
        Side(name, (figures(tmp_path / name, rows),))
        for name, rows in (("base", plain.rows), ("new", training(steps=4)))
    ]
    found = compare(sides[0], sides[1])
    assert not found.of("module")
    assert "only new was recorded with --modules: modules are not compared" in note_texts(found.remarks)


@pytest.mark.parametrize(
    ("base", "new", "compared"),
    [
        ({"GPT", "head", "layers.0", "layers.0.mlp"}, {"GPT", "Loss"}, set()),
        ({"GPT", "head", "layers.0", "layers.0.mlp"}, {"GPT"}, set()),  # compiled
        ({"GPT", "head", "layers.0", "layers.0.mlp"}, {"GPT", "head"}, set()),  # of another depth
        ({"GPT", "head", "layers.0", "layers.0.mlp"}, {"GPT", "head", "layers.0"}, {"GPT", "head"}),
        ({"GPT", "a.b", "a.b.c"}, {"GPT", "a.b", "a.b.d"}, {"GPT", "a.b", "a.b.c", "a.b.d"}),
    ],
)
def test_a_module_whose_inside_one_side_hides_is_not_compared(
    base: set[str], new: set[str], compared: set[str]
) -> None:
    sides = [
        Side(name, (RunFigures(name, Setup(), {module(one): RowFigures(1, 5.0) for one in names}),))
        for name, names in (("base", base), ("new", new))
    ]
    assert (base | new) - hidden_modules(*sides) == compared


def test_a_call_has_its_own_backward_also_if_others_are_between(tmp_path: Path) -> None:
    made = Training()
    for call, at in enumerate((0, 100, 200)):
        made.module("Head", at, at + 90)
        made.operation("aten::mul", at + 5, at + 80, seq=call)
        made.launch("k", at + 10, 1)
    for call in (2, 1, 0):
        at = 1000 - 100 * call
        made.backward("MulBackward0", at, at + 90, seq=call)
        made.launch("k", at + 5, 10 + call, ENGINE)
        made.launch("k", at + 65, 10, ENGINE)
    rows = figures(tmp_path / "run", made.rows).rows
    assert (rows[module("Head", "backward")].count, rows[module("Head", "backward")].total_ns) == (3, 63)
    assert rows[module("Head", "backward")].typical_ns == 20.5  # without the first, of 22
