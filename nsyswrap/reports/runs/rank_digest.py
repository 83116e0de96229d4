"""Digest the ranks of one run for `collect`: how long each waited for the others, and the verdict on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.ranks.members import Member, check_different, missing_ranks, places
from nsyswrap.base.errors import CaptureError, NotInCapture, UsageError
from nsyswrap.capture.capture import open_capture
from nsyswrap.reports import ranks
from nsyswrap.reports.ranks import rank_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FIGURES = ("collectives", "last", "waiting_ns", "exposed_ns")
RANK_COLUMNS = tuple(column for column in rank_waiting.SCHEMA.columns if column.name in _FIGURES)
_CANNOT_TELL = "cannot tell which rank delays the others"


@dataclass(frozen=True)
class RankDigest:
    """The figures of RANK_COLUMNS by rank, and the verdict.

    ``refusal``: why the captures are not those of the ranks of one run; empty if they are.
    """

    figures: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    verdict: str = ""
    refusal: str = ""

    def of(self, rank: int | None) -> Mapping[str, int | None]:
        """Return the figures of one rank."""
        return self.figures.get(str(rank), {})


def rank_digest(paths: Sequence[Path]) -> RankDigest:
    """Compare the captures of the ranks of one run. Raises CaptureError if one cannot be read."""
    try:
        wanted = places(paths)
        try:
            check_different(wanted)
        except UsageError as error:
            return RankDigest(refusal=error.message)
        members = [
            Member(place.label, place.number, open_capture(place.path), place.host) for place in wanted
        ]
        table = ranks.make(ranks.make_job(members), rank_waiting.SCHEMA.name)
    except UsageError as error:
        return RankDigest(verdict=f"{_CANNOT_TELL}: {error.message}")
    except NotInCapture:  # no kernel on any rank
        return RankDigest(verdict=f"{_CANNOT_TELL}: no rank has kernels")
    names = [column.name for column in table.columns]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in table.rows()]
    figures = {str(row["rank"]): {name: row[name] for name in _FIGURES} for row in rows}
    why = "" if table.verdict else f"{_CANNOT_TELL}: {table.notes[-1]}"
    return RankDigest(figures, "; ".join(filter(None, (table.verdict, why, missing_ranks(wanted)))))


def damaged(error: CaptureError | str) -> RankDigest:
    """Return the digest of ranks of which one cannot be read."""
    text = error if isinstance(error, str) else error.message
    return RankDigest(verdict=f"{_CANNOT_TELL}: {text}")
