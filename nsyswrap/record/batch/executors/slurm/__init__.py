"""The executor that runs a batch on a Slurm cluster, as job arrays."""

from __future__ import annotations

import os
import shlex
import signal
import socket
from typing import TYPE_CHECKING, ClassVar

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.record.batch.executors import BatchState, Executor, Interruption, Job, Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.record.batch.executors import OnProgress, Request
    from nsyswrap.record.batch.folder import Batch, RunState
    from nsyswrap.record.batch.plan.toml_table import Table
    from nsyswrap.record.batch.task import Scalar, TaskSpec

with lazy_imports():  # neither --help nor a batch on this machine needs these
    from nsyswrap.record.batch.executors.slurm import commands, executor, groups, jobs, plan_table, script


class _SlurmExecutor(Executor):
    options = (
        Option(
            "--max-running",
            "N",
            "slurm: run at most N at a time.",
            refusal="--max-running requires --executor slurm",
            is_count=True,
        ),
    )
    advice: ClassVar = {"--gpus": "request GPUs in [slurm] of the plan: gres = 'gpu:1'"}
    settings_help = "slurm: pass this to sbatch; repeatable."
    uses_node = True
    temporary_variables = ("SLURM_TMPDIR",)

    def check_settings(self, table: Table) -> Mapping[str, Scalar]:
        return plan_table.check(table)

    def check_runs(self, specs: Sequence[TaskSpec], settings: Mapping[str, Scalar], where: str) -> None:
        groups.check(specs, settings, where)

    def run(self, request: Request, numbers: Sequence[int], on_progress: OnProgress) -> Interruption | None:
        try:
            executor.run_all(request, numbers, on_progress)
        except KeyboardInterrupt as interruption:
            cancel = f"nsyswrap batch cancel {shlex.quote(str(request.batch.folder))}"
            return Interruption(
                next(iter(interruption.args), signal.SIGINT),
                f"nsyswrap: the jobs continue; use the same command to wait, or cancel them:\n  {cancel}",
            )
        return None

    def preview(self, request: Request, numbers: Sequence[int]) -> str:
        """Return the job script, and above it the command that submits it."""
        path = shlex.quote(str(request.batch.folder / script.FOLDER / "job-0.sh"))
        tasks = commands.array(numbers, script.max_running(request))
        submitted = f"sbatch --array={tasks} {path}\n" if numbers else ""
        return f"\n{submitted}\n{script.job_script(request.batch, request.plan)}"

    def states(self, batch: Batch, by_folder: Mapping[int, RunState]) -> BatchState:
        is_over = all(state.state == "done" for state in by_folder.values())
        if is_over or not _has_jobs(batch):
            return BatchState(by_folder)
        try:
            queued = jobs.in_queue(batch)
            runs = jobs.states(batch, queued, by_folder)
        except Unavailable:
            return BatchState(by_folder)
        waiting = commands.in_words(set(queued.values()))
        return BatchState(runs, bool(queued), (f"in Slurm's queue: {waiting}",) if waiting else ())

    def cancel(self, batch: Batch) -> int:
        return jobs.cancel(batch) if _has_jobs(batch) else 0

    def current_job(self) -> Job | None:
        variable = os.environ.get
        array, task = variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")
        job = f"{array}_{task}" if array and task else variable("SLURM_JOB_ID")
        if not job:
            return None
        host = variable("SLURMD_NODENAME") or socket.gethostname()
        restarts = variable("SLURM_RESTART_COUNT", "")
        count = int(restarts) if restarts.isdecimal() else 0
        nodes, cpus = variable("SLURM_JOB_NUM_NODES", ""), variable("SLURM_CPUS_PER_TASK")
        return Job(
            "Slurm",
            job,
            host,
            count,
            commands.ended_by_time_limit,
            int(nodes) if nodes.isdecimal() else 1,
            commands.end_step,
            # Since Slurm 22.05 srun does not read the other one.
            {"SRUN_CPUS_PER_TASK": cpus} if cpus and "SRUN_CPUS_PER_TASK" not in os.environ else {},
        )


def _has_jobs(batch: Batch) -> bool:
    """Return True if jobs of the batch were submitted, by this version or an older one."""
    return (batch.folder / script.FOLDER).exists()


EXECUTOR = _SlurmExecutor()
