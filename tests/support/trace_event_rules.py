"""A strict reader of Chrome trace events: what viewers would drop or misplace fails."""

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

_REQUIRED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "pid", "tid", "ts", "dur"},
    "i": {"name", "s", "pid", "tid", "ts"},
}
_ID_LIMIT = 2**32  # of process and thread ids in viewers


class Slice(NamedTuple):
    """A bar; times in ns."""

    name: str
    pid: int
    tid: int
    start: int
    end: int


@dataclass
class Read:
    """A trace that keeps all rules."""

    about: dict[str, str]
    names: dict[tuple[str, int, int], str] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    instants: list[dict[str, Any]] = field(default_factory=list)

    def lane(self, part: Slice) -> str:
        return self.names["thread_name", part.pid, part.tid]


def read(path: Path) -> Read:
    """Read a trace, and fail where it breaks a rule."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("ascii")
    whole = json.loads(text, parse_float=Decimal)
    assert whole["displayTimeUnit"] == "ns"
    found = Read(whole["otherData"])
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)
    for event in whole["traceEvents"]:
        assert set(event) - {"ph"} == _REQUIRED[event["ph"]], event
        assert all(type(event[key]) is int and 0 < event[key] < _ID_LIMIT for key in ("pid", "tid"))
        assert isinstance(event["name"], str)
        place = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert (event["name"], *place) not in found.names
            found.names[(event["name"], *place)] = event["args"].get("name", "")
        elif event["ph"] == "i":
            found.instants.append(event)
        else:
            start, length = _ns(event["ts"]), _ns(event["dur"])
            stack = [end for end in stacks[place] if end > start]
            assert not stack or start + length <= stack[-1], f"{event} crosses another"
            stacks[place] = [*stack, start + length]
            found.slices.append(Slice(event["name"], *place, start, start + length))
    assert {("thread_name", part.pid, part.tid) for part in found.slices} <= set(found.names)
    return found


def _ns(time: int | Decimal) -> int:
    exact = Decimal(time) * 1000
    assert exact == int(exact)
    return int(exact)
