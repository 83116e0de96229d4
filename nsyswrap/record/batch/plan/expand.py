"""Blocks become runs: every combination once per repeat, each with a label of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nsyswrap.base.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nsyswrap.record.batch.plan.block import Block
    from nsyswrap.record.batch.task import Scalar, Spec

_Combination: TypeAlias = tuple[int, int]  # number of its block, and which of the block's
MOST_RUNS = 99_999  # each is a folder, and a task of Slurm's


@dataclass(frozen=True)
class Plan:
    """What to run, and what has to be known where it runs.

    ``slurm``: settings of sbatch, passed through unchanged. ``setup``: lines of shell before each run;
    ``wrapper``: the command that nsyswrap is started with there; ``python``: the Python that runs it, None
    for the one that submits. ``max_running``: how many at a time, None for as many as there is room for.
    ``notes``: what a person should know before the plan is carried out.
    """

    name: str
    specs: tuple[Spec, ...]
    slurm: Mapping[str, Scalar] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    python: str | None = None
    max_running: int | None = None
    notes: tuple[str, ...] = ()


def expand(blocks: Sequence[Block], where: str) -> tuple[tuple[Spec, ...], tuple[str, ...]]:
    """Return the runs of all blocks, and notes on them. Raises PlanError for wrong names of parameters.

    All combinations come once before any comes again: a machine that gets warmer or busier meanwhile does so
    for all alike. A label is that of a combination, and names the program only where the parameters do not
    tell them apart.
    """
    for block in blocks:
        block.check()
    wanted = sum(block.count for block in blocks)
    if wanted > MOST_RUNS:
        raise PlanError(f"{where}: that makes {wanted:,} runs, and {MOST_RUNS:,} are the most", "split it up")
    runs = _once(_all(blocks, titled=False))
    labels = {combination: spec.label for combination, spec in runs}
    if len(set(labels.values())) < len(labels):
        runs = _once(_all(blocks, titled=True))
        labels = _numbered({combination: spec.label for combination, spec in runs})
    twice = wanted - len(runs)
    note = f"{twice} of {wanted} runs stand in more than one [[runs]]: they are made once"
    specs = (replace(spec, label=labels[combination]) for combination, spec in runs)
    return tuple(specs), (note,) * bool(twice)


def _all(blocks: Sequence[Block], *, titled: bool) -> Iterator[tuple[_Combination, Spec]]:
    cwd = _current_folder()
    for repeat in range(1, max(block.repeat for block in blocks) + 1):
        for number, block in enumerate(blocks):
            if repeat <= block.repeat:
                for i, spec in enumerate(block.specs(repeat, cwd, titled=titled)):
                    yield (number, i), spec


def _once(runs: Iterable[tuple[_Combination, Spec]]) -> list[tuple[_Combination, Spec]]:
    """Leave out runs that are the same as one before them, and make one of their combinations."""
    first: dict[str, _Combination] = {}
    same: dict[_Combination, _Combination] = {}
    kept = []
    for combination, spec in runs:
        known = first.setdefault(_identity(spec), combination)
        if known == combination:
            kept.append((combination, spec))
        else:
            same.setdefault(combination, known)
    return [(same.get(combination, combination), spec) for combination, spec in kept]


def _identity(spec: Spec) -> str:
    """Return what tells two runs apart, as ``Spec.key`` does, in a fraction of its time."""
    facts = {name: value for name, value in vars(spec).items() if name not in ("label", "timeout_s")}
    return repr([sorted(value.items()) if isinstance(value, dict) else value for value in facts.values()])


def _numbered(labels: Mapping[_Combination, str]) -> dict[_Combination, str]:
    """Tell apart labels that are still the same, by a number."""
    taken, count = set(labels.values()), Counter[str]()
    numbered = {}
    for combination, label in labels.items():
        count[label] += 1
        unique = label
        while count[label] > 1 and unique in taken:
            unique = f"{label} #{count[label]}"
            count[label] += unique in taken
        taken.add(unique)
        numbered[combination] = unique
    return numbered


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise PlanError(f"there is no current folder: {error.strerror}", "go to one that is there") from None
