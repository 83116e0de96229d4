"""What the texts of NVTX ranges say: modules, operations of PyTorch with their numbers, names of JAX."""

from pathlib import Path

import pytest
from report_tables import records_of, table_of, values_of
from tiny_export import PID, Row, call, domain, kernel, nvtx, opened

from nsyswrap.analysis.range_texts import (
    BACKWARD,
    ENGINE,
    FORWARD,
    HIDDEN,
    MODULE,
    NEITHER,
    OPERATION,
    RANGE,
    RangeText,
    read_text,
)
from nsyswrap.base.constants import MISSING


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "aten::addmm, seq = 12, op_id = 40, sizes = [[4], [4, 8], []], input_op_ids = [(1,0)]",
            RangeText(OPERATION, ("aten::addmm",), 12, "[[4], [4, 8], []]", FORWARD),
        ),
        ("aten::mm", RangeText(OPERATION, ("aten::mm",))),
        ("detach, op_id = 3", RangeText(OPERATION, ("detach",))),
        ("MyFunction, seq = 3", RangeText(OPERATION, ("MyFunction",), 3, "", FORWARD)),
        ("AddmmBackward0, seq = 12, op_id = 5", RangeText(OPERATION, ("AddmmBackward0",), 12, "", BACKWARD)),
        ("MyFunctionBackward, seq = 3", RangeText(OPERATION, ("MyFunctionBackward",), 3, "", BACKWARD)),
        (
            "autograd::engine::evaluate_function: AddmmBackward0, op_id = 1500",
            RangeText(ENGINE, ("AddmmBackward0",), phase=BACKWARD),
        ),
        (
            "torch::autograd::AccumulateGrad, op_id = 9, sizes = [[4]]",
            RangeText(OPERATION, ("torch::autograd::AccumulateGrad",), MISSING, "[[4]]", BACKWARD),
        ),
    ],
)
def test_operations_of_pytorch(text: str, expected: RangeText) -> None:
    assert read_text(text, "") == expected


@pytest.mark.parametrize(
    ("text", "names", "phase"),
    [
        ("XlaModule:#hlo_module=jit_train_step,program_id=7#", ("jit_train_step",), NEITHER),
        ("XlaModule:#prefix=jit(f)/jit(main)/jvp(GPT),hlo_module=jit_f#", ("jit_f", "GPT"), FORWARD),
        ("Thunk:#hlo_op=copy.3,unique_hlo_op_id=4#", ("copy.3",), NEITHER),
        ("Thunk:#name=jit(f)/jit(main)/add,hlo_op=add.1#", ("add",), NEITHER),
        ("Thunk:#name=jit(f)/jvp(GPT)/Dense_0/dot,hlo_op=f.3#", ("GPT", "Dense_0", "dot"), FORWARD),
        ("Thunk:#name=transpose(jvp(GPT/Dense_0))/dot,hlo_op=f.4#", ("GPT/Dense_0", "dot"), BACKWARD),
        ("Thunk:#name=jvp()/while/body/mul,hlo_op=f.5#", ("while", "body", "mul"), FORWARD),
    ],
)
def test_names_that_jax_gives_to_xla(text: str, names: tuple[str, ...], phase: int) -> None:
    assert read_text(text, "TSL") == RangeText(RANGE, names, phase=phase)


def test_domains() -> None:
    assert read_text("layers.0", "nsyswrap.modules") == RangeText(MODULE, ("layers.0",), phase=FORWARD)
    assert read_text("step 3", "nsyswrap").kind == read_text("Holding GIL", "GIL Trace").kind == HIDDEN
    assert read_text("part", "mine").names == ("mine:part",)
    assert read_text(None, "").names == read_text("", "mine").names == ("(no name)",)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("step 12", "step *"), ("Iteration_3", "Iteration_*"), ("train_step 4", "train_step *")),
        *(("hand step 10", "hand step *"), ("train iteration 3 ", "train iteration *")),
        *(("micro-batch 7", "micro-batch *"), ("footstep 3", "footstep 3")),
        *(("layer 0", "layer 0"), ("step 12 forward", "step 12 forward"), ("steps", "steps")),
    ],
)
def test_numbered_steps_have_one_name(text: str, name: str) -> None:
    assert read_text(text, "").names == (name,)


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
