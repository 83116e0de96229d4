"""Run a batch: plan its folders, tell what to know first, submit the runs, make one table of the results.

``--dry-run`` prints every run of a plan, which are done, and how the others would be submitted.
"""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base.errors import CaptureError, OutputError, UsageError
from nsyswrap.base.folder_lock import locked
from nsyswrap.base.run_folder import DEFAULT_BASE, RUNS
from nsyswrap.cli.batch_progress import in_words, progress
from nsyswrap.cli.output import note
from nsyswrap.cli.recording import environment, nsys_options
from nsyswrap.record.batch.folder import ENDED, SLURM, UNFINISHED, foresee_batch, look, make_batch, make_place
from nsyswrap.record.batch.task import read_spec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from nsyswrap.record.batch.executors.slurm.script import Settings
    from nsyswrap.record.batch.folder import Batch, RunState
    from nsyswrap.record.batch.plan import Plan
    from nsyswrap.record.batch.task import Spec


_FAILED = 1


def print_runs(specs: Mapping[int, Spec], states: Mapping[int, RunState], wanted: Collection[int]) -> None:
    """Print a line for each run, as it would be typed; one that would not be run says in a comment why."""
    for number, spec in specs.items():
        env = [f"{name}={shlex.quote(value)}" for name, value in spec.env.items()]
        typed = " ".join([*env, shlex.join(spec.words)])
        state = states[number]
        click.echo(f"{state.folder.name}: {typed}" + ("" if number in wanted else f"  # {state.state}"))


def print_submission(batch: Batch, settings: Settings, wanted: Sequence[int]) -> None:
    """Print the job script, and above it with which tasks it would be submitted."""
    from nsyswrap.record.batch.executors.slurm.commands import array  # noqa: PLC0415
    from nsyswrap.record.batch.executors.slurm.script import script  # noqa: PLC0415

    path = shlex.quote(str(batch.folder / SLURM / "job-0.sh"))
    submitted = f"sbatch --array={array(wanted, settings.max_running)} {path}\n" if wanted else ""
    click.echo(f"\n{submitted}\n{script(batch, settings)}", nl=False)


def say_of_plan(plan: Plan, executor: str) -> None:
    """Say what was noticed when the plan was read, and what of it counts elsewhere alone."""
    for text in plan.notes:
        note(f"nsyswrap: {text}")
    for_nodes = [key for key in ("setup", "wrapper", "python") if getattr(plan, key)]
    if for_nodes and executor != "slurm":
        note(f"nsyswrap: [node] {', '.join(for_nodes)}: only with --executor slurm; runs here go without it")


def say_of_left_out(batch: Batch) -> None:
    """Say what an earlier plan did that this one does anew: the same plan started elsewhere is another."""
    folders = [batch.folder / RUNS / name for name in batch.left_out.values()]
    done = [folder for folder in folders if look(folder).state == "done"]
    if not done:
        return
    here = str(Path.cwd())
    elsewhere = sorted({cwd for folder in done if (cwd := _planned_from(folder)) not in ("", here)})
    said = f"nsyswrap: {batch.folder}: finished runs that are no part of this plan: {len(done):,}"
    if elsewhere:
        said += f"; planned in {', '.join(elsewhere)}: started in another folder, it is another plan"
    note(said)


def _planned_from(folder: Path) -> str:
    try:
        return read_spec(folder).cwd
    except OutputError:  # damaged
        return ""


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
        share=options["share"],
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
    make_place(folder, plan.share)
    with locked(folder, "another batch", "wait for it, or end it with `nsyswrap batch cancel`"):
        batch = make_batch(folder, plan.name, plan.specs, plan.share)
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
