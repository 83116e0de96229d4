"""The command-line options for recording a program, shared by ``profile`` and ``batch sweep``.

Options of `nsys profile` are answered with what says the same here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import chain, pairwise
from typing import Any, TypeVar

import click

from nsyswrap.base.errors import CommandHint, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import OPTIONS, PROGRAM, RANGES, OptionSpec, RecordingOptions
from nsyswrap.cli.help import HelpCommand, around, completes, option
from nsyswrap.cli.options import COUNT, with_options

with lazy_imports():
    from nsyswrap.record import nvcc


_PROGRAMS = (".py", ".cu")
_STEPS, _ANY_STEPS = "--steps", "10-13"
_PYTHON = "--python"  # of other tools
_OF_NVCC = re.compile(r"-(O\d|[GglLID]|std=|arch=|use_fast_math|rdc=)")  # their value is in the same word
_GPUS = ("--gpu", "--gpus", "--device", "--devices")  # of other tools
_GPU = r"(?:\d+|(?:GPU|MIG)-[\w-]+)"
_METRICS = "--gpu-metrics"
_METRICS_VALUE = re.compile(r"all|cuda-visible|none|true|false|\d+(?:,\d+)*")  # of nsys' own option
_GPU_LIST = re.compile(rf"(?:cuda:)?({_GPU}(?:,{_GPU})*)")

Function = TypeVar("Function", bound=Callable[..., Any])
_TYPES: Mapping[str, click.IntRange | click.FloatRange] = {
    "count": COUNT,
    "seconds": click.FloatRange(min=0, min_open=True),
    "delay": click.FloatRange(min=0),
}
module_option = option(PROGRAM, "-m, --module", "Run PROGRAM as a module: python -m.")


def table_options(rows: Mapping[str, OptionSpec], defaults: object = None) -> Callable[[Function], Function]:
    """Return a decorator that adds options by the names of their values, which ``defaults`` can have."""
    return with_options(
        *(
            option(
                row.group,
                f"{row.flag} {row.metavar or ''}",
                row.help,
                name=name,
                choices=row.choices,
                type=_TYPES.get(row.values),
                is_flag=row.values == "flag",
                multiple=row.values == "texts",
                default=False if row.values == "flag" else getattr(defaults, name, None) or None,
                show_default=row.show_default,
                rare=row.rare,
                left_out=row.left_out,
                shell_complete=completes(partial(iter, row.completions)) if row.completions else None,
            )
            for name, row in rows.items()
        )
    )


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for recording a program. The command gets one ``recording`` of them, checked."""

    @wraps(command)
    def with_recording(**options: Any) -> None:
        typed = {name: options.pop(name) for name in OPTIONS}
        typed["env"] = variables(typed["env"])
        typed["nvcc"] = nvcc.split(typed["nvcc"]) if typed["nvcc"] else ()
        typed["stats"] = not typed["stats"]  # the flag is --no-stats
        command(recording=RecordingOptions(**typed), **options)

    return table_options(OPTIONS, RecordingOptions)(with_recording)


def variables(assignments: Iterable[str]) -> dict[str, str]:
    """Return the variables of ``--env K=V``. Raises UsageError if one is not of this form."""
    variables = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not name or not equals:
            raise UsageError(
                f"invalid --env {assignment!r}: expected K=V, for example CUDA_VISIBLE_DEVICES=0"
            )
        variables[name] = value
    return variables


