"""Bring the rows of two sides together: the same kernel, call or step in all runs, and renamed kernels.

``pair_rows`` does this in an order in which each part takes what the one before left:

1. modes of a kernel that differ between runs become one row (``_kernels_to_merge``, ``_table``)
2. equal keys are a pair; each key of a run is in one PairedRows, with None for runs that lack it
3. a kernel of the same name and number of launches, with another grid or block (``_relaunched``), and steps
   that only have another label (``_relabeled``)
4. of the kernels still on one side alone, renamed ones (``_renamed``), by the name without what a build
   changes, first with the same grid, then with any, last by the grid and a similar duration

A trait that two kernels of a side share pairs none of them. ``_joint`` keeps the key of the new side;
``base_key`` is the other one.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from statistics import median

from nsyswrap.analysis.compare.model import WHOLE_RUN, Key, PairedFigures, RowFigures, RunFigures, Side
from nsyswrap.analysis.compare.module_rows import hidden_modules
from nsyswrap.analysis.kernel_names.classes import plain
from nsyswrap.base.records import dataclass

MOST_DURATIONS = 32  # as in RowFigures
_SAME_SHARE = 0.05  # shares of a mode in two runs that differ by less are the same
_OTHER_STEPS = 2  # steps more or fewer: the start and the end of the steady part can move
_OTHER_SHARE = 0.2  # of the steps, at most so many of them
_SIMILAR = 1.25  # times as long: two kernels that may be the same
_ARGUMENTS = re.compile(r"<[^<>]*>|\([^()]*\)")
# A number, a hash or the specialisation that Triton appends: parts of a name that change with a build.
_SUFFIX = re.compile(r"(?<=[_.$])(?:\d+|(?=[0-9a-f]*\d)[0-9a-f]{6,}|(?:\d+[a-z]{1,2})+)(?=$|[_.$])")


@dataclass(frozen=True)
class PairedRows(PairedFigures):
    """The rows of a key, with how they were brought together.

    ``is_merged``: the modes of this kernel differ between runs, so all of it is one row. ``base_key`` is that
    of the base if it is another: the kernel had another name, grid or block, or the steps another label.
    """

    is_merged: bool = False
    base_key: Key | None = None


@dataclass
class _Kernel:
    keys: set[Key] = field(default_factory=set)
    modes: list[tuple[int, ...]] = field(default_factory=list)
    shares: list[tuple[float, ...]] = field(default_factory=list)


def pair_rows(base: Side, new: Side) -> list[PairedRows]:
    """Return the rows of all keys of both sides. A kernel that is probably only renamed is one row.

    Times in a step are compared if the sides have the same steps. Otherwise the time by cause is that of the
    whole run.
    """
    merged = _kernels_to_merge([*base.runs, *new.runs])
    with_steps = have_same_steps(base, new)
    tables = [[_table(run.rows, merged, with_steps=with_steps) for run in side.runs] for side in (base, new)]
    keys = dict.fromkeys(key for side in tables for run in side for key in run)
    hidden = hidden_modules(base, new)
    keys = {key: None for key in keys if key.group != "module" or key.name not in hidden}
    rows = [
        PairedRows(
            key,
            tuple(run.get(key) for run in tables[0]),
            tuple(run.get(key) for run in tables[1]),
            is_merged=key in merged.values(),
        )
        for key in keys
    ]
    rows = _joint(rows, {**_relaunched(rows), **(_relabeled(base, new) if with_steps else {})})
    return _joint(rows, _renamed(rows))


def have_same_steps(base: Side, new: Side) -> bool:
    """Return True if all runs have steps of the same labels, or each side as many steps of its only label."""
    labels = {_step_keys(run) for run in (*base.runs, *new.runs)}
    return labels != {frozenset()} and (len(labels) == 1 or bool(_relabeled(base, new)))


def _step_keys(run: RunFigures) -> frozenset[Key]:
    return frozenset(key for key in run.rows if key.group == "step")


def _relabeled(base: Side, new: Side) -> dict[Key, Key]:
    """Return the key of the new steps with that of the base, if they only have another label.

    The label of a sequence of GPU operations changes with their number. The number of steps stays.
    """
    labels = [{_step_keys(run) for run in side.runs} for side in (base, new)]
    if labels[0] == labels[1] or any(len(found) != 1 or len(next(iter(found))) != 1 for found in labels):
        return {}
    counts = [median(run.steps for run in side.runs) for side in (base, new)]
    keys = [next(iter(next(iter(found)))) for found in labels]
    most = min(_OTHER_STEPS, _OTHER_SHARE * max(counts))
    return {keys[1]: keys[0]} if abs(counts[0] - counts[1]) <= most else {}


def _relaunched(rows: list[PairedRows]) -> dict[Key, Key]:
    """Return kernels that the new side launches as often as the base, but with another grid or block.

    The value is the key of the base. A name with several such launches stays apart: it is not clear which
    belong together.
    """
    removed, added = (
        _only_ones(
            {
                row.key: _traits(row)
                for row in rows
                if row.key.group == "kernel" and not row.in_both and any(row.base) == is_removed
            },
            lambda key, traits: (key.name, key.mode, traits.count),
        )
        for is_removed in (True, False)
    )
    return {added[trait]: removed[trait] for trait in removed.keys() & added.keys()}


def _joint(rows: list[PairedRows], base_keys: Mapping[Key, Key]) -> list[PairedRows]:
    """Bring rows together whose key differs between the sides."""
    of_key, gone = {row.key: row for row in rows}, set(base_keys.values())
    return [
        replace(row, base=of_key[old].base, base_key=old) if (old := base_keys.get(row.key)) else row
        for row in rows
        if row.key not in gone
    ]


def _renamed(rows: Iterable[PairedFigures]) -> dict[Key, Key]:
    """Return the added kernels that are probably a removed one, with the key of that.

    Both have the same number of launches. Their names differ only in template arguments, parameters, numbers
    or hashes, or they have the same grid and similar durations. A kernel that could be several is none.
    """
    removed: dict[Key, _Traits] = {}
    added: dict[Key, _Traits] = {}
    for row in rows:
        if row.key.group == "kernel" and not row.in_both:
            (removed if any(row.base) else added)[row.key] = _traits(row)
    found: dict[Key, Key] = {}
    tests: tuple[Callable[[Key, _Traits], Hashable], ...] = (
        lambda key, traits: (plain_name(key.name), key.detail, key.mode, traits.count),
        lambda key, traits: (plain_name(key.name), key.mode, traits.count),
        lambda key, traits: (key.detail, key.mode, traits.count),
    )
    for test in tests:
        alike = _only_ones(removed, test), _only_ones(added, test)
        for trait in alike[0].keys() & alike[1].keys():
            old, new = alike[0][trait], alike[1][trait]
            each_ns = removed[old].each_ns, added[new].each_ns
            if test is not tests[-1] or 0 < max(each_ns) <= _SIMILAR * min(each_ns):
                found[new] = old
                del removed[old], added[new]
    return found


def plain_name(name: str) -> str:
    """Return the name of a kernel without what may change from build to build.

    >>> plain_name("void gemm<float, 128>(float*)"), plain_name("triton_poi_fused_add_3")
    ('gemm', 'triton_poi_fused_add')
    """
    before, name = "", plain(name)
    while before != name:
        before, name = name, _ARGUMENTS.sub("", name)
    return re.sub(r"_+", "_", _SUFFIX.sub("", name)).rstrip("_.$ ")


def merge_rows(rows: Sequence[RowFigures]) -> RowFigures:
    """Return the row of all launches that are now in several: typical time and clock are weighted means."""
    timed = [(row.count, row.typical_ns, row.error) for row in rows if row.typical_ns is not None]
    weight = sum(count for count, _, _ in timed)
    typical = sum(count * ns for count, ns, _ in timed) / weight if weight else None
    error = (
        math.hypot(*(count * ns * error for count, ns, error in timed)) / weight / typical if typical else 0.0
    )
    samples = sum(row.clock_samples for row in rows)
    clocks = [row.clock_mhz * row.clock_samples for row in rows if row.clock_mhz]
    per_step = [row.per_step_ns for row in rows if row.per_step_ns is not None]
    sizes = [row.size_bytes for row in rows if row.size_bytes is not None]
    total = sum(row.total_ns for row in rows)
    costs = [row.total_ns * row.mean_error for row in rows if row.mean_error is not None]
    return RowFigures(
        sum(row.count for row in rows),
        total,
        typical,
        error,
        sum(per_step) if per_step else None,
        sum(sizes) if sizes else None,
        sum(clocks) / samples if samples and clocks else None,
        samples,
        merge_durations([pair for row in rows for pair in row.durations]),
        None if len(costs) < len(rows) else math.hypot(*costs) / total if total else 0.0,
    )


def merge_durations(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return at most MOST_DURATIONS pairs of duration and count: the nearest neighbors are put together."""
    counts: dict[int, int] = defaultdict(int)
    for ns, count in pairs:
        counts[ns] += count
    merged = sorted(counts.items())
    while len(merged) > MOST_DURATIONS:
        gaps = [right[0] - left[0] for left, right in pairwise(merged)]
        at = gaps.index(min(gaps))
        (left, few), (right, more) = merged[at : at + 2]
        merged[at : at + 2] = [(round((left * few + right * more) / (few + more)), few + more)]
    return tuple(merged)


