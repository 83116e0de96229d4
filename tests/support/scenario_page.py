"""docs/scenarios.md: every scenario, with the tables of the runs recorded on a GPU."""

import tempfile
from pathlib import Path

import recorded
from course_page import LESSONS, Lesson, answer

from nsyswrap.api import open_capture
from nsyswrap.cli.scenarios import closing_tables, texts
from nsyswrap.record.scenarios import Scenario, find_scenario, measured
from nsyswrap.render.formats import text
from nsyswrap.reports.scenario_tables import CLOCKS, cross_check

PAGE = Path("docs", "scenarios.md")
WIDTH = 110
HEAD = """\
# Scenarios

A course of small experiments with known results: one question each, and the answer on one machine. Each is a
script that checks its result and marks what it measures with NVTX ranges. It also runs alone:
`python scenarios/add2.py --sync both`.

```sh
nsyswrap scenarios list                          # the scenarios, and what each lacks on this machine
nsyswrap scenarios explain add2                  # the parts of a scenario, and the figures to compare
nsyswrap scenarios run add2 --csv summaries      # needs a GPU
nsyswrap scenarios run add --variant grid        # needs a GPU
```

`nsyswrap scenarios run all` runs every scenario that the machine can run, and says why it skips the others.
It takes about ten minutes on an H200, and writes an index of the run folders (`index.md`) and one CSV
(`scenario_runs.csv`). Traces of torch.profiler and the PTX of Triton's kernels are in `scenario-files` of
a run folder.

One experiment needs neither a GPU nor nsys:

```sh
nsyswrap scenarios run triton_debug --variant interpreter    # needs PyTorch and Triton
```

| | scenario | question |
|---|---|---|
{rows}

The tables were recorded on {machine}. Your figures differ, the answers should not.
*Program* is the time that the program itself measured. The columns after it are medians per iteration, from
nsys' capture of the same run.
"""


def write() -> None:
    """Make the page from what is recorded in this checkout."""
    target = recorded.ROOT / PAGE
    target.parent.mkdir(exist_ok=True)
    target.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page: a section for each lesson of the course, after checking its answer."""
    with tempfile.TemporaryDirectory() as scratch:
        sections = [section(item, Path(scratch)) for item in LESSONS]
        origin = open_capture(recorded.run_folder("add/grid", Path(scratch))).info
    machine = f"an {origin.gpus[0]}, driver {origin.driver_version}, CUDA {origin.cuda_version}"
    rows = "\n".join(
        f"| {number} | [`{item.scenario}`](#{item.scenario}) | {item.question} |"
        for number, item in enumerate(LESSONS, 1)
    )
    return HEAD.format(machine=machine, rows=rows) + "".join(sections)


def section(item: Lesson, scratch: Path) -> str:
    """Return a scenario's question, its closing tables, what to look at in them, and the answer."""
    scenario = find_scenario(item.scenario)
    folders = {
        variant: recorded.run_folder(f"{item.scenario}/{variant}", scratch) for variant in scenario.variants
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
        f"**{item.question}** {scenario.summary}",
        f"```sh\n{command}      # needs a GPU\n```",
        f"Look at {item.look}:",
        f"```text\n{shown}```",
        answer(item, folders, scratch).rstrip(),
    )
    return "".join(f"\n{part}\n" for part in parts)


def _arguments(scenario: Scenario) -> tuple[str, ...]:
    given = recorded.ARGUMENTS.get(scenario.name, ())
    return ("--", *given) if given else ()
