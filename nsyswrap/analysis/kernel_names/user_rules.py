"""Rules of the user's own for the class of a kernel, out of a TOML file.

[[class]]
name = "stencil"
pattern = "advec|diffuse"
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = ("name", "pattern")
_FORM = 'write, for each class and in the order they are tried: [[class]] name = "..." pattern = "REGEX"'


def read_rules(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the classes and patterns of a file, in its order.

    Raises UsageError with what is wrong where, and how to write it.
    """
    entries = _document(path).get("class")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: there is no [[class]] in it", _FORM)
    return tuple(_rule(entry, f"{path}: [[class]] number {i}") for i, entry in enumerate(entries, 1))


def _document(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - most reports need none
    else:
        import tomli as tomllib  # noqa: PLC0415 - tomllib as it was before Python 3.11
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}", _FORM) from None
    for key in found:
        if key != "class":
            raise UsageError(f"{path}: there is no {key!r} in such a file", _FORM)
    return found


def _rule(entry: object, where: str) -> tuple[str, str]:
    keys = entry if isinstance(entry, dict) else {}
    wrong = [f"lacks {key!r}" for key in _KEYS if key not in keys]
    wrong += [f"has an unknown {key!r}" for key in keys if key not in _KEYS]
    if wrong:
        raise UsageError(f"{where} {' and '.join(wrong)}", _FORM)
    name, pattern = keys["name"], keys["pattern"]
    if not all(isinstance(text, str) and text for text in (name, pattern)):
        raise UsageError(f"{where}: name and pattern are texts, and not empty", _FORM)
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{where}: {pattern!r} is no regular expression: {error}", _FORM) from None
    return name, pattern
