"""Run a batch: make its folder, run its runs with an executor, and show one table of the results.

``--dry-run`` prints every run of a plan, which of them are done, and how the executor would run the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, CommandHint, OutputError, UsageError
from nsyswrap.base.files import is_locked, locked
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.recent_runs import note_begun
from nsyswrap.base.run_folder import BATCH, DEFAULT_BASE, NO_GPU_WORK, RUNS, STATUS, outcome_words
from nsyswrap.base.text import counted, printable, quoted
from nsyswrap.cli.batch_status import in_words, progress, run_again, wait_for_holder
from nsyswrap.cli.output import note, print_data, say
from nsyswrap.record.batch import executors
from nsyswrap.record.batch.folder import (
    ENDED,
    UNFINISHED,
    Batch,
    RunState,
    foresee_batch,
    make_batch,
    make_place,
    open_batch,
    read_state,
)
from nsyswrap.record.batch.task import TaskSpec, read_spec

with lazy_imports():
    from nsyswrap.cli import collect
    from nsyswrap.record import pythons
    from nsyswrap.record.batch import plan as plans
    from nsyswrap.reports.runs import combinations

_FAILED = 1
_LOOKED_AT = 100  # runs of a batch, for their program


def plan_of(program: Sequence[str], options: Mapping[str, Any]) -> plans.Plan:
    """Return the plan of a sweep."""
    block = plans.RunsEntry(
        "sweep",
        command=tuple(program),
        module=options["module"],
        options=vars(options["recording"]),
        repeat=options["repeat"],
    )
    settings = {name: options[name] for name in executors.NAMES if options.get(name)}
    return plans.sweep(block, options["parameters"], settings, options["name"])


def carry_out(plan: plans.Plan, options: Mapping[str, Any]) -> int:
    """Run the runs that have not ended yet, show a table of all, and return the exit code."""
    _check_executor_options(options)
    combinations.chosen_measure([], options["by"])  # raises UsageError before any run is started
    folder: Path = options["output"] or DEFAULT_BASE / plan.name
    executor = executors.find_executor(options["executor"])
    for text in plan.notes:
        note(f"nsyswrap: {text}")
    for_nodes = [key for key in ("setup", "wrapper", "python") if getattr(plan, key)]
    if for_nodes and not executor.uses_node:
        with_nodes = [name for name, one in executors.by_name().items() if one.uses_node]
        only = f"used only with --executor {' or '.join(with_nodes)}"
        note(f"nsyswrap: [node] {', '.join(for_nodes)}: {only}")
    _note_pythons(plan, on_nodes=executor.uses_node)
    if not options["output"]:
        _check_program(folder, plan)
    if options["dry_run"]:
        batch, specs = foresee_batch(folder, plan)
        _note_left_out(batch)
        states, wanted = _to_run(batch, options)
        _print_runs(specs, states, wanted)
        print_data(executor.preview(executors.BatchRequest(batch, plan, options), wanted))
        return 0
    executor.try_submission(plan, lambda: _specs_to_run(folder, plan, options))
    make_place(folder, plan.share)
    with _locked(folder):
        batch = make_batch(folder, plan)
        note_begun(folder)
        _note_left_out(batch)
        states, wanted = _to_run(batch, options)
        for state in (states[number] for number in wanted):
            if state.lacks_gpu_work:  # else its folder still says that it is done
                (state.folder / STATUS).unlink(missing_ok=True)
        with progress(states, wanted) as on_progress:
            request = executors.BatchRequest(batch, plan, options)
            ending = executor.run(request, wanted, on_progress)
        if isinstance(ending, executors.Submission):
            print_data(ending.output)
            note(ending.advice)
            return ending.exit_code
        return _finish(batch, ending, by=options["by"], top=options["top"])


def wait(folder: Path, *, by: str, top: int) -> int:
    """Wait for the runs of a batch, show a table of all, and return the exit code."""
    combinations.chosen_measure([], by)
    batch = open_batch(folder)
    states = executors.batch_state(batch).runs
    note(f"nsyswrap: {folder}: {in_words(states)}")
    with ExitStack() as stack:
        with progress(states, ()) as on_progress:
            _enter_when_free(stack, batch, on_progress)
        batch, ending = open_batch(folder), None
        with progress(states, ()) as on_progress:
            for executor in executors.by_name().values():
                ending = ending or executor.wait(batch, on_progress)
        return _finish(batch, ending, by=by, top=top)


def _locked(folder: Path) -> AbstractContextManager[None]:
    waits = CommandHint.of(["nsyswrap", "batch", "wait", folder], "`{}` waits for its runs")
    return locked(folder, "another batch", waits)


def _enter_when_free(stack: ExitStack, batch: Batch, on_progress: executors.OnProgress) -> None:
    """Lock the folder once no other process works in it; of several that wait, each has its turn."""
    while True:
        wait_for_holder(batch, on_progress)
        try:
            stack.enter_context(_locked(batch.folder))
        except OutputError:
            if is_locked(batch.folder):
                continue
            stack.enter_context(_locked(batch.folder))  # its holder has just ended, or the folder is at fault
        return


def _finish(batch: Batch, interruption: executors.Interruption | None, *, by: str, top: int) -> int:
    """Show the table of all runs, and what can be run again. Return the exit code."""
    if interruption:
        note(interruption.advice)
    states = executors.batch_state(batch).runs
    if interruption and not any(state.state in ENDED for state in states.values()):
        note(f"nsyswrap: no run has ended: {in_words(states)}")
        return 128 + interruption.signal
    if all(state.state == "planned" for state in states.values()):
        note(f"nsyswrap: {batch.folder}: no run was started: nothing to collect")
        note(f"nsyswrap: {run_again(states)}")
        return _FAILED
    try:
        collect.collect([batch.folder], batch.folder, by=by, top=top)
    except CaptureError as error:  # no run has a capture; how the runs ended is printed already
        note(f"nsyswrap: {error.message}")
    if interruption:
        return 128 + interruption.signal
    if again := run_again(states):
        note(f"nsyswrap: {again}")
    if not all(state.state == "done" for state in states.values()):
        return _FAILED
    if lacking := sum(state.lacks_gpu_work for state in states.values()):
        note(f"nsyswrap: {lacking:,} of {counted(len(states), 'runs')} had GPUs and recorded no GPU work")
    return NO_GPU_WORK if lacking else 0


def _check_executor_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option of an executor that is not used."""
    advice = executors.find_executor(options["executor"]).advice
    for name, executor in executors.by_name().items():
        for key, row in executor.options.items():
            if name != options["executor"] and options[key]:
                raise UsageError(f"{row.flag} requires --executor {name}", advice.get(row.flag, ""))


