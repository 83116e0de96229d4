"""The job script of a batch: a pure function of what the plan says. One task of its array is one run."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base.run_folder import RUNS
from nsyswrap.record.batch.folder import NUMBER_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nsyswrap.record.batch.folder import Batch
    from nsyswrap.record.batch.task import Scalar

MARGIN_VARIABLE = "NSYSWRAP_TIME_LIMIT_MARGIN_S"
MARGIN_S = 120  # the signal comes this long before the time limit: for the report to be written
_LONG_NAMES = {"J": "job-name", "t": "time"}
_NO_REQUEUE = "no-requeue"
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_NEEDS_QUOTES = re.compile(r"[\s\"'\\#]")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@dataclass(frozen=True)
class Settings:
    """What a plan says about its jobs.

    ``options`` are those of sbatch, by their names: ``partition = "gpu"``, ``p = "gpu"``, true for a flag.
    On the node the shell runs the lines of ``setup``, then ``wrapper`` (a container's command line), which
    gets ``python -m nsyswrap ...`` as its arguments.
    """

    options: Mapping[str, Scalar] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    python: str = sys.executable
    max_running: int | None = None


def script(batch: Batch, settings: Settings, offset: int = 0) -> str:
    """Return the text of the job script; task i of the array is run number ``offset`` + i.

    The last line is an exec: what Slurm signals before the time limit is nsyswrap itself.
    """
    options = _options(batch, settings)
    lines = ["#!/bin/bash", *(f"#SBATCH {line}" for line in _directives(options)), *settings.setup]
    lines += [
        f"export {MARGIN_VARIABLE}={_margin_s(options)}",
        f"cd -- {shlex.quote(str(batch.folder.absolute() / RUNS))} || exit 73",
        f'run=$(printf %0{NUMBER_WIDTH}d "$(({offset} + SLURM_ARRAY_TASK_ID))")',
        'set -- "$run"-*',
        '[ -d "$1" ] || set -- "$run"  # its label had no letter',
        f'exec {shlex.join([*settings.wrapper, settings.python, "-m", "nsyswrap", "run-folder"])} "$PWD/$1"',
    ]
    return "\n".join(lines) + "\n"


def _options(batch: Batch, settings: Settings) -> dict[str, Scalar]:
    """Return the plan's options, and ours beside them where it has none."""
    given = {_LONG_NAMES.get(name, name): value for name, value in settings.options.items()}
    ours: dict[str, Scalar] = {"job-name": batch.name, "open-mode": "append"}
    if _NO_REQUEUE not in given:
        ours["requeue"] = True
    limit_s = seconds(str(given["time"])) if "time" in given else None
    # Slurm signals at once where less time is left than this, and up to a minute early.
    margin_s = MARGIN_S if limit_s is None else min(MARGIN_S, limit_s // 2)
    ours["signal"] = f"B:TERM@{margin_s}"
    return {**dict(settings.options), **{name: value for name, value in ours.items() if name not in given}}


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


def _margin_s(options: Mapping[str, Scalar]) -> int:
    """Return how long before the time limit the signal comes: Slurm takes 60 s where none is named."""
    _, _, margin = str(options["signal"]).partition("@")
    return int(margin) if margin.isdecimal() else 60


def seconds(limit: str) -> int | None:
    """Return what sbatch takes for a time limit, in seconds: ``90``, ``90:00``, ``1:30:00``, ``1-12:00``.

    None where there is no limit, or sbatch has to say what it thinks of it.
    """
    found = _TIME.fullmatch(limit.strip())
    if not found:
        return None
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        units: tuple[int, ...] = (_HOUR_S, _MINUTE_S, 1)
    else:
        units = (_MINUTE_S, 1) if len(numbers) < 3 else (_HOUR_S, _MINUTE_S, 1)  # noqa: PLR2004 - h:m:s
    total = int(days or 0) * _DAY_S + sum(n * unit for n, unit in zip(numbers, units, strict=False))
    return total or None  # 0 is no limit
