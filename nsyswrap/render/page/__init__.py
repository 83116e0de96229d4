"""Write one HTML page of captures, in a file that loads nothing and runs no script but its own.

The style and the scripts of the page are in ``static``.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
from importlib import resources
from typing import TYPE_CHECKING

from nsyswrap.base.version import __version__
from nsyswrap.render.page.colors import textures
from nsyswrap.render.page.html import Markup, Section, element
from nsyswrap.render.page.sections import NAMES
from nsyswrap.render.page.sections.ranks import side_by_side
from nsyswrap.render.page.subject import Subject
from nsyswrap.reports.ranks import make_job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.capture.capture import Capture


# In the order of the page. Each is a module in ``sections``.
SECTIONS: tuple[Section, ...] = tuple(
    importlib.import_module(f"nsyswrap.render.page.sections.{name}").SECTION for name in NAMES
)
_READS = tuple(dict.fromkeys(name for part in SECTIONS for name in part.reads))

_STYLE = ("page.css",)
_SCRIPTS = ("tables.js", "view.js", "picture.js", "timeline.js", "ranks.js")


def render(captures: Mapping[str, Capture]) -> str:
    """Return the page of one capture, or of several side by side, by label."""
    return _page(" · ".join(captures), Subject(captures, reads=_READS))


def render_ranks(name: str, members: Sequence[Member]) -> str:
    """Return the page of a job of this name; raises UsageError where there are fewer than two ranks."""
    job = make_job(members)
    return _page(f"{name}: {len(members):,} ranks", Subject(side_by_side(job, members), job, _READS))


def _page(title: str, subject: Subject) -> str:
    made = [(part.anchor, part.name, part.make(subject)) for part in SECTIONS]
    shown = [(anchor, name, markup) for anchor, name, markup in made if markup is not None]
    return document(f"{title} ({subject.selected})" if subject.selected else title, shown)


def document(title: str, sections: Sequence[tuple[str, str, Markup]]) -> str:
    """Return the whole file; of each section its anchor and what the list at the page's top calls it."""
    style, script = _static(_STYLE), _static(_SCRIPTS)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"nsyswrap {__version__}"),
        element("title", f"{title} · nsyswrap"),
        element("link", rel="icon", href="data:,"),
        element("style", style),
    )
    body = element(
        "body",
        textures(),
        element("header", element("h1", title), _contents(sections)),
        element("noscript", element("p", "Without scripts: no timeline, and tables that do not sort.")),
        element("main", *(part for _, _, part in sections)),
        element("footer", element("p", f"nsyswrap {__version__}")),
        element("script", script),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _contents(sections: Sequence[tuple[str, str, Markup]]) -> Markup:
    links = (element("a", name, href=f"#{anchor}") for anchor, name, _ in sections)
    return element("nav", *links, aria_label="Sections")


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
