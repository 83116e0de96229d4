"""Write SQL statements with quoted names of tables and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def quoted(name: str) -> str:
    """Return a name as an SQL identifier in double quotes."""
    return '"{}"'.format(name.replace('"', '""'))


def statement(template: str, /, **names: str | Iterable[str]) -> str:
    """Return an SQL statement with each ``{placeholder}`` replaced by its quoted name or names."""
    texts = {
        placeholder: quoted(name) if isinstance(name, str) else ", ".join(map(quoted, name))
        for placeholder, name in names.items()
    }
    return template.format(**texts)
