"""Compute what each launch cost: one entry per API call that launched kernels or a CUDA graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet
from nsyswrap.analysis.arrays.groups import distinct, group_keys, number_texts, numbered
from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    GRAPH_NAME,
    KERNEL,
    KINDS,
    GpuOperations,
    gpu_operations_of,
    positions_of,
    previous_ends,
)
from nsyswrap.analysis.gpu_operations import READS as OPERATION_READS
from nsyswrap.analysis.names import name_codes
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.export import EXACT
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NAMED, SPANS
from nsyswrap.capture.selection import select
from nsyswrap.capture.stream import looked_up, narrow, one_of

# The fields that launches and the gaps between operations are computed from, by kind of event.
READS = {
    "kernel": (*OPERATION_READS["kernel"], "name", "graph_node_id"),
    "memcpy": (*OPERATION_READS["memcpy"], "graph_node_id"),
    "memset": (*OPERATION_READS["memset"], "graph_node_id"),
    "graph": (*OPERATION_READS["graph"], "graph_exec_id"),
    "api": (*OPERATION_READS["api"], *NAMED),
    "overhead": (*SPANS, "global_tid"),
}
_GRAPH_SHIFT = 32  # the upper half of a node's id is the id of its graph


@dataclass(frozen=True, eq=False)
class Launches(ColumnSet):
    """One entry per launch, by the start of its call; times in ns.

    - ``call``: position of the outermost call among the whole capture's API calls
    - ``operation``: position of its first operation in ``gpu_operations_of(capture.whole)``
    - ``name``: number of the text in ``names``: the kernel's name, or GRAPH_NAME for any graph launch
    - ``first``: marks the first launch of each kernel (by full name) and graph in its process
    - ``narrow_...``: ``api_ns``, ``latency_ns`` and ``gpu_ns`` in four bytes each where they fit
    - ``operations``: number of all operations it launched
    - ``previous_end_ns``: latest end of the earlier operations in the stream; MISSING without any
    """

    call: NDArray[Any]
    operation: NDArray[Any]
    name: NDArray[Any]
    names: list[str | None]
    first: NDArray[Any]
    start_ns: NDArray[Any]
    narrow_api_ns: NDArray[Any]
    narrow_latency_ns: NDArray[Any]
    narrow_gpu_ns: NDArray[Any]
    operations: NDArray[Any]
    previous_end_ns: NDArray[Any]

    @property
    def api_ns(self) -> NDArray[Any]:
        """CPU time in each call."""
        return self.narrow_api_ns.astype(np.int64)

    @property
    def latency_ns(self) -> NDArray[Any]:
        """Time from the start of each call to its first operation; negative if the clocks disagree."""
        return self.narrow_latency_ns.astype(np.int64)

    @property
    def gpu_ns(self) -> NDArray[Any]:
        """Sum of the durations of all operations that each call launched."""
        return self.narrow_gpu_ns.astype(np.int64)

    @property
    def end_ns(self) -> NDArray[Any]:
        """The end of each call."""
        return self.start_ns + self.narrow_api_ns  # type: ignore[no-any-return]

    @property
    def gpu_start_ns(self) -> NDArray[Any]:
        """The start of each first operation."""
        return self.start_ns + self.narrow_latency_ns  # type: ignore[no-any-return]

    @property
    def of_graph(self) -> NDArray[Any]:
        """Mark the launches of a CUDA graph."""
        return self.name == (self.names.index(GRAPH_NAME) if GRAPH_NAME in self.names else MISSING)  # type: ignore[no-any-return]

    @property
    def uncontended(self) -> NDArray[Any]:
        """Mark launches whose stream was idle at the start of the call."""
        # MISSING is less than every time.
        return self.previous_end_ns <= self.start_ns

    @property
    def dependency_ns(self) -> NDArray[Any]:
        """Time from the return of each call until earlier operations of the stream were over."""
        waited = np.minimum(self.previous_end_ns, self.gpu_start_ns) - self.end_ns
        return np.where(self.previous_end_ns == MISSING, 0, np.maximum(waited, 0))

    @property
    def queue_ns(self) -> NDArray[Any]:
        """Queue time: from the end of the call and of earlier operations to the first operation's start."""
        ready = np.maximum(self.end_ns, self.previous_end_ns)
        return np.maximum(self.gpu_start_ns - ready, 0)  # type: ignore[no-any-return]