class RecordingCommand(HelpCommand):
    """A command that records a program. Options of nsys get the command line that nsyswrap has for them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError for an option of nsys."""
        typed = tuple(args)
        self._check_steps(ctx.command_path, typed)
        self._check_metrics(ctx.command_path, typed)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            _check_value_is_no_program(typed)
            raise

    def refuse_option(self, path: str, other: str, typed: Sequence[str]) -> None:
        """Raise UsageError for an option of nsys, of nvcc, or of another tool."""
        if other == _PYTHON:
            meant = CommandHint.of([*path.split(), *self._with_python(typed)], "use {}")
            raise UsageError(f"no option named {_PYTHON!r}: name the Python before its script", meant)
        if other in _GPUS and not self.shares_gpus:
            raise UsageError(f"no option named {other!r}", _hint_on_gpus(path, other, typed))
        check_nvcc_quotes(path, typed, other)
        if for_nvcc := _words_for_nvcc(typed, other):
            raise UsageError(
                f"{for_nvcc[1]} is not an option of nsyswrap: --nvcc passes it to nvcc",
                CommandHint.of([*path.split(), *for_nvcc], "use {}"),
            )
        is_begun = any(flag.startswith(other) for one in self.params for flag in one.opts)
        if option_of_nsys(other) and not is_begun:
            advice = advice_for_nsys(self, path, typed)
            raise UsageError(f"{other} is an option of nsys, not of nsyswrap", advice)

    @property
    def shares_gpus(self) -> bool:
        """True if --gpus is an option of this command: it is the one that was meant."""
        return any("--gpus" in one.opts for one in self.params)

    def _check_steps(self, path: str, typed: Sequence[str]) -> None:
        """Raise UsageError if --steps has no value and so takes the next option or the program for it."""
        _, end = self.parted(typed)
        place = next((place for place, word in enumerate(typed[:end]) if word == _STEPS), end)
        value = "".join(typed[place + 1 : place + 2])
        is_program = value.endswith(_PROGRAMS) or (value and shutil.which(value))
        if place < end and (value.startswith("-") or is_program):
            meant = [*path.split(), *typed[: place + 1], _ANY_STEPS, *typed[place + 1 :]]
            raise UsageError(f"{_STEPS} needs the steps to record", CommandHint.of(meant, "use {}"))

    def _check_metrics(self, path: str, typed: Sequence[str]) -> None:
        """Raise UsageError if --gpu-metrics has a value, as the option of nsys does: it is a flag here."""
        _, end = self.parted(typed)
        apart = (
            "".join(typed[end : end + 1]) if typed[end - 1 : end] == (_METRICS,) and typed[end + 1 :] else ""
        )
        joined = next((word.partition("=")[2] for word in typed[:end] if word.startswith(f"{_METRICS}=")), "")
        value = joined or (apart if _METRICS_VALUE.fullmatch(apart) else "")
        if not value:
            return
        before, _, after = around(_METRICS, typed)
        ours = [] if value in ("none", "false") else [_METRICS]
        if value[0].isdecimal():
            ours = [f"--nsys-arg={_METRICS}-devices={value}"]
        meant = CommandHint.of([*path.split(), *before, *ours, *after], "use {}")
        raise UsageError(f"{_METRICS} takes no value: it samples all GPUs that the program sees", meant)

    def _with_python(self, typed: Sequence[str]) -> list[str]:
        before, value, after = around(_PYTHON, typed)
        rest = [*before, *after]
        python = os.path.expanduser(value or "python3")  # noqa: PTH111 - as a shell
        _, end = self.parted(rest)
        options, program = rest[:end], rest[end:]
        as_module = [word for word in options if word in ("-m", "--module")]
        options = [word for word in options if word not in as_module]
        separator = program[:1] if program[:1] == ["--"] else []
        return [*options, *separator, python, *(["-m"] if as_module else []), *program[len(separator) :]]


def _check_value_is_no_program(words: Sequence[str]) -> None:
    """Raise UsageError if an option without its value took the program for it. No other word is a program."""
    for flag, value in pairwise(words):
        if flag.startswith("-") and "=" not in flag and value.endswith(_PROGRAMS):
            raise UsageError(
                f"no program: {flag} took {value} for its value", f"put the value of {flag} before {value}"
            ) from None


def _hint_on_gpus(path: str, option: str, words: Sequence[str]) -> str:
    """Return how GPUs are chosen here, for an option of other tools: with the command if it names GPUs."""
    before, value, after = around(option, words)
    if gpus := _GPU_LIST.fullmatch(value):
        meant = [*path.split(), *before, "--env", f"CUDA_VISIBLE_DEVICES={gpus[1]}", *after]
        return CommandHint.of(meant, "use {}")
    return f"omit {option} for all GPUs, or use --env CUDA_VISIBLE_DEVICES=0 for one"


