"""Describe the occurrences of what a process repeats, and its calls that start GPU work or wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.gpu_operations import GRAPH_NAME, KINDS, MEMCPY, gpu_operations_of
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import CLASSES, SYNCHRONISE, call_classes, call_names
from nsyswrap.analysis.timing_audit.causation import causing_threads
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import PROCESS_MASK

if TYPE_CHECKING:
    from typing_extensions import Self


LoopKind = Literal["range", "work", "update"]


# The label of a loop: the one name of its steps, in baselines, for `--steps` and on screens.


class LoopLabel(str):
    """The label of a loop, as text, with its kind and its name.

    It is ``'train'``, ``a sequence of 5 GPU operations``, ``one CUDA graph`` or ``optimizer step``. ``kind``:
    an NVTX range, GPU work, or the updates of an optimizer. ``name`` is without quotes and ``a sequence of``.
    """

    __slots__ = ("kind", "name")

    kind: LoopKind
    name: str

    def __new__(cls, text: str, kind: LoopKind = "work", name: str = "") -> Self:
        """Return a label; its name is the text if there is no other."""
        label = super().__new__(cls, text)
        label.kind, label.name = kind, name or text
        return label

    @classmethod
    def of_range(cls, name: str) -> Self:
        """Return the label of a range."""
        return cls(f"'{name}'", "range", name)

    @classmethod
    def of_sequence(cls, operations: int) -> Self:
        """Return the label of a sequence of so many GPU operations."""
        name = f"{operations:,} GPU operations"
        return cls(f"a sequence of {name}", "work", name)

    @property
    def short(self) -> str:
        """The label for a line with little room: a range in quotes, or the GPU operations."""
        return str(self) if self.kind == "range" else self.name


def is_range(label: str) -> bool:
    """Return True if a label, also one of a stored row, is that of a range: those alone are in quotes."""
    return label.startswith("'")


MANY = 10  # occurrences
KERNEL_CODE = len(KINDS) * 1000  # of a call that launches the first of the names of launches_of
_OPTIMIZERS = ("multi_tensor_apply", "adam", "sgd", "lamb_", "rmsprop", "adagrad")  # in names of kernels
_OWN_PART = 0.25  # of the launches: a thread with fewer is no program of its own


class Occurrences(NamedTuple):
    """Occurrences of one thing in one process, in order; times in ns.

    ``label`` says what repeats. An occurrence ends where the next one begins, the last one with its last call
    or its range. ``differs`` marks those with other launches than most.
    ``first_uses`` marks those with the first launch of a kernel in the process. ``single`` is True if each
    is a single GPU operation: its duration as a step has no meaning. ``is_range`` is True for an NVTX range.
    ``is_marked``: nsyswrap's hook marked these steps; ``first`` is the number of the first one. Of a sequence
    ``launches`` is a number of what most occurrences start on the GPU, ``begins`` tells its first call, and
    ``own_end_ns`` is where the usual calls end and others follow: those of another loop, or of this one. Of a
    range ``turns`` are those side by side with it that hold an update of the optimizer each, and ``beside``
    has number and name of those that come at the same time on other threads.
    """

    label: LoopLabel
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    differs: NDArray[Any]
    first_uses: NDArray[Any]
    single: bool = False
    is_range: bool = False
    first: int = 0
    is_marked: bool = False
    launches: int = 0
    begins: str = ""
    own_end_ns: NDArray[Any] | None = None
    turns: tuple[str, ...] = ()
    beside: tuple[tuple[int, str], ...] = ()

    @property
    def loop(self) -> str:
        """What tells the loop from others, the same in each run: its label, or what a sequence launches."""
        return f"{self.begins}:{self.launches:x}" if self.begins else self.label


@dataclass(frozen=True, eq=False)
class ApiCalls(ColumnSet):
    """The calls of a process that start GPU work or wait for it, by start; times in ns.

    ``row`` is the position among the capture's API calls. ``code`` numbers what a call does: which kernel it
    launches, which kind of copy it starts, how it waits.
    ``works`` marks calls that start GPU work, ``first`` those that launch a kernel for the first time,
    ``graph`` those that launch a CUDA graph. ``gpu_ns`` is the time of its GPU work.
    """

    row: NDArray[Any]
    thread: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    code: NDArray[Any]
    works: NDArray[Any]
    first: NDArray[Any]
    graph: NDArray[Any]
    gpu_ns: NDArray[Any]


def calls_by_process(whole: Capture, processes: Sequence[int]) -> Iterator[tuple[int, ApiCalls]]:
    """Yield the global id of each process with its calls."""
    if not processes:
        return
    calls, rows = _every_call(whole)  # which are large, and of no use after the steps are known
    owner = calls.thread[rows] & PROCESS_MASK
    for process in processes:
        yield process, calls.of(rows[owner == process])


def _every_call(whole: Capture) -> tuple[ApiCalls, NDArray[Any]]:
    """Return all API calls, and the positions, by start, of those that start GPU work or wait for it."""
    operations = gpu_operations_of(whole)
    api = whole.columns("api", "global_tid", "start_ns", "end_ns")
    code = np.full(len(api["start_ns"]), -1, np.int32)
    waits = call_classes(whole) == CLASSES.index(SYNCHRONISE)
    code[waits] = -2 - distinct(call_names(whole).codes[waits])[1]
    known = np.flatnonzero(operations.call >= 0)
    kind = operations.kind[known]
    copies = kind == KINDS.index(MEMCPY)
    number = kind.astype(np.int64)
    if copies.any():
        copy_kinds = whole.columns(MEMCPY, "copy_kind")["copy_kind"][operations.row[known[copies]]]
        number[copies] = len(KINDS) * (1 + distinct(copy_kinds)[1])
    code[operations.call[known]] = number
    launches = launches_of(whole)
    code[launches.call] = KERNEL_CODE + launches.name
    works, first, graph = (np.zeros(len(code), bool) for _ in range(3))
    works[operations.call[known]] = True
    first[launches.call[launches.first]] = True
    graph[launches.call] = np.array([name == GRAPH_NAME for name in launches.names], bool)[launches.name]
    duration_ns = np.maximum(operations.end_ns[known] - operations.start_ns[known], 0)  # of damaged times
    if np.count_nonzero(works) < len(known):  # a graph's kernels have one call
        gpu_ns = np.bincount(operations.call[known], weights=duration_ns, minlength=len(code)).astype(
            np.int64
        )
    else:
        gpu_ns = np.zeros(len(code), np.int64)
        gpu_ns[operations.call[known]] = duration_ns
    rows = np.flatnonzero(code != -1)
    rows = rows[np.argsort(api["start_ns"][rows], kind="stable")]
    row = np.arange(len(code), dtype=np.int32)
    times = (api["global_tid"], api["start_ns"], api["end_ns"])
    return ApiCalls(row, *times, code, works, first, graph, gpu_ns), rows


def optimizer_calls(whole: Capture, calls: ApiCalls) -> NDArray[Any]:
    """Return the positions of the calls that launch a kernel of an optimizer."""
    updates = _of_optimizers(whole)
    launches = np.flatnonzero(calls.code >= KERNEL_CODE) if updates.any() else np.empty(0, np.int64)
    return launches[updates[calls.code[launches] - KERNEL_CODE]]  # type: ignore[no-any-return]


@per_capture
def _of_optimizers(whole: Capture) -> NDArray[np.bool_]:
    """Mark the names of launches that are kernels of an optimizer."""
    names = [(name or "").lower() for name in launches_of(whole).names]
    return np.array([any(map(name.__contains__, _OPTIMIZERS)) for name in names], bool)


def works_beside(whole: Capture, calls: ApiCalls, occurrences: Occurrences) -> bool:
    """Return True if another thread launches much work that none of the steps' threads is seen to cause."""
    inside = calls.works & (calls.start_ns >= occurrences.start_ns[0])
    inside &= calls.start_ns < occurrences.end_ns[-1]
    _, launches = np.unique(causing_threads(whole)[calls.row[inside]], return_counts=True)
    return int(np.count_nonzero(launches >= _OWN_PART * inside.sum())) > 1
