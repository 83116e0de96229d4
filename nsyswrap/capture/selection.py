"""Select a part of a capture (a time window, an NVTX range, devices, processes), and how it is read."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import did_you_mean
from nsyswrap.capture.intervals import LEAST, MOST, Window, whole_time
from nsyswrap.capture.schema import (
    ID_MASK,
    NVTX_DOMAIN,
    NVTX_PUSH_POP,
    NVTX_START_END,
    PID_SHIFT,
    PROCESS_MASK,
)
from nsyswrap.capture.stream import Columns, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nsyswrap.base.units import Rounding

KernelNames = Literal["full", "base", "mangled"]
NAME_FIELDS = {"full": "name", "base": "base_name", "mangled": "mangled_name"}
_UNITS = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_UNITS |= {"nsec": 1, "usec": 10**3, "msec": 10**6, "sec": 10**9, "min": 60 * 10**9, "hour": 3600 * 10**9}
_PART = regex(r"([+-]?(?:\d{1,99}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)([a-z]+|$)", re.ASCII)
_INSTANCES = regex(r"(.*)/([0-9]{1,18})(?:-([0-9]{1,18}))?", re.DOTALL)
_MACHINE_SHIFT = 48  # of a global id
_MOST_CHARACTERS = 500  # of a list of names in a message


@dataclass(frozen=True)
class Selection:
    """A part of a capture: times in ns since its start, ``nvtx`` as ``NAME[@DOMAIN][/N[-M]]``.

    What is empty means all.
    ``clip`` True clips rows at the ends of the window, False keeps them whole, as nsys does. ``first`` True
    takes the first of the selected NVTX ranges alone, as nsys does, False all of them. None leaves either to
    the reports: nsys' own take the first range and whole rows, the others all ranges and clipped rows.
    ``spans`` are the parts of the time from ``start_ns`` to ``end_ns`` that count, if not all of it does.
    """

    start_ns: int | None = None
    end_ns: int | None = None
    nvtx: str = ""
    devices: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    clip: bool | None = None
    first: bool | None = None
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def windowed(self) -> bool:
        """Whether a time window is selected, by its ends or by an NVTX range."""
        return self.start_ns is not None or self.end_ns is not None or bool(self.nvtx)

    @property
    def time(self) -> str:
        """The time window as for --time; empty if none is selected by its ends."""
        ends = self.start_ns, self.end_ns
        return "" if ends == (None, None) else "/".join(map(_seconds, ends))

    @property
    def options(self) -> list[str]:
        """The options of a command that select the same part."""
        texts = {
            "--time": "" if self.nvtx else self.time,
            "--nvtx": self.nvtx,
            "--clip": {None: "", True: "yes", False: "no"}[self.clip],
        }
        given = [(name, text) for name, text in texts.items() if text]
        numbers = {"--device": self.devices, "--process": self.processes}
        given += [(name, str(number)) for name, chosen in numbers.items() for number in chosen]
        return [word for pair in given for word in pair]

    @property
    def narrows(self) -> bool:
        """Whether the selection can leave out events."""
        return self.windowed or bool(self.devices or self.processes)

    @property
    def compares(self) -> tuple[str, ...]:
        """The fields of events that decide whether they are selected."""
        times = ("start_ns", "end_ns") if self.windowed else ()
        owners = ("global_tid", "global_pid") if self.nvtx or self.processes else ()
        return (
            *times,
            *owners,
            *(("device_id",) if self.devices else ()),
            *(("event_type",) if self.clip else ()),
        )

    def decided(self, *, as_nsys: bool) -> Selection:
        """Return the selection with what it left to the reports decided, as nsys or as nsyswrap does."""
        if not self.windowed:
            return self
        clip = not as_nsys if self.clip is None else self.clip
        first = as_nsys if self.first is None else self.first
        return replace(self, clip=clip, first=first if self.nvtx else self.first)

    def criteria(self, window: Window) -> str:
        """Return what selects events, with the number of NVTX ranges; an empty text if nothing does."""
        parts = [_instances(self, window)] if self.nvtx else []
        if self.windowed and not self.nvtx:
            parts.append(f"time {self.time}")
        parts += [f"device {', '.join(map(str, self.devices))}"] if self.devices else []
        parts += [f"process {', '.join(map(str, self.processes))}"] if self.processes else []
        return "; ".join(parts)

    def text(self, window: Window) -> str:
        """Return the selection as text for messages: its criteria, and whether rows are clipped to it."""
        ends = "their ends" if window.several else "its ends"
        rule = f"rows cut at {ends} (--clip yes)" if self.clip else "whole rows (--clip no)"
        return "; ".join(filter(None, [self.criteria(window), rule if self.windowed else ""]))


def _instances(selection: Selection, window: Window) -> str:
    """Return the name of the selected NVTX range, and which of its instances are selected."""
    name, numbers = numbered(selection.nvtx)
    first, last, total = window.first, window.last, window.total
    processes = len(np.unique(window.processes)) if numbers else 1
    each = f" of each of {processes} processes" if processes > 1 else ""
    if total == 1:
        which = f"its only instance{each}"
    elif last > first:
        which = (
            f"instances {first:,} to {last:,} of {total:,}{each}" if numbers else f"all {total:,} instances"
        )
    else:
        which = f"instance {first:,} of {total:,}{each}"
        # The first of several that were asked for.
        which += ", as nsys" if selection.first and (not numbers or numbers[1] > numbers[0]) else ""
    return f"NVTX range {name!r}: {which}"


def _seconds(ns: int | None) -> str:
    """Return a time in the form of --time: in seconds, or in ns if seconds as a float are not exact."""
    if ns is None:
        return ""
    text = f"{(Decimal(ns) / 10**9).normalize():f}s"
    return text if int(float(text[:-1]) * 10**9) == ns else f"{ns}ns"


EVERYTHING = Selection()


@dataclass(frozen=True)
class ViewOptions:
    """How a capture is read: the form of kernel names, the era of nsys to follow, and the selection.

    ``nvtx_names`` puts the innermost NVTX range around the launch before a kernel's name.
    ``classes`` are pairs of kernel class and pattern, tried before the built-in rules. ``steps`` says which
    steps the steady part has, as ``NAME``, ``10-13`` or ``NAME/10-13``; empty means that they are looked for.
    ``loop`` tells which of the loops is judged; without it the one with most time.
    ``shared``: texts are read as others may see them, without credentials and names of people.
    """

    names: KernelNames = "full"
    nvtx_names: bool = False
    classes: tuple[tuple[str, str], ...] = ()
    rounding: Rounding = "2025"
    selection: Selection = EVERYTHING
    steps: str = ""
    loop: str = ""
    shared: bool = False


def parse_selection(
    time: str = "",
    nvtx: str = "",
    *,
    devices: tuple[int, ...] = (),
    processes: tuple[int, ...] = (),
    clip: bool | None = None,
) -> Selection:
    """Return a selection; raises UsageError for an invalid time or range, and for both together."""
    if time and nvtx:
        raise UsageError("--time cannot be used with --nvtx", "use one of them")
    start, end = parse_time(time) if time else (None, None)
    if nvtx:
        numbered(nvtx)
    return Selection(start, end, nvtx, devices, processes, clip)


class HasEvents(Protocol):
    """A capture as the search for NVTX ranges sees it: its source and its events."""

    source: Path

    def columns(self, kind: str, *fields: str) -> Columns:
        """Return fields of the events of one kind."""

    def text(self, string_id: int) -> str | None:
        """Return the text of a StringIds id."""


def parse_time(text: str) -> tuple[int | None, int | None]:
    """Return start and end in ns of ``[START]/[END]``, in nsys' grammar: ``1s/2.5s``, ``10ms/``, ``1s2ms/9``.

    Numbers without a unit are in ns. Raises UsageError for an invalid range.
    """
    first, slash, last = text.strip().partition("/")
    if not slash or not (first or last):
        raise UsageError(
            f"invalid --time {text!r}: expected [START]/[END], for example 1s/2.5s, 10ms/ or /300us"
        )
    start, end = (_nanoseconds(part) if part else None for part in (first, last))
    if start is not None and end is not None and start > end:
        raise UsageError(f"invalid --time {text!r}: the end is before the start")
    return start, end


def _nanoseconds(text: str) -> int:
    total: float = 0
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if not match or match[2] not in _UNITS:
            units = " ".join(unit for unit in _UNITS if unit)
            raise UsageError(
                f"invalid time {text!r}: expected numbers with units ({units}), for example 1s2.5ms"
            )
        number = int(match[1]) if match[1].lstrip("+-").isdigit() else float(match[1])
        part = number * _UNITS[match[2]]
        total += part if math.isinf(part) else int(part)
        position = match.end()
    if not LEAST <= total <= MOST:
        raise UsageError(f"invalid time {text!r}: the nanoseconds do not fit into 64 bits")
    return int(total)


def resolve(selection: Selection, capture: HasEvents) -> Window:
    """Return the selected window; raises NotInCapture with the existing names if no NVTX range matches.

    Of an NVTX range all instances count, or those with the numbers asked for: in each process, as of steps;
    as nsys does, over all processes. As in nsys, a range of the process' first thread selects the process,
    any other range its thread.
    """
    if selection.spans:
        start, end = np.array(selection.spans, np.int64).T
        anyone = np.full(len(start), MISSING)
        return Window(start, end, anyone, anyone)
    if not selection.nvtx:
        ends = selection.start_ns, selection.end_ns
        return whole_time(
            *(other if end is None else end for end, other in zip(ends, (LEAST, MOST), strict=True))
        )
    name, numbers = numbered(selection.nvtx)
    events = capture.columns(
        "nvtx", "start_ns", "end_ns", "event_type", "global_tid", "domain_id", "text", "text_id"
    )
    # As in nsys, a range comes once for each time that its process created its domain.
    suffixes = _domain_suffixes(events)
    keys = _domain_keys(events)
    ranges = np.flatnonzero(one_of(events["event_type"], (*NVTX_PUSH_POP, *NVTX_START_END)))
    ordered = ranges[np.argsort(events["start_ns"][ranges], kind="stable")].tolist()
    texts = {row: _own_text(events, row, capture) for row in ordered}
    labels = [
        (row, f"{text}{suffix}")
        for row in ordered
        if (text := texts[row]) is not None
        for suffix in suffixes.get(keys[row], [""])
    ]
    every = [row for row, label in labels if label == name]
    if not numbers:
        every = list(dict.fromkeys(every))  # numbers repeat ranges as nsys does, their time counts once
    alone = not numbers or selection.first
    of_process = [every] if alone else _by_process(every, events["global_tid"], selection.processes)
    total = max(map(len, of_process), default=0)
    first, last = numbers or (0, total - 1)
    if last >= total or not total:
        raise _no_such_range(selection.nvtx, name, labels, total, capture)
    last = first if selection.first else last
    rows = np.array([row for mine in of_process for row in mine[first : last + 1]])
    start, end, thread = (events[field][rows] for field in ("start_ns", "end_ns", "global_tid"))
    whole = thread >> PID_SHIFT & ID_MASK == thread & ID_MASK
    return Window(
        start,
        np.where(end == MISSING, MOST, end),
        np.where(whole, MISSING, thread),
        thread >> PID_SHIFT,
        first,
        last,
        total,
    )


def _by_process(rows: Sequence[int], threads: NDArray[Any], processes: tuple[int, ...]) -> list[list[int]]:
    """Return the rows of each process; of those that are selected if they have any."""
    of_process: dict[int, list[int]] = {}
    for row in rows:
        of_process.setdefault(int(threads[row]) >> PID_SHIFT, []).append(row)
    selected = [mine for process, mine in of_process.items() if process & ID_MASK in processes]
    return selected or list(of_process.values())


def _no_such_range(
    nvtx: str, name: str, every: Sequence[tuple[int, str]], count: int, capture: HasEvents
) -> NotInCapture:
    labels = [label for _, label in every]
    if count:
        return NotInCapture(
            f"no NVTX range {nvtx!r}; instances named {name!r}: {count:,}",
            f"numbers start at 0; the last is {name}/{count - 1}",
            source=capture.source,
        )
    hint = " ".join(filter(None, [did_you_mean(name, labels), f"names: {_listed(labels)}"]))
    if alike := labels.count(nvtx):  # what follows its last slash was taken for a number
        hint = f"use {nvtx}/0-{alike - 1} for all ranges named {nvtx!r}; {hint}"
    return NotInCapture(f"no NVTX range named {name!r}", hint, source=capture.source)


def _listed(labels: list[str]) -> str:
    names = ", ".join(dict.fromkeys(labels)) or "none"
    return names if len(names) < _MOST_CHARACTERS else f"{names[:_MOST_CHARACTERS]} …"


def numbered(text: str) -> tuple[str, tuple[int, int] | None]:
    """Split NAME, NAME/N or NAME/N-M into the name and the first and last number; None means all.

    Only digits after the last slash are a number, because a name can contain slashes. Raises UsageError if
    the numbers are in the wrong order.
    """
    match = _INSTANCES.fullmatch(text)
    if not match:
        return text, None
    first = int(match[2])
    last = first if match[3] is None else int(match[3])
    if first > last:
        raise UsageError(
            f"invalid --nvtx {text!r}: instance {last} is before {first}", f"use {match[1]}/{last}-{first}"
        )
    return match[1], (first, last)


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
        kept &= one_of(events["device_id"], selection.devices)
    thread = events.get("global_tid", events.get("global_pid"))
    if thread is not None and selection.processes:
        kept &= one_of(thread >> PID_SHIFT & ID_MASK, selection.processes)
    if selection.windowed and ("end_ns" in events or (selection.clip and "start_ns" in events)):
        kept &= window.holding(events, clip=bool(selection.clip))
    if selection.clip and "event_type" in events:
        kept |= events["event_type"] == NVTX_DOMAIN  # domains name ranges, whenever they were created
    return kept


def process_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the operating system's process id in each global thread or process id."""
    return np.where(global_ids == MISSING, MISSING, global_ids >> PID_SHIFT & ID_MASK)


def thread_ids(global_tids: NDArray[Any]) -> NDArray[Any]:
    """Return the operating system's thread id in each global thread id."""
    return np.where(global_tids == MISSING, MISSING, global_tids & ID_MASK)


def global_process_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the global process id of each global thread or process id."""
    return np.where(global_ids == MISSING, MISSING, global_ids & PROCESS_MASK)


def machine_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return an id of the machine for each global id: device ids repeat between machines."""
    return global_ids >> _MACHINE_SHIFT
