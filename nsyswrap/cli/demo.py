"""``nsyswrap demo``: what nsyswrap shows, on this machine's GPU or from recorded captures."""

from __future__ import annotations

from pathlib import Path

import click

from nsyswrap.cli.show import Look, note, show_reports, show_summary

RECORDED = Path(__file__).parent.parent / "recorded"  # run folders of the scenarios, redacted
SCENARIOS = ("add", "add2")


@click.command()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the run folders."
)
def command(output: Path | None) -> None:
    """Run the scenarios `add` and `add2` and show their screens.

    Without a GPU, or without nsys, the same is shown from captures recorded on a real GPU.
    """
    from nsyswrap.folder import default_output  # noqa: PLC0415

    lacks = _lacks()
    folders = {}
    if lacks:
        click.echo(f"Recorded on a real GPU, not run here ({'; '.join(lacks)}):\n")
        for name in SCENARIOS:
            folders[name] = {variant: RECORDED / name / variant for variant in _variants(name)}
    else:
        base = output or default_output("demo")
        click.echo("Run here and now:\n")
        for name in SCENARIOS:
            folders[name] = _run(name, base / name)
        note(f"run folders {base}/\n")
    for name, variants in folders.items():
        _show(name, variants)


def _lacks() -> list[str]:
    from nsyswrap.errors import Unavailable  # noqa: PLC0415
    from nsyswrap.nsys_install import find  # noqa: PLC0415
    from nsyswrap.scenario import find as scenario  # noqa: PLC0415

    lacks = [lack for name in SCENARIOS for lack in scenario(name).lacks]
    try:
        find()
    except Unavailable as error:
        lacks.append(str(error))
    return list(dict.fromkeys(lacks))


def _variants(name: str) -> tuple[str, ...]:
    from nsyswrap.scenario import find  # noqa: PLC0415

    return find(name).variants


def _run(name: str, folder: Path) -> dict[str, Path]:
    from nsyswrap.cli.scenarios import run_variants  # noqa: PLC0415
    from nsyswrap.scenario import find  # noqa: PLC0415

    scenario = find(name)
    return {variant: run.folder for variant, run in run_variants(scenario, scenario.variants, folder).items()}


def _show(name: str, folders: dict[str, Path]) -> None:
    """Show the summary of one variant, then the table over all."""
    from nsyswrap.capture import open_capture  # noqa: PLC0415
    from nsyswrap.cli.scenarios import closing_tables  # noqa: PLC0415

    variant = "grid" if "grid" in folders else "both"
    click.echo(f"=== {name}, variant {variant}: nsyswrap report {folders[variant]}")
    show_summary(open_capture(folders[variant]), Look(), {})
    click.echo(f"\n=== {name}, all variants: nsyswrap scenarios run {name}")
    click.echo(show_reports(closing_tables(folders), "text", Look()))
