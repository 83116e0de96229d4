"""A strict reader of Chrome trace events: what Perfetto and chrome://tracing would drop or misplace fails."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REQUIRED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "b": {"name", "cat", "id", "pid", "tid", "ts"},
    "e": {"name", "cat", "id", "pid", "tid", "ts"},
    "i": {"name", "cat", "s", "pid", "tid", "ts"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    "C": {"name", "pid", "tid", "ts", "args"},
}
_OPTIONAL = {"i": {"args"}}
_METADATA = {"process_name": "name", "process_sort_index": "sort_index"}
_METADATA |= {"thread_name": "name", "thread_sort_index": "sort_index"}
_ID_LIMIT = 2**32  # of process and thread ids in Perfetto
_EXACT = 2**53  # JavaScript holds no integer beyond it exactly


class Slice(NamedTuple):
    """A bar; times in ns."""

    kind: str
    name: str
    pid: int
    tid: int
    start: int
    end: int
    args: dict[str, Any]
    depth: int


class Span(NamedTuple):
    """An asynchronous range; times in ns."""

    name: str
    pid: int
    tid: int
    start: int
    end: int


@dataclass
class Read:
    """A trace that keeps all rules; flows are pairs of the slices they bind to."""

    about: dict[str, str]
    processes: dict[int, str] = field(default_factory=dict)
    lanes: dict[tuple[int, int], str] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    flows: list[tuple[Slice, Slice]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    instants: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[tuple[int, str], list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)

    def of(self, kind: str) -> list[Slice]:
        return [part for part in self.slices if part.kind == kind]

    def lane(self, part: Slice) -> str:
        return self.lanes[part.pid, part.tid]


def read(path: Path) -> Read:
    """Read a trace, and fail where it breaks a rule."""
    raw = path.read_bytes()
    text = gzip.decompress(raw).decode("ascii") if path.suffix == ".gz" else raw.decode("ascii")
    whole = json.loads(text, parse_float=Decimal, parse_constant=_no_json, object_pairs_hook=_once)
    assert whole["displayTimeUnit"] == "ns"
    assert all(isinstance(value, str) for value in whole["otherData"].values())
    events = whole["traceEvents"]
    assert isinstance(events, list)
    for event in events:
        _check(event)
    found = Read(whole["otherData"])
    _read_metadata(found, [event for event in events if event["ph"] == "M"])
    _read_lanes(found, events)
    _read_spans(found, [event for event in events if event["ph"] in "be"])
    _read_counters(found, [event for event in events if event["ph"] == "C"])
    found.instants = [event for event in events if event["ph"] == "i"]
    used = {event["pid"] for event in events}
    assert used == set(found.processes)
    threads = {(event["pid"], event["tid"]) for event in events if event["ph"] in "Xbesf"}
    assert threads <= set(found.lanes)
    return found


def ns(time: int | Decimal) -> int:
    """A time in µs as whole ns; it has no more than three decimals."""
    exact = Decimal(time) * 1000
    assert exact == int(exact)
    return int(exact)


def _no_json(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    assert len(made) == len(pairs), f"a key stands twice in {pairs}"
    return made


def _check(event: dict[str, Any]) -> None:
    phase = event["ph"]
    keys = set(event) - {"ph"}
    assert _REQUIRED[phase] <= keys <= _REQUIRED[phase] | _OPTIONAL.get(phase, set()), event
    assert isinstance(event["name"], str)
    assert event["name"]
    for key in ("pid", "tid"):
        assert type(event[key]) is int
        assert 0 < event[key] < _ID_LIMIT  # 0 is the idle process
    for key in ("ts", "dur"):
        assert type(event.get(key, 0)) in (int, Decimal)
    assert event.get("dur", 0) >= 0
    assert event.get("s", "t") in ("t", "p", "g")
    assert event.get("bp", "e") == "e"
    assert all(abs(number) <= _EXACT for number in _integers(event))


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _integers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _integers(item)
    elif isinstance(value, int):
        yield value


def _read_metadata(found: Read, events: list[dict[str, Any]]) -> None:
    orders: dict[str, list[int]] = defaultdict(list)
    for event in events:
        [(key, value)] = event["args"].items()
        assert key == _METADATA[event["name"]]
        if key == "sort_index":
            orders[event["name"]].append(value)
            continue
        names: dict[Any, str] = found.processes if event["name"] == "process_name" else found.lanes
        place = event["pid"] if event["name"] == "process_name" else (event["pid"], event["tid"])
        assert place not in names, f"{place} is named twice"
        names[place] = value
    for order in orders.values():
        assert len(set(order)) == len(order)
    assert len(orders["process_sort_index"]) == len(found.processes)
    assert len(orders["thread_sort_index"]) == len(found.lanes)


def _read_lanes(found: Read, events: list[dict[str, Any]]) -> None:
    """Stack the slices of each lane, and find the innermost one at the ends of flows."""
    lanes: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] in "Xsf":
            lanes[event["pid"], event["tid"]].append(event)
    ends: dict[str, dict[int, tuple[Slice, dict[str, Any]]]] = {"s": {}, "f": {}}
    for lane in lanes.values():
        stack: list[Slice] = []
        for event in sorted(lane, key=lambda event: ns(event["ts"])):
            if event["ph"] == "X":
                stack = _stacked(stack, event)
                found.slices.append(stack[-1])
            else:
                assert event["id"] not in ends[event["ph"]], f"flow {event['id']} stands twice"
                ends[event["ph"]][event["id"]] = (_around(stack, event), event)
    assert ends["s"].keys() == ends["f"].keys()
    for number, (begin, start) in ends["s"].items():
        end, finish = ends["f"][number]
        assert [start[key] for key in ("name", "cat")] == [finish[key] for key in ("name", "cat")]
        found.flows.append((begin, end))


def _stacked(stack: list[Slice], event: dict[str, Any]) -> list[Slice]:
    start = ns(event["ts"])
    end = start + ns(event["dur"])
    stack = [part for part in stack if part.end > start]
    assert not stack or end <= stack[-1].end, f"{event} crosses {stack[-1]}"
    place = (event["cat"], event["name"], event["pid"], event["tid"], start, end, event["args"])
    return [*stack, Slice(*place, len(stack))]


def _around(stack: list[Slice], event: dict[str, Any]) -> Slice:
    inside = [part for part in stack if part.start <= ns(event["ts"]) <= part.end]
    assert inside, f"{event} is in no slice"
    return inside[-1]


def _read_spans(found: Read, events: list[dict[str, Any]]) -> None:
    opened: dict[tuple[str, str], dict[str, Any]] = {}
    done: set[tuple[str, str]] = set()
    for event in events:
        key = (event["cat"], event["id"])
        if event["ph"] == "b":
            assert key not in opened.keys() | done
            opened[key] = event
            continue
        begin = opened.pop(key)
        done.add(key)
        assert all(begin[same] == event[same] for same in ("name", "pid", "tid"))
        assert event["ts"] >= begin["ts"]
        times = ns(begin["ts"]), ns(event["ts"])
        found.spans.append(Span(event["name"], event["pid"], event["tid"], *times))
    assert not opened


def _read_counters(found: Read, events: list[dict[str, Any]]) -> None:
    for event in events:
        values = found.counters.setdefault((event["pid"], event["name"]), [])
        assert not values or ns(event["ts"]) > values[-1][0]
        assert all(type(value) in (int, Decimal) and value >= 0 for value in event["args"].values())
        values.append((ns(event["ts"]), event["args"]))
    for values in found.counters.values():
        assert len({tuple(args) for _, args in values}) == 1
        assert not any(values[-1][1].values()), "a counter does not end at 0"
