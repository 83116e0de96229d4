"""Check the conditions of the run: throttled GPUs, clocks that varied, and other users of the machine.

The samples of the run folder tell about a GPU only while the capture shows that it worked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from nsyswrap.analysis.conditions import FEWEST_SAMPLES, RunConditions, Spread, WorkingGpu, run_conditions_of
from nsyswrap.analysis.diagnostics.check import info, ok, unknown, warning
from nsyswrap.base.check import Check
from nsyswrap.base.run_facts import INTERVAL_S, Gpu, GpuProcess
from nsyswrap.base.text import printable, shorten, wrap
from nsyswrap.base.units import percent
from nsyswrap.capture.capture import Capture

CLOCKS, THROTTLING, PROCESSES, LOAD = "GPU clocks", "GPU throttling", "other processes", "host load"
NUMA = "NUMA"
# If a GPU loses a third of its clock in 5 % of the time, a total grows by about 2 %.
THROTTLED_PERCENT = 5.0
# Of the median clock, between the 5th and the 95th percentile. A steady GPU changes by a step or two of
# 15 MHz, which is under 2 %; kernels bound by computing take longer by what the clock loses.
VARIED_PERCENT = 5.0
_NOT_RECORDED = "clocks, throttling and other processes not recorded; record with `nsyswrap profile`"
_MOSTLY_PERCENT = 50.0  # of the samples at the idle clock
_NAME_WIDTH = 40
_MOST_NODES = 4
_LINE_WIDTH = 78  # of a doubt: the screen indents it by 2
_SAME_CLOCK = "compare with runs at the same clock, or lock a lower clock with `nvidia-smi -lgc`"
_SHARED = "it may have delayed the work of this program; run again on a GPU of your own"


class _Doubt(NamedTuple):
    """A warning about one GPU. ``number`` counts samples or processes, ``effect`` has the cure."""

    subject: str
    gpu: Gpu
    number: int
    finding: str
    effect: str


def doubts(capture: Capture) -> list[str]:
    """Return the lines of a sentence for each subject with warnings, with the number of other GPUs."""
    made = run_conditions_of(capture)
    every = list(_doubts(made)) if made else []
    # Throttling explains the clocks of a GPU, and its line has their range.
    throttled = [doubt.gpu for doubt in every if doubt.subject == THROTTLING]
    every = [doubt for doubt in every if doubt.subject != CLOCKS or doubt.gpu not in throttled]
    counts = Counter(doubt.subject for doubt in every)
    first = {doubt.subject: doubt.finding for doubt in reversed(every)}
    texts = [f"{first[name]}{_also(count - 1)}" for name, count in counts.items()]
    return [line for text in texts for line in wrap(text, _LINE_WIDTH, "  ")]


def check_run(capture: Capture) -> Iterator[Check]:
    """Yield clocks, throttling and other processes of each GPU that worked, and the load of the host."""
    made = run_conditions_of(capture)
    if made is None:
        yield unknown(CLOCKS, _NOT_RECORDED)
        return
    for doubt in _doubts(made):
        yield warning(doubt.subject, doubt.number, f"{doubt.finding}; {doubt.effect}")
    if made.unknown:
        yield unknown(CLOCKS, f"clocks and throttling unknown: {made.unknown}")
    for gpu in made.gpus:
        yield from _idle_clock(gpu)
        yield from _sound(gpu)
    if made.facts.gpus and not list(_other_processes(made)):
        yield _alone(made)
    yield from _load(made)


def _doubts(made: RunConditions) -> Iterator[_Doubt]:
    """Yield the warnings, in the order of the subjects."""
    yield from (doubt for gpu in made.gpus for doubt in _throttled(gpu))
    yield from (doubt for gpu in made.gpus for doubt in _varied(gpu))
    yield from _other_processes(made)
    yield from _far_from_cores(made)


def _throttled(gpu: WorkingGpu) -> Iterator[_Doubt]:
    if gpu.throttled and _is_throttled(gpu) and not is_at_full_clock(gpu):
        share = (
            f"throttled ({', '.join(gpu.throttled)}) in {percent(gpu.throttled_percent or 0.0)} of samples"
        )
        clock = f": SM clock {_between(gpu.sm_mhz.least, gpu.sm_mhz.most)}" if gpu.sm_mhz else ""
        effect = f"kernels may have been slower than at full clock{_maximum(gpu.gpu)}; {_SAME_CLOCK}"
        yield _Doubt(THROTTLING, gpu.gpu, gpu.count, f"{_name(gpu.gpu)} {share}{clock}", effect)


def _is_throttled(gpu: WorkingGpu) -> bool:
    return gpu.throttled_percent is not None and gpu.throttled_percent >= THROTTLED_PERCENT


def is_at_full_clock(gpu: WorkingGpu) -> bool:
    """Return True if no sample is below the maximum SM clock: a GPU can report a reason and lose nothing."""
    most = gpu.gpu.max_sm_mhz
    return bool(most and gpu.sm_mhz and gpu.sm_mhz.least >= most)


def _between(least: float, most: float) -> str:
    low, high = f"{least:.0f}", f"{most:.0f}"
    return f"{low} MHz" if low == high else f"{low} to {high} MHz"


def _varied(gpu: WorkingGpu) -> Iterator[_Doubt]:
    if gpu.sm_mhz and (range_percent := _range_percent(gpu.sm_mhz)) > VARIED_PERCENT:
        clock = f"from {gpu.sm_mhz.low:.0f} to {gpu.sm_mhz.high:.0f} MHz (5th to 95th percentile)"
        effect = f"equal kernels may differ by {range_percent:.0f} %; {_SAME_CLOCK}"
        yield _Doubt(CLOCKS, gpu.gpu, gpu.count, f"{_name(gpu.gpu)}: SM clock varied {clock}", effect)


def _range_percent(clock: Spread) -> float:
    return 100 * (clock.high - clock.low) / clock.median if clock.median else 0.0


def _far_from_cores(made: RunConditions) -> Iterator[_Doubt]:
    """Yield each GPU in a slot of another NUMA node than all cores that the program could use."""
    nodes = made.facts.host.numa_nodes
    for gpu in _gpus(made):
        if nodes and gpu.numa_node is not None and gpu.numa_node not in nodes:
            listed = f"node{'' if len(nodes) == 1 else 's'} {', '.join(map(str, nodes[:_MOST_NODES]))}"
            finding = f"{_name(gpu)} is on NUMA node {gpu.numa_node}, the cores of the program on {listed}"
            bind = f"numactl --cpunodebind={gpu.numa_node} --membind={gpu.numa_node}"
            yield _Doubt(NUMA, gpu, 1, finding, f"copies and launches take longer; run it with {bind}")


def _other_processes(made: RunConditions) -> Iterator[_Doubt]:
    """Yield each GPU with processes of others."""
    for gpu in _gpus(made):
        others, unsure = _others(gpu), _unsure(gpu)
        if listed := others or unsure:
            doubt = "" if others else "possibly "
            several = "another process" if len(listed) == 1 else f"{len(listed)} other processes"
            finding = f"{doubt}{several} on {_name(gpu)}: {_processes(listed)}"
            yield _Doubt(PROCESSES, gpu, len(listed), finding, _SHARED)


def other_processes(made: RunConditions) -> int | None:
    """Return the number of processes outside of the run on its GPUs; None if it is not known."""
    gpus = _gpus(made)
    count = len({process.pid for gpu in gpus for process in _others(gpu)})
    return count or (0 if _are_known(gpus) else None)


def _gpus(made: RunConditions) -> list[Gpu]:
    """Return the GPUs that worked, or all of the run if it is not known which of them did."""
    return [one.gpu for one in made.gpus] or list(made.facts.gpus)


def _are_known(gpus: list[Gpu]) -> bool:
    """Return True if each GPU reported the program, and no process that is not visible from here."""
    kinds = [{process.in_run for process in gpu.processes} for gpu in gpus]
    return bool(kinds) and all(True in kind and None not in kind for kind in kinds)


def _others(gpu: Gpu) -> list[GpuProcess]:
    return [process for process in gpu.processes if process.in_run is False]


def _unsure(gpu: Gpu) -> list[GpuProcess]:
    """Return the processes that are not visible from here, and that began before the program."""
    return [process for process in gpu.processes if process.in_run is None and process.began_before]


def _processes(listed: list[GpuProcess]) -> str:
    first = listed[0]
    name = f"{shorten(printable(first.name), _NAME_WIDTH)}, " if first.name else ""
    more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
    return f"{name}pid {first.pid}{more}"


def _idle_clock(gpu: WorkingGpu) -> Iterator[Check]:
    if _is_mostly_idle(gpu):
        share = f"its idle clock in {percent(gpu.idle_percent or 0.0)} of the samples around its work"
        finding = f"{_name(gpu.gpu)} had {share}: kernels may begin at a low clock"
        yield info(CLOCKS, len(gpu.seconds), finding)


def _is_mostly_idle(gpu: WorkingGpu) -> bool:
    return gpu.idle_percent is not None and gpu.idle_percent >= _MOSTLY_PERCENT


def _sound(gpu: WorkingGpu) -> Iterator[Check]:
    """Yield a diagnosis for each check that found no problem, or that could not be made."""
    name, samples = _name(gpu.gpu), f"{gpu.count:,} sample{'' if gpu.count == 1 else 's'}"
    if gpu.count < FEWEST_SAMPLES:
        rule = f"one every {INTERVAL_S * 1000:.0f} ms: too few to judge its clock"
        few = unknown(CLOCKS, f"{samples} while {name} worked, {rule} (at least {FEWEST_SAMPLES})")
        yield from () if _is_mostly_idle(gpu) else (few,)
        return
    if gpu.sm_mhz is None:
        yield unknown(CLOCKS, f"{name} did not report its SM clock")
    elif _range_percent(gpu.sm_mhz) <= VARIED_PERCENT:
        steady = f"{gpu.sm_mhz.median:.0f} MHz{_maximum(gpu.gpu)}, median of {samples}"
        yield ok(CLOCKS, f"{name}: steady SM clock of {steady}")
    if gpu.throttled_percent is None:
        yield unknown(THROTTLING, f"{name} did not report why its clock was reduced")
    elif not _is_throttled(gpu):
        yield ok(THROTTLING, f"{name}: throttled in {percent(gpu.throttled_percent)} of {samples}")
    elif is_at_full_clock(gpu):
        yield ok(THROTTLING, f"{name}: SM clock at its maximum in each of {samples}")


def _alone(made: RunConditions) -> Check:
    if _are_known(_gpus(made)):
        return ok(PROCESSES, "no other process found on the GPUs of the run")
    return unknown(PROCESSES, "the processes on the GPUs of the run are not known")


def _load(made: RunConditions) -> Iterator[Check]:
    """Compare the load before the run, which the program has no part in, with the cores of the machine."""
    host = made.facts.host
    if host.load and host.machine_cores and host.load[0] >= host.machine_cores:
        load = f"load of {host.load[0]:.1f} before the run on {host.machine_cores} cores"
        effect = "unless an earlier run caused it, other programs may have delayed the host"
        yield info(LOAD, 1, f"{load}: {effect}")


def _name(gpu: Gpu) -> str:
    """Return the GPU with the number that nvidia-smi gives it."""
    return f"GPU {gpu.index}"


def _maximum(gpu: Gpu) -> str:
    return f" (maximum {gpu.max_sm_mhz})" if gpu.max_sm_mhz else ""


def _also(others: int) -> str:
    return f"; also on {others} other GPU{'' if others == 1 else 's'}" if others else ""
