"""Suggest the name that the user meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.errors import Unreadable
from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

with lazy_imports():  # used for wrong names
    import difflib

    from nsyswrap.base import paths

_MOST = 3  # suggestions
_WORSE = 0.05  # of the similarity, from 0 to 1: a name that much less similar than the best is left out


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean 'x' or 'y'?`` with the most similar other names, or an empty text."""
    spelled = {one.casefold(): one for one in names if one != name}
    close = difflib.get_close_matches(name.casefold(), spelled, _MOST)
    likeness = [difflib.SequenceMatcher(None, one, name.casefold()).ratio() for one in close]
    kept = [
        repr(spelled[one])
        for one, ratio in zip(close, likeness, strict=True)
        if ratio > max(likeness) - _WORSE
    ]
    return f"did you mean {' or '.join(kept)}?" if kept else ""


def did_you_mean_file(path: Path) -> str:
    """Return ``did you mean 'name'?`` for a path that does not exist, with names in the same folder."""
    try:
        return did_you_mean(path.name, paths.names(path.parent))
    except Unreadable:
        return ""


def unknown(kind: str, name: str, names: Iterable[str], otherwise: str = "") -> tuple[str, str]:
    """Return the message for a name that does not exist, and a hint.

    The hint has similar names, or else ``otherwise``, by default all names.
    """
    names = list(names)
    otherwise = otherwise or f"{kind}s: {' '.join(names)}"
    return f"no {kind} named {name!r}", did_you_mean(name, names) or otherwise
