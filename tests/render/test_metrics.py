"""Metrics of runs, read back by the readers of their formats."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser

from nsyswrap.analysis.compare.model import WHOLE_RUN, Key, RowFigures, RunFigures, Setup, Side
from nsyswrap.base.errors import CaptureError, NotInCapture, UsageError
from nsyswrap.base.units import Unit
from nsyswrap.base.version import version
from nsyswrap.render.text_exports import FORMATS
from nsyswrap.reports.runs.metrics import MOST_KERNELS, Family, Metrics, MetricSample, metrics_of

HOSTILE = 'a\\b"c\nd{e="f"} # EOF'
# What the action's own documentation asks for: name, unit and value, and two optional texts.
ENTRIES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["name", "unit", "value"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
    },
}


def run(number: int = 1, kernel_ns: float = 4000.0, **setup: Any) -> RunFigures:
    rows = {
        Key("total", "program time"): RowFigures(1, 2e9, 2e9),
        Key("total", "GPU busy time"): RowFigures(6, 6000.0, 6000.0),
        Key("step", "'step'"): RowFigures(4, 4e6, 1e6),
        Key("budget", "gemm_kernel"): RowFigures(4, 2500.0),
        Key("budget", "idle_host"): RowFigures(4, 7500.0),
        Key("kernel", "add(float*)", "grid 1 1 1, block 1 1 1"): RowFigures(3, kernel_ns - 1000.0, 1000.0),
        Key("kernel", "add(float*)", "grid 2 1 1, block 1 1 1"): RowFigures(1, 1000.0, 1000.0),
        Key("budget", "gemm_kernel", WHOLE_RUN): RowFigures(1, 2500.0),
        Key("budget", "idle_host", WHOLE_RUN): RowFigures(1, 97_500.0),
        Key("copy", "Host-to-Device"): RowFigures(2, 2000.0, 1000.0, size_bytes=4096),
        Key("launch", "repeat launch call"): RowFigures(4, 20_000.0, 5000.0),
    }
    return RunFigures(f"run-{number}", Setup(gpus=("GPU",), command=("train",), **setup), rows, 4)


def of(*runs: RunFigures) -> Metrics:
    return metrics_of(Side("runs", runs))


def families(metrics: Metrics) -> dict[str, Metric]:
    read: Any = parser.text_string_to_metric_families  # the package has types, but not for this
    return {family.name: family for family in read(FORMATS["openmetrics"](metrics))}


def value(family: Metric) -> float:
    [sample] = family.samples
    return float(sample.value)


def entries(metrics: Metrics) -> dict[str, dict[str, Any]]:
    content = json.loads(FORMATS["github-benchmark"](metrics))
    jsonschema.validate(content, ENTRIES)
    named = {entry["name"]: entry for entry in content}
    assert len(named) == len(content)
    return named


def test_openmetrics_has_base_units_and_totals() -> None:
    found = families(of(run(driver="570.1")))
    assert value(found["nsyswrap_program_time_seconds"]) == 2.0
    assert value(found["nsyswrap_gpu_busy_ratio"]) == 0.25
    assert value(found["nsyswrap_step_time_seconds"]) == 1e-3
    kernels, times = found["nsyswrap_kernels"], found["nsyswrap_kernel_time_seconds"]
    assert (kernels.type, value(kernels), kernels.samples[0].name) == ("counter", 4, "nsyswrap_kernels_total")
    assert (times.unit, value(times), times.samples[0].labels) == ("seconds", 4e-6, {"kernel": "add(float*)"})
    assert value(found["nsyswrap_copy_size_bytes"]) == 4096
    assert value(found["nsyswrap_launch_overhead_seconds"]) == 5e-6
    assert found["nsyswrap_profile"].samples[0].labels == {
        "gpu": "GPU",
        "driver": "570.1",
        "nsyswrap": version(),
    }
    assert all(family.documentation for family in found.values())
    assert not [name for name in found if "_min" in name]


def test_several_runs_have_their_median_and_range() -> None:
    metrics = of(run(1, 5000.0), run(2, 4000.0), run(3, 8000.0))
    found = families(metrics)
    names = ("kernel_time", "kernel_time_min", "kernel_time_max")
    assert [value(found[f"nsyswrap_{name}_seconds"]) for name in names] == [5e-6, 4e-6, 8e-6]
    assert found["nsyswrap_kernel_time_min_seconds"].type == "gauge"
    assert value(found["nsyswrap_runs"]) == 3
    entry = entries(metrics)["kernel time: add(float*)"]
    assert (entry["unit"], entry["value"], entry["range"]) == ("us", 5, "± 2")
    assert entry["extra"] == f"median of 3 runs\nmin 4\nmax 8\nnsyswrap {version()}"


def test_every_benchmark_is_smaller_is_better() -> None:
    found = entries(of(run()))
    idle = {"name": "GPU idle", "unit": "percent", "value": 75, "extra": f"nsyswrap {version()}"}
    assert found["GPU idle"] == idle
    step = {"name": "step time: 'step'", "unit": "us", "value": 1000, "extra": f"nsyswrap {version()}"}
    assert found["step time: 'step'"] == step
    assert found["copy size: Host-to-Device"]["unit"] == "bytes"
    assert not [name for name in found if "busy" in name and "time" not in name]


def test_labels_are_escaped() -> None:
    family = Family(
        "kernels", "counter", Unit.COUNT, 'a "help"\n\\', (MetricSample((("kernel", HOSTILE),), (1.0,)),)
    )
    found = families(Metrics(1, (("gpu", HOSTILE),), (family,)))
    assert found["nsyswrap_kernels"].samples[0].labels == {"kernel": HOSTILE}
    assert found["nsyswrap_profile"].samples[0].labels == {"gpu": HOSTILE}


def test_long_names_are_bounded_and_stay_apart() -> None:
    one = run()
    names = [f"{'k' * 300}{end}" for end in "ab"]
    rows = {**one.rows, **{Key("kernel", f"{name}\x1b[1m"): RowFigures(1, 9.0) for name in names}}
    labels = [s.labels["kernel"] for s in families(of(replace(one, rows=rows)))["nsyswrap_kernels"].samples]
    assert len(set(labels)) == 3
    assert max(map(len, labels)) == 120
    assert not [label for label in labels if "\x1b" in label]


def test_the_kernels_with_most_time_are_kept() -> None:
    one = run()
    more = {Key("kernel", f"k{number}"): RowFigures(1, 100.0 + number) for number in range(MOST_KERNELS + 4)}
    metrics = of(replace(one, rows={**one.rows, **more}))
    names = [s.labels["kernel"] for s in families(metrics)["nsyswrap_kernels"].samples]
    assert names == ["add(float*)", *(f"k{number}" for number in range(MOST_KERNELS + 3, 4, -1))]
    assert metrics.notes == (f"the {MOST_KERNELS} kernels with most time are included; 5 more are not",)


def test_a_kernel_that_a_run_lacks_counts_as_none_there() -> None:
    one, other = run(1), run(2)
    rows = {key: row for key, row in other.rows.items() if key.group != "kernel"}
    found = families(of(one, replace(other, rows=rows)))
    assert value(found["nsyswrap_kernels"]) == 2
    assert value(found["nsyswrap_kernels_min"]) == 0


def test_what_was_not_recorded_has_no_metric() -> None:
    one = run()
    rows = {key: row for key, row in one.rows.items() if key.group not in ("copy", "step")}
    found = families(of(replace(one, rows=rows)))
    assert not [name for name in found if "cop" in name or "step" in name]


@pytest.mark.parametrize(
    ("runs", "error", "words"),
    [
        ([RunFigures("empty", Setup(), {})], NotInCapture, "no GPU work was recorded"),
        ([run(lost_events=2)], CaptureError, "nsys lost events"),
        (
            [run(), replace(run(2), setup=Setup(gpus=("other",)))],
            UsageError,
            "runs of different GPUs: GPU and other",
        ),
        (
            [run(), replace(run(2), setup=Setup(command=("b", "c")))],
            UsageError,
            "different programs: b c and train",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(runs: list[RunFigures], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        of(*runs)
