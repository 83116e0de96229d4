"""Write a trace as Perfetto's TracePackets: one sequence of packets a lane, each in the order of time.

A sequence begins with its clock, its track and the texts that it uses. Then its events follow: the time since
the event before, the begin or the end of a slice, its look, and the arrows that begin or end there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, group_keys, order_by_code
from nsyswrap.base.missing import MISSING
from nsyswrap.render.perfetto import wire
from nsyswrap.render.perfetto.slices import NO_NAME
from nsyswrap.render.perfetto.wire import field, number_field
from nsyswrap.render.timeline.packing import by_lane, event_places

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
    yield _start(sequence, int(slices.lane[rows.start]), max(zero, 0))
    most = int(slices.arrows[rows].max(initial=0)) + 1
    known, variety = distinct(slices.look[rows] * np.int64(most) + slices.arrows[rows])
    used, many = np.divmod(known, most)
    yield field(_PACKET, _of(sequence) + field(_INTERNED, looks.interned(used)))
    fields = looks.cells(used, _INSTANT if slices.points else _BEGIN)
    if slices.points:
        yield from _packets(sequence, np.diff(start, prepend=zero), variety, fields, _no_arrows(start, known))
        return
    begins, ends = event_places(start, end)
    times, first = np.empty(2 * len(start), np.int64), np.zeros(2 * len(start), np.int64)
    which = np.full(len(times), len(known), np.int32)  # the last variety is that of all ends
    times[begins], which[begins], first[begins] = start, variety, slices.arrow[rows]
    times[ends] = end
    fields = wire.stacked([fields, wire.constant(number_field(_TYPE, _END), 1)])
    arrows = _Arrows(_CALLS if slices.calling else _CALLED, first, np.append(many, 0))
    yield from _packets(sequence, np.diff(times, prepend=zero), which, fields, arrows)


def _counter(counter: Counter, sequence: int, zero: int) -> Iterator[bytes]:
    yield _start(sequence, counter.track, max(zero, 0))
    known, which = distinct(counter.values.view(np.int64))
    form = wire.fixed_cells if counter.values.dtype.kind == "f" else wire.varint_cells
    value = form(_DOUBLE if form is wire.fixed_cells else _COUNT, known)
    fields = wire.joined([wire.constant(number_field(_TYPE, _COUNTER), len(known)), value])
    delta = np.diff(counter.times_ns, prepend=zero)
    yield from _packets(sequence, delta, which, fields, _no_arrows(delta, known))


_ARROW = np.dtype([("tag", "V2"), ("number", "<u8")])
_ARROW_BYTES = _ARROW.itemsize


class _Arrows(NamedTuple):
    """The arrows of a lane: their field, the number of each event's first one, and how many a variety has."""

    field: int
    first: NDArray[Any]
    many: NDArray[Any]


def _no_arrows(events: NDArray[Any], varieties: NDArray[Any]) -> _Arrows:
    return _Arrows(_CALLED, np.zeros(len(events), np.int8), np.zeros(len(varieties), np.int8))


def _packets(
    sequence: int, delta: NDArray[Any], which: NDArray[Any], fields: Cells, arrows: _Arrows
) -> Iterator[bytes]:
    """Yield the packets of events, each after the time since the one before.

    ``which`` is the number of each event's variety, ``fields`` are the fields of each variety but its arrows.
    """
    head = wire.constant(wire.tag(_EVENT, wire.BYTES), len(fields.size))
    content = wire.varints(fields.size + arrows.many * _ARROW_BYTES)
    events = wire.joined([head, content, fields]).aligned()
    for at in range(0, len(delta), BLOCK_ROWS):
        rows = slice(at, at + BLOCK_ROWS)
        first = arrows._replace(first=arrows.first[rows])
        yield _block(_of(sequence), delta[rows], which[rows], events, first)


def _block(tail: bytes, delta: NDArray[Any], which: NDArray[Any], events: Cells, arrows: _Arrows) -> bytes:
    """Return packets. Those whose parts have the same sizes are filled side by side.

    What varies little, the ``tail``, comes last: gzip then finds the longest equal parts.
    """
    layout, (time, event, many) = group_keys(wire.sizes(delta), events.size[which], arrows.many[which])
    size = 1 + time + event + many * _ARROW_BYTES + len(tail)
    prefix = 1 + wire.sizes(size)
    places = np.append(0, np.cumsum((prefix + size)[layout]))
    block = np.empty(places[-1], np.uint8)
    rows_of = np.split(order_by_code(layout, len(size)), np.cumsum(np.bincount(layout))[:-1])
    columns = (column.tolist() for column in (size, time, event, many))
    for rows, packet, digits, body, flows in zip(rows_of, *columns, strict=True):
        head = wire.tag(_PACKET, wire.BYTES) + wire.varint(packet) + wire.tag(_TIMESTAMP, wire.VARINT)
        before = [("head", f"V{len(head)}"), ("time", f"V{digits}"), ("event", f"V{body}")]
        layout_type = np.dtype([*before, ("arrows", _ARROW, (flows,)), ("tail", f"V{len(tail)}")])
        packets = np.empty(len(rows), layout_type)
        packets["head"] = np.void(head)
        packets["time"] = wire.items(wire.digits(delta[rows], digits), digits, digits)
        packets["event"] = wire.items(events.data, body, events.data.shape[1])[which[rows]]
        packets["arrows"]["tag"] = np.void(wire.tag(arrows.field, wire.FIXED64))
        packets["arrows"]["number"] = arrows.first[rows][:, None] + np.arange(flows)
        packets["tail"] = np.void(tail)
        wire.items(block, packets.itemsize, 1)[places[rows]] = packets.view(f"V{packets.itemsize}")
    return block.tobytes()


class _Looks:
    """The encoded looks of all slices, and the texts that each one uses.

    The texts of each field of InternedData are numbered from 1.
    """

    def __init__(self, parts: Sequence[LooksOfKind]) -> None:
        self._numbers: dict[int, dict[str, int]] = defaultdict(dict)
        self._uses: list[tuple[int, int, list[tuple[int, NDArray[Any]]]]] = []
        self._count = 0
        self._cells = wire.stacked([wire.constant(b"", 0), *(self._encoded(part) for part in parts)])

    def _column(self, kind: int, codes: NDArray[Any], texts: Sequence[str | None]) -> NDArray[Any]:
        """Return the number of the text of each look; 0 for none."""
        known = self._numbers[kind]
        numbers = [known.setdefault(text or NO_NAME, len(known) + 1) for text in texts]
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
            wire.varint_cells(_NAME, self._column(_NAMES, part.name, part.names)),
            wire.varint_cells(_CATEGORY, self._column(_CATEGORIES, same, [part.kind])),
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
        return wire.joined([self._cells.take(looks), wire.constant(number_field(_TYPE, kind), len(looks))])

    def interned(self, looks: NDArray[Any]) -> bytes:
        """Return the texts that these looks use, as InternedData."""
        used: dict[int, set[int]] = {}
        for start, count, columns in self._uses:
            mine = looks[(looks >= start) & (looks < start + count)] - start
            for kind, numbers in columns:
                used.setdefault(kind, set()).update(distinct(numbers[mine])[0].tolist())
        return b"".join(
            field(kind, number_field(1, number) + field(2, text))
            for kind, numbers in sorted(used.items())
            for text, number in self._numbers[kind].items()
            if number in numbers
        )
