"""The Python lines that called CUDA, from the call stacks that nsys takes with --python-backtrace=cuda.

A stack is the payload of an NVTX mark that begins with the call, on its thread. Payloads are in an export
only with --include-blobs. Autograd runs a backward pass on a thread without Python, while the thread that
called it waits: a call of such a thread counts for the stack that its process took last.
"""

from __future__ import annotations

import html
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import rows_by
from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.export import Export
from nsyswrap.capture.open import open_export
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NVTX_MARK, PROCESS_MASK, SPANS

Ints = NDArray[Any]

SCHEMA = "Python Backtrace on CUDA"
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3[.\d]*/|^<(?!stdin|string|ipython)")
_HEADER = struct.Struct("<2Q16x8x4xI")  # domain and schema; of the payload the number of frames
_FRAME = struct.Struct("<2QI4x")  # ids of function and file, line
_MOST = 1_000_000  # stacks


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
    whose own stack was taken, ``borrowed`` those on a thread without Python. The others are in
    one of ``traced``.
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
    try:
        marks = list(_marks(open_export(whole.path)))
    except (NsyswrapError, AttributeError):  # an Arrow export answers no SQL
        marks = []
    if not marks or not whole.has("api"):
        return None
    numbers: dict[tuple[Frame, ...], int] = {}
    of_mark = np.array([numbers.setdefault(frames, len(numbers)) for *_, frames in marks])
    time, thread = (np.array(values) for values in list(zip(*marks, strict=True))[:2])
    start, end, tid = whole.columns("api", *SPANS, "global_tid").values()
    stack, traced, borrowed = np.full(len(start), -1), *np.zeros((2, len(start)), bool)
    by_thread, by_process = rows_by(thread), rows_by(thread & PROCESS_MASK)
    for (number,), calls in rows_by(tid).items():
        if (number,) in by_thread:
            rows = by_thread[number,]
            at = np.searchsorted(time[rows], start[calls], "right") - 1
            traced[calls] = (at >= 0) & (time[rows[at]] == start[calls])
            marked = calls[traced[calls]]
            marked = marked[np.argsort(start[marked], kind="stable")]
            around = np.searchsorted(start[marked], start[calls], "right") - 1
            inside = (around >= 0) & (start[calls] < end[marked[around]]) if len(marked) else traced[calls]
            stack[calls[inside]] = of_mark[rows[at[inside]]]
        elif (process := (number & PROCESS_MASK,)) in by_process:
            rows = by_process[process]
            rows = rows[np.argsort(time[rows], kind="stable")]
            at = np.searchsorted(time[rows], start[calls], "right") - 1
            stack[calls], borrowed[calls] = np.where(at >= 0, of_mark[rows[at]], -1), True
    return CallSites(stack, traced, borrowed, list(numbers))


def _marks(export: Export) -> Iterator[tuple[int, int, tuple[Frame, ...]]]:
    """Yield time, thread and frames of each stack, in order of time."""
    named = export.select("NVTX_PAYLOAD_SCHEMAS", ("domainId", "int"), ("schemaId", "int"), ("name", "text"))
    schemas = {(domain, schema) for domain, schema, name in named if name == SCHEMA}
    if not schemas or "binaryData" not in export.tables.get("NVTX_EVENTS", ()):
        return
    known: dict[bytes, tuple[Frame, ...]] = {}
    rows = export.rows(
        "SELECT start, globalTid, domainId, binaryData FROM NVTX_EVENTS WHERE eventType = "  # noqa: S608 - numbers
        f"{NVTX_MARK} AND typeof(binaryData) = 'blob' ORDER BY start LIMIT {_MOST}"
    )
    for start, thread, domain, data in rows:
        if len(data) < _HEADER.size or (domain, _HEADER.unpack_from(data)[1]) not in schemas:
            continue
        body = data[_HEADER.size :]
        if body not in known:
            count = min(_HEADER.unpack_from(data)[2], len(body) // _FRAME.size)
            known[body] = tuple(_frames(export.strings, body, count))
        if known[body] and isinstance(start, int) and isinstance(thread, int):
            yield start, thread, known[body]


def _frames(strings: dict[int, str], body: bytes, count: int) -> Iterator[Frame]:
    for function, file, line in _FRAME.iter_unpack(body[: count * _FRAME.size]):
        yield Frame(html.unescape(strings.get(function, "?")), html.unescape(strings.get(file, "?")), line)
