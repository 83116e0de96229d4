"""The work of operations by their shapes, worked out on paper and as PyTorch's own counter says."""

import math
from importlib import import_module
from typing import Any

import pytest

from nsyswrap.analysis.operation_work import (
    CONVOLUTION_BACKWARD,
    UNKNOWN,
    OperationWork,
    convolution_work,
    shapes_of,
    work_of,
)

SDPA = "aten::_scaled_dot_product_flash_attention"


@pytest.mark.parametrize(
    ("name", "sizes", "flops", "elements"),
    [
        ("aten::mm", "[[2, 3], [3, 5]]", 2 * 2 * 3 * 5, 6 + 15 + 10),
        ("aten::addmm", "[[5], [2, 3], [3, 5], [], []]", 60, 31),
        ("aten::bmm", "[[4, 2, 3], [4, 3, 5]]", 240, 4 * 31),
        ("aten::baddbmm", "[[4, 2, 5], [4, 2, 3], [4, 3, 5], [], []]", 240, 4 * 31),
        # Two queries of six heads, eight keys of two heads, widths 4 and 3: 2 * 2 * 6 * 2 * 8 * (4 + 3).
        (SDPA, "[[2, 6, 2, 4], [2, 2, 8, 4], [2, 2, 8, 3], [], [], []]", 2688, 96 + 128 + 96 + 72),
        # Three products of width 4, two of width 3.
        (f"{SDPA}_backward", "[[2, 6, 2, 3], [2, 6, 2, 4], [2, 2, 8, 4], [2, 2, 8, 3]]", 6912, 2 * 392),
        ("flash_attn::_flash_attn_forward", "[[2, 2, 6, 4], [2, 8, 2, 4], [2, 8, 2, 3]]", 2688, 392),
        ("aten::add", "[[2, 1, 4], [3, 1], []]", None, 8 + 3 + 24),
        ("aten::mul_", "[[7, 5], []]", None, 70),
        ("aten::copy_", "[[7, 5], [5], []]", None, 40),
        ("aten::zero_", "[[7, 5]]", None, 35),
        ("aten::_softmax", "[[7, 5], [], []]", None, 70),
        ("aten::_softmax_backward_data", "[[7, 5], [7, 5], [], []]", None, 105),
        ("aten::_log_softmax_backward_data", "[[7, 5], [7, 5], [], []]", None, 105),
        ("aten::native_layer_norm", "[[7, 4], [], [4], [4], []]", None, 56),
        ("aten::native_layer_norm_backward", "[[7, 4], [7, 4], [], [7, 1], [7, 1], [4]]", None, 84),
        ("aten::cudnn_batch_norm", "[[7, 4], [4], [4], [4], [4], [], []]", None, 56),
        ("aten::native_batch_norm_backward", "[[7, 4], [7, 4], [4], [4]]", None, 84),
        ("aten::cudnn_batch_norm_backward", "[[7, 4], [7, 4], [4], [4]]", None, 84),
        ("aten::native_group_norm", "[[7, 4], [4], [4]]", None, 56),
        ("aten::native_dropout", "[[7, 4], [], []]", None, 63),
        ("aten::sum", "[[7, 4], [], []]", None, 28),
        ("aten::mean", "[[7, 4], [], []]", None, 28),
        ("aten::_foreach_sqrt", "[[7], [5]]", None, 24),
        ("aten::_foreach_lerp_", "[[7], [5], [7], [5], []]", None, 36),
        ("aten::_foreach_addcmul_", "[[6], [6], [6], []]", None, 24),
        ("aten::cat", "[[7, 5], [1, 5], []]", None, 80),
        ("aten::_foreach_add_", "[[7], [5], []]", None, 24),
        ("aten::_foreach_add_", "[[7], [5], [7], [5], []]", None, 36),
        ("aten::_fused_adamw_", "[[8], [8], [8], [8], [], []]", None, 56),
    ],
)
def test_worked_out_on_paper(name: str, sizes: str, flops: float | None, elements: float) -> None:
    work = work_of(name, shapes_of(sizes))
    assert work.elements == elements
    assert work.flops == flops if flops else math.isnan(work.flops)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("aten::mm", "[[2, 3], [4, 5]]"),
        ("aten::mm", "[[2, 3]]"),
        ("aten::mm", "[[2], [2]]"),
        ("aten::bmm", "[]"),
        ("aten::bmm", ""),
        (SDPA, "[[2, 3], [2], [4]]"),
        ("aten::add", "[[2], [3]]"),
        ("aten::add", "[]"),
        ("aten::mm", f"[[{'9' * 400}, 3], [3, {'9' * 400}]]"),
        ("aten::mm", "[[99999999999999999, 3], [3, 1e999]]"),
        ("aten::mm", "[[[2, 3], [3"),
        ("aten::mm", "[[-2, 3], [3, 5], [5, 7]]"),
        ("aten::mm", "[[a, 3], [2, 3], [3, 5]]"),
        ("aten::mm", "[[2, 3], [\u0663, 5]]"),
        ("aten::add", "[[2, 3], [2"),
        ("aten::add", f"[[{', '.join(['2'] * 65)}]]"),
        ("aten::_foreach_sqrt", f"[{', '.join(['[2]'] * 10_001)}]"),
        ("aten::_foreach_add_", "[[7], [7], []]"),  # one list of two, or two of one
        (CONVOLUTION_BACKWARD, "[[1], [1], [1]]"),
        ("aten::einsum", "[[2, 3], [3, 5]]"),
    ],
)
def test_what_shapes_do_not_tell_is_unknown(name: str, sizes: str) -> None:
    assert all(map(math.isnan, work_of(name, shapes_of(sizes))))


def test_a_convolution_counts_each_tap_of_the_filter_for_each_output() -> None:
    inputs, weight, output = (2.0, 4.0, 9.0, 9.0), (6.0, 2.0, 3.0, 3.0), (2.0, 6.0, 4.0, 4.0)  # two groups
    taps = 2 * 6 * 16 * (2 * 9)
    assert convolution_work(inputs, weight, output) == OperationWork(2 * taps, 648 + 108 + 192)
    assert convolution_work(output, weight, inputs).flops == 2 * taps  # transposed
    assert convolution_work(inputs, weight, ()) == UNKNOWN


@pytest.mark.torch
def test_attention_and_convolutions_are_counted_as_pytorch_counts_them(torch: Any) -> None:  # noqa: ANN401
    flop_counter: Any = import_module("torch.utils.flop_counter")
    query, key, value = (2, 6, 5, 8), (2, 6, 7, 8), (2, 6, 7, 4)
    sizes = [tuple(map(float, shape)) for shape in (query, key, value)]
    assert work_of(SDPA, sizes).flops == flop_counter.sdpa_flop_count(query, key, value)
    gradient = (2, 6, 5, 4)
    backward = flop_counter.sdpa_backward_flop_count(gradient, query, key, value)
    assert work_of(f"{SDPA}_backward", [(), *sizes]).flops == backward
    for transposed in (False, True):
        kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
        layer = kind(4, 8, 3, stride=2, groups=2)
        inputs = torch.rand(2, 4, 11, 11, requires_grad=True)
        with flop_counter.FlopCounterMode(display=False) as counter:
            output = layer(inputs)
        shapes = [tuple(map(float, each.shape)) for each in (inputs, layer.weight, output)]
        assert convolution_work(*shapes).flops == counter.get_total_flops()
