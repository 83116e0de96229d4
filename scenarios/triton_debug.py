"""Find an error in a Triton kernel with Triton's interpreter, then look at the kernels' PTX.

The kernel adds up each row of a matrix. The matrix has ROWS rows of COLUMNS
float32 numbers, in memory whose rows are PADDING numbers longer: it is a part
of a wider one, as in a batch of padded texts. There are two kernels, which
differ in one word:

  wrong  its mask compares with the length of a row in memory, so it adds the
         padding, too
  right  its mask compares with COLUMNS

The variants:

  interpreter  both kernels on the CPU, in Triton's interpreter; needs no GPU
  triton       both kernels on the GPU
  compile      the same sum by torch.compile, which writes a kernel of its own

What to look for in nsyswrap's output:

* On the GPU nothing fails. 'wrong' reads memory that exists, takes the time of
  'right', and gives wrong sums. Only the comparison with PyTorch notices.
* The interpreter (TRITON_INTERPRET=1) runs a kernel as Python, program by
  program. So a debugger stops in it. 'interpreter' does so with sys.settrace,
  and prints the variables of the first program whose sum is wrong: the mask is
  True where it must not be. By hand, write breakpoint() into a kernel, run with
  TRITON_INTERPRET=1, and type `p row`, `p inside`. print(inside) works, too.
* The interpreter takes milliseconds for eight rows. It is for answers, not for
  times. So it gets the first eight rows only: a kernel that is wrong for many
  rows is wrong for a few. It does not find errors of the compiler, or races.
* The names. nsys calls a kernel of Triton by its function: row_sum_kernel. The
  one of torch.compile is named after the operations that it fuses:
  triton_red_fused_sum_0 or triton_per_fused_sum_0.
* The PTX of each kernel is in the folder `scenario-files` of the run folder
  (--keep), under the same names. Its line .target says for which GPUs it is,
  .entry the name that nsys shows, and the .loc lines from which line of Python
  an instruction comes.

'right' and 'compile' are compared with the sum in float64 on the CPU, to within
1e-5 of its value. 'wrong' must be wrong in every row, or the scenario fails.

--build compiles the kernels, into a folder for these sizes, this script, this
GPU, and these versions of PyTorch and Triton. Nothing is compiled in the
measured run.
The last line on stdout is the result as JSON, times in microseconds.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.base.run_folder import cache_dir
from nsyswrap.record.in_program.clocks import time_operation
from nsyswrap.record.in_program.compilers import made_in, need_triton, use_folder
from nsyswrap.record.in_program.script import (
    add_keep_option,
    counted,
    keep_text,
    main,
    make_parser,
    platform,
    summarize,
)
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from types import FrameType, ModuleType

    from torch import Tensor

    from nsyswrap.record.in_program.script import Timing

# The runner reads these literals without importing this file.
VARIANTS = ("interpreter", "triton", "compile")
NEEDS = ("torch", "triton")
VARIANT_NEEDS = {"triton": ("gpu",), "compile": ("gpu",)}
ALONE = ("interpreter",)
KEEPS = ("interpreter", "triton", "compile")
LOOK_FOR = (
    "On the GPU 'wrong' takes the time of 'right' and reports no error. The interpreter names the first "
    "program with a wrong sum, and the mask that is True for the padding."
)
COUNTS = {
    "rows": (1, 16384, "rows of the matrix"),
    "columns": (1, 1000, "numbers in a row"),
    "padding": (1, 24, "numbers in memory after each row"),
    "warmup": (0, 5, "untimed calls before each variant"),
    "iterations": (1, 20, "timed calls of each variant"),
}
SEED = 8
INTERPRETED_ROWS = 8
TOLERANCE = {"rtol": 1e-5, "atol": 0}
_SHOWN = 4  # numbers at each end of a variable

tl: Any = None  # triton.language; make_sum sets this global, in which Triton looks it up


# Triton compiles annotations too, so only its own are allowed here.
def wrong_row_sum_kernel(x, y, columns, stride, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG001, N803
    """Write the sum of a row of x to y, with an error in the mask."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < stride
    numbers = tl.load(x + row * stride + offsets, mask=inside, other=0.0)
    total = tl.sum(numbers, axis=0)
    tl.store(y + row, total)


