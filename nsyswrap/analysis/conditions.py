"""Compute the clock, power, temperature and throttling of each GPU while it worked, from a run's samples.

A sample counts if an operation ran in the 100 ms before it, the time between two samples: launch-bound work
would often be missed at the very moment of a sample. The first sample of each stretch of work does not count,
because the GPU may still leave its idle clock. Clocks and reasons are those of the moment; some GPUs report
power as the average of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.gpu_operations import GpuOperations, gpu_operations_of
from nsyswrap.base.constants import MISSING, NS_PER_S
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import INTERVAL_S, THROTTLE_REASONS, Conditions, Gpu, conditions_of
from nsyswrap.base.run_folder import run_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.info import Samples, read_samples
from nsyswrap.capture.intervals import IntervalSet, union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.selection import process_ids

FEWEST_SAMPLES = 5  # half a second of work: fewer show neither a share nor a range
_INTERVAL_NS = int(INTERVAL_S * NS_PER_S)
_IDLE = 0x1  # bit of the reasons: the clock is dropping because the GPU has nothing to do
_MW_PER_W = 1000
_REDACTED = "00000000-0000-0000-0000-"  # beginning of what `nsyswrap redact` writes in place of a UUID


class Spread(NamedTuple):
    """The spread of a quantity: smallest, 5th percentile, median, 95th percentile and largest value."""

    least: float
    low: float
    median: float
    high: float
    most: float


@dataclass(frozen=True)
class WorkingGpu:
    """One GPU with its samples, and the figures of the ``count`` samples while it worked.

    ``seconds`` are the times of all its samples since time 0 of the capture, ``worked`` marks those that
    count. Figures are None if the GPU does
    not report them, or with fewer than FEWEST_SAMPLES. ``throttled`` maps a reason to its share of the
    samples in percent, the largest first. ``idle_percent`` is the share of samples with the idle clock among
    all that were taken between operations at most 100 ms apart; ``count`` is without these.
    """

    gpu: Gpu
    samples: Samples
    seconds: NDArray[Any]
    worked: NDArray[Any]
    count: int
    idle_percent: float | None = None
    sm_mhz: Spread | None = None
    memory_mhz: Spread | None = None
    power_w: Spread | None = None
    temperature_c: Spread | None = None
    throttled_percent: float | None = None
    throttled: Mapping[str, float] | None = None


@dataclass(frozen=True)
class RunConditions:
    """The conditions of a run, and the figures of each GPU that worked, or why there are none."""

    facts: Conditions
    gpus: tuple[WorkingGpu, ...] = ()
    unknown: str = ""


# Of a lane of PCIe, by generation: its bytes per ns, without the overhead of packets.
_LANE_BYTES_PER_NS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


def host_link_bytes_per_ns(capture: Capture) -> float | None:
    """Return the peak of the PCIe link between host and GPUs, the fastest one; None if it is not recorded.

    The driver also reports a PCIe link where host and GPU have a faster one, as on Grace: no machine with
    ARM cores counts.
    """
    facts = conditions_of(capture.run_facts)
    if facts is None or not facts.host.cpu:  # ARM has no name of the model
        return None
    known = [
        _LANE_BYTES_PER_NS.get(gpu.pcie_generation or 0, 0.0) * (gpu.pcie_lanes or 0) for gpu in facts.gpus
    ]
    return max(known) if known and all(known) else None


@per_capture
def run_conditions_of(capture: Capture) -> RunConditions | None:
    """Return the conditions of the selected GPU work; None if none were recorded."""
    folder, facts = run_of(capture.source), conditions_of(capture.run_facts)
    if folder is None or facts is None:
        return None
    try:
        return RunConditions(facts, _working_gpus(capture, facts, folder))
    except CaptureError as error:
        return RunConditions(facts, unknown=error.message)


def _working_gpus(capture: Capture, facts: Conditions, folder: Path) -> tuple[WorkingGpu, ...]:
    """Raise CaptureError if samples and operations cannot be brought together."""
    operations = gpu_operations_of(capture)
    if not len(operations):
        raise CaptureError("no GPU work")
    if not facts.gpus:
        raise CaptureError("the driver's NVML reported no GPU")
    samples = read_samples(folder, len(facts.gpus))
    if not len(samples["time_ns"]):
        raise CaptureError("no samples of a GPU")
    if not capture.started_ns or capture.started_ns < 0:
        raise CaptureError("the export has no start time in UTC, so samples cannot be assigned to GPU work")
    numbers = gpu_numbers(capture, operations, facts)
    gpus = []
    for number in ascending(numbers).tolist():
        mine = operations.of(numbers == number)
        own = {name: values[samples["gpu"] == number] for name, values in samples.items()}
        time_ns = own["time_ns"] - capture.started_ns
        gpus.append(_working_gpu(facts.gpus[number], own, time_ns, union(mine.start_ns, mine.end_ns)))
    return tuple(gpus)


def gpu_numbers(capture: Capture, operations: GpuOperations, facts: Conditions) -> NDArray[Any]:
    """Return the position in ``facts.gpus`` of each operation's GPU. Raise CaptureError if unknown."""
    numbers = np.full(len(operations), MISSING)
    for process, device, rows in operations.by_device():
        pid = int(process_ids(np.array([process]))[0])
        numbers[rows] = _gpu_number(plain_uuid(capture.gpu_uuids.get((pid, device), "")), facts.gpus)
    return numbers


