"""``nsyswrap demo``: run two scenarios here, or show the captures recorded on a GPU."""

from __future__ import annotations

from pathlib import Path

import click

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import default_output
from nsyswrap.cli.help import Command, option
from nsyswrap.cli.options import OUTPUT
from nsyswrap.cli.output import note, summary_text, tables_text, terminal_layout

with lazy_imports():
    from nsyswrap.base.nsys import find
    from nsyswrap.capture import capture
    from nsyswrap.cli import scenario_runs
    from nsyswrap.record import scenarios

RECORDED = Path(__file__).parent.parent / "recorded"  # run folders of the scenarios, redacted
SCENARIOS = {"add": "grid", "add2": "both"}  # scenario -> the variant whose summary is shown


@click.command(cls=Command, examples=("nsyswrap demo",))
@option(
    OUTPUT,
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the run folders into this folder.",
)
def command(output: Path | None) -> None:
    """Run two small experiments, or show them recorded.

    The scenarios `add` and `add2` are run and their screens shown. Without a GPU or without nsys, captures
    recorded on a real GPU are shown instead.
    """
    lacks = _lacks()
    if lacks:
        click.echo(f"Recorded on an NVIDIA H200, not run here: {'; '.join(lacks)}")
        folders = {
            name: {v: RECORDED / name / v for v in scenarios.find_scenario(name).variants}
            for name in SCENARIOS
        }
    else:
        base = output or default_output("demo")
        click.echo("Run here and now.")
        folders = {name: _run(name, base / name) for name in SCENARIOS}
        note(f"run folders {base}/")
    for name, variants in folders.items():
        _show(name, variants)


def _lacks() -> list[str]:
    lacks = [lack for name in SCENARIOS for lack in scenarios.find_scenario(name).lacks]
    try:
        find.find_nsys()
    except Unavailable as error:
        lacks.append(str(error))
    return list(dict.fromkeys(lacks))


def _run(name: str, folder: Path) -> dict[str, Path]:
    scenario = scenarios.find_scenario(name)
    return scenario_runs.run_variants(scenario, scenario.variants, folder)


def _show(name: str, folders: dict[str, Path]) -> None:
    """Print the summary of one variant, then the tables over all variants."""
    variant = SCENARIOS[name]
    folder = folders[variant]
    path = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    click.echo(f"\n=== {name}, variant {variant}: nsyswrap report {path}")
    click.echo(summary_text(capture.open_capture(folder), terminal_layout()), nl=False)
    click.echo(f"\n=== {name}, all variants: nsyswrap scenarios run {name}")
    click.echo(tables_text(scenario_runs.closing_tables(folders), terminal_layout()), nl=False)
    click.echo(f"Look for: {scenarios.find_scenario(name).look_for}")
