"""Captures written as traces for Perfetto, decoded with Perfetto's own description of the format."""

import gzip
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from tiny_export import Row, opened

from nsyswrap.capture.capture import Capture
from nsyswrap.render.perfetto import compose, write

CLEARED, NEEDED = 1, 2
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Slice(NamedTuple):
    """A slice or an instant; times in ns."""

    kind: str
    name: str
    track: int
    start: int
    end: int
    args: dict[str, Any]
    depth: int
    group: str


@dataclass
class Read:
    """A trace that keeps all rules; flows are pairs of the slices they connect."""

    about: dict[str, str]
    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)
    flows: list[tuple[Slice, Slice]] = field(default_factory=list)
    counters: dict[tuple[str, str], list[tuple[int, float]]] = field(default_factory=dict)
    counts: dict[int, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    started_ns: int | None = None
    base: int | None = None

    def of(self, kind: str) -> list[Slice]:
        return [part for part in self.slices if part.kind == kind]

    def name(self, track: int) -> str:
        own = self.tracks[track]
        return str(own.name or own.thread.thread_name or own.process.process_name)

    def lane(self, part: Slice) -> str:
        return self.name(part.track)

    def owner(self, part: Slice) -> str:
        """The name of the process or the GPU that a slice belongs to."""
        return self.name(self.root(part.track))

    def root(self, track: int) -> int:
        own = self.tracks[track]
        if own.HasField("thread"):
            [root] = [n for n, one in self.tracks.items() if one.process.pid == own.thread.pid]
            return int(root)
        return self.root(own.parent_uuid) if own.HasField("parent_uuid") else track

    def pid(self, part: Slice) -> int:
        return int(self.tracks[self.root(part.track)].process.pid)

    @property
    def roots(self) -> list[str]:
        """The names of processes and GPUs, in display order."""
        ranked = sorted(self.tracks.items(), key=lambda item: item[1].sibling_order_rank)
        return [self.name(number) for number, _ in ranked if self.root(number) == number]


class _Sequence:
    """The state of a sequence of packets: its clock, its interned texts, the open slices of its tracks."""

    def __init__(self) -> None:
        self.time = -1
        self.running = 0  # the track of the counts at its events
        self.texts: dict[str, dict[int, str]] = defaultdict(dict)
        self.stacks: dict[int, list[list[Any]]] = defaultdict(list)

    def text(self, kind: str, number: int) -> str:
        return self.texts[kind][number]


def read(path: Path) -> Read:
    """Decode a trace, and fail where the trace processor would drop, misplace or refuse something."""
    raw = path.read_bytes()
    whole = proto.Trace()
    whole.ParseFromString(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    unknown = proto.Trace.FromString(whole.SerializeToString())
    unknown.DiscardUnknownFields()
    assert unknown.ByteSize() == whole.ByteSize(), "a field that Perfetto does not know"
    found = Read({})
    sequences: dict[int, _Sequence] = {}
    begun: dict[int, Slice] = {}
    ended: dict[int, Slice] = {}
    for packet in whole.packet:
        own = sequences.setdefault(packet.trusted_packet_sequence_id, _Sequence())
        assert packet.trusted_packet_sequence_id > 0
        _read_state(found, packet, own)
        if packet.HasField("track_event"):
            assert packet.sequence_flags == NEEDED
            own.time += packet.timestamp
            assert own.time >= 0
            _read_event(found, packet.track_event, own, begun, ended)
    assert not any(stack for own in sequences.values() for stack in own.stacks.values()), "a slice never ends"
    for track, counts in found.counts.items():
        values = sorted(counts.items())
        found.counters[found.name(found.tracks[track].parent_uuid), found.name(track)] = values
    assert begun.keys() == ended.keys()
    found.flows = [(part, ended[number]) for number, part in sorted(begun.items())]
    for part in found.tracks.values():
        assert part.parent_uuid in {0, *found.tracks}
    ranks = [part.sibling_order_rank for part in found.tracks.values()]
    assert len(set(ranks)) == len(ranks)
    return found


def _read_state(found: Read, packet: proto.TracePacket, own: _Sequence) -> None:
    assert packet.ByteSize() > 0
    clocks = {clock.clock_id: clock for clock in packet.clock_snapshot.clocks}
    if packet.HasField("clock_snapshot"):
        assert packet.sequence_flags == (CLEARED if own.time == -1 else NEEDED)
        own.time = clocks[6].timestamp
        assert found.base in {None, own.time}, "Perfetto's clock goes backwards"
        found.base = own.time
        if 64 in clocks:
            assert clocks[64].is_incremental
            assert clocks[64].timestamp == own.time
        if 1 in clocks:
            found.started_ns = clocks[1].timestamp - own.time
    if packet.HasField("trace_packet_defaults"):
        assert packet.trace_packet_defaults.timestamp_clock_id == 64
        [own.running] = packet.trace_packet_defaults.track_event_defaults.extra_counter_track_uuids or [0]
    if packet.HasField("track_descriptor"):
        assert packet.track_descriptor.uuid not in found.tracks
        found.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    for each in packet.trace_attributes.attribute:
        found.about[each.key.removeprefix("nsyswrap.")] = each.string_value
    for descriptor, texts in packet.interned_data.ListFields():
        for text in texts:
            assert text.iid not in own.texts[descriptor.name]
            value = text.str.decode() if hasattr(text, "str") else text.name
            own.texts[descriptor.name][text.iid] = value


def _read_event(
    found: Read, event: proto.TrackEvent, own: _Sequence, begun: dict[int, Slice], ended: dict[int, Slice]
) -> None:
    assert event.track_uuid in found.tracks
    stack = own.stacks[event.track_uuid]
    for count in event.extra_counter_values:
        assert found.counts[own.running].setdefault(own.time, count) == count
    if event.type == COUNTER:
        track = found.tracks[event.track_uuid]
        parent = found.name(track.parent_uuid)
        values = found.counters.setdefault((parent, track.name), [])
        assert not values or own.time > values[-1][0]
        is_double = event.HasField("double_counter_value")
        values.append((own.time, event.double_counter_value if is_double else event.counter_value))
    elif event.type == END:
        head, flows, places = stack.pop()
        part = Slice(**head, end=own.time)
        found.slices.append(part)
        for number in flows:
            assert number not in places
            places[number] = part
    else:
        [category] = [own.text("event_categories", number) for number in event.category_iids]
        name = own.text("event_names", event.name_iid)
        args = {
            own.text("debug_annotation_names", each.name_iid): _value(each, own)
            for each in event.debug_annotations
        }
        group = event.correlation_id_str_iid and own.text("correlation_id_str", event.correlation_id_str_iid)
        if event.type == INSTANT:
            part = Slice(category, name, event.track_uuid, own.time, own.time, args, 0, group or "")
            found.instants.append(part)
            return
        assert event.type == BEGIN
        assert not (event.flow_ids and event.terminating_flow_ids)
        head = {
            "kind": category,
            "name": name,
            "track": event.track_uuid,
            "start": own.time,
            "args": args,
            "depth": len(stack),
            "group": group or "",
        }
        places = begun if event.flow_ids else ended
        stack.append([head, [*event.flow_ids, *event.terminating_flow_ids], places])


def _value(annotation: proto.DebugAnnotation, own: _Sequence) -> object:
    [kind] = [d.name for d, _ in annotation.ListFields() if d.name != "name_iid"]
    if kind == "string_value_iid":
        return own.text("debug_annotation_string_values", annotation.string_value_iid)
    return getattr(annotation, kind)


def traced(capture: Capture, folder: Path) -> Read:
    path = folder / "trace.pftrace"
    write(compose(capture), path)
    return read(path)


def tiny(folder: Path, *rows: Row, without: Sequence[str] = ()) -> Read:
    own = folder / f"{len(list(folder.iterdir()))}"
    own.mkdir()
    return traced(opened(own, *rows, without=without), own)
