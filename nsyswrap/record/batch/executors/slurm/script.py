"""The job script of a batch, a pure function of its plan. One task of the job array is one run."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

from nsyswrap.base.run_folder import RUNS
from nsyswrap.record.batch.executors import BatchRequest
from nsyswrap.record.batch.executors.slurm.groups import SubmissionGroup, long_name
from nsyswrap.record.batch.folder import NUMBER_WIDTH, Batch
from nsyswrap.record.batch.launchers import START_VARIABLE
from nsyswrap.record.batch.plan.expand import Plan
from nsyswrap.record.batch.task import NAMED_PYTHON_VARIABLE, Scalar

FOLDER = "slurm"  # of the job scripts and logs, in the folder of a batch
MARGIN_VARIABLE = "NSYSWRAP_TIME_LIMIT_MARGIN_S"
_MARGIN_S = 120  # between the signal and the time limit, for nsys to write its report
_DEFAULT_MARGIN_S = 60  # Slurm's own, for a signal without a time
_NO_REQUEUE = "no-requeue"
_OF_ANY_JOB = (
    *("account", "A", "partition", "p", "qos", "q", "reservation", "clusters", "M", "constraint", "C"),
    *("time", "t", "mail-type", "mail-user"),
)
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_NEEDS_QUOTES = re.compile(r"[\s\"'\\#]")
_OPEN_ENDS = ("&&", "||", "|", "\\", "{", "(", "then", "do", "else")
_GUARD = """\
nsyswrap_log=/proc/$$/fd/2
nsyswrap_before=$(stat -Lc %s "$nsyswrap_log")
nsyswrap_end() {{  # the last line of the log says why
  local code=$1 cause what hint
  [ "$code" != 0 ] || return
  [ -n "$nsyswrap_failed" ] || {{ [ "$code" -lt 128 ] && nsyswrap_failed=exit || return; }}  # not for signals
  grep -qs '"outcome": "done"' "$nsyswrap_run/status.json" && return
  [ -f "$nsyswrap_log" ] && cause=$(tail -c "+$((nsyswrap_before + 1))" "$nsyswrap_log" | grep . | tail -n 1)
  what="setup failed: $nsyswrap_failed (exit code $code)" hint="to allow it, end the line with || true"
  if [ "$nsyswrap_failed" = nsyswrap ]; then
    what="nsyswrap could not be started (exit code $code)" hint="set python or wrapper in [node]"
  fi
  umask {umask}
  {{
    printf '{{"outcome": "not_started", "program_code": null, "nsys_code": null, "exit_code": %d,' "$code"
    printf ' "message": "%s",' "$(nsyswrap_text "$what${{cause:+; end of its output: $cause}}")"
    printf ' "hint": "%s"}}\\n' "$hint"
  }} > "$nsyswrap_run/.status.json.part" &&
    mv -f "$nsyswrap_run/.status.json.part" "$nsyswrap_run/status.json"
}}
nsyswrap_text() {{ printf %s "$1" | LC_ALL=C tr -cd '\\40-\\176' | cut -c 1-500 | sed 's/[\\\\"]/\\\\&/g'; }}
nsyswrap_check() {{  # what fails inside a sourced file or a function is theirs
  [ "$1" = 0 ] || [ "${{FUNCNAME[1]:-main}}" != main ] || {{ nsyswrap_failed=$2; exit "$1"; }}
}}
nsyswrap_failed=
trap 'nsyswrap_end $?' EXIT
trap 'nsyswrap_check $? "$BASH_COMMAND"' ERR
"""
_OTHER_WORK = ": the first word is the mark of the job"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def max_running(request: BatchRequest) -> int | None:
    """Return how many runs may run at a time: by the command line, else by the plan. None: no limit."""
    given: int | None = request.options["max_running"]
    return given or request.plan.max_running


def job_script(batch: Batch, plan: Plan, offset: int = 0, group: SubmissionGroup | None = None) -> str:
    """Return the text of the job script of a group; task i of the array is run number ``offset`` + i.

    At its end is an exec, so that Slurm's signal before the time limit reaches nsyswrap itself. A line of
    ``setup`` that fails ends the run as not started.
    """
    group = group or SubmissionGroup(plan.settings.get("slurm", {}))
    # The plan's options as they are, and ours for those that it does not set.
    by_long_name = {long_name(key): value for key, value in group.options.items()}
    limit_s = seconds(str(by_long_name.get("time", "")))
    # Slurm signals up to a minute early, and at once if less than the margin is left.
    margin_s = _MARGIN_S if limit_s is None else min(_MARGIN_S, limit_s // 2)
    ours: dict[str, Scalar] = {"job-name": batch.name, "open-mode": "append"}
    if _NO_REQUEUE not in group.options:
        ours["requeue"] = True
    ours["signal"] = f"B:TERM@{margin_s}"
    options = {**group.options, **{key: value for key, value in ours.items() if key not in by_long_name}}
    _, _, margin = str(options["signal"]).partition("@")
    lines = ["#!/bin/bash", *(f"#SBATCH {line}" for line in _directives(options))]
    lines += [
        f"export {MARGIN_VARIABLE}={int(margin) if margin.isdecimal() else _DEFAULT_MARGIN_S}",
        f"cd -- {shlex.quote(str(batch.folder.absolute() / RUNS))} || exit 73",
        f'nsyswrap_run=$(printf %0{NUMBER_WIDTH}d "$(({offset} + SLURM_ARRAY_TASK_ID))")',
        'set -- "$nsyswrap_run" "${nsyswrap_run%???}/$nsyswrap_run"  # of a large batch: by thousands',
        'set -- "$1"-* "$2"-* "$@"  # its label can have no letter',
        'until [ -d "$1" ] || [ $# = 1 ]; do shift; done',
        "nsyswrap_run=$PWD/$1",
        'cd -- "$OLDPWD"',
        *_enter(plan),
        *_GUARD.format(umask="027" if plan.share else "077").splitlines(),
        *([f"export {NAMED_PYTHON_VARIABLE}=1"] if plan.names_python else []),
        *_setup(plan.setup),
        *_start(plan, group),
    ]
    return "\n".join(lines) + "\n"


def collect_script(batch: Batch, plan: Plan) -> str:
    """Return the text of the script of the job that collects. It needs no GPU.

    Of the options of the plan it has those on where jobs may run, and for how long.
    """
    given = plan.settings.get("slurm", {})
    options: dict[str, Scalar] = {name: value for name, value in given.items() if name in _OF_ANY_JOB}
    options["job-name"] = f"{batch.name}-collect"
    start = shlex.join([*plan.wrapper, plan.python or sys.executable, "-m", "nsyswrap", "collect"])
    lines = ["#!/bin/bash", *(f"#SBATCH {line}" for line in _directives(options)), *_enter(plan), *plan.setup]
    lines += [
        f'[ $# -gt 1 ] || set -- "" {shlex.quote(str(batch.folder.absolute()))}',
        f"{_OTHER_WORK}; shift",
        f'exec {start} "$@" ${{SLURM_ARRAY_TASK_ID:+--jobs ${{SLURM_CPUS_ON_NODE:-1}} $SLURM_ARRAY_TASK_ID}}',
    ]
    return "\n".join(lines) + "\n"


def does_other_work(script: str) -> bool:
    """Return True if a script that collects does what stands behind its mark. Older versions' do not."""
    return _OTHER_WORK in script


