"""Read NVTX ranges with names as nsys writes them, find those around kernels, project them onto the GPU.

The projection of a range is the time from the first to the last GPU operation that was launched in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import distinct, group_keys, rank_texts, repeated
from nsyswrap.analysis.arrays.spans import Spans, SpanTree, closest, enclosures, tree
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.finding import Note
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import (
    IMPORT_ERROR,
    NVTX_DOMAIN,
    NVTX_MARK,
    NVTX_PUSH_POP,
    NVTX_START_END,
    SPANS,
    XLA_DOMAIN,
)
from nsyswrap.capture.selection import process_ids
from nsyswrap.capture.stream import one_of

Events = Mapping[str, NDArray[Any]]
Ints = NDArray[Any]


ALL = (*NVTX_PUSH_POP, *NVTX_START_END)  # event types of ranges
STYLES = ("PushPop", "StartEnd")
MAIN_DOMAIN = (0, MISSING)  # ids of the domain that programs use; libraries have domains of their own

OPERATIONS = ("kernel", "memcpy", "memset")
_TIMES = (*SPANS, "event_type", "global_tid", "end_global_tid")
_EVENTS = ("row", *_TIMES, "domain_id")
# The fields that ranges and what was launched in them are computed from, by kind of event.
READS = {
    "nvtx": (*_EVENTS, "text", "text_id"),
    "api": (*SPANS, "global_tid", "correlation_id"),
    "kernel": (*SPANS, "global_pid", "correlation_id"),
    "memcpy": (*SPANS, "global_pid", "correlation_id", "copy_kind"),
    "memset": (*SPANS, "global_pid", "correlation_id"),
}


@dataclass(frozen=True)
class Ranges:
    """Ranges in row order: rows in NVTX_EVENTS (from 1), spans, numbers in STYLES and in ``names``.

    A range that never ended lasts to the last timestamp of NVTX; its end is MISSING if no range has one.
    Names are sorted; the code of a range without a name is -1. ``notes`` say what readers must know.
    """

    row: NDArray[Any]
    spans: Spans
    style: NDArray[Any]
    code: NDArray[Any]
    names: list[str]
    notes: tuple[Note, ...]

    def labels(self, codes: NDArray[Any]) -> TextColumn:
        """Return the names behind codes."""
        return TextColumn(np.where(codes < 0, len(self.names), codes), (*self.names, None))


@per_capture
def counted_ranges(capture: Capture, types: tuple[int, ...] = ALL) -> Ranges:
    """Return the ranges as nsys' sums count them: once for each thread that created the domain."""
    events = _events(capture)
    rows = _of_types(events, types)
    ends = _closed(events, np.arange(len(events["end_ns"])))
    return _with_names(capture, events, rows, ends[rows], every_creator=True)


@per_capture
def nested_ranges(capture: Capture, types: tuple[int, ...] = ALL) -> Ranges:
    """Return the ranges that ended on the thread they started on, each once."""
    events = _events(capture)
    rows, ends = _on_one_thread(events, types)
    return _with_names(capture, events, rows, ends, every_creator=False)


def kernel_ranges(capture: Capture) -> tuple[NDArray[Any], list[str]]:
    """Return the code of the innermost range's name for each kernel (-1: none), and the names.

    The innermost of the ranges around a kernel's launch is the one that started last, whatever its style; of
    several the first in the export. Its name comes without the domain. As in nsys, ranges and calls outside a
    selection count too.
    """
    whole = capture.whole
    events, pairs = _events(whole), launch_pairs_of(whole)
    rows, ends = _on_one_thread(events, ALL)
    start = events["start_ns"][rows]
    innermost = closest(call_spans(whole, pairs.api), Spans(events["global_tid"][rows], start, ends), -start)
    inside = np.flatnonzero(innermost >= 0)
    # A kernel whose call has two rows, of the runtime and of the driver, is in two pairs.
    latest = inside[np.lexsort((innermost[inside], -start[innermost[inside]], pairs.operation[inside]))]
    kernels, first = np.unique(pairs.operation[latest], return_index=True)
    codes, names = _without_missing(*own_texts(whole, rows))
    range_codes = np.full(whole.count("kernel"), -1)
    range_codes[kernels] = codes[innermost[latest[first]]]
    return range_codes[capture.columns("kernel", "row")["row"] - 1], names


def call_spans(capture: Capture, rows: NDArray[Any]) -> Spans:
    """Return thread, start and end of API calls."""
    api = capture.columns("api", "global_tid", "start_ns", "end_ns")
    return Spans(api["global_tid"][rows], api["start_ns"][rows], api["end_ns"][rows])


