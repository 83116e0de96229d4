"""Unified memory: bytes migrated and page faults by virtual address, the fastest migrations first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, grouped
from nsyswrap.base.constants import MISSING, NS_PER_S
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import UM_TO_DEVICE, UM_TO_HOST
from nsyswrap.reports.table import Column, Order, Report, ReportOption, Result, Schema
from nsyswrap.reports.unified_memory import migration_notes, migrations


def compute(capture: Capture, rows: int) -> Result:
    """Return one row per address: the fastest ``rows``, or all if that is negative."""
    on_cpu = capture.columns("um_cpu_fault", "address")["address"]
    on_gpu = capture.columns("um_gpu_fault", "address", "faults")
    to_host, to_device = (migrations(capture, way) for way in (UM_TO_HOST, UM_TO_DEVICE))
    pages, (cpu, gpu, host, device) = _number(
        on_cpu, on_gpu["address"], to_host["address"], to_device["address"]
    )
    both = np.concatenate((host, device))
    moved, spent = (
        GroupBy(both, len(pages)).totals(np.concatenate((to_host[name], to_device[name])))
        for name in ("bytes", "duration_ns")
    )
    times = NS_PER_S // np.maximum(spent, 1)  # nsys divides 1 s by the durations as integers
    values = {
        "address": pages,
        "to_device_bytes": _sums(device, to_device["bytes"], pages),
        "to_host_bytes": _sums(host, to_host["bytes"], pages),
        "cpu_faults": _sums(cpu, np.ones_like(cpu), pages),
        "gpu_faults": _sums(gpu, on_gpu["faults"], pages),
        "throughput_bytes_per_s": np.where(spent > 0, moved * times.astype(float), np.nan),
    }
    listed = f"{rows} of {len(pages):,} addresses are listed (um_sum:rows=-1 lists all)"
    left_out = (listed,) if 0 <= rows < len(pages) else ()
    chosen = np.argsort(-values["throughput_bytes_per_s"], kind="stable")[: rows if rows >= 0 else None]
    data = {name: part[chosen] for name, part in values.items()}
    return Result(data, (*migration_notes(capture), *left_out))


def _number(*sources: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Number the addresses in nsys' order: the first source's ascending, then the new ones of the next.

    A missing address equals none of another source. Returns the addresses, and for each source its rows'
    numbers.
    """
    apart = [np.where(part == MISSING, MISSING + number, part) for number, part in enumerate(sources)]
    inner = [np.unique(part, return_inverse=True) for part in apart]
    keys, first, codes = np.unique(
        np.concatenate([part for part, _ in inner]), return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    numbers = np.split(np.argsort(order)[codes], np.cumsum([len(part) for part, _ in inner])[:-1])
    addresses = np.where(keys < MISSING + len(sources), MISSING, keys)[order]
    return addresses, [number[rows] for number, (_, rows) in zip(numbers, inner, strict=True)]


def _sums(codes: NDArray[Any], values: NDArray[Any], pages: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of each page, missing for a page without values."""
    stats = grouped(codes, values, len(pages))
    return np.where(stats.count, stats.total, MISSING)


SCHEMA = Schema(
    "um_sum",
    "Unified Memory Analysis Summary",
    Column("address", "Virtual Address", "of the pages migrated, or faulted on"),
    Column("to_device_bytes", "HtoD Migration size", "migrated from host to device"),
    Column("to_host_bytes", "DtoH Migration size", "migrated from device to host"),
    Column.count("cpu_faults", "CPU Page Faults", "number of page faults on the CPU", 1),
    Column.count("gpu_faults", " GPU Page Faults", "number of page faults on GPUs", 2),
    Column(
        "throughput_bytes_per_s",
        "Migration Throughput",
        "bytes times the whole number of times their durations fit into a second: never too high",
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("memcpy",), ("um_cpu_fault",), ("um_gpu_fault",)),
    compute=compute,
    order=(Order("throughput_bytes_per_s", descending=True),),
    options=(ReportOption("rows", 10, "how many addresses to list at most; a negative number: all"),),
    empty_answers=True,
)
