"""Repeats held together: the merged kernels, the comparison, and parameters that hold anything."""

from dataclasses import replace
from pathlib import Path

import pytest
from batch_folders import batch_of, captured, ended, planned, rows_of
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from tiny_export import graph, kernel, row, write

from nsyswrap.api import open_capture
from nsyswrap.base.errors import UsageError
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.reports.runs.combinations import chosen_measure, compare
from nsyswrap.reports.runs.find import RecordedRun
from nsyswrap.reports.runs.gather import RunResult
from nsyswrap.reports.runs.tables import FIGURES, parameters_of, results_table

pytestmark = pytest.mark.slow

NASTY = 'a "quoted", text\nof two lines'


def result(
    parameters: dict[str, object], repeat: int = 1, outcome: str = "done", **totals: float | None
) -> RunResult:
    what = " ".join(f"{name}={value}" for name, value in parameters.items())
    run = RecordedRun(Path("runs", f"{what}#{repeat}"), f"{what}#{repeat}", outcome, what, parameters, repeat)
    return RunResult(run, {"kernels": 1, **totals} if totals else None)


def compared(results: list[RunResult], by: str = "") -> tuple[list[tuple[object, ...]], str]:
    table = compare(results, parameters_of(results), by)
    return table.rows(), table.verdict


def test_combinations_in_order_with_their_spread() -> None:
    rows, said = compared(
        [
            *(result({"n": 2}, i, kernel_ns=ns) for i, ns in enumerate((400, 440, 420), 1)),
            *(result({"n": 1}, i, kernel_ns=ns) for i, ns in enumerate((100, 101, 99), 1)),
        ]
    )
    assert rows == [(1, 3, 3, 100, 99, 101, 2.0), (2, 3, 3, 420, 400, 440, pytest.approx(100 * 40 / 420))]
    assert said == (
        "Kernel Time: fastest 'n=1', 100 ns (99 ns to 101 ns in 3 runs); "
        "slowest 'n=2', 420 ns (400 ns to 440 ns in 3 runs), 4.20 times as much. "
        "Largest spread over repeats: 9.5 % ('n=2')."
    )


def test_the_busy_share_of_whole_runs_is_not_that_of_the_screen() -> None:
    """The list of runs has that of the judged part as Busy."""
    done = [result({"n": n}, busy_percent=n, judged_busy_percent=90) for n in (1, 2)]
    titles = [
        compare(done, parameters_of(done), by).schema.title for by in ("busy_percent", "judged_busy_percent")
    ]
    assert titles == [
        "GPU Busy of Whole Runs by configuration, lowest first",
        "Busy by configuration, lowest first",
    ]


def test_a_header_of_the_screen_names_a_figure() -> None:
    done = [result({"n": 1}, kernel_ns=100)]
    names = ("kernel_ns", "Kernel Time", "kernel time", "judged_busy_percent", "Busy", "busy", "Busy %")
    assert [chosen_measure(done, name).name for name in names] == ["kernel_ns"] * 3 + [
        "judged_busy_percent"
    ] * 4
    with pytest.raises(UsageError, match="no figure named 'kernel_n'"):
        chosen_measure(done, "kernel_n")


def test_ranges_that_overlap_are_not_told_apart() -> None:
    results = [
        result({"n": n}, i, kernel_ns=ns)
        for n, many in {1: (10, 30), 2: (20, 25)}.items()
        for i, ns in enumerate(many)
    ]
    assert "ranges of first and last overlap: cannot tell the difference from noise" in compared(results)[1]
    results += [result({"n": 3}, i, kernel_ns=100) for i in range(2)]
    assert "first and last" not in compared(results)[1]
    doubt = "range of 1 more configuration overlaps with the first: cannot tell the difference from noise."
    assert doubt in compared(results)[1]
    results += [result({"n": 4}, i, kernel_ns=ns) for i, ns in enumerate((21, 101))]
    assert "The ranges of 2 more configurations overlap with the first: " in compared(results)[1]


def test_one_run_has_no_spread() -> None:
    rows, said = compared([result({"n": n}, kernel_ns=10 * n) for n in (1, 2)])
    assert rows[0] == (1, 1, 1, 10, 10, 10, None)
    assert "One run each: cannot tell the difference from noise." in said
    assert "Largest spread" not in said


def test_only_runs_that_are_done_count_and_the_others_are_seen() -> None:
    rows, said = compared(
        [
            result({"n": 1}, 1, kernel_ns=10),
            result({"n": 1}, 2, "timed_out", kernel_ns=1),
            result({"n": 2}, 1, "planned"),
            result({"n": 3}, 1, "program_failed", kernel_ns=1),
        ]
    )
    assert rows == [(1, 1, 2, 10, 10, 10, None), (2, 0, 1, *[None] * 4), (3, 0, 1, *[None] * 4)]
    assert said == "Kernel Time of 'n=1': 10 ns, one run."


