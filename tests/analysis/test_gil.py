"""Host code while the GPU is idle, split by Python's global interpreter lock where that was traced."""

from pathlib import Path

from report_tables import records_of, table_of, values_of
from tiny_export import PID, Row, call, domain, kernel, nvtx, opened

GIL, OTHER = 3, PID + 1
HOLDS, WAITS = "Holding GIL", "Waiting for GIL"
COLUMNS = ("duration_ns", "host_ns", "host_gil_holding_ns", "host_gil_waiting_ns")


def lock(text: str, start: int, end: int, tid: int = PID) -> Row:
    return nvtx(text, start, end, tid, domainId=GIL)


# CPU      L[0,5)                   mine[30 .................. 85)       L[90,95)
# GIL      holds[0,20)              waits[40 ... 60)  holds[60 ... 80)
# other             holds[20 ........................ 60)
# GPU             k[10,20)                                                    k[100,110)
ROWS = [
    *(call("launch", 0, 5, 1), kernel("k", 10, 20, 1)),
    *(call("launch", 90, 95, 2), kernel("k", 100, 110, 2)),
    *(domain("GIL Trace", GIL), nvtx("mine", 30, 85)),
    *(lock(HOLDS, 0, 20), lock(WAITS, 40, 60), lock(HOLDS, 60, 80), lock(HOLDS, 20, 60, OTHER)),
]


def test_host_code_holds_the_lock_waits_for_it_or_neither(tmp_path: Path) -> None:
    table = table_of(opened(tmp_path, *ROWS), "gpu_idle")
    assert values_of(table, *COLUMNS, "nvtx") == [(80, 70, 20, 20, "mine")]  # 10 ns are the launch
    assert "(28.6 % of it holding Python's GIL, 28.6 % waiting for it)" in table.verdict


def test_the_lock_of_another_domain_or_thread_is_none(tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.cells.get("text") != "GIL Trace"]
    table = table_of(opened(tmp_path, *rows), "gpu_idle")
    assert values_of(table, *COLUMNS[2:]) == [(None, None)]
    assert "Python's GIL" not in table.verdict


def test_a_step_has_the_parts_of_its_gaps(tmp_path: Path) -> None:
    budget = table_of(opened(tmp_path, *ROWS), "step_budget")
    [row] = [record for record in records_of(budget) if record["row"] == "capture"]
    assert [row[f"idle_{column}"] for column in COLUMNS[1:]] == [70, 20, 20]
    assert budget.verdict.endswith("Of the host code 28.6 % held Python's GIL, 28.6 % waited for it.")


def test_each_device_has_its_own_gaps(tmp_path: Path) -> None:
    second = (call("launch", 6, 8, 3), kernel("k", 12, 30, 3, deviceId=1))
    last = (call("launch", 96, 98, 4), kernel("k", 120, 125, 4, deviceId=1))
    table = table_of(opened(tmp_path, *ROWS, *second, *last), "gpu_idle")
    held = {record["device_id"]: record["host_gil_holding_ns"] for record in records_of(table)}
    assert held == {0: 20, 1: 20}


def test_the_window_cuts_the_parts(tmp_path: Path) -> None:
    part = opened(tmp_path, *ROWS).select(time="0/70", clip=True)
    assert values_of(table_of(part, "gpu_idle"), *COLUMNS)[0] == (50, 50, 10, 20)


def test_a_hold_of_the_lock_is_no_step(tmp_path: Path) -> None:
    rows = [domain("GIL Trace", GIL)]
    for number in range(1, 41):
        at = 1000 * number
        rows += [lock(HOLDS, at, at + 500), call("launch", at + 10, at + 20, number)]
        rows.append(kernel("k", at + 30, at + 400, number))
    answer = opened(tmp_path, *rows).answer
    assert answer.steps is None or "GIL" not in answer.steps.label
