"""Mutated files that are no captures: plans, class rules, digests, status and run files, settings, the index.

Each kind of file lies in a template: a batch and a run as nsyswrap writes them. A case mutates one file of
it and runs a command that reads this file. What the command answers is compared with the answer for the file
as it was, or with what a plain reading of the mutated file gives.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from fuzz import file_answers
from fuzz.case import Case
from fuzz.file_answers import Answer, Given
from fuzz.file_template import (
    CAPTURE,
    CONDITIONED,
    ENVIRONMENT,
    INDEX,
    OUT,
    PLAN,
    PROJECT,
    RULES,
    SETTINGS,
    SWEEP,
    lay,
    template,
)
from fuzz.text_mutations import mutation
from nsyswrap.base.run_folder import BATCH, CLAIM, CONDITIONS, DIGEST, RUN, SPEC, STATUS

if TYPE_CHECKING:
    Judge = Callable[[Given, Answer], str]


class Subject(NamedTuple):
    """A file that is mutated, the command that reads it, its exit codes, and what its answer has to be."""

    kind: str
    file: Path
    argv: list[str]
    codes: tuple[int, ...]
    judge: Judge


def case(random: Random, folder: Path) -> Case:
    """Write a template with one mutated file into ``folder``, and return the command that reads it."""
    subject = random.choice(subjects())
    mutated = mutation(random, template()[subject.file], subject.file.suffix)
    lay(folder, without=subject.file)
    mutated.put(folder / subject.file)
    inputs = [folder / path for path in template() if (folder / path).is_file()]
    return Case(
        subject.argv,
        inputs,
        partial(_problem, subject, Given(folder, subject.file, mutated, tuple(subject.argv))),
        f"{subject.file}: {mutated.made}",
        outputs=(folder / OUT,),
        codes=subject.codes,
        names_each=subject.argv[0] == "collect",
        must_answer=mutated.is_harmless,
        before=partial(_enter, folder),
    )


def _problem(subject: Subject, given: Given, code: int, stdout: str, stderr: str) -> str:
    if code and subject.file.name not in stderr and (given.folder / subject.file).is_file():
        return f"{subject.file.name} is not named"
    return subject.judge(given, Answer(code, stdout, stderr))


def _enter(folder: Path) -> None:
    for name, place in ENVIRONMENT.items():
        os.environ[name] = str(folder / place)


@cache
def subjects() -> tuple[Subject, ...]:
    """Return what can be mutated, with every command that reads it."""
    runs = sorted({path.parent for path in template() if path.name == SPEC})
    first, second = runs[0], runs[1]
    batch, jobs, rank = SWEEP / BATCH, SWEEP / "slurm" / "jobs.json", Path("ranks/rank-1")
    collect = ["collect", str(SWEEP), "-o", str(OUT), "--jobs", "1"]
    dry_run = ["batch", "run", str(PLAN), "--dry-run"]
    status = ["batch", "status", str(SWEEP)]
    listed = ["runs", "list", "--all"]
    prune = ["runs", "prune", "--keep", "0", "--all"]
    by_rank = ["report", "ranks", "--by", "rank", "-r", "cuda_gpu_kern_sum"]
    report = ["report", str(CAPTURE), "--format", "csv", "-r", "kernel_class_sum"]
    checked = ["report", str(CONDITIONED), "-r", "diagnostics"]
    page = ["view", str(CONDITIONED), "-o", str(OUT / "page.html")]
    return (
        Subject("plan", PLAN, dry_run, (0, 2, 78), file_answers.as_before_or_told),
        Subject("batch", batch, collect, (0, 65, 73), file_answers.as_batch),
        Subject("batch", batch, status, (0, 65, 73), file_answers.as_before_or_told),
        Subject("batch", batch, [*dry_run, "-o", str(SWEEP)], (0, 65, 73), file_answers.as_before_or_told),
        Subject("batch", batch, listed, (0,), file_answers.anything),
        Subject("batch", batch, prune, (0,), file_answers.anything),
        Subject("spec", first / SPEC, collect, (0, 65), file_answers.as_spec),
        Subject("spec", first / SPEC, [*dry_run, "-o", str(SWEEP)], (0,), file_answers.anything),
        Subject("status", first / STATUS, collect, (0, 65), file_answers.as_status),
        Subject("status", first / STATUS, status, (0,), file_answers.as_status_list),
        Subject("status", first / STATUS, ["report", str(first)], (0,), file_answers.anything),
        Subject("status", first / STATUS, listed, (0,), file_answers.anything),
        Subject("run", first / RUN, collect, (0,), file_answers.as_run),
        Subject("run", first / RUN, ["report", str(first)], (0,), file_answers.anything),
        Subject("run", rank / RUN, by_rank, (0, 2), file_answers.anything),
        Subject("run", rank / RUN, listed, (0,), file_answers.anything),
        Subject("run", rank / RUN, prune, (0,), file_answers.anything),
        Subject("claim", first / CLAIM, status, (0,), file_answers.anything),
        Subject("claim", runs[-1] / CLAIM, status, (0,), file_answers.anything),
        Subject("conditions", CONDITIONED / CONDITIONS, checked, (0,), file_answers.anything),
        Subject("conditions", CONDITIONED / RUN, checked, (0,), file_answers.anything),
        Subject("conditions", CONDITIONED / RUN, page, (0,), file_answers.anything),
        Subject("jobs", jobs, status, (0,), file_answers.anything),
        Subject("digest", first / DIGEST, collect, (0, 65), file_answers.as_before),
        Subject("digest", second / DIGEST, collect, (0, 65), file_answers.as_digest_alone),
        Subject("rules", RULES, [*report, "--classes", str(RULES)], (0, 2), file_answers.as_rules),
        Subject("settings", SETTINGS, ["--show-config"], (0, 2), file_answers.as_settings),
        Subject("settings", SETTINGS, report, (0, 2), file_answers.anything),
        Subject("settings", PROJECT, ["--show-config"], (0, 2), file_answers.as_settings),
        Subject("settings", PROJECT, report, (0, 2), file_answers.anything),
        Subject("index", INDEX, listed, (0,), file_answers.anything),
        Subject("index", INDEX, prune, (0,), file_answers.anything),
    )
