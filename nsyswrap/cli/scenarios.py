"""``nsyswrap scenarios``: list the experiments, and run one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.cli.show import Look, note, show_reports, write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.api import Run
    from nsyswrap.report import Table
    from nsyswrap.scenario import Scenario


@click.group()
def command() -> None:
    """Small experiments that teach and prove: list them, run them."""


@command.command("list")
def list_scenarios() -> None:
    """List the scenarios, their variants, and what each lacks on this machine."""
    from nsyswrap.scenario import scenarios  # noqa: PLC0415

    for scenario in scenarios():
        click.echo(f"{scenario.name:8} {scenario.summary}")
        click.echo(f"{'':8} variants: {' '.join(scenario.variants)}")
        if scenario.lacks:
            click.echo(f"{'':8} not here: {'; '.join(scenario.lacks)}")


@command.command("run", context_settings={"allow_interspersed_args": True})
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@click.option("--variant", "variants", multiple=True, metavar="V", help="Run this variant only; repeatable.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the run folders."
)
@click.option(
    "--csv",
    "csv_folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the closing tables to DIR.",
)
@click.option("--force", is_flag=True, help="Replace the runs that are in the folder.")
def run_scenario(  # noqa: PLR0913 - one parameter an option
    name: str,
    arguments: tuple[str, ...],
    variants: tuple[str, ...],
    *,
    output: Path | None,
    csv_folder: Path | None,
    force: bool,
) -> None:
    """Run a scenario under nsys, one run folder a variant, and close with one table over all variants.

    ARGS go to the scenario's script. What it builds is built before, outside the measured runs.
    """
    from nsyswrap.folder import default_output  # noqa: PLC0415
    from nsyswrap.scenario import find  # noqa: PLC0415

    scenario = find(name)
    folder = output or default_output(scenario.name)
    runs = run_variants(scenario, variants or scenario.variants, folder, arguments, force=force)
    tables = closing_tables({variant: run.folder for variant, run in runs.items()})
    click.echo(show_reports(tables, "text", Look()), nl=False)
    click.echo(f"Look for: {scenario.look_for}")
    if csv_folder:
        write_csv(csv_folder, tables, Look())
    note(f"\nrun folders {folder}/\nlook closer nsyswrap report {folder}/{next(reversed(runs))}")


def run_variants(
    scenario: Scenario,
    variants: tuple[str, ...],
    folder: Path,
    arguments: tuple[str, ...] = (),
    *,
    force: bool = False,
) -> dict[str, Run]:
    """Build, then run each variant into ``folder/<variant>``; the first that fails ends it."""
    from nsyswrap import api  # noqa: PLC0415
    from nsyswrap.cli.profile import progress_line, warn_of_broken  # noqa: PLC0415
    from nsyswrap.errors import ScenarioFailed  # noqa: PLC0415

    scenario.check(variants)
    note(f"{scenario.name}: building")
    built = scenario.build()
    runs: dict[str, Run] = {}
    for variant in variants:
        note(f"{scenario.name}: {variant}")
        spec = scenario.spec(variant, built, folder / variant, arguments, force=force)
        runs[variant] = api.run(spec, on_progress=progress_line(), on_broken=warn_of_broken)
        status = runs[variant].status
        if status.exit_code:
            hint = status.hint or f"see {spec.output}/"
            raise ScenarioFailed(f"{scenario.name} {variant}: {status.message}", hint, status.exit_code)
    return runs


def closing_tables(folders: Mapping[str, Path]) -> list[Table]:
    """Return the table over all variants: timings where the scenario printed any, GPU work else."""
    from nsyswrap.capture import open_capture  # noqa: PLC0415
    from nsyswrap.scenario import measured  # noqa: PLC0415
    from nsyswrap.variants import gpu_by_variant, timing_by_variant  # noqa: PLC0415

    captures = {variant: open_capture(folder) for variant, folder in folders.items()}
    said = {variant: measured(folder) for variant, folder in folders.items()}
    if all("timings" in results for results in said.values()):
        return [timing_by_variant(captures, said)]
    return [gpu_by_variant(captures)]