def check_nvcc_quotes(path: str, words: Sequence[str], unknown: str) -> None:
    """Raise UsageError if ``unknown``, which click does not know, is an option behind --nvcc."""
    if quoted := _quoted_for_nvcc(words, unknown):
        raise UsageError(
            f"no option named {unknown!r}: --nvcc takes one word", f"quote it: {path} {shlex.join(quoted)}"
        ) from None


def _quoted_for_nvcc(words: Sequence[str], unknown: str) -> list[str]:
    """Return the words with all options of nvcc as one, if ``unknown`` is one of them; else none."""
    apart = (word.split("=", 1) if word.startswith("--nvcc=") else [word] for word in words)
    words = list(chain.from_iterable(apart))
    start = words.index("--nvcc") + 1 if "--nvcc" in words else len(words)
    end = next((i for i, word in enumerate(words) if i >= start and word.endswith(".cu")), len(words))
    options = words[start : end - 1 if words[end - 1 : end] == ["--"] else end]
    is_of_nvcc = end < len(words) and any(word.startswith(unknown) for word in options[1:])
    return [*words[:start], " ".join(options), *words[start + len(options) :]] if is_of_nvcc else []


def _words_for_nvcc(words: Sequence[str], unknown: str) -> list[str]:
    """Return the words with ``--nvcc`` for an option of nvcc that is typed alone in front of a .cu file.

    There are none if ``unknown``, the part of the word that click names, belongs to no such option.
    """
    end = next((i for i, word in enumerate(words) if word.endswith(".cu")), 0)
    of_nvcc = [word for word in words[:end] if _OF_NVCC.match(word)]
    if "--nvcc" in words or not any(word.startswith(unknown) for word in of_nvcc):
        return []
    return ["--nvcc", " ".join(of_nvcc), *(word for word in words[:end] if word not in of_nvcc), *words[end:]]


def advice_for_nsys(command: click.Command, path: str, words: Sequence[str]) -> str:
    """Return the command line of ours that says the same as the words of `nsys profile`."""
    options = (one for one in command.params if isinstance(one, click.Option))
    own = {flag: not one.is_flag for one in options for flag in one.opts}
    ours = translate(words, own)
    advice = f"omit {', '.join(ours.defaults)} (default here):" if ours.defaults else "use"
    return f"{advice} {path} {shlex.join(ours.words) or 'PROGRAM'}"


def _refuse_code(context: click.Context, _option: click.Parameter, code: str | None) -> None:
    if code is not None and not context.resilient_parsing:
        if code in _RANGES:
            raise UsageError("-c is an option of nsys, not of nsyswrap", f"use --capture-range {code}")
        raise UsageError(
            f"{context.command_path} takes a program, not the code of -c",
            f"{context.command_path} -- python3 -c {shlex.quote(code)}",
        )


# As in `python -c`: it names the way that works.
code_option = click.option(
    "-c", "code", hidden=True, is_eager=True, expose_value=False, callback=_refuse_code
)

