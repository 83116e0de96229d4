"""The hook in the program: the environment that loads it, and what it noted.

``in_program/hook`` is that hook. It runs in the Python of the program, which can be another one than ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, NamedTuple

from nsyswrap.base import paths
from nsyswrap.base.files import head, read_json
from nsyswrap.base.nsys.options import RecordingOptions, parse_steps
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import did_you_mean

FOLDER = Path(__file__).parent / "in_program" / "hook"
PATH = "PYTHONPATH"
_PREFIX = "NSYSWRAP_HOOK_"
_LATE = "another optimizer was expected to step, too"
_NOT_LOADED = "no Python loaded nsyswrap's hook"
_COUNT_BYTES = 8
_MOST_NAMES = 5  # of functions, in a hint
_ELSEWHERE = "for a loop without optimizers use --step-at module, nvtx:NAME or call:package.module:function"


def variables(options: RecordingOptions, notes: Path | None = None) -> dict[str, str]:
    """Return the settings of the hook. ``notes`` is a folder for its notes."""
    settings = {
        "STEPS": options.steps and "{}-{}".format(*parse_steps(options.steps)),
        "STEP_AT": options.step_at,
        "MODULES": options.modules and str(options.modules),
        "GC": options.marks and "1",  # costs nothing next to the others
        "MEMORY": options.memory and "1",
        "NOTES": notes and str(notes),
    }
    return {f"{_PREFIX}{name}": value for name, value in settings.items() if value and options.hooked}


def python_path(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH that loads the hook and keeps what ``environment`` has there."""
    return os.pathsep.join(filter(None, (str(FOLDER), environment.get(PATH, ""))))


class MissingFunction(NamedTuple):
    """``owner`` has no function ``name``, but those of ``names``. None: it has the name, for no function."""

    owner: str
    name: str
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class HookNotes:
    """What the hook noted in the processes of a run.

    ``loaded`` and ``torch`` count processes: those with the hook, and those that imported PyTorch. ``steps``
    counts the steps that ended in the process with most, ``recorded`` names the first and the last recorded
    one; ``last`` is None if it did not end. ``step_at_exists``: what --step-at names does. ``absent``: it
    does not, in a module that was imported. ``failures`` of the hook. ``unseen_start``: no module was called
    before step 0 ended. ``fused``: the operations of each kernel that torch.compile fused. ``memory``: what
    PyTorch's allocator held at most, by process and GPU.
    """

    loaded: int = 0
    torch: int = 0
    steps: int = 0
    first: int | None = None
    last: int | None = None
    step_at_exists: bool = False
    failures: tuple[str, ...] = ()
    fused: Mapping[str, list[str]] = field(default_factory=dict)
    unseen_start: bool = False
    absent: MissingFunction | None = None
    memory: tuple[Mapping[str, int], ...] = ()

    def facts(self, options: RecordingOptions) -> dict[str, Any]:
        """Return what goes into run.json."""
        steps = {"counted": self.steps, "first": self.first, "last": self.last}
        return {
            **({"steps": steps} if options.steps is not None else {}),
            **({"fused_kernels": dict(self.fused)} if self.fused else {}),
            **({"pytorch_memory": list(map(dict, self.memory))} if self.memory else {}),
            **({"hook_failures": list(self.failures)} if self.failures else {}),
        }


def read(folder: Path) -> HookNotes:
    """Return what was noted in the files of ``folder``. What is not valid is ignored."""
    processes = [_of_process(path) for path in paths.matching(folder, "[0-9]*.json", paths.ignore)]
    most = max(processes, key=lambda one: (one.first is not None, one.steps), default=HookNotes())
    return replace(
        most,
        loaded=len(processes),
        torch=sum(one.torch for one in processes),
        step_at_exists=any(one.step_at_exists for one in processes),
        failures=tuple(dict.fromkeys(line for one in processes for line in one.failures)),
        fused={kernel: operations for one in processes for kernel, operations in one.fused.items()},
        absent=next((one.absent for one in processes if one.absent), None),
        memory=tuple(part for one in processes for part in one.memory),
    )


def _of_process(path: Path) -> HookNotes:
    try:
        facts = read_json(path)
    except (OSError, ValueError):
        return HookNotes()
    if not isinstance(facts, dict):
        return HookNotes()
    numbers = {name: facts[name] for name in ("steps", "first", "last") if isinstance(facts.get(name), int)}
    numbers["steps"] = max(numbers.get("steps", 0), _count(path.with_suffix(".steps")))
    lines, fused = facts.get("failures"), facts.get("fused")
    return HookNotes(
        **numbers,
        torch=int(facts.get("torch") is True),
        step_at_exists=facts.get("place") is True,
        failures=tuple(map(str, lines)) if isinstance(lines, list) else (),
        fused=fused if isinstance(fused, dict) else {},
        unseen_start=facts.get("unseen_start") is True,
        absent=_absent(facts.get("absent")),
        memory=tuple(_memory(facts)),
    )


