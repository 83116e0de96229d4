"""The FLOPs and bytes of kernels, by the shapes of their operations."""

import lzma
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_modules import ENGINE, MAIN, Training
from report_tables import table_of
from tiny_export import opened, row

from nsyswrap import CaptureReader, open_capture
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.analysis.known_work import known_work
from nsyswrap.analysis.names import kernel_classes
from nsyswrap.analysis.operation_work import (
    CONVOLUTION_BACKWARD,
    UNKNOWN,
    OperationWork,
    convolution_work,
    shapes_of,
    work_of,
)
from nsyswrap.analysis.utilization import Utilization, utilization_of
from nsyswrap.capture.selection import Selection

RECORDED = Path(__file__).parents[1] / "data" / "flops"
SGEMM, BF16 = "ampere_sgemm_128x64_tn", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
SPLIT = (
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, true>(cublasSplitKParams<float>)"
)
WGRAD = "void wgrad2d_grouped_direct_kernel<float, float, float, int>(float)"
FPROP = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
ADD_FLOATS = (
    "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, "
    "std::array<char *, (unsigned long)3>, (int)4, at::native::memory::LoadWithoutCast>(int, T1, T2)"
)
MM = "[[2, 3], [3, 5]]"  # 60 FLOPs, 31 elements


def work_in(folder: Path, made: Training) -> tuple[list[float | None], list[float | None]]:
    """Return FLOPs and bytes of each kernel in the order of launches; None where not known."""
    (folder / str(len(made.rows))).mkdir()
    work = known_work(opened(folder / str(len(made.rows)), *made.rows))
    return tuple([None if np.isnan(x) else float(x) for x in values] for values in (work.flops, work.bytes))  # type: ignore[return-value]


def test_the_kernels_that_multiply_share_the_work_of_their_operation_by_time(tmp_path: Path) -> None:
    made = Training()
    made.operation("aten::linear", 0, 100, sizes="[[2, 3], [5, 3], []]")
    made.operation("aten::mm", 5, 90, sizes=MM)
    for at, (name, lasting) in enumerate(((BF16, 30), (SPLIT, 5), (BF16, 10))):
        made.launch(name, 10 + 20 * at, lasting)
    made.operation("aten::add", 200, 300, sizes="[[2, 5], [5], []]")
    made.launch(ADD, 210, 7)
    made.launch(SGEMM, 400, 9)
    assert work_in(tmp_path, made) == ([45, None, 15, None, None], [46.5, None, 15.5, 100, None])


def test_bytes_are_not_known_if_a_kernel_converts_while_it_loads(tmp_path: Path) -> None:
    """Its name has one type, and its inputs have two."""
    made = Training()
    for at, name in ((0, ADD_FLOATS), (200, ADD_FLOATS.replace("LoadWithoutCast", "LoadWithCast<2>"))):
        made.operation("aten::add", at, at + 100, sizes="[[2, 5], [2, 5], []]")
        made.launch(name, at + 10, 7)
    assert work_in(tmp_path, made) == ([None, None], [120, None])


def test_a_module_inside_of_an_operation_has_work_of_its_own(tmp_path: Path) -> None:
    made = Training()
    made.operation("aten::mm", 0, 100, sizes=MM)
    made.module("inner", 10, 90)
    made.launch(SGEMM, 20, 5)
    assert work_in(tmp_path, made) == ([None], [None])


def convolving(made: Training, at: int, *, outputs: tuple[int, ...] = ()) -> None:
    """Convolve an image of 4 channels and 9 x 9 pixels to one of 6 channels, with filters of 3 x 3."""
    sizes = "[[2, 4, 9, 9], [6, 4, 3, 3], [], [], []]"
    made.operation("aten::convolution", at, at + 50, sizes=sizes)
    made.operation("aten::cudnn_convolution", at + 5, at + 45, sizes=sizes)
    made.launch(FPROP, at + 10, 5)
    for side in outputs:
        made.operation("aten::relu", at + 60, at + 80, sizes=f"[[2, 6, {side}, {side}]]")


ONE = 2 * 2 * 6 * 16 * (4 * 9)  # 4 x 4 pixels


def test_the_output_of_a_convolution_is_read_from_its_backward_or_the_next_operation(tmp_path: Path) -> None:
    made = Training()
    convolving(made, 0)
    convolving(made, 100)
    assert work_in(tmp_path, made)[0] == [None, None]
    made = Training()
    convolving(made, 0)
    convolving(made, 100, outputs=(4,))
    assert work_in(tmp_path, made)[0] == [ONE, ONE]
    convolving(made, 200, outputs=(7,))  # of the same inputs: with another stride
    assert work_in(tmp_path, made)[0] == [None, None, None]


