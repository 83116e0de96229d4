"""Write a trace as Perfetto's TracePackets: one sequence of packets a lane, each in the order of time.

A sequence begins with its clock, its track and the texts that it uses. Then its events follow: the time since
the event before, the begin or the end of a slice, its look, and the arrows that begin or end there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.base.missing import MISSING
from nsyswrap.render.perfetto import wire
from nsyswrap.render.perfetto.slices import NO_NAME
from nsyswrap.render.perfetto.sublanes import by_lane, event_places
from nsyswrap.render.perfetto.wire import field, number_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.counters import Counter
    from nsyswrap.render.perfetto.lanes import Track
    from nsyswrap.render.perfetto.slices import Argument, LooksOfKind, Slices
    from nsyswrap.render.perfetto.trace import Trace
    from nsyswrap.render.perfetto.wire import Cells

BLOCK_ROWS = 2**15  # events that are encoded at a time: some MB
_PACKET = 1  # field of Trace
# Fields of TracePacket.
_CLOCKS, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED = 6, 8, 10, 11, 12
_FLAGS, _CLOCK_ID, _DEFAULTS, _TRACK, _ATTRIBUTES = 13, 58, 59, 60, 126
_CLEARED, _NEEDED = 1, 2  # sequence_flags: the state of the sequence begins, is needed
_REALTIME, _TRACE_CLOCK, _OWN_CLOCK = 1, 6, 64  # clocks: UTC, Perfetto's main one, that of a sequence
# Fields of TrackEvent, and its types.
_CATEGORY, _ARGUMENT, _TYPE, _NAME, _UUID, _COUNT, _DOUBLE, _CALLS, _CALLED, _GROUP = (
    *(3, 4, 9, 10, 11, 30, 44, 47, 48),
    54,
)
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
# Fields of InternedData.
_CATEGORIES, _NAMES, _ARGUMENT_NAMES, _STRINGS, _GROUPS = 1, 2, 3, 29, 43
_EXPLICIT = 3  # TrackDescriptor.child_ordering


def blocks(trace: Trace) -> Iterator[bytes]:
    """Yield the trace in blocks of bytes."""
    first = trace.first_ns
    # Perfetto has no times before 0. The earlier start counts, so that all others keep the capture's time.
    shift = max(-first, 0)
    base = first + shift
    yield _head(trace, base, shift)
    looks = _Looks(trace.looks.parts)
    sequence = 1
    for slices in trace.slices:
        for rows in by_lane(slices.lane):
            sequence += 1
            yield from _lane(looks, slices, rows, sequence, base - shift)
    for counter in trace.counters:
        sequence += 1
        yield from _counter(counter, sequence, base - shift)


def _head(trace: Trace, base: int, shift: int) -> bytes:
    """Return the packets on the whole trace: clocks, where it comes from, and the tracks."""
    clocks = [(_TRACE_CLOCK, base)]
    if trace.started_ns is not None:
        clocks.append((_REALTIME, trace.started_ns + base - shift))
    about = dict(trace.about)
    if shift:
        about["time_shift_ns"] = str(shift)
    texts = b"".join(field(1, field(1, f"nsyswrap.{key}") + field(3, text)) for key, text in about.items())
    packets = [_clock_snapshot(clocks) + number_field(_FLAGS, _CLEARED), field(_ATTRIBUTES, texts)]
    packets += [field(_TRACK, _descriptor(track, place)) for place, track in enumerate(trace.lanes.tracks)]
    return b"".join(field(_PACKET, packet + number_field(_SEQUENCE, 1)) for packet in packets)


def _clock_snapshot(clocks: Iterable[tuple[int, int]]) -> bytes:
    texts = (
        field(1, number_field(1, clock) + number_field(2, time) + number_field(3, clock == _OWN_CLOCK))
        for clock, time in clocks
    )
    return field(_CLOCKS, b"".join(texts) + number_field(2, _TRACE_CLOCK))


def _descriptor(track: Track, place: int) -> bytes:
    """Return a TrackDescriptor. GPUs are no processes: viewers show tracks without one at the top."""
    content = number_field(1, place + 1) + number_field(12, place)
    if track.parent is not None and track.kind != "thread":
        content += number_field(5, track.parent + 1)
    if track.kind == "process":
        about = number_field(1, track.process) + number_field(3, place) + field(6, track.name)
        content += field(3, about) + number_field(19, 1)
    elif track.kind == "thread":
        about = number_field(1, track.process) + number_field(2, track.thread) + number_field(3, place)
        content += field(4, about + field(5, track.name)) + number_field(20, 1)
    else:
        content += field(2, track.name) + number_field(15, 2)  # not merged with one of the same name
    if track.kind == "counter":
        content += field(8, field(6, track.unit))
    return content + number_field(11, _EXPLICIT)


def _start(sequence: int, track: int, base: int) -> bytes:
    """Return the first packet of a sequence: its clock, which counts from event to event, and its track."""
    defaults = number_field(58, _OWN_CLOCK) + field(11, number_field(11, track + 1))
    packet = _clock_snapshot(((_TRACE_CLOCK, base), (_OWN_CLOCK, base)))
    packet += field(_DEFAULTS, defaults) + number_field(_SEQUENCE, sequence)
    return field(_PACKET, packet + number_field(_FLAGS, _CLEARED))


def _of(sequence: int) -> bytes:
    return number_field(_SEQUENCE, sequence) + number_field(_FLAGS, _NEEDED)


def _lane(looks: _Looks, slices: Slices, rows: slice, sequence: int, zero: int) -> Iterator[bytes]:
    """Yield the packets of a lane. ``zero`` is the time of the capture at which the clock begins."""
    start, end = slices.start_ns[rows], slices.end_ns[rows]
    base = max(zero, 0)
    yield _start(sequence, int(slices.lane[rows.start]), base)
    arrows = slices.arrows[rows].astype(np.int64)
    most = int(arrows.max(initial=0)) + 1
    known, variety = distinct(slices.look[rows] * np.int64(most) + arrows)
    used = known // most
    yield field(_PACKET, _of(sequence) + field(_INTERNED, looks.interned(used)))
    looking = looks.cells(used, _INSTANT if slices.points else _BEGIN)
    events = _events(sequence, looking, known % most)
    count = len(start) if slices.points else 2 * len(start)
    begins, ends = (slice(None), slice(0)) if slices.points else event_places(start, end)
    times, which = np.empty(count, np.int64), np.full(count, len(known), np.int32)
    times[begins], which[begins] = start, variety
    if not slices.points:
        times[ends] = end
    first, many = np.zeros((2, count), np.int64) if most > 1 else (None, None)
    if first is not None and many is not None:
        first[begins], many[begins] = slices.arrow[rows], arrows
    delta = np.diff(times, prepend=zero)
    for at in range(0, count, BLOCK_ROWS):
        part = slice(at, at + BLOCK_ROWS)
        tails = None if first is None or many is None else (first[part], many[part])
        yield _packed(delta[part], events.take(which[part]), tails, _CALLS if slices.calling else _CALLED)


def _events(sequence: int, looks: Cells, arrows: NDArray[Any]) -> Cells:
    """Return what follows the time in a packet, up to the arrows: for each look, and for an end."""
    head = _of(sequence)
    size = looks.size + arrows * _ARROW_BYTES
    begins = [wire.constant(head + wire.tag(_EVENT, wire.BYTES), len(size)), wire.varints(size), looks]
    end = wire.constant(head + field(_EVENT, number_field(_TYPE, _END)), 1)
    return wire.stacked([wire.joined(begins), end]).aligned()


_ARROW_BYTES = 10  # two of the tag, and eight


def _packed(
    delta: NDArray[Any], events: Cells, arrows: tuple[NDArray[Any], NDArray[Any]] | None, number: int
) -> bytes:
    """Return packets: the time since the one before, the event, and its arrows in rows of their own."""
    times = wire.varints(delta)
    size = 1 + times.size + events.size
    tails = []
    if arrows is not None:
        first, many = arrows
        size = size + many * _ARROW_BYTES
        tails = [wire.fixed_cells(number, first.astype(np.uint64)).where(many > 0)]
    stamp = wire.constant(wire.tag(_TIMESTAMP, wire.VARINT), len(delta))
    parts = [
        wire.constant(wire.tag(_PACKET, wire.BYTES), len(delta)),
        wire.varints(size),
        stamp,
        times,
        events,
    ]
    cells = wire.joined([*parts, *tails])
    if arrows is None or many.max(initial=0) <= 1:
        return cells.packed()
    return _with_further_arrows(cells, first, many)


def _with_further_arrows(cells: Cells, first: NDArray[Any], many: NDArray[Any]) -> bytes:
    """Repeat a row for each arrow after its first one. Of a repeated row only the arrow counts."""
    again = np.repeat(np.arange(len(many)), np.maximum(many, 1))
    nth = np.arange(len(again)) - np.searchsorted(again, again)
    cells = cells.take(again)
    cells.held[nth > 0, :-_ARROW_BYTES] = False
    cells.data[:, -8:] = (first[again] + nth).astype("<u8").view(np.uint8).reshape(-1, 8)
    return cells.packed()


def _counter(counter: Counter, sequence: int, zero: int) -> Iterator[bytes]:
    yield _start(sequence, counter.track, max(zero, 0))
    delta = np.diff(counter.times_ns, prepend=zero)
    for at in range(0, len(delta), BLOCK_ROWS):
        values = counter.values[at : at + BLOCK_ROWS]
        rows = len(values)
        value = (
            wire.fixed_cells(_DOUBLE, values)
            if values.dtype.kind == "f"
            else wire.varint_cells(_COUNT, values)
        )
        kind = wire.constant(number_field(_TYPE, _COUNTER), rows)
        events = wire.joined([wire.constant(_of(sequence), rows), wire.message_cells(_EVENT, kind, value)])
        yield _packed(delta[at : at + BLOCK_ROWS], events, None, _CALLED)


class _Looks:
    """The encoded looks of all slices, and the texts that each one uses. Texts are numbered from 1."""

    def __init__(self, parts: Sequence[LooksOfKind]) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._texts: list[str] = [""]
        self._uses: list[tuple[int, int, list[tuple[int, NDArray[Any]]]]] = []
        self._count = 0
        self._cells = wire.stacked([wire.constant(b"", 0), *(self._encoded(part) for part in parts)])

    def _number(self, kind: int, text: str) -> int:
        if (kind, text) not in self._numbers:
            self._numbers[kind, text] = len(self._texts)
            self._texts.append(text)
        return self._numbers[kind, text]

    def _column(self, kind: int, codes: NDArray[Any], texts: Sequence[str | None]) -> NDArray[Any]:
        """Return the number of the text of each look; 0 for none."""
        numbers = [self._number(kind, text or NO_NAME) for text in texts]
        column: NDArray[Any] = np.array([*numbers, 0], np.int64)[np.where(codes == MISSING, -1, codes)]
        self._uses[-1][2].append((kind, column))
        return column

    def _encoded(self, part: LooksOfKind) -> Cells:
        """Return the fields of TrackEvent that looks consist of."""
        rows = len(part.name)
        self._uses.append((self._count, rows, []))
        self._count += rows
        same = np.zeros(rows, np.int64)
        fields = [
            wire.varint_cells(_CATEGORY, self._column(_CATEGORIES, same, [part.kind])),
            wire.varint_cells(_NAME, self._column(_NAMES, part.name, part.names)),
        ]
        if part.groups:
            fields.append(wire.varint_cells(_GROUP, self._column(_GROUPS, part.group, part.groups)))
        return wire.joined(
            fields + [self._argument(*argument) for argument in part.arguments.items()]
        ).aligned()

    def _argument(self, name: str, argument: Argument) -> Cells:
        """Return an argument of each look; no bytes where a look has none."""
        values, known = argument.values, argument.values != MISSING
        title = self._column(_ARGUMENT_NAMES, np.zeros(len(values), np.int64), [name])
        if argument.texts is not None:
            value = wire.varint_cells(17, self._column(_STRINGS, values, argument.texts))
        else:
            value = wire.varint_cells(7 if name == "address" else 4, np.where(known, values, 0))
        return wire.message_cells(_ARGUMENT, wire.varint_cells(1, title), value).where(known)

    def cells(self, looks: NDArray[Any], kind: int) -> Cells:
        """Return the fields of these looks, for events of this type."""
        return wire.joined([wire.constant(number_field(_TYPE, kind), len(looks)), self._cells.take(looks)])

    def interned(self, looks: NDArray[Any]) -> bytes:
        """Return the texts that these looks use, as InternedData."""
        used: dict[int, set[int]] = {}
        for start, count, columns in self._uses:
            mine = looks[(looks >= start) & (looks < start + count)] - start
            for kind, numbers in columns:
                used.setdefault(kind, set()).update(distinct(numbers[mine])[0].tolist())
        return b"".join(
            field(kind, number_field(1, number) + field(2, self._texts[number]))
            for kind, numbers in sorted(used.items())
            for number in sorted(numbers - {0})
        )
