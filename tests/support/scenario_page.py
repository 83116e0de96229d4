"""docs/scenarios.md: every scenario, with the tables of the runs recorded on a GPU."""

from __future__ import annotations

import tempfile
from pathlib import Path

import recorded

from nsyswrap.api import open_capture
from nsyswrap.cli.scenario_runs import closing_tables
from nsyswrap.record.scenarios import Scenario, measured, scenarios
from nsyswrap.render.formats import text
from nsyswrap.reports.scenario_tables import CLOCKS, cross_check

PAGE = Path("docs", "scenarios.md")
WIDTH = 110
HEAD = """\
# The scenarios

Small experiments: each is a plain script that checks its result, marks what it measures with NVTX ranges,
and prints what it measured. `nsyswrap scenarios list` says what each needs, `nsyswrap scenarios explain NAME`
what to look for, `nsyswrap scenarios run NAME` runs it, and `nsyswrap scenarios run all` all that the machine
can.

The tables below were recorded on {machine}.
*Program* is what the program itself measured; the columns after it are from nsys' capture of the same run,
medians per iteration.
"""


def write() -> None:
    """Make the page from what is recorded in this checkout."""
    target = recorded.ROOT / PAGE
    target.parent.mkdir(exist_ok=True)
    target.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page: a section for each scenario."""
    with tempfile.TemporaryDirectory() as scratch:
        sections = [section(scenario, Path(scratch)) for scenario in scenarios() if _is_recorded(scenario)]
        origin = open_capture(recorded.run_folder("add/grid", Path(scratch))).info
    machine = f"an {origin.gpus[0]}, driver {origin.driver_version}, CUDA {origin.cuda_version}"
    return HEAD.format(machine=machine) + "".join(sections)


def section(scenario: Scenario, scratch: Path) -> str:
    """Return a scenario's summary, its closing tables, and what to look for in them."""
    names = [f"{scenario.name}/{variant}" for variant in scenario.variants]
    folders = {
        name.partition("/")[2]: recorded.run_folder(name, scratch)
        for name in names
        if name in recorded.run_names()
    }
    tables = closing_tables(folders)
    if scenario.can_cross_check:
        home = recorded.CROSS_CHECKS / scenario.name
        runs = {
            run.name: recorded.unpacked(run, scratch / "clocks" / scenario.name / run.name)
            for run in home.iterdir()
        }
        by_clock = {clock: measured(runs[clock]) for clock in CLOCKS}
        tables.append(cross_check(open_capture(runs["nsys"]), measured(runs["nsys"]), by_clock))
    shown = "\n".join(text.render(tables, width=WIDTH).values())
    command = " ".join(["nsyswrap scenarios run", scenario.name, *_arguments(scenario)])
    parts = (
        f"## {scenario.name}",
        f"{scenario.summary} Recorded with `{command}`:",
        f"```text\n{shown}```",
        f"Look for: {scenario.look_for}",
    )
    return "".join(f"\n{part}\n" for part in parts)


def _arguments(scenario: Scenario) -> tuple[str, ...]:
    given = recorded.ARGUMENTS.get(scenario.name, ())
    return ("--", *given) if given else ()


def _is_recorded(scenario: Scenario) -> bool:
    return any(name.startswith(f"{scenario.name}/") for name in recorded.run_names())