def test_the_backward_of_a_convolution_has_a_kernel_for_each_gradient(tmp_path: Path) -> None:
    made = Training()
    convolving(made, 0)
    for at, kernels in ((200, (WGRAD, FPROP)), (400, (WGRAD,))):
        sizes = "[[2, 6, 4, 4], [2, 4, 9, 9], [6, 4, 3, 3], [], []]"
        made.operation("aten::convolution_backward", at, at + 150, sizes=sizes)
        for i, name in enumerate(kernels):
            made.launch(name, at + 10 + 50 * i, 10)
    assert work_in(tmp_path, made)[0] == [ONE, ONE, ONE, ONE]


def step(made: Training, at: int, *, shapes: bool, third: str = BF16) -> None:
    """A step as `profile --modules` records it: the first ones with shapes."""
    made.module("Net", at, at + 400)
    for i, (sizes, name) in enumerate(((MM, BF16), ("[[2, 7], [7, 5]]", BF16), (MM, third))):
        if shapes:
            made.operation("aten::mm", at + 10 + 50 * i, at + 50 + 50 * i, sizes=sizes)
        made.launch(name, at + 20 + 50 * i, 5)
    if shapes:
        made.operation("aten::mm", at + 500, at + 540, tid=ENGINE, sizes=MM)
    made.launch(SGEMM, at + 510, 5, ENGINE)


def test_later_steps_with_the_same_kernels_have_the_work_of_the_one_with_shapes(tmp_path: Path) -> None:
    made = Training()
    for number in range(3):
        step(made, 1000 * number, shapes=number == 0)
    step(made, 3000, shapes=False, third=SGEMM)
    one = [60, 140, 60, 60]
    assert work_in(tmp_path, made)[0] == [*one, *one, *one, None, None, None, 60]
    capture = opened(tmp_path, *made.rows)
    second = capture.viewed(selection=Selection(start_ns=1000, end_ns=1600))
    assert known_work(second).flops.tolist() == one


GPU = {"id": 0, "name": "NVIDIA H200", "smCount": 132, "clockRate": 1_980_000_000, "computeMajor": 9}
H200 = row("TARGET_INFO_GPU", **GPU, computeMinor=0, memoryBandwidth=4_814_304_000_000)


def test_work_that_no_gpu_does_in_the_time_of_the_kernel_is_not_its_work(tmp_path: Path) -> None:
    """A product that takes 111 us at the peak, and a sum of 1.2 GB, that takes 0.25 ms."""
    made = Training()
    for at, lasting in ((0, 60_000), (100_000, 20_000)):
        made.operation("aten::mm", at, at + 90, sizes="[[4096, 4096], [4096, 3276]]")
        made.launch(BF16, at + 10, lasting)
    for at, lasting in ((200_000, 20_000), (300_000, 10_000)):
        made.operation("aten::add", at, at + 90, sizes="[[10000, 10000], [10000, 10000]]")
        made.launch(ADD, at + 10, lasting)
    work = known_work(opened(tmp_path, *made.rows, H200))
    assert work.known.tolist() == [True, False, True, False]
    assert np.isfinite(work.flops).tolist() == [True, False, False, False]
    assert np.isfinite(work.bytes).tolist() == [True, False, True, False]


def test_without_known_bytes_no_bandwidth_is_claimed(tmp_path: Path) -> None:
    made = Training()
    made.operation("aten::mm", 0, 90, sizes=MM)
    made.launch("cutlass_gemm", 10, 50)
    capture = opened(tmp_path, *made.rows, H200)
    known = utilization_of(judged_processes(capture), 100)
    assert known == Utilization(100.0, 60 / 100 * 1e9)


def test_without_shapes_nothing_is_known(tmp_path: Path) -> None:
    made = Training()
    step(made, 0, shapes=False)
    work = known_work(opened(tmp_path, *made.rows))
    assert not work.recorded
    assert np.isnan(work.flops).all()
    assert np.isnan(work.bytes).all()


