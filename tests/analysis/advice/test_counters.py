"""The counters of the busy time, in one line. Steps of 1000 ns are drawn once; three are judged."""

from pathlib import Path

import numpy as np
import pytest
from advised import looped, new
from tiny_export import METRICS, Row, call, kernel, metric

from nsyswrap.analysis.advice import advice_of
from nsyswrap.analysis.gpu_counters import sampled_gpus

KIND = "gpu_counters"


def facts_of(tmp_path: Path, *counters: Row) -> list[dict[str, float]]:
    rows = looped(call("cudaLaunchKernel", 0, 10, 1), kernel("k", 100, 600, 1))
    facts = advice_of(new(tmp_path, *rows, *counters)).facts
    return [dict(fact.numbers) for fact in facts if fact.kind == KIND]


def counters(*names: str, idle: int = 0) -> list[Row]:
    """Samples of 10 ns: 80 % of SMs, 20 % of tensor cores, 30 and 10 % of DRAM while the kernel runs."""
    values = dict(zip(METRICS, (80, 0, 20, 30, 10, 0, 0), strict=True))
    samples = {name: [values[name] if 10 <= i % 100 < 60 else idle for i in range(1000)] for name in names}
    return [line for i, name in enumerate(names) for line in metric(name, i, *samples[name], every=10)]


def test_counters_of_the_busy_time(tmp_path: Path) -> None:
    [numbers] = facts_of(tmp_path, *counters(*METRICS))
    assert numbers == pytest.approx({"sm_percent": 80, "tensor_percent": 20, "dram_percent": 40})


def test_nothing_is_said_of_a_part_of_them(tmp_path: Path) -> None:
    assert facts_of(tmp_path, *counters(*METRICS[:3])) == []


def test_nothing_is_said_if_another_program_uses_the_gpu(tmp_path: Path) -> None:
    assert facts_of(tmp_path, *counters(*METRICS, idle=50)) == []


def test_other_programs_are_looked_for_where_no_sample_beside_was_busy(tmp_path: Path) -> None:
    [gpu] = sampled_gpus(new(tmp_path, kernel("k", 100, 600), *counters(METRICS[0])).whole)
    assert np.flatnonzero(gpu.elsewhere()[:100] == 0).tolist() == [*range(1, 9), *range(61, 100)]


def test_nothing_is_said_without_samples(tmp_path: Path) -> None:
    assert facts_of(tmp_path) == []