def _kernels_to_merge(runs: Sequence[RunFigures]) -> dict[Key, Key]:
    """Return the keys of modes that cannot be paired, with the key of the whole kernel."""
    with_modes = {(key.name, key.detail) for run in runs for key in run.rows if key.mode}
    kernels: dict[Key, _Kernel] = defaultdict(_Kernel)
    for run in runs if with_modes else ():
        counts: dict[Key, dict[int, int]] = defaultdict(dict)
        for key, row in run.rows.items():
            if key.group == "kernel" and (key.name, key.detail) in with_modes:
                whole = key._replace(mode=0)
                counts[whole][key.mode] = row.count
                kernels[whole].keys.add(key)
        for whole, modes in counts.items():
            kernels[whole].modes.append(tuple(sorted(modes)))
            total = sum(modes.values()) or 1
            kernels[whole].shares.append(tuple(count / total for _, count in sorted(modes.items())))
    return {
        key: whole
        for whole, kernel in kernels.items()
        if len(kernel.keys) > 1 and not _agree(kernel)
        for key in kernel.keys
    }


def _agree(kernel: _Kernel) -> bool:
    """Return True if all runs have the same modes, each with the same share of the launches."""
    return len(set(kernel.modes)) == 1 and all(
        max(share) - min(share) <= _SAME_SHARE for share in zip(*kernel.shares, strict=True)
    )


