"""The tables of a plan file. Every error names the file, the table and the key."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from nsyswrap.base.errors import PlanError
from nsyswrap.base.files import read_toml, why
from nsyswrap.base.nsys.options import IN_PLANS, OPTIONS
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import did_you_mean
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
    """Return the parameter's value for a TOML value. Raises UnusableValue for a list, a table or a date."""
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

    Raises UnusableValue if the quotes do not match, or if there is no value.
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


_LONGEST_SHOWN = 60
_LARGEST = 2**63


class ValueKind(NamedTuple):
    """A kind of value: its description in errors, and a test."""

    meaning: str
    accepts: Callable[[Any], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and "\0" not in one for one in value)


TEXT = ValueKind("a string that is not empty", _is_text)
TEXTS = ValueKind("a list of strings", _are_texts)
WORDS = ValueKind("a string or a list of strings", lambda value: _is_text(value) or _are_texts(value))
FLAG = ValueKind("true or false", lambda value: isinstance(value, bool))
COUNT = ValueKind("a whole number, 1 or more", lambda value: type(value) is int and 1 <= value < _LARGEST)
SECONDS = ValueKind("a number of seconds above 0", lambda value: _is_number(value) and value > 0)
DELAY = ValueKind("a number of seconds, 0 or more", lambda value: _is_number(value) and value >= 0)
TABLE = ValueKind("a table", lambda value: isinstance(value, dict))
TABLES = ValueKind(
    "a list with at least one table",
    lambda value: isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value),
)
LIST = ValueKind(
    "a list with at least one value, for example [1, 2]",
    lambda value: isinstance(value, list) and bool(value),
)


def one_of(*choices: str) -> ValueKind:
    """Return the kind of a text that is one of ``choices``."""
    return ValueKind(" or ".join(map(repr, choices)), lambda value: value in choices)


_KINDS = {"text": TEXT, "texts": TEXTS, "flag": FLAG, "count": COUNT, "seconds": SECONDS, "delay": DELAY}
# The keys of [nsys], in their order: the name of the option, and the kind of its value
NSYS = {
    row.key: (name, one_of(*row.choices) if row.choices else _KINDS[row.values])
    for name in IN_PLANS
    for row in [OPTIONS[name]]
}
HEAD_KEYS = (
    *("name", "repeat", "timeout", "max_running", "stop_after_empty", "share"),
    *("env", "nsys", "require", "node", "runs"),
)
_RUN_KEYS = ("name", "command", "module", "arch", "nvcc", "scenario", "variants", "arguments")
_LAUNCH_KEYS = ("launcher", "ntasks", "profiled_ranks", "profiled", "gpus")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "[nsys]": tuple(NSYS),
    "[require]": ("gpu", "nsys", "driver"),
    "[node]": ("setup", "wrapper", "python"),
    "[[runs]]": (*_RUN_KEYS, *_LAUNCH_KEYS, "grid", "points", "repeat", "timeout", "env", "nsys"),
}


def plan_keys(executor_tables: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the keys of each table of a plan; "" is its head.

    Executors may have tables of their own, for all runs or in one [[runs]].
    """
    at = HEAD_KEYS.index("node")
    keys = {"": (*HEAD_KEYS[:at], *executor_tables, *HEAD_KEYS[at:]), **_KEYS}
    return {**keys, "[[runs]]": (*keys["[[runs]]"], *executor_tables)}


class TomlTable:
    """One table of a plan. ``where`` begins every error message.

    ``keys`` has the keys of each table of the plan. ``name`` is this table's name there, or None for a table
    that may have any key.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        where: str,
        keys: Mapping[str, tuple[str, ...]] | None = None,
        name: str | None = None,
    ) -> None:
        self.content, self.where, self._keys = content, where, keys or {}
        valid_keys = content if name is None else self._keys.get(name, content)
        for key in content:
            if key not in valid_keys:
                close = did_you_mean(key, valid_keys)
                homes = [
                    name or "the head of the file, before any table"
                    for name, keys in self._keys.items()
                    if key in keys
                ]
                advice = f"{close} " if close else f"{key!r} belongs in {homes[0]}. " if homes else ""
                self.refuse(f"no key named {key!r}", f"{advice}keys: {', '.join(valid_keys)}")

    def get(self, key: str, kind: ValueKind, default: Any = None) -> Any:  # noqa: ANN401 - the type follows from the kind
        """Return the value of a key, or ``default``. Raises PlanError if it is of another kind."""
        if key not in self.content:
            return default
        value = self.content[key]
        if not kind.accepts(value):
            self.refuse(f"invalid {key} = {as_toml(value)}: expected {kind.meaning}")
        return float(value) if isinstance(value, FloatLiteral) else value

    def words(self, key: str) -> tuple[str, ...]:
        """Return the words of a command line: a list, or a text that is split as a shell does."""
        value = self.get(key, WORDS, [])
        try:
            words = shlex.split(value) if isinstance(value, str) else value
        except ValueError as error:
            self.refuse(f"{key} = {as_toml(value)} cannot be split into words: {error}")
        if key in self.content and not (words and words[0]):
            self.refuse(f"{key} is empty")
        return tuple(words)

    def table(self, key: str) -> TomlTable:
        """Return a table in this one, which is empty if the key is missing."""
        return TomlTable(self.get(key, TABLE, {}), f"{self.where}: [{key}]", self._keys, f"[{key}]")

    def refuse(self, message: str, hint: str = "") -> NoReturn:
        """Raise PlanError with the place of this table."""
        raise PlanError(f"{self.where}: {message}", hint)


def as_toml(value: object) -> str:
    """Return a value about as TOML writes it, cut if it is long."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, RecursionError):  # thousands of digits or levels
        return "…"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def load(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file. Raises PlanError if it cannot be read or is not TOML."""
    try:
        return read_toml(path, FloatLiteral)
    except FileNotFoundError:
        raise PlanError(f"plan {path} not found") from None
    except OSError as error:
        raise PlanError(f"cannot read the plan {path}: {why(error)}", "give a TOML file") from None
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is not a plan: it is not UTF-8 ({error})") from None
    except ValueError as error:  # TOML errors, and numbers with too many digits
        raise PlanError(
            f"{path} is not valid TOML: {error}", "put strings in quotes; see https://toml.io"
        ) from None