@per_capture
def launches_of(capture: Capture) -> Launches:
    """Return the launches whose call and first operation are selected, with times that are never clipped.

    ``first`` and ``previous_end_ns`` are those in the whole capture.
    """
    if not capture.view.selection.narrows:
        return _all_launches(capture)
    every = launches_of(capture.whole)
    return every.of(_selected(capture, every)) if len(every) else every


def _selected(capture: Capture, every: Launches) -> NDArray[Any]:
    operations = np.zeros(len(gpu_operations_of(capture.whole)), dtype=bool)
    operations[positions_of(capture)] = True
    rows = np.flatnonzero(operations[every.operation]).astype(np.int32)
    return rows.compress(calls_selected(capture, looked_up(every.call, rows)))


def calls_selected(capture: Capture, calls: NDArray[Any]) -> NDArray[Any]:
    """Mark those of the API calls at these positions in the whole capture that are selected."""
    selection = capture.view.selection
    if selection.nvtx:  # which select threads: all calls have to be looked at together
        every = np.zeros(capture.whole.count("api"), dtype=bool)
        every[capture.columns("api", "row")["row"] - 1] = True
        marks: NDArray[Any] = every[calls]
        return marks
    fields = ("global_tid", *(SPANS if selection.windowed else ()))
    events = capture.whole.columns("api", *fields)
    return select({field: values[calls] for field, values in events.items()}, selection, capture.window)


def _all_launches(capture: Capture) -> Launches:
    operations = gpu_operations_of(capture)
    graphs = graphs_of(capture, operations)
    launching = (operations.kind == KINDS.index(KERNEL)) | (graphs != MISSING)
    rows = np.flatnonzero(launching & (operations.call >= 0)).astype(np.int32)
    calls, codes = numbered(operations.call.take(rows))
    calls, codes = calls.astype(np.int32), codes.astype(np.int32, copy=False)
    operation = np.empty(len(calls), np.int32)
    operation[codes[::-1]] = rows[::-1]  # rows are in order of start: the first one stays
    gpu_ns = narrow(_sums(codes, (operations.end_ns - operations.start_ns).take(rows), len(calls)))
    count = np.bincount(codes, minlength=len(calls)).astype(np.int32)
    del launching, rows, codes  # what follows needs the memory
    span = capture.columns("api", "start_ns", "end_ns") if len(calls) else {}
    start, end = (span[field].take(calls) if len(calls) else calls for field in ("start_ns", "end_ns"))
    api_ns = narrow(end - start)
    del end
    graphs = graphs.take(operation)
    name, names, first = _names(capture, operations.of(operation), graphs, start)
    if capture.is_near:
        firsts = np.flatnonzero(first)
        first[firsts] = ~_launched_earlier(capture, operations.of(operation[firsts]), graphs[firsts])
    del graphs
    launches = Launches(
        call=calls,
        operation=operation,
        name=name.astype(np.int32, copy=False),
        names=names,
        first=first,
        start_ns=start,
        narrow_api_ns=api_ns,
        narrow_latency_ns=narrow(operations.start_ns.take(operation) - start),
        narrow_gpu_ns=gpu_ns,
        operations=count,
        previous_end_ns=previous_ends(operations).take(operation),
    )
    # Calls come by start where nsys wrote them so.
    return launches if (np.diff(start) >= 0).all() else launches.of(np.argsort(start, kind="stable"))


def _sums(codes: NDArray[Any], durations: NDArray[Any], calls: int) -> NDArray[Any]:
    """Return the sum of the durations for each call. Raises OverflowError for more than 104 days."""
    longest = float(np.abs(durations).max(initial=0))
    if len(codes) * longest > EXACT and np.bincount(codes, np.abs(durations), calls).max() > EXACT:
        raise OverflowError
    return np.bincount(codes, durations, calls).astype(np.int64)


def graphs_of(capture: Capture, operations: GpuOperations) -> NDArray[Any]:
    """Return the id of the graph of each operation that is a graph or a node of one; MISSING for others."""
    ids = np.full(len(operations), MISSING)
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            field = graph_field(kind)
            values = capture.columns(kind, field)[field]
            if kind == GRAPH or ((values != MISSING) & (values != 0)).any():
                ids[mine] = graph_ids(kind, values[operations.row[mine]])
    return ids


