"""What is submitted for a batch: the scripts, the command of each job array, the job that collects.

Before anything is written, ``sbatch --test-only`` tries the options. The same can be submitted by hand:
``submit.sh`` has these commands.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.files import head, small_file
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import existing
from nsyswrap.base.text import printable
from nsyswrap.record.batch.executors import BatchRequest, Blocks
from nsyswrap.record.batch.executors.slurm import commands, script
from nsyswrap.record.batch.executors.slurm.groups import NAME, SubmissionGroup, grouped, groups, long_name
from nsyswrap.record.batch.executors.slurm.jobs import Array, Jobs, mark_of
from nsyswrap.record.batch.folder import Batch, Pause
from nsyswrap.record.batch.plan.expand import Plan
from nsyswrap.record.batch.plan.toml_table import as_toml
from nsyswrap.record.batch.task import TaskSpec

_AT_ONCE = 4  # calls of sbatch
_LISTED = 10  # sets of options that are refused
BY_HAND = "submit.sh"
COLLECT = "collect.sh"
_ID = re.compile(r"\$\{job\d+%%;\*\}")
_USUAL = commands.ClusterLimits(array_size=1001, jobs=10_000)  # Slurm's own defaults
_JOB = "job"  # a file with the id of the job that was submitted last
_ID_BYTES = 100
_POLLS_UNTIL_FINAL = 2  # polls for which a reason has to stand


@dataclass(frozen=True)
class _Fault:
    """The names of options that Slurm refuses, and its message."""

    names: Sequence[str]
    message: str


def try_options(plan: Plan, to_run: Callable[[], Sequence[TaskSpec]]) -> None:
    """Raise Unavailable if Slurm refuses the options of runs that are ``to_run``.

    The message has each set of options that is refused, and the keys of the plan that set it. Nothing
    happens where this cannot be told.
    """
    sets = grouped(plan)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = list(threads.map(lambda one: _tried(plan, one[0]), sets))
    refused = [one for one, message in zip(sets, answers, strict=True) if message]
    if not refused:
        return
    wanted = {spec.key for spec in to_run()}
    lines = []
    for group, specs in refused:
        if own := [spec for spec in specs if spec.key in wanted]:
            lines += [_line(plan, own, group, fault) for fault in _faults(plan, group)]
    if lines:
        more = [f"... and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
        shown = [f"  {printable(line)}" for line in (*lines[:_LISTED], *more)]
        raise Unavailable.of_lines(
            ["Slurm refuses these options; nothing was submitted:", *shown],
            "change them, and use the same command",
        )


def _tried(plan: Plan, group: SubmissionGroup) -> str | None:
    nowhere = Batch(Path(), plan.name, "", {})
    return commands.refusal(script.job_script(nowhere, plan, group=group))


def _faults(plan: Plan, group: SubmissionGroup) -> Iterator[_Fault]:
    """Yield what Slurm refuses: an option is at fault if Slurm says something else without it."""
    while message := _tried(plan, group):
        names = [name for name in group.options if _tried(plan, _without(group, name)) not in (message, None)]
        yield _Fault(names or list(group.options), message)
        if not names:
            return
        group = _without(group, *names)


def _without(group: SubmissionGroup, *names: str) -> SubmissionGroup:
    return replace(group, options={name: value for name, value in group.options.items() if name not in names})


def _line(plan: Plan, specs: Sequence[TaskSpec], group: SubmissionGroup, fault: _Fault) -> str:
    by_table: dict[str, list[str]] = {}
    for name in fault.names:
        by_table.setdefault(_plan_table(plan, specs[0], name), []).append(name)
    options = [
        f"{table} {', '.join(f'{name} = {as_toml(group.options[name])}' for name in names)}"
        for table, names in by_table.items()
    ]
    more = f" and {len(specs) - 1:,} more" if len(specs) > 1 else ""
    return f"{'; '.join(options)}: {fault.message} (run {specs[0].name}{more})"


def _plan_table(plan: Plan, spec: TaskSpec, name: str) -> str:
    if name in spec.settings.get(NAME, {}):
        return "[runs.slurm]"
    return "[slurm]" if name in plan.settings.get(NAME, {}) else "[[runs]]"


def planned_jobs(request: BatchRequest, numbers: Sequence[int], array_size: int) -> Jobs:
    """Return the arrays that these runs need: of equal options, with no index as high as ``array_size``."""
    by_number = groups(request.plan, request.batch)
    arrays: dict[tuple[int, int], list[int]] = {}
    for number in sorted(numbers):
        arrays.setdefault((number // array_size, id(by_number[number])), []).append(number)
    return Jobs(
        left=tuple(
            _array(same, same[0] // array_size * array_size, by_number[same[0]]) for same in arrays.values()
        ),
        folder=str(request.batch.folder.absolute()),
        max_running=script.max_running(request),
        stop_after_empty=request.plan.stop_after_empty,
    )


def _array(numbers: Sequence[int], offset: int, group: SubmissionGroup) -> Array:
    given = {long_name(key): value for key, value in group.options.items()}
    tasks = commands.as_text(number - offset for number in numbers)
    return Array("", offset, tasks, f"job-{numbers[0]}.sh", str(given.get("dependency", "")))


def limits_or_usual() -> tuple[commands.ClusterLimits, str]:
    """Return the limits of the cluster. If Slurm does not answer, return the usual ones and a note."""
    try:
        return commands.limits(), ""
    except Unavailable as error:
        return _USUAL, f"{error.message}; the lines assume MaxArraySize = {_USUAL.array_size}"


def write_scripts(request: BatchRequest, jobs: Jobs) -> None:
    """Write the scripts of the arrays that are left to submit, and of the job that collects."""
    folder = existing(request.batch.folder.absolute() / script.FOLDER)
    for one, text in job_scripts(request, jobs):
        folder.write(one.script, text)
    folder.write(COLLECT, script.collect_script(request.batch, request.plan))


def job_scripts(request: BatchRequest, jobs: Jobs) -> Iterator[tuple[Array, str]]:
    """Yield the arrays that are left to submit, each with the text of its script."""
    by_number = groups(request.plan, request.batch)
    for one in jobs.left:
        yield one, script.job_script(request.batch, request.plan, one.offset, by_number[one.numbers[0]])


def array_command(batch: Batch, jobs: Jobs, job_array: Array, after: Iterable[str] = ()) -> list[str]:
    """Return the command that submits an array. With a limit of runs it waits for jobs ``after``."""
    tasks = commands.array(commands.indexes(job_array.tasks), jobs.max_running)
    dependency = _dependency(job_array.dependency, after) if jobs.max_running else ""
    return commands.sbatch_command(
        _folder(batch) / job_array.script, mark_of(batch, job_array.offset), tasks, dependency
    )


def collect_command(batch: Batch, after: Iterable[str]) -> list[str]:
    """Return the command that submits the job that collects once the jobs ``after`` have ended."""
    mark = f"nsyswrap:{batch.id}:collect"
    return commands.sbatch_command(_folder(batch) / COLLECT, mark, dependency=_dependency("", after))


def can_follow(job_array: Array) -> bool:
    """Return True if an array can wait for another one: a plan's `a?b` allows no further dependency."""
    return "?" not in job_array.dependency


