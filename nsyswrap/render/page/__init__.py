"""One HTML page of captures: a file that needs nothing else, loads nothing, and runs no script but its own.

``render`` puts it together from the sections, each a module of its own; the page's style and scripts lie in
``static``. A section is a function that takes the Subject and returns Markup; one that has nothing to show
returns None, and has no place in the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.page.document import document
from nsyswrap.render.page.sections.copies import copies
from nsyswrap.render.page.sections.gpu_gaps import idle
from nsyswrap.render.page.sections.head import head
from nsyswrap.render.page.sections.kernels import classes, kernels
from nsyswrap.render.page.sections.latency import latency
from nsyswrap.render.page.sections.ranks import ranks, side_by_side
from nsyswrap.render.page.sections.timeline import timeline
from nsyswrap.render.page.sections.verdicts import verdicts
from nsyswrap.render.page.subject import Subject
from nsyswrap.reports.ranks import make_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.html import Markup

# Anchor, name in the list at the page's top, and what makes it.
SECTIONS: tuple[tuple[str, str, Callable[[Subject], Markup | None]], ...] = (
    ("ran", "Origin", head),
    ("ranks", "Ranks", ranks),
    ("verdicts", "Verdicts", verdicts),
    ("timeline", "Timeline", timeline),
    ("kernels", "Kernels", kernels),
    ("classes", "Classes", classes),
    ("latency", "Latency", latency),
    ("copies", "Copies", copies),
    ("idle", "Idle", idle),
)


def render(captures: Mapping[str, Capture]) -> str:
    """Return the page of one capture, or of several side by side, by label."""
    return _page(" · ".join(captures), Subject(captures))


def render_ranks(name: str, members: Sequence[Member]) -> str:
    """Return the page of a job of this name; raises UsageError where there are fewer than two ranks."""
    job = make_job(members)
    return _page(f"{name}: {len(members):,} ranks", Subject(side_by_side(job, members), job))


def _page(title: str, subject: Subject) -> str:
    made = [(anchor, name, make(subject)) for anchor, name, make in SECTIONS]
    shown = [(anchor, name, part) for anchor, name, part in made if part is not None]
    return document(f"{title} ({subject.selected})" if subject.selected else title, shown)
