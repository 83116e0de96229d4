"""The frame of the scripts in scenarios/: their command line, their build, and their line of JSON.

A script has ``VARIANTS``, ``NEEDS`` and more as literals (see ``nsyswrap.record.scenarios``). Its function
``build`` compiles what it needs, before anything is measured. Its function ``measure`` runs and times the
variants. The script ends with a call of ``main``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeAlias, TypedDict

from nsyswrap.base.errors import NsyswrapError, Unavailable
from nsyswrap.base.text import printable

VARIANT_OPTION = "--variant"
CLOCK_OPTION = "--clock"
KEEP_OPTION = "--keep"

Counts: TypeAlias = "Mapping[str, tuple[int, int, str]]"
"""Option name -> (minimum, default, help): integer options of a script."""


class Timing(TypedDict):
    """The samples of one operation and their summary, in microseconds.

    ``range`` is the NVTX range around each sample. ``launches`` counts all runs of the operation, including
    the warm-up.
    """

    variant: str
    operator: str
    range: str
    launches: int
    median_us: float
    mean_us: float
    min_us: float
    max_us: float
    samples_us: list[float]


class _Parser(argparse.ArgumentParser):
    """A parser whose errors repeat a wrong argument without its control characters."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def make_parser(  # noqa: PLR0913 - the properties of a script
    doc: str | None,
    variants: Sequence[str],
    *,
    option: str = VARIANT_OPTION,
    only: str | None = None,
    counts: Counts | None = None,
    builds: bool = True,
) -> argparse.ArgumentParser:
    """Return the parser of a script, with options for its variants, its counts and its build.

    ``options.variants`` lists the requested variants, None for all. A script that runs one variant at a time
    gives its default as ``only``; ``options.variant`` is then the requested one.
    """
    parser = _Parser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if only:
        parser.add_argument(
            option,
            dest="variant",
            choices=variants,
            default=only,
            help="variant to run (default: %(default)s)",
        )
    else:
        parser.add_argument(
            option,
            dest="variants",
            choices=variants,
            action="append",
            help="variant to run; repeatable (default: all)",
        )
    for name, (least, default, meaning) in (counts or {}).items():
        parser.add_argument(
            f"--{name}",
            type=whole_number(least),
            default=default,
            metavar="COUNT",
            help=f"{meaning} (default: %(default)s)",
        )
    if builds:
        parser.add_argument(
            "--build", action="store_true", help="build only, and print the path of the result"
        )
        parser.add_argument("--built", metavar="PATH", help="run this result of --build; build nothing")
    return parser


def add_keep_option(parser: argparse.ArgumentParser) -> None:
    """Add --keep, which ``nsyswrap scenarios run`` sets to a folder in the run folder."""
    parser.add_argument(KEEP_OPTION, type=Path, metavar="FOLDER", help="write files into this folder")


def keep_text(folder: Path | None, name: str, text: str) -> None:
    """Write a file into the folder of --keep, if there is one."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def whole_number(least: int) -> Callable[[str], int]:
    """Return an argparse type for an integer of at least ``least``."""

    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    parse.__name__ = "whole number"  # for argparse's message: "invalid whole number value"
    return parse


def chosen(options: argparse.Namespace, variants: Sequence[str]) -> tuple[str, ...]:
    """Return the requested variants without repetitions, in their order; all if none was requested."""
    return tuple(dict.fromkeys(options.variants or variants))


def counted(options: argparse.Namespace, counts: Counts) -> dict[str, int]:
    """Return the values of the counts by option name."""
    return {name: getattr(options, name) for name in counts}


def main(
    name: str,
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace], Mapping[str, Any]],
    build: Callable[[argparse.Namespace], str] | None = None,
) -> int:
    """Build if needed, measure, and print the result as one line of JSON; return the exit code.

    With --build it only builds. ``measure`` gets the return value of ``build`` as ``options.built``. A
    NsyswrapError, a wrong result (AssertionError) and an error of PyTorch (RuntimeError) are printed as one
    message on stderr.
    """
    try:
        if build and not options.built:
            options.built = build(options)
            if options.build:
                print(options.built)
                return 0
        result = {"scenario": name, **measure(options)}
    except NsyswrapError as error:
        _note(f"{name}: {'; '.join(filter(None, (error.message, error.hint)))}")
        return error.exit_code
    except AssertionError as error:
        _note(f"{name}: the result is wrong: {error}")
        return 1
    except RuntimeError as error:  # from PyTorch, as when memory is short
        _note(f"{name}: {str(error).partition(chr(10))[0]}")
        return 1
    print(json.dumps(result))
    return 0


def _note(message: str) -> None:
    print(printable(message, "\n"), file=sys.stderr)


def become(
    program: str, variants: Sequence[str], counts: Mapping[str, int], launcher: Sequence[str] = ()
) -> NoReturn:
    """Replace this process with a compiled program, so that under nsys this is the CUDA process.

    The command line is ``LAUNCHER... PROGRAM VARIANT... --NAME COUNT...``. A launcher such as mpirun is
    searched on PATH and may start the program several times. Raises Unavailable if it cannot be executed.
    """
    flags = [part for name, count in counts.items() for part in (f"--{name}", str(count))]
    argv = [*launcher, program, *variants, *flags]
    try:
        (os.execvp if launcher else os.execv)(argv[0], argv)
    except OSError as error:
        hint = f"install {argv[0]}" if launcher else "omit --built to build it"
        raise Unavailable(f"{argv[0]} cannot be executed: {error.strerror}", hint) from None


def platform(torch: ModuleType) -> dict[str, str]:
    """Return the names of the GPU, the PyTorch version and its CUDA version, for a result."""
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}


def under_nsys() -> bool:
    """Return True if nsys records this process. A process can have one user of CUPTI only."""
    return any(name in os.environ for name in ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"))


def summarize(variant: str, operator: str, samples_s: Sequence[float], *, span: str, launches: int) -> Timing:
    """Return the samples, given in seconds, and their summary in microseconds. ``span``: their NVTX range."""
    # Rounded to 1 ns, the resolution of the clocks.
    samples_us = [round(1e6 * sample, 3) for sample in samples_s]
    return {
        "variant": variant,
        "operator": operator,
        "range": span,
        "launches": launches,
        "median_us": round(statistics.median(samples_us), 3),
        "mean_us": round(statistics.fmean(samples_us), 3),
        "min_us": min(samples_us),
        "max_us": max(samples_us),
        "samples_us": samples_us,
    }
