"""What a program is written with, by its kernels, its ranges and its command."""

from pathlib import Path

import pytest
from tiny_export import OPENACC as OPENACC_TABLE
from tiny_export import Row, domain, kernel, on_cpu, opened, row

from nsyswrap.analysis.program_language import CUDA, CUPY, JAX, OPENACC, PYTHON, PYTORCH, language_of


def command(name: str) -> Row:
    return row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value=name)


def named(name: str) -> Row:
    return kernel(name, 0, 10)


@pytest.mark.parametrize(
    ("rows", "language"),
    [
        ([named("void at::native::vectorized_elementwise_kernel<4>(int)")], PYTORCH),
        ([named("k"), domain("TSL", 2)], JAX),
        ([named("loop_add_fusion_3")], JAX),
        ([named("cupy_add__float32_float32_float32"), command("/usr/bin/python3")], CUPY),
        ([named("jacobi_45_gpu")], OPENACC),
        ([named("jacobi_45_gpu__red")], OPENACC),
        ([named("main$_omp_fn$0")], OPENACC),
        ([named("k"), on_cpu(OPENACC_TABLE, "Enter Data", 0, 5)], OPENACC),
        ([named("k"), command("/opt/conda/bin/python3.12")], PYTHON),
        ([named("stencil(float*, int)"), command("./stencil")], CUDA),
        ([named("stencil(float*, int)")], CUDA),
    ],
)
def test_the_language(rows: list[Row], language: str, tmp_path: Path) -> None:
    assert language_of(opened(tmp_path, *rows).whole) == language
