"""``nsyswrap demo``: what nsyswrap shows, on this machine's GPU or from recorded captures."""

from __future__ import annotations

from pathlib import Path

import click

from nsyswrap.cli.output import Look, note, show_tables, summary_text

RECORDED = Path(__file__).parent.parent / "recorded"  # run folders of the scenarios, redacted
SCENARIOS = {"add": "grid", "add2": "both"}  # and the variant whose screen is shown


@click.command()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the run folders."
)
def command(output: Path | None) -> None:
    """Run the scenarios `add` and `add2` and show their screens.

    Without a GPU, or without nsys, the same is shown from captures recorded on a real GPU.
    """
    from nsyswrap.base.run_folder import default_output  # noqa: PLC0415
    from nsyswrap.record import scenarios as scenario  # noqa: PLC0415

    lacks = _lacks()
    if lacks:
        click.echo(f"Recorded on an NVIDIA H200, not run here: {'; '.join(lacks)}")
        folders = {name: {v: RECORDED / name / v for v in scenario.find(name).variants} for name in SCENARIOS}
    else:
        base = output or default_output("demo")
        click.echo("Run here and now.")
        folders = {name: _run(name, base / name) for name in SCENARIOS}
        note(f"run folders {base}/")
    for name, variants in folders.items():
        _show(name, variants)


def _lacks() -> list[str]:
    from nsyswrap.base.errors import Unavailable  # noqa: PLC0415
    from nsyswrap.base.nsys import find as nsys_install  # noqa: PLC0415
    from nsyswrap.record import scenarios as scenario  # noqa: PLC0415

    lacks = [lack for name in SCENARIOS for lack in scenario.find(name).lacks]
    try:
        nsys_install.find()
    except Unavailable as error:
        lacks.append(str(error))
    return list(dict.fromkeys(lacks))


def _run(name: str, folder: Path) -> dict[str, Path]:
    from nsyswrap.cli.scenario_runs import run_variants  # noqa: PLC0415
    from nsyswrap.record import scenarios as scenario  # noqa: PLC0415

    found = scenario.find(name)
    return run_variants(found, found.variants, folder)


def _show(name: str, folders: dict[str, Path]) -> None:
    """Show the summary of one variant, then the table over all."""
    from nsyswrap.capture.capture import open_capture  # noqa: PLC0415
    from nsyswrap.cli.scenario_runs import closing_tables  # noqa: PLC0415
    from nsyswrap.record import scenarios as scenario  # noqa: PLC0415

    variant = SCENARIOS[name]
    folder = folders[variant]
    shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    click.echo(f"\n=== {name}, variant {variant}: nsyswrap report {shown}")
    click.echo(summary_text(open_capture(folder), Look()), nl=False)
    click.echo(f"\n=== {name}, all variants: nsyswrap scenarios run {name}")
    click.echo(show_tables(closing_tables(folders), "text", Look()), nl=False)
    click.echo(f"Look for: {scenario.find(name).look_for}")
