"""Find what memory costs: pageable, tiny or exposed copies, and migrations of unified memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.blockers import blocked
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.advice.replay import gained_without_waits
from nsyswrap.analysis.arrays.groups import ascending, distinct
from nsyswrap.analysis.conditions import host_link_bytes_per_ns
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, MEMCPY
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet, difference, intersection, joined
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import (
    PAGE_FAULT,
    PINNED,
    SPANS,
    TINY_BYTES,
    TO_DEVICE,
    TO_HOST,
    WITHIN_DEVICE,
)

_HIDDEN = 0.1  # of the copies' time: more overlap is no turn-taking
_COPY_BOUND = 0.25  # of the busy time
_NEAR, _SLOW = 0.8, 0.5  # of the rate of the link
_MANY = 100
_LARGE_BYTES = 1_000_000  # of a copy that shows what the link can do
_IN_A_COPY = ("copy", "synchronise", "call")


def pageable(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if copies from or to pageable memory leave the GPU without compute.

    From pinned memory the bytes cross the same link; what that takes is saved only if kernels can hide it. It
    is known if the run has a large copy of pinned memory, or if the link was recorded with the run. Launches
    after copies to the device come earlier, as the host no longer waits for these.
    """
    copies = context.copies
    rows = copies.rows[copies.pageable]
    before = _idle_before(context, rows)
    cover = joined(_exposed(context, rows), before)
    if not context.worth(cover.length):
        return
    calls = context.operations.call[copies.rows[copies.pageable & (copies.kind == TO_DEVICE)]]
    gained = min(gained_without_waits(context, ascending(calls[calls >= 0])), context.most_saved_idle_ns)
    ahead = max(0, gained - before.length)
    took = int((context.operations.end_ns - context.operations.start_ns)[rows].sum())
    size, kind = (values[copies.pageable] for values in (copies.size, copies.kind))
    moved = int(size.sum())
    hiding = difference(context.compute, context.running(rows)).length
    recorded = host_link_bytes_per_ns(context.capture.whole) or 0.0
    crossing = size / _link_bytes_per_ns(context.capture.whole, kind, recorded)
    known = bool(np.isfinite(crossing).all())
    rest = max(0, int(crossing.sum()) - hiding) if known else 0
    yield context.finding(
        "pageable_copies",
        cover,
        "memcpy_bandwidth",
        ceiling_ns=max(0, min(context.most_saved_ns(cover) + ahead, context.most_ns) - rest),
        status="bound" if known else "unknown",
        copies=len(rows),
        moved_bytes=moved,
        rate_bytes_per_s=moved / max(took, 1) * 1e9,
        copies_ns=took,
        hiding_ns=hiding,
        **({"ahead_ns": ahead} if ahead else {}),
        **_integrated(context.capture.whole),
    )


def _link_bytes_per_ns(whole: Capture, kinds: NDArray[Any], recorded: float = 0.0) -> NDArray[Any]:
    """Return what the link of copies of each of these kinds gives; NaN if that is not known.

    It is the best rate of large pinned copies, else the recorded peak of the link, unless a copy was faster.
    """
    best = {kind: rates for kind, *rates in best_rates(whole)}
    each, codes = distinct(kinds)
    links = []
    for one in each.tolist():
        link, most = best.get(one, (0.0, 0.0))
        if not link and one in {TO_DEVICE, TO_HOST} and most <= recorded:
            link = recorded
        links.append(link or np.nan)
    return np.array(links, float)[codes]  # type: ignore[no-any-return]


@per_capture
def best_rates(whole: Capture) -> list[tuple[int, float, float]]:
    """Return the kinds of large copies, each with the best rate in bytes/ns: of pinned ones, and of all."""
    whole = whole.recorded
    if not whole.has(MEMCPY):
        return []
    fields = ("copy_kind", "bytes", "src_kind", "dst_kind", *SPANS)
    kind, size, source, target, start, end = whole.columns(MEMCPY, *fields).values()
    large = (size >= _LARGE_BYTES) & (end > start)
    pinned = (source == PINNED) | (target == PINNED)
    rate = size / np.maximum(end - start, 1)
    rates = []
    for one in ascending(kind[large]).tolist():
        mine = large & (kind == one)
        rates.append((one, float(rate[mine & pinned].max(initial=0)), float(rate[mine].max())))
    return rates


