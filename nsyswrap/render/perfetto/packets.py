"""Write a trace as Perfetto's TracePackets: one sequence of packets a GPU or process, lane after lane.

A lane begins with its clock and the texts that it is the first of its sequence to use. Then its events follow
in the order of time: the begin or the end of a slice, its style, the number of kernels that run, the arrows
that begin or end there, and the time since the event before.

A packet of ``_block``, where "style" is what the events of a variety share, encoded once by
``_EncodedStyles``::

    | tag, size, sequence, flags | tag, event's size | style | count | arrows, 10 bytes each | tag, time |
      head                         varieties.fields            counts  first + 0, 1, 2, ...      delta

All packets whose parts have the same sizes (a layout) are rows of one structured array, which is filled by
columns and copied to its places in the block. So Python runs once for each layout, not for each event. A
block has up to ``BLOCK_ROWS`` events and needs nothing of other blocks: threads encode them in any order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys, order_by_code
from nsyswrap.base.constants import MISSING
from nsyswrap.render.perfetto import wire
from nsyswrap.render.perfetto.events import Counter
from nsyswrap.render.perfetto.trace import Trace
from nsyswrap.render.perfetto.tracks import Argument, KindStyles, Lanes, Slices, Track
from nsyswrap.render.perfetto.wire import WireCells, field, number_field
from nsyswrap.render.timeline.lanes import by_lane, event_places
from nsyswrap.render.timeline.names import NO_NAME

Block = Callable[[], bytes]
_Part = tuple[int, Block]  # and its number of events
_Known = dict[int, NDArray[np.bool_]]

BLOCK_ROWS = 2**16  # events that are encoded at a time: some MB
_PACKET = 1  # field of Trace
# Fields of TracePacket.
_CLOCKS, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED = 6, 8, 10, 11, 12
_FLAGS, _CLOCK_ID, _DEFAULTS, _TRACK, _ATTRIBUTES = 13, 58, 59, 60, 126
_CLEARED, _NEEDED = 1, 2  # sequence_flags: the state of the sequence begins, is needed
_REALTIME, _TRACE_CLOCK, _OWN_CLOCK = 1, 6, 64  # clocks: UTC, Perfetto's main one, that of a sequence
# Fields of TrackEvent, and its types.
_CATEGORY, _ARGUMENT, _TYPE, _NAME, _UUID, _RUNNING, _COUNT, _COUNTED = 3, 4, 9, 10, 11, 12, 30, 31
_DOUBLE, _CALLS, _CALLED, _GROUP = 44, 47, 48, 54
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
# Fields of InternedData.
_CATEGORIES, _NAMES, _ARGUMENT_NAMES, _STRINGS, _GROUPS = 1, 2, 3, 29, 43
_EXPLICIT = 3  # TrackDescriptor.child_ordering


def blocks(trace: Trace) -> Iterator[Block]:
    """Yield functions that return the trace in blocks of bytes; any thread can call them."""
    parts: list[Block] = []
    rows = 0
    for more, part in _parts(trace):
        if rows and rows + more > BLOCK_ROWS:
            yield partial(_together, parts)
            parts, rows = [], 0
        parts.append(part)
        rows += more
    yield partial(_together, parts)


def _together(parts: Sequence[Block]) -> bytes:
    return b"".join(part() for part in parts)


def _parts(trace: Trace) -> Iterator[_Part]:
    first = trace.first_ns
    # Perfetto has no times before 0. The earlier start counts, so that all others keep the capture's time.
    shift = max(-first, 0)
    base = first + shift
    yield 0, partial(_head, trace, base, shift)
    styles = _EncodedStyles(trace.styles.kinds)
    sequences = _Sequences(trace.lanes, styles, base)
    for slices in trace.slices:
        for rows in by_lane(slices.lane):
            yield from _lane(styles, slices, rows, sequences, base - shift)
    for counter in trace.counters:
        yield from _counter(counter, sequences, base - shift)


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
    packets += [field(_TRACK, _descriptor(track, index)) for index, track in enumerate(trace.lanes.tracks)]
    return b"".join(field(_PACKET, packet + number_field(_SEQUENCE, 1)) for packet in packets)


def _clock_snapshot(clocks: Iterable[tuple[int, int]]) -> bytes:
    texts = (
        field(1, number_field(1, clock) + number_field(2, time) + number_field(3, clock == _OWN_CLOCK))
        for clock, time in clocks
    )
    return field(_CLOCKS, b"".join(texts) + number_field(2, _TRACE_CLOCK))


def _descriptor(track: Track, index: int) -> bytes:
    """Return a TrackDescriptor. GPUs are no processes: viewers show tracks without one at the top."""
    content = number_field(1, index + 1) + number_field(12, index)
    if track.parent is not None and track.kind != "thread":
        content += number_field(5, track.parent + 1)
    if track.kind == "process":
        about = number_field(1, track.process) + number_field(3, index) + field(6, track.name)
        content += field(3, about) + number_field(19, 1)
    elif track.kind == "thread":
        about = number_field(1, track.process) + number_field(2, track.thread) + number_field(3, index)
        content += field(4, about + field(5, track.name)) + number_field(20, 1)
    else:
        content += field(2, track.name) + number_field(15, 2)  # not merged with one of the same name
    if track.kind == "counter":
        content += field(8, field(6, track.unit))
    return content + number_field(11, _EXPLICIT)


class _Sequences:
    """The sequences of a trace: one for each GPU and process, so that their lanes share texts.

    Each lane sets the clock of its sequence back to ``base``. From there it counts from event to event.
    """

    def __init__(self, lanes: Lanes, styles: _EncodedStyles, base: int) -> None:
        self._lanes = lanes
        self._styles = styles
        self._clock = _clock_snapshot(((_TRACE_CLOCK, base), (_OWN_CLOCK, base)))
        self._begun: dict[int, tuple[bytes, _Known]] = {}

    def lane(self, track: int, used: NDArray[Any], counter: int = -1) -> tuple[bytes, bytes]:
        """Return the packets that begin a lane with these styles, and the fields that its others begin with.

        ``counter`` is the track of the counts at its events, or -1.
        """
        root = track
        while (parent := self._lanes.tracks[root].parent) is not None:
            root = parent
        packet, flags = self._clock, _NEEDED
        if root not in self._begun:
            defaults = number_field(_CLOCK_ID, _OWN_CLOCK)
            if counter >= 0:
                defaults += field(_EVENT, number_field(_COUNTED, counter + 1))
            packet, flags = packet + field(_DEFAULTS, defaults), _CLEARED
            self._begun[root] = number_field(_SEQUENCE, len(self._begun) + 2), self._styles.none_known()
        sequence, known = self._begun[root]
        head = sequence + number_field(_FLAGS, _NEEDED)
        begin = field(_PACKET, packet + sequence + number_field(_FLAGS, flags))
        texts = self._styles.interned(used, known)
        return begin + (field(_PACKET, head + field(_INTERNED, texts)) if texts else b""), head


def _lane(
    styles: _EncodedStyles, slices: Slices, rows: slice, sequences: _Sequences, zero: int
) -> Iterator[_Part]:
    """Yield the packets of a lane. ``zero`` is the time of the capture at which the clock begins."""
    track = int(slices.lane[rows.start])
    counter = int(slices.running.track[rows.start]) if slices.running else -1
    most = int(slices.arrows[rows].max(initial=0)) + 1
    known, variety = distinct(slices.style[rows] * np.int64(most) + slices.arrows[rows])
    used, many = np.divmod(known, most)
    begin, head = sequences.lane(track, used, counter)
    yield 0, lambda: begin
    fields = styles.cells(used, _same(_INSTANT if slices.points else _BEGIN, track))
    if slices.points:
        yield from _packets(head, _Rows(slices.start_ns[rows], variety).since(zero), _events(fields))
        return
    rows_of = _interleaved(slices, rows, variety, len(known))
    fields = wire.stacked([fields, wire.constant(_same(_END, track), 1)])
    arrows = _Arrows(_CALLS if slices.calling else _CALLED, np.append(many, 0))
    events = _events(fields, arrows, int(rows_of.running.max()) if counter >= 0 else -1)
    yield from _packets(head, rows_of.since(zero), events)


def _interleaved(slices: Slices, rows: slice, variety: NDArray[Any], end_variety: int) -> _Rows:
    """Return the begins and the ends of the slices of a lane in the order of time."""
    start, end = slices.start_ns[rows], slices.end_ns[rows]
    begins, ends = event_places(start, end)
    times, first = np.empty(2 * len(start), np.int64), np.zeros(2 * len(start), np.int64)
    which = np.full(len(times), end_variety, np.int32)
    times[begins], which[begins], first[begins] = start, variety, slices.arrow[rows]
    times[ends] = end
    if slices.running is None:
        return _Rows(times, which, first)
    count = np.empty(len(times), np.int32)
    count[begins], count[ends] = slices.running.begin[rows], slices.running.end[rows]
    return _Rows(times, which, first, count)


def _same(kind: int, track: int) -> bytes:
    """Return the fields that are the same in all events of one type in a lane."""
    return number_field(_TYPE, kind) + number_field(_UUID, track + 1)


def _counter(counter: Counter, sequences: _Sequences, zero: int) -> Iterator[_Part]:
    begin, head = sequences.lane(counter.track, np.empty(0, np.int64))
    yield 0, lambda: begin
    known, which = distinct(counter.values.view(np.int64))
    form = wire.fixed_cells if counter.values.dtype.kind == "f" else wire.varint_cells
    value = form(_DOUBLE if form is wire.fixed_cells else _COUNT, known)
    fields = wire.joined([wire.constant(_same(_COUNTER, counter.track), len(known)), value])
    yield from _packets(head, _Rows(counter.times_ns, which).since(zero), _events(fields))


_ARROW = np.dtype([("tag", "V2"), ("number", ">u8")])  # the byte that changes is next to the time: see _block
_ARROW_BYTES = _ARROW.itemsize


class _Arrows(NamedTuple):
    """The arrows of a lane: their field, and how many a variety of events has."""

    field: int
    many: NDArray[Any]


class _Events(NamedTuple):
    """The varieties of a lane: the fields of each but its count and arrows; the field of each count."""

    fields: WireCells
    arrows: _Arrows
    counts: NDArray[np.uint8]


def _events(fields: WireCells, arrows: _Arrows | None = None, most: int = -1) -> _Events:
    """Return events with these fields, and with counts up to ``most`` unless it is -1."""
    arrows = arrows or _Arrows(_CALLED, np.zeros(len(fields.size), np.int64))
    tag = np.frombuffer(wire.tag(_RUNNING, wire.VARINT), np.uint8)
    counts = np.zeros((1, 0), np.uint8)
    if most >= 0:
        numbers = wire.digits(np.arange(most + 1), len(wire.varint(most)))
        counts = np.hstack([np.broadcast_to(tag, (most + 1, 1)), numbers])
    head = wire.constant(wire.tag(_EVENT, wire.BYTES), len(fields.size))
    content = wire.varints(fields.size + counts.shape[1] + arrows.many * _ARROW_BYTES)
    return _Events(wire.joined([head, content, fields]).aligned(), arrows, counts)


class _Rows(NamedTuple):
    """The events of a lane: times in ns, varieties, and where there are any their first arrows and counts."""

    times: NDArray[Any]
    which: NDArray[Any]
    first: NDArray[Any] = np.zeros(1, np.int8)
    running: NDArray[Any] = np.zeros(1, np.int8)

    def since(self, zero: int) -> _Rows:
        """Return the events with the time since the one before instead."""
        return self._replace(times=np.diff(self.times, prepend=zero))

    def block(self, at: int) -> _Rows:
        rows = slice(at, at + BLOCK_ROWS)
        return _Rows(*(np.broadcast_to(column, len(self.times))[rows] for column in self))


def _packets(head: bytes, rows: _Rows, events: _Events) -> Iterator[_Part]:
    """Yield the packets of events; ``rows`` have the time since the event before."""
    for at in range(0, len(rows.times), BLOCK_ROWS):
        block = rows.block(at)
        yield len(block.times), partial(_block, head, block, events)


def _block(head: bytes, events: _Rows, varieties: _Events) -> bytes:
    """Return packets. Those whose parts have the same sizes are filled side by side.

    What varies most comes last, and side by side: gzip then finds the longest equal parts.
    """
    delta, which, first, running = events
    fields, arrows, counts = varieties
    short = np.maximum(wire.sizes(delta), 2)  # a varint may have more bytes: fewer layouts differ
    layout, (time, event, many) = group_keys(short, fields.size[which], arrows.many[which])
    size = 1 + time + event + many * _ARROW_BYTES + counts.shape[1] + len(head)
    prefix = 1 + wire.sizes(size)
    places = np.append(0, np.cumsum((prefix + size)[layout]))
    block = np.empty(places[-1], np.uint8)
    rows_of = np.split(order_by_code(layout, len(size)), np.cumsum(np.bincount(layout))[:-1])
    columns = (column.tolist() for column in (size, time, event, many))
    for rows, packet, digits, body, flows in zip(rows_of, *columns, strict=True):
        begin = wire.tag(_PACKET, wire.BYTES) + wire.varint(packet) + head
        parts: list[Any] = [("begin", f"V{len(begin)}"), ("event", f"V{body}")]
        parts += [("count", np.uint8, counts.shape[1:]), ("arrows", _ARROW, (flows,))]
        parts += [("tag", np.uint8), ("time", f"V{digits}")]
        packets = np.empty(len(rows), np.dtype(parts))
        packets["begin"] = np.void(begin)
        packets["event"] = wire.items(fields.data, body, fields.data.shape[1])[which[rows]]
        packets["count"] = counts[running[rows]]
        packets["arrows"]["tag"] = np.void(wire.tag(arrows.field, wire.FIXED64))
        packets["arrows"]["number"] = first[rows][:, None] + np.arange(flows)
        packets["tag"] = _TIMESTAMP << 3 | wire.VARINT
        packets["time"] = wire.items(wire.digits(delta[rows], digits), digits, digits)
        wire.items(block, packets.itemsize, 1)[places[rows]] = packets.view(f"V{packets.itemsize}")
    return block.tobytes()


class _EncodedStyles:
    """The encoded styles of all slices, and the texts that each one uses.

    The texts of each field of InternedData are numbered from 1.
    """

    def __init__(self, kinds: Sequence[KindStyles]) -> None:
        self._numbers: dict[int, dict[str, int]] = defaultdict(dict)
        self._uses: list[tuple[int, int, list[tuple[int, NDArray[Any]]]]] = []
        self._count = 0
        self._cells = wire.stacked([wire.constant(b"", 0), *(self._encoded(styles) for styles in kinds)])
        self._texts = {kind: list(numbers) for kind, numbers in self._numbers.items()}

    def _column(self, kind: int, codes: NDArray[Any], texts: Sequence[str | None]) -> NDArray[Any]:
        """Return the number of the text of each style; 0 for none."""
        known = self._numbers[kind]
        numbers = [known.setdefault(text or NO_NAME, len(known) + 1) for text in texts]
        column: NDArray[Any] = np.array([*numbers, 0], np.int64)[np.where(codes == MISSING, -1, codes)]
        self._uses[-1][2].append((kind, column))
        return column

    def _encoded(self, styles: KindStyles) -> WireCells:
        rows = len(styles.name)
        self._uses.append((self._count, rows, []))
        self._count += rows
        same = np.zeros(rows, np.int64)
        fields = [
            wire.varint_cells(_NAME, self._column(_NAMES, styles.name, styles.names)),
            wire.varint_cells(_CATEGORY, self._column(_CATEGORIES, same, [styles.kind])),
        ]
        if styles.groups:
            fields.append(wire.varint_cells(_GROUP, self._column(_GROUPS, styles.group, styles.groups)))
        return wire.joined(
            fields + [self._argument(*argument) for argument in styles.arguments.items()]
        ).aligned()

    def _argument(self, name: str, argument: Argument) -> WireCells:
        values, known = argument.values, argument.values != MISSING
        title = self._column(_ARGUMENT_NAMES, np.zeros(len(values), np.int64), [name])
        if argument.texts is not None:
            value = wire.varint_cells(17, self._column(_STRINGS, values, argument.texts))
        else:
            value = wire.varint_cells(7 if name == "address" else 4, np.where(known, values, 0))
        return wire.message_cells(_ARGUMENT, wire.varint_cells(1, title), value).where(known)

    def cells(self, styles: NDArray[Any], same: bytes) -> WireCells:
        """Return the fields of events with these styles; ``same`` are those that all of them have."""
        return wire.joined([wire.constant(same, len(styles)), self._cells.take(styles)])

    def none_known(self) -> _Known:
        """Return a mask over the texts of each field, for the texts that a sequence knows."""
        return {kind: np.zeros(len(texts), bool) for kind, texts in self._texts.items()}

    def interned(self, styles: NDArray[Any], known: _Known) -> bytes:
        """Return those texts of these styles that are not ``known`` yet, as InternedData."""
        used = {kind: np.zeros(len(texts) + 1, bool) for kind, texts in self._texts.items()}
        for start, count, columns in self._uses:
            mine = styles[(styles >= start) & (styles < start + count)] - start
            for kind, numbers in columns:
                used[kind][numbers[mine]] = True
        added = []
        for kind, texts in sorted(self._texts.items()):
            new = np.flatnonzero(used[kind][1:] & ~known[kind]).tolist()
            known[kind][new] = True
            added += [field(kind, number_field(1, place + 1) + field(2, texts[place])) for place in new]
        return b"".join(added)
