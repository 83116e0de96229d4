"""Words with ``{name}`` in them, for which the value of a parameter is put."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from nsyswrap.record.batch.plan.value import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Mapping

# {{name}} is an escaped {name}; ${name} is the shell's. Other braces (JSON, regular expressions) are text.
_FIELD = re.compile(rf"\{{(\{{{PARAMETER}\}})\}}|(?<!\$)\{{({PARAMETER})\}}")


@dataclass(frozen=True)
class Template:
    """One word of a command line. It stays one word, whatever is put in."""

    word: str

    @cached_property
    def _parts(self) -> list[tuple[str, str]]:
        """Pairs of (text, name of the parameter after it, empty for none)."""
        parts, end = [], 0
        for found in _FIELD.finditer(self.word):
            escaped, name = found.groups(default="")
            parts.append((self.word[end : found.start()] + escaped, name))
            end = found.end()
        return [*parts, (self.word[end:], "")]

    @property
    def names(self) -> list[str]:
        """The parameters it uses, in order."""
        return [name for _, name in self._parts if name]

    def fill(self, texts: Mapping[str, str]) -> str:
        """Return the word with the texts of the parameters put in; they are not looked into again."""
        return "".join(text + (texts[name] if name else "") for text, name in self._parts)
