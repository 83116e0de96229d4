"""The form in which a saved baseline has the names and the command line of a capture.

A name of a kernel can have 10,000 characters, and a range or an argument can hold a path or a password. So a
long or private name is stored as a readable one with a hash of the whole. Arguments are stored as a hash
alone: it tells that another command was run, not what its arguments were.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.analysis.compare.model import Side
from nsyswrap.analysis.kernel_names.readable import readable
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.recent_runs import program_of
from nsyswrap.base.text import without_folders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.analysis.compare.model import Key, RunFigures
    from nsyswrap.capture.redact.search import Search

with lazy_imports():
    from nsyswrap.capture.redact import values

LONGEST = 120  # characters of a name that is stored whole
_READABLE = 90  # characters of the readable part of any other
_DIGITS = 12  # of a hash
_HASHED = re.compile(rf"(.*) (#[0-9a-f]{{{_DIGITS}}})", re.DOTALL)
_ARGUMENTS = re.compile(rf"\d+ arguments? #[0-9a-f]{{{_DIGITS}}}")


def public(text: str) -> str:
    """Return a text without the folders of absolute paths, people's names in paths, and credentials."""
    return _search().text(without_folders(text))


@cache
def _search() -> Search:
    return values.shared_search()


@cache
def stored_key(key: Key) -> Key:
    """Return the key of a row in a baseline. That of a row from a baseline stays as it is."""
    name = key.name
    cleaned = public(name)
    hashed = _HASHED.fullmatch(name)
    if cleaned == name and (len(name) <= LONGEST or (hashed and len(hashed[1]) <= LONGEST)):
        return key
    if key.group == "kernel":
        cleaned = readable(cleaned)
    if len(cleaned) > LONGEST:
        cleaned = f"{cleaned[:_READABLE]}..."
    return key._replace(name=f"{cleaned} #{_hash(name)}")


def stored_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return the name of the program, and a hash of its arguments if it has any.

    The folders of absolute paths and what looks like a credential do not count.
    """
    words = tuple(command)
    if not words or (len(words) > 1 and _ARGUMENTS.fullmatch(words[-1])):  # the latter is from a baseline
        return words
    program = program_of({"command": list(words)})
    place = next((i for i, word in enumerate(words) if Path(word).name == program or word == program), 0)
    rest = words[place + 1 :]
    if not rest:
        return (public(program),)
    text = public("\n".join(without_folders(word) for word in rest))
    return public(program), f"{len(rest)} argument{'s' * (len(rest) > 1)} #{_hash(text)}"


def with_full_names(base: Side, new: Side) -> tuple[Side, Side]:
    """Return both sides of a comparison with the same names for the same rows, commands and options.

    What a side has from a baseline gets the full name from the other side, if that is fresh. Of two baselines
    the base gets the names of the new one: other versions may have had other readable ones.
    """
    return _with_names_of(base, new, stored=True), _with_names_of(new, base)


def with_one_name(sides: Sequence[Side]) -> list[Side]:
    """Return the sides of a history with one name for each kernel, whatever versions saved them."""
    every = Side("", tuple(run for side in sides for run in side.runs))
    return [_with_names_of(side, every, stored=True) for side in sides]


def _with_names_of(side: Side, other: Side, *, stored: bool = False) -> Side:
    keys = {
        _by_hash(held): key
        for key in dict.fromkeys(key for run in other.runs for key in run.rows)
        if (held := stored_key(key)) != key or (stored and _HASHED.fullmatch(key.name))
    }
    known = {run.setup.command for run in other.runs}
    commands = {short: full for full in known if (short := stored_command(full)) != full}
    traced = {run.setup.options for run in other.runs}
    options = {public(full): full for full in traced if public(full) != full}
    if not keys and not commands and not options:
        return side
    return replace(side, runs=tuple(_renamed(run, keys, commands, options) for run in side.runs))


def _renamed(
    run: RunFigures,
    keys: Mapping[Key, Key],
    commands: Mapping[tuple[str, ...], tuple[str, ...]],
    options: Mapping[str, str],
) -> RunFigures:
    command = commands.get(run.setup.command, run.setup.command)
    traced = options.get(run.setup.options, run.setup.options)
    return replace(
        run,
        setup=replace(run.setup, command=command, options=traced),
        rows={keys.get(_by_hash(key), key): row for key, row in run.rows.items()},
    )


def _by_hash(key: Key) -> Key:
    """Return a key with the hash alone if it has one: the readable name depends on the version."""
    hashed = _HASHED.fullmatch(key.name)
    return key._replace(name=hashed[2]) if hashed else key


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
