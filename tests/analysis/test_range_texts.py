"""What the texts of NVTX ranges say: modules, operations of PyTorch with their numbers, names of JAX."""

import pytest

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
