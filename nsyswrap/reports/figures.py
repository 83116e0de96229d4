"""The figures of headlines by key: the key is the same on the page, in JSON, in pictures and in Python."""

from __future__ import annotations

from typing import NamedTuple

from nsyswrap.analysis.answer import Answer, JudgedSteps


class SentenceFigure(NamedTuple):
    """A figure in a sentence: its key, its value, and the part of the sentence that says it."""

    key: str
    value: float
    text: str


def figures_of(answer: Answer) -> dict[str, float]:
    """Return the figures of an answer by key: the place of each in its JSON."""
    figures: dict[str, float] = {}
    if answer.devices:
        figures["busy_percent"] = answer.share(sum(answer.busy_ns.values()))
        figures["idle_percent"] = answer.share(sum(answer.idle_ns.values()))
    if answer.steps is not None:
        figures |= step_figures(answer.steps)
    for number, finding in enumerate(answer.findings):
        if finding.saved_percent is not None:
            figures[f"findings.{number}.potential_percent"] = finding.saved_percent
    return figures


def step_figures(steps: JudgedSteps) -> dict[str, float]:
    """Return the figures of the steps that are judged, by key; times in ns."""
    return {f"steps.{name}": getattr(steps, name) for name in ("count", "mean_ns", "median_ns")}