class Recorded(Training):
    """What PyTorch did, as its profiler saw it on a CPU, with a kernel of a GPU in each product."""

    PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution")

    def add(self, events: Any) -> None:  # noqa: ANN401 - of PyTorch
        images = [event.time_range.start for event in events if event.name == "aten::convolution_backward"]
        for event in events:
            start, end = (round(time * 1000) for time in (event.time_range.start, event.time_range.end))
            sizes = str([list(shape) for shape in event.input_shapes])
            backward = event.name == "aten::convolution_backward"
            tid = MAIN + event.thread
            self.operation(event.name, start, end, tid=tid, sizes=sizes)
            # The gradient of the input is not needed of the first convolution, whose backward is the last.
            gradients = 2 - (event.time_range.start == max(images)) if backward else 0
            for i in range(gradients or event.name in self.PRODUCTS):
                self.launch(FPROP if "conv" in event.name else SGEMM, start + 20 * i, 10, tid)


def gpt(torch: Any) -> Any:  # noqa: ANN401
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), layer, torch.nn.Linear(32, 50)), (2, 10, 16)


def resnet(torch: Any) -> Any:  # noqa: ANN401
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.straight = nn.Conv2d(inner, outer, 1, stride, bias=False)
            self.bent = nn.Sequential(
                nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outer),
                nn.ReLU(),
                nn.Conv2d(outer, outer, 3, padding=1),
            )

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            return nn.functional.relu(self.straight(x) + self.bent(x))

    stem = nn.Conv2d(3, 8, 7, 2, 3)
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return nn.Sequential(stem, Block(8, 8, 1), Block(8, 16, 2), pooled), (2, 3, 33, 33)


