"""Take demangled C++ names apart, in the form of nsys and in that of c++filt.

nsys writes ``f<(int)4, <unnamed>::G<float>>(T2)`` where c++filt writes
``f<4, (anonymous namespace)::G<float> >(float)``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_RETURN = re.compile(r"^(?:void|std::enable_if<[^>]*>::type) ")
_UNNAMED = "<unnamed>::", "(anonymous namespace)::"
_CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")  # (int)4
_PATH = re.compile(r"[\w:]*")
_MARK = re.compile(r"[]<([{>)},]")
_STEP = {**dict.fromkeys("<([{", 1), **dict.fromkeys(">)]}", -1), ",": 0}


class Name(NamedTuple):
    """A function or type: its qualified name and its template arguments."""

    path: str
    arguments: tuple[str, ...]

    @property
    def base(self) -> str:
        """The name without namespaces."""
        return self.path.rpartition("::")[2]


@cache
def plain(name: str) -> str:
    """Return a name without return type, unnamed namespaces and casts of numbers."""
    text = _RETURN.sub("", name)
    for unnamed in _UNNAMED:
        text = text.replace(unnamed, "")
    return _CAST.sub("", text)


@cache
def parse(name: str) -> Name:
    """Return path and template arguments at the beginning of a name; the rest is ignored."""
    text = plain(name.strip())
    path = next(_PATH.finditer(text))[0]
    rest = text[len(path) :]
    return Name(path, tuple(split(rest)) if rest.startswith("<") else ())


def split(text: str) -> list[str]:
    """Return the comma-separated parts inside the bracket that ``text`` begins with."""
    parts, depth, begin = [], 0, 1
    for mark in _MARK.finditer(text):
        step = _STEP[mark[0]]
        depth += step
        if depth == 0 or (depth == 1 and not step):
            parts.append(text[begin : mark.start()].strip())
            begin = mark.end()
        if depth == 0:
            break
    return parts
