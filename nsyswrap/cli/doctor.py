"""``nsyswrap doctor``: check that this machine can record, or that a capture can be analyzed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from nsyswrap.base.check import Check, Level
from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import printable
from nsyswrap.base.version import version
from nsyswrap.cli.help import HelpCommand, option
from nsyswrap.cli.output import print_data, say, step, wrapped

with lazy_imports():
    from nsyswrap.api import probe as trial
    from nsyswrap.record import doctor
    from nsyswrap.record import peaks as measured
    from nsyswrap.reports import brief
    from nsyswrap.reports.wording import checks

FORMAT, VERSION = "nsyswrap-doctor", 1
_FORMATS = ("text", "json", "brief")
_LEVELS: dict[Level, str] = {
    "ok": "ok",
    "note": "note",
    "info": "note",
    "problem": "problem",
    "unknown": "not checked",
}
_LEVEL_WIDTH = max(map(len, _LEVELS.values()))


@click.command(cls=HelpCommand, examples=("nsyswrap doctor --probe", "nsyswrap doctor run1"))
@click.argument("capture", required=False, type=click.Path(readable=False, path_type=Path))
@option("Checks", "--probe", "Also record two seconds of GPU work and read it back.")
@option("Checks", "--peaks", "With --probe, also measure and keep the GPU's peaks.")
@option("Output", "--json", "Print JSON: docs/doctor.schema.json.", name="as_json")
@option(
    "Output",
    "--format FORMAT",
    "Print text, json, or brief: what is not ok, in 4 kB.",
    name="form",
    choices=_FORMATS,
)
@option("Output", "--skill", "Print the skill file for coding agents, and check nothing.")
def command(
    capture: Path | None, *, probe: bool, peaks: bool, as_json: bool, form: str | None, skill: bool
) -> None:
    """Check that this machine can record, or that a CAPTURE can be analyzed.

    Each line is a check: ok, a note, a problem, or not checked. A note is good to know. Below a
    problem is what to do next, mostly a command; doctor changes nothing itself. The exit code is 1 if
    there are problems. With a CAPTURE or a run folder, only that is checked.
    """
    if skill:
        print_data(Path(__file__).with_name("skill.md").read_text(encoding="utf-8"))
        return
    if capture and probe:
        raise UsageError("--probe cannot be used with a capture", "omit one of them")
    if peaks and not probe:
        raise UsageError("--peaks needs --probe", "nsyswrap doctor --probe --peaks")
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json cannot be used with --format {form}", "omit one of them")
    groups = _of_capture(capture) if capture else _of_machine(probe=probe, peaks=peaks)
    problems = [check for checks in groups.values() for check in checks if check.level == "problem"]
    if form == "brief":
        print_data(f"{brief.as_text(brief.brief_of_checks(as_dict(groups)))}\n")
    elif as_json or form == "json":
        print_data(f"{json.dumps(as_dict(groups), indent=1)}\n")
    else:
        say("\n".join(screen(groups)))
    sys.exit(1 if problems else 0)


def _of_machine(*, probe: bool, peaks: bool) -> dict[str, list[Check]]:
    with step("checking this machine …"):
        groups = doctor.check_machine()
    if probe:
        with step("recording two seconds …"):
            groups["probe"] = list(trial.probe())
    if peaks:
        with step("measuring the GPU …"):
            groups["probe"] += measured.measure()
    return groups


def _of_capture(path: Path) -> dict[str, list[Check]]:
    with step(f"checking {path} …"):
        return {"capture": checks.examined(path)}


def as_dict(groups: dict[str, list[Check]]) -> dict[str, Any]:
    """Return all checks as plain data, which docs/doctor.schema.json describes."""
    fields = ("subject", "text", "cure")
    checks = [
        {
            "group": group,
            "level": "note" if check.level == "info" else check.level,
            **{name: getattr(check, name) for name in fields},
        }
        for group, checks in groups.items()
        for check in checks
    ]
    problems = sum(check["level"] == "problem" for check in checks)
    tool = {"name": "nsyswrap", "version": version()}
    return {"format": FORMAT, "version": VERSION, "problems": problems, "checks": checks, "tool": tool}


def screen(groups: dict[str, list[Check]]) -> Iterator[str]:
    """Yield the lines of all checks, and the conclusion at the end."""
    width = max(len(check.subject) for checks in groups.values() for check in checks)
    for group, checks in groups.items():
        yield group
        for check in checks:
            yield from _lines(check, width)
        yield ""
    problems = [check.subject for checks in groups.values() for check in checks if check.level == "problem"]
    if not problems:
        yield _soundness(groups)
    else:
        noun = "problem" if len(problems) == 1 else "problems"
        yield from wrapped(f"{len(problems)} {noun}: {', '.join(dict.fromkeys(problems))}.")
        if "GPU" in problems:
            yield from wrapped(
                "Without a GPU, recordings of other machines can be read: try `nsyswrap demo`."
            )


def _soundness(groups: dict[str, list[Check]]) -> str:
    """Return the conclusion without problems: only a recording shows that a machine can record."""
    if "capture" in groups:
        return "Ready to analyze."
    if "probe" not in groups:
        return "No problem found; `nsyswrap doctor --probe` tries a recording."
    untried = any(check.level != "ok" for check in groups["probe"] if check.subject != measured.SUBJECT)
    return "No problem found." if untried else "Ready to record."


def _lines(check: Check, width: int) -> Iterator[str]:
    level = f"  {_LEVELS[check.level]:{_LEVEL_WIDTH}}  "
    text = f"{level}{check.subject:{width}}  {check.text}"
    yield from wrapped(text, len(level), whole_words=True)
    if check.cure:
        # What to do next. A command can be typed line by line: a shell reads on after ``&&``.
        first, *rest = printable(check.cure).replace(" && ", " &&\n").splitlines()
        yield f"    next: {first}"
        yield from (f"          {line}" for line in rest)