def by_hand(batch: Batch, jobs: Jobs, *, collects: bool) -> str:
    """Return the text of the script that submits the arrays, each printing its job id."""
    lines = ["#!/bin/bash", "# Submits the runs of this batch: prints the ids of its jobs.", "set -e"]
    names: list[str] = []
    for number, job_array in enumerate(jobs.left, 1):
        waits = names if can_follow(job_array) else ()
        lines += _typed(f"job{number}", array_command(batch, jobs, job_array, waits[-1:]))
        names.append(f"${{job{number}%%;*}}")
    if collects and names:
        lines += _typed("collect", collect_command(batch, names))
    return "\n".join(lines) + "\n"


def write_by_hand(batch: Batch, jobs: Jobs, *, collects: bool) -> Path:
    """Write submit.sh and return its path."""
    folder = existing(_folder(batch))
    folder.write(BY_HAND, by_hand(batch, jobs, collects=collects))
    return batch.folder / script.FOLDER / BY_HAND


def part_of(job_array: Array, most: int) -> tuple[Array, Array | None]:
    """Return an array of at most so many of these tasks, and one of the others."""
    tasks = commands.indexes(job_array.tasks)
    rest = replace(job_array, tasks=commands.as_text(tasks[most:])) if len(tasks) > most else None
    return replace(job_array, tasks=commands.as_text(tasks[:most])), rest