def _memory(facts: Mapping[str, Any]) -> Iterator[Mapping[str, int]]:
    parts = facts.get("memory")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            numbers = {"process_id": facts.get("pid"), **part}
            yield {str(name): number for name, number in numbers.items() if isinstance(number, int)}


def _count(path: Path) -> int:
    try:
        return int.from_bytes(head(path, _COUNT_BYTES), "little")
    except OSError:
        return 0


def _absent(fact: object) -> MissingFunction | None:
    if not isinstance(fact, dict) or not {"owner", "name", "names"} <= fact.keys():
        return None
    names = fact["names"]
    known = tuple(map(str, names)) if isinstance(names, list) else None
    return MissingFunction(str(fact["owner"]), str(fact["name"]), known)


def why_none(options: RecordingOptions, hooked: HookNotes, program: str) -> tuple[str, str]:
    """Return why none of the steps were recorded, and what to do."""
    words = f"steps {options.steps} were not recorded"
    if hooked.steps > parse_steps(options.steps or "0")[1]:
        return f"{words}: they were counted late, as {_LATE}", "choose later steps"
    if hooked.steps:
        counted = f"{program} ended after {_steps(hooked.steps)}"
        return f"{words}: {counted}", f"steps are numbered from 0: choose from 0-{hooked.steps - 1}"
    if hooked.failures:
        failure = hooked.failures[0]
        return f"{words}: the hook failed: {failure}", "please report this, with your version of PyTorch"
    if not hooked.loaded:
        cure = f"it is loaded by {PATH}: omit -I, -E and -S of python, and keep {PATH} for child processes"
        return f"{words}: {_NOT_LOADED}", cure
    cause, cure = _why_no_step(options.step_at or "", hooked, program)
    return f"{words}: {cause}", cure


def failed_before(options: RecordingOptions, hooked: HookNotes) -> str:
    """Return when a program failed before the steps to record; empty if steps or the hook are at fault."""
    first = parse_steps(options.steps or "0")[0]
    if hooked.failures or hooked.steps > first:
        return ""
    return f"{f'after {_steps(hooked.steps)}, ' if hooked.steps else ''}before step {first} began"


def _why_no_step(at: str, hooked: HookNotes, program: str) -> tuple[str, str]:
    kind, _, name = at.partition(":")
    if kind == "call":
        module, _, function = name.partition(":")
        if hooked.step_at_exists:
            return f"{function} of {module} was never called", "name a function that each step calls"
        if hooked.absent:
            return _why_absent(*hooked.absent)
        cure = "name the module as the program imports it; functions of the script itself cannot be named"
        return f"the program did not import {module}", cure
    if kind == "nvtx":
        cause = (
            f"no NVTX range {name!r} ended" if hooked.step_at_exists else "no range of torch or nvtx was made"
        )
        return cause, "ranges must be made by torch.cuda.nvtx or nvtx; others: --capture-range nvtx:NAME"
    if not hooked.torch:
        return f"{program} never imported torch", _ELSEWHERE
    cause = "no module was called" if kind else "no optimizer of PyTorch stepped outside of compiled code"
    return cause, _ELSEWHERE


def _why_absent(owner: str, name: str, names: tuple[str, ...] | None) -> tuple[str, str]:
    if names is None:
        return f"{name} of {owner} cannot be called", "name a function that each step calls"
    some = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    cure = did_you_mean(name, names) or (f"{owner} has {some}" if some else "")
    return f"{owner} has no function {name}", cure or "name a function that each step calls"


def shortfall(options: RecordingOptions, hooked: HookNotes, program: str) -> str:
    """Return which steps or marks are missing in a recording; empty if all are there."""
    if options.marks_garbage and not hooked.loaded:
        return f"no garbage collections are marked: {_NOT_LOADED}"
    if options.modules is not None and not hooked.torch:
        cause = f"{program} never imported torch" if hooked.loaded else _NOT_LOADED
        return f"no modules are marked: {cause}"
    if options.modules is not None and hooked.failures:
        return f"modules may lack their marks: {hooked.failures[0]}"
    if options.steps is None or hooked.first is None:
        return ""
    return _missing_steps(options.steps, hooked.first, hooked, program)


def _missing_steps(steps: str, first: int, hooked: HookNotes, program: str) -> str:
    if hooked.last is None:
        last = hooked.steps - 1
        done = f"step {first}" if last == first else f"steps {first}-{last}" if last > first else ""
        words = f"recorded {done} of {steps}" if done else f"recorded only a part of step {first}"
        return f"{words}: {program} ended after {_steps(hooked.steps)}"
    if hooked.unseen_start and first == 0:
        return "step 0 is recorded from its end on: no module was called before its optimizer stepped"
    if (first, hooked.last) == parse_steps(steps):
        return ""
    recorded = f"recorded steps {first}-{hooked.last} instead of {steps}"
    return f"{recorded}: steps were counted late, as {_LATE}"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count:,} steps"