def test_a_run_without_the_work_is_not_the_best_at_it() -> None:
    rows, _ = compared([result({"n": 1}, kernel_ns=0), result({"n": 2}, kernel_ns=10)])
    assert [one[0] for one in rows] == [2, 1]
    rows, _ = compared([result({"n": 1}, copies=0), result({"n": 2}, copies=3)], by="copies")
    assert [one[0] for one in rows] == [1, 2]  # but none of something is a number


def test_captures_that_were_not_planned_are_compared_one_by_one() -> None:
    results = [
        RunResult(RecordedRun(Path(name), name, "done"), {"kernels": 1, "kernel_ns": ns})
        for name, ns in (("a", 2), ("b", 8))
    ]
    rows, said = compared(results)
    assert rows == [("a", 1, 1, 2, 2, 2, None), ("b", 1, 1, 8, 8, 8, None)]
    assert said.startswith("Kernel Time: fastest 'a', 2 ns; slowest 'b', 8 ns, 4.00 times as much.")
    _, said = compared([results[0], RunResult(results[1].run, {"kernels": 1, "kernel_ns": 3000})])
    assert "1,500 times as much." in said


def test_what_is_alike_has_no_least_and_no_most() -> None:
    said = compared([result({"n": n}, copies=0) for n in (1, 2)], by="copies")[1]
    assert said == "Copies: the same median for all 2 configurations, 0."


def test_repeats_of_one_combination_are_compared_by_their_runs() -> None:
    results = [result({"n": 1}, repeat, kernel_ns=ns) for repeat, ns in ((1, 2), (2, 8))]
    assert compared(results)[1] == (
        "Kernel Time of 'n=1' over 2 runs: median 5 ns, from 2 ns (n=1#1) to 8 ns (n=1#2); spread 120.0 %."
    )


def test_the_measure_is_that_of_the_work_there_was() -> None:
    assert chosen_measure([result({}, recorded_ns=5, kernels=0)]).name == "recorded_ns"
    assert chosen_measure([result({}, kernels=0), result({}, kernels=1)]).name == "kernel_ns"
    assert chosen_measure([result({}, kernels=1), result({}, graphs=1)]).name == "busy_ns"
    assert chosen_measure([result({}, recorded_ns=None, kernels=0)]).name == "wall_s"
    assert chosen_measure([], "copies").name == "copies"
    with pytest.raises(UsageError) as raised:
        chosen_measure([], "nothing")
    assert all(column.name in raised.value.hint for column in FIGURES)


def test_kernels_are_merged_by_combination(cli: Cli, tmp_path: Path) -> None:
    lengths = {("both", 1): (10, 20), ("both", 2): (90,), ("none", 1): (7,)}
    for number, ((sync, repeat), many) in enumerate(lengths.items()):
        captured(planned(tmp_path / "b", number, {"sync": sync}, repeat), *many)
    assert cli("collect", batch_of(tmp_path / "b")).returncode == 0
    whole = write(tmp_path / "whole.sqlite", *(kernel("k", 0, ns) for ns in (10, 20, 90)))
    expected = open_capture(whole).report("cuda_gpu_kern_sum")
    both, none = rows_of(tmp_path / "b" / "kernels.csv")
    assert (both["sync"], both["runs"], none["sync"], none["runs"]) == ("both", "2", "none", "1")
    names = [column.name for column in expected.columns]
    assert [both[name] for name in names] == [str(value) for value in expected.rows()[0]]
    assert both["med_ns"] == "20.0"  # and not the 52.5 between the two runs' medians
    assert (none["instances"], none["med_ns"], none["std_ns"]) == ("1", "7.0", "0.0")


def test_kernels_of_runs_that_are_not_done_are_not_merged(cli: Cli, tmp_path: Path) -> None:
    for repeat in (1, 2):
        captured(planned(tmp_path / "b", repeat, {"n": 1}, repeat), 10)
    captured(planned(tmp_path / "b", 3, {"n": 1}, 3), 90, outcome="timed_out")
    captured(planned(tmp_path / "b", 4, {"n": 2}), 90, outcome="program_failed")
    assert cli("collect", batch_of(tmp_path / "b")).returncode == 0
    [one] = rows_of(tmp_path / "b" / "kernels.csv")
    assert (one["n"], one["runs"], one["instances"], one["max_ns"]) == ("1", "2", "2", "10")


def test_captures_that_were_not_planned_keep_their_kernels_apart(cli: Cli, tmp_path: Path) -> None:
    for name, ns in (("a", 10), ("b", 30)):
        write(tmp_path / f"{name}.sqlite", kernel("k", 0, ns))
    assert cli("collect", "*.sqlite").returncode == 0
    rows = rows_of(tmp_path / "nsyswrap-collected" / "kernels.csv")
    assert [(row["label"], row["runs"], row["avg_ns"]) for row in rows] == [
        ("a", "1", "10.0"),
        ("b", "1", "30.0"),
    ]


