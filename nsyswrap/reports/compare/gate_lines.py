"""Say in words what a gate concluded: a sentence first, then a line for each row that decided it."""

from __future__ import annotations

from collections.abc import Sequence

from nsyswrap.analysis.compare.gate import WITH_WARM_UP, GateLimits, GateResult, Verdict
from nsyswrap.analysis.compare.model import GROUPS, Key, Pair
from nsyswrap.analysis.kernel_names.readable import readable
from nsyswrap.base.text import counted, first_of, printable, shorten
from nsyswrap.base.units import duration
from nsyswrap.reports.compare.tables import aside_texts
from nsyswrap.reports.wording.notes import joined, note_text

VERDICTS: dict[Verdict, str] = {"passed": "PASS", "slower": "FAIL", "cannot tell": "NOT JUDGED"}
_WIDTH = 60  # of a name
_LISTED = 9  # GitHub shows 10 annotations of a step


def conclusion(result: GateResult, limits: GateLimits) -> str:
    """Return the sentence that says if the gate passed, and why."""
    return f"{VERDICTS[result.verdict]}: {_reason(result, limits)}"


def _reason(result: GateResult, limits: GateLimits) -> str:
    rows = counted(len(result.checked), "rows")
    limit = f"{100 * limits.max_slower:g} %"
    if result.verdict == "slower":
        return f"{len(result.failed):,} of {rows} slower by more than {limit}"
    if result.verdict == "passed":
        is_small = any(pair.judgement.is_small for pair in result.checked)
        stake = f" and {duration(limits.min_time_ns)} a run" if is_small else ""
        return f"none of {_checked(result)} is slower by more than {limit}{stake}"
    if not result.checked:
        return f"no row to check: {_groups(result)}"
    if result.no_verdicts:
        return note_text(result.no_verdicts)
    if not result.undecided:
        return f"too little is in both sides: {_checked(result)}"
    more = [pair.judgement.more_runs for pair in result.undecided]
    known = [number for number in more if number]
    advice = (
        f"; {counted(max(known), 'more runs')} a side would probably decide"
        if len(known) == len(more)
        else ""
    )
    return f"{len(result.undecided):,} of {rows} could be slower by more than {limit}{advice}"


def row_lines(result: GateResult) -> list[str]:
    """Return a line for each row that decided the gate, the most expensive first; no more than nine."""
    if result.verdict == "passed" or result.no_verdicts:
        return []
    rows = result.failed or result.undecided
    rows = tuple(sorted(rows, key=lambda pair: -pair.cost_ns))
    more = [counted(len(rows) - _LISTED, "more rows")] if len(rows) > _LISTED else []
    return [*(row_line(pair) for pair in rows[:_LISTED]), *more]


def remark_lines(result: GateResult) -> list[str]:
    """Return what else readers must know: what is covered, rows that are not compared, few runs."""
    lines = [*map(note_text, result.caution)] if result.failed else []
    if result.groups != ("total",) and not result.no_verdicts:
        shares = " / ".join(f"{100 * share:.0f}" for share in result.coverage)
        what = "the time from first to last GPU operation" if result.of_run else "their time"
        totals = any(pair.key.group == "total" for pair in result.checked)
        more = ", so totals are judged, too" if totals and result.is_open else ""
        lines.append(f"{_groups(result)} cover {shares} % of {what}{more}")
    if result.undecided and all(pair.key.detail == WITH_WARM_UP for pair in result.undecided):
        lines.append("warm-up alone varies too much: record the steps after it (profile --steps), or more")
    if result.absent:
        lines.append(f"not compared: {counted(len(result.absent), 'rows')}: {_names(result.absent)}")
    return lines


def row_line(pair: Pair) -> str:
    """Return name, times and change of a row: of the mean, then of the typical time where that differs."""
    judgement = pair.judgement
    times = [duration(ns) if ns else "-" for ns in (pair.base_ns, pair.new_ns)]
    change = [] if judgement.ratio is None else [_percent(judgement.ratio)]
    if judgement.low is not None and judgement.high is not None:
        change.append(f"({_percent(judgement.low)} to {_percent(judgement.high)})")
    cost = f"{'+' if pair.cost_ns >= 0 else '-'}{duration(abs(pair.cost_ns))} a run"
    notes = filter(None, (joined(judgement.why), *aside_texts(pair)))
    figures = filter(None, (f"{times[0]} -> {times[1]}", " ".join(change), cost))
    return "; ".join((f"{_name(pair.key)}: {', '.join(figures)}", *notes))


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _name(key: Key) -> str:
    name = shorten(printable(readable(key.name) if key.group == "kernel" else key.name), _WIDTH)
    mode = f"mode {key.mode}" if key.mode else ""
    return " ".join(filter(None, (name, key.detail, mode)))


def _names(pairs: Sequence[Pair]) -> str:
    reasons = [f" ({why})" if (why := joined(pair.judgement.why)) else "" for pair in pairs]
    return first_of([f"{_name(pair.key)}{reason}" for pair, reason in zip(pairs, reasons, strict=True)])


def _checked(result: GateResult) -> str:
    return f"{counted(len(result.checked), 'rows')} ({_groups(result)})"


def _groups(result: GateResult) -> str:
    return ", ".join(GROUPS[group].lower() for group in result.groups)
