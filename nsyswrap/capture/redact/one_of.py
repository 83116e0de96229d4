"""A pattern of many texts that costs little more than one of few."""

from __future__ import annotations

import re
from collections.abc import Iterable


def one_of(texts: Iterable[str], longest: int) -> str:
    """Return a pattern of these texts, by their first ``longest`` characters; the longest is tried first."""

    def branches(group: list[str], depth: int) -> str:
        by_next: dict[str, list[str]] = {}
        for text in group:
            by_next.setdefault(text[depth : depth + 1], []).append(text)
        found = [
            re.escape(first) + (branches(rest, depth + 1) if first and depth + 1 < longest else "")
            for first, rest in sorted(by_next.items(), reverse=True)  # the end of a text is tried last
        ]
        return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"

    return branches(list(texts), 0)