def test_a_narrow_screen_keeps_the_median_and_what_differs(cli: Cli, tmp_path: Path) -> None:
    for number, mode in enumerate(("fast", "slow"), 1):
        same = {f"constant_{i}": f"the same for all {i}" for i in range(4)}
        facts = {**same, "mode": mode, "number_of_elements": number}
        captured(planned(tmp_path / "b", number, facts), 10 * number)
    done = cli("collect", batch_of(tmp_path / "b"), COLUMNS="44")
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["mode", "number_of_elements", "Median", "Spread", "%"]
    assert lines[2].split()[:4] == ["fast", "1", "10", "ns"]
    assert "8 columns left out for width (results.csv has every run)" in " ".join(done.stdout.split())
    assert max(map(len, lines)) <= 44


def test_names_give_way_to_the_median(cli: Cli, tmp_path: Path) -> None:
    for number in (1, 2):
        facts = {f"parameter{i}": f"one of many values {number}" for i in range(6)}
        captured(planned(tmp_path / "b", number, facts), 10 * number)
    lines = cli("collect", batch_of(tmp_path / "b"), COLUMNS="40").stdout.splitlines()
    assert lines[1].split() == ["parameter0", "parameter1", "Median"]
    assert max(map(len, lines)) <= 40


def test_the_screen_compares_by_what_is_asked_for(cli: Cli, tmp_path: Path) -> None:
    for number, wall_s in enumerate((3.0, 1.0, 2.0), 1):
        captured(planned(tmp_path / "b", number, {"n": number}), 10 * number, wall_s=wall_s)
    done = cli("collect", batch_of(tmp_path / "b"), "--by", "wall_s", "--top", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Wall Time by configuration, the 2 fastest of 3  by_combination"
    assert [line.split()[:4] for line in lines[2:4]] == [["2", "1", "1", "1.00"], ["3", "1", "1", "2.00"]]
    assert "slowest 'n=1', 3.00 s, 3.00 times as much" in done.stdout
    wrong = cli("collect", "b", "--by", "speed")
    assert wrong.returncode == 2
    assert "kernel_ns" in wrong.stderr


def test_parameters_hold_anything(cli: Cli, tmp_path: Path) -> None:
    first = {"n": 1, "rate": 0.5, "text": NASTY, "kernels": "=1+1", "flag": True, "mixed": 1, "": "x"}
    second = {"n": 2, "rate": 1, "text": "x" * 5000, "kernels": "é🎉", "flag": False, "mixed": "one"}
    captured(planned(tmp_path / "b", 1, first, label="one"), 10)
    captured(planned(tmp_path / "b", 2, second, label="one"), 20)
    done = cli("collect", batch_of(tmp_path / "b"))
    assert done.returncode == 0, done.stderr
    one, two = rows_of(tmp_path / "b" / "results.csv")
    assert (one["n"], one["rate"], one["text"], one["parameter_kernels"]) == ("1", "0.5", NASTY, "=1+1")
    assert (one["flag"], one["mixed"], one[""]) == ("true", "1", "x")
    assert (two["rate"], two["text"], two["parameter_kernels"]) == ("1.0", "x" * 5000, "é🎉")
    assert (two["mixed"], two["kernels"]) == ("one", "1")
    assert {line["text"] for line in rows_of(tmp_path / "b" / "kernels.csv")} == {NASTY, "x" * 5000}
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_columns_are_typed_by_all_their_values(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet  # noqa: PLC0415

    from nsyswrap.render.result_files import FileContents, write_results  # noqa: PLC0415

    results = [result({"n": 1, "rate": 1, "mode": "a"}), result({"n": None, "rate": 0.5, "mode": 3})]
    write_results(tmp_path, results_table(results, parameters_of(results)), FileContents())
    table = parquet.read_table(tmp_path / "results.parquet")
    assert [str(table.schema.field(name).type) for name in ("n", "rate", "mode", "kernel_ns")] == [
        *("int64", "double", "string", "int64")
    ]
    assert table.column("n").to_pylist() == [1, None]
    assert table.column("mode").to_pylist() == ["a", "3"]
    assert table.column("kernel_ns").to_pylist() == [None, None]


def test_the_conditions_are_the_last_columns_and_missing_ones_are_empty() -> None:
    first, second = result({"n": 1}, sm_clock_mhz=1380.0, throttled_percent=92.5), result({"n": 2})
    first = replace(first, run=replace(first.run, node="gpu07", commit="0123456789ab-dirty"))
    table = results_table([first, second], parameters_of([first, second]))
    names = [column.name for column in table.columns]
    assert names[names.index("message") + 1 :] == [
        *("sm_clock_mhz", "throttled_percent", "power_w", "temperature_c", "other_processes"),
        *("host_name", "git_commit", "job", "gpus", "gpu_uuids", "driver", "started", "shared_node"),
        *("rank", "world_size", "collectives", "last", "waiting_ns", "exposed_ns", "rank_verdict", "nsys"),
        *("program", "command", "judged", "step_count", "step_ns", "judged_busy_percent"),
        *("idle_cause", "idle_cause_percent", "finding", "finding_percent", "first_finding"),
        *("step_joules", "run_joules"),
    ]
    assert [row[-34:-27] for row in table.rows()] == [
        (1380.0, 92.5, None, None, None, "gpu07", "0123456789ab-dirty"),
        (None,) * 7,
    ]


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5) | st.sampled_from(["run", "name", "parameter_run"]),
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        ),
        max_size=4,
    )
)
def test_any_parameters_make_columns_of_their_own(specs: list[dict[str, object]]) -> None:
    results = [result(parameters, i) for i, parameters in enumerate(specs)]
    table = results_table(results, parameters_of(results))
    names = [column.name for column in table.columns]
    assert len(names) == len(set(names))
    assert len(table) == len(results)


