"""What must be equal for a comparison, and the conditions of the run, from run.json and the capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nsyswrap.analysis.compare.model import Setup
from nsyswrap.analysis.conditions import RunConditions, WorkingGpu, plain_uuid, run_conditions_of
from nsyswrap.analysis.diagnostics.run_checks import is_at_full_clock, other_processes
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, gpu_operations_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.info import Info
from nsyswrap.capture.selection import machine_ids, process_ids
from nsyswrap.capture.stream import one_of

with lazy_imports():
    from nsyswrap.capture import shared

_REDACTED = "redacted"  # what `nsyswrap redact` writes in place of a secret
_MS_PER_S = 1000


def setup_of(capture: Capture, run: Mapping[str, Any]) -> Setup:
    """Return the setup of a run. ``run`` is the content of run.json, empty for a capture without one."""
    info, conditions = capture.info, run_conditions_of(capture)
    facts = conditions.facts if conditions else None
    git = facts.git if facts else None
    return Setup(
        gpus=_gpus(capture, conditions),
        driver=_known(info.driver_version or str(run.get("driver", ""))),
        nsys=str(run.get("nsys", {}).get("version", "")) or info.exporter_version,
        options=_options(info, run.get("nsys", {})),
        graphs=_graphs(capture, run.get("nsys", {})),
        command=_command(tuple(run.get("command", ())) or info.command, capture),
        lost_events=sum(message.loss for message in capture.diagnostics),
        started=_known(str(run.get("started", "")) or info.started_utc),
        node=_known((facts.host.node if facts else "") or str(run.get("host", ""))),
        commit=git.label if git else "",
        versions=dict(facts.versions) if facts else {},
        **(_conditions(conditions) if conditions else {}),
    )


def _known(text: str) -> str:
    """Return a text, or none if it was redacted."""
    return "" if _REDACTED in text else text


def _command(command: tuple[str, ...], capture: Capture) -> tuple[str, ...]:
    if any(_REDACTED in argument for argument in command):
        return ()
    return shared.shared_command(command) if capture.view.shared else command


def _gpus(capture: Capture, conditions: RunConditions | None) -> tuple[str, ...]:
    """Return the name of each GPU that worked; empty if the names are not known."""
    if conditions and conditions.gpus:
        return tuple(sorted(gpu.gpu.name for gpu in conditions.gpus if gpu.gpu.name))
    names = set(capture.info.gpus)
    if len(names) != 1:  # a device id does not tell which GPU it is: CUDA_VISIBLE_DEVICES renumbers them
        return ()
    return tuple(names) * len({uuid or place for place, uuid in _used(capture)})


def used_uuids(capture: Capture) -> tuple[str, ...]:
    """Return the UUID of each GPU that worked, in order; empty if one is not known or was redacted."""
    uuids = {uuid for _, uuid in _used(capture)}
    known = all(map(plain_uuid, uuids))
    return tuple(sorted(u if u.startswith(("GPU-", "MIG-")) else f"GPU-{u}" for u in uuids)) if known else ()


def _used(capture: Capture) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield machine and device number of each GPU that worked, and its UUID or an empty text."""
    for process, device, _ in gpu_operations_of(capture).by_device():
        pid, machine = (int(ids(np.array([process]))[0]) for ids in (process_ids, machine_ids))
        yield (machine, device), capture.gpu_uuids.get((pid, device), "")


def _options(info: Info, nsys: Mapping[str, Any]) -> str:
    """Return the options that decide what is recorded, as nsys writes them; empty if they are not known.

    An export tells only some of them.
    """
    trace = sorted(filter(None, str(nsys.get("trace", "")).split(","))) or list(info.trace)
    if not trace:
        return ""
    delay_s = nsys["delay"] if "delay" in nsys else (info.delay_ms or 0) / _MS_PER_S
    options = {
        "--cuda-um-page-faults": nsys.get("um_faults", info.um_faults),
        "--trace-fork-before-exec": nsys.get("follow_forks", info.forks_followed),
        "--capture-range": nsys.get("capture_range"),
        "--delay": f"{delay_s:g}" if delay_s else None,
        "--duration": nsys.get("duration"),
    }
    words = [f"{name}={'true' if value is True else value}" for name, value in options.items() if value]
    return " ".join([f"--trace={','.join(trace)}", *words, *nsys.get("extra", ())])


def _graphs(capture: Capture, nsys: Mapping[str, Any]) -> str:
    """Return how CUDA graphs were recorded: what the events tell, or the option."""
    whole = capture.whole
    if whole.has(GRAPH):
        return "graph"
    if whole.has(KERNEL):
        nodes = whole.columns(KERNEL, "graph_node_id")["graph_node_id"]
        if not one_of(nodes, (MISSING, 0)).all():
            return "node"
    return capture.info.graphs or str(nsys.get("graphs") or "")


def _conditions(conditions: RunConditions) -> dict[str, Any]:
    """Return the lowest clock and the strongest throttling of the GPUs; None if one of them is not known."""
    clocks = [gpu.sm_mhz.median for gpu in conditions.gpus if gpu.sm_mhz]
    shares = [_throttled_percent(gpu) for gpu in conditions.gpus]
    known = [share for share in shares if share is not None]
    every = bool(known) and len(known) == len(shares)
    worst = conditions.gpus[shares.index(max(known))] if every else None
    return {
        "other_processes": other_processes(conditions),
        "throttled_percent": max(known) if every else None,
        "throttle_reason": next(iter(worst.throttled or ()), "") if worst and max(known) else "",
        "sm_clock_mhz": min(clocks) if clocks and len(clocks) == len(conditions.gpus) else None,
    }


def _throttled_percent(gpu: WorkingGpu) -> float | None:
    """Return the share of samples with a reason; 0.0 if the GPU ran at its full clock all the same."""
    return 0.0 if gpu.throttled_percent is not None and is_at_full_clock(gpu) else gpu.throttled_percent
