"""The idle section: GPU idle time by cause, and the longest gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.render import colors
from nsyswrap.render.page.bars import Part, stacked_bar
from nsyswrap.render.page.html import Section, empty, missing, section, verdict_paragraphs
from nsyswrap.render.page.tables import folded_table
from nsyswrap.reports.table import Column, Schema, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nsyswrap.render.page.html import Markup
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

_MOST_GAPS = 50  # in the table of the longest gaps

CAUSE_TABLE = Schema(
    name="idle_causes",
    title="Idle time by cause",
    columns=(
        Column("cause", "Cause", Unit.TEXT, "activity of the host during the gaps"),
        Column("idle_ns", "Idle", Unit.NS, "sum over all gaps"),
        Column("share_percent", "Share", Unit.PERCENT, "share of all idle time"),
    ),
)


def idle(subject: Subject) -> Markup:
    """Return a bar of idle time for each capture, and the tables of causes and gaps."""
    gaps = subject.tables("gpu_idle", _MOST_GAPS)
    causes = {label: by_cause(gaps_of(subject.captures[label]).spent_ns) for label in gaps}
    totals = {label: int(np.asarray(table.data["idle_ns"]).sum()) for label, table in causes.items()}
    longest = max(totals.values(), default=0)
    bars = (
        stacked_bar(subject.heading(label, f"GPU idle for {duration(totals[label])}"), _parts(table), longest)
        for label, table in causes.items()
        if totals[label]
    )
    all_causes = subject.as_one({label: table for label, table in causes.items() if len(table)})
    all_gaps = subject.table("gpu_idle")
    return section(
        "idle",
        "GPU idle time",
        verdict_paragraphs(gaps),
        empty(subject, "gpu_idle"),
        *bars,
        folded_table(all_causes) if all_causes is not None else None,
        folded_table(all_gaps, f"{min(_MOST_GAPS, len(all_gaps))} longest gaps", top=_MOST_GAPS)
        if all_gaps is not None and len(all_gaps)
        else None,
        missing(subject.missing("gpu_idle")),
    )


def by_cause(idle_ns: Mapping[str, int]) -> Table:
    """Return the idle time of each cause over all gaps, the longest first."""
    total = sum(idle_ns.values())
    ordered = sorted(((ns, cause) for cause, ns in idle_ns.items() if ns), key=lambda pair: -pair[0])
    return table_of(CAUSE_TABLE, [(CAUSES[cause], ns, 100.0 * ns / total) for ns, cause in ordered])


def _parts(table: Table) -> list[Part]:
    keys = {text: cause for cause, text in CAUSES.items()}
    return [
        Part(str(text), float(str(ns)), percent(float(str(share))), colors.CAUSES[keys[str(text)]])
        for text, ns, share in table.rows()
    ]


SECTION = Section("idle", "GPU idle time", idle, reads=("gpu_idle",), of_gpu=True, turn=1)
