"""Select a part of a capture: a time window, an NVTX range, devices, processes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ID_MASK, NVTX_DOMAIN, NVTX_PUSH_POP, NVTX_START_END, PID_SHIFT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

LEAST, MOST = -(2**63), 2**63 - 1  # ns: the ends of a window that are not given
_UNITS = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_UNITS |= {"nsec": 1, "usec": 10**3, "msec": 10**6, "sec": 10**9, "min": 60 * 10**9, "hour": 3600 * 10**9}
_PART = re.compile(r"([+-]?(?:\d{1,99}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)([a-z]+|$)", re.ASCII)
_MOST_CHARACTERS = 500  # of a list of names in a message


@dataclass(frozen=True)
class Selection:
    """A part of a capture: times in ns since its start, ``nvtx`` as ``NAME[@DOMAIN][/N]``; empty means all.

    ``clip`` True clips rows at the ends of the window, False keeps them whole, as nsys does. None leaves it
    to the reports: nsys' own keep rows whole, the others clip them.
    """

    start_ns: int | None = None
    end_ns: int | None = None
    nvtx: str = ""
    devices: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    clip: bool | None = None

    @property
    def windowed(self) -> bool:
        """Whether a time window is selected, by its ends or by an NVTX range."""
        return self.start_ns is not None or self.end_ns is not None or bool(self.nvtx)

    @property
    def narrows(self) -> bool:
        """Whether the selection can leave out events."""
        return self.windowed or bool(self.devices or self.processes)

    def __str__(self) -> str:
        """Return the selection as text for messages; empty if everything is selected."""
        parts = [f"NVTX range {self.nvtx}"] if self.nvtx else []
        if self.windowed and not self.nvtx:
            parts.append(f"time {_seconds(self.start_ns)}/{_seconds(self.end_ns)}")
        parts += [f"device {', '.join(map(str, self.devices))}"] if self.devices else []
        parts += [f"process {', '.join(map(str, self.processes))}"] if self.processes else []
        if self.windowed:
            parts.append("rows cut at its ends (--clip yes)" if self.clip else "whole rows (--clip no)")
        return "; ".join(parts)


def _seconds(ns: int | None) -> str:
    """Return a time in the form of --time: in seconds, or in ns if seconds as a float are not exact."""
    if ns is None:
        return ""
    text = f"{(Decimal(ns) / 10**9).normalize():f}s"
    return text if int(float(text[:-1]) * 10**9) == ns else f"{ns}ns"


EVERYTHING = Selection()


def parse_selection(
    time: str = "",
    nvtx: str = "",
    *,
    devices: tuple[int, ...] = (),
    processes: tuple[int, ...] = (),
    clip: bool | None = None,
) -> Selection:
    """Return a selection; raises UsageError for an invalid time, and for a time together with a range."""
    if time and nvtx:
        raise UsageError("a time window and an NVTX range do not go together", "give one of them")
    start, end = parse_time(time) if time else (None, None)
    return Selection(start, end, nvtx, devices, processes, clip)


class Window(NamedTuple):
    """The selected times in ns, and the global ids of the thread and process of an NVTX range; None: any.

    ``process`` is a globalTid shifted right by PID_SHIFT, without the bits of the thread.
    """

    start_ns: int = LEAST
    end_ns: int = MOST
    thread: int | None = None
    process: int | None = None


class HasEvents(Protocol):
    """The part of a capture that the search for NVTX ranges needs."""

    source: Path

    def columns(self, kind: str, *fields: str) -> dict[str, NDArray[Any]]:
        """Return fields of the events of one kind."""

    def text(self, string_id: int) -> str | None:
        """Return the text of a StringIds id."""


def parse_time(text: str) -> tuple[int | None, int | None]:
    """Return start and end in ns of ``[START]/[END]``, in nsys' grammar: ``1s/2.5s``, ``10ms/``, ``1s2ms/9``.

    Numbers without a unit are in ns. Raises UsageError for an invalid range.
    """
    first, slash, last = text.strip().partition("/")
    if not slash or not (first or last):
        raise UsageError(f"{text!r} is no time range", "write START/END, as in 1s/2.5s, 10ms/ or /300us")
    start, end = (_nanoseconds(part) if part else None for part in (first, last))
    if start is not None and end is not None and start > end:
        raise UsageError(f"the time range {text!r} ends before it starts")
    return start, end


def _nanoseconds(text: str) -> int:
    total: float = 0
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if not match or match[2] not in _UNITS:
            units = " ".join(unit for unit in _UNITS if unit)
            raise UsageError(f"{text!r} is no time", f"numbers with a unit each ({units}), as in 1s2.5ms")
        number = int(match[1]) if match[1].lstrip("+-").isdigit() else float(match[1])
        part = number * _UNITS[match[2]]
        total += part if math.isinf(part) else int(part)
        position = match.end()
    if not LEAST <= total <= MOST:
        raise UsageError(f"{text!r} is more than 64 bits of nanoseconds hold")
    return int(total)


def resolve(selection: Selection, capture: HasEvents) -> Window:
    """Return the selected window; raises NotInCapture with the existing names if no NVTX range matches."""
    if not selection.nvtx:
        return Window(
            LEAST if selection.start_ns is None else selection.start_ns,
            MOST if selection.end_ns is None else selection.end_ns,
        )
    name, number = _numbered(selection.nvtx)
    events = capture.columns(
        "nvtx", "start_ns", "end_ns", "event_type", "global_tid", "domain_id", "text", "text_id"
    )
    labels = _with_domains(events, capture)
    rows = [row for row, label in labels if label == name]
    if number >= len(rows):
        names = ", ".join(dict.fromkeys(label for _, label in labels)) or "none"
        shortened = names if len(names) < _MOST_CHARACTERS else f"{names[:_MOST_CHARACTERS]} …"
        raise NotInCapture(
            f"{capture.source}: {len(rows)} NVTX ranges are named {name!r}: there is no {selection.nvtx!r}",
            f"numbers begin at 0; names: {shortened}",
        )
    start, end, thread = (int(events[f][rows[number]]) for f in ("start_ns", "end_ns", "global_tid"))
    # As in nsys, a range of the process' first thread selects the process, any other range its thread.
    whole = thread >> PID_SHIFT & ID_MASK == thread & ID_MASK
    return Window(start, MOST if end == MISSING else end, None if whole else thread, thread >> PID_SHIFT)


def _numbered(text: str) -> tuple[str, int]:
    """Split NAME/N into name and number, 0 without a number; a name can contain slashes."""
    name, slash, number = text.rpartition("/")
    try:
        index = int(number) if slash else -1
    except ValueError:
        index = -1
    return (name, index) if index >= 0 else (text, 0)


def _with_domains(events: Mapping[str, NDArray[Any]], capture: HasEvents) -> list[tuple[int, str]]:
    """Return row and ``name[@domain]`` of each range, by start.

    As in nsys, a range comes once for each time that its process created its domain.
    """
    suffixes = _domain_suffixes(events)
    keys = _domain_keys(events)
    ranges = np.flatnonzero(np.isin(events["event_type"], (*NVTX_PUSH_POP, *NVTX_START_END)))
    ordered = ranges[np.argsort(events["start_ns"][ranges], kind="stable")].tolist()
    texts = {row: _own_text(events, row, capture) for row in ordered}
    return [
        (row, f"{text}{suffix}")
        for row in ordered
        if (text := texts[row]) is not None
        for suffix in suffixes.get(keys[row], [""])
    ]


def _own_text(events: Mapping[str, NDArray[Any]], row: int, capture: HasEvents) -> str | None:
    text = events["text"][row]
    return text if isinstance(text, str) else capture.text(int(events["text_id"][row]))


def _domain_keys(events: Mapping[str, NDArray[Any]]) -> list[tuple[int, int]]:
    """Return process and domain id of each event."""
    process = (events["global_tid"] >> PID_SHIFT).tolist()
    return list(zip(process, events["domain_id"].tolist(), strict=True))


def _domain_suffixes(events: Mapping[str, NDArray[Any]]) -> dict[tuple[int, int], list[str]]:
    """Return ``@domain`` for each creation of a domain, by process and domain id."""
    keys = _domain_keys(events)
    suffixes: dict[tuple[int, int], list[str]] = {}
    for row in np.flatnonzero(
        (events["event_type"] == NVTX_DOMAIN) & (events["domain_id"] != MISSING)
    ).tolist():
        text = events["text"][row]
        suffixes.setdefault(keys[row], []).append(f"@{text}" if isinstance(text, str) else "")
    return suffixes


def select(events: Mapping[str, NDArray[Any]], selection: Selection, window: Window) -> NDArray[Any]:
    """Mark the selected rows of one kind of event.

    ``events`` has the kind's fields among start_ns, end_ns, device_id, global_tid, global_pid and event_type.
    As in nsys, events without an end (CPU page faults) are in every window unless rows are clipped.
    """
    rows = len(next(iter(events.values())))
    kept = np.ones(rows, dtype=bool)
    if "device_id" in events and selection.devices:
        kept &= np.isin(events["device_id"], selection.devices)
    thread = events.get("global_tid", events.get("global_pid"))
    if thread is not None and selection.processes:
        kept &= np.isin(thread >> PID_SHIFT & ID_MASK, selection.processes)
    if selection.windowed and ("end_ns" in events or (selection.clip and "start_ns" in events)):
        kept &= _cut(events, window) if selection.clip else _overlapping(events, window)
        if thread is not None and window.process is not None and (thread != MISSING).any():
            kept &= thread >> PID_SHIFT == window.process  # trimmed exports lack globalPid
        if "global_tid" in events and window.thread is not None:
            kept &= events["global_tid"] == window.thread
    if selection.clip and "event_type" in events:
        kept |= events["event_type"] == NVTX_DOMAIN  # domains name ranges, whenever they were created
    return kept


def _overlapping(events: Mapping[str, NDArray[Any]], window: Window) -> NDArray[Any]:
    """Mark the rows in the window by nsys' rule; a range that never ended counts by its start alone."""
    start, end, first, last = events["start_ns"], events["end_ns"], window.start_ns, window.end_ns
    begins = (start >= first) & (start < last) & (start != MISSING)
    ends = (end >= first) & (end < last) & (end != MISSING)
    spans = (start < first) & (end >= last) & (start != MISSING) & (end != MISSING)
    return begins | ends | spans  # type: ignore[no-any-return]


def _cut(events: Mapping[str, NDArray[Any]], window: Window) -> NDArray[Any]:
    """Mark the rows with a part in the window; a range that never ended lasts to the capture's end."""
    start = events["start_ns"]
    end = events.get("end_ns", start)
    if "event_type" in events:
        ranges = np.isin(events["event_type"], (*NVTX_PUSH_POP, *NVTX_START_END))
        end = np.where(ranges & (end == MISSING), MOST, end)
    begins = (start >= window.start_ns) & (start < window.end_ns)
    return begins | ((start < window.start_ns) & (end > window.start_ns))


def clipped(field: str, values: NDArray[Any], window: Window) -> NDArray[Any]:
    """Return starts or ends clipped to the window; MISSING and other fields stay as they are."""
    if field not in ("start_ns", "end_ns"):
        return values
    return np.where(values == MISSING, MISSING, np.clip(values, window.start_ns, window.end_ns))
