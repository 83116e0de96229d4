"""Render captures as one self-contained HTML page that needs no network.

The style sheet and the scripts of the page are in ``static``. A policy forbids all else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np

from nsyswrap.analysis.ranks.job import RankJob
from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.base.errors import UnreadCapture
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import first_of, shorten, without_folders
from nsyswrap.base.units import duration
from nsyswrap.base.version import version
from nsyswrap.capture.capture import Capture
from nsyswrap.render.page.html import Markup, Subject, element, hue_rules, section, textures
from nsyswrap.reports.answer.lines import part_name
from nsyswrap.reports.ranks import make_job

with lazy_imports():
    from nsyswrap.render.page import sections as page_sections

_DRAWING = ("columns", "events", "bins", "view", "pixels", "curves", "picture", "rows", "overview")
_READING = ("readout", "measure", "search", "limit", "pointer", "wayback", "timeline", "links")
_LAST = ("strip", "redraw", "icicle", "ranks")
_SCRIPTS = tuple(f"{name}.js" for name in ("tables", "paper", *_DRAWING, *_READING, *_LAST))
_NOT_READ = "not_read"  # an anchor
GENERATOR = 'name="generator" content="nsyswrap '  # how a page begins that was written here
_COMMAND_WIDTH = 60  # characters of the first line
_IN_TITLE = 3  # labels
_DATE = len("2026-01-31")  # of a time
_RANKS_SIDE_BY_SIDE = 8  # by the sections that show a capture each


def document(
    title: str,
    sections: Sequence[tuple[str, str, Markup]],
    *,
    styles: tuple[str, ...] = ("page.css",),
    scripts: tuple[str, ...] = ("tables.js", "paper.js"),
    head: Markup | None = None,
) -> str:
    """Return an HTML file. Each section is its anchor, its name in the navigation, and its markup.

    ``styles`` and ``scripts`` are files of the folder ``static``. ``head`` stands beside the title, or in its
    place.
    """
    style, script = Markup(hue_rules() + _static(styles)), _static(scripts)
    meta = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"nsyswrap {version()}"),
        element("title", f"{title} · nsyswrap"),
        element("link", rel="icon", href="data:,"),
        element("style", style),
    )
    links = (element("a", name, href=f"#{anchor}") for anchor, name, _ in sections)
    has_timeline = "timeline.js" in scripts
    needing = "The timeline and the sorting of tables need" if has_timeline else "The sorting of tables needs"
    body = element(
        "body",
        textures(),
        element("header", head or element("h1", title), element("nav", *links, aria_label="Sections")),
        element("noscript", element("p", f"{needing} scripts.")),
        element("main", *(markup for _, _, markup in sections)),
        element("footer", element("p", f"nsyswrap {version()}")),
        element("script", script),
    )
    return f"<!DOCTYPE html>\n{element('html', meta, body, lang='en')}\n"


def _static(names: tuple[str, ...]) -> Markup:
    folder = resources.files(__package__) / "static"
    return Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in names))


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def render(captures: Mapping[str, Capture], title: str = "", left_out: Sequence[UnreadCapture] = ()) -> str:
    """Return the page of one capture, or of several captures side by side. Keys are labels.

    ``title`` is the title of the page instead of the first labels. The page begins with those that are left
    out.
    """
    labels = [*captures]
    few = len(labels) <= _IN_TITLE
    named = " · ".join(labels) if few else first_of(labels, _IN_TITLE)
    return _page(title or named, Subject(captures), left_out)


def render_ranks(name: str, members: Sequence[RankCapture], left_out: Sequence[UnreadCapture] = ()) -> str:
    """Return the page of a job with several ranks. It begins with those that are left out.

    Raises UsageError for fewer than two ranks.
    """
    job = make_job(members)
    return _page(f"{name}: {len(members):,} ranks", Subject(side_by_side(job, members), job), left_out)


def side_by_side(job: RankJob, members: Sequence[RankCapture]) -> dict[str, Capture]:
    """Return at most 8 captures of a job by label: the ranks that wait least and those that wait most.

    If no rank waits, return the ranks that work longest and shortest.
    """
    positions: Sequence[int] = range(len(members))
    if len(members) > _RANKS_SIDE_BY_SIDE:
        waiting, own = (
            np.array([int(part.sum()) for part in parts])
            for parts in zip(*((times.waiting_ns, times.own_ns) for times in job.times), strict=True)
        )
        order = np.lexsort((-own, waiting)).tolist()
        half = _RANKS_SIDE_BY_SIDE // 2
        positions = sorted(order[:half] + order[-half:])
    return {members[position].label: members[position].capture for position in positions}


def _page(title: str, subject: Subject, left_out: Sequence[UnreadCapture]) -> str:
    every = [one for one in page_sections.SECTIONS if subject.has_gpu_work or not one.of_gpu]
    made = {one.anchor: one.make(subject) for one in sorted(every, key=lambda one: one.turn)}
    sections = [(one.anchor, one.name, markup) for one in every if (markup := made[one.anchor]) is not None]
    if left_out:
        items = (element("li", without_folders(capture.text)) for capture in left_out)
        listed = section(_NOT_READ, "Not read", element("ul", *items, class_="warning"))
        sections.insert(0, (_NOT_READ, "Not read", listed))
    title = f"{title} ({subject.selected})" if subject.selected else title
    return document(title, sections, scripts=_SCRIPTS, head=_first_line(title, subject))


def _first_line(title: str, subject: Subject) -> Markup:
    """Return the program, its GPU, its steps and its date; then what chooses the part that is shown."""
    [label, *others] = subject.captures
    summary, info = subject.summaries[label], subject.captures[label].info
    facts: list[str] = []
    if not others:
        steps = summary.answer.steps if summary.answer else None
        times = f"{steps.count:,} steps x {duration(steps.mean_ns)}" if steps else ""
        gpus = " + ".join(dict.fromkeys(info.gpus)).replace("NVIDIA ", "")
        command = shorten(summary.command, _COMMAND_WIDTH)
        facts = [part for part in (command, gpus, times, info.started_utc[:_DATE]) if part]
    return element(
        "div",
        element("h1", title),
        element("p", " · ".join(facts), class_="facts"),
        _switch(subject) if subject.steady is not None else None,
        element("button", "Copy link", type="button", class_="copy-link", hidden=True),
        class_="line",
    )


def _switch(subject: Subject) -> Markup:
    """Return the choice of the part that all figures are about; it works without scripts."""
    answers = [subject.summaries[label].answer for label in subject.captures if subject.is_steady(label)]
    judged = {part_name(answer, article="") for answer in answers if answer is not None}
    steady = judged.pop() if len(judged) == 1 else "steady part"
    choices = (
        element("label", element("input", type="radio", name="part", id=name, checked=name == "steady"), text)
        for name, text in (("steady", steady), ("whole", "whole capture"))
    )
    return element("fieldset", element("legend", "Figures of", class_="unseen"), *choices, class_="switch")
