"""What the ranks of a job did, in lines: busy, exposed communication, and waiting for each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nsyswrap.analysis.answer import Answer, RankShare
from nsyswrap.analysis.finding import Finding
from nsyswrap.base.text import counted, printable
from nsyswrap.reports.answer.line import AnswerLine, first_line, whole_percent

_WORTH_PERCENT = 1.0  # of the time judged: less communication needs no line


def rank_lines(answer: Answer) -> Iterator[AnswerLine]:
    """Yield how busy each rank was, and which part of its communication is exposed, blocking and waiting."""
    ranks = answer.ranks
    yield _by_rank("busy", ranks, [_percent(rank.busy_ns, rank) for rank in ranks])
    window_ns = max(sum(rank.window_ns for rank in ranks), 1)  # of GPUs that ranks share once for each
    exposed = 100.0 * sum(rank.exposed_ns for rank in ranks) / window_ns
    if exposed < _WORTH_PERCENT:
        return
    waits = [rank.waiting_ns for rank in ranks if rank.waiting_ns is not None]
    is_known = len(waits) == len(ranks)
    waiting = 100.0 * sum(waits) / window_ns
    unmatched = 100.0 * sum(rank.unmatched_ns for rank in ranks) / window_ns
    at_least = "at least " if unmatched >= _WORTH_PERCENT else ""  # a broadcast or a send may wait, too
    how = f"{at_least}{whole_percent(waiting)} waiting for other ranks"
    how = how if is_known else "waiting for other ranks unknown"
    part = f"exposed communication {whole_percent(exposed)}"
    texts = [f"{part} of the {answer.scope}, {how}", f"{part}, {how}"]
    yield first_line([AnswerLine(text, "detail") for text in texts])
    if is_known and waiting >= _WORTH_PERCENT:
        yield _by_rank("waiting", ranks, [_percent(ns, rank) for ns, rank in zip(waits, ranks, strict=True)])
    blocking = [_percent(rank.blocking_ns, rank) for rank in ranks if rank.blocking_ns is not None]
    blocked = [rank for rank in ranks if rank.blocking_ns is not None]
    if blocked and max(blocking) >= _WORTH_PERCENT:
        yield _by_rank("launched work held up by communication", blocked, blocking)


def on_ranks(finding: Finding, answer: Answer) -> Iterator[AnswerLine]:
    """Yield which ranks have a finding, if these are not all; of a late rank, where to see its steps."""
    if finding.kind == "waiting_for_rank":
        yield AnswerLine("compare the ranks step by step", "detail", typed="-r rank_steps")
        return
    having = [rank for rank in answer.ranks if finding.kind in rank.cost_percent]
    if not 0 < len(having) < len(answer.ranks):
        return
    if len(having) == 1:
        yield AnswerLine(f"on {printable(having[0].label)} only", "detail")
        return
    # A rank that waits for another one saves nothing by a cure of its own, however much it costs there.
    saves = (rank for rank in having if rank.cost_percent[finding.kind] == finding.ceiling_percent)
    most = next((f", most to save on {printable(rank.label)}" for rank in saves), "")
    yield AnswerLine(f"on {len(having)} of {counted(len(answer.ranks), 'ranks')}{most}", "detail")


def _percent(ns: int | None, rank: RankShare) -> float:
    return 100.0 * (ns or 0) / max(rank.window_ns, 1)


def _by_rank(title: str, ranks: Sequence[RankShare], percents: Sequence[float]) -> AnswerLine:
    """Return the percentage of each rank; of ranks that do not fit in a line, the least and the most."""
    named = [
        f"{printable(rank.label)} {whole_percent(value)}" for rank, value in zip(ranks, percents, strict=True)
    ]
    least, most = (percents.index(extreme(percents)) for extreme in (min, max))
    texts = [f"{title}: {', '.join(named)}"]
    if len(ranks) > 2:  # noqa: PLR2004 - two are the least and the most
        texts.append(f"{title}: {len(ranks)} ranks, from {named[least]} to {named[most]}")
    return first_line([AnswerLine(text, "detail") for text in texts])
