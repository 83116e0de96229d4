"""The tables of a plan file. Every error names the file, the table and the key."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from nsyswrap.base.errors import PlanError
from nsyswrap.base.files import read_toml, why
from nsyswrap.base.nsys.options import OPTIONS
from nsyswrap.base.text import did_you_mean
from nsyswrap.record.batch.plan.parameters import FloatLiteral

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
    for name, row in sorted(OPTIONS.items(), key=lambda item: item[1].plan)
    if row.plan
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
                self._refuse_key(key, valid_keys)

    def _refuse_key(self, key: str, valid_keys: Collection[str]) -> NoReturn:
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