def _gpu_number(uuid: str, gpus: Sequence[Gpu]) -> int:
    """Return the position of the GPU with this UUID. A MIG device may have a UUID of its own."""
    uuids = [plain_uuid(gpu.uuid) for gpu in gpus]
    if len(gpus) == 1 and (not uuid or not uuids[0] or gpus[0].mig):
        return 0
    if not uuid:
        text = "the export does not tell which GPU the work ran on"
        raise CaptureError(f"{text} (nsys 2025.1 or newer does, unless redacted)")
    if uuid not in uuids:
        raise CaptureError("work ran on a GPU or MIG device that was not sampled")
    return uuids.index(uuid)


def plain_uuid(uuid: str) -> str:
    """Return a UUID as nsys writes it, without the prefix of NVML; empty if it was redacted."""
    plain = uuid.lower().removeprefix("gpu-")
    return "" if plain.startswith(_REDACTED) else plain


def _working_gpu(gpu: Gpu, samples: Samples, time_ns: NDArray[Any], work: IntervalSet) -> WorkingGpu:
    worked = _settled(time_ns, work)
    idle = _bits(samples["reasons"]) & _IDLE > 0
    busy = worked & ~idle
    made = WorkingGpu(gpu, samples, time_ns / NS_PER_S, busy, int(busy.sum()))
    if worked.sum() >= FEWEST_SAMPLES:
        made = replace(made, idle_percent=_percent(idle[worked]))
    if made.count < FEWEST_SAMPLES:
        return made
    of = {name: values[busy] for name, values in samples.items()}
    return replace(
        made,
        sm_mhz=_spread(of["sm_mhz"]),
        memory_mhz=_spread(of["memory_mhz"]),
        power_w=_spread(of["power_mw"] / _MW_PER_W),
        temperature_c=_spread(of["temperature_c"]),
        **_throttling(of["reasons"]),
    )


def _settled(time_ns: NDArray[Any], work: IntervalSet) -> NDArray[Any]:
    """Mark the samples with work in the interval before them and before the previous sample."""
    if not len(work.start):
        return np.zeros(len(time_ns), bool)
    last = np.searchsorted(work.start, time_ns, "right") - 1
    worked = (last >= 0) & (work.end[np.maximum(last, 0)] >= time_ns - _INTERVAL_NS)
    return worked & np.concatenate(([False], worked[:-1]))


def _spread(values: NDArray[Any]) -> Spread | None:
    known = values[~np.isnan(values)]
    if len(known) < FEWEST_SAMPLES:
        return None
    return Spread(*np.percentile(known, (0, 5, 50, 95, 100)).tolist())


def _throttling(reasons: NDArray[Any]) -> dict[str, Any]:
    bits = _bits(reasons[~np.isnan(reasons)])
    if len(bits) < FEWEST_SAMPLES:
        return {}
    shares = {name: _percent(bits & bit > 0) for bit, name in THROTTLE_REASONS.items()}
    largest = sorted(((name, share) for name, share in shares.items() if share), key=lambda one: -one[1])
    return {"throttled_percent": _percent(bits & sum(THROTTLE_REASONS) > 0), "throttled": dict(largest)}


def _bits(reasons: NDArray[Any]) -> NDArray[Any]:
    return np.nan_to_num(reasons).astype(np.int64)  # type: ignore[no-any-return]


def _percent(marks: NDArray[Any]) -> float:
    return 100 * float(marks.mean())
