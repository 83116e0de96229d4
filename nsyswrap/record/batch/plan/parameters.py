"""Values of parameters, as a table of results holds them, and words with ``{name}`` that take them."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.record.batch.task import Scalar


PARAMETER = r"[^\W\d][\w-]*"  # the name of one
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_INT64 = range(-(2**63), 2**63)  # what Parquet holds

# {{name}} is an escaped {name}; ${name} is the shell's. Other braces (JSON, regular expressions) are text.
_FIELD = re.compile(rf"\{{(\{{{PARAMETER}\}})\}}|(?<!\$)\{{({PARAMETER})\}}")


class Written(float):
    """A float of a file that knows how it was written: 1e-5 is to be 1e-5 in a command line too."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text.replace("_", "")


class Value(NamedTuple):
    """One value of a parameter: as a number or text, and as it is written where it is used."""

    plain: Scalar
    text: str


class Unusable(ValueError):
    """What cannot be a value of a parameter: the message says what it is instead."""


def of_toml(found: object) -> Value:
    """Return the value that stands in a file; raises Unusable for lists, tables, dates and the like."""
    if isinstance(found, bool):
        return Value(found, "true" if found else "false")
    if isinstance(found, int):
        if found not in _INT64:
            raise Unusable("a whole number beyond 64 bits: write it as text")
        return Value(found, str(found))
    if isinstance(found, Written):
        if not math.isfinite(found):
            raise Unusable("no finite number: write it as text")
        return Value(float(found), found.text)
    if isinstance(found, str):
        if "\0" in found:
            raise Unusable("a text with a zero byte, which no command line can hold")
        return Value(found, found)
    raise Unusable("neither text, number nor true or false")


def of_text(text: str) -> Value:
    """Return the value that was typed: a number where it is one, the text untouched."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return Value(text, text)
    if any(found.groups()):
        return Value(float(text) if math.isfinite(float(text)) else text, text)
    is_short = len(text) < len(str(2**64))  # Python refuses to parse thousands of digits
    return Value(int(text) if is_short and int(text) in _INT64 else text, text)


def of_list(text: str) -> list[Value]:
    """Return the values of ``1,2,3``: a row of CSV, so one that holds a comma or a quote is quoted.

    Raises Unusable where the quotes do not go together, or there is no value.
    """
    try:
        rows: Sequence[list[str]] = list(csv.reader([text], strict=True))
    except csv.Error as error:
        raise Unusable(f'no list of values ({error}): write n=1,2 or s="a,b","say ""hi""",c') from None
    if not rows or not rows[0]:
        raise Unusable('no value: write n=1,2, or n="" for an empty one')
    return [of_text(one) for one in rows[0]]


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
