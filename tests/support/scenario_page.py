"""docs/scenarios.md: every scenario, with the tables of the runs recorded on a GPU."""

from __future__ import annotations

import tempfile
from pathlib import Path

import recorded

from nsyswrap.api import open_capture
from nsyswrap.cli.scenario_runs import closing_tables, texts
from nsyswrap.record.scenarios import Scenario, measured, scenarios
from nsyswrap.render.formats import text
from nsyswrap.reports.scenario_tables import CLOCKS, cross_check

PAGE = Path("docs", "scenarios.md")
WIDTH = 110
HEAD = """\
# Scenarios

A scenario is a small experiment with a known result. Each is a script that checks its result, and marks the
parts that it measures with NVTX ranges. It also runs alone: `python scenarios/add2.py --sync both`.
The [course](course.md) leads through all of them. In `ladder` and `ladder_cuda` each variant repairs one
thing in the one before, and the first table says what that gains.

```sh
nsyswrap scenarios list                          # the scenarios, and those that cannot run here
nsyswrap scenarios explain add2                  # the parts of a scenario, and the figures to compare
nsyswrap scenarios run add2 --csv summaries      # needs a GPU
nsyswrap scenarios run add --variant grid        # needs a GPU
```

`nsyswrap scenarios run all` runs every scenario that the machine can run, and says why it skips the others.
It takes about ten minutes on an H200. It writes an index of the run folders (`index.md`) and one CSV
(`scenario_runs.csv`). Programs are built before they are measured. Some variants keep files, such as traces
of torch.profiler or the PTX of Triton's kernels: they are in `scenario-files` of the variant's run folder.

| scenario | experiment |
|---|---|
{rows}

The tables below were recorded on {machine}. *Program* is the time that the program itself measured.
The columns after it are medians per iteration, from nsys' capture of the same run.
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
    rows = "\n".join(
        f"| [`{scenario.name}`](#{scenario.name}) | {scenario.summary} |" for scenario in scenarios()
    )
    return HEAD.format(machine=machine, rows=rows) + "".join(sections)


def section(scenario: Scenario, scratch: Path) -> str:
    """Return a scenario's summary, its closing tables, and what to look for in them."""
    names = [f"{scenario.name}/{variant}" for variant in scenario.variants]
    folders = {
        name.partition("/")[2]: recorded.run_folder(name, scratch)
        for name in names
        if name in recorded.run_names()
    }
    tables = closing_tables(scenario, folders)
    if scenario.can_cross_check:
        home = recorded.CROSS_CHECKS / scenario.name
        runs = {
            run.name: recorded.unpacked(run, scratch / "clocks" / scenario.name / run.name)
            for run in home.iterdir()
        }
        by_clock = {clock: measured(runs[clock]) for clock in CLOCKS}
        tables.append(cross_check(open_capture(runs["nsys"]), measured(runs["nsys"]), by_clock))
    shown = "\n".join(text.render(tables, width=WIDTH).values()) + "".join(texts(scenario, folders))
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
