"""Say in words what a gate concluded: a sentence first, then a line for each row that decided it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.compare.model import GROUPS
from nsyswrap.analysis.kernel_names.readable import readable
from nsyswrap.base.text import printable, shorten
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.analysis.compare.gate import GateLimits, GateResult
    from nsyswrap.analysis.compare.model import Key, Pair

_WIDTH = 60  # of a name
_LISTED = 9  # GitHub shows 10 annotations of a step


def conclusion(result: GateResult, limits: GateLimits) -> str:
    """Return the sentence that says if the gate passed, and why."""
    rows = _counted(len(result.checked), "row")
    limit = f"{100 * limits.max_slower:g} %"
    if result.verdict == "slower":
        return f"slower: {len(result.failed):,} of {rows} by more than {limit}"
    if result.verdict == "passed":
        is_small = any(pair.judgement.is_small for pair in result.checked)
        stake = f" and {duration(limits.min_time_ns)} a run" if is_small else ""
        clock = " at an equal clock" if result.clock else ""
        return f"passed: none of {_checked(result)} is slower by more than {limit}{stake}{clock}"
    if not result.checked:
        return f"cannot tell: no row to check: {_groups(result)}"
    if result.no_verdicts:
        return f"cannot tell: {result.no_verdicts}"
    if not result.undecided:
        return f"cannot tell: no row is in both sides: {_checked(result)}"
    more = [pair.judgement.more_runs for pair in result.undecided]
    known = [number for number in more if number]
    advice = (
        f"; {_counted(max(known), 'more run')} a side would probably decide"
        if len(known) == len(more)
        else ""
    )
    return f"cannot tell: {len(result.undecided):,} of {rows} could be slower by more than {limit}{advice}"


def row_lines(result: GateResult) -> list[str]:
    """Return a line for each row that decided the gate, the most expensive first; no more than nine."""
    if result.verdict == "passed" or result.no_verdicts:
        return []
    rows = result.failed or result.undecided
    rows = tuple(sorted(rows, key=lambda pair: -pair.cost_ns))
    more = [f"{_counted(len(rows) - _LISTED, 'more row')}"] if len(rows) > _LISTED else []
    return [*(row_line(pair) for pair in rows[:_LISTED]), *more]


def remark_lines(result: GateResult) -> list[str]:
    """Return what else readers must know: rows of one side, rows that the clock slowed down, few runs."""
    lines = list(result.caution) if result.failed else []
    if result.absent:
        lines.append(
            f"not compared: {_counted(len(result.absent), 'row')} in one side alone: {_names(result.absent)}"
        )
    if result.clock:
        lines.append(
            f"not counted: {_counted(len(result.clock), 'row')} slower only because the SM clock was lower: "
            f"{_names(result.clock)}"
        )
    return lines


def row_line(pair: Pair) -> str:
    """Return name, times and change of a row."""
    judgement = pair.judgement
    typical_ns = pair.base_typical_ns, pair.new_typical_ns
    times = ["-" if ns is None else duration(ns) for ns in typical_ns]
    change = [] if judgement.ratio is None else [_percent(judgement.ratio)]
    if judgement.low is not None and judgement.high is not None:
        change.append(f"({_percent(judgement.low)} to {_percent(judgement.high)})")
    cost = f"{'+' if pair.cost_ns >= 0 else '-'}{duration(abs(pair.cost_ns))} a run"
    why = f"; {judgement.why}" if judgement.why else ""
    figures = filter(None, (f"{times[0]} -> {times[1]}", " ".join(change), cost))
    return f"{_name(pair.key)}: {', '.join(figures)}{why}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _name(key: Key) -> str:
    name = shorten(printable(readable(key.name) if key.group == "kernel" else key.name), _WIDTH)
    mode = f"mode {key.mode}" if key.mode else ""
    return " ".join(filter(None, (name, key.detail, mode)))


def _names(pairs: Sequence[Pair]) -> str:
    names = [_name(pair.key) for pair in pairs]
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")  # noqa: PLR2004


def _checked(result: GateResult) -> str:
    return f"{_counted(len(result.checked), 'row')} ({_groups(result)})"


def _groups(result: GateResult) -> str:
    return ", ".join(GROUPS[group].lower() for group in result.groups)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
