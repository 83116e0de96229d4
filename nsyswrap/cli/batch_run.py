"""Running a batch: plan its folders, hand them to an executor, put the results in one table."""

from __future__ import annotations

import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import CaptureError, UsageError
from nsyswrap.base.folder_lock import held
from nsyswrap.base.run_folder import DEFAULT_BASE
from nsyswrap.cli.batch_notes import say_of_left_out, say_of_plan
from nsyswrap.cli.batch_progress import in_words, progress
from nsyswrap.cli.output import note
from nsyswrap.cli.recording import environment, nsys_options
from nsyswrap.record.batch.folder import ENDED, UNFINISHED, foresee_batch, make_batch, make_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nsyswrap.record.batch.executors.slurm.script import Settings
    from nsyswrap.record.batch.folder import Batch, RunState
    from nsyswrap.record.batch.plan import Plan

_FAILED = 1


def plan_of(program: Sequence[str], options: Mapping[str, Any]) -> Plan:
    """Return the plan of a sweep."""
    from nsyswrap.record.batch.plan import sweep  # noqa: PLC0415

    return sweep(
        program,
        options["parameters"],
        repeat=options["repeat"],
        module=options["module"],
        arch=options["arch"],
        env=environment(options["variables"]),
        nsys=nsys_options(options),
        nsys_path=options["nsys_path"],
        timeout_s=options["timeout"],
        keep_environment=options["keep_environment"],
        discard_rep=options["discard_rep"],
        slurm_settings=options["slurm"],
    )


def carry_out(plan: Plan, options: Mapping[str, Any]) -> int:
    """Run what has not been run yet, show the table over all; return the exit code."""
    from nsyswrap.record.batch.executors.slurm import executor as slurm  # noqa: PLC0415
    from nsyswrap.reports.runs.combinations import chosen_measure  # noqa: PLC0415

    _check(options)
    chosen_measure([], options["by"])  # a wrong name is said before anything is run
    folder: Path = options["output"] or DEFAULT_BASE / plan.name
    say_of_plan(plan, options["executor"])
    if options["dry_run"]:
        _dry_run(plan, folder, options)
        return 0
    make_place(folder)
    with held(folder, "another batch"):
        batch = make_batch(folder, plan.name, plan.specs)
        say_of_left_out(batch)
        code = _run(batch, plan, options)
        states = slurm.states(batch)
        _show_tables(folder, options)
    return code or (0 if all(state.state == "done" for state in states.values()) else _FAILED)


def _check(options: Mapping[str, Any]) -> None:
    slurm = options["executor"] == "slurm"
    if slurm and options["gpus"]:
        raise UsageError(
            "--gpus is for the local executor", "on Slurm ask for GPUs in the plan: gres = 'gpu:1'"
        )
    if not slurm and options["max_running"]:
        raise UsageError(
            "--max-running is for --executor slurm", "here it is one run at a time, or --gpus 0,1"
        )


def _dry_run(plan: Plan, folder: Path, options: Mapping[str, Any]) -> None:
    from nsyswrap.cli.batch_dry_run import print_runs, print_submission  # noqa: PLC0415

    batch, specs = foresee_batch(folder, plan.name, plan.specs)
    say_of_left_out(batch)
    states, wanted = _to_run(batch, options)
    print_runs(specs, states, wanted)
    if options["executor"] == "slurm":
        print_submission(batch, _settings(plan, options), wanted)


def _to_run(batch: Batch, options: Mapping[str, Any]) -> tuple[dict[int, RunState], list[int]]:
    """Return how the runs stand, and the numbers of those to be run; say both."""
    from nsyswrap.record.batch.executors.slurm import executor as slurm  # noqa: PLC0415

    states = slurm.states(batch)
    wanted = [n for n, state in states.items() if _is_wanted(state, retry=options["retry_failed"])]
    note(f"nsyswrap: {batch.folder}: {len(states)} runs ({in_words(states)}), {len(wanted)} to run")
    return states, wanted


def _run(batch: Batch, plan: Plan, options: Mapping[str, Any]) -> int:
    """Hand what is to be run to the executor; return the exit code of an interruption, or 0."""
    from nsyswrap.record.batch.executors import local  # noqa: PLC0415
    from nsyswrap.record.batch.executors.slurm import executor as slurm  # noqa: PLC0415

    states, wanted = _to_run(batch, options)
    with progress(states, wanted) as on_progress:
        if options["executor"] == "slurm":
            try:
                slurm.execute_all(batch, wanted, _settings(plan, options), on_progress)
            except KeyboardInterrupt as interruption:
                note("nsyswrap: the jobs go on. The same command waits for them again; to end them:")
                note(f"  nsyswrap batch cancel {shlex.quote(str(batch.folder))}")
                return 128 + next(iter(interruption.args), signal.SIGINT)
            return 0
        from nsyswrap.base.nsys import find as nsys_install  # noqa: PLC0415

        if wanted:
            nsys_install.find()  # without one nothing runs
        gpus = [gpu.strip() for gpu in (options["gpus"] or "").split(",") if gpu.strip()]
        received = local.execute_all(batch, wanted, gpus, on_progress)
    if received:
        note("nsyswrap: what was running has its report; the same command goes on with the rest")
        return 128 + received
    return 0


def _settings(plan: Plan, options: Mapping[str, Any]) -> Settings:
    from nsyswrap.record.batch.executors.slurm.script import Settings  # noqa: PLC0415

    return Settings(
        plan.slurm,
        plan.setup,
        plan.wrapper,
        plan.python or sys.executable,
        options["max_running"] or plan.max_running,
    )


def _is_wanted(state: RunState, *, retry: bool) -> bool:
    return state.state in UNFINISHED or (retry and state.state in ENDED and state.state != "done")


def _show_tables(folder: Path, options: Mapping[str, Any]) -> None:
    from nsyswrap.cli.collect import collect  # noqa: PLC0415

    try:
        collect([folder], folder, by=options["by"], top=options["top"])
    except CaptureError as error:  # how the runs ended tells more
        note(f"nsyswrap: {error}")
