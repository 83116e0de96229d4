"""The tables of a plan file, read with care: every complaint names file, table and key."""

from __future__ import annotations

import difflib
import json
import math
import shlex
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from nsyswrap.base.errors import PlanError
from nsyswrap.record.batch.plan.parameters import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_RUNS = ("name", "command", "module", "arch", "scenario", "variants", "arguments", "grid", "points")
KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("name", "repeat", "timeout", "max_running", "share", "env", "nsys", "slurm", "node", "runs"),
    "[nsys]": (
        *("trace", "stats", "um_faults", "graphs", "capture_range", "delay", "duration"),
        *("args", "path", "keep_environment", "discard_rep"),
    ),
    "[node]": ("setup", "wrapper", "python"),
    "[[runs]]": (*_RUNS, "repeat", "timeout", "env", "nsys"),
}
_LONGEST_SHOWN = 60


class Kind(NamedTuple):
    """What a value has to be, in words and as a test."""

    meaning: str
    accepts: Callable[[Any], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and "\0" not in one for one in value)


TEXT = Kind("a text that is not empty", _is_text)
TEXTS = Kind("a list of texts", _are_texts)
WORDS = Kind("a text, or a list of texts", lambda value: _is_text(value) or _are_texts(value))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
COUNT = Kind("a whole number of at least 1", lambda value: type(value) is int and value >= 1)
SECONDS = Kind("a number of seconds above 0", lambda value: _is_number(value) and value > 0)
DELAY = Kind("a number of seconds, 0 or above", lambda value: _is_number(value) and value >= 0)
TABLE = Kind("a table", lambda value: isinstance(value, dict))
TABLES = Kind(
    "a list of tables, with one at least",
    lambda value: isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value),
)
LIST = Kind("a list with a value in it, as in [1, 2]", lambda value: isinstance(value, list) and bool(value))


def one_of(*choices: str) -> Kind:
    """Return the kind of a text out of a few."""
    return Kind(" or ".join(map(repr, choices)), lambda value: value in choices)


class Table:
    """One table. ``where`` stands before every complaint; ``keys`` are those it may have, None for any."""

    def __init__(self, content: Mapping[str, Any], where: str, keys: Sequence[str] | None = None) -> None:
        self.content, self.where = content, where
        for key in content:
            if keys is not None and key not in keys:
                self._refuse_key(key, keys)

    def _refuse_key(self, key: str, keys: Sequence[str]) -> NoReturn:
        close = difflib.get_close_matches(key, keys, 1)
        homes = [name or "the head of the file, before any table" for name, own in KEYS.items() if key in own]
        advice = f"did you mean {close[0]!r}? " if close else f"it belongs in {homes[0]}. " if homes else ""
        raise PlanError(
            f"{self.where}: there is no key {key!r} here", f"{advice}keys here: {', '.join(keys)}"
        )

    def get(self, key: str, kind: Kind, default: Any = None) -> Any:  # noqa: ANN401 - the kind tells
        """Return the value of a key, or ``default``; raises PlanError where it is of another kind."""
        if key not in self.content:
            return default
        value = self.content[key]
        if not kind.accepts(value):
            self.refuse(f"{key} = {shown(value)} is not {kind.meaning}")
        return float(value) if isinstance(value, Written) else value

    def words(self, key: str) -> tuple[str, ...]:
        """Return a command line, given as a list or split as a shell does."""
        found = self.get(key, WORDS, [])
        try:
            words = shlex.split(found) if isinstance(found, str) else found
        except ValueError as error:
            self.refuse(f"{key} = {shown(found)} cannot be split into words: {error}")
        if key in self.content and not (words and words[0]):
            self.refuse(f"{key} is empty")
        return tuple(words)

    def table(self, key: str, keys: Sequence[str] | None = None) -> Table:
        """Return a table in this one; an empty one where there is none."""
        return Table(self.get(key, TABLE, {}), f"{self.where}: [{key}]", keys)

    def refuse(self, message: str, hint: str = "") -> NoReturn:
        """Raise PlanError with where this table is."""
        raise PlanError(f"{self.where}: {message}", hint)


def shown(value: object) -> str:
    """Return a value about as TOML writes it, not too long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def load(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; raises PlanError where it cannot be read or is none."""
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - there since Python 3.11
    else:
        import tomli as tomllib  # noqa: PLC0415 - tomllib as it was before
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Written)
    except OSError as error:
        raise PlanError(f"cannot read the plan {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is no plan: it is not UTF-8 ({error})") from None
    except (ValueError, RecursionError) as error:  # of tomllib, and of a number with too many digits
        raise PlanError(f"{path} is no TOML: {error}", "texts stand in quotes; see https://toml.io") from None
