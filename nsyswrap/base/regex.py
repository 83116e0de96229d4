"""Regular expressions that are compiled when they are first used: a screen uses half of those it imports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import compile as regex
else:

    class regex:  # noqa: N801 - called as re.compile is
        """Stand in for a compiled pattern: the first use of a method compiles it and keeps the method."""

        def __init__(self, pattern: str, flags: int = 0) -> None:
            self._source = pattern, flags

        def __getattr__(self, name: str) -> object:
            value = getattr(re.compile(*self._source), name)
            setattr(self, name, value)
            return value


__all__ = ["regex"]
