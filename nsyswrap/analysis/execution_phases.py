"""Group the executions of kernels by process, thread, device, API function and kernel, with their phases."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct, group_keys, number_texts
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.names import name_codes, strip_version
from nsyswrap.analysis.packed import launched, packed_events, packed_names
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.capture.stream import Columns, in_blocks


class Phases(NamedTuple):
    """A group code and the phases per execution in ns, and the key columns of the groups.

    A code that no group has stands for kernels without a call. ``names`` are the texts of the key columns
    that are codes.
    """

    codes: NDArray[Any]
    api_ns: NDArray[Any]
    queue_ns: NDArray[Any]
    kernel_ns: NDArray[Any]
    keys: Columns
    names: dict[str, list[str | None]]
    noted: bool


def phases_of(capture: Capture) -> Phases:
    """Return the phases of all executions, from packed rows or from pairs of rows."""
    return _packed(capture) or _joined(capture)


def _packed(capture: Capture) -> Phases | None:
    found = launched(capture)
    if found is None:
        return None
    kernel_codes, kernel_names = packed_names(capture, "kernel")
    threads, devices, ids = found.keys.T
    met = threads != MISSING
    texts = [strip_version(capture.text(i)) for i in ascending(ids[met]).tolist()]
    api, api_names = number_texts(ids[met], texts)
    codes, (process, thread, device, api) = group_keys(
        process_ids(threads[met]), thread_ids(threads[met]), devices[met], api
    )
    kernels, launches = len(kernel_names), len(process)
    of_launch = np.full(len(met), launches)
    of_launch[met] = codes
    rows = {"launch": found.launch, "kernel": kernel_codes}
    present = np.zeros((launches + 1) * kernels, bool)

    def pair(columns: Columns) -> NDArray[Any]:
        pairs: NDArray[Any] = of_launch.take(columns["launch"]) * kernels + columns["kernel"]
        return pairs

    def mark(columns: Columns) -> Columns:
        present[pair(columns)] = True
        return {}

    in_blocks(rows, mark)
    pairs = np.flatnonzero(present)
    number = np.zeros(len(present), np.min_scalar_type(len(pairs)))
    number[pairs] = np.arange(len(pairs))
    grouped_by = in_blocks(rows, lambda columns: {"": number[pair(columns)]})[""]
    of_group, kernel = np.divmod(pairs[pairs < launches * kernels], max(kernels, 1))
    return Phases(
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


def _joined(capture: Capture) -> Phases:
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
    return Phases(codes, api_end - api_start, start - api_end, end - start, keys, names, noted=True)
