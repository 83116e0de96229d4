"""``nsyswrap profile`` as one rank of a launch.

A profiled rank writes a run folder of its own and prints one line at the end. Other ranks run without nsys.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import DEFAULT_BASE, EXPORT, outcome_words
from nsyswrap.base.text import quoted
from nsyswrap.cli.output import make_tables, note, terminal_layout, write_csv
from nsyswrap.record.launcher_env import Rank, detect, parse_ranks, rank_facts, session

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.api import Run
    from nsyswrap.record.program import Program

with lazy_imports():
    from nsyswrap import reports
    from nsyswrap.reports import ranks


@dataclass(frozen=True)
class OneRank:
    """The rank of this process, and the ranks that --ranks selects for profiling (None: all)."""

    rank: Rank
    chosen: tuple[int, ...] | None

    @property
    def profiled(self) -> bool:
        """True if this rank runs under nsys."""
        return self.chosen is None or self.rank.rank in self.chosen

    @property
    def speaks(self) -> bool:
        """True for the lowest profiled rank: it prints the messages that concern all ranks."""
        return self.rank.rank == (self.chosen[0] if self.chosen else 0)

    @property
    def facts(self) -> dict[str, object]:
        """The entry of this rank in run.json."""
        return rank_facts(self.rank, self.chosen)

    def folder(self, program: Program, output: Path | None) -> Path:
        """Return the run folder: below ``output``, or below a default folder that all ranks agree on.

        Raises UsageError if the launcher gives the ranks no common name.
        """
        return (output or DEFAULT_BASE / f"{program.name}-{session(self.rank)}") / self.rank.folder

    def show(self, run: Run, named: Sequence[str], csv_folder: Path | None) -> None:
        """Print one line with the outcome; write the requested CSVs into a folder of the rank's own."""
        status = run.status
        try:
            if csv_folder and paths.exists(run.folder / EXPORT):
                of_one, over_ranks = ranks.split(named)
                requests = reports.parse_all(of_one or reports.SUMMARIES) if of_one or not over_ranks else []
                tables, _ = make_tables({"": run.capture}, requests)
                write_csv(csv_folder / self.rank.folder, tables, terminal_layout())
        finally:
            ended = "; ".join(filter(None, (status.message, status.hint))) or outcome_words(status.outcome)
            folder = quoted(str(run.folder))
            note(f"nsyswrap: rank {self.rank.rank} of {self.rank.world_size}: {ended}  {folder}/")
            if self.speaks:
                reports_asked = [part for name in named for part in ("-r", name)]
                command = ["nsyswrap", "report", str(run.folder.parent), "--by", "rank", *reports_asked]
                note(f"all ranks   {shlex.join(command)}")


def detect_rank(profiled: str | None) -> OneRank | None:
    """Return the rank of this process, or None outside of a launch.

    ``profiled`` is the value of --ranks. Raises UsageError for a wrong one.
    """
    rank = detect()
    if rank:
        return OneRank(rank, None if profiled is None else parse_ranks(profiled, rank.world_size))
    if profiled is not None:
        raise UsageError(
            "--ranks cannot be used without a launcher",
            "put the launcher first: torchrun --no-python nsyswrap profile ..., mpirun or srun nsyswrap ...",
        )
    return None
