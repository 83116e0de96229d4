"""The job script of a batch, a pure function of its plan. One task of the job array is one run."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

from nsyswrap.base.run_folder import RUNS
from nsyswrap.record.batch.folder import NUMBER_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nsyswrap.record.batch.executors import Request
    from nsyswrap.record.batch.folder import Batch
    from nsyswrap.record.batch.plan.expand import Plan
    from nsyswrap.record.batch.task import Scalar

FOLDER = "slurm"  # of the job scripts and logs, in the folder of a batch
MARGIN_VARIABLE = "NSYSWRAP_TIME_LIMIT_MARGIN_S"
_MARGIN_S = 120  # between the signal and the time limit, for nsys to write its report
_DEFAULT_MARGIN_S = 60  # Slurm's own, for a signal without a time
_LONG_NAMES = {"J": "job-name", "t": "time"}
_NO_REQUEUE = "no-requeue"
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_NEEDS_QUOTES = re.compile(r"[\s\"'\\#]")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def max_running(request: Request) -> int | None:
    """Return how many runs may run at a time: by the command line, else by the plan. None: no limit."""
    given: int | None = request.options["max_running"]
    return given or request.plan.max_running


def job_script(batch: Batch, plan: Plan, offset: int = 0) -> str:
    """Return the text of the job script; task i of the array is run number ``offset`` + i.

    Its last line is an exec, so that Slurm's signal before the time limit reaches nsyswrap itself.
    """
    options = _options(batch.name, plan.settings.get("slurm", {}))
    _, _, margin = str(options["signal"]).partition("@")
    start = shlex.join([*plan.wrapper, plan.python or sys.executable, "-m", "nsyswrap", "run-folder"])
    lines = ["#!/bin/bash", *(f"#SBATCH {line}" for line in _directives(options)), *plan.setup]
    lines += [
        f"export {MARGIN_VARIABLE}={int(margin) if margin.isdecimal() else _DEFAULT_MARGIN_S}",
        f"cd -- {shlex.quote(str(batch.folder.absolute() / RUNS))} || exit 73",
        f'run=$(printf %0{NUMBER_WIDTH}d "$(({offset} + SLURM_ARRAY_TASK_ID))")',
        'set -- "$run"-*',
        '[ -d "$1" ] || set -- "$run"  # its label had no letter',
        f'exec {start} "$PWD/$1"',
    ]
    return "\n".join(lines) + "\n"


def _options(name: str, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the plan's options as they are, and nsyswrap's own for those that the plan does not set."""
    by_long_name = {_LONG_NAMES.get(key, key): value for key, value in given.items()}
    limit_s = seconds(str(by_long_name.get("time", "")))
    # Slurm signals up to a minute early, and at once if less than the margin is left.
    margin_s = _MARGIN_S if limit_s is None else min(_MARGIN_S, limit_s // 2)
    ours: dict[str, Scalar] = {"job-name": name, "open-mode": "append"}
    if _NO_REQUEUE not in given:
        ours["requeue"] = True
    ours["signal"] = f"B:TERM@{margin_s}"
    return {**given, **{key: value for key, value in ours.items() if key not in by_long_name}}


def _directives(options: Mapping[str, Scalar]) -> Iterator[str]:
    for name, value in options.items():
        dashes = "-" if len(name) == 1 else "--"
        if value is True:
            yield f"{dashes}{name}"
        elif value is not False:
            text = _quoted(str(value))
            yield f"-{name} {text}" if len(name) == 1 else f"--{name}={text}"


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"' if _NEEDS_QUOTES.search(text) else text


def seconds(limit: str) -> int | None:
    """Return the seconds of a time limit as sbatch reads it: ``90``, ``90:00``, ``1:30:00``, ``1-12:00``.

    None if there is no limit, or if the text is not a time: sbatch then refuses it.
    """
    time = _TIME.fullmatch(limit.strip())
    if not time:
        return None
    days, *parts = time.groups()
    numbers = [int(part) for part in parts if part is not None]
    units = [_HOUR_S, _MINUTE_S, 1]
    if days is None and len(numbers) < len(units):  # minutes come first
        units.pop(0)
    total = int(days or 0) * _DAY_S + sum(n * unit for n, unit in zip(numbers, units, strict=False))
    return total or None  # 0 is no limit
