"""Two processes of one capture whose collectives end together: which one the other waits for."""

from pathlib import Path

import pytest
from advised import STEP_NS, findings_of, looped, moved, new, stakes
from conftest import Cli
from rank_exports import ALL_REDUCE
from tiny_export import Row, call, changed, global_id, kernel, write

from nsyswrap.reports.wording.advice import words

STEPS, STEADY = 8, 7
FAST, SLOW = 200, 300  # process ids


# CPU  |L 0-10|L 10-20|L 20-30|
# GPU         gemm[10 .. arrives) all-reduce[arrives .. ends) gemm[ends ... 1000)
def step(pid: int, device: int, arrives: int, ends: int) -> list[Row]:
    place = {"pid": pid, "deviceId": device}
    calls = [call("cudaLaunchKernel", 10 * i, 10 * i + 10, i + 1, pid=pid) for i in range(3)]
    return [
        *calls,
        kernel("gemm", 10, arrives, 1, **place),
        kernel(ALL_REDUCE, arrives, ends, 2, **place),
        kernel("gemm", ends, STEP_NS, 3, **place),
    ]


def two(arrives: int, ends: int, steps: int = STEPS) -> list[Row]:
    """One process arrives at 110, the other one at ``arrives``."""
    rows = looped(*step(FAST, 0, 110, ends), steps=steps, pid=FAST)
    return [*rows, *looped(*step(SLOW, 1, arrives, ends), steps=steps, pid=SLOW)]


def test_one_process_waits_for_the_other(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *two(510, 600)))
    # The fast one communicates for 490 ns in a step, of which 400 are waiting; 90 are 9 % of a step.
    stakes = {name: one.ceiling_ns for name, one in found.items()}
    assert stakes == {"waiting_for_rank": STEADY * 400, "exposed_communication": STEADY * 90}
    one = found["waiting_for_rank"]
    assert one.window_ns == STEADY * STEP_NS
    assert one.numbers == {
        "waits": "process 200",
        "late": "process 300",
        "waited_ns": 2800,
        "outcome": "one rank",
        "last_times": 7,
        "last_of": 7,
        "exposed_ns": 2800,
        "exposed_percent": pytest.approx(38.2, abs=0.05),
        "own_ns": 6700,
        "others_ns": 3900.0,
        "other": "process 200",
        "most_percent": pytest.approx(38.2, abs=0.05),
        "hidden_percent": 0.0,
    }


def test_the_command_in_the_advice_names_the_capture_on_a_screen_alone(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path / "x.sqlite", *two(510, 600))
    assert "nsyswrap report x.sqlite --by rank\n" in cli("report", "x.sqlite", "--advice").stdout
    cells = cli("report", "x.sqlite", "--advice", "--format", "csv").stdout
    assert ",nsyswrap report CAPTURE --by rank," in cells


def test_communication_that_is_all_waiting_is_one_finding(tmp_path: Path) -> None:
    # without waiting 40 ns, 4 % of a step
    assert stakes(tmp_path, *two(510, 550)) == {"waiting_for_rank": STEADY * 400}


@pytest.mark.parametrize(("arrives", "expected"), [(159, {}), (160, {"waiting_for_rank": STEADY * 50})])
def test_waiting_of_less_than_five_percent(arrives: int, expected: dict[str, int], tmp_path: Path) -> None:
    found = stakes(tmp_path, *two(arrives, arrives + 40))
    # with 49 ns of waiting all 89 ns are communication, with 50 the 40 that are left are less than 5 %
    assert found == (expected or {"exposed_communication": STEADY * 89})


def test_ranks_that_take_turns_wait_for_none(tmp_path: Path) -> None:
    rows = []
    for number in range(STEPS):
        early, late = (110, 510) if number % 2 else (510, 110)
        for pid, device, arrives in ((FAST, 0, early), (SLOW, 1, late)):
            again = looped(*step(pid, device, arrives, 600), steps=1, pid=pid)
            rows += [moved(one, number * STEP_NS, 10 * number) for one in again]
    found = stakes(tmp_path, *rows)
    # the fast one communicates for 490 ns in four of its steady steps and for 90 in three of them
    assert found == {"exposed_communication": 4 * 490 + 3 * 90}


def test_five_collectives_may_be_chance(tmp_path: Path) -> None:
    # Those of the warm-up step count, too.
    assert "waiting_for_rank" not in stakes(tmp_path, *two(510, 600, steps=5))
    assert "waiting_for_rank" in stakes(tmp_path, *two(510, 600, steps=6))


def test_a_few_judged_collectives_name_the_late_process(tmp_path: Path) -> None:
    """Five of five may be chance, and the sixth in the warm-up tells that they are not."""
    one = findings_of(new(tmp_path, *two(510, 600, steps=6)))["waiting_for_rank"]
    assert (one.numbers["outcome"], one.numbers["last_times"], one.numbers["last_of"]) == ("one rank", 5, 5)
    assert "process 300 was last in 5 of 5 collectives" in words(one).evidence


def test_one_process_waits_for_none(tmp_path: Path) -> None:
    rows = looped(*step(FAST, 0, 110, 600), steps=STEPS, pid=FAST)
    assert stakes(tmp_path, *rows) == {"exposed_communication": STEADY * 490}


def test_processes_without_communication_wait_for_none(tmp_path: Path) -> None:
    rows = [
        changed(one, demangledName="gemm", shortName="gemm", mangledName="gemm")
        if one.cells.get("demangledName") == ALL_REDUCE
        else one
        for one in two(510, 600)
    ]
    assert stakes(tmp_path, *rows) == {}
    assert any(one.cells.get("globalPid") == global_id(SLOW) for one in rows)
