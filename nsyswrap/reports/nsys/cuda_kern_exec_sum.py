"""Launch summary: per process, thread, device, API function and kernel, the phases of an execution.

API is the launch call, queue the wait from the call's return to the kernel's start (missing where the
kernel started earlier), kernel the execution, total the span from the call to the later of both ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import Groups, distinct, group_keys, number_texts
from nsyswrap.analysis.correlation import launch_pairs_of, process_notes
from nsyswrap.analysis.names import name_codes, strip_version
from nsyswrap.analysis.packed import launched, packed_events, packed_names
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.capture.schema import NAMED, SPANS
from nsyswrap.capture.stream import in_blocks, narrow
from nsyswrap.reports.columns import KERNEL_NAMES, stat_columns, stat_values
from nsyswrap.reports.table import Column, Order, Report, Result, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

PHASES = (
    ("total_", "T", "the totals"),
    ("api_", "A", "the launch calls"),
    ("queue_", "Q", "the queue times"),
    ("kernel_", "K", "the kernels"),
)
_FEW = 1 << 16  # groups that the quick sort of small numbers can take


def compute(capture: Capture) -> Result:
    """Return one row per (process, thread, device, API function, kernel name)."""
    phases = _packed(capture) or _joined(capture)
    groups = Groups(phases.codes, len(phases.keys["device_id"]))
    parts = {"api": phases.api_ns, "queue": phases.queue_ns, "kernel": phases.kernel_ns}
    total = groups.of(in_blocks(parts, _total)["total"])
    waits = groups.of(phases.queue_ns, least=0)
    data = {
        "count": total.count,
        "queue_count": waits.count,
        **stat_values(total, "total_"),
        **stat_values(groups.of(phases.api_ns), "api_"),
        **stat_values(waits, "queue_"),
        **stat_values(groups.of(phases.kernel_ns), "kernel_"),
    }
    present = np.flatnonzero(total.count)
    keys = {name: values[present] for name, values in phases.keys.items()}
    names = {field: [texts[code] for code in keys[field].tolist()] for field, texts in phases.names.items()}
    return Result(
        keys | names | {field: values[present] for field, values in data.items()},
        process_notes(capture, "kernel") if phases.noted else (),
    )


class _Phases(NamedTuple):
    """A group code and the phases per execution in ns, and the key columns of the groups.

    A code that no group has stands for kernels without a call. ``names`` are the texts of the key columns
    that are codes.
    """

    codes: NDArray[Any]
    api_ns: NDArray[Any]
    queue_ns: NDArray[Any]
    kernel_ns: NDArray[Any]
    keys: dict[str, NDArray[Any]]
    names: dict[str, list[str | None]]
    noted: bool


def _total(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the time from the call's start to the later of both ends: the queue can be below 0."""
    behind = np.add(columns["queue"], columns["kernel"], dtype=np.int64)
    return {"total": narrow(np.maximum(behind, 0) + columns["api"])}


def _packed(capture: Capture) -> _Phases | None:
    found = launched(capture)
    if found is None:
        return None
    kernel_codes, kernel_names = packed_names(capture, "kernel")
    threads, devices, ids = found.keys.T
    met = threads != MISSING
    texts = [strip_version(capture.text(i)) for i in np.unique(ids[met]).tolist()]
    api, api_names = number_texts(ids[met], texts)
    codes, (process, thread, device, api) = group_keys(
        process_ids(threads[met]), thread_ids(threads[met]), devices[met], api
    )
    kernels, launches = len(kernel_names), len(process)
    of_launch = np.full(len(met), launches)
    of_launch[met] = codes
    few = np.uint16 if (launches + 1) * kernels < _FEW else np.int64

    def code(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {"": (of_launch[columns["launch"]] * kernels + columns["kernel"]).astype(few)}

    grouped_by = in_blocks({"launch": found.launch, "kernel": kernel_codes}, code)[""]
    of_group, kernel = np.divmod(np.arange(launches * kernels), max(kernels, 1))
    return _Phases(
        grouped_by,
        found.call_ns,
        found.queue_ns,
        packed_events(capture, "kernel").duration_ns,
        {
            "process_id": process[of_group],
            "thread_id": thread[of_group],
            "device_id": device[of_group],
            "api_name": api[of_group],
            "kernel_name": kernel,
        },
        {"api_name": api_names, "kernel_name": kernel_names},
        noted=False,
    )


def _joined(capture: Capture) -> _Phases:
    """Return the same from pairs of rows: a kernel whose call has two rows is in two of them."""
    pairs = launch_pairs_of(capture)
    api_start, api_end = (v[pairs.api] for v in capture.columns("api", *SPANS).values())
    start, end = (v[pairs.operation] for v in capture.columns("kernel", *SPANS).values())
    device = capture.columns("kernel", "device_id")["device_id"]
    threads, thread_codes = distinct(capture.columns("api", "global_tid")["global_tid"])
    numbers, (processes, tids) = group_keys(process_ids(threads), thread_ids(threads))
    kernel_codes, kernel_names = name_codes(capture, "kernel")
    api_codes, api_names = name_codes(capture, "api")
    codes, (thread, device_id, api, kernel) = group_keys(
        numbers[thread_codes][pairs.api],
        device[pairs.operation],
        api_codes[pairs.api],
        kernel_codes[pairs.operation],
    )
    keys = {
        "process_id": processes[thread],
        "thread_id": tids[thread],
        "device_id": device_id,
        "api_name": api,
        "kernel_name": kernel,
    }
    names = {"api_name": api_names, "kernel_name": kernel_names}
    return _Phases(codes, api_end - api_start, start - api_end, end - start, keys, names, noted=True)


SCHEMA = Schema(
    name="cuda_kern_exec_sum",
    title="CUDA Kernel Launch & Exec Time Summary",
    columns=(
        Column("process_id", "PID", Unit.ID, "process that launched"),
        Column("thread_id", "TID", Unit.ID, "thread that launched", drop_order=4),
        Column("device_id", "DevId", Unit.ID, "device the kernel ran on", drop_order=3),
        Column("count", "Count", Unit.COUNT, "number of executions"),
        Column(
            "queue_count",
            "QCount",
            Unit.COUNT,
            "executions that began after their call returned",
            drop_order=1,
        ),
        *(column for prefix, header, of in PHASES for column in stat_columns(prefix, header, of=of)),
        Column("api_name", "API Name", Unit.TEXT, "API function that launched"),
        Column("kernel_name", "Kernel Name", Unit.TEXT, "kernel name", kernels=True),
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",), ("api",)),
    compute=compute,
    order=(Order("total_avg_ns", descending=True, rounded=True),),
    qualifiers=KERNEL_NAMES,
    reads={
        "kernel": (*NAMED, "device_id", "correlation_id", "global_pid"),
        "api": (*NAMED, "global_tid", "correlation_id"),
    },
    packs=("kernel", "api"),
)
