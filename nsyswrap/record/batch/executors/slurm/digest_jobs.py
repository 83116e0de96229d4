"""Make digests of captures in a job array: for `collect`, whose machine need not read the captures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.files import head, small_file
from nsyswrap.base.run_folder import existing
from nsyswrap.record.batch.executors import Blocks
from nsyswrap.record.batch.executors.slurm import commands, script
from nsyswrap.record.batch.executors.slurm.submission import COLLECT
from nsyswrap.record.batch.folder import Batch, Pause
from nsyswrap.record.batch.plan.expand import Plan

_JOB = "job"  # a file with the id of the job that was submitted last
_ID_BYTES = 100
_POLLS_UNTIL_FINAL = 2  # polls for which a reason has to stand


def run(blocks: Blocks, on_progress: Callable[[str], None]) -> str:
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
    """Return the tasks of a job that wait or run."""
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