def row_sum_kernel(x, y, columns, stride, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, N803
    """Write the sum of a row of x to y. Each program adds up one row of at most BLOCK numbers."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    numbers = tl.load(x + row * stride + offsets, mask=inside, other=0.0)
    total = tl.sum(numbers, axis=0)
    tl.store(y + row, total)


KERNELS = {"wrong": wrong_row_sum_kernel, "right": row_sum_kernel}


def make_sum(torch: ModuleType, kernel: Callable[..., None]) -> Callable[[Tensor], Tensor]:
    """Return the sum of each row as a Triton kernel, which the first call compiles unless it is cached."""
    need_triton()
    triton = importlib.import_module("triton")
    globals()["tl"] = importlib.import_module("triton.language")
    compiled = triton.jit(kernel)

    def row_sum(x: Tensor) -> Tensor:
        rows, columns = x.shape
        y: Tensor = torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(x.stride(0))
        compiled[(rows,)](x, y, columns, x.stride(0), BLOCK=block)
        return y

    return row_sum


def make_compiled(torch: ModuleType) -> Callable[[Tensor], Tensor]:
    """Return the sum of each row, compiled by torch.compile at the first call."""
    need_triton()

    def row_sum(x: Tensor) -> Tensor:
        return x.sum(1)

    compiled: Callable[[Tensor], Tensor] = torch.compile(row_sum, fullgraph=True)
    return compiled


def make_functions(torch: ModuleType, variant: str) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return the functions of a variant by name."""
    if variant == "compile":
        return {"sum": make_compiled(torch)}
    return {name: make_sum(torch, kernel) for name, kernel in KERNELS.items()}


def make_matrix(torch: ModuleType, options: argparse.Namespace) -> Tensor:
    """Return a matrix on the CPU: a part of a wider one, whose rows continue behind those of the matrix."""
    generator = torch.Generator().manual_seed(SEED)
    wide: Tensor = torch.rand(options.rows, options.columns + options.padding, generator=generator)
    return wide


def wrong_rows(torch: ModuleType, sums: Tensor, x: Tensor) -> list[int]:
    """Return the rows of ``x`` whose sums are wrong."""
    close = torch.isclose(sums.cpu().double(), x.cpu().double().sum(1), **TOLERANCE)
    return [int(row) for row in (~close).nonzero()[:, 0]]


def check(torch: ModuleType, functions: dict[str, Callable[[Tensor], Tensor]], x: Tensor) -> None:
    """Raise AssertionError unless all sums are right, and all of ``wrong`` are wrong."""
    # Keep all results, so that no result reuses the memory of an earlier correct one.
    results = {name: function(x) for name, function in functions.items()}
    for name, sums in results.items():
        found, expected = len(wrong_rows(torch, sums, x)), len(x) if name == "wrong" else 0
        if found != expected:
            raise AssertionError(f"{name}: {found} of {len(x)} sums are wrong, expected {expected}")


def variables(kernel: Callable[..., None], call: Callable[[], object]) -> list[dict[str, Any]]:
    """Return the variables of each program of a kernel where it ends: name -> numpy array.

    ``call`` runs the kernel in the interpreter, which runs its code once a program.
    """
    programs = []

    def leave(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - a trace function
        if event == "return":
            tensors = {name: value for name, value in frame.f_locals.items() if hasattr(value, "handle")}
            programs.append({name: value.handle.data for name, value in tensors.items()})
        return leave

    def enter(frame: FrameType, _event: str, _: object) -> Any:  # noqa: ANN401 - a trace function
        return leave if frame.f_code.co_name == kernel.__name__ else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return programs


def shown(values: Any) -> str:  # noqa: ANN401 - a numpy array
    """Return the numbers at both ends of a variable, and how many of a mask are True."""
    flat = values.ravel()
    if flat.size == 1:
        return f"{flat[0]:.6g}"
    if flat.dtype == bool:
        return f"True for {flat.sum()} of {flat.size}"
    ends = [f"{number:.6g}" for number in flat]
    return " ".join([*ends[:_SHOWN], "...", *ends[-_SHOWN:]] if flat.size > 2 * _SHOWN else ends)


def debug(torch: ModuleType, x: Tensor) -> dict[str, Any]:
    """Run the wrong kernel in the interpreter, and print the variables of its first wrong program."""
    sums: list[Tensor] = []
    function = make_sum(torch, wrong_row_sum_kernel)
    programs = variables(wrong_row_sum_kernel, lambda: sums.append(function(x)))
    rows = wrong_rows(torch, sums[0], x)
    if not rows:
        raise AssertionError("the interpreter gave no wrong sum")
    first = programs[rows[0]]
    expected = float(x[rows[0]].double().sum())
    outside = int(first["inside"].sum()) - x.shape[1]
    print(f"wrong_row_sum_kernel: {len(rows)} of {len(x)} sums are wrong.")
    print(f"Variables of program {rows[0]}, the first of them, where it ends:\n")
    names = ("row", "offsets", "inside", "numbers", "total")
    for name in names:
        print(f"  {name:8} {shown(first[name])}")
    print(f"  PyTorch  {expected:.6g}\n")
    print(f"The row has {x.shape[1]} numbers, so `inside` is True for {outside} too many: the padding.\n")
    return {
        "wrong_sums": len(rows),
        "wrong_program": rows[0],
        "inside": int(first["inside"].sum()),
        "outside": outside,
        "total": round(float(first["total"].ravel()[0]), 3),
        "expected": round(expected, 3),
    }


def interpret(torch: ModuleType, options: argparse.Namespace) -> dict[str, Any]:
    """Find the error in the interpreter, check the right kernel there, and time both."""
    x = make_matrix(torch, options)[:INTERPRETED_ROWS, : options.columns]
    found = debug(torch, x)
    functions = make_functions(torch, "interpreter")
    check(torch, functions, x)
    print(f"row_sum_kernel: 0 of {len(x)} sums are wrong.\n")
    timings: list[Timing] = []
    for name, function in functions.items():
        start = time.perf_counter()
        function(x)
        samples = [time.perf_counter() - start]
        timings.append(summarize("interpreter", name, samples, span=f"interpreter/{name}", launches=1))
    return {**counted(options, COUNTS), "timings": timings, **found}


def keep_ptx(folder: Path, variant: str, keep: Path | None) -> list[dict[str, str]]:
    """Keep the PTX of the variant's kernels, print their names, and return names and targets."""
    by_inductor = {name: ptx for name, ptx in made_in(folder).items() if name.startswith("triton_")}
    made = {name: ptx for name, ptx in made_in(folder).items() if name not in by_inductor}
    kernels = []
    for name, ptx in (by_inductor if variant == "compile" else made).items():
        keep_text(keep, f"{name}.ptx", ptx)
        [entry] = re.findall(r"\.entry (\w+)", ptx)
        [target] = re.findall(r"\.target (\w+)", ptx)
        print(f"{entry}: {target}, {len(ptx.splitlines())} lines of PTX")
        kernels.append({"entry": entry, "target": target})
    print()
    return kernels


def time_on_gpu(torch: ModuleType, options: argparse.Namespace) -> dict[str, Any]:
    """Check the functions of a variant on the GPU, and time them."""
    # Made on the CPU, so that the profile has no kernels but the ones compared.
    x = make_matrix(torch, options).cuda()[:, : options.columns]
    functions = make_functions(torch, options.variant)
    with torch.cuda.nvtx.range("check"):
        check(torch, functions, x)
    timings = [
        time_operation(
            torch,
            partial(function, x),
            variant=options.variant,
            operator=name,
            warmup=options.warmup,
            iterations=options.iterations,
        )
        for name, function in functions.items()
    ]
    kernels = keep_ptx(Path(options.built), options.variant, options.keep)
    return {**counted(options, COUNTS), **platform(torch), "timings": timings, "kernels": kernels}


def cache_folder(torch: ModuleType, options: argparse.Namespace) -> Path:
    """Return the folder of the kernels for these sizes, this script, this GPU and these versions."""
    versions = (torch.__version__, importlib.metadata.version("triton"))
    facts = (versions, platform(torch), counted(options, COUNTS), Path(__file__).read_bytes())
    return cache_dir("triton_debug", hashlib.sha256(repr(facts).encode()).hexdigest()[:16])


def build(options: argparse.Namespace) -> str:
    """Compile the kernels, if there is a GPU, and return their folder."""
    torch = import_torch(needs_gpu=False)
    if not torch.cuda.is_available():
        return os.devnull  # the interpreter needs nothing
    folder = cache_folder(torch, options)
    use_folder(folder)
    x = make_matrix(torch, options).cuda()[:, : options.columns]
    for variant in VARIANT_NEEDS:
        for function in make_functions(torch, variant).values():
            function(x)
    torch.cuda.synchronize()
    return str(folder)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the variant."""
    if options.variant == "interpreter":
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported
        return interpret(import_torch(needs_gpu=False), options)
    use_folder(Path(options.built))
    return time_on_gpu(import_torch(), options)


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, only="interpreter", counts=COUNTS)
    add_keep_option(parser)
    sys.exit(main("triton_debug", parser.parse_args(), measure, build))