def test_combinations_of_the_same_parameters_keep_their_labels(cli: Cli, tmp_path: Path) -> None:
    captured(planned(tmp_path / "b", 1, {}, label="add"), 10)
    captured(planned(tmp_path / "b", 2, {}, label="add2"), 20)
    done = cli("collect", batch_of(tmp_path / "b"))
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == ["Label", "add", "add2"]
    assert "fastest 'add', 10 ns; slowest 'add2', 20 ns" in done.stdout


def test_a_batch_of_which_nothing_is_done_has_nothing_to_compare(cli: Cli, tmp_path: Path) -> None:
    captured(planned(tmp_path / "b", 1, {"n": 1}), 10, outcome="timed_out")
    ended(planned(tmp_path / "b", 2, {"n": 2}), "nsys_failed")
    done = cli("collect", batch_of(tmp_path / "b"))
    assert done.returncode == 0
    assert "Nothing to compare: no finished run has the figure kernel_ns." in done.stdout


def test_graphs_count_where_they_were_recorded_whole(cli: Cli, tmp_path: Path) -> None:
    for number, rows in enumerate(([kernel("k", 0, 50)], [graph(0, 20, 1), kernel("k", 30, 31)])):
        write(
            ended(planned(tmp_path / "b", number, {"n": number}), "done") / EXPORT,
            *rows,
            row("ANALYSIS_DETAILS", duration=9),
        )
    done = cli("collect", batch_of(tmp_path / "b"))
    assert "GPU Busy: fastest 'n=1', 21 ns; slowest 'n=0', 50 ns" in done.stdout


def on(gpu: str, one: RunResult) -> RunResult:
    return replace(one, facts={"gpus": gpu, "driver": "570", "nsys": "2025.3"})


def test_runs_on_other_gpus_are_neither_ranked_nor_merged() -> None:
    results = [
        *(on("NVIDIA H100", result({"n": 1}, i, kernel_ns=140 + i)) for i in (1, 2)),
        on("NVIDIA H200", result({"n": 1}, 3, kernel_ns=100)),
        result({"n": 1}, 4, outcome="program_failed"),
        on("NVIDIA H200", result({"n": 2}, 1, kernel_ns=50)),
    ]
    rows, said = compared(results)
    assert [row[:5] for row in rows] == [
        (1, "NVIDIA H100", 2, 3, 141.5),
        (2, "NVIDIA H200", 1, 1, 50),
        (1, "NVIDIA H200", 1, 1, 100),
    ]
    assert (
        said == "Not ranked, as the runs differ in more than their parameters: GPU: NVIDIA H100, NVIDIA H200."
    )
    rows, said = compared(results, "kernel_ns")
    assert [row[4] for row in rows] == [50, 100, 141.5]
    assert said.startswith("In order, but not compared: the runs differ in more than their parameters: GPU: ")
    rows, said = compared([on("NVIDIA H200", replace(one, facts={})) for one in results])
    assert len(rows) == 2
    assert said.startswith("Kernel Time: fastest 'n=2'")


def test_the_table_of_results_says_which_nsys_recorded_a_run() -> None:
    results = [on("NVIDIA H200", result({"n": 1}, kernel_ns=100))]
    table = results_table(results, parameters_of(results))
    cells = dict(zip((column.name for column in table.columns), table.rows()[0], strict=True))
    assert (cells["nsys"], cells["gpus"]) == ("2025.3", "NVIDIA H200")
    assert [column.name for column in table.columns][-14:-12] == ["nsys", "program"]  # columns come last
