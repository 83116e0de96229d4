"""Peaks that doctor measures: the program, what is kept of it, and how runs find it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_nvml import FakeGpu, FakeNvml, use
from scenario_scripts import torch_on_cpu

from nsyswrap.base.run_facts import Peaks
from nsyswrap.record import gpus, peaks
from nsyswrap.record.conditions.observer import Sampler
from nsyswrap.record.gpus import Devices

if TYPE_CHECKING:
    from nsyswrap.base.check import Check

GPU, DRIVER = "Fake H200", "580.1"
RATES = {"bf16": 8e14, "f32": 5e13}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(gpus, "query", lambda: Devices((GPU,), ("9.0",), DRIVER))


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Check:
    path = folder / "program.py"
    path.write_text(program)
    monkeypatch.setattr(peaks, "PROGRAM", path)
    [check] = peaks.measure()
    return check


def test_runs_find_what_was_measured_by_name_and_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert peaks.stored(GPU, DRIVER) is None
    assert not (tmp_path / "cache").exists()  # looking leaves nothing
    check = measured(tmp_path, monkeypatch, f"print({json.dumps(json.dumps([GPU, RATES, 3.1e12]))})")
    text = f"{GPU}: bf16 800 TFLOP/s, f32 50.0 TFLOP/s, memory 3.10 TB/s; runs on GPUs of this name keep them"
    assert (check.level, check.text) == ("ok", text)
    assert peaks.stored(GPU, DRIVER) == Peaks(DRIVER, RATES, 3.1e12)
    assert peaks.stored(GPU, "581") is None
    assert peaks.stored("another", DRIVER) is None
    use(monkeypatch, FakeNvml(FakeGpu()))
    sampler = Sampler({}, "mark", tmp_path / "samples")
    sampler.stop()
    sampler.run()
    assert [gpu.peaks for gpu in sampler.gpus()] == [Peaks(DRIVER, RATES, 3.1e12)]


@pytest.mark.parametrize(
    ("program", "level", "said"),
    [
        ("import cupy  # none has it here", "unknown", "has no PyTorch"),
        ("import sys; sys.exit(3)", "problem", "not measured: exit code 3"),
        ("import sys; sys.exit('first\\nCUDA out of memory')", "problem", "not measured: CUDA out of memory"),
        ("print('[1]')", "problem", "not kept: the program that measures printed something else"),
        ('print(\'["G", {"bf16": 0}, 1]\')', "problem", "not kept: "),
        ('print(\'["G", {"bf16": 1e999}, 1]\')', "problem", "not kept: "),
        ("print('no JSON')", "problem", "not kept: "),
    ],
)
def test_what_fails_is_told_and_not_kept(
    program: str, level: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = measured(tmp_path, monkeypatch, program)
    assert check.level == level
    assert said in check.text
    assert ("--peaks" in check.cure) == (level == "unknown")
    assert peaks.stored("G", DRIVER) is None


def test_no_gpu_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "query", lambda: Devices(error="no driver"))
    [check] = peaks.measure()
    assert (check.level, check.text) == ("unknown", "not measured: no driver")


def test_the_python_that_has_pytorch_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntest $1 = -c || echo '{json.dumps([GPU, RATES, 3.1e12])}'\n")
    python.chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    assert measured(tmp_path, monkeypatch, "import cupy\n").level == "ok"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"driver": "1", "flop_per_s": {"f32": -1}, "bytes_per_s": 1}',
        '{"driver": "580.1", "flop_per_s": {"f32": "1"}, "bytes_per_s": 1}',
        '{"driver": "580.1", "flop_per_s": {"f32": true}, "bytes_per_s": 1}',
        '{"driver": "580.1", "flop_per_s": {"f32": 1}, "bytes_per_s": null}',
        '{"driver": "580.1", "flop_per_s": {"int": 1}, "bytes_per_s": 1}',
        '{"driver": "580.2", "flop_per_s": {"f32": 1}, "bytes_per_s": 1}',
    ],
)
def test_a_damaged_file_is_none(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(tmp_path, monkeypatch, f"print({json.dumps(json.dumps([GPU, RATES, 3.1e12]))})")
    [file] = (tmp_path / "cache").glob("nsyswrap/peaks/*.json")
    file.write_text(content)
    assert peaks.stored(GPU, DRIVER) is None


@pytest.mark.parametrize(("capability", "kinds"), [((7, 5), {"f16", "f32", "f64"}), ((8, 0), None)])
def test_the_program(
    capability: tuple[int, int], kinds: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch: Any = torch_on_cpu(monkeypatch)
    monkeypatch.syspath_prepend(peaks.PROGRAM.parent)
    monkeypatch.delitem(sys.modules, "peaks", raising=False)
    program: Any = importlib.import_module("peaks")
    assert set(program.PRODUCTS) == set(peaks.TYPES)
    small = {kind: (dtype, 8, since) for kind, (dtype, _, since) in program.PRODUCTS.items()}
    for name, value in {"PRODUCTS": small, "_DEVICE": "cpu", "_SECONDS": 0.0, "_COPIED_BYTES": 64}.items():
        monkeypatch.setattr(program, name, value)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**20, 2**20))
    name, rates, copied = program.measure()
    assert name == "CPU"
    assert set(rates) == (kinds or set(small))
    assert min(*rates.values(), copied) > 0
