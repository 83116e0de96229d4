"""What the site has beyond ``docs/``: README as its first page, pages of the top level, and the Python API.

The map in README is the order of the pages. Links that leave ``docs/`` lead to the page of the site, else to
the file in the repository that builds the site. Where there is no such repository they are plain text.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

import nsyswrap

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
TOP = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
API = "api.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s#]*)(#[^()\s]*)?\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"\[([^\]]+)\]\(((?:docs/)?[\w./-]+\.md)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Order the pages as README does. Those that it does not list follow, each named by its heading."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("## Documentation") :]
    rows = [(title[0].upper() + title[1:], path) for title, path in ROW.findall(table)]
    config.nav = [{"nsyswrap": "index.md"}]
    config.nav += [{title: TOP.get(path, path.removeprefix("docs/"))} for title, path in rows]
    config.nav.append({"Python API": API})
    listed = {path for _, path in rows}
    others = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    config.nav += [path.removeprefix("docs/") for path in others if path not in listed]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in ``docs/``."""
    for path, name in TOP.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding="utf-8")))
    files.append(File.generated(config, API, content=_api()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn each link into one that works on the site."""
    del config
    names = {name: path for path, name in TOP.items()}
    source = names.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def linked(match: re.Match[str]) -> str:
        picture, text, target, anchor = match.groups()
        if not target or ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        uri = TOP.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(uri):
            target = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
            return f"{picture}[{text}]({target}{anchor or ''})"
        repository = os.environ.get("GITHUB_REPOSITORY")
        if not repository:
            return str(text)
        return f"[{text}]({os.environ['GITHUB_SERVER_URL']}/{repository}/blob/HEAD/{path}{anchor or ''})"

    parts = CODE.split(markdown)
    return "".join(part if i % 2 else LINK.sub(linked, part) for i, part in enumerate(parts))


def _api() -> str:
    """Return a page of the public classes and functions, from their docstrings."""
    values: list[Any] = [getattr(nsyswrap, name) for name in sorted(nsyswrap.__all__)]
    parts = ["# Python API", "What `import nsyswrap` gives. [Python](python.md) shows how it is used."]
    parts += [f"::: {value.__module__}.{value.__qualname__}" for value in values if callable(value)]
    return "\n\n".join(parts)
