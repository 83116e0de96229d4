"""Check the conditions of the run: throttled GPUs, clocks that varied, and other users of the machine.

The samples of the run folder tell about a GPU only while the capture shows that it worked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nsyswrap.analysis.conditions import FEWEST_SAMPLES, RunConditions, Spread, WorkingGpu, run_conditions_of
from nsyswrap.analysis.diagnostics.check import info, ok, unknown, warning
from nsyswrap.analysis.finding import CheckResult, Numbers
from nsyswrap.base.run_facts import INTERVAL_S, Gpu, GpuProcess
from nsyswrap.capture.capture import Capture

CLOCKS, THROTTLING, PROCESSES, LOAD = "GPU clocks", "GPU throttling", "other processes", "host load"
NUMA = "NUMA"
# If a GPU loses a third of its clock in 5 % of the time, a total grows by about 2 %.
THROTTLED_PERCENT = 5.0
# Of the median clock, between the 5th and the 95th percentile. A steady GPU changes by a step or two of
# 15 MHz, which is under 2 %; kernels bound by computing take longer by what the clock loses.
VARIED_PERCENT = 5.0
_MOSTLY_PERCENT = 50.0  # of the samples at the idle clock


def doubts(capture: Capture) -> list[tuple[CheckResult, int]]:
    """Return the first warning of each subject, with the number of other GPUs that it concerns."""
    conditions = run_conditions_of(capture)
    every = list(_doubts(conditions)) if conditions else []
    # Throttling explains the clocks of a GPU, and its line has their range.
    throttled = [doubt.numbers["gpu"] for doubt in every if doubt.subject == THROTTLING]
    every = [doubt for doubt in every if doubt.subject != CLOCKS or doubt.numbers["gpu"] not in throttled]
    counts = Counter(doubt.subject for doubt in every)
    first = {doubt.subject: doubt for doubt in reversed(every)}
    return [(first[subject], count - 1) for subject, count in counts.items()]


def check_run(capture: Capture) -> Iterator[CheckResult]:
    """Yield clocks, throttling and other processes of each GPU that worked, and the load of the host."""
    conditions = run_conditions_of(capture)
    if conditions is None:
        yield unknown(CLOCKS, "no_conditions")
        return
    yield from _doubts(conditions)
    if conditions.unknown:
        yield unknown(CLOCKS, "conditions_unknown", why=conditions.unknown)
    for gpu in conditions.gpus:
        if _is_mostly_idle(gpu):
            numbers: Numbers = {"gpu": gpu.gpu.index, "idle_percent": gpu.idle_percent}
            yield info(CLOCKS, "idle_clock", len(gpu.seconds), **numbers)
        yield from _sound(gpu)
    if conditions.facts.gpus and not list(_other_processes(conditions)):
        is_known = _are_known(_gpus(conditions))
        yield ok(PROCESSES, "no_other_process") if is_known else unknown(PROCESSES, "processes_unknown")
    # Compare the load before the run, which the program has no part in, with the cores of the machine.
    host = conditions.facts.host
    if host.load and host.machine_cores and host.load[0] >= host.machine_cores:
        yield info(LOAD, "host_load", 1, load=host.load[0], cores=host.machine_cores)


def _doubts(conditions: RunConditions) -> Iterator[CheckResult]:
    """Yield the warnings, in the order of the subjects."""
    yield from (doubt for gpu in conditions.gpus for doubt in _throttled(gpu))
    yield from (doubt for gpu in conditions.gpus for doubt in _varied(gpu))
    yield from _other_processes(conditions)
    yield from _far_from_cores(conditions)


def _throttled(gpu: WorkingGpu) -> Iterator[CheckResult]:
    if gpu.throttled and _is_throttled(gpu) and not is_at_full_clock(gpu):
        numbers: Numbers = {
            "gpu": gpu.gpu.index,
            "reasons": gpu.throttled,
            "throttled_percent": gpu.throttled_percent,
            "least_mhz": gpu.sm_mhz and gpu.sm_mhz.least,
            "most_mhz": gpu.sm_mhz and gpu.sm_mhz.most,
            "max_mhz": gpu.gpu.max_sm_mhz,
        }
        yield warning(THROTTLING, "throttled", gpu.count, **numbers)


def _is_throttled(gpu: WorkingGpu) -> bool:
    return gpu.throttled_percent is not None and gpu.throttled_percent >= THROTTLED_PERCENT


def is_at_full_clock(gpu: WorkingGpu) -> bool:
    """Return True if no sample is below the maximum SM clock: a GPU can report a reason and lose nothing."""
    most = gpu.gpu.max_sm_mhz
    return bool(most and gpu.sm_mhz and gpu.sm_mhz.least >= most)


def _varied(gpu: WorkingGpu) -> Iterator[CheckResult]:
    if gpu.sm_mhz and (range_percent := _range_percent(gpu.sm_mhz)) > VARIED_PERCENT:
        numbers: Numbers = {
            "low_mhz": gpu.sm_mhz.low,
            "high_mhz": gpu.sm_mhz.high,
            "range_percent": range_percent,
        }
        yield warning(CLOCKS, "clock_varied", gpu.count, gpu=gpu.gpu.index, **numbers)


def _range_percent(clock: Spread) -> float:
    return 100 * (clock.high - clock.low) / clock.median if clock.median else 0.0


def _far_from_cores(conditions: RunConditions) -> Iterator[CheckResult]:
    """Yield each GPU in a slot of another NUMA node than all cores that the program could use."""
    nodes = conditions.facts.host.numa_nodes
    for gpu in _gpus(conditions):
        if nodes and gpu.numa_node is not None and gpu.numa_node not in nodes:
            numbers: Numbers = {"gpu": gpu.index, "node": gpu.numa_node, "core_nodes": nodes}
            yield warning(NUMA, "far_from_cores", 1, **numbers)


def _other_processes(conditions: RunConditions) -> Iterator[CheckResult]:
    """Yield each GPU with processes of others."""
    for gpu in _gpus(conditions):
        others, unsure = _others(gpu), _unsure(gpu)
        if listed := others or unsure:
            numbers: Numbers = {"gpu": gpu.index, "processes": listed, "is_known": bool(others)}
            yield warning(PROCESSES, "other_processes", len(listed), **numbers)


def other_processes(conditions: RunConditions) -> int | None:
    """Return the number of processes outside of the run on its GPUs; None if it is not known."""
    gpus = _gpus(conditions)
    count = len({process.pid for gpu in gpus for process in _others(gpu)})
    return count or (0 if _are_known(gpus) else None)


def _gpus(conditions: RunConditions) -> list[Gpu]:
    """Return the GPUs that worked, or all of the run if it is not known which of them did."""
    return [one.gpu for one in conditions.gpus] or list(conditions.facts.gpus)


def _are_known(gpus: list[Gpu]) -> bool:
    """Return True if each GPU reported the program, and no process that is not visible from here."""
    kinds = [{process.in_run for process in gpu.processes} for gpu in gpus]
    return bool(kinds) and all(True in kind and None not in kind for kind in kinds)


def _others(gpu: Gpu) -> list[GpuProcess]:
    return [process for process in gpu.processes if process.in_run is False]


def _unsure(gpu: Gpu) -> list[GpuProcess]:
    """Return the processes that are not visible from here, and that began before the program."""
    return [process for process in gpu.processes if process.in_run is None and process.began_before]


def _is_mostly_idle(gpu: WorkingGpu) -> bool:
    return gpu.idle_percent is not None and gpu.idle_percent >= _MOSTLY_PERCENT


def _sound(gpu: WorkingGpu) -> Iterator[CheckResult]:
    """Yield a diagnosis for each check that found no problem, or that could not be made."""
    numbers: Numbers = {"gpu": gpu.gpu.index, "samples": gpu.count}
    if gpu.count < FEWEST_SAMPLES:
        if not _is_mostly_idle(gpu):
            every_ms = round(INTERVAL_S * 1000)
            yield unknown(CLOCKS, "few_samples", **numbers, every_ms=every_ms, fewest=FEWEST_SAMPLES)
        return
    if gpu.sm_mhz is None:
        yield unknown(CLOCKS, "no_clock", **numbers)
    elif _range_percent(gpu.sm_mhz) <= VARIED_PERCENT:
        clock = {"median_mhz": gpu.sm_mhz.median, "max_mhz": gpu.gpu.max_sm_mhz}
        yield ok(CLOCKS, "steady_clock", **numbers, **clock)
    if gpu.throttled_percent is None:
        yield unknown(THROTTLING, "no_throttling", **numbers)
    elif not _is_throttled(gpu):
        yield ok(THROTTLING, "seldom_throttled", **numbers, throttled_percent=gpu.throttled_percent)
    elif is_at_full_clock(gpu):
        yield ok(THROTTLING, "full_clock", **numbers)