_SHORT = {
    "b": "backtrace",
    "c": "capture-range",
    "d": "duration",
    "e": "env-var",
    "f": "force-overwrite",
    "n": "inherit-environment",
    "o": "output",
    "p": "nvtx-capture",
    "s": "sample",
    "t": "trace",
    "w": "show-output",
    "x": "stop-on-exit",
    "Y": "start-later",
    "y": "delay",
}
_RANGES = (*RANGES, "nvtx")  # values of --capture-range
# Options whose value is the default here, and that value.
_DEFAULTS = {
    "auto-report-name": ("true", "false"),
    "cpuctxsw": ("none",),
    "cuda-um-cpu-page-faults": ("false",),
    "cuda-um-gpu-page-faults": ("false",),
    "discard-environment": ("true",),
    "export": ("sqlite", "none"),
    "force-overwrite": ("false",),
    "gpu-metrics-device": ("none",),
    "gpu-metrics-devices": ("none",),
    "inherit-environment": ("true",),
    "python-backtrace": ("none",),
    "sample": ("none",),
    "show-output": ("true",),
    "stats": ("true",),
    "stop-on-exit": ("true",),
    "trace-fork-before-exec": ("false",),
}
# Those that have an option of ours, by their value. {} is the value.
_OURS = {
    **{
        name: row.flag if row.values == "flag" else f"{row.flag} {{}}"
        for row in OPTIONS.values()
        for name in row.nsys
    },
    "force-overwrite": "--force",
    "nvtx-capture": "--capture-range nvtx:{}",
    "output": "-o {}",
}
# The only values of some that an option of ours has.
_OUR_VALUES = {
    **dict.fromkeys(("gpu-metrics-device", "gpu-metrics-devices"), ("all", "cuda-visible")),
    "python-backtrace": ("cuda",),
}
# Beginnings of all others, over all versions of nsys.
_OTHERS = (
    *("backtrace", "capture-range-end", "clock-frequency", "command-file", "cpu-", "cuda-", "cudabacktrace"),
    *("dask", "duration-frames", "dx", "el1-sampling", "enable", "etw", "event-sampl", "flush-on", "ftrace"),
    *("gpu-", "gpuctxsw", "hotkey-capture", "ib-", "injection-", "isr", "jax", "kill", "mpi-impl", "nic-"),
    *("nvtx-domain", "opengl-", "os-events", "osrt-", "process-scope", "python-", "pytorch", "qnx"),
    *("resolve-", "retain-etw", "run-as", "sampl", "session-new", "soc-", "start-", "storage-", "syscall"),
    *("ucx", "vsync", "vulkan-", "wait", "wddm", "xhv"),
)
_FLAGS = ("true", "false")


@dataclass
class Translation:
    """Words for nsyswrap in place of words for nsys. ``defaults``: options that say what is the default."""

    words: list[str] = field(default_factory=list)
    defaults: list[str] = field(default_factory=list)

    def add(self, option: str, value: str) -> None:
        """Add an option of nsys, without its hyphens."""
        words = f"--{option}={value}"
        if value in _DEFAULTS.get(option, ()):
            self.defaults.append(words)
        elif option == "env-var":
            self.words += [word for part in value.split(",") for word in ("--env", part)]
        elif value not in _OUR_VALUES.get(option, (value,)):
            self.words.append(f"--nsys-arg={words}")
        elif option in _OURS and not (option == "cuda-graph-trace" and ":" in value):
            ours = [word.format(value) for word in _OURS[option].split()]
            self.words += [] if ours == ["--um-faults"] and "--um-faults" in self.words else ours
        else:
            self.words.append(f"--nsys-arg={words}")


def option_of_nsys(word: str) -> str:
    """Return the long name of an option of `nsys profile` without its hyphens; empty if it is none."""
    if not word.startswith("--"):
        return _SHORT.get(word[1:2], "") if word.startswith("-") else ""
    name = word[2:].partition("=")[0]
    is_known = name in (*_SHORT.values(), *_DEFAULTS, *_OURS) or name.startswith(_OTHERS)
    return name if is_known else ""


def translate(words: Sequence[str], options: Mapping[str, bool]) -> Translation:
    """Return what says the same to nsyswrap as a command line that has options of nsys.

    ``options`` has those of the command, and whether they take a value. The words from the program on stay
    as they are.
    """
    done, rest = Translation(), [*words]
    names_range = any(option_of_nsys(word) == "nvtx-capture" for word in words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        flag, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        option = option_of_nsys(word)
        if not option or (flag in options and f"--{option}" not in options):
            done.words.append(word)
            if options.get(flag) and not equals and rest:
                done.words.append(rest.pop(0))
            continue
        is_flag = {*_DEFAULTS.get(option, ())} & {*_FLAGS}
        if not equals and rest and (not is_flag or rest[0] in _FLAGS):
            value = rest.pop(0)
        if not (names_range and (option, value) == ("capture-range", "nvtx")):
            done.add(option, value or ("true" if is_flag else "VALUE"))
    done.words += rest
    return done