def closed_ranges(whole: Capture) -> tuple[NDArray[Any], Spans]:
    """Return positions and spans of the ranges that ended on the thread they began on, by start."""
    fields = ("event_type", "start_ns", "end_ns", "global_tid", "end_global_tid")
    events = whole.columns("nvtx", *fields)
    closed = one_of(events["event_type"], ALL) & (events["end_ns"] >= events["start_ns"])  # MISSING is less
    closed &= (events["end_global_tid"] == MISSING) | (events["end_global_tid"] == events["global_tid"])
    closed &= events["global_tid"] != MISSING
    rows = np.flatnonzero(closed)
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    return rows, Spans(*(events[field][rows] for field in ("global_tid", "start_ns", "end_ns")))


def thread_ranges(whole: Capture) -> tuple[NDArray[Any], Spans]:
    """Return positions and spans of the ranges that did not end on another thread, in row order.

    A range that never ended lasts to the last NVTX event, as in nsys. nsys leaves out start/end ranges with
    a thread at their end, which newer exports have for all of them.
    """
    events = whole.columns("nvtx", *_TIMES)
    rows = _of_types(events, ALL)
    ended_by = events["end_global_tid"][rows]
    stayed = (ended_by == MISSING) | (ended_by == events["global_tid"][rows])
    rows, ends = rows[stayed], _closed(events, rows)[stayed]
    known = (ends >= events["start_ns"][rows]) & (events["global_tid"][rows] != MISSING)
    rows, ends = rows[known], ends[known]
    return rows, Spans(events["global_tid"][rows], events["start_ns"][rows], ends)


def moved_notes(whole: Capture) -> tuple[Note, ...]:
    """Return a note if ranges ended on another thread than they began on: they hold no launches."""
    if not whole.has("nvtx"):
        return ()
    events = whole.columns("nvtx", *_TIMES)
    rows = _of_types(events, ALL)
    ended_by = events["end_global_tid"][rows]
    moved = int(((ended_by != MISSING) & (ended_by != events["global_tid"][rows])).sum())
    return (Note("ranges_moved", {"ranges": moved}),) if moved else ()


def own_texts(
    capture: Capture, rows: NDArray[Any], *, registered: bool = True
) -> tuple[NDArray[Any], list[str | None]]:
    """Return a code per NVTX event and the sorted texts: the registered string or the event's own text."""
    texts = _all_texts(capture, registered=registered)
    used, codes = distinct(texts.codes[rows])
    return rank_texts(codes, [texts.texts[code] for code in used.tolist()])


@per_capture
def _all_texts(capture: Capture, *, registered: bool) -> TextColumn:
    events = capture.columns("nvtx", "text", "text_id")
    own = TextColumn.of(events["text"])
    texts = [text if isinstance(text, str) else None for text in own.texts]
    if not registered:
        return TextColumn(own.codes, texts)
    known, codes = distinct(events["text_id"])
    strings = [capture.text(i) for i in known.tolist()]
    plain = np.array([text is None for text in strings], dtype=bool)[codes]
    return TextColumn(np.where(plain, own.codes + len(strings), codes), [*strings, *texts])


def _without_missing(codes: NDArray[Any], texts: list[str | None]) -> tuple[NDArray[Any], list[str]]:
    """Return codes and texts without the missing text, which comes first. Its code becomes -1."""
    names = [text for text in texts if text is not None]
    return codes - (len(texts) - len(names)), names


def _events(capture: Capture) -> Events:
    return capture.columns("nvtx", *_EVENTS)


def _of_types(events: Events, types: tuple[int, ...]) -> NDArray[Any]:
    rows: NDArray[Any] = np.flatnonzero(one_of(events["event_type"], types))
    return rows


