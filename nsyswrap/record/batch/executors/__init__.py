"""The executors: where the runs of a batch go.

A new executor is a module or package here that ends with ``EXECUTOR = ...``, and its name in ``NAMES``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.base.nsys.options import OptionSpec
    from nsyswrap.record.batch.folder import Batch, RunState
    from nsyswrap.record.batch.plan.expand import Plan
    from nsyswrap.record.batch.plan.toml_table import TomlTable
    from nsyswrap.record.batch.task import Scalar, TaskSpec

    OnProgress = Callable[[Mapping[int, RunState], str], None]

EMPTY_ADVICE = "no more runs were started; find out why these use no GPU, then add --retry-failed"
# In the order of `--executor`; the first one is the default.
NAMES: tuple[str, ...] = ("local", "slurm")


@dataclass(frozen=True)
class BatchRequest:
    """A batch that is to be run. ``options`` has the executor's own options by name, None if not given."""

    batch: Batch
    plan: Plan
    options: Mapping[str, Any]


@dataclass(frozen=True)
class BatchState:
    """The state of every run of a batch, by number.

    ``is_queued``: a scheduler still has jobs of the batch. ``waiting``: lines on what these jobs wait for.
    """

    runs: Mapping[int, RunState]
    is_queued: bool = False
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True)
class Interruption:
    """The number of the signal that interrupted a batch, and what the user can do next."""

    signal: int
    advice: str


@dataclass(frozen=True)
class Submission:
    """Runs that were left to a scheduler: a text for stdout, what the user can do next, and the exit code."""

    output: str
    advice: str
    exit_code: int = 0


@dataclass(frozen=True)
class Blocks:
    """Work on captures in so many equal commands, with ``folder`` for scripts, logs and the job's id.

    Each is ``nsyswrap WORDS NUMBER``, with a number from 0. ``batch`` is the batch that the captures are of,
    if it is one. ``settings`` are the executor's own.
    """

    folder: Path
    words: Sequence[str]
    count: int
    batch: Batch | None
    settings: Mapping[str, Scalar]


@dataclass(frozen=True)
class SchedulerJob:
    """The job of a scheduler that this process runs in.

    ``id`` is what the scheduler's commands call it. ``restarts`` counts how often it was requeued.
    """

    scheduler: str
    id: str
    host: str
    restarts: int
    reached_time_limit: Callable[[], bool]
    """Asks the scheduler, which can take seconds."""
    nodes: int = 1
    end_step: Callable[[str], bool] = lambda _: False
    """Sends SIGTERM to all processes of a step with this name. Returns False if that failed."""
    launch_variables: Mapping[str, str] = field(default_factory=dict)
    """What a launcher needs in its environment."""


class Executor(Protocol):
    """Runs the runs of a batch. Only ``run`` has to be defined."""

    # Options that only this executor takes, by the keys of their values in ``BatchRequest.options``.
    options: ClassVar[Mapping[str, OptionSpec]] = {}
    # What to do instead of an option of another executor: flag -> text.
    advice: ClassVar[Mapping[str, str]] = {}
    # The help text of `--NAME`, which sets keys of the plan's table [NAME]. Empty: there is no such table.
    settings_help: str = ""
    # True if the executor uses the table [node] of a plan.
    uses_node: bool = False
    # Environment variables that name the temporary folder of a job.
    temporary_variables: Sequence[str] = ()

    def run(
        self, request: BatchRequest, numbers: Sequence[int], on_progress: OnProgress
    ) -> Interruption | Submission | None:
        """Run the runs with these numbers, and wait until all have ended or a signal interrupts.

        An option of the executor can leave them to a scheduler. Raises Unavailable if no run can be started.
        """

    def wait(self, batch: Batch, on_progress: OnProgress) -> Interruption | None:  # noqa: ARG002 - a default
        """Wait for the runs that this executor has begun or submitted earlier."""
        return None

    def run_blocks(self, blocks: Blocks, on_progress: Callable[[str], None]) -> str:  # noqa: ARG002 - a default
        """Run all blocks, and wait. Return the name of their job. Raises Unavailable if that fails.

        If an earlier job of the folder has not ended, wait for it, run nothing, and return an empty text.
        """
        raise Unavailable("this executor runs no blocks")

    def check_settings(self, table: TomlTable) -> Mapping[str, Scalar]:
        """Return the settings in the executor's table of a plan. Raises PlanError."""
        return table.content

    def check_runs(self, specs: Sequence[TaskSpec], settings: Mapping[str, Scalar], where: str) -> None:  # noqa: ARG002 - a default
        """Raise PlanError for runs that cannot be run with these ``settings`` and their own.

        ``where`` begins the error message.
        """
        return

    def try_submission(
        self,
        plan: Plan,  # noqa: ARG002 - a default
        to_run: Callable[[], Sequence[TaskSpec]],  # noqa: ARG002 - a default
    ) -> None:
        """Raise Unavailable if runs of the plan cannot be submitted. Write nothing.

        ``to_run`` returns those that are to be run, which can take seconds.
        """
        return

    def preview(self, request: BatchRequest, numbers: Sequence[int]) -> str:  # noqa: ARG002 - a default
        """Return what ``--dry-run`` prints below the runs."""
        return ""

    def states(self, batch: Batch, by_folder: Mapping[int, RunState]) -> BatchState:  # noqa: ARG002 - a default
        """Return the states of all runs, given those by the run folders alone.

        These stand if the batch has no jobs of this executor, or if the scheduler does not answer.
        """
        return BatchState(by_folder)

    def cancel(self, batch: Batch) -> int:  # noqa: ARG002 - a default: runs that end with `batch run`
        """End the runs that are running or queued. Return their number."""
        return 0

    def current_job(self) -> SchedulerJob | None:
        """Return the job of the executor's scheduler that this process runs in."""
        return None


def find_executor(name: str) -> Executor:
    """Return the executor with this name."""
    executor: Executor = importlib.import_module(f"nsyswrap.record.batch.executors.{name}").EXECUTOR
    return executor


def by_name() -> dict[str, Executor]:
    """Return all executors, in order."""
    return {name: find_executor(name) for name in NAMES}


def with_blocks() -> dict[str, Executor]:
    """Return the executors that run blocks, in order."""
    return {name: one for name, one in by_name().items() if type(one).run_blocks is not Executor.run_blocks}


def batch_state(batch: Batch, known: Mapping[int, RunState] | None = None) -> BatchState:
    """Return the state of every run, by its folder and by the queues that runs were submitted to.

    The folders of runs ``known`` to have ended are not read again.
    """
    state = BatchState(batch.survey(known))
    for executor in by_name().values():
        own = executor.states(batch, state.runs)
        state = BatchState(own.runs, state.is_queued or own.is_queued, state.waiting + own.waiting)
    return state


def current_job() -> SchedulerJob | None:
    """Return the job of a scheduler that this process runs in, or None."""
    return next((job for executor in by_name().values() if (job := executor.current_job())), None)
