"""The runs of both sides, and what they ran on."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nsyswrap.base.text import without_folders
from nsyswrap.base.units import Unit
from nsyswrap.render.page.html import Section, element, section
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.table import Column, Schema, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.compare.model import Comparison, RunFigures, Setup, Side
    from nsyswrap.render.page.html import Markup

_RUNS = Schema(
    "compared_runs",
    "Runs",
    (
        Column("side", "Side", Unit.TEXT, "base or new"),
        Column("run", "Run", Unit.TEXT, "label of the run"),
        Column("started", "Started", Unit.TEXT, "start of the run"),
        Column("node", "Node", Unit.TEXT, "node of the run"),
        Column("steps", "Steps", Unit.COUNT, "steady steps"),
        Column("sm_clock_mhz", "SM Clock (MHz)", Unit.NUMBER, "median SM clock while the GPU worked"),
        Column(
            "throttled_percent",
            "Throttled",
            Unit.PERCENT,
            "samples with a lowered clock while the GPU worked",
        ),
    ),
)


def make(comparison: Comparison) -> Markup:
    """Return a card for each side, and the table of runs."""
    sides = (("Base", comparison.base), ("New", comparison.new))
    rows = [_row(name, run) for name, side in sides for run in side.runs]
    return section(
        "runs",
        "Runs and machine",
        element("div", *(_card(name, side) for name, side in sides), class_="cards"),
        folded_table(table_of(_RUNS, rows)),
    )


def _card(name: str, side: Side) -> Markup:
    runs = f"{len(side.runs):,} run{'' if len(side.runs) == 1 else 's'}"
    return element(
        "article",
        element("h3", without_folders(f"{name}: {side.name}")),
        element("p", runs),
        *(element("p", text) for text in _facts(side.runs[0].setup)),
        class_="card",
    )


def _facts(setup: Setup) -> Iterator[str]:
    """Yield what is known of the first run."""
    if setup.command:
        yield without_folders(shlex.join(setup.command))
    parts = (
        ", ".join(setup.gpus),
        f"driver {setup.driver}" if setup.driver else "",
        f"nsys {setup.nsys}" if setup.nsys else "",
        f"commit {setup.commit}" if setup.commit else "",
        *(f"{library} {version}" for library, version in setup.versions.items()),
    )
    if text := " · ".join(filter(None, parts)):
        yield text


def _row(side: str, run: RunFigures) -> tuple[object, ...]:
    setup = run.setup
    return (
        side,
        without_folders(run.label),
        setup.started or None,
        setup.node or None,
        run.steps or None,
        setup.sm_clock_mhz,
        setup.throttled_percent,
    )


SECTION = Section("runs", "Runs and machine", make)