def _enter(plan: Plan) -> list[str]:
    """Return the line that enters the folder of the plan, where ``setup`` and ``wrapper`` are at home.

    A node that lacks the folder says so in its log; the run then ends as not started.
    """
    return [f"cd -- {shlex.quote(plan.specs[0].cwd)} || true"] if plan.specs else []


def _setup(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of ``setup``. Bash's trap does not see a failure before the last &&."""
    for line in lines:
        yield line
        if "&&" in line and not line.rstrip().endswith(_OPEN_ENDS):
            yield f"nsyswrap_check $? {shlex.quote(line.strip())}"


def _start(plan: Plan, group: SubmissionGroup) -> list[str]:
    """Return the lines that start nsyswrap. With a launcher the wrapper is that of each rank."""
    start = [*plan.wrapper, plan.python or sys.executable]
    lines = ["trap - ERR", "nsyswrap_failed=nsyswrap", "shopt -s execfail"]
    if group.has_ranks and plan.wrapper:
        lines.append(f"export {START_VARIABLE}={shlex.quote(json.dumps(start))}")
        start = [sys.executable]
    return [*lines, f'exec {shlex.join([*start, "-m", "nsyswrap", "run-folder"])} "$nsyswrap_run"', "exit"]


def options_as_words(options: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield options of sbatch as words of a command line."""
    for name, value in options.items():
        if value is True:
            yield f"-{name}" if len(name) == 1 else f"--{name}"
        elif value is not False:
            yield f"-{name}{value}" if len(name) == 1 else f"--{name}={value}"


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