def _on_one_thread(events: Events, types: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ranges that ended on the thread they started on, and their ends."""
    rows = _of_types(events, types)
    stayed = events["end_global_tid"][rows] == MISSING
    return rows[stayed], _closed(events, rows)[stayed]


def _closed(events: Events, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the ends. As in nsys, a missing one is the last start or end of these events."""
    ends: NDArray[Any] = events["end_ns"][rows]
    known = ends != MISSING
    if known.any():
        ends = np.where(known, ends, max(ends.max(), events["start_ns"][rows].max()))
    return ends


def _with_names(
    capture: Capture, events: Events, rows: NDArray[Any], ends: NDArray[Any], *, every_creator: bool
) -> Ranges:
    notes = []
    if opened := int((events["end_ns"][rows] == MISSING).sum()):
        notes.append(Note("ranges_open", {"ranges": opened}))
    own, texts = own_texts(capture, rows)
    key, keys = group_keys(process_ids(events["global_tid"][rows]), events["domain_id"][rows])
    created = _domains(capture, events)
    titles = [created.get(pair, [None]) for pair in zip(*(part.tolist() for part in keys), strict=True)]
    times = np.array([len(title) for title in titles], np.int64)[key]
    if (times > 1).any():
        notes.append(Note("domain_once_a_thread" if every_creator else "domain_once", {}))
    again, nth = repeated(times if every_creator else np.ones_like(times))
    codes, parts = group_keys(key[again], nth, own[again])
    labels = [
        _label(titles[k][n], texts[text], always_colon=capture.view.rounding == "2025")
        for k, n, text in zip(*(part.tolist() for part in parts), strict=True)
    ]
    rows = rows[again]
    return Ranges(
        events["row"][rows],
        Spans(events["global_tid"][rows], events["start_ns"][rows], ends[again]),
        one_of(events["event_type"][rows], NVTX_START_END).astype(np.int64),
        *_without_missing(*rank_texts(codes, labels)),
        tuple(notes),
    )


def _domains(capture: Capture, events: Events) -> dict[tuple[int, int], list[str | None]]:
    """Return the names of each domain by process and domain id: one per thread that created it.

    The first name of a thread counts. Before 2025 nsys did not resolve registered strings here.
    """
    rows = np.flatnonzero(_creates_domain(events))
    if not len(rows):
        return {}
    thread, domain = events["global_tid"][rows], events["domain_id"][rows]
    codes, texts = own_texts(capture, rows, registered=capture.view.rounding == "2025")
    process = process_ids(thread)
    created: dict[tuple[int, int], dict[int, str | None]] = {}
    for i in np.lexsort((events["start_ns"][rows], thread)).tolist():
        threads = created.setdefault((int(process[i]), int(domain[i])), {})
        threads.setdefault(int(thread[i]), texts[codes[i]])
    return {key: list(threads.values()) for key, threads in created.items()}


def _creates_domain(events: Events) -> NDArray[Any]:
    """Return which events name a domain; as in nsys, a missing thread or number equals no other."""
    known = (events["domain_id"] != MISSING) & (events["global_tid"] != MISSING)
    return known & (events["event_type"] == NVTX_DOMAIN)  # type: ignore[no-any-return]


def _label(domain: str | None, text: str | None, *, always_colon: bool) -> str | None:
    """Return a range's name as nsys writes it. Since 2025 it has a colon even without domain or text."""
    if always_colon:
        return f"{domain or ''}:{text or ''}"
    return text if domain is None or text is None else f"{domain}:{text}"


def range_labels(whole: Capture, rows: NDArray[Any]) -> tuple[NDArray[Any], list[str | None]]:
    """Return a code per NVTX range and the name of each, as ``--nvtx`` takes it: ``NAME@DOMAIN``."""
    labels = _all_labels(whole)
    used, codes = distinct(labels.codes[rows])
    return rank_texts(codes, [labels.texts[code] for code in used.tolist()])


@per_capture
def _all_labels(whole: Capture) -> TextColumn:
    """Return the name of every NVTX event, as ``--nvtx`` takes it."""
    codes, named = texts_and_domains(whole, np.arange(whole.count("nvtx")))
    labels = [None if text is None else f"{text}@{domain}" if domain else text for text, domain in named]
    return TextColumn(*rank_texts(codes, labels))


def any_label_has(whole: Capture, substring: str) -> bool:
    """Return True if the name of any NVTX event contains this text."""
    return whole.has("nvtx") and any(substring in (text or "") for text in _all_labels(whole).texts)


def texts_and_domains(
    whole: Capture, rows: NDArray[Any]
) -> tuple[NDArray[Any], list[tuple[str | None, str]]]:
    """Return a code per NVTX event, and the text and the domain of each code; empty without a name."""
    events = whole.columns("nvtx", "global_tid", "domain_id")
    key, keys = group_keys(process_ids(events["global_tid"][rows]), events["domain_id"][rows])
    domains = _first_domains(whole)
    names = [domains.get(pair, "") for pair in zip(*(part.tolist() for part in keys), strict=True)]
    own, texts = own_texts(whole, rows)
    codes, (text, domain) = group_keys(own, key)
    return codes, [(texts[i], names[j]) for i, j in zip(text.tolist(), domain.tolist(), strict=True)]


def marks_named(whole: Capture, text: str, domain: str) -> NDArray[Any]:
    """Return the positions of the NVTX marks with this text in this domain, among all NVTX events."""
    rows = np.flatnonzero(whole.columns("nvtx", "event_type")["event_type"] == NVTX_MARK)
    codes, named = texts_and_domains(whole, rows)
    return rows[np.array([pair == (text, domain) for pair in named] or [False])[codes]]  # type: ignore[no-any-return]


def domain_names(whole: Capture) -> set[str]:
    """Return the names of the NVTX domains of all processes."""
    return set(_first_domains(whole).values())


def xla_broke_import(capture: Capture) -> bool:
    """Return True if nsys failed to import events, and XLA made NVTX ranges: their texts are the reason."""
    failed = any(diagnostic.text.startswith(IMPORT_ERROR) for diagnostic in capture.diagnostics)
    return failed and capture.whole.has("nvtx") and XLA_DOMAIN in domain_names(capture.whole)


def _first_domains(whole: Capture) -> dict[tuple[int, int], str]:
    """Return the domain's name by process and domain id, as it was created first."""
    events = whole.columns("nvtx", "event_type", "global_tid", "domain_id", "text")
    rows = np.flatnonzero(_creates_domain(events))[::-1]
    if not len(rows):
        return {}
    keys = zip(
        process_ids(events["global_tid"][rows]).tolist(), events["domain_id"][rows].tolist(), strict=True
    )
    names = [text if isinstance(text, str) else "" for text in events["text"][rows].tolist()]
    return dict(zip(keys, names, strict=True))


@dataclass(frozen=True)
class Projections:
    """The ranges that launched GPU operations (``which``, positions in ``ranges``), and their projections.

    A projection lasts from the start of the first operation to the end of the last, in ns, with all gaps.
    ``operations`` counts distinct correlation ids, so a graph of many kernels is one. ``children`` counts
    the ranges right below that launched something too.
    """

    ranges: Ranges
    nesting: SpanTree
    which: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]
    operations: NDArray[Any]
    children: NDArray[Any]


