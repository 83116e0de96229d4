"""How far planned runs are: what `batch status` says of them, for other commands."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError
from nsyswrap.cli.batch_progress import reason
from nsyswrap.record.batch.executors.slurm import executor as slurm
from nsyswrap.record.batch.folder import look, open_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nsyswrap.record.batch.folder import RunState


def how_far() -> Callable[[Path], tuple[str, str]]:
    """Return what tells the state of a run folder, and why; Slurm is asked once for each batch."""

    @cache
    def of_batch(folder: Path) -> dict[str, RunState]:
        try:
            return {state.folder.name: state for state in slurm.states(open_batch(folder)).values()}
        except OutputError:  # a run folder alone
            return {}

    def ask(folder: Path) -> tuple[str, str]:
        state = of_batch(folder.absolute().parent.parent).get(folder.name) or look(folder)
        return state.state, reason(state)

    return ask
