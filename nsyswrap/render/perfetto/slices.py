"""Write the bars of a trace with their names and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.gpu_operations import GRAPH_NAME
from nsyswrap.analysis.names import MEMSET_NAME, copy_name, name_codes
from nsyswrap.base.missing import MISSING
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.global_ids import process_ids
from nsyswrap.render.perfetto.rows import Section, Texts, Wide, argument_slots, encoded, lines, micros

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.lanes import Lanes
    from nsyswrap.render.perfetto.rows import Column

_LABELS = {"src_kind": "mem_kind", "dst_kind": "mem_kind"}  # fields that share a table of labels
_DRAWN = (
    "start_ns",
    "end_ns",
    "global_tid",
    "name",
    "base_name",
    "mangled_name",
    "copy_kind",
)  # shown by the bar itself, so no argument is needed
_WIDE = {"graph_node_id": "%d", "address": "0x%x"}


@dataclass(frozen=True)
class Bars:
    """The bars of one kind: positions of their events in a capture, times in ns, and lanes."""

    kind: str
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    lane: NDArray[Any]


def section(capture: Capture, bars: Bars, lanes: Lanes) -> Section:
    """Return the section of these bars, outer bars first. Positions are those in ``capture``."""
    order = outer_first(bars.start_ns, bars.end_ns)
    ordered = Bars(bars.kind, *(part[order] for part in (bars.row, bars.start_ns, bars.end_ns, bars.lane)))
    return Section(schema.EVENTS[bars.kind].title, len(order), _blocks(capture, ordered, lanes), bars.kind)


def outer_first(start_ns: NDArray[Any], end_ns: NDArray[Any]) -> NDArray[Any]:
    """Return the order that viewers expect: by start, and of equal starts the longest first."""
    return np.lexsort((-end_ns, start_ns))


def _blocks(capture: Capture, bars: Bars, lanes: Lanes) -> Iterator[str]:
    # A separate capture, so that its columns are freed when this kind is written.
    own = Capture(capture.path, source=capture.source, view=capture.view)
    codes, names = names_of(own, bars.kind)
    arguments = _arguments(own, bars.kind, bars.row)
    yield from complete(bars, (codes[bars.row], names), lanes, arguments)


def complete(
    bars: Bars,
    names: tuple[NDArray[Any], Sequence[str | None]],
    lanes: Lanes,
    arguments: Mapping[str, Sequence[Column]],
) -> Iterator[str]:
    """Yield blocks of complete events (``X``). ``names`` are a code per bar and the name of each code."""
    head = f'{{"ph":"X","cat":"{bars.kind}",'
    template = head + '"name":%s,%s,"ts":%s.%03d,"dur":%s.%03d,' + argument_slots(arguments) + "}"
    yield from lines(
        template,
        [
            Texts(names[0], encoded(names[1])),
            Texts(bars.lane, lanes.heads),
            *micros(bars.start_ns),
            *micros(bars.end_ns - bars.start_ns),
            *(column for columns in arguments.values() for column in columns),
        ],
    )


def names_of(capture: Capture, kind: str) -> tuple[NDArray[Any], Sequence[str | None]]:
    """Return a code per event of the selection, and the name of each code."""
    if "name" in schema.EVENTS[kind].fields:
        return name_codes(capture, kind)
    if kind == "memcpy":
        kinds, codes = distinct(capture.columns(kind, "copy_kind")["copy_kind"])
        labels = capture.labels("copy_kind")
        return codes, [copy_name(labels.get(number, f"kind {number}")) for number in kinds.tolist()]
    name = {"memset": MEMSET_NAME, "graph": GRAPH_NAME}.get(kind, schema.EVENTS[kind].title)
    return np.zeros(capture.count(kind), np.int64), [name]


def _arguments(capture: Capture, kind: str, row: NDArray[Any]) -> dict[str, list[Column]]:
    """Return the fields beyond name, time and lane. Fields without any value are left out."""
    arguments: dict[str, list[Column]] = {}
    fields = schema.EVENTS[kind].fields
    for field, values in capture.columns(kind, *(field for field in fields if field not in _DRAWN)).items():
        if fields[field].kind == "text" or (values == MISSING).all():
            continue
        if field == "global_pid":
            arguments["process_id"] = [process_ids(values)[row]]
        elif field[:-2] in ("grid", "block"):
            arguments.setdefault(field[:-2], []).append(values[row])
        else:
            arguments[field] = [_argument(capture, field, fields[field].kind, values[row])]
    return arguments


def _argument(capture: Capture, field: str, kind: schema.FieldKind, values: NDArray[Any]) -> Column:
    if field in _WIDE:
        return Wide(values, _WIDE[field])
    enum = _LABELS.get(field, field)
    if kind != "string" and enum not in schema.ENUMS:
        return values
    labels = capture.labels(enum) if enum in schema.ENUMS else {}
    known, codes = distinct(values)
    texts = [labels.get(i, str(i)) if labels else capture.text(i) for i in known.tolist()]
    return Texts(
        codes,
        ["null" if i == MISSING else name for i, name in zip(known.tolist(), encoded(texts), strict=True)],
    )
