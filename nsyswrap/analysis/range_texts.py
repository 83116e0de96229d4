"""Read what the text of an NVTX range says: a module, an operation of PyTorch or XLA, or a name.

PyTorch writes ``aten::addmm, seq = 12, op_id = 40, sizes = [[4], [4, 8]]`` for an operation, and
``AddmmBackward0, seq = 12, ...`` for its backward. XLA writes ``XlaModule:#prefix=...,hlo_module=...#``
around a program, and ``Thunk:#name=jit(f)/jvp(Model)/Dense_0/dot_general,hlo_op=fusion.3#`` around a launch.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.nvtx_ranges import texts_and_domains, thread_ranges
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.per_capture import per_capture

STEPS_DOMAIN, MODULES_DOMAIN = "nsyswrap", "nsyswrap.modules"  # of `nsyswrap profile --steps`, `--modules`
# Kinds of ranges. HIDDEN ones are in no tree. The forward operations that PyTorch marked in the first steps
# only are FORMER: they are no nodes.
HIDDEN, RANGE, MODULE, OPERATION, ENGINE, FORMER = range(6)
NEITHER, FORWARD, BACKWARD = range(3)  # phases of a training step
NO_NAME = "(no name)"

_EVALUATES = "autograd::engine::evaluate_function: "
_FIELDS = regex(r", (?:seq|op_id|sizes) = ")
_SEQUENCE = regex(r", seq = (\d+)")
SIZES, _INPUTS = ", sizes = ", ", input_op_ids = "
_PREFIXES = ("aten::", "autograd::engine::", "torch::autograd::")
_BACKWARD = regex(r"(?:Backward|Backward\d+|AccumulateGrad)$")
_STEP = regex(
    r"((?:.*[ _-])?(?:train|training)?(?:step|iter|iteration|(?:mini|micro)?batch|epoch)[ _:#-]*)\d+ *",
    re.IGNORECASE,
)
_XLA_MODULE = regex(r"XlaModule:#(?:prefix=(?P<name>.*?),)?hlo_module=(?P<op>[^,#]*)")
_XLA_THUNK = regex(r"Thunk:#(?:name=(?P<name>.*?),)?hlo_op=(?P<op>[^,#]*)")
_WRAPPED = regex(r"(?P<transform>\w+)\((?P<inner>.*)\)")


SHAPES_END = "shapes end"  # the text of the mark where `profile --modules` records shapes no more


# Split host code during gaps by Python's global interpreter lock, where nsys traced it (-t python-gil).
#
# The thread that launches next holds the lock, waits for it, or neither: then it ran code that needs no lock.

GIL_DOMAIN = "GIL Trace"  # of NVTX, with the ranges of the lock
HOLDING, WAITING = "holding", "waiting"
STATES = {HOLDING: "Holding GIL", WAITING: "Waiting for GIL"}  # as nsys names the ranges


class RangeText(NamedTuple):
    """The parsed text of a range. ``names`` are the names of the nodes of a tree, from the outermost on.

    ``sequence`` is autograd's number of the operation, MISSING without one. ``sizes`` has the shapes of its
    inputs. Work in the forward of a module, or that autograd records, is of the FORWARD phase.
    """

    kind: int
    names: tuple[str, ...]
    sequence: int = MISSING
    sizes: str = ""
    phase: int = NEITHER


def read_text(text: str | None, domain: str) -> RangeText:
    """Return what the text of a range says; ``domain`` is empty for the domain of the program."""
    if domain in (STEPS_DOMAIN, GIL_DOMAIN):
        return RangeText(HIDDEN, ())
    if not text:
        return RangeText(RANGE, (NO_NAME,))
    if domain == MODULES_DOMAIN:
        return RangeText(MODULE, (text,), phase=FORWARD)
    fields = _FIELDS.search(text)
    if fields or text.startswith(_PREFIXES):
        return _of_pytorch(text, text[: fields.start()] if fields else text)
    if xla := _of_xla(text):
        return xla
    step = _STEP.fullmatch(text)
    name = f"{step[1]}*" if step else text
    return RangeText(RANGE, (f"{domain}:{name}" if domain else name,))


def former(text: RangeText) -> RangeText:
    """Return what the text of a range says where PyTorch marked operations in the first steps only."""
    forward = text.kind == OPERATION and text.phase != BACKWARD and "::" in text.names[0]
    return text._replace(kind=FORMER, phase=NEITHER, sequence=MISSING) if forward else text


def without_fields(text: str) -> str:
    """Return the name of an operation of PyTorch without its numbers and sizes; other texts as they are."""
    fields = _FIELDS.search(text)
    return text[: fields.start()] if fields else text


def of_an_operation(text: str) -> bool:
    """Return True if PyTorch wrote the text around one of its operations: each has another number."""
    return bool(_FIELDS.search(text)) or text.startswith(_PREFIXES)


def _of_pytorch(text: str, name: str) -> RangeText:
    if name.startswith(_EVALUATES):
        return RangeText(ENGINE, (name.removeprefix(_EVALUATES),), phase=BACKWARD)
    sequence = _SEQUENCE.match(text, len(name))
    sizes = text.partition(SIZES)[2].partition(_INPUTS)[0]
    number = MISSING if sequence is None else int(sequence[1])
    phase = BACKWARD if _BACKWARD.search(name) else NEITHER if sequence is None else FORWARD
    return RangeText(OPERATION, (name,), number, sizes, phase)


def _of_xla(text: str) -> RangeText | None:
    module, thunk = _XLA_MODULE.match(text), _XLA_THUNK.match(text)
    if module:
        names, phase = _scopes(module["name"] or "")
        return RangeText(RANGE, (module["op"], *names), phase=phase)
    if thunk:
        names, phase = _scopes(thunk["name"] or "")
        return RangeText(RANGE, names or (thunk["op"],), phase=phase)
    return None


def _scopes(path: str) -> tuple[tuple[str, ...], int]:
    """Return the scopes of a JAX name without its transformations, and the phase that these tell."""
    names, phase = list[str](), NEITHER
    for part in _split(path):
        name = part
        transforms = set()
        while wrapped := _WRAPPED.fullmatch(name):
            transforms.add(wrapped["transform"])
            name = wrapped["inner"]
        if "transpose" in transforms or "jvp" in transforms:
            phase = max(phase, BACKWARD if "transpose" in transforms else FORWARD)
        outermost = not names and transforms & {"jit", "pjit", "pmap"}  # the program itself, named already
        if name and not outermost:
            names.append(name)
    return tuple(names), phase


def _split(path: str) -> list[str]:
    """Split a path at the slashes that are in no parentheses."""
    parts, depth = [""], 0
    for character in path:
        depth += (character == "(") - (character == ")")
        if character == "/" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]


class HostPieces(NamedTuple):
    """Parts of the host code in gaps: the position of the gap, and start and end in ns."""

    gap: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]


def of_the_program(whole: Capture, rows: NDArray[Any]) -> NDArray[Any]:
    """Mark the NVTX events that are not ranges of the lock."""
    codes, named = texts_and_domains(whole, rows)
    marks = np.array([domain != GIL_DOMAIN for _, domain in named] or [True])
    return marks[codes]  # type: ignore[no-any-return]


@per_capture
def gil_parts(capture: Capture) -> dict[str, HostPieces] | None:
    """Return the parts of host code in gaps in each of STATES; None if the lock was not traced."""
    if not capture.whole.has("nvtx"):
        return None
    rows, spans = thread_ranges(capture.whole)
    codes, named = texts_and_domains(capture.whole, rows)
    numbers = {text: number for number, text in enumerate(STATES.values())}
    known = [numbers.get(text or "", -1) if domain == GIL_DOMAIN else -1 for text, domain in named]
    state = np.array(known or [-1])[codes]
    if not (state >= 0).any():
        return None
    gaps = gaps_of(capture)
    mine = gaps.segments_of["host"]
    gap, start, end, _ = (field[mine] for field in gaps.segments)
    thread = gaps.thread[gap]
    found = {}
    for number, name in enumerate(STATES):
        parts = [HostPieces(*(np.empty(0, np.int64),) * 3)]
        for one in ascending(thread).tolist():
            ranges = np.flatnonzero((state == number) & (spans.thread == one))
            cover = union(spans.start[ranges], spans.end[ranges])
            if cover.length:
                here = np.flatnonzero(thread == one)
                row, first, last = cover.split(start[here], end[here])
                inside = np.flatnonzero(last > first)
                parts.append(HostPieces(gap[here[row[inside]]], first[inside], last[inside]))
        found[name] = HostPieces(*map(np.concatenate, zip(*parts, strict=True)))
    return found
