"""Running scenarios: one variant, one scenario, all of them, or one by several clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import NsyswrapError, OutputError, ScenarioFailed, Unavailable
from nsyswrap.base.files import write
from nsyswrap.cli.output import Look, note, progress_line, show_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nsyswrap.capture.capture import Capture
    from nsyswrap.record.scenarios import Scenario
    from nsyswrap.record.spec import RunSpec
    from nsyswrap.reports.table import Table

INDEX = "index.md"
DONE, SKIPPED, FAILED = "done", "skipped", "failed"  # how an outcome begins
_INTERRUPTED = (130, 143)  # exit codes of a run that the user ended


@dataclass(frozen=True)
class Outcome:
    """How one variant of a scenario ended; ``folder`` where it ran."""

    scenario: str
    variant: str
    outcome: str
    folder: Path | None = None


def runnable(scenario: Scenario) -> tuple[str, ...]:
    """Return the variants this machine can run, and note why it cannot run the others.

    Raises Unavailable where there are none.
    """
    found = tuple(variant for variant in scenario.variants if not scenario.lacks_for(variant))
    if not found:
        lacks = scenario.lacks_for(scenario.variants[0])
        raise Unavailable(f"{scenario.name} cannot run here: {'; '.join(lacks)}")
    note_skipped(scenario)
    return found


def note_skipped(scenario: Scenario) -> None:
    """Say which variants this machine cannot run, and why: in one line where it is the same for all."""
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
    """Build, then run each variant into ``folder/<variant>``; the first that fails ends it."""
    scenario.check(variants)
    for variant in variants:
        if lacks := scenario.lacks_for(variant):
            raise Unavailable(f"{scenario.name} {variant} cannot run here: {'; '.join(lacks)}")
    built = _build(scenario, arguments)
    for variant in variants:
        _run_variant(scenario, variant, (*built, *arguments), folder, force=force)
    return {variant: folder / variant for variant in variants}


def run_cross_check(scenario: Scenario, folder: Path, arguments: tuple[str, ...], *, force: bool) -> Table:
    """Run the same launches by each clock without nsys, and once under nsys; return the table over them."""
    from nsyswrap.capture.capture import open_capture  # noqa: PLC0415
    from nsyswrap.record.scenarios import measured  # noqa: PLC0415
    from nsyswrap.reports.scenario_tables import CLOCKS, cross_check  # noqa: PLC0415

    built = _build(scenario, arguments)
    by_clock = {}
    for clock in CLOCKS:
        argv = (*scenario.clock_argv(clock), *built, *arguments)
        _run(scenario.name, clock, scenario.spec(argv, folder / clock, force=force), alone=True)
        by_clock[clock] = measured(folder / clock)
    argv = (*scenario.clock_argv("sync"), *built, *arguments)
    _run(scenario.name, "nsys", scenario.spec(argv, folder / "nsys", force=force))
    return cross_check(open_capture(folder / "nsys"), measured(folder / "nsys"), by_clock)


def run_all(folder: Path, *, force: bool = False) -> None:
    """Run every scenario that this machine can run; show the tables, write the index and one CSV.

    One that fails does not keep the others from running: it is told at the end, as ScenarioFailed.
    """
    from nsyswrap.base.nsys import find as nsys_install  # noqa: PLC0415
    from nsyswrap.record.scenarios import scenarios  # noqa: PLC0415

    nsys_install.find()  # without one nothing runs
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is not a folder", "give another --output")
    if not force and folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder} exists and is not empty", "give another --output, or --force")
    outcomes: list[Outcome] = []
    sections: list[str] = []
    try:
        for scenario in scenarios():
            done: dict[str, Path] = {}
            for one in _run_each(scenario, folder / scenario.name, force=force):
                outcomes.append(one)
                if one.folder and one.outcome == DONE:
                    done[one.variant] = one.folder
            if done:
                tables = show_tables(closing_tables(done), "text", Look())
                sections.append(f"=== {scenario.name}\n{tables}Look for: {scenario.look_for}\n")
                click.echo(sections[-1])
    finally:  # also of what was done before an interruption
        _write_index(folder, outcomes, sections)
    failed = [f"{one.scenario} {one.variant}" for one in outcomes if one.outcome.startswith(FAILED)]
    if failed:
        raise ScenarioFailed(f"{len(failed)} of {len(outcomes)} runs failed: {', '.join(failed)}")


def closing_tables(folders: Mapping[str, Path]) -> list[Table]:
    """Return the tables over all variants: timings and their audit where any were printed, GPU work else."""
    from nsyswrap.record.scenarios import measured  # noqa: PLC0415
    from nsyswrap.reports import scenario_tables as variants  # noqa: PLC0415

    captures = {variant: found for variant, folder in folders.items() if (found := _capture(folder))}
    said = {variant: measured(folder) for variant, folder in folders.items()}
    if not all("timings" in results for results in said.values()):
        return [variants.gpu_by_variant(captures)]
    profiled = variants.profiler_by_variant(said)
    seen = {variant: result for variant, result in said.items() if variant in captures}
    timed = variants.timing_by_variant(captures, seen if len(profiled) else said)
    tables = [timed, profiled] if len(profiled) else [timed]
    audited = variants.audit_by_variant(captures, seen)
    return [*tables, audited] if any(audited.data["verdict"]) else tables


def last_report(folder: Path) -> Path:
    """Return the run folder under ``folder`` that ended last and has a capture; the folder without any."""
    from nsyswrap.base.run_folder import EXPORT  # noqa: PLC0415

    found = sorted(folder.glob(f"*/{EXPORT}"), key=lambda path: path.stat().st_mtime)
    return found[-1].parent if found else folder


def _build(scenario: Scenario, arguments: tuple[str, ...] = ()) -> tuple[str, ...]:
    if scenario.builds:
        note(f"{scenario.name}: building")
    return scenario.build(arguments)


def _run(name: str, what: str, spec: RunSpec, *, alone: bool = False) -> None:
    """Run one program, under nsys unless ``alone``; raise ScenarioFailed where it does not end well."""
    from nsyswrap import api  # noqa: PLC0415
    from nsyswrap.cli.profile import warn_of_broken  # noqa: PLC0415
    from nsyswrap.record import scenarios as scenario  # noqa: PLC0415
    from nsyswrap.record.spec import Callbacks  # noqa: PLC0415

    note(f"{name}: {what}{', without nsys' if alone else ''}")
    if alone:
        status = scenario.run_alone(spec)
    else:
        status = api.run(spec, Callbacks(progress=progress_line(), broken=warn_of_broken)).status
    if status.exit_code:
        hint = status.hint or f"see {spec.output}/"
        raise ScenarioFailed(f"{name} {what}: {status.message}", hint, status.exit_code)


def _run_variant(
    scenario: Scenario, variant: str, arguments: tuple[str, ...], folder: Path, *, force: bool
) -> None:
    argv = (*scenario.variant_argv(variant), *arguments)
    spec = scenario.spec(argv, folder / variant, variant=variant, force=force)
    _run(scenario.name, variant, spec, alone=variant in scenario.alone)


def _run_each(scenario: Scenario, folder: Path, *, force: bool) -> Iterator[Outcome]:
    """Run every variant of one scenario, each for itself: what it lacks or how it failed is its outcome."""
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
            note(f"nsyswrap: {error}" + (f"\n  {error.hint}" if error.hint else ""))
            yield Outcome(scenario.name, variant, f"{FAILED}: {error}", folder / variant)


def _write_index(folder: Path, outcomes: list[Outcome], sections: list[str]) -> None:
    """Write scenario_runs.csv, and a page that names every run folder and shows every closing table."""
    from nsyswrap.render.formats import csv  # noqa: PLC0415
    from nsyswrap.reports.scenario_tables import scenario_runs  # noqa: PLC0415

    captures = [_capture(o.folder) if o.folder and o.outcome == DONE else None for o in outcomes]
    runs = [(o.scenario, o.variant, o.outcome, found) for o, found in zip(outcomes, captures, strict=True)]
    [(name, content)] = csv.render([scenario_runs(runs)]).items()
    write(folder / name, content)
    rows = [
        f"| {o.scenario} | {o.variant} | {o.outcome.splitlines()[0]} |"
        f" {f'{o.scenario}/{o.variant}/' if o.folder else ''} |"
        for o in outcomes
    ]
    head = ["# Scenarios", "", "| scenario | variant | outcome | run folder |", "|---|---|---|---|"]
    blocks = [f"\n```text\n{section}```" for section in sections]
    write(folder / INDEX, "\n".join([*head, *rows, *blocks]) + "\n")
    note(f"\nindex       {folder}/{INDEX}\none CSV     {folder}/{name}")


def _capture(folder: Path) -> Capture | None:
    """Open the capture of a run folder; None where the run was made without nsys."""
    from nsyswrap.base.run_folder import EXPORT  # noqa: PLC0415
    from nsyswrap.capture.capture import open_capture  # noqa: PLC0415

    return open_capture(folder) if (folder / EXPORT).exists() else None
