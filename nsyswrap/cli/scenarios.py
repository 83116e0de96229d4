"""``nsyswrap scenarios``: list the scenarios, explain one, run them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import NsyswrapError, OutputError, ScenarioFailed, Unavailable, UsageError
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import EXPORT, SCENARIO_FILES, default_output
from nsyswrap.cli.help import CommandGroup, completes, option
from nsyswrap.cli.options import OUTPUT, PATH, output_option
from nsyswrap.cli.output import (
    check_csv_folder,
    note,
    note_broken,
    note_problem,
    note_renamed,
    progress_line,
    say,
    tables_text,
    terminal_layout,
    wrapped,
    write_csv,
)

if TYPE_CHECKING:
    from nsyswrap.record.scenarios import Scenario
    from nsyswrap.reports.table import Table

with lazy_imports():
    from nsyswrap import api
    from nsyswrap.base.nsys import find
    from nsyswrap.capture import capture as captures
    from nsyswrap.record import program as programs
    from nsyswrap.record import scenarios
    from nsyswrap.render import comparison as comparisons
    from nsyswrap.render.formats import csv
    from nsyswrap.reports import scenario_tables

INDEX = "index.md"
DONE, SKIPPED, FAILED = "done", "skipped", "failed"  # the first word of an outcome
_CURE = "`nsyswrap doctor` says what to do next"
_INTERRUPTED = (130, 143)  # exit codes of a run that the user stopped


ALL = "all"


def _scenario_names() -> list[str]:
    return [scenario.name for scenario in scenarios.scenarios()]


def _complete_variant(context: click.Context, _parameter: click.Parameter, text: str) -> list[str]:
    names = (context.params.get("name"), *context.args)  # click leaves them there before an option's value
    variants = [v for scenario in scenarios.scenarios() if scenario.name in names for v in scenario.variants]
    return [variant for variant in variants if variant.startswith(text)]


@click.group(
    cls=CommandGroup, examples=("nsyswrap scenarios explain add2", "nsyswrap scenarios run add2 --csv tables")
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


def _not_here(checked: Iterable[Scenario]) -> dict[str, list[str]]:
    """Return the scenarios, or variants, that each missing requirement rules out."""
    ruled_out: dict[str, list[str]] = {}
    for scenario in checked:
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
    "--variant V",
    "Run only this variant; repeatable.",
    name="variants",
    multiple=True,
    shell_complete=_complete_variant,
)
@option("Runs", "--cross-check", "Compare four clocks that time the same launches.")
@output_option("Write the run folders into this folder.")
@option(OUTPUT, "--csv DIR", "Write the closing tables into this folder.", name="csv_folder", type=PATH)
@option(OUTPUT, "--force", "Replace the runs in the folder.")
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
        run_all(output or default_output("scenarios"), force=force)
        return
    scenario = scenarios.find_scenario(name)
    check_csv_folder(csv_folder, of_report=False)
    folder = output or default_output(scenario.name)
    lines: list[str] = []
    if cross_check:
        tables = [run_cross_check(_checkable(scenario, variants), folder, arguments, force=force)]
    else:
        chosen = variants or runnable(scenario)
        runs = run_variants(scenario, chosen, folder, arguments, force=force)
        tables = closing_tables(scenario, runs)
        lines = texts(scenario, runs)
    say(tables_text(tables, terminal_layout()), styled=True)
    look_for = wrapped(f"Look for: {scenario_tables.LOOK_FOR if cross_check else scenario.look_for}")
    say("\n".join([*lines, *look_for]))
    if csv_folder:
        write_csv(csv_folder, tables, terminal_layout())
    note(f"\nrun folders {folder}/")
    for kept in paths.matching(folder, f"*/{SCENARIO_FILES}"):
        note(f"files kept  {kept}/")
    if last := last_report(folder):
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


@dataclass(frozen=True)
class Outcome:
    """How one variant of a scenario ended, and its run folder (None: it was not run)."""

    scenario: str
    variant: str
    outcome: str
    folder: Path | None = None


def runnable(scenario: Scenario) -> tuple[str, ...]:
    """Return the variants that this machine can run, and note why it cannot run the others.

    Raises Unavailable if it can run none.
    """
    variants = tuple(variant for variant in scenario.variants if not scenario.lacks_for(variant))
    if not variants:
        lacks = scenario.lacks_for(scenario.variants[0])
        raise Unavailable(f"{scenario.name} cannot run here: {'; '.join(lacks)}", _CURE)
    note_skipped(scenario)
    return variants


def note_skipped(scenario: Scenario) -> None:
    """Note the variants that this machine cannot run, and why; one line if all lack the same."""
    if scenario.lacks:
        note(f"{scenario.name} is skipped: {'; '.join(scenario.lacks)}")
        return
    for variant in scenario.variants:
        if lacks := scenario.lacks_for(variant):
            note(f"{scenario.name} {variant} is skipped: {'; '.join(lacks)}")


def run_variants(
    scenario: Scenario,
    variants: tuple[str, ...],
    folder: Path,
    arguments: tuple[str, ...] = (),
    *,
    force: bool = False,
) -> dict[str, Path]:
    """Build the scenario and run each variant into ``folder/<variant>``.

    Raises ScenarioFailed at the first variant that fails, Unavailable if this machine cannot run one.
    """
    scenario.check(variants)
    for variant in variants:
        if lacks := scenario.lacks_for(variant):
            raise Unavailable(f"{scenario.name} {variant} cannot run here: {'; '.join(lacks)}", _CURE)
    built = _build(scenario, arguments)
    for variant in variants:
        _run_variant(scenario, variant, (*built, *arguments), folder, force=force)
    return {variant: folder / variant for variant in variants}


def run_cross_check(scenario: Scenario, folder: Path, arguments: tuple[str, ...], *, force: bool) -> Table:
    """Time the same launches with each clock without nsys, and once under nsys; return the comparison."""
    built = _build(scenario, arguments)
    by_clock = {}
    for clock in scenario_tables.CLOCKS:
        argv = (*scenario.clock_argv(clock), *built, *arguments)
        _run(scenario.name, clock, scenario.spec(argv, folder / clock, force=force), alone=True)
        by_clock[clock] = scenarios.measured(folder / clock)
    argv = (*scenario.clock_argv("sync"), *built, *arguments)
    _run(scenario.name, "nsys", scenario.spec(argv, folder / "nsys", force=force))
    capture = captures.open_capture(folder / "nsys")
    return scenario_tables.cross_check(capture, scenarios.measured(folder / "nsys"), by_clock)


def run_all(folder: Path, *, force: bool = False) -> None:
    """Run every scenario that this machine can run; show the tables, write the index and one CSV.

    All scenarios are run even if some fail. Raises ScenarioFailed at the end if any did.
    """
    find.find_nsys()  # raises Unavailable without an nsys that works
    paths.check_target(folder)
    if paths.is_taken(folder) and not paths.is_folder(folder):
        raise OutputError(f"{folder} is not a folder", "use another --output")
    if not force and paths.is_filled(folder):
        raise OutputError(
            f"{folder} exists and is not empty", "use another --output, or --force to replace its runs"
        )
    outcomes: list[Outcome] = []
    sections: list[str] = []
    try:
        for scenario in scenarios.scenarios():
            done: dict[str, Path] = {}
            for one in _run_each(scenario, folder / scenario.name, force=force):
                outcomes.append(one)
                if one.folder and one.outcome == DONE:
                    done[one.variant] = one.folder
            if done:
                tables = tables_text(closing_tables(scenario, done), terminal_layout()._replace(color=False))
                shown = "\n".join([tables, *texts(scenario, done)])
                sections.append(f"=== {scenario.name}\n{shown}\nLook for: {scenario.look_for}\n")
                say(f"{sections[-1]}\n")
    finally:  # an interrupted run has an index too
        _write_index(folder, outcomes, sections)
    failed = [f"{one.scenario} {one.variant}" for one in outcomes if one.outcome.startswith(FAILED)]
    if failed:
        raise ScenarioFailed(f"{len(failed)} of {len(outcomes)} runs failed: {', '.join(failed)}")


def closing_tables(scenario: Scenario, folders: Mapping[str, Path]) -> list[Table]:
    """Return the tables over all variants.

    They are the timings and their audit if every variant printed timings, otherwise the GPU work. Those of a
    ladder begin with its rungs.
    """
    recorded = {variant: capture for variant, folder in folders.items() if (capture := _capture(folder))}
    results = {variant: scenarios.measured(folder) for variant, folder in folders.items()}
    if not all("timings" in result for result in results.values()):
        return [scenario_tables.gpu_by_variant(recorded)]
    profiled = scenario_tables.profiler_by_variant(recorded, results)
    under_nsys = {variant: result for variant, result in results.items() if variant in recorded}
    timed = scenario_tables.timing_by_variant(recorded, under_nsys if len(profiled) else results)
    tables = [timed, profiled] if len(profiled) else [timed]
    if scenario.repairs:
        tables.insert(0, scenario_tables.rungs(recorded, scenario.repairs, comparisons.short_names))
    audited = scenario_tables.audit_by_variant(recorded, under_nsys)
    # The steps of a ladder need not time their GPU work: the next one may begin while it runs.
    return [*tables, audited] if any(audited.data["verdict"]) and not scenario.repairs else tables


def texts(scenario: Scenario, folders: Mapping[str, Path]) -> list[str]:
    """Return what each variant printed for people, under its name and with empty lines around."""
    return [
        f"\n{variant} printed:\n\n{scenarios.printed(folder).strip()}\n"
        for variant, folder in folders.items()
        if variant in scenario.keeps
    ]


def last_report(folder: Path) -> Path | None:
    """Return the run folder below ``folder`` with the newest capture; None if there is none."""
    found = [
        (facts.st_mtime, path)
        for path in paths.matching(folder, f"*/{EXPORT}")
        if (facts := paths.status(path))
    ]
    return max(found)[1].parent if found else None


def _build(scenario: Scenario, arguments: tuple[str, ...] = ()) -> tuple[str, ...]:
    if scenario.builds:
        note(f"{scenario.name}: building")
    return scenario.build(arguments)


def _run(name: str, title: str, spec: programs.RunSpec, *, alone: bool = False) -> None:
    """Run one program, under nsys unless ``alone``. Raises ScenarioFailed if it does not end well."""
    note(f"{name}: {title}{', without nsys' if alone else ''}")
    if alone:
        status = scenarios.run_alone(spec)
    else:
        callbacks = programs.Callbacks(progress=progress_line(), broken=note_broken, renamed=note_renamed)
        status = api.run(spec, callbacks).status
    if status.exit_code:
        hint = status.hint or f"see {spec.output}/"
        raise ScenarioFailed(f"{name} {title}: {status.message}", hint, status.exit_code)


def _run_variant(
    scenario: Scenario, variant: str, arguments: tuple[str, ...], folder: Path, *, force: bool
) -> None:
    argv = (*scenario.variant_argv(variant), *arguments)
    spec = scenario.spec(argv, folder / variant, variant=variant, force=force)
    _run(scenario.name, variant, spec, alone=variant in scenario.alone)


def _run_each(scenario: Scenario, folder: Path, *, force: bool) -> Iterator[Outcome]:
    built: tuple[str, ...] | None = None
    note_skipped(scenario)
    for variant in scenario.variants:
        if lacks := scenario.lacks_for(variant):
            yield Outcome(scenario.name, variant, f"{SKIPPED}: {'; '.join(lacks)}")
            continue
        try:
            built = _build(scenario) if built is None else built
            _run_variant(scenario, variant, built, folder, force=force)
            yield Outcome(scenario.name, variant, DONE, folder / variant)
        except NsyswrapError as error:
            if error.exit_code in _INTERRUPTED:
                raise
            note_problem(error.message, error.hint)
            yield Outcome(scenario.name, variant, f"{FAILED}: {error.message}", folder / variant)


def _write_index(folder: Path, outcomes: list[Outcome], sections: list[str]) -> None:
    runs = [
        (o.scenario, o.variant, o.outcome, _capture(o.folder) if o.folder and o.outcome == DONE else None)
        for o in outcomes
    ]
    [(name, content)] = csv.render([scenario_tables.scenario_runs(runs)]).items()
    write(folder / name, content, follow=False)
    rows = [
        f"| {o.scenario} | {o.variant} | {o.outcome.splitlines()[0]} |"
        f" {f'{o.scenario}/{o.variant}/' if o.folder else ''} |"
        for o in outcomes
    ]
    head = ["# Scenarios", "", "| scenario | variant | outcome | run folder |", "|---|---|---|---|"]
    blocks = [f"\n```text\n{section}```" for section in sections]
    write(folder / INDEX, "\n".join([*head, *rows, *blocks]) + "\n", follow=False)
    note(f"\nindex       {folder}/{INDEX}\none CSV     {folder}/{name}")


def _capture(folder: Path) -> captures.Capture | None:
    return captures.open_capture(folder) if paths.exists(folder / EXPORT) else None
