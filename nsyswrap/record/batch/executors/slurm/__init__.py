"""The executor that runs a batch on a Slurm cluster, as job arrays."""

from __future__ import annotations

import os
import shlex
import signal
import socket
from typing import TYPE_CHECKING, ClassVar

from nsyswrap.base import paths
from nsyswrap.base.errors import Unavailable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import BATCH, OptionSpec
from nsyswrap.base.text import counted
from nsyswrap.record.batch.executors import BatchState, Executor, Interruption, SchedulerJob, Submission

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.record.batch.executors import BatchRequest, Blocks, OnProgress
    from nsyswrap.record.batch.folder import Batch, RunState
    from nsyswrap.record.batch.plan.expand import Plan
    from nsyswrap.record.batch.plan.toml_table import TomlTable
    from nsyswrap.record.batch.task import Scalar, TaskSpec

with lazy_imports():  # neither --help nor a batch on this machine needs these
    from nsyswrap.record.batch.executors.slurm import commands, executor, groups, jobs, script, submission

_NOTHING_TO_SUBMIT = "nsyswrap: no run needs a job"
_UNAVAILABLE = Unavailable.exit_code


class _SlurmExecutor(Executor):
    options: ClassVar = {
        "max_running": OptionSpec(
            "--max-running", "slurm: run at most N at a time.", BATCH, "count", metavar="N"
        ),
        "no_wait": OptionSpec("--no-wait", "slurm: submit, print the job ids and end.", BATCH, "flag"),
        "collect_after": OptionSpec(
            "--collect-after", "slurm: like --no-wait; add a job that collects.", BATCH, "flag"
        ),
        "write_only": OptionSpec(  # the help of --dry-run names it
            "--write-only", "slurm: write the scripts, submit nothing.", BATCH, "flag", rare=True
        ),
    }
    advice: ClassVar = {"--gpus": "request GPUs in [slurm] of the plan: gres = 'gpu:1'"}
    settings_help = "slurm: pass this to sbatch; repeatable."
    uses_node = True
    temporary_variables = ("SLURM_TMPDIR",)

    def run_blocks(self, blocks: Blocks, on_progress: Callable[[str], None]) -> str:
        return submission.run_blocks(blocks, on_progress)

    def check_settings(self, table: TomlTable) -> Mapping[str, Scalar]:
        return groups.check_settings(table)

    def check_runs(self, specs: Sequence[TaskSpec], settings: Mapping[str, Scalar], where: str) -> None:
        groups.check_ranks(specs, settings, where)

    def try_submission(self, plan: Plan, to_run: Callable[[], Sequence[TaskSpec]]) -> None:
        submission.try_options(plan, to_run)

    def run(
        self, request: BatchRequest, numbers: Sequence[int], on_progress: OnProgress
    ) -> Interruption | Submission | None:
        options = request.options
        if options["write_only"]:
            return _write(request, numbers)
        if options["no_wait"] or options["collect_after"]:
            return _submit(request, numbers)
        try:
            executor.run_all(request, numbers, on_progress)
        except KeyboardInterrupt as interruption:
            return _interrupted(request.batch, interruption)
        return None

    def wait(self, batch: Batch, on_progress: OnProgress) -> Interruption | None:
        if not _has_jobs(batch):
            return None
        try:
            executor.wait(batch, on_progress)
        except KeyboardInterrupt as interruption:
            return _interrupted(batch, interruption)
        return None

    def preview(self, request: BatchRequest, numbers: Sequence[int]) -> str:
        limits, lacking = submission.limits_or_usual()
        planned = submission.planned_jobs(request, numbers, limits.array_size)
        lines = submission.by_hand(request.batch, planned, collects=bool(request.options["collect_after"]))
        note = f"\n# {lacking}" if lacking else ""
        scripts: dict[str, str] = {}  # one of each group
        for _, text in submission.job_scripts(request, planned):
            scripts.setdefault(text.partition("\nnsyswrap_run=")[0], text)
        return "\n".join([note + f"\n{lines}", *scripts.values()]) if numbers else ""

    def states(self, batch: Batch, by_folder: Mapping[int, RunState]) -> BatchState:
        is_over = all(state.state == "done" for state in by_folder.values())
        if is_over or not _has_jobs(batch):
            return BatchState(by_folder)
        try:
            queued = jobs.in_queue(batch)
            runs = jobs.states(batch, queued, by_folder)
            runs |= jobs.preempted(runs)
        except Unavailable as error:
            has_job = {number for array in jobs.submitted(batch) for number in array.numbers}
            is_open = any(by_folder[n].state in ("planned", "running") for n in has_job & by_folder.keys())
            line = f"Slurm was not asked ({error.message}): planned runs may have jobs in its queue"
            return BatchState(by_folder, is_open, (line,))
        lines = jobs.remarks(batch, queued)
        by_hand = batch.folder / script.FOLDER / submission.BY_HAND
        if not queued and paths.exists(by_hand) and all(run.state == "planned" for run in runs.values()):
            lines.append(f"`bash {shlex.quote(str(by_hand))}` submits the runs")
        return BatchState(runs, bool(queued), tuple(lines))

    def cancel(self, batch: Batch) -> int:
        return jobs.cancel(batch) if _has_jobs(batch) else 0

    def current_job(self) -> SchedulerJob | None:
        variable = os.environ.get
        array, task = variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")
        job = f"{array}_{task}" if array and task else variable("SLURM_JOB_ID")
        if not job:
            return None
        host = variable("SLURMD_NODENAME") or socket.gethostname()
        restarts = variable("SLURM_RESTART_COUNT", "")
        count = int(restarts) if restarts.isdecimal() else 0
        is_ours = script.MARGIN_VARIABLE in os.environ  # else this is a run of this machine, in any job
        nodes, cpus = variable("SLURM_JOB_NUM_NODES", ""), variable("SLURM_CPUS_PER_TASK")
        return SchedulerJob(
            "Slurm",
            job,
            host,
            count,
            commands.ended_by_time_limit,
            int(nodes) if is_ours and nodes.isdecimal() else 1,
            commands.end_step,
            # Since Slurm 22.05 srun does not read the other one.
            {"SRUN_CPUS_PER_TASK": cpus} if cpus and "SRUN_CPUS_PER_TASK" not in os.environ else {},
        )