def _table(
    rows: Mapping[Key, RowFigures], merged: Mapping[Key, Key], *, with_steps: bool
) -> dict[Key, RowFigures]:
    """Return the rows to compare of a run."""
    parts: dict[Key, list[RowFigures]] = defaultdict(list)
    for key, row in rows.items():
        if key.group != "budget" or with_steps != (key.detail == WHOLE_RUN):
            parts[merged.get(key, key)].append(row if with_steps else replace(row, per_step_ns=None))
    return {key: merge_rows(part) if len(part) > 1 else part[0] for key, part in parts.items()}


@dataclass(frozen=True)
class _Traits:
    count: float
    each_ns: float


def _traits(rows: PairedFigures) -> _Traits:
    known = [row for row in (*rows.base, *rows.new) if row]
    return _Traits(
        median(row.count for row in known),
        median(row.total_ns / row.count if row.count else 0 for row in known),
    )


def _only_ones(
    kernels: Mapping[Key, _Traits], test: Callable[[Key, _Traits], Hashable]
) -> dict[Hashable, Key]:
    """Return the kernels that no other one resembles, by their trait."""
    alike: dict[Hashable, list[Key]] = defaultdict(list)
    for key, own in kernels.items():
        alike[test(key, own)].append(key)
    return {trait: keys[0] for trait, keys in alike.items() if len(keys) == 1}