def not_overlapped(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if copies and kernels take turns although both take much time.

    Copies inside a GPU take the memory from kernels beside them: they have a finding of their own.
    """
    copies = context.copies
    crosses = copies.kind != WITHIN_DEVICE
    rows = copies.rows[crosses & ~copies.pageable & (copies.size > TINY_BYTES)]
    copying, exposed = context.running(rows), _exposed(context, rows)
    overlapped = copying.length - exposed.length
    alone = context.compute.length - overlapped
    potential = min(context.most_saved_ns(exposed), alone)
    if not context.worth(potential) or overlapped > _HIDDEN * copying.length:
        return
    yield context.finding(
        "copies_not_overlapped",
        exposed,
        "gpu_time",
        ceiling_ns=potential,
        copies=len(rows),
        exposed_ns=exposed.length,
        copies_ns=copying.length,
        kernels_alone_ns=alone,
        **blocked(context, context.marks(rows), context.compute),
        **_integrated(context.capture.whole),
    )


def copy_bound(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if copies at the speed of the link take time for which there are no kernels to overlap.

    The kernels there are already run beside copies, or are too short to be worth it.
    """
    copies = context.copies
    crosses = (copies.kind == TO_DEVICE) | (copies.kind == TO_HOST)
    chosen = crosses & ~copies.pageable & (copies.size > TINY_BYTES)
    rows = copies.rows[chosen]
    copying, exposed = context.running(rows), _exposed(context, rows)
    overlapped = copying.length - exposed.length
    alone = context.compute.length - overlapped
    busy = context.compute.length + exposed.length
    ceiling = context.most_saved_ns(exposed)
    if not (overlapped and context.worth(ceiling)) or context.worth(alone):
        return
    if copying.length < _COPY_BOUND * busy:
        return
    took = int((context.operations.end_ns - context.operations.start_ns)[rows].sum())
    size = copies.size[chosen]
    if not (size / _link_bytes_per_ns(context.capture.whole, copies.kind[chosen])).sum() >= _NEAR * took:
        return  # also if the peak of the link is not known
    yield context.finding(
        "copy_bound",
        exposed,
        "memcpy_bandwidth",
        ceiling_ns=ceiling,
        copies=len(rows),
        moved_bytes=int(size.sum()),
        rate_bytes_per_s=int(size.sum()) / max(took, 1) * 1e9,
        exposed_ns=exposed.length,
        kernels_ns=context.compute.length,
    )


def slow_link(context: AdviceContext) -> Iterator[Finding]:
    """Yield the rate of large pinned copies if it is less than half of the recorded peak of the link."""
    copies, peak = context.copies, host_link_bytes_per_ns(context.capture.whole)
    if peak is None:
        return
    crosses = (copies.kind == TO_DEVICE) | (copies.kind == TO_HOST)
    chosen = crosses & ~copies.pageable & (copies.size >= _LARGE_BYTES)
    rows = copies.rows[chosen]
    cover = context.running(rows)
    if not context.worth(cover.length):
        return
    rate = int(copies.size[chosen].sum()) / int(context.duration_ns(rows).sum())
    if rate < _SLOW * peak:
        rates = {"rate_bytes_per_s": rate * 1e9, "link_bytes_per_s": peak * 1e9}
        yield context.fact("slow_link", cover, "memcpy_bandwidth", **rates)


def tiny(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if many small copies keep the GPU from computing."""
    copies = context.copies
    rows = copies.rows[copies.tiny]
    if len(rows) < _MANY:
        return
    cover = joined(_exposed(context, rows), _idle_before(context, rows))
    if not context.worth(cover.length):
        return
    yield context.finding(
        "tiny_copies",
        cover,
        "memcpy_bandwidth",
        copies=len(rows),
        median_bytes=float(np.median(copies.size[copies.tiny])),
        most_bytes=TINY_BYTES,
        cost_ns=cover.length,
        **_integrated(context.capture.whole),
    )


def _integrated(whole: Capture) -> dict[str, Any]:
    """Return ``integrated`` if all GPUs share the memory of the host; empty if not, or if it is not known."""
    if not whole.has("gpu"):
        return {}
    discrete = whole.columns("gpu", "is_discrete")["is_discrete"]
    return {"integrated": True} if len(discrete) and not discrete.any() else {}


def _exposed(context: AdviceContext, rows: NDArray[Any]) -> IntervalSet:
    """Return the typical time in which these operations ran and no kernel did."""
    return difference(context.running(rows), context.compute)


def _idle_before(context: AdviceContext, rows: NDArray[Any]) -> IntervalSet:
    """Return the time in which the GPU was idle because the call of one of these copies was under way."""
    gaps, kinds = context.gaps, context.kinds
    mine = np.zeros(len(gaps), dtype=bool)
    copying = np.flatnonzero(kinds.copying)
    place = gaps.operations.row[gaps.after[copying]]
    mine[copying] = np.isin(place, context.operations.row[rows])
    short = context.idle(mine & ~kinds.long_host, ("host", "launch"))
    return joined(context.idle(mine, _IN_A_COPY), short)


def faulting_kernels(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if pages of unified memory migrate after page faults while kernels run."""
    operations = context.operations
    migrations = np.flatnonzero(operations.migration)
    kernels = np.flatnonzero(operations.kind == KINDS.index(KERNEL))
    if not (len(kernels) and len(migrations)):
        return
    fields = context.capture.whole.columns(MEMCPY, "migration_cause", "bytes")
    row = operations.row[migrations]
    faulted = migrations[fields["migration_cause"][row] == PAGE_FAULT]
    running = context.running(kernels)
    faulted = faulted[running.within(operations.start_ns[faulted], operations.end_ns[faulted]) > 0]
    cover = intersection(running, context.running(faulted))
    if not context.worth(cover.length):
        return
    yield context.finding(
        "faulting_kernels",
        cover,
        "um_migrations",
        ceiling_ns=cover.length,
        migrations=len(faulted),
        migrated_bytes=int(fields["bytes"][operations.row[faulted]].sum()),
        migrating_ns=cover.length,
        kernels_ns=running.length,
    )


def waiting_for_pages(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the GPU is idle until pages have migrated, before a kernel."""
    gaps, operations = context.gaps, context.operations
    starts = operations.start_ns[operations.kind == KINDS.index(KERNEL)]
    marks = (gaps.parts["migration"] > 0) & (gaps.end_ns <= starts.max(initial=0))
    if not marks.any():
        return
    causes = context.capture.whole.columns(MEMCPY, "migration_cause")["migration_cause"]
    rows = np.flatnonzero(marks)
    marks[rows] = causes[gaps.operations.row[gaps.after[rows]]] == PAGE_FAULT
    cover = context.idle(marks, ("migration",))
    if not context.worth(cover.length):
        return
    yield context.finding(
        "waiting_for_pages", cover, "um_migrations", gaps=int(marks.sum()), idle_ns=cover.length
    )


CHECKS = (pageable, not_overlapped, copy_bound, tiny, faulting_kernels, waiting_for_pages)
FACTS = (slow_link,)
