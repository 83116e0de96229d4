"""The GPU operations of one steady step, the median one, and which of them correspond on two sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, MEMCPY, GpuOperations, gpu_operations_of, names
from nsyswrap.analysis.judged_process import JudgedProcess
from nsyswrap.analysis.names import kernel_classes
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture

Match = tuple[int | None, int | None]


MOST_OPERATIONS = 5_000  # of a step that is kept
_MOST_COMPARED = 1_200  # of a side, after what is equal at both ends; more are matched by name and number


@dataclass(frozen=True)
class MedianStep:
    """The operations that were launched in a step, by start; times in ns.

    ``number`` counts as the steps do, ``duration_ns`` is that of the step. ``start_ns`` counts from the start
    of the first operation. ``kinds`` are pairs of a kind of event and its kernel class or label of a copy.
    """

    number: int
    duration_ns: int
    names: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    stream: NDArray[Any]
    start_ns: NDArray[Any]
    length_ns: NDArray[Any]

    def __len__(self) -> int:
        return len(self.names)


def median_step(process: JudgedProcess) -> MedianStep | None:
    """Return the first steady step of the lower median duration; None without steps, or if too large."""
    steps = process.steps
    if not steps.has_steady:
        return None
    numbers = np.flatnonzero(steps.steady)
    durations = steps.duration_ns[numbers]
    number = int(numbers[durations == np.sort(durations)[(len(numbers) - 1) // 2]][0])
    capture = process.view.whole
    operations = gpu_operations_of(capture)
    calls = (
        capture.whole.columns("api", "start_ns")["start_ns"] if capture.has("api") else np.zeros(1, np.int64)
    )
    begun = np.where(operations.call >= 0, calls[operations.call], operations.start_ns)
    start, host_ns = int(steps.host_start_ns[number]), int(steps.host_ns[number])
    in_step = (begun >= start) & (begun < start + host_ns)
    rows = np.flatnonzero(in_step & (operations.global_pid == steps.global_pid))
    if not 0 < len(rows) <= MOST_OPERATIONS:
        return None
    rows = rows[np.argsort(operations.start_ns[rows], kind="stable")]
    launched = operations.of(rows)
    texts = names(capture, launched)
    return MedianStep(
        number + steps.first,
        int(steps.duration_ns[number]),
        tuple(texts.texts[code] or "(no name)" for code in texts.codes.tolist()),
        tuple(_kinds(capture, launched)),
        launched.stream_id,
        launched.start_ns - launched.start_ns[0],
        launched.end_ns - launched.start_ns,
    )


def _kinds(capture: Capture, operations: GpuOperations) -> list[tuple[str, str]]:
    """Return the kind of each operation, and the class of a kernel or the label of a copy."""
    labels: dict[int, list[str]] = {}
    for number, kind in enumerate(KINDS):
        rows = operations.row[operations.kind == number]
        if kind == KERNEL and len(rows):
            codes, classes = kernel_classes(capture)
            labels[number] = [classes[code] for code in codes[rows].tolist()]
        elif kind == MEMCPY and len(rows):
            copies = capture.labels("copy_kind")
            every = capture.columns(kind, "copy_kind")["copy_kind"][rows]
            labels[number] = [copies.get(code, "") for code in every.tolist()]
        else:
            labels[number] = [""] * len(rows)
    by_kind = {number: iter(texts) for number, texts in labels.items()}
    return [(KINDS[number], next(by_kind[number])) for number in operations.kind.tolist()]


def aligned(base: MedianStep, new: MedianStep) -> list[Match]:
    """Return pairs of positions in both steps, in order; None where an operation is on one side alone."""
    one, other = base.names, new.names
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    rest = min(len(one), len(other)) - head
    backwards = zip(reversed(one[len(one) - rest :]), reversed(other[len(other) - rest :]), strict=True)
    tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], backwards))
    middle = _matched(one[head : len(one) - tail], other[head : len(other) - tail])
    return [
        *((i, i) for i in range(head)),
        *((None if i is None else i + head, None if j is None else j + head) for i, j in middle),
        *((len(one) - tail + i, len(other) - tail + i) for i in range(tail)),
    ]


def _matched(one: Sequence[str], other: Sequence[str]) -> list[Match]:
    if max(len(one), len(other)) > _MOST_COMPARED:
        # The k-th operation of a name matches the k-th of that name on the other side.
        places = {key: j for j, key in enumerate(_numbered(other))}
        numbered: list[Match] = [(i, places.pop(key, None)) for i, key in enumerate(_numbered(one))]
        return [*numbered, *((None, j) for j in sorted(places.values()))]
    pairs: list[Match] = []
    for kind, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind == "equal":
            pairs += zip(range(a, b), range(c, d), strict=True)
        else:
            pairs += [*((i, None) for i in range(a, b)), *((None, j) for j in range(c, d))]
    return pairs


def _numbered(texts: Sequence[str]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    keys = []
    for text in texts:
        keys.append((text, seen[text]))
        seen[text] += 1
    return keys
