"""``nsyswrap demo``: run two scenarios here, or show the captures recorded on a GPU."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.recent_runs import short_path
from nsyswrap.base.run_folder import default_output
from nsyswrap.base.text import ascii_layout
from nsyswrap.cli.help import HelpCommand
from nsyswrap.cli.options import output_option
from nsyswrap.cli.output import note, report_command, say, tables_text, terminal_layout

if TYPE_CHECKING:
    from nsyswrap.render.formats import Layout

with lazy_imports():
    from nsyswrap.base.nsys import find
    from nsyswrap.capture import capture
    from nsyswrap.cli import scenarios as scenario_runs
    from nsyswrap.record import scenarios
    from nsyswrap.render import summary_screen
    from nsyswrap.render.formats import text
    from nsyswrap.reports import answer as answers
    from nsyswrap.reports import summary

RECORDED = Path(__file__).parent.parent / "recorded"  # run folders of the scenarios, redacted
# scenario -> the variant whose answer is shown, and the closing table that supports it
SCENARIOS = {"add": ("grid", "gpu_by_variant"), "add2": ("none", "audit_by_variant")}
_WIDTH = 80  # as README shows it
_NEXT = ("report {folder}", "report {folder} --advice", "view {folder}")


@click.command(cls=HelpCommand, examples=("nsyswrap demo",))
@output_option("Write the run folders into this folder.")
def command(output: Path | None) -> None:
    """Run two small experiments and show the answer for each.

    The scenarios `add` and `add2` are run, and the answer for each is shown. Without a GPU or without
    nsys, captures recorded on a real GPU are shown instead.
    """
    lacks = _lacks()
    if lacks:
        say("Recorded on an NVIDIA H200, not run on this machine.")
        note(f"nsyswrap: cannot run it here: {'; '.join(lacks)}")
        base = RECORDED
    else:
        say("Run on this machine.")
        base = output or default_output("demo")
        for name in SCENARIOS:
            scenario = scenarios.find_scenario(name)
            scenario_runs.run_variants(scenario, scenario.variants, base / name)
    layout = terminal_layout()._replace(width=min(_WIDTH, terminal_layout().width))
    for name, (variant, table) in SCENARIOS.items():
        say(_variant_text(name, base / name, variant, table, layout), styled=True)
    say("".join(_next_lines(base / name / variant)))


def _lacks() -> list[str]:
    lacks = [lack for name in SCENARIOS for lack in scenarios.find_scenario(name).lacks]
    try:
        find.find_nsys()
    except Unavailable as error:
        lacks.append(error.message)
    return list(dict.fromkeys(lacks))


def _variant_text(name: str, folder: Path, variant: str, table: str, layout: Layout) -> str:
    """Return the answer for one variant, and the table over all variants that supports it."""
    scenario = scenarios.find_scenario(name)
    with ascii_layout(active=layout.ascii):
        recorded = capture.open_capture(folder / variant).decided()
        _, lines = summary.answer_with_lines(recorded)
        # Commands follow at the end.
        answer = [line for line in lines if line.kind != "note" and line.typed != "--ncu"]
        texts = list(
            summary_screen.answer_texts(
                answers.with_command(answer, report_command(recorded.source)), layout.width
            )
        )
    tables = scenario_runs.closing_tables(scenario, {one: folder / one for one in scenario.variants})
    kept = [one for one in tables if one.schema.name == table]
    return (
        f"\n== Scenario {name}, variant '{variant}'\n"
        f"{text.styled(texts, color=layout.color)}\n"
        f"{tables_text(kept, layout)}"
    )


def _next_lines(folder: Path) -> Iterable[str]:
    path = short_path(folder, Path.cwd())
    yield "\nNext:\n"
    for arguments in _NEXT:
        yield f"  nsyswrap {arguments.format(folder=shlex.quote(str(path)))}\n"
