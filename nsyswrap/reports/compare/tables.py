"""Tables of a comparison: one for each group as people read it, and one with all rows for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean, median

from nsyswrap.analysis.compare.judgement import judged_ns
from nsyswrap.analysis.compare.model import (
    GROUPS,
    Comparison,
    Group,
    Judgement,
    Key,
    Pair,
    RowFigures,
    aside_of,
)
from nsyswrap.base.constants import NS_PER_S
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.units import Unit, duration, human
from nsyswrap.reports.table import Column, Schema, Table, table_of
from nsyswrap.reports.wording.notes import joined

with lazy_imports():
    from nsyswrap.analysis import step_budget
    from nsyswrap.reports.wording import states


ALL_ROWS = "comparison"  # the name of the table with all rows
PERCENT = 100.0
_WIDE = 999.0  # percent
_APART = 0.01  # of a typical time: a mean that differs by less needs no second figure
MEANS = "Times of one are geometric means over the runs, medians in rows without Between; sums are medians"
_IF_KNOWN = {"low_percent", "high_percent", "interval", "verdict", "step_cost_ns", "rate"}

_ASIDE = {
    "warm_up_count": ("Warm-Up", "warm-up steps, which no mean includes"),
    "warm_up_ns": ("Warm-Up Time", "time of the warm-up steps"),
    "outliers_count": ("Outliers", "steps that the mean includes and the typical time does not"),
    "outliers_ns": ("Outlier Time", "time of these steps"),
}
_VERDICT = Column("verdict", "Verdict", "what the runs of both sides say")
_CHANGE = Column("change_percent", "Change", "change of the judged time, of the base", signed=True)
_BETWEEN = Column("interval", "Between", "interval of the change, at the error rate of the comparison", 4)
_ENDS = (
    Column("low_percent", "Low", "lower end of the interval of the change", signed=True),
    Column("high_percent", "High", "upper end of the interval of the change", signed=True),
)
_COST = Column("cost_ns", "Cost/Run", "new minus base, total of a run", signed=True)
_STEP_COST = Column("step_cost_ns", "Cost/Step", "new minus base, in a steady step", 1, signed=True)
# Of each group: the header of the names; the header and the words for what Base and New are the time of.
_WORDS: dict[Group, tuple[str, str, str]] = {
    "total": ("Time", "", "a run"),
    "step": ("Step", "", "a step"),
    "budget": ("Cause", "", "a step"),
    "launch": ("Part", "One Launch", "one launch"),
    "module": ("Module", "One Call", "one call"),
    "kernel": ("Kernel", "One Launch", "one launch"),
    "api": ("Call", "One Call", "one call"),
    "copy": ("Copy", "One Copy", "one copy"),
    "range": ("Range", "One Range", "one range"),
}


def group_table(
    comparison: Comparison, group: Group, names: Mapping[Key, str], *, sortable: bool = False
) -> Table:
    """Return the rows of a group as people read them, those that cost most first.

    ``names`` has the name that is shown for each row. Columns that would be empty are left out.
    ``sortable`` has the ends of intervals as numbers.
    """
    pairs = comparison.of(group)
    by_step = _is_by_step(group, pairs)
    rows = [_cells(pair, names[pair.key], by_step=by_step) for pair in sorted(pairs, key=_by_cost)]
    columns = tuple(
        column
        for one in _columns(group, [row["name"] for row in rows], pairs)
        for column in (_ENDS if sortable and one is _BETWEEN else (one,))
        if column.name not in _IF_KNOWN or any(row[column.name] is not None for row in rows)
    )
    content = [tuple(row[column.name] for column in columns) for row in rows]
    per = "" if group in ("step", "total") else ", per step" if by_step else ", per run"
    return table_of(Schema(group, f"{GROUPS[group]}{per}", *columns), content)


def _by_cost(pair: Pair) -> tuple[float, float, float]:
    """Return a key that sorts by the cost, in a step first: sides can have other numbers of steps."""
    return (-abs(step_cost_ns(pair) or 0.0), -abs(pair.cost_ns), -max(pair.base_total_ns, pair.new_total_ns))


def _columns(group: Group, names: Sequence[object], pairs: Sequence[Pair]) -> Iterator[Column]:
    """Yield the columns: what is spent in a step or a run, how often, then the time of one."""
    name_header, each_header, one = _WORDS[group]
    yield Column("name", name_header, "the row")
    if group == "kernel":
        alone = len(set(names)) == len(names)  # else only the detail tells rows of one name apart
        drop_order = 6 if alone else 0
        yield Column("detail", "Grid, Block", "grid, block and mode of duration", drop_order)
    each = group not in ("step", "total", "budget")
    by_step = _is_by_step(group, pairs)
    if each or group == "budget":
        unit, of = ("Step", "a steady step") if by_step else ("Run", "a run")
        yield Column("base_sum_ns", f"Base/{unit}", f"time in {of}, median over the runs")
        yield Column("new_sum_ns", f"New/{unit}", f"time in {of}, median over the runs")
        yield _STEP_COST if by_step else _COST
    if group not in ("budget", "total"):
        if all(pair.base_count == pair.new_count for pair in pairs):
            yield Column("new_count", "Count", "count in a run, median over the runs", 9)
        else:
            yield Column("counts", "Count", "count in a run, of base and new where they differ")
    if any(_bytes(pair.base) != _bytes(pair.new) for pair in pairs):
        yield Column("sizes", "Bytes", "bytes in a run, of base and new where they differ")
    if not each and group != "budget":
        yield Column("base_ns", "Base", f"mean time of {one}, mean over the runs")
        yield Column("new_ns", "New", f"mean time of {one}, mean over the runs")
    if each:
        yield Column("each", each_header, f"time of {one}, base and new", 3)
    yield replace(_CHANGE, help=f"change of the time of {one}, of the base", drop_order=2 if each else 0)
    yield _BETWEEN
    if group == "copy":
        yield Column("rate", "Rate", "bytes by time of the copies, base and new", 5)
    if group == "total" or (each and by_step):
        yield replace(_COST, drop_order=7 if by_step else 1)
    yield _VERDICT


def _is_by_step(group: Group, pairs: Sequence[Pair]) -> bool:
    return group not in ("step", "total") and any(step_cost_ns(pair) is not None for pair in pairs)


def _cells(pair: Pair, name: str, *, by_step: bool) -> dict[str, object]:
    """Return the cells of a row by column."""
    base, new = each_ns(pair)
    sums = pair.base_total_ns, pair.new_total_ns
    if by_step:
        sums = pair.base_per_step_ns or 0.0, pair.new_per_step_ns or 0.0
    return {
        "name": name,
        "detail": detail(pair).replace("grid ", "").replace("block ", ""),
        "base_sum_ns": None if pair.is_added else sums[0],
        "new_sum_ns": None if pair.is_removed else sums[1],
        "new_count": None if pair.is_removed else int(pair.new_count),
        "counts": _changed(int(pair.base_count), int(pair.new_count), Unit.COUNT),
        "sizes": _changed(_bytes(pair.base), _bytes(pair.new), Unit.BYTES),
        "base_ns": None if pair.is_added else base,
        "new_ns": None if pair.is_removed else new,
        "each": _each(pair, base, new),
        "change_percent": change_percent(pair),
        "interval": interval(pair.judgement) or None,
        "low_percent": _change(pair.judgement.low),
        "high_percent": _change(pair.judgement.high),
        "rate": _rate(pair),
        "step_cost_ns": step_cost_ns(pair) or None,
        "cost_ns": pair.cost_ns,
        "verdict": verdict(pair) or None,
    }


def _changed(base: int | None, new: int | None, unit: Unit) -> str | None:
    """Return a number of both sides, once if it is the same."""
    if base is None and new is None:
        return None
    texts = [human(number or 0, unit) for number in (base, new)]
    return texts[0] if base == new else arrow(*texts)


def _each(pair: Pair, base: float, new: float) -> str:
    if pair.is_added or pair.is_removed:
        return duration(new if pair.is_added else base)
    return arrow(duration(base), duration(new))


def _rate(pair: Pair) -> str | None:
    rates = (ns_per_byte(pair.base), ns_per_byte(pair.new))
    if rates == (None, None):
        return None
    return arrow(*("-" if ns is None else human(NS_PER_S / ns, Unit.BYTES_PER_S) for ns in rates))


def arrow(before: str, after: str) -> str:
    """Return ``5.11 → 5.52 ms``: the unit once if both have the same."""
    figure, _, unit = before.partition(" ")
    return f"{figure} → {after}" if unit and after.endswith(f" {unit}") else f"{before} → {after}"


def detail(pair: Pair) -> str:
    """Return grid and block of a kernel on both sides, and which of its modes a row is; else empty."""
    if pair.is_relaunched and pair.renamed_from:
        return f"{key_detail(pair.renamed_from)} → {key_detail(pair.key)}"
    return key_detail(pair.key)


def key_detail(key: Key) -> str:
    """Return grid, block and mode of a kernel, forward or backward of a module; empty for other rows."""
    if key.group == "module":
        return key.detail
    if key.group != "kernel":
        return ""
    return ", ".join(filter(None, (key.detail, f"mode {key.mode}" if key.mode else "")))


def each_ns(pair: Pair) -> tuple[float, float]:
    """Return the times of one that are judged, of both sides; the totals where there are only first calls.

    They are means over the runs whose ratio is the judged one; medians of a row that is not judged.
    """
    sides = [
        [value for row in side if row and (value := judged_ns(pair, row))] for side in (pair.base, pair.new)
    ]
    if pair.judgement.low is not None and all(sides):
        return geometric_mean(sides[0]), geometric_mean(sides[1])
    if (not sides[0] and not pair.is_added) or (not sides[1] and not pair.is_removed):
        return pair.base_total_ns, pair.new_total_ns
    base, new = (median(side or [0.0]) for side in sides)
    return base, new


def aside_texts(pair: Pair) -> list[str]:
    """Return the typical times if they differ from the means, and the steps that these leave out."""
    typical, texts = (pair.base_typical_ns, pair.new_typical_ns), []
    means = pair.base_ns, pair.new_ns
    if all(typical) and any(
        abs(mean / (one or 1) - 1) > _APART for mean, one in zip(means, typical, strict=True)
    ):
        texts.append(f"typical {arrow(*(duration(one or 0) for one in typical))}")
    base, new = aside_of(pair.base), aside_of(pair.new)
    for what, number, time in (("warm-up", 0, 1), ("outliers", 2, 3)):
        if base[number] or new[number]:
            both = (f"{side[number]:,.0f} ({duration(side[time])})" for side in (base, new))
            texts.append(f"{what} {' → '.join(both)}")
    return texts


def change_percent(pair: Pair) -> float | None:
    """Return the change that is shown: of the judged ratio, else of the typical times; None without both."""
    if pair.is_added or pair.is_removed:
        return None
    if pair.judgement.ratio is not None:
        return (pair.judgement.ratio - 1) * PERCENT
    base, new = each_ns(pair)
    return (new / base - 1) * PERCENT if base else None


def _change(ratio: float | None) -> float | None:
    return None if ratio is None else (ratio - 1) * PERCENT


def interval(judgement: Judgement) -> str:
    """Return the interval of the change in percent, ``+7.1 to +8.9 %``; empty if it is not known.

    An end that says only that nothing is known is cut off.
    """
    if judgement.low is None or judgement.high is None:
        return ""
    is_cut = judgement.high - 1 > _WIDE / PERCENT >= judgement.low - 1
    high = f"over {_WIDE:+.0f}" if is_cut else percent(judgement.high - 1)
    return f"{percent(judgement.low - 1)} to {high} %"


def percent(share: float) -> str:
    """Return a share as percent with its sign, without the sign of percent."""
    text = f"{share * PERCENT:+.1f}"
    return text.lstrip("+-") if not text.strip("+-0.") else text


def step_cost_ns(pair: Pair) -> float | None:
    """Return new minus base in a steady step; a side without the row counts 0. None without steps."""
    base, new = pair.base_per_step_ns, pair.new_per_step_ns
    if base is None and new is None:
        return None
    if (base is None and not pair.is_added) or (new is None and not pair.is_removed):
        return None
    return (new or 0.0) - (base or 0.0)


def ns_per_byte(rows: Sequence[object]) -> float | None:
    """Return the median time per byte of the runs; None if no run has bytes."""
    known = sorted(
        value for row in rows if row is not None and (value := getattr(row, "ns_per_byte", None)) is not None
    )
    middle = len(known) // 2
    return None if not known else (known[middle] + known[~middle]) / 2


def basis(comparison: Comparison) -> str:
    """Return what the columns are of, if some are not of medians; else empty."""
    is_judged = any(pair.judgement.low is not None for pair in comparison.pairs)
    return MEANS if is_judged else ""


def verdict(pair: Pair) -> str:
    """Return the outcome of a row in a word or two."""
    if pair.is_added or pair.is_removed:
        return "added" if pair.is_added else "removed"
    return {"clock": "lower clock", "not judged": ""}.get(pair.judgement.outcome, pair.judgement.outcome)


def all_rows(comparison: Comparison) -> Table:
    """Return one table with every row and figure, with full names and unrounded values."""
    return table_of(SCHEMA, [tuple(_figures(pair).values()) for pair in comparison.pairs])


def _figures(pair: Pair) -> dict[str, object]:
    judged, renamed = pair.judgement, pair.renamed_from
    base_bytes, new_bytes = _bytes(pair.base), _bytes(pair.new)
    return {
        "group": pair.key.group,
        "name": pair.key.name,
        "detail": pair.key.detail or None,
        "mode": pair.key.mode or None,
        "outcome": judged.outcome,
        "why": joined(judged.why) or None,
        "base_runs_count": sum(row is not None for row in pair.base),
        "new_runs_count": sum(row is not None for row in pair.new),
        "base_count": pair.base_count,
        "new_count": pair.new_count,
        "base_total_ns": pair.base_total_ns,
        "new_total_ns": pair.new_total_ns,
        "cost_ns": pair.cost_ns,
        "base_typical_ns": pair.base_typical_ns,
        "new_typical_ns": pair.new_typical_ns,
        "change_percent": change_percent(pair),
        "low_percent": _change(judged.low),
        "high_percent": _change(judged.high),
        "base_per_step_ns": pair.base_per_step_ns,
        "new_per_step_ns": pair.new_per_step_ns,
        "step_cost_ns": step_cost_ns(pair),
        "base_size_bytes": base_bytes,
        "new_size_bytes": new_bytes,
        "base_per_byte_ns": ns_per_byte(pair.base),
        "new_per_byte_ns": ns_per_byte(pair.new),
        "more_runs_count": judged.more_runs,
        "renamed_from": renamed.name if renamed else None,
        "renamed_from_detail": (renamed.detail or None) if renamed else None,
        "base_mean_ns": pair.base_ns or None,
        "new_mean_ns": pair.new_ns or None,
        "typical_change_percent": _change(judged.typical),
        **_asides("base", pair.base),
        **_asides("new", pair.new),
    }


def _asides(side: str, rows: Sequence[RowFigures | None]) -> dict[str, float | None]:
    known, found = any(row and row.aside for row in rows), aside_of(rows)
    return {f"{side}_{name}": value if known else None for name, value in zip(_ASIDE, found, strict=True)}


def _bytes(rows: Sequence[object]) -> int | None:
    sizes = sorted(size for row in rows if (size := getattr(row, "size_bytes", None)) is not None)
    return sizes[len(sizes) // 2] if sizes else None


SCHEMA = Schema(
    ALL_ROWS,
    "All rows of the comparison",
    Column("group", "Group", f"what the row is: {', '.join(GROUPS)}"),
    Column("name", "Name", "module, kernel, call, copy, range, state or label of the steps"),
    Column("detail", "Detail", "grid and block of a kernel"),
    Column.number("mode", "Mode", "1 and up for kernels whose durations have several modes"),
    Column(
        "outcome",
        "Outcome",
        "slower, faster, same, cannot tell, clock (slower in time and not in cycles) or not judged",
    ),
    Column("why", "Why", "the reason of the outcome, if it needs one"),
    Column("base_runs_count", "Base Runs", "runs of the base that have the row"),
    Column("new_runs_count", "New Runs", "new runs that have the row"),
    Column("base_count", "Base Count", "median count over the runs; 0: absent"),
    Column("new_count", "New Count", "median count over the runs; 0: absent"),
    Column("base_total_ns", "Base Total", "median total over the runs; 0: absent"),
    Column("new_total_ns", "New Total", "median total over the runs; 0: absent"),
    Column("cost_ns", "Cost", "new total minus base total", signed=True),
    Column(
        "base_typical_ns", "Base Typical", "trimmed mean of one without first launches, median over the runs"
    ),
    Column(
        "new_typical_ns", "New Typical", "trimmed mean of one without first launches, median over the runs"
    ),
    Column("change_percent", "Change", "change of the judged time, of the base", signed=True),
    *_ENDS,
    Column("base_per_step_ns", "Base/Step", "time in a steady step"),
    Column("new_per_step_ns", "New/Step", "time in a steady step"),
    Column("step_cost_ns", "Cost/Step", "new minus base in a steady step", signed=True),
    Column("base_size_bytes", "Base Bytes", "bytes of the copies of a run, median"),
    Column("new_size_bytes", "New Bytes", "bytes of the copies of a run, median"),
    Column("base_per_byte_ns", "Base/Byte", "time of the copies per byte"),
    Column("new_per_byte_ns", "New/Byte", "time of the copies per byte"),
    Column("more_runs_count", "More Runs", "so many runs a side would probably decide it"),
    Column("renamed_from", "Renamed From", "the name in the base, certain if the base has it"),
    Column("renamed_from_detail", "Renamed From Detail", "grid and block in the base"),
    Column("base_mean_ns", "Base Mean", "mean of all of a run, median over the runs"),
    Column("new_mean_ns", "New Mean", "mean of all of a run, median over the runs"),
    Column(
        "typical_change_percent",
        "Typical Change",
        "change of the typical time, of the base, beside that of the mean",
        signed=True,
    ),
    *(
        Column(f"{side}_{name}", f"{side.title()} {header}", f"{text}, median over the runs")
        for side in ("base", "new")
        for name, (header, text) in _ASIDE.items()
    ),
)


def row_name(key: Key) -> str:
    """Return the name of a row: a module with what is measured of it, a state of the GPU in words."""
    if key.group == "module":
        return f"{key.name}, {key.detail}"
    known = key.group == "budget" and key.name in step_budget.STATES  # a saved baseline may have others
    return states.state_name(key.name) if known else key.name
