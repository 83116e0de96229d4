"""MPI trace: every MPI call with its process, rank, peer and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.names import look_up
from nsyswrap.base.constants import MISSING
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.reports.table import Column, Order, Report, Result, Schema

KINDS = ("mpi_p2p", "mpi_start_wait", "mpi_other", "mpi_collective")  # the order of calls that start together
SIZES = {"message_bytes": "bytes", "sent_bytes": "sent_bytes", "received_bytes": "received_bytes"}
FIELDS = ("start_ns", "end_ns", "global_tid", "name", "tag", "peer_rank", "root_rank", *SIZES.values())

_NO_RANKS = "this export has no MPI_RANKS: ranks are left empty"


def compute(capture: Capture) -> Result:
    """Return one row per call. As in nsys, a call whose thread has two ranks has two rows."""
    parts = [_calls(capture, kind) for kind in KINDS if capture.has(kind)]
    calls = {field: np.concatenate([part[field] for part in parts]) for field in FIELDS}
    rows, rank = _ranks(capture, calls["global_tid"])
    calls = {field: values[rows] for field, values in calls.items()}
    start, end = calls["start_ns"], calls["end_ns"]
    return Result(
        {
            "start_ns": start,
            "end_ns": end,
            "duration_ns": np.where(end == MISSING, MISSING, end - start),
            "event": look_up(calls["name"], capture.text),
            "process_id": process_ids(calls["global_tid"]),
            "thread_id": thread_ids(calls["global_tid"]),
            "tag": calls["tag"],
            "rank": rank,
            "peer_rank": calls["peer_rank"],
            "root_rank": calls["root_rank"],
            **{column: calls[field] for column, field in SIZES.items()},
        },
        () if capture.holds("mpi_rank") else (_NO_RANKS,),
    )


def _calls(capture: Capture, kind: str) -> dict[str, NDArray[Any]]:
    """Return all fields of one kind of call, missing if the kind lacks them."""
    recorded = capture.columns(kind, *(field for field in FIELDS if field in schema.EVENTS[kind].fields))
    return {field: recorded.get(field, np.full(capture.count(kind), MISSING)) for field in FIELDS}


def _ranks(capture: Capture, threads: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows of calls, and the rank of the thread for each (``MISSING``: none)."""
    if not capture.holds("mpi_rank"):
        return np.arange(len(threads)), np.full(len(threads), MISSING)
    known, ranks = capture.columns("mpi_rank", "global_tid", "rank").values()
    order = np.lexsort((ranks, known))
    first, end = (np.searchsorted(known[order], threads, side) for side in ("left", "right"))
    ranked = (end > first) & (threads != MISSING)
    times = np.where(ranked, end - first, 1)
    rows = np.repeat(np.arange(len(threads)), times)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    # Threads without a rank take the value appended after the last rank.
    return rows, np.append(ranks[order], MISSING)[np.where(ranked, first, len(order))[rows] + nth]


SCHEMA = Schema(
    "mpi_event_trace",
    "MPI Event Trace",
    Column("start_ns", "Start", "when the call began"),
    Column("end_ns", "End", "when it returned; missing where the capture ended before", 5),
    Column("duration_ns", "Duration", "time in the call"),
    Column("event", "Event", "MPI function"),
    Column("process_id", "Pid", "process that called", 4),
    Column("thread_id", "Tid", "thread that called", 4),
    Column.number("tag", "Tag", "tag of a point-to-point message"),
    Column.number("rank", "Rank", "rank of the thread that called"),
    Column.number("peer_rank", "PeerRank", "rank at the other end of a point-to-point message"),
    Column.number("root_rank", "RootRank", "root of a collective"),
    Column("message_bytes", "Size", "size of a point-to-point message"),
    Column("sent_bytes", "CollSendSize", "what the rank sent in a collective"),
    Column("received_bytes", "CollRecvSize", "what the rank received in a collective"),
)

REPORT = Report(SCHEMA, needs=(KINDS,), compute=compute, order=(Order("start_ns"),))
