"""What the scripts in scenarios/ share: their command line, their build, and the line of JSON they end with.

A script keeps ``VARIANTS``, ``NEEDS`` and the like as literals (see ``nsyswrap.record.scenarios``), says in
``build`` what is compiled before anything is measured, in ``measure`` what is run, and ends in ``main``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypedDict

from nsyswrap.base.errors import NsyswrapError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

VARIANT_OPTION = "--variant"
CLOCK_OPTION = "--clock"

Counts: TypeAlias = "Mapping[str, tuple[int, int, str]]"
"""Option name -> (least, default, meaning): whole numbers of a script's command line."""


class Timing(TypedDict):
    """One operation's samples and their summary, in microseconds.

    ``range`` is the NVTX range around each sample; ``launches`` how often the operation was run in all, the
    warm-up too.
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


def make_parser(  # noqa: PLR0913 - what a script can say of itself
    doc: str | None,
    variants: Sequence[str],
    *,
    option: str = VARIANT_OPTION,
    only: str | None = None,
    counts: Counts | None = None,
    builds: bool = True,
) -> argparse.ArgumentParser:
    """Return the parser of a script: its variants, its counts, its build.

    ``options.variants`` lists those asked for, None for all in turn. A script that runs one at a time names
    its default in ``only``, and finds it in ``options.variant``.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if only:
        parser.add_argument(
            option, dest="variant", choices=variants, default=only, help="(default: %(default)s)"
        )
    else:
        parser.add_argument(
            option,
            dest="variants",
            choices=variants,
            action="append",
            help="may be repeated (default: all in turn)",
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
        parser.add_argument("--build", action="store_true", help="build only, and print what was built")
        parser.add_argument("--built", metavar="PATH", help="run what --build printed: build nothing")
    return parser


def whole_number(least: int) -> Callable[[str], int]:
    """Return an argument type: an integer of at least ``least``."""

    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    parse.__name__ = "whole number"  # argparse names it: "invalid whole number value"
    return parse


def chosen(options: argparse.Namespace, variants: Sequence[str]) -> tuple[str, ...]:
    """Return the variants asked for, each once and in the order given; all if none was."""
    return tuple(dict.fromkeys(options.variants or variants))


def counted(options: argparse.Namespace, counts: Counts) -> dict[str, int]:
    """Return the counts as they were set, by name."""
    return {name: getattr(options, name) for name in counts}


def main(
    name: str,
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace], Mapping[str, Any]],
    build: Callable[[argparse.Namespace], str] | None = None,
) -> int:
    """Build if asked to or needed, measure, print the result as one line of JSON; return the exit code.

    ``build`` returns what ``measure`` finds in ``options.built``. What is missing, a wrong result
    (AssertionError) and an error of PyTorch's (RuntimeError) are one message on stderr.
    """
    try:
        if build and not options.built:
            options.built = build(options)
            if options.build:
                print(options.built)
                return 0
        result = {"scenario": name, **measure(options)}
    except NsyswrapError as error:
        print(f"{name}:", "; ".join(filter(None, (str(error), error.hint))), file=sys.stderr)
        return error.exit_code
    except AssertionError as error:
        print(f"{name}: the result is wrong: {error}", file=sys.stderr)
        return 1
    except RuntimeError as error:  # PyTorch's, as when the memory does not suffice
        print(f"{name}: {str(error).partition(chr(10))[0]}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


def become(
    program: str, variants: Sequence[str], counts: Mapping[str, int], launcher: Sequence[str] = ()
) -> NoReturn:
    """Replace this process with a compiled program: under nsys the CUDA process is then this one.

    Its command line is ``LAUNCHER... PROGRAM VARIANT... --NAME COUNT...``; a launcher, such as mpirun, is
    looked for on PATH, and starts the program as often as it likes.

    Raises Unavailable where that cannot be executed.
    """
    flags = [part for name, count in counts.items() for part in (f"--{name}", str(count))]
    argv = [*launcher, program, *variants, *flags]
    try:
        (os.execvp if launcher else os.execv)(argv[0], argv)
    except OSError as error:
        hint = f"install {argv[0]}" if launcher else "leave --built out, to build it"
        raise Unavailable(f"{argv[0]} cannot be executed: {error.strerror}", hint) from None


def platform(torch: ModuleType) -> dict[str, str]:
    """Return what a result was measured on: GPU, PyTorch, and the CUDA it was built for."""
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }


def under_nsys() -> bool:
    """Whether nsys records this process: two users of CUPTI in one process do not go together."""
    return any(name in os.environ for name in ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"))


def summarise(variant: str, operator: str, samples_s: Sequence[float], *, span: str, launches: int) -> Timing:
    """Return the samples, given in seconds, and their summary in microseconds; ``span``: their NVTX range."""
    # Rounded to a nanosecond: the clocks resolve no more.
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
