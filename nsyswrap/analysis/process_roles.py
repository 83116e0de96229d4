"""Tell the processes of a program apart by what they do: a parent that coordinates, workers, loaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.arrays.spans import Spans, tree
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.nvtx_ranges import closed_ranges, range_labels
from nsyswrap.analysis.steps.repeated_range import family, of_the_program
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import PROCESS_MASK
from nsyswrap.capture.selection import process_ids

_MAIN = 0.1  # of the time in ranges: one with more tells what a process does


@dataclass(frozen=True)
class ProcessRole:
    """Processes that do the same: their ids, their name, and the sums of their times in ns.

    ``name`` is empty if it is not known, or if they have several. ``gpu_ns`` is the time of their GPU
    operations. ``ranges_ns`` has their outermost NVTX ranges, the longest first, with a star for each number
    in a name.
    """

    process_ids: tuple[int, ...]
    name: str
    gpu_ns: int
    ranges_ns: Mapping[str, int]


def process_roles(whole: Capture) -> tuple[ProcessRole, ...]:
    """Return the roles of the processes with NVTX ranges or GPU work, that of the first process first.

    It is empty without ranges, if there is one process only, or if all do the same: GPU work or none, and the
    same main ranges.
    """
    if not whole.has("nvtx"):
        return ()
    rows, spans = closed_ranges(whole)
    operations = gpu_operations_of(whole)
    gpu_ns: dict[int, int] = {}
    for (process, _), mine in operations.rows_of.items():
        gpu_ns[process] = gpu_ns.get(process, 0) + int(
            (operations.end_ns[mine] - operations.start_ns[mine]).sum()
        )
    gpu_ns.pop(MISSING, None)
    if len({*gpu_ns, *distinct(spans.thread & PROCESS_MASK)[0].tolist()}) < 2:  # noqa: PLR2004 - one is alone
        return ()
    ranges_ns = _ranges(whole, rows, spans)
    roles: dict[object, list[int]] = {}
    for process in sorted({*gpu_ns, *ranges_ns}):
        times = ranges_ns.get(process, {})
        main = frozenset(name for name, ns in times.items() if ns >= _MAIN * sum(times.values()))
        roles.setdefault((process in gpu_ns, main), []).append(process)
    return tuple(_role(whole, mine, gpu_ns, ranges_ns) for mine in roles.values()) if len(roles) > 1 else ()


def _ranges(whole: Capture, rows: NDArray[Any], spans: Spans) -> dict[int, dict[str, int]]:
    """Return the time of the outermost ranges of the program by process and name, without ranges of 0 ns."""
    names, texts = range_labels(whole, rows)
    kept = of_the_program(whole, rows, names, texts) & (tree(spans).depth <= 0)
    code, (process, name) = group_keys((spans.thread & PROCESS_MASK)[kept], names[kept])
    sums = np.bincount(code, (spans.end - spans.start)[kept], len(process))
    found: dict[int, dict[str, int]] = {}
    for row in np.flatnonzero(sums).tolist():
        times, text = found.setdefault(int(process[row]), {}), family(texts[name[row]] or "(no name)")
        times[text] = times.get(text, 0) + int(sums[row])
    return found


def _role(
    whole: Capture,
    processes: list[int],
    gpu_ns: Mapping[int, int],
    ranges_ns: Mapping[int, Mapping[str, int]],
) -> ProcessRole:
    times: dict[str, int] = {}
    for process in processes:
        for name, ns in ranges_ns.get(process, {}).items():
            times[name] = times.get(name, 0) + ns
    names = {whole.process_names[process] for process in processes if process in whole.process_names}
    return ProcessRole(
        tuple(process_ids(np.array(processes)).tolist()),
        names.pop() if len(names) == 1 else "",  # nsys does not know the name of each
        sum(gpu_ns.get(process, 0) for process in processes),
        dict(sorted(times.items(), key=lambda item: (-item[1], item[0]))),
    )
