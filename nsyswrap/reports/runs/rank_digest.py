"""Digest the ranks of one run for `collect`: how long each waited for the others, and the verdict on them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.ranks.members import Member, check_different, missing_ranks, places
from nsyswrap.base.errors import CaptureError, NotInCapture, UsageError
from nsyswrap.base.files import read_json, typed
from nsyswrap.base.run_folder import RANKS_DIGEST, RunFolder
from nsyswrap.capture.capture import open_capture
from nsyswrap.capture.identity import identity_of
from nsyswrap.reports import ranks
from nsyswrap.reports.ranks import rank_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FIGURES = ("collectives", "last", "waiting_ns", "exposed_ns")
RANK_COLUMNS = tuple(column for column in rank_waiting.SCHEMA.columns if column.name in _FIGURES)
_FORMAT = 1
_CANNOT_TELL = "cannot tell which rank delays the others"


@dataclass(frozen=True)
class RankDigest:
    """The figures of RANK_COLUMNS by rank, and the verdict. ``sources`` are the captures' identities."""

    sources: list[tuple[int, str]]
    figures: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    verdict: str = ""
    format: int = _FORMAT

    def of(self, rank: int | None) -> Mapping[str, int | None]:
        """Return the figures of one rank."""
        return self.figures.get(str(rank), {})


def rank_digest(paths: Sequence[Path]) -> RankDigest:
    """Compare the captures of the ranks of one run. Raises CaptureError if one cannot be read."""
    sources = _sources(paths)
    try:
        wanted = places(paths)
        check_different(wanted)
        members = [
            Member(place.label, place.number, open_capture(place.path), place.host) for place in wanted
        ]
        table = ranks.make(ranks.make_job(members), rank_waiting.SCHEMA.name)
    except UsageError as error:
        return RankDigest(sources, verdict=f"{_CANNOT_TELL}: {error.message}")
    except NotInCapture:  # no kernel on any rank
        return RankDigest(sources, verdict=f"{_CANNOT_TELL}: no rank has kernels")
    names = [column.name for column in table.columns]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in table.rows()]
    figures = {str(row["rank"]): {name: row[name] for name in _FIGURES} for row in rows}
    why = "" if table.verdict else f"{_CANNOT_TELL}: {table.notes[-1]}"
    return RankDigest(sources, figures, "; ".join(filter(None, (table.verdict, why, missing_ranks(wanted)))))


def write_rank_digest(made: RankDigest, folder: Path) -> None:
    """Store the digest in the folder of the run. Raises OutputError."""
    RunFolder(folder).write(RANKS_DIGEST, json.dumps(asdict(made), separators=(",", ":")) + "\n")


def stored_rank_digest(folder: Path, paths: Sequence[Path]) -> RankDigest | None:
    """Return the digest in the folder of a run; None if it has to be made from the ranks' captures.

    It stands for captures that were removed.
    """
    try:
        digest = typed(RankDigest, read_json(folder / RANKS_DIGEST))
    except (OSError, ValueError):
        return None
    sources = _sources(paths)
    is_current = not sources or sources == digest.sources
    return digest if is_current and digest.format == _FORMAT else None


def _sources(paths: Sequence[Path]) -> list[tuple[int, str]]:
    return sorted(filter(None, map(identity_of, paths)))


def damaged(error: CaptureError | str) -> RankDigest:
    """Return the digest of ranks of which one cannot be read."""
    text = error if isinstance(error, str) else error.message
    return RankDigest([], verdict=f"{_CANNOT_TELL}: {text}")
