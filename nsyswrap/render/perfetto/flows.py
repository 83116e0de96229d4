"""Arrows of a trace: from the call that launched it to each operation on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.render.perfetto.rows import Section, Texts, lines, micros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.render.perfetto.gpu import OnGpu
    from nsyswrap.render.perfetto.lanes import Lanes
    from nsyswrap.render.perfetto.rows import Column

    Ints = NDArray[Any]

ARROWS = "arrows from call to GPU work"
_HEAD = '"id":%s,"name":"launch","cat":"launch",%s,"ts":%s.%03d'


def flows(work: tuple[OnGpu, Ints], calls: tuple[Ints, Ints, Ints], lanes: Lanes) -> Section:
    """Return a flow per operation whose call is drawn: ``s`` as the call starts, ``f`` as the operation does.

    ``work`` are operations and their lanes; ``calls`` the positions of calls in the whole capture, their
    starts in ns and their lanes. Both ends bind to the innermost bar around them: operations overlap none of
    their lane, and of a runtime call and the driver call below it the former starts first.
    """
    (operations, lane), (row, start, call_lane) = work, calls
    drawn = np.full(max(row.max(initial=-1), operations.call.max(initial=-1)) + 2, -1)  # the last: of no call
    drawn[row] = np.arange(len(row))
    call = drawn[operations.call]
    met = np.flatnonzero(call >= 0)
    number, call = np.arange(1, len(met) + 1), call[met]
    columns: list[Column] = [
        *(number, Texts(call_lane[call], lanes.heads), *micros(start[call])),
        *(number, Texts(lane[met], lanes.heads), *micros(operations.start_ns[met])),
    ]
    template = f'{{"ph":"s",{_HEAD}}},\n{{"ph":"f","bp":"e",{_HEAD}}}'
    return Section(ARROWS, len(met), lines(template, columns))
