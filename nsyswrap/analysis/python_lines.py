"""The Python lines that called CUDA, from the call stacks that nsys takes with --python-backtrace=cuda.

A stack is the payload of an NVTX mark that begins with the call, on its thread. Payloads are in an export
only with --include-blobs. Autograd runs a backward pass on a thread without Python, while the thread that
called it waits: a call of such a thread counts for the stack that its process took last. That needs the
stacks of launches: those of calls that wait alone do not tell where a program is.
"""

from __future__ import annotations

import html
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import rows_by
from nsyswrap.analysis.names import CLASSES, LAUNCH, call_classes
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.export import Export
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NVTX_MARK, PROCESS_MASK, SPANS

Ints = NDArray[Any]

_LIBRARY = regex(r"/(?:site|dist)-packages/|/lib(?:64)?/python3[.\d]*/|^<(?!stdin|string|ipython)")
_HEADER = struct.Struct("<32x12xI")  # of nsys, then of the stack with the number of its frames
_FRAME = struct.Struct("<2QI4x")  # ids of function and file, line
_MOST = 300_000  # stacks: 100 MB
_DRAIN = ("drain", "/nsyswrap_hook/steps.py")  # where nsyswrap waits for the GPU at the ends of --steps


class Frame(NamedTuple):
    """A frame of a Python call stack."""

    function: str
    file: str
    line: int

    @property
    def label(self) -> str:
        """The frame as ``file:line in function``, with two folders of the file."""
        place = "/".join(self.file.split("/")[-3:]) if is_library(self.file) else self.file.rpartition("/")[2]
        return f"{place}:{self.line} in {self.function}"


def is_library(file: str) -> bool:
    """Return True for a file of an installed package, of the standard library, or of Python itself."""
    return bool(_LIBRARY.search(file))


class CallSites(NamedTuple):
    """The Python lines of API calls, by position among all calls.

    ``stack`` has positions in ``stacks``, the innermost frame first; -1 is none. ``traced`` marks the calls
    whose own stack was taken, ``borrowed`` those on a thread without Python. The others are
    in one of ``traced``.
    """

    stack: Ints
    traced: NDArray[np.bool_]
    borrowed: NDArray[np.bool_]
    stacks: Sequence[tuple[Frame, ...]]

    def site(self, stack: int) -> Frame:
        """Return the innermost frame outside of libraries, or else the innermost one."""
        frames = self.stacks[stack]
        return next((frame for frame in frames if not is_library(frame.file)), frames[0])


@per_capture
def call_sites_of(whole: Capture) -> CallSites | None:
    """Return the Python lines of the API calls of a capture; None if no stack was recorded."""
    marks = list(_marks(whole.original))
    if not marks or not whole.has("api"):
        return None
    numbers: dict[tuple[Frame, ...], int] = {}
    of_mark = np.array([numbers.setdefault(frames, len(numbers)) for *_, frames in marks])
    time, thread = (np.array(values) for values in list(zip(*marks, strict=True))[:2])
    start, end, tid = whole.columns("api", *SPANS, "global_tid").values()
    stack, traced, borrowed = np.full(len(start), -1), *np.zeros((2, len(start)), bool)
    by_thread, used = rows_by(tid), [np.empty(0, np.int64)]
    for key, rows in rows_by(thread).items():
        calls = by_thread.get(key, used[0])
        calls = calls[np.lexsort((-end[calls], start[calls]))]
        at = np.searchsorted(time[rows], start[calls], "right") - 1
        same = (at >= 0) & (time[rows[at]] == start[calls]) & (np.diff(at, prepend=-1) != 0)
        latest = np.maximum.accumulate(np.where(same, np.arange(len(calls)), -1))
        inside = same | ((latest >= 0) & (start[calls] < end[calls[latest]]))
        stack[calls[inside]] = of_mark[rows[at[latest[inside]]]]
        traced[calls] = same
        used.append(rows[at[same]])
    met = np.sort(np.concatenate(used))
    if not len(met):
        return None
    launches = traced & (call_classes(whole) == CLASSES.index(LAUNCH))
    met = met[np.isin(thread[met] & PROCESS_MASK, tid[launches] & PROCESS_MASK)]
    by_process = rows_by(thread[met] & PROCESS_MASK)
    for (number,), calls in by_thread.items():
        rows = met[by_process.get((number & PROCESS_MASK,), used[0])]
        if len(rows) and not traced[calls].any():
            at = np.searchsorted(time[rows], start[calls], "right") - 1
            stack[calls], borrowed[calls] = np.where(at >= 0, of_mark[rows[at]], -1), True
    return CallSites(stack, traced, borrowed, list(numbers))


def lacking(whole: Capture) -> list[str]:
    """Return the columns of NVTX events that stacks need and the capture does not have."""
    return whole.original.lacking_for_payloads()


def _marks(export: Export) -> Iterator[tuple[int, int, tuple[Frame, ...]]]:
    """Yield time, thread and frames of each payload that can be a stack, in order of time.

    Other payloads of this layout begin with no call. Their schemas are not read: redacting may rename them.
    """
    known: dict[bytes, tuple[Frame, ...]] = {}
    for kind, start, thread, data in export.payloads(_MOST):
        body = data[_HEADER.size :]
        count = _HEADER.unpack_from(data)[0] if body else 0
        is_whole = count and kind == NVTX_MARK and len(body) == count * _FRAME.size
        if is_whole and isinstance(start, int) and isinstance(thread, int):
            if body not in known:
                known[body] = tuple(_frames(export.strings, body))
            if not any(at.function == _DRAIN[0] and at.file.endswith(_DRAIN[1]) for at in known[body]):
                yield start, thread, known[body]


def _frames(strings: dict[int, str], body: bytes) -> Iterator[Frame]:
    for function, file, line in _FRAME.iter_unpack(body):
        yield Frame(html.unescape(strings.get(function, "?")), html.unescape(strings.get(file, "?")), line)
