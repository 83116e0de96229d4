"""Answer how busy the GPU was in the part that counts, why it was idle, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from nsyswrap.analysis.advice import Advice, advice_of
from nsyswrap.analysis.advice.measurement import began_before, is_cut_at_its_end, lacks_kernels
from nsyswrap.analysis.arrays.groups import median
from nsyswrap.analysis.energy import Energy, energy_of
from nsyswrap.analysis.finding import Finding, FindingKind, Note
from nsyswrap.analysis.gpu_operations import gpu_operations_of, owners_of_gpus
from nsyswrap.analysis.judged_process import (
    JudgedProcess,
    judged_processes,
    main_process,
    steady_process,
    whole_processes,
)
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.nvtx_ranges import xla_broke_import
from nsyswrap.analysis.step_budget import BUSY, IDLE, TimeBreakdown, shared_budget
from nsyswrap.analysis.steps import Steps, loading, parse_choice
from nsyswrap.analysis.steps.occurrences import LoopLabel
from nsyswrap.analysis.utilization import Utilization, utilization_of
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.per_capture import per_capture

_EARLY_PERCENT = 5.0  # of the operations that begin before their launch call: the clocks are damaged
KERNELS_MISSING: FindingKind = "kernels_missing"
_MOST_STATES = 2  # that filled an outlier


@dataclass(frozen=True)
class Outlier:
    """An unusually long step: its number, its duration, and the states with most extra time in ns.

    ``usual_ns`` is the duration of a typical step, or of one near it if steps grow or shrink all the time.
    The extra time is that beyond such a step, on the first device.
    """

    number: int
    duration_ns: int
    usual_ns: float
    filled_ns: Mapping[str, int]


@dataclass(frozen=True)
class JudgedSteps:
    """The steady steps of one process; times in ns.

    ``label`` says what repeats. ``first`` and ``last`` are step numbers, from 0 over the whole program;
    ``total`` counts all steps. ``mean_ns`` and ``median_ns`` are of their durations. ``warm_up`` counts the
    leading steps that are left out as warm-up; 0 if ``chosen``: then the user named the steps by number.
    ``gpu_percent`` is the share of the process' GPU time, summed over its operations, that lies in them.
    """

    label: LoopLabel
    count: int
    first: int
    last: int
    warm_up: int
    total: int
    mean_ns: float
    median_ns: float
    outliers: tuple[Outlier, ...]
    chosen: bool = False
    gpu_percent: float = 100.0


@dataclass(frozen=True)
class OtherLoop:
    """A loop of the program beside the one that is judged: label, number of steps, and their mean in ns.

    ``busy_percent`` is the part of these steps in which a GPU worked for the process, ``gpu_percent`` the
    part of the process' GPU time that begins in them. ``before``: it begins before the steps that are judged.
    """

    label: LoopLabel
    count: int
    mean_ns: float
    busy_percent: float
    gpu_percent: float
    before: bool = False


@dataclass(frozen=True)
class StartUp:
    """The time before the first loop, and the time in it for loading modules and compiling, in ns."""

    duration_ns: int
    loading_ns: int


@dataclass(frozen=True)
class DeviceTime:
    """What one device did in the judged part for one process, or for all that share it; times in ns.

    ``busy_ns`` is by state of a busy GPU, ``idle_ns`` by cause; all add up to ``window_ns``. Only states and
    causes with time are in it. ``process_id`` is MISSING if the export lacks it. ``shared_with`` has the
    other processes.
    """

    process_id: int
    device_id: int
    window_ns: int
    busy_ns: Mapping[str, int]
    idle_ns: Mapping[str, int]
    shared_with: tuple[int, ...] = ()


@dataclass(frozen=True)
class RankShare:
    """What one rank of a job did in its judged part; times in ns, summed over its devices.

    ``exposed_ns`` is the time in communication kernels without own work on that GPU. ``blocking_ns`` is the
    part of it in which launched work waited for them, ``waiting_ns`` that in which the rank waited for other
    ranks in matched collectives; None if unknown. It may have waited in ``unmatched_ns``, other communication
    that is exposed, too. A rank without GPU work has a window of 0. ``last`` counts the ``collectives`` in
    which the rank arrived last. ``cost_percent`` has the findings on this rank, with the share of its time
    that each is about.
    """

    label: str
    window_ns: int
    busy_ns: int
    exposed_ns: int
    blocking_ns: int | None
    waiting_ns: int | None
    unmatched_ns: int
    last: int
    collectives: int
    cost_percent: Mapping[str, float]


@dataclass(frozen=True)
class Answer:
    """How busy the GPU was, why it was idle, and what to do.

    ``scope`` is "steady part", "whole capture" or "selected part", of ranks that differ in it "judged part";
    ``why_whole`` says why there is no steady part. ``steps``, ``start_up`` and ``other_loops`` are of the
    process with the most GPU work; the start-up ends with the warm-up steps if no other loop is before them.
    ``withheld`` says why there is no verdict: then ``findings`` is empty. ``facts`` name no cost.
    ``utilization`` is None where no shapes were recorded, ``energy`` where too little was sampled.
    ``remarks`` are on the steps of each process; ``notes`` are what else readers must know, and what could
    not be looked at. ``ranks`` is empty unless several ranks of a job are judged together.
    """

    scope: str
    why_whole: Note | None
    steps: JudgedSteps | None
    start_up: StartUp | None
    devices: tuple[DeviceTime, ...]
    findings: tuple[Finding, ...]
    withheld: Finding | None
    remarks: tuple[tuple[Note, ...], ...]
    notes: tuple[Finding, ...]
    other_loops: tuple[OtherLoop, ...] = ()
    facts: tuple[Finding, ...] = ()
    utilization: Utilization | None = None
    ranks: tuple[RankShare, ...] = ()
    energy: Energy | None = None

    @property
    def lacks_kernels(self) -> bool:
        """True if the copies that were recorded say nothing of how busy the GPU was."""
        return self.withheld is not None and self.withheld.kind == KERNELS_MISSING

    @property
    def window_ns(self) -> int:
        """The time judged, summed over devices and processes."""
        return sum(device.window_ns for device in self.devices)

    @property
    def busy_ns(self) -> Mapping[str, int]:
        """The busy time by state, summed over devices and processes, the longest first."""
        return _added([device.busy_ns for device in self.devices])

    @property
    def idle_ns(self) -> Mapping[str, int]:
        """The idle time by cause, summed over devices and processes, the longest first."""
        return _added([device.idle_ns for device in self.devices])

    def share(self, ns: float) -> float:
        """Return a time as a percentage of the time judged."""
        return 100.0 * ns / max(self.window_ns, 1)


@per_capture
def answer_of(capture: Capture) -> Answer:
    """Return the answer for the selected part of a capture.

    ``devices`` is empty if no GPU work is there, or if the kernels were not recorded.
    """
    withheld = withheld_because(capture)
    lacks_work = withheld is not None and withheld.kind == KERNELS_MISSING
    processes = [] if lacks_work else judged_processes(capture)
    advice = Advice([], [], []) if withheld or not processes else advice_of(capture)
    main = main_process(processes)
    devices = tuple(device_times(capture.whole, processes))
    steady = main is not None and main.steps.has_steady
    whole = "selected part" if capture.view.selection.windowed else "whole capture"
    chosen = parse_choice(capture.view.steps)[1] is not None
    return Answer(
        scope="steady part" if steady else whole,
        why_whole=main.steps.why_none if main is not None else None,
        steps=_judged_steps(capture.whole, main, chosen=chosen) if main is not None and steady else None,
        start_up=_start_up(capture, main) if main is not None and steady and not chosen else None,
        devices=devices,
        findings=tuple(advice.findings),
        withheld=withheld,
        remarks=tuple(process.steps.remarks for process in processes),
        notes=tuple(advice.notes),
        other_loops=_other_loops(capture.whole, main.steps)
        if main is not None and steady and not chosen
        else (),
        facts=tuple(advice.facts),
        utilization=None if withheld else utilization_of(processes, sum(one.window_ns for one in devices)),
        energy=energy_of(capture, main) if main is not None else None,
    )


def whole_answer(capture: Capture) -> Answer:
    """Return how busy the GPU was in all of a capture, its start-up included, without what to do about it."""
    devices = tuple(device_times(capture.whole, whole_processes(capture)))
    return Answer("whole capture", None, None, None, devices, (), None, (), ())


def device_times(whole: Capture, processes: Sequence[JudgedProcess]) -> Iterator[DeviceTime]:
    """Yield what each GPU did for these processes; that of processes that share one together."""
    owned = {(b.global_pid, b.device_id): (process, b) for process in processes for b in process.budgets}
    for pair, (process, budget) in owned.items():
        sharing = [owned[other] for other in owners_of_gpus(whole)[pair] if other in owned]
        if len(sharing) == 1:
            yield _device((process.process_id,), budget)
        elif sharing[0][1] is budget:
            together = shared_budget([(one.view, budget) for one, budget in sharing])
            yield _device(tuple(one.process_id for one, _ in sharing), together)


def _device(processes: tuple[int, ...], budget: TimeBreakdown) -> DeviceTime:
    busy = {state: int(budget.state_ns[state].sum()) for state in BUSY}
    idle = {cause: int(budget.state_ns[f"idle_{cause}"].sum()) for cause in IDLE}
    return DeviceTime(
        processes[0],
        budget.device_id,
        int(budget.duration_ns.sum()),
        {state: ns for state, ns in busy.items() if ns},
        {cause: ns for cause, ns in idle.items() if ns},
        processes[1:],
    )


def _added(times: Sequence[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in times:
        for name, ns in part.items():
            sums[name] = sums.get(name, 0) + ns
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def judged_steps(capture: Capture) -> JudgedSteps | None:
    """Return the steps that the answer of a capture is about, without the rest of it; None without steps."""
    main = steady_process(capture)
    chosen = parse_choice(capture.view.steps)[1] is not None
    return _judged_steps(capture.whole, main, chosen=chosen) if main else None


def _judged_steps(whole: Capture, process: JudgedProcess, *, chosen: bool) -> JudgedSteps:
    steps, durations = process.steps, process.steps.duration_ns
    numbers = np.flatnonzero(steps.steady)
    return JudgedSteps(
        label=steps.label,
        count=len(numbers),
        first=int(numbers[0]) + steps.first,
        last=int(numbers[-1]) + steps.first,
        warm_up=steps.warm_up,
        total=len(steps),
        mean_ns=float(durations[numbers].mean()),
        median_ns=median(durations[numbers]),
        outliers=tuple(_outlier(process, int(number)) for number in np.flatnonzero(steps.outlier)),
        chosen=chosen,
        gpu_percent=100.0
        * _gpu_ns(process.view, steps.global_pid)
        / max(_gpu_ns(whole, steps.global_pid), 1),
    )


def _gpu_ns(view: Capture, process: int) -> int:
    operations = gpu_operations_of(view)
    rows = [rows for (owner, _), rows in operations.rows_of.items() if owner == process]
    duration_ns = np.maximum(operations.end_ns - operations.start_ns, 0)  # of damaged times
    return sum(int(duration_ns[mine].sum()) for mine in rows)


def _other_loops(whole: Capture, steps: Steps) -> tuple[OtherLoop, ...]:
    """Return the loops beside the one that is judged, in order of time."""
    if not steps.others:
        return ()
    operations = gpu_operations_of(whole)
    rows = np.concatenate(
        [mine for (owner, _), mine in operations.rows_of.items() if owner == steps.global_pid]
    )
    start, end = operations.start_ns[rows], operations.end_ns[rows]
    busy, total = union(start, end), max(int((end - start).sum()), 1)
    loops = []
    for other in sorted(steps.others, key=lambda one: int(one.start_ns[0])):
        total_ns = max(int(other.duration_ns.sum()), 1)
        at = np.searchsorted(other.start_ns, start, "right") - 1
        inside = (at >= 0) & (start < other.end_ns[at])
        loops.append(
            OtherLoop(
                other.label,
                len(other),
                total_ns / len(other),
                100.0 * int(busy.within(other.start_ns, other.end_ns).sum()) / total_ns,
                100.0 * int((end - start)[inside].sum()) / total,
                bool(other.start_ns[0] < steps.start_ns[0]),
            )
        )
    return tuple(loops)


def _outlier(process: JudgedProcess, number: int) -> Outlier:
    """Return an outlier with the states that exceed those of the typical step most, on the first device."""
    steps, first = process.steps, process.budgets[0]
    numbers = np.flatnonzero(steps.steady)
    index, (usual_ns, near) = number - int(numbers[0]), steps.typical_for(number)
    usual = (near & ~steps.outlier)[steps.steady]
    more = {state: int(times[index] - np.median(times[usual])) for state, times in first.state_ns.items()}
    largest = sorted(more, key=lambda state: -more[state])[:_MOST_STATES]
    filled = {state: more[state] for state in largest if more[state] > 0}
    return Outlier(number + steps.first, int(steps.duration_ns[number]), usual_ns, filled)


def _start_up(capture: Capture, process: JudgedProcess) -> StartUp:
    if process.steps.first or began_before(capture.whole):  # the start-up was not recorded
        return StartUp(0, 0)
    first = int(process.steps.start_ns[process.steps.warm_up])  # also if a break parts it from what is judged
    starts = [first, *(int(other.start_ns[0]) for other in process.steps.others)]
    end = max(min(starts), 0)  # times count from the beginning of the recording on
    loads = loading(capture.whole, process.steps.global_pid).within(np.array([0]), np.array([end]))
    return StartUp(end, int(loads[0]))


def withheld_because(capture: Capture) -> Finding | None:
    """Return why no verdict can be given: events are missing, or times contradict each other."""
    losses = [diagnostic.text for diagnostic in capture.diagnostics if diagnostic.loss]
    operations = gpu_operations_of(capture.whole)
    if (losses or len(operations)) and lacks_kernels(capture.whole):
        return Finding.doubt(KERNELS_MISSING, "diagnostics", began_before=began_before(capture.whole))
    if losses and not is_cut_at_its_end(capture.whole, losses):
        losses.sort(key=lambda text: "CUDA" not in text)
        return Finding.doubt(
            "events_missing", "diagnostics", loss=losses[0], xla_broke_import=xla_broke_import(capture)
        )
    if backwards := np.count_nonzero(operations.end_ns < operations.start_ns):
        numbers = {"backwards": int(backwards), "operations": len(operations)}
        return Finding.doubt("operations_end_early", "cuda_gpu_trace", **numbers)
    launches = launches_of(capture.whole)
    if not len(launches):
        return None
    early = launches.latency_ns[launches.latency_ns < 0]
    share = 100.0 * len(early) / len(launches)
    if share < _EARLY_PERCENT or -np.median(early) < np.median(launches.api_ns):
        return None
    times = {"early_percent": share, "median_early_ns": -float(np.median(early))}
    return Finding.doubt("clocks_disagree", "cuda_kern_exec_trace", **times)
