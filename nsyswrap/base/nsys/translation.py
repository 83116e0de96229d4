"""The options of `nsys profile`, and what says the same to `nsyswrap profile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nsyswrap.base.nsys.options import OPTIONS, RANGES

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
    "inherit-environment": ("true",),
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
# Beginnings of all others, over all versions of nsys.
_OTHERS = (
    *("backtrace", "capture-range-end", "clock-frequency", "command-file", "cpu-", "cuda-", "cudabacktrace"),
    *("dask", "duration-frames", "dx", "el1-sampling", "enable", "etw", "event-sampl", "flush-on", "ftrace"),
    *("gpu-", "gpuctxsw", "hotkey-capture", "ib-", "injection-", "isr", "jax", "kill", "mpi-impl", "nic-"),
    *(
        "nvtx-domain",
        "opengl-",
        "os-events",
        "osrt-",
        "process-scope",
        "python-",
        "pytorch",
        "qnx",
        "resolve-",
    ),
    *("retain-etw", "run-as", "sampl", "session-new", "soc-", "start-", "storage-", "syscall", "ucx"),
    *("vsync", "vulkan-", "wait", "wddm", "xhv"),
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


def is_range(value: str) -> bool:
    """Return True if nsys takes this value of its option -c."""
    return value in _RANGES


def translate(words: Sequence[str], options: Mapping[str, bool]) -> Translation:
    """Return what says the same to nsyswrap as a command line that has options of nsys.

    ``options`` has those of the command, and whether they take a value. The words from the program on stay
    as they are.
    """
    done, rest = Translation(), [*words]
    names_range = any(map(_names_range, words))
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


def _names_range(word: str) -> bool:
    return option_of_nsys(word) == "nvtx-capture"
