"""The SM clock in each kernel's own time, from samples that a test chooses."""

from dataclasses import replace
from pathlib import Path

import pytest
from conditioned import H200, MS, around, recorded, sample
from tiny_export import kernel, row

from nsyswrap.analysis.compare.model import RowFigures
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.api import CaptureReader
from nsyswrap.base.run_facts import Conditions


def clocks(capture: CaptureReader) -> dict[str, tuple[float | None, int]]:
    rows: dict[str, RowFigures] = {
        k.name: row for k, row in run_figures(capture).rows.items() if k.group == "kernel"
    }
    return {name: (row.clock_mhz, row.clock_samples) for name, row in rows.items()}


def test_samples_belong_to_the_kernels_that_ran(tmp_path: Path) -> None:
    # a [0.95 s, 1.45 s), b [1.45 s, 1.95 s), c beside b [1.65 s, 1.75 s); the first sample does not count
    work = [sample(ms, sm=1900 if ms < 1450 else 1500) for ms in range(1000, 2000, 100)]
    rows = [kernel("a", 950 * MS, 1450 * MS), kernel("b", 1450 * MS, 1950 * MS)]
    capture = recorded(tmp_path, [*rows, kernel("c", 1650 * MS, 1750 * MS, streamId=9)], around(work))
    assert clocks(capture) == {"a": (1900, 4), "b": (1500, 5), "c": (1500, 1)}


def test_a_sample_counts_once_for_kernels_of_one_row(tmp_path: Path) -> None:
    rows = [kernel("a", 950 * MS, 1950 * MS, streamId=stream) for stream in (1, 2, 3)]
    capture = recorded(tmp_path, rows, around([sample(ms) for ms in range(1000, 2000, 100)]))
    assert clocks(capture) == {"a": (1980, 9)}


def test_samples_between_kernels_belong_to_none(tmp_path: Path) -> None:
    rows = [kernel("a", ms * MS, (ms + 30) * MS) for ms in range(1010, 2000, 100)]
    capture = recorded(tmp_path, rows, around([sample(ms) for ms in range(1100, 2100, 100)]))
    assert clocks(capture) == {"a": (None, 0)}


def test_each_gpu_has_its_own_samples(tmp_path: Path) -> None:
    facts = Conditions((H200, replace(H200, uuid="GPU-B", index=1)))
    gpus = [row("TARGET_INFO_GPU", id=i, name="NVIDIA H200", uuid=uuid) for i, uuid in enumerate("AB")]
    gpus += [row("TARGET_INFO_CUDA_DEVICE", pid=100, cudaId=i, gpuId=1 - i) for i in (0, 1)]
    rows = [kernel("a", 950 * MS, 1950 * MS), kernel("b", 950 * MS, 1950 * MS, deviceId=1)]
    samples = [
        one
        for gpu in (0, 1)
        for one in around([sample(ms, sm=1000 + gpu, gpu=gpu) for ms in range(1000, 2000, 100)], gpu=gpu)
    ]
    assert clocks(recorded(tmp_path, [*rows, *gpus], samples, facts)) == {"a": (1001, 9), "b": (1000, 9)}


@pytest.mark.parametrize("samples", [None, "nonsense"])
def test_without_samples_there_is_no_clock(samples: str | None, tmp_path: Path) -> None:
    assert clocks(recorded(tmp_path, [kernel("a", 0, 10)], samples)) == {"a": (None, 0)}
