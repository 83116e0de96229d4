"""A baseline is read as it was saved, is small, holds no secrets, and is refused if it is damaged."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import SETUP, MadeKernel, made_side

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import ExcludedSteps, Key, RowFigures, RunFigures, Setup, Side
from nsyswrap.analysis.compare.stored_names import (
    LONGEST,
    stored_command,
    stored_key,
    with_full_names,
    with_one_name,
)
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.run_facts import checksum
from nsyswrap.base.version import version
from nsyswrap.reports.compare.baseline import (
    SIZE,
    baseline_text,
    is_baseline,
    read_baseline,
    rows_table,
    spread_percent,
)
from nsyswrap.reports.compare.tables import key_detail
from nsyswrap.reports.wording.notes import note_texts

LONG = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, " + "x, " * 3000
ADD = Key("kernel", "void add<4>(float*)", "128x1x1 256x1x1")
ROW = RowFigures(3, 30.0, 10.0, durations=((9, 1), (10, 1), (11, 1)))


def side_with(*rows: dict[Key, RowFigures], setup: Setup = SETUP) -> Side:
    return Side("main", tuple(RunFigures(f"run-{n}", setup, one, 2) for n, one in enumerate(rows, 1)))


def reread(side: Side, folder: Path) -> Side:
    path = folder / "main.json"
    path.write_text(baseline_text(side))
    return read_baseline(path)


def test_figures_are_read_as_they_were_saved(tmp_path: Path) -> None:
    other, span = Key("copy", "H2D pinned"), Key("step", "step")
    without = replace(ROW, aside=ExcludedSteps(1, 50.0, 2, 70.0))
    side = side_with(
        {
            ADD: replace(ROW, error=0.01, per_step_ns=5.5, clock_mhz=1980.0, clock_samples=7),
            other: ROW,
            span: without,
        },
        {ADD: ROW, Key("copy", "D2H", mode=1): replace(ROW, size_bytes=4096, typical_ns=None)},
    )
    side = replace(side, runs=(replace(side.runs[0], left_out={"range": 5}), side.runs[1]))
    read = reread(side, tmp_path)
    assert [run.left_out for run in read.runs] == [{"range": 5}, {}]
    assert [run.rows for run in read.runs] == [run.rows for run in side.runs]
    assert [(run.label, run.steps) for run in read.runs] == [("run-1", 2), ("run-2", 2)]
    assert (read.name, read.nsyswrap) == ("main", version())
    assert reread(replace(side, nsyswrap="0.2.0"), tmp_path).nsyswrap == "0.2.0"  # it computed the figures


def test_means_are_rounded_to_six_digits(tmp_path: Path) -> None:
    side = made_side(runs=3)
    read = reread(side, tmp_path)
    for before, after in zip(side.runs, read.runs, strict=True):
        assert before.rows.keys() == after.rows.keys()
        for key, row in before.rows.items():
            assert after.rows[key].typical_ns == (row.typical_ns and pytest.approx(row.typical_ns, rel=5e-6))
            assert after.rows[key].total_ns == pytest.approx(row.total_ns, abs=0.5)
            assert after.rows[key].durations == row.durations


def test_conditions_are_kept_without_what_names_the_place(tmp_path: Path) -> None:
    read = reread(made_side(runs=1), tmp_path).runs[0].setup
    expected = made_side(runs=1).runs[0].setup
    assert read == replace(expected, node="", command=stored_command(expected.command))


def test_300_long_kernels_of_five_runs_fit_into_200_kb() -> None:
    kernels = [MadeKernel(f"void kernel_{n}<{LONG[:1000]}>", 10.0 + n, launches=99) for n in range(300)]
    assert SIZE == 200_000
    assert 100_000 < len(baseline_text(made_side(kernels=kernels))) <= SIZE


def test_fewer_durations_keep_the_modes_and_their_means(tmp_path: Path) -> None:
    slow = [(1000 + n, 2) for n in range(16)]
    fast = [(500 + n, 1) for n in range(16)]
    row = replace(ROW, durations=(*fast, *slow))
    names = [Key("kernel", f"kernel_{n}_{LONG[:500]}") for n in range(600)]
    read = reread(side_with(*[dict.fromkeys(names, row)] * 5), tmp_path)
    durations = next(iter(read.runs[0].rows.values())).durations
    assert durations == ((508, 16), (1008, 32))


def test_the_same_runs_in_another_order_of_rows_give_the_same_text() -> None:
    side = made_side(runs=2)
    turned = replace(
        side, runs=tuple(replace(run, rows=dict(reversed(list(run.rows.items())))) for run in side.runs)
    )
    assert baseline_text(turned) == baseline_text(side)


def test_a_changed_kernel_changes_its_line_and_the_checksum_alone() -> None:
    lines = [
        baseline_text(side_with({ADD: ROW, key: row})).splitlines()
        for key, row in ((Key("kernel", "b"), ROW), (Key("kernel", "b"), replace(ROW, count=4)))
    ]
    changed = [(old, new) for old, new in zip(*lines, strict=True) if old != new]
    assert len(changed) == 2
    assert "sha256" in changed[0][0]
    assert '"name":"b"' in changed[1][1]


def test_the_spread_between_runs_stands_in_the_line_of_a_kernel() -> None:
    rows = [replace(ROW, typical_ns=typical) for typical in (10.0, 11.0, 10.5)]
    assert spread_percent(rows) == pytest.approx(100 / 10.5)
    assert spread_percent(rows[:1]) is None
    text = baseline_text(side_with(*({ADD: row} for row in rows)))
    line = next(line for line in text.splitlines() if "spread_percent" in line)
    assert json.loads(line.rstrip(","))["spread_percent"] == 9.52


SECRETS = ("hunter2hunter2", "/home/zaphod", "zaphod", "node17", "sk-abcdefghijklmnopqrstuv", "--lr")


def test_no_path_argument_host_or_credential_is_stored() -> None:
    command = (
        "/home/zaphod/venv/bin/python3",
        "/home/zaphod/train.py",
        "--password",
        "hunter2hunter2",
        "--lr",
        "1",
    )
    setup = replace(SETUP, command=command, node="node17", options="--trace=cuda --output=/home/zaphod/x")
    ranges = {
        Key("range", "load /home/zaphod/data.bin"): ROW,
        Key("range", "login token=sk-abcdefghijklmnopqrstuv"): ROW,
        Key("range", "file:///home/zaphod/x"): ROW,
    }
    side = side_with(ranges, setup=setup)
    text = baseline_text(
        replace(
            side, name="/home/zaphod/main", runs=(replace(side.runs[0], label="/home/zaphod/runs/run-1"),)
        )
    )
    assert not [secret for secret in SECRETS if secret in text]
    assert "train.py" in text
    assert "load data.bin #" in text


def test_a_command_is_another_one_if_its_arguments_are() -> None:
    one, other, elsewhere = (
        stored_command((python, script, "--lr", rate))
        for python, script, rate in (
            ("python3", "train.py", "0.1"),
            ("python3", "train.py", "0.2"),
            ("/usr/bin/python3", "/home/me/train.py", "0.1"),
        )
    )
    assert one[0] == "train.py"
    assert one == elsewhere != other
    assert stored_command(one) == one
    assert stored_command(("/home/me/a.out",)) == ("a.out",)
    assert stored_command(()) == ()


def test_the_hash_of_the_arguments_tells_nothing_of_a_password() -> None:
    one, other = (stored_command(("a.out", "--password", word)) for word in ("hunter2hunter2", "swordfish99"))
    assert one == other != stored_command(("a.out", "--user", "me"))


def test_a_long_name_is_short_readable_and_found_again(tmp_path: Path) -> None:
    keys = [Key("kernel", LONG + end, "1x1x1") for end in ("a>", "b>")]
    fresh = side_with(dict.fromkeys(keys, ROW))
    saved = reread(fresh, tmp_path)
    short = list(saved.runs[0].rows)
    assert len(set(short)) == 2
    assert all(len(key.name) <= LONGEST + 14 and "elementwise" in key.name for key in short)
    assert [stored_key(key) for key in short] == short
    base, new = with_full_names(saved, fresh)
    assert set(base.runs[0].rows) == set(keys)
    assert base.runs[0].setup.command == new.runs[0].setup.command == SETUP.command
    assert with_full_names(fresh, saved)[1] == base
    assert with_full_names(saved, saved) == (saved, saved)


def test_a_kernel_is_found_again_whatever_its_readable_name_was(tmp_path: Path) -> None:
    key = Key("kernel", LONG + "a>", "1x1x1")
    fresh = side_with({key: ROW})
    saved = reread(fresh, tmp_path)
    (short,) = saved.runs[0].rows
    older = side_with({short._replace(name=f"other words {short.name[-14:]}"): ROW})
    for other in (fresh, saved):
        base, new = with_full_names(older, other)
        assert list(base.runs[0].rows) == list(new.runs[0].rows) == list(other.runs[0].rows)
        base, new = with_full_names(other, older)
        assert list(base.runs[0].rows) == list(new.runs[0].rows)
        assert len({key for side in with_one_name([older, other, older]) for key in side.runs[0].rows}) == 1


def test_options_with_a_path_are_equal_to_those_saved(tmp_path: Path) -> None:
    fresh = side_with({ADD: ROW}, setup=replace(SETUP, options="--trace=cuda --json=/home/zaphod/x.json"))
    saved = reread(fresh, tmp_path)
    assert "zaphod" not in saved.runs[0].setup.options
    base, new = with_full_names(saved, fresh)
    assert base.runs[0].setup.options == new.runs[0].setup.options


def test_another_command_stays_another_one(tmp_path: Path) -> None:
    saved = reread(side_with({ADD: ROW}), tmp_path)
    fresh = side_with({ADD: ROW}, setup=replace(SETUP, command=("python", "train.py", "--fast")))
    base, new = with_full_names(saved, fresh)
    assert base.runs[0].setup.command != new.runs[0].setup.command


@pytest.mark.parametrize(
    ("altered", "message"),
    [
        (lambda text: text.replace('"count":3', '"count":4', 1), "damaged"),
        (lambda text: text[: len(text) // 2], "damaged: invalid JSON in line"),
        (lambda text: text.replace('"nsyswrap_baseline": 1', '"nsyswrap_baseline": 2'), "newer nsyswrap"),
        (lambda _: '{"benchmarks": []}', "not a baseline"),
        (lambda _: "[]", "not a baseline"),
        (lambda _: "\udce9".encode("utf-8", "surrogateescape").decode("latin-1"), "invalid JSON in line 1"),
        (lambda _: "", "invalid JSON in line 1"),
    ],
)
def test_a_damaged_file_is_refused(altered: object, message: str, tmp_path: Path) -> None:
    assert callable(altered)
    path = tmp_path / "main.json"
    path.write_text(altered(baseline_text(side_with({ADD: ROW}, {ADD: ROW}))))
    with pytest.raises(CaptureError, match=message) as error:
        read_baseline(path)
    assert error.value.exit_code == 65
    assert str(path) in error.value.message


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("runs", []),
        ("rows", [{"group": "kernel", "name": "a", "count": [1, 2, 3], "total_ns": 1}]),
        ("rows", [{"group": "kernel", "name": "a", "count": 1, "total_ns": 1, "durations": [[1]]}]),
        ("rows", [{"group": "kernel", "name": "a", "count": 1, "total_ns": 1, "durations": [[1, 1]] * 2}]),
        ("rows", [{"group": "kernel", "name": "a", "count": 1, "total_ns": 1}] * 2),
        ("rows", [{"group": "other", "name": "a", "count": 1, "total_ns": 1}]),
        ("rows", [{"group": "kernel", "name": 5, "count": 1, "total_ns": 1}]),
        ("rows", [{"group": "kernel", "name": "a", "count": 1, "total_ns": 1, "typical_ns": -1}]),
        ("rows", [{"group": "kernel", "name": "a", "count": 1, "total_ns": 1, "error": 1e300}]),
        ("rows", [{"group": "kernel", "name": "a", "count": 1, "total_ns": 1, "durations": [[-1, 1]]}]),
        ("runs", [{"label": "run-1", "setup": {"sm_clock_mhz": -1.0}}]),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(part: str, value: object, tmp_path: Path) -> None:
    content = json.loads(baseline_text(side_with({ADD: ROW})))
    mark = content.pop("nsyswrap_baseline")
    content.pop("sha256")
    content[part] = value
    path = tmp_path / "main.json"
    path.write_text(json.dumps({"nsyswrap_baseline": mark, "sha256": checksum(content), **content}))
    with pytest.raises(CaptureError, match="cannot read"):
        read_baseline(path)


def test_a_baseline_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(baseline_text(side_with({ADD: ROW})))
    assert is_baseline(path)
    path.write_text("{}")
    assert not is_baseline(path)
    assert not is_baseline(tmp_path)
    assert not is_baseline(tmp_path / "missing")
    with pytest.raises(CaptureError, match="not found"):
        read_baseline(tmp_path / "missing")


def test_another_layout_of_the_file_is_read(tmp_path: Path) -> None:
    text = baseline_text(side_with({ADD: ROW}))
    path = tmp_path / "main.json"
    path.write_text(json.dumps(json.loads(text), indent=4, sort_keys=True).replace("\n", "\r\n"))
    assert read_baseline(path) == reread(side_with({ADD: ROW}), tmp_path)


def test_a_side_without_runs_cannot_be_saved() -> None:
    with pytest.raises(ValueError, match="run"):
        baseline_text(Side("main", ()))


def test_steps_of_an_earlier_definition_are_left_out_and_named(tmp_path: Path) -> None:
    step, whole = Key("step", "'step'"), Key("budget", "compute", "whole run")
    side = side_with(
        {ADD: replace(ROW, per_step_ns=5.5), step: ROW, Key("budget", "compute"): ROW, whole: ROW}
    )
    content = json.loads(baseline_text(side))
    del content["step_definition"], content["sha256"]  # as one saved before it was written down
    mark = content.pop("nsyswrap_baseline")
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"nsyswrap_baseline": mark, "sha256": checksum(content), **content}))
    read = read_baseline(path)
    assert {*read.runs[0].rows} == {ADD, whole}
    assert (read.runs[0].rows[ADD].per_step_ns, read.runs[0].steps) == (None, 0)
    remarks = note_texts(compare(read, side).remarks)
    [remark] = [text for text in remarks if text.startswith("no steps are compared")]
    assert remark.endswith("save it again: nsyswrap baseline save NAME PATH")


def test_rows_have_the_grid_and_block_of_kernels_and_no_detail_else() -> None:
    rows = rows_table(side_with({ADD: ROW, Key("api", "cudaLaunchKernel"): ROW})).rows()
    assert {row[1]: row[2] for row in rows} == {ADD.name: key_detail(ADD), "cudaLaunchKernel": None}
    assert "256" in key_detail(ADD)
