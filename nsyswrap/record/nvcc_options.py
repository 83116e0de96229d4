"""The options of ``--nvcc``: those that cannot be used, and what nsyswrap adds to the others."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import UsageError

# Names of nvcc's options without dashes. The word after one that passes options on belongs to another tool.
_PASSES_ON = re.compile("X?(compiler|linker|ptxas|nvlink|archive)(-options)?")
_ARCHITECTURE = re.compile("arch|gpu-architecture|code|gpu-code|gencode|generate-code")
_OPTIMIZATION = re.compile(r"O\d?|optimize")
_FOR_DEBUGGER = re.compile("G|device-debug")
_MAKES_NO_PROGRAM = re.compile(
    r"""
    lib|shared|r|relocatable-link  # a library or an object
    |c|compile|dc|device-c|dw|device-w|dlink|device-link
    |E|preprocess|cuda|ptx|cubin|fatbin|optix-ir|ltoir|fdevice-syntax-only  # the result of an earlier stage
    |h|help|V|version|dryrun|clean|clean-targets|(arch|code)-ls|list-gpu-(arch|code)  # text
    |o|output-file|odir|output-directory  # a program that nsyswrap would not find
    |run|run-args  # a program that runs during the build
    |M[DFPT]?|MMD?|generate-(nonsystem-)?dependencies(-with-compile)?  # rules for make
    |dependency-output|generate-dependency-targets|dependency-target-name
    """,
    re.VERBOSE,
)


def split(options: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of ``options``; a text is split as a shell does.

    Raises UsageError for a quote that is not closed.
    """
    if not isinstance(options, str):
        return tuple(options)
    try:
        return tuple(shlex.split(options))
    except ValueError as error:
        raise UsageError(
            f"--nvcc {options!r} cannot be split into words: {error}",
            "for example --nvcc '-lcublas -I inc -std=c++20'",
        ) from None


def check(program: str, options: Sequence[str], *, module: bool = False) -> None:
    """Raise UsageError if ``program`` is not a .cu file, or if nvcc would make something else of it."""
    if module or not program.endswith(".cu"):
        raise UsageError(
            f"--nvcc needs a .cu file as PROGRAM, not {'-m ' if module else ''}{program}",
            "further sources are given to nvcc: --nvcc 'util.cu helper.cpp'",
        )
    if word := _first(_MAKES_NO_PROGRAM, options):
        raise UsageError(
            f"--nvcc: {word} cannot be used: nsyswrap builds a program and runs it",
            "give sources, libraries, paths, macros, and options for the generated code",
        )


def flags(options: Sequence[str]) -> tuple[str, ...]:
    """Return nsyswrap's own options: optimized code with line numbers, unless ``options`` say otherwise."""
    own = {"-O3": _OPTIMIZATION, "-lineinfo": _FOR_DEBUGGER}
    return tuple(flag for flag, instead in own.items() if not _first(instead, options))


def names_architecture(options: Sequence[str]) -> bool:
    """Return True if ``options`` say for which GPUs the code is."""
    return bool(_first(_ARCHITECTURE, options))


def for_gpus(capabilities: Sequence[str]) -> tuple[str, ...]:
    """Return the options for machine code of each compute capability (``9.0``), and PTX of the newest.

    The driver compiles PTX for later GPUs.
    """
    numbers = sorted({int(capability.replace(".", "")) for capability in capabilities})
    code = [f"arch=compute_{number},code=sm_{number}" for number in numbers]
    code.append(f"arch=compute_{numbers[-1]},code=compute_{numbers[-1]}")
    return tuple(word for one in code for word in ("-gencode", one))


def input_files(options: Sequence[str]) -> list[Path]:
    """Return the files that ``options`` name, and the static libraries of ``-L`` and ``-l``."""
    parts = [part for word in options for part in (word, *re.split("[=,]", word))]
    folders, libraries = _values(options, "-L", "--library-path"), _values(options, "-l", "--library")
    archives = [Path(folder) / f"lib{name}.a" for folder in folders for name in libraries]
    named = dict.fromkeys([*map(Path, parts), *archives])
    return [path for path in named if os.access(path, os.R_OK) and paths.is_file(path)]


def _first(names: re.Pattern[str], options: Sequence[str]) -> str:
    """Return the first option of nvcc itself with one of these names; empty without one."""
    words = iter(options)
    for word in words:
        name, equals, _ = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            continue
        if names.fullmatch(name):
            return word
        if _PASSES_ON.fullmatch(name) and not equals:
            next(words, None)
    return ""


def _values(options: Sequence[str], short: str, long: str) -> list[str]:
    """Return the values of an option: ``-Ldir``, ``-L dir``, ``-L=dir`` or ``--library-path=dir``."""
    values: list[str] = []
    words = iter(options)
    for word in words:
        if flag := next((flag for flag in (long, short) if word.startswith(flag)), ""):
            values += (word[len(flag) :].removeprefix("=") or next(words, "")).split(",")
    return values
