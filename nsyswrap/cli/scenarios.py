"""``nsyswrap scenarios``: list the scenarios, explain one, run them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import default_output
from nsyswrap.cli.output import note, say, tables_text, terminal_layout, write_csv

if TYPE_CHECKING:
    from nsyswrap.record.scenarios import Scenario
    from nsyswrap.reports.table import Table

with lazy_imports():
    from nsyswrap.cli import scenario_runs
    from nsyswrap.record import scenarios
    from nsyswrap.reports import scenario_tables

ALL = "all"


@click.group()
def command() -> None:
    """Small experiments that teach and prove: list them, explain them, run them."""


@command.command("list")
def list_scenarios() -> None:
    """List the scenarios, their variants, and what each lacks on this machine."""
    for scenario in scenarios.scenarios():
        say(f"{scenario.name:10} {scenario.summary}")
        say(f"{'':10} variants: {' '.join(scenario.variants)}")
        if scenario.lacks:
            say(f"{'':10} cannot run here: {'; '.join(scenario.lacks)}")
            continue
        for variant in scenario.variants:
            if lacks := scenario.lacks_for(variant):
                say(f"{'':10} variant {variant!r} cannot run here: {'; '.join(lacks)}")


@command.command("explain")
@click.argument("name")
def explain_scenario(name: str) -> None:
    """Say what a scenario runs, and what to look for in nsyswrap's output."""
    scenario = scenarios.find_scenario(name)
    say(scenario.explanation)
    say(f"\nRun it: nsyswrap scenarios run {name}")
    say(f"Look for: {scenario.look_for}")


@command.command("run", context_settings={"allow_interspersed_args": True})
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@click.option("--variant", "variants", multiple=True, metavar="V", help="Run this variant only; repeatable.")
@click.option(
    "--cross-check",
    is_flag=True,
    help="Time the same launches by perf_counter, cuda.Event, torch.profiler and nsys instead.",
)
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
def run_scenario(
    name: str,
    arguments: tuple[str, ...],
    variants: tuple[str, ...],
    *,
    cross_check: bool,
    output: Path | None,
    csv_folder: Path | None,
    force: bool,
) -> None:
    """Run a scenario under nsys, one run folder a variant, and close with one table over all variants.

    NAME is a scenario, or `all`: every one that this machine can run, with an index of the runs and one CSV.
    ARGS go to the scenario's script. What it builds is built before, outside the measured runs.
    """
    if name == ALL:
        if arguments or variants or cross_check or csv_folder:
            raise UsageError(
                "ARGS, --variant, --cross-check and --csv cannot be used with `all`",
                "name one scenario",
            )
        scenario_runs.run_all(output or default_output("scenarios"), force=force)
        return
    scenario = scenarios.find_scenario(name)
    folder = output or default_output(scenario.name)
    if cross_check:
        tables = [
            scenario_runs.run_cross_check(_checkable(scenario, variants), folder, arguments, force=force)
        ]
    else:
        chosen = variants or scenario_runs.runnable(scenario)
        runs = scenario_runs.run_variants(scenario, chosen, folder, arguments, force=force)
        tables = scenario_runs.closing_tables(runs)
    _close(tables, scenario_tables.LOOK_FOR if cross_check else scenario.look_for, csv_folder)
    note(f"\nrun folders {folder}/\nlook closer nsyswrap report {scenario_runs.last_report(folder)}")


def _checkable(scenario: Scenario, variants: tuple[str, ...]) -> Scenario:
    """Return the scenario if it can be timed by several clocks; else raise UsageError with those that can."""
    if variants:
        raise UsageError(
            "--variant cannot be used with --cross-check", "omit --variant: all variants are run"
        )
    if not scenario.can_cross_check:
        able = " ".join(other.name for other in scenarios.scenarios() if other.can_cross_check)
        raise UsageError(
            f"--cross-check cannot be used with scenario {scenario.name!r}", f"scenarios: {able}"
        )
    return scenario


def _close(tables: list[Table], look_for: str, csv_folder: Path | None) -> None:
    say(tables_text(tables, terminal_layout()), styled=True)
    say(f"Look for: {look_for}")
    if csv_folder:
        write_csv(csv_folder, tables, terminal_layout())
