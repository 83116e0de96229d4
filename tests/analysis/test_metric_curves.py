"""Metrics that nsys sampled on a GPU."""

from pathlib import Path

from tiny_export import kernel, metric, opened, row

from nsyswrap.analysis.usage import gpu_metrics_of


def test_names_units_and_values(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *metric("GPC Clock Frequency [MHz]", 0, 1_980_500_000, 345_000_000),
        *metric("SMs Active [Throughput %]", 3, 0, 97, 100),
        *metric("Compute Warps in Flight [Throughput %]", 12, 1, 2),
        *metric("Compute Warps in Flight [Avg]", 13, 10_000, 20_000),  # the same in another unit
        *metric("SMs Active [Throughput %]", 3, 5, gpu=1),
        *metric("new", 40, 7),
        row("GPU_METRICS", timestamp=0, typeId=1 << 40, metricId=99, value=1),  # without a name
    )
    found = [(one.gpu, one.name, one.unit, one.values.tolist()) for one in gpu_metrics_of(capture)]
    assert found == [
        (0, "GPC Clock Frequency", "MHz", [1980.5, 345.0]),  # nsys samples Hz
        (0, "SMs Active", "%", [0, 97, 100]),
        (0, "Compute Warps in Flight", "%", [1, 2]),
        (0, "new", "", [7]),
        (1, "SMs Active", "%", [5]),
    ]
    assert gpu_metrics_of(capture)[1].times_ns.tolist() == [0, 10, 20]


def test_nothing_is_said_without_samples(tmp_path: Path) -> None:
    assert gpu_metrics_of(opened(tmp_path, kernel("k", 0, 1))) == []


def test_names_alone_are_no_samples(tmp_path: Path) -> None:
    assert gpu_metrics_of(opened(tmp_path, kernel("k", 0, 1), *metric("SMs Active [Throughput %]", 3))) == []
