"""The screen of `collect` for captures of no plan: its rows, and the columns that a width has room for."""

from pathlib import Path

from nsyswrap.reports.runs.find import RecordedRun
from nsyswrap.reports.runs.gather import RunResult
from nsyswrap.reports.runs.tables import answers_table


def answered(label: str, busy: float | None, **facts: str) -> RunResult:
    totals = {"kernels": 1, "judged_busy_percent": busy, "idle_cause_percent": 40.0, "step_ns": 1000}
    return RunResult(RecordedRun(Path(label), label, "done"), totals, facts=facts)


RESULTS = [
    answered(
        "busy", 90.0, program="train", started="2026-11-28T10:00:00+00:00", gpus="NVIDIA H100, NVIDIA H100"
    ),
    answered("unknown", None, program="infer", started="2026-11-27T10:00:00+00:00"),
    answered(
        "idle", 20.0, program="train", gpus="NVIDIA H200", idle_cause="host", first_finding="launch-bound"
    ),
    RunResult(RecordedRun(Path("lost"), "lost", "damaged"), None),
]


def test_the_least_busy_run_comes_first_and_a_wide_screen_has_all_columns() -> None:
    table = answers_table(RESULTS, 120)
    assert [column.name for column in table.columns] == [
        *("run", "program", "started", "gpus", "judged_busy_percent", "idle_cause", "first_finding")
    ]
    assert table.rows() == [
        ("idle", "train", None, "H200", 20.0, "40 % host", "launch-bound"),
        ("busy", "train", "2026-11-28", "2 x H100", 90.0, None, None),
        ("unknown", "infer", "2026-11-27", None, None, None, None),
    ]
    assert table.verdict == "GPU busy less than 50 % in 1 of 3 runs, mostly idle for host in 1 of them."


def test_a_narrow_screen_has_neither_the_gpu_nor_the_day() -> None:
    names = [column.name for column in answers_table(RESULTS, 80).columns]
    assert names == ["run", "program", "judged_busy_percent", "idle_cause", "first_finding"]
    assert "gpus" in [column.name for column in answers_table(RESULTS, 99).columns]


def test_details_that_several_runs_share_are_left_out() -> None:
    one, always = RESULTS[0], ["run", "program", "judged_busy_percent", "idle_cause", "first_finding"]
    names = [column.name for column in answers_table([one], 120).columns]
    assert set(names) == {*always, "started", "gpus", "step_ns"}
    assert [column.name for column in answers_table([one, one], 120).columns] == always