@per_capture
def projections(capture: Capture) -> Projections:
    """Return the projections of all ranges that have a name, as nsys since 2024."""
    ranges = nested_ranges(capture)
    nesting = tree(ranges.spans)
    call, start, end = _launched(capture)
    calls = call_spans(capture, call)
    inner, outer = enclosures(calls, ranges.spans)
    count = len(ranges.row)
    first, last = _hull(outer, start[inner], end[inner], count)
    which = np.flatnonzero(np.bincount(outer, minlength=count))
    start, end = first[which], last[which]
    correlation = capture.columns("api", "correlation_id")["correlation_id"][call]
    operations = np.bincount(outer, minlength=count) - _again(calls.thread, correlation, inner, outer, count)
    parent = nesting.parent[which]
    children = np.bincount(parent[parent >= 0], minlength=count)
    named = ranges.code[which] >= 0
    which = which[named]
    return Projections(ranges, nesting, which, start[named], end[named], operations[which], children[which])


def _again(thread: Ints, correlation: Ints, inner: Ints, outer: Ints, ranges: int) -> Ints:
    """Return how many of the calls in each range have the correlation id of another one there."""
    ids, _ = group_keys(thread, correlation)
    repeats = (np.bincount(ids) > 1)[ids] if len(ids) else np.empty(0, dtype=bool)
    mine = repeats[inner]
    (of_range, _) = group_keys(outer[mine], ids[inner[mine]])[1]
    return np.bincount(outer[mine], minlength=ranges) - np.bincount(of_range, minlength=ranges)


def _launched(capture: Capture) -> tuple[Ints, Ints, Ints]:
    """Return the API calls that started operations, the first start of these and the last end."""
    count = capture.count("api")
    first, last = _hull(*(np.empty(0, np.int64),) * 3, count)
    launching = np.zeros(count, dtype=bool)
    for kind in filter(capture.has, OPERATIONS):
        pairs = launch_pairs_of(capture, kind)
        times = capture.columns(kind, *SPANS)
        start, end = (times[field][pairs.operation] for field in SPANS)
        edges = _hull(pairs.api, start, end, count)
        np.minimum(first, edges[0], out=first)
        np.maximum(last, edges[1], out=last)
        launching[pairs.api] = True
    calls = np.flatnonzero(launching)
    return calls, first[calls], last[calls]


def _hull(keys: Ints, start: Ints, end: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the first start and the last end of each key below ``count``; one without has no meaning."""
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, MISSING)
    np.minimum.at(first, keys, start)
    np.maximum.at(last, keys, end)
    return first, last
