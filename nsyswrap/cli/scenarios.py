"""``nsyswrap scenarios``: list the scenarios, explain one, run them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import SCENARIO_FILES, default_output
from nsyswrap.cli.help import Group, completes, option
from nsyswrap.cli.options import OUTPUT, output_option
from nsyswrap.cli.output import check_csv_folder, note, say, tables_text, terminal_layout, wrapped, write_csv

if TYPE_CHECKING:
    from nsyswrap.record.scenarios import Scenario

with lazy_imports():
    from nsyswrap.cli import scenario_runs
    from nsyswrap.record import scenarios
    from nsyswrap.reports import scenario_tables

ALL = "all"


def _scenario_names() -> list[str]:
    return [scenario.name for scenario in scenarios.scenarios()]


def _complete_variant(context: click.Context, _parameter: click.Parameter, text: str) -> list[str]:
    names = (context.params.get("name"), *context.args)  # click leaves them there before an option's value
    variants = [v for scenario in scenarios.scenarios() if scenario.name in names for v in scenario.variants]
    return [variant for variant in variants if variant.startswith(text)]


@click.group(
    cls=Group, examples=("nsyswrap scenarios explain add2", "nsyswrap scenarios run add2 --csv tables")
)
def command() -> None:
    """List, explain and run small experiments.

    Each scenario shows one effect on the GPU, with the figures to expect.
    """


@command.command("list", examples=("nsyswrap scenarios list",))
def list_scenarios() -> None:
    """List the scenarios, their variants and missing requirements."""
    found = scenarios.scenarios()
    width = max(len(scenario.name) for scenario in found) + 1
    for scenario in found:
        _say_indented(f"{scenario.name:{width}}{scenario.summary}", width)
        _say_indented(f"{'':{width}}variants: {' '.join(scenario.variants)}", width)
    if not_here := _not_here(found):
        say("")
        _say_indented(
            "Not on this machine (`nsyswrap doctor` says what to do, `nsyswrap demo` shows recordings):", 2
        )
        for missing, names in not_here.items():
            _say_indented(f"  {missing}: {', '.join(names)}", 4)


def _say_indented(text: str, width: int) -> None:
    say("\n".join(wrapped(text, width)))


def _not_here(found: Iterable[Scenario]) -> dict[str, list[str]]:
    """Return the scenarios, or variants, that each missing requirement rules out."""
    ruled_out: dict[str, list[str]] = {}
    for scenario in found:
        for missing in scenario.lacks:
            ruled_out.setdefault(missing, []).append(scenario.name)
        for variant in scenario.variants:
            for missing in scenario.lacks_for(variant)[len(scenario.lacks) :]:
                ruled_out.setdefault(missing, []).append(f"{scenario.name} {variant}")
    return ruled_out


@command.command("explain", examples=("nsyswrap scenarios explain overlap",))
@click.argument("name", shell_complete=completes(_scenario_names))
def explain_scenario(name: str) -> None:
    """Explain a scenario and the figures to look for."""
    scenario = scenarios.find_scenario(name)
    say(scenario.explanation)
    say(f"\nRun it: nsyswrap scenarios run {name}")
    say("\n".join(wrapped(f"Look for: {scenario.look_for}")))


@command.command(
    "run",
    context_settings={"allow_interspersed_args": True},
    examples=(
        "nsyswrap scenarios run add2 --variant both",
        "nsyswrap scenarios run add -o add -- --arch sm_90",
    ),
)
@click.argument("name", shell_complete=completes(lambda: (*_scenario_names(), ALL)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@option(
    "Runs",
    "--variant",
    "variants",
    multiple=True,
    metavar="V",
    shell_complete=_complete_variant,
    help="Run only this variant; repeatable.",
)
@option("Runs", "--cross-check", is_flag=True, help="Compare four clocks that time the same launches.")
@output_option("Write the run folders into this folder.")
@option(
    OUTPUT,
    "--csv",
    "csv_folder",
    type=click.Path(readable=False, path_type=Path),
    metavar="DIR",
    help="Write the closing tables into this folder.",
)
@option(OUTPUT, "--force", is_flag=True, help="Replace the runs in the folder.")
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
    """Run a scenario under nsys and compare its variants.

    Each variant gets a run folder. NAME is a scenario, or `all` for every scenario that this machine can
    run. ARGS go to the script of the scenario. --cross-check times launches by perf_counter, cuda.Event,
    torch.profiler and nsys.
    """
    if name == ALL:
        if arguments or variants or cross_check or csv_folder:
            raise UsageError(
                "ARGS, --variant, --cross-check and --csv cannot be used with `all`", "name one scenario"
            )
        scenario_runs.run_all(output or default_output("scenarios"), force=force)
        return
    scenario = scenarios.find_scenario(name)
    check_csv_folder(csv_folder)
    folder = output or default_output(scenario.name)
    texts: list[str] = []
    if cross_check:
        tables = [
            scenario_runs.run_cross_check(_checkable(scenario, variants), folder, arguments, force=force)
        ]
    else:
        chosen = variants or scenario_runs.runnable(scenario)
        runs = scenario_runs.run_variants(scenario, chosen, folder, arguments, force=force)
        tables = scenario_runs.closing_tables(scenario, runs)
        texts = scenario_runs.texts(scenario, runs)
    say(tables_text(tables, terminal_layout()), styled=True)
    look_for = wrapped(f"Look for: {scenario_tables.LOOK_FOR if cross_check else scenario.look_for}")
    say("\n".join([*texts, *look_for]))
    if csv_folder:
        write_csv(csv_folder, tables, terminal_layout())
    note(f"\nrun folders {folder}/")
    for kept in paths.matching(folder, f"*/{SCENARIO_FILES}"):
        note(f"files kept  {kept}/")
    if last := scenario_runs.last_report(folder):
        note(f"look closer nsyswrap report {last}")


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