def _typed(name: str, command: Sequence[str]) -> list[str]:
    """Return lines of bash. An id in ``${job1%%;*}`` stands for the id that Slurm gives."""
    quoted = [shlex.quote(word) for word in command]
    words = [_ID.sub(r"""'"\g<0>"'""", word) if "--dependency=" in word else word for word in quoted]
    return [f"{name}=$({' '.join(words)})", f'echo "${{{name}%%;*}}"']


def _dependency(planned: str, after: Iterable[str]) -> str:
    """Return the value of sbatch's ``--dependency``: the plan's own, and the end of other jobs."""
    ids = ":".join(dict.fromkeys(after))
    return ",".join(filter(None, (planned, f"afterany:{ids}"))) if ids else ""


def _folder(batch: Batch) -> Path:
    return batch.folder.absolute() / script.FOLDER


# Digests of captures, made by a job array: for `collect`, whose machine need not read the captures.


def run_blocks(blocks: Blocks, on_progress: Callable[[str], None]) -> str:
    """Submit the blocks as an array, and wait until it has ended. Return its name.

    A job of an earlier call that has not ended is waited for instead: then the name is empty. Raises
    Unavailable if Slurm refuses the array or never starts it. KeyboardInterrupt leaves the job.
    """
    earlier = _running(blocks.folder)
    job = earlier or _submit(blocks)
    pause, final = Pause(), 0
    while left := _answered(job, on_progress):
        ended = blocks.count - sum(len(one.tasks) for one in left)
        waiting = commands.in_words(left)
        counts = "" if earlier else f"{ended:,} of {blocks.count:,} tasks ended"
        on_progress(f"job {job}: {', '.join(filter(None, (counts, waiting)))}")
        never = next(filter(None, (commands.why_never(one.reason) for one in left)), None)
        final = final + 1 if never else 0
        if never and final == _POLLS_UNTIL_FINAL:
            commands.cancel([job])
            raise Unavailable(f"job {job} can never start: {never[0]}", "change --slurm")
        time.sleep(pause.seconds())
    on_progress("")
    return "" if earlier else f"job {job}"


def _running(folder: Path) -> str:
    """Return the id of the job of a folder if it is still in the queue, else an empty text."""
    try:
        job = head(folder / _JOB, _ID_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
    return job if _left(job) else ""


def _left(job: str) -> list[commands.QueuedJob]:
    return [one for one in commands.jobs() if one.id == job and one.state != "COMPLETING"]


def _answered(job: str, on_progress: Callable[[str], None]) -> list[commands.QueuedJob]:
    """Return the tasks of a job that wait or run. Ask until Slurm answers: the job runs on meanwhile."""
    pause = Pause()
    while True:
        try:
            return _left(job)
        except Unavailable as error:
            on_progress(f"job {job}: {error.message}; waiting for Slurm")
            time.sleep(pause.seconds())


def _submit(blocks: Blocks) -> str:
    folder = blocks.folder.absolute()
    if "\\" in str(folder):
        raise OutputError(f"Slurm cannot write logs to a path with a backslash: {folder}", "use another -o")
    own = folder / COLLECT
    given = blocks.batch.folder.absolute() / script.FOLDER / COLLECT if blocks.batch else own
    try:
        text = small_file(given).decode(errors="replace")
    except OSError:
        text = ""
    if not script.does_other_work(text):  # no batch of Slurm, or of an older version
        name = blocks.batch.name if blocks.batch else folder.name
        text = script.collect_script(Batch(folder, name, "", {}), Plan(name, ()))
    existing(folder).write(COLLECT, text)
    tasks = commands.as_text(range(blocks.count))
    command = commands.sbatch_command(own, f"nsyswrap:{folder.name}:digests", tasks)
    # What is typed goes before the directives of the script.
    options = list(script.options_as_words(blocks.settings))
    job = commands.submit([*command[:-2], *options, *command[-2:], *blocks.words])
    existing(folder).write(_JOB, job)
    return job