def llama(torch: Any) -> Any:  # noqa: ANN401
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.q, self.o = nn.Linear(32, 32, bias=False), nn.Linear(32, 32, bias=False)
            self.k, self.v = nn.Linear(32, 16, bias=False), nn.Linear(32, 16, bias=False)
            self.gate, self.up = nn.Linear(32, 80, bias=False), nn.Linear(32, 80, bias=False)
            self.down = nn.Linear(80, 32, bias=False)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            heads = [part(x).unflatten(-1, (-1, 8)).transpose(1, 2) for part in (self.q, self.k, self.v)]
            query, key, value = heads[0], *(each.repeat_interleave(2, 1) for each in heads[1:])
            weights = (query @ key.mT).softmax(-1)
            x = x + self.o((weights @ value).transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    return nn.Sequential(Block(), Block(), nn.Linear(32, 50, bias=False)), (2, 10, 32)


@pytest.mark.torch
@pytest.mark.parametrize("make", [gpt, resnet, llama])
def test_a_step_has_the_flops_that_pytorch_counts(
    tmp_path: Path,
    torch: Any,  # noqa: ANN401
    make: Callable[[Any], Any],
) -> None:
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    model, shape = make(torch)
    inputs = torch.rand(shape)

    def one_step() -> None:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            model(inputs).sum().backward()

    with FlopCounterMode(display=False) as counter:
        one_step()
    with torch.autograd.profiler.profile(record_shapes=True) as profiler:
        one_step()
    made = Recorded()
    made.add(profiler.function_events)
    capture = opened(tmp_path, *made.rows)
    assert np.nansum(known_work(capture).flops) == counter.get_total_flops()


# What torch.utils.flop_counter counted in these programs, and a formula for each layer; of the Llama, whose
# grouped heads the counter refuses, the formula alone, with the product of frequencies and 512 positions.
LLAMA = 1_042_603_311_104 + 2 * 32 * 512
COUNTED = {"gpt": (2, 1_389_958_791_168), "resnet": (1, 777_570_484_224), "llama": (1, LLAMA)}
# FLOPs of a call, and TFLOP/s by CUDA events around 40 calls in the program.
TIMED = {"gemm": (2 * 8192**3, 715.1), "convolution": (473_520_144_384, 773.2), "attention": (2**40, 465.5)}


def recorded(folder: Path, name: str) -> CaptureReader:
    export = folder / "report.sqlite"
    export.write_bytes(lzma.decompress((RECORDED / f"{name}.sqlite.xz").read_bytes()))
    return open_capture(export)


@pytest.mark.parametrize("kind", TIMED)
def test_recorded_loops_have_the_rate_that_the_program_measured(tmp_path: Path, kind: str) -> None:
    """A product, a convolution and attention in bfloat16; each of 60 calls is known by the first ones."""
    flops, tflops = TIMED[kind]
    capture = recorded(tmp_path, "loops")
    codes, classes = kernel_classes(capture)
    mine = np.flatnonzero(codes == classes.index(kind))
    assert known_work(capture).flops[mine] == pytest.approx([flops] * 60)
    start, end = (times[mine[-40:]] for times in capture.columns("kernel", "start_ns", "end_ns").values())
    assert 40 * flops / (end - start).sum() / 1e3 == pytest.approx(tflops, rel=0.03)


def trained(batch: int, inputs: int, outputs: int) -> int:
    """Return the elements that a linear layer moves: forward, and for the gradients of input and weight."""
    return 3 * (batch * inputs + inputs * outputs + batch * outputs)


def convolved(  # noqa: PLR0913 -- as a convolution has them
    inputs: int, size: int, outputs: int, *, side: int = 1, stride: int = 1, gradients: int = 2
) -> int:
    """Return the elements that a convolution of 32 images moves, forward and for each gradient."""
    image = outputs * (size // stride) ** 2
    return (1 + gradients) * (32 * inputs * size**2 + inputs * outputs * side**2 + 32 * image)


def resnet_50() -> int:
    total = convolved(3, 224, 64, side=7, stride=2, gradients=1) + trained(32, 2048, 1000)
    inputs, size = 64, 56
    for blocks, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for block in range(blocks):
            now = stride if block == 0 else 1
            total += convolved(inputs, size, width) + convolved(width, size, width, side=3, stride=now)
            total += convolved(width, size // now, 4 * width)
            total += convolved(inputs, size, 4 * width, stride=now) if block == 0 else 0
            inputs, size = 4 * width, size // now
    return total


GPT_LAYER = sum(trained(4096, *sides) for sides in ((768, 2304), (768, 768), (768, 3072), (3072, 768)))
LLAMA_LAYER = sum(trained(2048, 1024, to) for to in (1024, 1024, 512, 512, 2816, 2816, 2816))
# Elements of a head x heads of queries and outputs, of keys and values: once forward, twice backward.
GPT_HEADS, LLAMA_HEADS = 3 * 8 * 512 * 64 * (12 * 4), 3 * 4 * 512 * 64 * (16 * 2 + 8 * 2)
GEMM, ATTENTION = ("gemm", "convolution"), ("attention",)
MOVED = {  # bytes: bfloat16, but for the ResNet and the angles of the Llama's positions
    ("gpt", GEMM): 2 * 2 * (4 * GPT_LAYER + trained(4096, 768, 32000)),
    ("gpt", ATTENTION): 2 * 2 * 4 * GPT_HEADS,
    ("gpt", ("softmax",)): 2 * 2 * (2 + 3) * 4096 * 32000,  # the gradient reads two
    ("gpt", ("norm",)): 2 * 4 * 9 * (2 + 3) * 4096 * 768,
    ("resnet", GEMM): 4 * resnet_50(),
    ("llama", GEMM): 2 * (4 * LLAMA_LAYER + trained(2048, 1024, 32000)) + 4 * (32 + 512 + 32 * 512),
    ("llama", ATTENTION): 2 * 4 * LLAMA_HEADS,
}


@pytest.mark.parametrize(("name", "kinds"), MOVED)
def test_recorded_steps_have_the_bytes_by_hand(tmp_path: Path, name: str, kinds: tuple[str, ...]) -> None:
    """Each input and output once, of two steps of the GPT and one of the others."""
    capture = recorded(tmp_path, name)
    codes, classes = kernel_classes(capture)
    mine = np.isin(codes, [classes.index(kind) for kind in kinds if kind in classes])
    assert np.nansum(known_work(capture).bytes[mine]) == pytest.approx(MOVED[name, kinds], rel=1e-9)


@pytest.mark.parametrize("name", COUNTED)
def test_recorded_steps_have_the_flops_that_the_program_counted(tmp_path: Path, name: str) -> None:
    """Forward and backward of a GPT, ResNet-50 and a Llama; a second step has no shapes of its own."""
    capture = recorded(tmp_path, name)
    work, (steps, flops) = known_work(capture), COUNTED[name]
    assert np.nansum(work.flops) == pytest.approx(steps * flops, rel=1e-9)
    parts = np.array_split(work.flops, steps)
    assert [np.nansum(part) for part in parts] == pytest.approx([flops] * steps, rel=1e-9)
    times = capture.columns("kernel", "start_ns", "end_ns")
    lasting = times["end_ns"] - times["start_ns"]
    assert lasting[work.known].sum() > 0.8 * lasting.sum()
    assert 5 < table_of(capture, "nvtx_tree").frame.peak_percent[0] < 100  # of the whole model


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
    square = (2.0, 4.0, 9.0, 9.0), (4.0, 2.0, 3.0, 3.0), (2.0, 4.0, 7.0, 7.0)
    assert convolution_work(*square).flops == 2 * 2 * 4 * 49 * (2 * 9)
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