def graph_field(kind: str) -> str:
    """Return the field that has the graph of an operation, or its node."""
    return "graph_exec_id" if kind == GRAPH else "graph_node_id"


def graph_ids(kind: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return the ids of graphs from the field that has them; MISSING for operations that are no nodes."""
    if kind == GRAPH:
        return np.where(values == MISSING, 0, values)
    return np.where((values != MISSING) & (values != 0), values >> _GRAPH_SHIFT, MISSING)


def _names(
    capture: Capture, operations: GpuOperations, graphs: NDArray[Any], start: NDArray[Any]
) -> tuple[NDArray[Any], list[str | None], NDArray[Any]]:
    """Return one code per launch, the text of each code, and the marks of first launches."""
    codes, texts = _kernel_names(capture, operations, graphs)
    plain = capture.viewed(names="full", nvtx_names=False)
    full = codes if plain is capture else _kernel_names(plain, operations, graphs)[0]
    known = (np.flatnonzero(np.bincount(codes + 1)) - 1).tolist()
    if known == list(range(len(texts))):  # no graphs, and all kernels have launches
        name, names = codes, texts
    else:
        name, names = number_texts(codes, [GRAPH_NAME if code < 0 else texts[code] for code in known])
    owners = distinct(operations.streams.global_pid)[1].astype(np.int32)[operations.stream]
    kinds = full * np.int64(owners.max(initial=0) + 1) + owners
    of_graph = np.flatnonzero(graphs != MISSING)
    if len(of_graph):
        codes, _ = group_keys(owners[of_graph], graphs[of_graph])
        kinds[of_graph] = int(kinds.max(initial=-1)) + 1 + codes
    backwards: NDArray[Any] | slice = slice(None, None, -1)
    if (start[1:] < start[:-1]).any():
        backwards = np.argsort(start, kind="stable")[::-1]
    earliest = np.full(int(kinds.max(initial=-1)) + 1, -1, np.int32)
    # The last one that is written stays.
    earliest[kinds[backwards]] = np.arange(len(start), dtype=np.int32)[backwards]
    first = np.zeros(len(start), dtype=bool)
    first[earliest[earliest >= 0]] = True
    return name, names, first


def _launched_earlier(near: Capture, operations: GpuOperations, graphs: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the operations whose kernel or graph was launched before what is here of a large capture."""
    alone, number = graphs == MISSING, graphs.copy()
    if alone.any():
        number[alone] = near.columns(KERNEL, "name")["name"][operations.row[alone]]
    keys = list(zip(alone.tolist(), operations.global_pid.tolist(), number.tolist(), strict=True))
    found: set[tuple[int, ...]] = set()
    for kind in filter(near.recorded.has, KINDS):
        sought = {key for key in keys if kind == KERNEL or not key[0]} - found
        blocks = near.beyond(kind, "global_pid", graph_field(kind), *(("name",) if kind == KERNEL else ()))
        while sought and (block := next(blocks, None)):
            graph = graph_ids(kind, block[graph_field(kind)])
            known = np.where(graph == MISSING, block["name"], graph) if kind == KERNEL else graph
            here = np.flatnonzero(one_of(known, {key[-1] for key in sought}))
            columns = (graph == MISSING).astype(np.int64), block["global_pid"], known
            _, values = group_keys(*(column[here] for column in columns))
            found.update(zip(*(value.tolist() for value in values), strict=True))
            sought -= found
    return np.array([key in found for key in keys], dtype=bool)


def _kernel_names(
    capture: Capture, operations: GpuOperations, graphs: NDArray[Any]
) -> tuple[NDArray[Any], list[str | None]]:
    """Return one code per launch, -1 for launches of graphs, and the text of each code."""
    codes = np.full(len(operations), -1, np.int32)
    if not capture.has(KERNEL):
        return codes, []
    kernel_codes, texts = name_codes(capture, KERNEL)
    kernels = np.flatnonzero(graphs == MISSING)
    codes[kernels] = kernel_codes[operations.row[kernels]]
    return codes, texts
