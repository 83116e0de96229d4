"""``nsyswrap compare --gate``: its limits from options and the project's settings, and how it ends in CI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.base import settings
from nsyswrap.base.errors import CaptureError, NsyswrapError, UnreadCapture, UsageError
from nsyswrap.base.files import brief
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import printable, unknown
from nsyswrap.cli.help import completes, option
from nsyswrap.cli.options import with_options
from nsyswrap.cli.output import note, on_github

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison

with lazy_imports():
    from nsyswrap.analysis.compare import gate as gates
    from nsyswrap.base import units
    from nsyswrap.render.formats import markdown as markdown_format
    from nsyswrap.reports.compare import gate_lines

GATE = "Gate"  # a heading of the help
_ONE_OF_METRICS = "total, step, launch_overhead or kernels"
SLOWER, CANNOT_TELL = 1, 3  # exit codes
METRICS = ("total", "step", "launch_overhead", "kernels")
_INTERVALS = "(means of all of a run; the bounds hold for 99 % of all rows of the gate together)"
_LEVELS = {"passed": "notice", "slower": "error", "cannot tell": "warning"}


def _percent(value: object) -> float:
    expected = "a percentage, for example 5%"
    try:
        return units.parse_share(_texts(value, expected)[0])
    except ValueError:
        raise ValueError(expected) from None


def _time_ns(value: object) -> float:
    expected = "a time with its unit, for example 10us or 0.1ms"
    try:
        return units.parse_ns(_texts(value, expected)[0])
    except ValueError:
        raise ValueError(expected) from None


def _metrics(value: object) -> tuple[str, ...]:
    names = _texts(value, _ONE_OF_METRICS)
    if not set(names) <= set(METRICS):
        raise ValueError(_ONE_OF_METRICS)
    return names


def _texts(value: object, expected: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if (
        not isinstance(values, (list, tuple))
        or not values
        or not all(isinstance(one, str) and one for one in values)
    ):
        raise ValueError(expected)
    return tuple(values)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004 - a wrong value of a file
    return value


# Key in [tool.nsyswrap.gate], which is the option without dashes -> field of GateLimits and how it is read.
_KEYS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "max-slower": ("max_slower", _percent),
    "min-time": ("min_time_ns", _time_ns),
    "kernel": ("kernels", partial(_texts, expected="names or patterns of kernels, for example '*gemm*'")),
    "metric": ("metrics", _metrics),
    "strict": ("is_strict", _flag),
}

gate_options = with_options(
    option(GATE, "--gate", "Exit with 1 if NEW is slower."),
    option(
        GATE,
        "--metric NAME",
        "Check total, step, launch_overhead or kernels.",
        name="metrics",
        multiple=True,
        shell_complete=completes(lambda: METRICS),
    ),
    option(GATE, "--kernel GLOB", "Check these kernels; repeatable.", name="kernels", multiple=True),
    option(GATE, "--strict", "Exit with 3 if NEW is not judged."),
)


def gate_limits(options: Mapping[str, Any]) -> gates.GateLimits | None:
    """Return the limits of a gate; None without --gate.

    ``options`` are those of ``gate_options``, max_slower and min_time by their names; None and empty are not
    given. An option outranks ``[tool.nsyswrap.gate]``. Raises UsageError for a wrong value, and for an option
    of the gate without --gate.
    """
    names = {"max-slower": "max_slower", "min-time": "min_time", "kernel": "kernels", "metric": "metrics"}
    given = {key: options[names.get(key, key)] for key in _KEYS}
    given = {key: value for key, value in given.items() if value}
    if not options["gate"]:
        if own := [key for key in ("kernel", "metric", "strict") if key in given]:
            raise UsageError(f"--{own[0]} belongs to --gate", "add --gate")
        return None
    table, file = settings.gate_of_project()
    fields = {_KEYS[key][0]: _read(key, value, f"{file}: ", "") for key, value in _known(table, file).items()}
    if "kernel" in given and "metric" not in given:
        fields.pop("metrics", None)  # of the project: the kernels of the option are what is asked for
    fields |= {_KEYS[key][0]: _read(key, value, "", "--") for key, value in given.items()}
    return gates.GateLimits(**fields)


def _known(table: Mapping[str, object], file: str) -> Mapping[str, object]:
    for key in table:
        if key not in _KEYS:
            message, hint = unknown("key of the gate", key, _KEYS)
            raise UsageError(f"{file}: {message}", hint)
    return table


def _read(key: str, value: object, prefix: str, dashes: str) -> Any:  # noqa: ANN401 - by its key
    try:
        return _KEYS[key][1](value)
    except ValueError as error:
        wrong = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        raise UsageError(f"{prefix}invalid {dashes}{key} {brief(wrong)}: expected {error}") from None


def check_gate(comparison: Comparison, limits: gates.GateLimits, *, anyway: bool = False) -> gates.GateResult:
    """Return what the gate concludes from a comparison.

    Raises CaptureError for sides that cannot be compared and for a pattern without a kernel.
    """
    if serious := [one.about for one in comparison.obstacles if not (anyway and one.is_deliberate)]:
        raise CaptureError(f"gate: cannot compare: {', '.join(serious)}", "see the figures: omit --gate")
    result = gates.gate(comparison, limits)
    if missing := gates.unmatched(result, limits):
        raise CaptureError(
            f"gate: no kernel matches {', '.join(map(repr, missing))}", "see the names: nsyswrap report"
        )
    return result


def finish(
    result: gates.GateResult,
    limits: gates.GateLimits,
    markdown: Callable[[], str],
    left_out: Sequence[UnreadCapture] = (),
) -> int:
    """Print what the gate concluded, tell GitHub where it runs there, and return the exit code.

    ``markdown`` returns the comparison for the summary of the job. ``left_out`` are runs that it lacks.
    """
    verdict, sentence = result.verdict, gate_lines.conclusion(result, limits)
    lacking = [printable(f"left out: {run.named}") for run in left_out]
    rows, remarks = gate_lines.row_lines(result), [*lacking, *gate_lines.remark_lines(result)]
    if on_github():
        for line in rows if result.failed else []:
            note(annotation("error", line), is_command=True)
        note(annotation(_LEVELS[verdict], "; ".join([sentence, *remarks])), is_command=True)
        _append_summary(f"**Gate: {markdown_format.escaped(sentence)}**\n\n{markdown()}\n")
    intervals = [_INTERVALS] if rows else []
    note("\n  ".join([f"nsyswrap: gate: {sentence}", *rows, *intervals, *remarks]))
    if verdict == "cannot tell":
        return CANNOT_TELL if limits.is_strict else 0
    return SLOWER if verdict == "slower" else 0


@contextmanager
def errors_annotated() -> Iterator[None]:
    """Tell GitHub of an error in the block, too."""
    try:
        yield
    except NsyswrapError as error:
        if on_github():
            note(annotation("error", error.message), is_command=True)
        raise


def annotation(level: str, message: str, title: str = "nsyswrap gate") -> str:
    """Return a workflow command of GitHub, which shows a message beside the run."""
    return f"::{level} title={_escaped(title, ':,')}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":  # the percent sign first
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _append_summary(text: str) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        note(f"nsyswrap: the summary of the job was not written: {error.strerror}")
