"""The values of parameters, and the words of command lines in which ``{name}`` stands for a value."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from nsyswrap.record.batch.task import Scalar

PARAMETER = r"[^\W\d][\w-]*"  # the name of one
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_INT64 = range(-(2**63), 2**63)  # the integers that Parquet can hold

# {{name}} is an escaped {name}; ${name} is the shell's. Other braces (JSON, regular expressions) are text.
_FIELD = re.compile(rf"\{{(\{{{PARAMETER}\}})\}}|(?<!\$)\{{({PARAMETER})\}}")


class FloatLiteral(float):
    """A float of a plan file with its text: 1e-5 stays 1e-5 in a command line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text.replace("_", "")


class ParameterValue(NamedTuple):
    """One value of a parameter: as a number or text for tables, and as text for command lines."""

    plain: Scalar
    text: str


class UnusableValue(ValueError):
    """Something that cannot be the value of a parameter. The message says why."""


def of_toml(value: object) -> ParameterValue:
    """Return the parameter's value for a TOML value. Raises Unusable for a list, a table or a date."""
    if isinstance(value, bool):
        return ParameterValue(value, "true" if value else "false")
    if isinstance(value, int):
        if value not in _INT64:
            raise UnusableValue("the number does not fit into 64 bits; write it as a string")
        return ParameterValue(value, str(value))
    if isinstance(value, FloatLiteral):
        if not math.isfinite(value):
            raise UnusableValue("the number is not finite; write it as a string")
        return ParameterValue(float(value), value.text)
    if isinstance(value, str):
        if "\0" in value:
            raise UnusableValue("the string contains a zero byte")
        return ParameterValue(value, value)
    raise UnusableValue("expected a string, a number, true or false")


def of_text(text: str) -> ParameterValue:
    """Return the value that was typed, as a number if it is one. Its text stays as typed."""
    number = _NUMBER.fullmatch(text)
    if number is None:
        return ParameterValue(text, text)
    if any(number.groups()):
        return ParameterValue(float(text) if math.isfinite(float(text)) else text, text)
    is_short = len(text) < len(str(2**64))  # Python refuses to parse thousands of digits
    return ParameterValue(int(text) if is_short and int(text) in _INT64 else text, text)


def of_list(text: str) -> list[ParameterValue]:
    """Return the values of ``1,2,3``, a row of CSV: a value with a comma or a quote is quoted.

    Raises Unusable if the quotes do not match, or if there is no value.
    """
    try:
        rows: Sequence[list[str]] = list(csv.reader([text], strict=True))
    except csv.Error as error:
        raise UnusableValue(
            f'expected a list ({error}), for example n=1,2 or s="a,b","say ""hi""",c'
        ) from None
    if not rows or not rows[0]:
        raise UnusableValue('expected a value, for example n=1,2, or n="" for an empty one')
    return [of_text(one) for one in rows[0]]


@dataclass(frozen=True)
class Template:
    """One word of a command line with parameters in it. It stays one word, whatever their values are."""

    word: str

    @cached_property
    def _parts(self) -> list[tuple[str, str]]:
        """Pairs of a text and the name of the parameter after it, which is empty at the end."""
        parts, end = [], 0
        for field in _FIELD.finditer(self.word):
            escaped, name = field.groups(default="")
            parts.append((self.word[end : field.start()] + escaped, name))
            end = field.end()
        return [*parts, (self.word[end:], "")]

    @property
    def names(self) -> list[str]:
        """The names of its parameters, in order."""
        return [name for _, name in self._parts if name]

    def fill(self, texts: Mapping[str, str]) -> str:
        """Return the word with the parameters replaced. Other braces stay, and those in the texts."""
        return "".join(text + (texts.get(name, f"{{{name}}}") if name else "") for text, name in self._parts)


def is_one_edit(one: str, other: str) -> bool:
    """Return True if a letter that is added, removed, changed or swapped with the next makes them equal."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    if len(one) == len(other):
        at = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        swapped = len(at) == 2 and at[1] == at[0] + 1  # noqa: PLR2004 - the two letters
        return len(at) == 1 or (swapped and one[at[0]] + one[at[1]] == other[at[1]] + other[at[0]])
    longer, shorter = sorted((one, other), key=len, reverse=True)
    return any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))
