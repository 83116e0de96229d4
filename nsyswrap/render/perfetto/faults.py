"""CPU page faults of unified memory in a trace: instants of their process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.names import name_codes
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import EVENTS
from nsyswrap.render.perfetto.rows import Section, Texts, Wide, encoded, lines, micros

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.lanes import Lanes
    from nsyswrap.render.perfetto.rows import Column

KIND = "um_cpu_fault"


def on_cpu(capture: Capture, lanes: Lanes) -> Section:
    """Return the faults inside the selected times, named after the instruction that met them."""
    found = capture.columns(KIND, "start_ns", "global_pid", "address")
    window = capture.window
    start = found["start_ns"]
    row = np.flatnonzero((start != MISSING) & (start >= window.start_ns) & (start < window.end_ns))
    codes, names = name_codes(capture, KIND)
    known, process = distinct(found["global_pid"][row])
    heads = [f'"pid":{number},"tid":{number}' for number in map(lanes.process, known.tolist())]
    template = f'{{"ph":"i","s":"p","cat":"{KIND}","name":%s,%s,"ts":%s.%03d,"args":{{"address":%s}}}}'
    address = Wide(found["address"][row], "0x%x")
    columns: list[Column] = [
        Texts(codes[row], encoded(names)),
        Texts(process, heads),
        *micros(start[row]),
        address,
    ]
    return Section(EVENTS[KIND].title, len(row), lines(template, columns), KIND)