def _write(request: BatchRequest, numbers: Sequence[int]) -> Submission:
    limits, lacking = submission.limits_or_usual()
    path = executor.write(request, numbers, limits)
    command = f"bash {shlex.quote(str(path))}\n" if numbers else ""
    advice = (
        "nsyswrap: the scripts are written; this command submits the runs" if numbers else _NOTHING_TO_SUBMIT
    )
    return Submission(command, "\n  ".join(filter(None, (advice, lacking))))


def _submit(request: BatchRequest, numbers: Sequence[int]) -> Submission:
    collects = bool(request.options["collect_after"])
    before = {array.job for array in jobs.submitted(request.batch)}
    ids, left, reason = executor.submit_all(request, numbers, collects=collects)
    if not ids:
        return Submission("", _NOTHING_TO_SUBMIT)
    folder = shlex.quote(str(request.batch.folder))
    with_runs = ids[: len(ids) - collects]
    new, old = ([one for one in with_runs if (one in before) is known] for known in (False, True))
    parts = [f"submitted {commands.job_list(new)}"] if new else []
    were = "was" if len(old) == 1 else "were"
    parts += [f"{commands.job_list(old)} {were} submitted before"] if old else []
    parts += [f"job {ids[-1]} collects when they have ended"] if collects else []
    lines = [f"nsyswrap: {'; '.join(parts)}"]
    if left:
        rest = counted(left, "runs")
        lines.append(f"  no job yet for {rest}: {reason}; the first command submits the rest")
    lines += [f"  nsyswrap batch wait {folder}", f"  nsyswrap batch status {folder}"]
    return Submission("".join(f"{one}\n" for one in ids), "\n".join(lines), _UNAVAILABLE if left else 0)


def _interrupted(batch: Batch, interruption: KeyboardInterrupt) -> Interruption:
    left = sum(len(part.numbers) for part in jobs.read_jobs(batch).left)
    rest = f"; no job yet for {counted(left, 'runs')}" if left else ""
    folder = shlex.quote(str(batch.folder))
    return Interruption(
        next(iter(interruption.args), signal.SIGINT),
        f"nsyswrap: the submitted jobs continue{rest}; wait for all runs, or cancel them:\n"
        f"  nsyswrap batch wait {folder}\n  nsyswrap batch cancel {folder}",
    )


def _has_jobs(batch: Batch) -> bool:
    """Return True if jobs of the batch were submitted, by this version or an older one."""
    return paths.exists(batch.folder / script.FOLDER)


EXECUTOR = _SlurmExecutor()