def _check_program(folder: Path, plan: plans.Plan) -> None:
    """Raise OutputError if the folder, which nobody named, has the runs of another program only."""
    runs = open_batch(folder).runs if paths.exists(folder / BATCH) else {}
    programs = set()
    for name in islice(runs.values(), _LOOKED_AT):
        with suppress(OutputError):  # its spec.json is damaged
            programs.add(read_spec(folder / RUNS / name).program)
    if programs and programs.isdisjoint(spec.program for spec in plan.specs):
        raise OutputError(
            f"{folder} has the runs of another program: {min(programs)}", "use --output DIR for this one"
        )


def _note_pythons(plan: plans.Plan, *, on_nodes: bool) -> None:
    """Print which Python runs the scripts and modules, unless it is ours. Each node chooses again."""
    if on_nodes and plan.names_python:
        return
    commands = {(*spec.command[:1], spec.module): spec for spec in plan.specs if spec.is_python}
    programs: dict[pythons.Interpreter, list[str]] = {}
    for spec in islice(commands.values(), _LOOKED_AT):
        python = pythons.choose(spec.command, module=spec.module)
        programs.setdefault(python, []).append(spec.command[0])
    for python, [name, *others] in programs.items():
        text = python.runs(f"each of {name} and {counted(len(others), 'other programs')}" if others else name)
        if text:
            note(f"nsyswrap: {text}" + ("; each node chooses again" if on_nodes else ""))


def _note_left_out(batch: Batch) -> None:
    """Print how many finished runs of an earlier plan are not part of this one.

    Planned in another folder, the same plan has other runs.
    """
    folders = [batch.folder / RUNS / name for name in batch.left_out.values()]
    done = [folder for folder in folders if read_state(folder).state == "done"]
    if not done:
        return
    planned_in = set()
    for folder in done:
        with suppress(OutputError):  # its spec.json is damaged
            planned_in.add(read_spec(folder).cwd)
    elsewhere = sorted(planned_in - {"", str(Path.cwd())})
    text = f"nsyswrap: {batch.folder}: finished runs that are not part of this plan: {len(done):,}"
    if elsewhere:
        text += f"; they were started in {', '.join(elsewhere)}, which makes them other runs"
    note(text)


def _to_run(batch: Batch, options: Mapping[str, Any]) -> tuple[Mapping[int, RunState], list[int]]:
    """Return the states of the runs and the numbers of those to run. Print how many they are."""
    states = executors.batch_state(batch).runs
    wanted = _wanted(states, options)
    note(f"nsyswrap: {batch.folder}: {_counts(states, len(wanted))}")
    return states, wanted


def _wanted(states: Mapping[int, RunState], options: Mapping[str, Any]) -> list[int]:
    wanted_states = {*UNFINISHED, *(ENDED if options["retry_failed"] else ())} - {"done"}
    return [
        number
        for number, state in states.items()
        if state.state in wanted_states or (options["retry_failed"] and state.lacks_gpu_work)
    ]


def _specs_to_run(folder: Path, plan: plans.Plan, options: Mapping[str, Any]) -> list[TaskSpec]:
    batch, specs = foresee_batch(folder, plan)
    return [specs[number] for number in _wanted(executors.batch_state(batch).runs, options)]


def _counts(states: Mapping[int, RunState], wanted: int) -> str:
    """Return how many runs are planned and done, and how many are to run if these are not all new ones."""
    counts = Counter(state.state for state in states.values())
    counted_apart = ("planned", "done")
    others = [f"{n:,} {outcome_words(state)}" for state, n in counts.items() if state not in counted_apart]
    text = ", ".join([f"{counted(len(states), 'runs')} planned", f"{counts['done']:,} done", *others])
    return text if wanted == counts["planned"] == len(states) else f"{text}; {wanted:,} to run"


def _print_runs(
    specs: Mapping[int, TaskSpec], states: Mapping[int, RunState], wanted: Collection[int]
) -> None:
    """Print a line for each run, as it would be typed. A comment has the state of a run that has ended."""
    for number, spec in specs.items():
        env = [f"{name}={quoted(value)}" for name, value in spec.options.env.items()]
        typed = " ".join([*env, *map(quoted, spec.words)])
        state = states[number]
        remark = "" if number in wanted else f"  # {outcome_words(state.state)}"
        say(printable(f"{state.folder.name}: {typed}{remark}"))
