"""Read a TOML file that a person wrote: a plan, settings, rules."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.base.files import TOML_BYTES, parsed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST_DOTS = 100  # of one key: tomllib takes a time that grows with their square
_PART = rb"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rb"(?<![\w-])%b(?:[ \t]*\.[ \t]*%b){%d}" % (_PART, _PART, _MOST_DOTS + 1))


def read(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the content of a file or of a pipe that has a writer. Raises OSError and ValueError."""
    with open(path, "rb", opener=_opened) as file:
        os.set_blocking(file.fileno(), True)
        return parse(file.read(TOML_BYTES + 1), parse_float)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # does not wait for the writer of a pipe


def parse(content: bytes, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the content of a document in UTF-8; a byte order mark is skipped. Raises ValueError."""
    if len(content) > TOML_BYTES:
        raise ValueError(f"it is larger than {TOML_BYTES >> 20} MiB")
    if _LONG_KEY.search(content):
        raise ValueError(f"a key has more than {_MOST_DOTS} parts")
    return parsed(lambda text: tomllib.loads(text, parse_float=parse_float), content.decode("utf-8-sig"))
