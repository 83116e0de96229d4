"""What ran on GPUs: kernels, copies, memsets and graphs in the lanes of their streams, and page faults."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.gpu_operations import KINDS, gpu_operations_of, machine_ids
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT
from nsyswrap.render.perfetto.host import timed
from nsyswrap.render.perfetto.lanes import beside
from nsyswrap.render.perfetto.sublanes import disjoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.perfetto.lanes import Lanes

FAULT = "um_gpu_fault"
DRAWN = (*KINDS, FAULT)
_IN_STREAM, _MIGRATION, _FAULT = range(3)
_LANES = {_MIGRATION: "unified memory", _FAULT: "page faults"}  # of what is in no stream


@dataclass(frozen=True)
class OnGpu:
    """One entry per bar; ``kind`` is the number in DRAWN, ``row`` the position in the whole capture.

    ``call`` is the position of the call that launched it among the whole capture's, -1: none did.
    ``where`` says whether it is in a stream.
    """

    kind: NDArray[Any]
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    global_pid: NDArray[Any]
    device_id: NDArray[Any]
    context_id: NDArray[Any]
    stream_id: NDArray[Any]
    call: NDArray[Any]
    where: NDArray[Any]

    def of(self, rows: NDArray[Any]) -> OnGpu:
        """Return these bars, by position or mark."""
        return OnGpu(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def launched(self) -> int:
        """How many of them a call launched: all but migrations and page faults."""
        return int(np.count_nonzero(self.where == _IN_STREAM))

    def numbers(self, lanes: Lanes) -> NDArray[Any]:
        """Return the number of the process that each bar's GPU is in the trace."""
        codes, keys = group_keys(_machine(self.global_pid), self.device_id)
        known = [lanes.gpu(*key) for key in zip(*(key.tolist() for key in keys), strict=True)]
        numbers: NDArray[Any] = np.array(known, np.int64)[codes]
        return numbers


def on_gpu(capture: Capture) -> OnGpu:
    """Return what is drawn of the selection: all that has a start and does not end before it."""
    ran = gpu_operations_of(capture)
    places = (ran.global_pid, ran.device_id, ran.context_id, ran.stream_id)
    found = OnGpu(
        ran.kind,
        ran.row,
        ran.start_ns,
        ran.end_ns,
        *places,
        ran.call,
        np.where(ran.migration, _MIGRATION, _IN_STREAM),
    )
    if capture.has(FAULT):
        faults = _faults(capture)
        found = OnGpu(
            *(np.concatenate((getattr(found, f.name), getattr(faults, f.name))) for f in fields(OnGpu))
        )
    return found.of(timed(found.start_ns, found.end_ns))


def _faults(capture: Capture) -> OnGpu:
    found = capture.columns(FAULT, "row", "start_ns", "end_ns", "global_pid", "device_id")
    same = np.zeros_like(found["row"])
    return OnGpu(
        same + DRAWN.index(FAULT),
        found["row"] - 1,
        found["start_ns"],
        found["end_ns"],
        found["global_pid"],
        found["device_id"],
        *(same, same, same - 1, same + _FAULT),
    )


def placed(bars: OnGpu, lanes: Lanes) -> NDArray[Any]:
    """Add lanes for the streams, and for what is in none, and return the lane of each bar."""
    gpu = bars.numbers(lanes)
    streams, keys = group_keys(gpu, bars.where, bars.global_pid, bars.context_id, bars.stream_id)
    names = _names(keys)
    lane, (of, sublane) = group_keys(streams, disjoint(streams, bars.start_ns, bars.end_ns))
    added = [
        lanes.own(int(keys[0][stream]), names[stream] + beside(number))
        for stream, number in zip(of.tolist(), sublane.tolist(), strict=True)
    ]
    found: NDArray[Any] = np.array(added, np.int64)[lane]
    return found


def _names(keys: list[NDArray[Any]]) -> list[str]:
    """Name streams; with their context and process where those of their GPU have several."""
    rows = list(zip(*(key.tolist() for key in keys), strict=True))
    processes = {(gpu, process) for gpu, _, process, _, _ in rows}
    contexts = {(gpu, process, context) for gpu, where, process, context, _ in rows if where == _IN_STREAM}
    names = []
    for gpu, where, process, context, stream in rows:
        name = _LANES.get(where, f"stream {stream}")
        if where == _IN_STREAM and sum(c[:2] == (gpu, process) for c in contexts) > 1:
            name += f", context {context}"
        if sum(p[0] == gpu for p in processes) > 1:
            name += f", process {process >> PID_SHIFT & ID_MASK}"
        names.append(name)
    return names


def _machine(global_pid: NDArray[Any]) -> NDArray[Any]:
    return np.where(global_pid == MISSING, 0, machine_ids(global_pid))
