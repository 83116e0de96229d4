"""``nsyswrap profile`` as one rank of a launch: a folder of its own and one line at the end; or no nsys."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from nsyswrap.base.errors import NotExecutable, ProgramNotFound, UsageError
from nsyswrap.base.run_folder import DEFAULT_BASE, EXPORT
from nsyswrap.cli.output import Look, asked, make, note, write_csv
from nsyswrap.record.launcher_env import Rank, chosen, detect, facts, session
from nsyswrap.reports.ranks import split

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nsyswrap.api import Run
    from nsyswrap.record.program import Program


@dataclass(frozen=True)
class OneRank:
    """This rank, and which of all are profiled: None where --ranks does not say, and all are."""

    rank: Rank
    chosen: tuple[int, ...] | None

    @property
    def profiled(self) -> bool:
        """Whether this rank runs under nsys."""
        return self.chosen is None or self.rank.rank in self.chosen

    @property
    def speaks(self) -> bool:
        """Whether this is the lowest rank that is profiled, which says what is to be said once."""
        return self.rank.rank == (self.chosen[0] if self.chosen else 0)

    @property
    def facts(self) -> dict[str, object]:
        """What run.json says of it."""
        return facts(self.rank, self.chosen)

    def folder(self, program: Program, output: Path | None) -> Path:
        """Return its run folder: in ``output``, or in one that all ranks name alike; raises UsageError."""
        return (output or DEFAULT_BASE / f"{program.name}-{session(self.rank)}") / self.rank.folder

    def show(self, run: Run, options: Mapping[str, Any]) -> None:
        """Say in a line how this rank ended; write the CSVs asked for into a folder of the rank's own."""
        status = run.status
        try:
            if options["csv_folder"] and (run.folder / EXPORT).exists():
                of_one, over_ranks = split(options["reports"])
                requests = asked(of_one) if of_one or not over_ranks else ()
                tables = make({"": run.capture}, requests).tables
                write_csv(options["csv_folder"] / self.rank.folder, tables, Look())
        finally:
            ended = "; ".join(filter(None, (status.message, status.hint))) or status.outcome
            folder = shlex.quote(str(run.folder))
            note(f"nsyswrap: rank {self.rank.rank} of {self.rank.world_size}: {ended}  {folder}/")
            if self.speaks:
                reports = [part for name in options["reports"] for part in ("-r", name)]
                command = ["nsyswrap", "report", str(run.folder.parent), "--by", "rank", *reports]
                note(f"all ranks   {shlex.join(command)}")


def find(ranks: str | None) -> OneRank | None:
    """Return the rank this process is, None outside of a launch; raises UsageError for a wrong --ranks."""
    rank = detect()
    if rank:
        return OneRank(rank, None if ranks is None else chosen(ranks, rank.world_size))
    if ranks is not None:
        raise UsageError(
            "--ranks chooses among the ranks of a launch, and this process is none",
            "put the launcher first: torchrun --no-python nsyswrap profile ..., mpirun or srun nsyswrap ...",
        )
    return None


def run_bare(program: Program, env: Mapping[str, str]) -> NoReturn:
    """Become the program: nothing is recorded. Raises ProgramNotFound or NotExecutable."""
    try:
        os.execvpe(program.argv[0], program.argv, {**os.environ, **env})  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        raise ProgramNotFound(f"{program.name}: there is no such program") from None
    except OSError as error:
        raise NotExecutable(f"{program.name} could not be executed: {error.strerror}") from None
