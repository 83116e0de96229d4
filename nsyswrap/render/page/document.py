"""Make an HTML file of sections, with its style sheet, scripts and navigation; a policy forbids all else."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

from nsyswrap.base.version import version
from nsyswrap.render.page.charts import hue_rules, textures
from nsyswrap.render.page.html import Markup, element

if TYPE_CHECKING:
    from collections.abc import Sequence


def document(
    title: str,
    sections: Sequence[tuple[str, str, Markup]],
    *,
    styles: tuple[str, ...] = ("page.css",),
    scripts: tuple[str, ...] = ("tables.js", "paper.js"),
    needs_scripts: str = "The sorting of tables needs scripts.",
) -> str:
    """Return the file. Each section is its anchor, its name in the navigation, and its markup.

    ``styles`` and ``scripts`` are files of the folder ``static``.
    """
    style, script = Markup(hue_rules() + _static(styles)), _static(scripts)
    head = element(
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
    body = element(
        "body",
        textures(),
        element("header", element("h1", title), _navigation(sections)),
        element("noscript", element("p", needs_scripts)),
        element("main", *(markup for _, _, markup in sections)),
        element("footer", element("p", f"nsyswrap {version()}")),
        element("script", script),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _navigation(sections: Sequence[tuple[str, str, Markup]]) -> Markup:
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
