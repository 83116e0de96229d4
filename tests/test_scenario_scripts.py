"""The scripts in scenarios/ and the program kernels/add.cu, as far as they go without a GPU."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import pytest

from nsyswrap.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "scenarios"
KERNELS = ROOT / "kernels"
SCRIPTS = ("add", "add2")

# Runs a script as `python SCRIPT ARGUMENTS` would, where torch cannot be imported.
WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"scenario_{name}", SCENARIOS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def add() -> ModuleType:
    return load("add")


@pytest.fixture
def add2() -> ModuleType:
    return load("add2")


def run_without_torch(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(SCENARIOS / f"{name}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


# What a runner reads of both scripts


def literals(name: str) -> dict[str, object]:
    tree = ast.parse((SCENARIOS / f"{name}.py").read_text(encoding="utf-8"))
    return {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id in {"VARIANTS", "VARIANT_OPTION", "NEEDS"}
    }


def test_the_constants_are_literals() -> None:
    assert literals("add") == {
        "VARIANTS": ("1x1", "1x256", "grid", "prefetch"),
        "VARIANT_OPTION": "--variant",
        "NEEDS": ("nvcc", "gpu"),
    }
    assert literals("add2") == {
        "VARIANTS": ("both", "first", "second", "none"),
        "VARIANT_OPTION": "--sync",
        "NEEDS": ("torch", "ninja", "nvcc", "gpu"),
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_docstring_begins_with_a_summary(name: str) -> None:
    docstring = ast.get_docstring(ast.parse((SCENARIOS / f"{name}.py").read_text(encoding="utf-8")))
    assert docstring is not None
    summary, blank, *_body = docstring.splitlines()
    assert summary.endswith(".")
    assert blank == ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_needs_no_torch(name: str) -> None:
    result = run_without_torch(name, "--help")
    assert result.returncode == 0, result.stderr
    assert "What to look for in nsyswrap's output" in result.stdout
    assert f"{literals(name)['VARIANT_OPTION']} {{" in result.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_unknown_variant_is_a_usage_error(name: str) -> None:
    result = run_without_torch(name, str(literals(name)["VARIANT_OPTION"]), "fastest")
    assert result.returncode == 2
    assert "invalid choice: 'fastest'" in result.stderr


# scenarios/add.py


class Executed(Exception):
    """Stands for the process that os.execv would have replaced."""


def test_add_becomes_the_program(add: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_cuda(source: Path, *, arch: str | None) -> Path:
        assert source.name == "add.cu"
        return Path(f"/cache/add-{arch}")

    def execv(program: Path, command: list[str]) -> NoReturn:
        raise Executed(str(program), command)

    monkeypatch.setattr(add, "compile_cuda", compile_cuda)
    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Executed) as by_default:
        add.main([])
    assert by_default.value.args == ("/cache/add-None", ["/cache/add-None", "grid"])
    with pytest.raises(Executed) as chosen:
        add.main(["--variant", "1x256", "--n", "1000", "--arch", "sm_90"])
    assert chosen.value.args == ("/cache/add-sm_90", ["/cache/add-sm_90", "1x256", "--n", "1000"])


def test_add_build_prints_the_path_and_runs_nothing(
    add: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(add, "compile_cuda", lambda _source, **_options: Path("/cache/add"))
    assert add.main(["--build"]) == 0
    assert capsys.readouterr() == ("/cache/add\n", "")


def test_add_without_a_compiler_says_so_in_one_line(
    add: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compile_cuda(_source: Path, **_options: object) -> NoReturn:
        raise Unavailable("nvcc was not found", "install the CUDA toolkit")

    monkeypatch.setattr(add, "compile_cuda", compile_cuda)
    assert add.main([]) == 69
    assert capsys.readouterr() == ("", "add: nvcc was not found; install the CUDA toolkit\n")


# scenarios/add2.py: the command line


def test_add2_defaults(add2: ModuleType) -> None:
    options = add2.make_parser().parse_args([])
    assert vars(options) == {"sync": None, "n": 1048576, "warmup": 10, "iterations": 10, "build": False}
    assert add2.chosen_variants(options.sync) == ("both", "first", "second", "none")


def test_add2_takes_variants_once_and_in_the_order_given(add2: ModuleType) -> None:
    options = add2.make_parser().parse_args(["--sync", "none", "--sync", "both", "--sync", "none"])
    assert add2.chosen_variants(options.sync) == ("none", "both")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--n", "0"], "argument --n: must be at least 1"),
        (["--iterations", "0"], "argument --iterations: must be at least 1"),
        (["--warmup", "-1"], "argument --warmup: must be at least 0"),
        (["--n", "1e6"], "argument --n: invalid whole number value: '1e6'"),
    ],
)
def test_add2_refuses_counts_that_measure_nothing(
    add2: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        add2.make_parser().parse_args(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


# scenarios/add2.py: the timing loop


class Recorder:
    """Instruments and an operation that note every call; the clock reads the times given."""

    def __init__(self, times: Sequence[float]) -> None:
        self.calls: list[str] = []
        self.times = list(times)

    def clock(self) -> float:
        self.calls.append("clock")
        return self.times.pop(0)

    def synchronise(self) -> None:
        self.calls.append("synchronise")

    def operation(self) -> None:
        self.calls.append("operation")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        self.calls.append(f"open {name}")
        yield
        self.calls.append(f"close {name}")


@pytest.mark.parametrize(
    ("sync", "calls"),
    [
        ("both", ["synchronise", "clock", "operation", "synchronise", "clock"]),
        ("first", ["synchronise", "clock", "operation", "clock"]),
        ("second", ["clock", "operation", "synchronise", "clock"]),
        ("none", ["clock", "operation", "clock"]),
    ],
)
def test_where_an_iteration_synchronises(add2: ModuleType, sync: str, calls: list[str]) -> None:
    recorder = Recorder([10.0, 10.75])
    instruments = add2.Instruments(recorder.clock, recorder.synchronise, recorder.span)
    assert add2.time_iteration(recorder.operation, sync, instruments) == 0.75
    assert recorder.calls == calls


def test_a_block_from_warm_up_to_the_last_synchronise(add2: ModuleType) -> None:
    recorder = Recorder([1.0, 1.25, 2.0, 2.5])
    samples = add2.time_block(
        recorder.operation,
        "first",
        "cuda",
        warmup=2,
        iterations=2,
        instruments=add2.Instruments(recorder.clock, recorder.synchronise, recorder.span),
    )
    assert samples == [0.25, 0.5]
    assert recorder.calls == [
        "open warm-up first/cuda",
        "operation",
        "operation",
        "close warm-up first/cuda",
        "synchronise",
        "open add2 first cuda",
        "open first/cuda",
        "synchronise",
        "clock",
        "operation",
        "clock",
        "close first/cuda",
        "open first/cuda",
        "synchronise",
        "clock",
        "operation",
        "clock",
        "close first/cuda",
        "close add2 first cuda",
        "synchronise",
    ]


def test_every_variant_is_measured_for_every_operator(add2: ModuleType) -> None:
    # Stamps 1, 2, 4, 8, ... seconds: every sample is another power of two.
    recorder = Recorder([2.0**power for power in range(8)])
    operations = {"cuda": recorder.operation, "torch": recorder.operation}
    timings = add2.measure(
        operations,
        argparse.Namespace(sync=["none", "both"], warmup=0, iterations=1),
        add2.Instruments(recorder.clock, recorder.synchronise, recorder.span),
    )
    assert [(timing["sync"], timing["operator"], timing["samples_us"]) for timing in timings] == [
        ("none", "cuda", [1e6]),
        ("none", "torch", [4e6]),
        ("both", "cuda", [16e6]),
        ("both", "torch", [64e6]),
    ]


# scenarios/add2.py: the result


def test_summary_of_samples(add2: ModuleType) -> None:
    assert add2.summarise("both", "torch", [3e-6, 1e-6, 2e-6, 10e-6]) == {
        "sync": "both",
        "operator": "torch",
        "median_us": 2.5,
        "mean_us": 4.0,
        "min_us": 1.0,
        "max_us": 10.0,
        "samples_us": [3.0, 1.0, 2.0, 10.0],
    }


def test_the_report_is_one_line_of_json(add2: ModuleType) -> None:
    options = argparse.Namespace(n=4, warmup=2, iterations=1)
    platform = {"device": "GPU", "torch": "2.1.0", "cuda": "12.1"}
    line = add2.report(options, platform, [add2.summarise("none", "cuda", [5e-6])])
    assert "\n" not in line
    assert json.loads(line) == {
        "scenario": "add2",
        "n": 4,
        "warmup": 2,
        "iterations": 1,
        "device": "GPU",
        "torch": "2.1.0",
        "cuda": "12.1",
        "timings": [
            {
                "sync": "none",
                "operator": "cuda",
                "median_us": 5.0,
                "mean_us": 5.0,
                "min_us": 5.0,
                "max_us": 5.0,
                "samples_us": [5.0],
            }
        ],
    }


@pytest.mark.filterwarnings("default")  # importing PyTorch may warn; that is not ours to mend
def test_a_run_on_the_cpu_checks_measures_and_reports(
    add2: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "CPU")
    monkeypatch.setattr(torch.cuda.nvtx, "range", nullcontext)
    options = add2.make_parser().parse_args(["--n", "100", "--iterations", "3"])

    extension = SimpleNamespace(add2=lambda c, a, b: torch.add(a, b, out=c))
    result = json.loads(add2.run(torch, extension, options))
    assert result["device"] == "CPU"
    assert [(timing["sync"], timing["operator"]) for timing in result["timings"]] == [
        (sync, operator) for sync in ("both", "first", "second", "none") for operator in ("cuda", "torch")
    ]
    assert all(len(timing["samples_us"]) == 3 for timing in result["timings"])

    leaves_one_out = SimpleNamespace(add2=lambda c, a, b: torch.add(a[1:], b[1:], out=c[1:]))
    with pytest.raises(AssertionError, match="not equal"):
        add2.run(torch, leaves_one_out, options)


# scenarios/add2.py: the build, and what it needs


def test_builds_that_differ_get_folders_of_their_own(add2: ModuleType, tmp_path: Path) -> None:
    source, header = tmp_path / "a.cu", tmp_path / "a.h"
    source.write_text("kernel", encoding="utf-8")
    header.write_text("header", encoding="utf-8")
    name = add2.build_name("2.1.0+cu121", "3.10", (9, 0), [source, header])
    assert name.startswith("add2-torch2.1.0+cu121-python3.10-sm90-")
    assert add2.build_name("2.1.0+cu121", "3.10", (9, 0), [header, source]) == name
    header.write_text("another", encoding="utf-8")
    assert add2.build_name("2.1.0+cu121", "3.10", (9, 0), [source, header]) != name


def test_add2_without_torch_says_what_to_install() -> None:
    result = run_without_torch("add2")
    assert result.returncode == 69
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("add2: PyTorch cannot be imported")
    assert "pip install 'nsyswrap[scenarios]'" in result.stderr


@pytest.mark.parametrize(
    ("gpu", "ninja", "cuda_home", "complaint"),
    [
        (False, True, "/cuda", "add2: PyTorch 2.1.0 finds no CUDA GPU"),
        (True, False, "/cuda", "add2: ninja was not found"),
        (True, True, None, "add2: nvcc was not found"),
    ],
)
def test_add2_names_what_else_is_missing(  # noqa: PLR0913
    add2: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    gpu: bool,
    ninja: bool,
    cuda_home: str | None,
    complaint: str,
) -> None:
    torch = SimpleNamespace(__version__="2.1.0", cuda=SimpleNamespace(is_available=lambda: gpu))
    cpp_extension = SimpleNamespace(is_ninja_available=lambda: ninja, CUDA_HOME=cuda_home)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.utils.cpp_extension", cpp_extension)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # the script adds to it
    assert add2.main([]) == 69
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(complaint)
    assert err.count("\n") == 1


# kernels


@pytest.fixture(scope="module")
def nvcc() -> str:
    path = shutil.which("nvcc")
    if path is None:
        pytest.skip("nvcc is not on PATH")
    return path


def compile_strictly(nvcc: str, *arguments: str) -> None:
    # sm_80: an architecture that CUDA 11, 12 and 13 all compile for without a warning.
    strict = ("-arch=sm_80", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror")
    subprocess.run([nvcc, *strict, *arguments], check=True)


@pytest.fixture(scope="module")
def program(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("add") / "add"
    compile_strictly(nvcc, str(KERNELS / "add.cu"), "-o", str(path))
    return path


def run_program(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # No GPU is visible, whether the machine has one or not.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [str(program), *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["fastest"],
        ["grid", "1x1"],
        ["--n"],
        ["--n", "0"],
        ["--n", "-1"],
        ["--n", "1e6"],
        ["--n", "2147483648"],
        ["--n", "99999999999999999999"],
    ],
)
def test_the_program_refuses_bad_arguments(program: Path, arguments: list[str]) -> None:
    result = run_program(program, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: add [1x1|1x256|grid|prefetch] [--n N]")


@pytest.mark.parametrize("arguments", [[], ["1x1"], ["1x256"], ["grid"], ["prefetch", "--n", "10"]])
def test_the_program_without_a_gpu_names_the_call_that_failed(program: Path, arguments: list[str]) -> None:
    result = run_program(program, *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    place, _, error = result.stderr.partition(": cudaMallocManaged(&data, n * sizeof(float)): ")
    assert place.rpartition(":")[0].endswith("add.cu")
    assert "CUDA" in error


def test_the_extension_s_kernel_compiles(nvcc: str, tmp_path: Path) -> None:
    compile_strictly(nvcc, "-c", str(KERNELS / "add2" / "add2.cu"), "-o", str(tmp_path / "add2.o"))
