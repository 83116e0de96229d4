"""Names on a screen: shorter, and still different. Labels that tell files apart."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.run_folder import EXPORT, REPORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_ROUNDS = 4  # names that part at different places need more than one look
_SUFFIXES = {".sqlite", ".nsys-rep", ".qdrep"}
_CONTEXT = 3  # characters shown before the place where two names part
_NARROW = re.compile("[ -~µ…\u00d7]*")


def screen_width(text: str) -> int:
    """Return the columns of a screen that a text takes; most have no character worth a look."""
    if _NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - few names have such characters

    return cell_len(text)


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to ``width`` columns of a screen; different names stay different.

    Those that part in more places than there is room for get a number.
    """
    plain = {name: _without_parameters(name) for name in names}
    if len(set(plain.values())) < len(plain):  # the parameters tell some of them apart
        plain = {name: name for name in names}
    shown = {name: shorten(text, width) for name, text in plain.items()}
    for _ in range(_ROUNDS):
        for group in alike(shown):
            parting = _parting([plain[name] for name in group])
            shown.update({name: _from(plain[name], parting, width) for name in group})
    for number, name in enumerate([name for group in alike(shown) for name in group], 1):
        shown[name] = f"{clip(shown[name], width - len(f'~{number}'))}~{number}"
    return [shown[name] for name in names]


def _parting(texts: Sequence[str]) -> int:
    """Return where different texts begin to differ."""
    first, last = min(texts), max(texts)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


def alike(shown: Mapping[str, str]) -> list[list[str]]:
    """Return the names that look the same as another one, group by group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, text in shown.items():
        groups[text].append(name)
    return [group for group in groups.values() if len(group) > 1]


def shorten(name: str, width: int) -> str:
    """Shorten a name to ``width`` by cutting its middle: both ends tell kernels apart."""
    if screen_width(name) <= width:
        return name
    head = (width - 1) * 2 // 3
    return f"{_first(name, head)}…{_last(name, width - 1 - head)}"


def clip(text: str, width: int) -> str:
    """Cut what goes beyond ``width``, and show that it was cut."""
    return text if screen_width(text) <= width else f"{_first(text, width - 1)}…"


def _first(text: str, width: int) -> str:
    """Return the beginning that fits: East Asian characters take two columns."""
    part = text[:width]
    while (excess := screen_width(part) - width) > 0:
        part = part[: -((excess + 1) // 2)]
    return part


def _last(text: str, width: int) -> str:
    part = text[max(len(text) - width, 0) :]
    while (excess := screen_width(part) - width) > 0:
        part = part[(excess + 1) // 2 :]
    return part


def _from(name: str, parting: int, width: int) -> str:
    """Show the beginning, and the part from where it differs from the names it looks like."""
    head = _first(name, width // 3)
    return clip(f"{head}…{name[max(len(head), parting - _CONTEXT) :]}", width)


def _without_parameters(name: str) -> str:
    """Cut the return type `void` and the parameter list off a demangled name."""
    name = name.removeprefix("void ")
    if not name.endswith(")"):
        return name
    depth = 0
    for i in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[i], 0)
        if depth == 0:
            return name if name[i - 1] == " " else name[:i]  # "NVIDIA H200 (0)" is no function
    return name


def shortest_labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest labels that tell captures apart: ``runs/a`` and ``runs/b`` are a and b.

    A path that stands there twice gets a number: a, a (2).
    """
    exact = [Path(os.path.abspath(path)).parts for path in paths]  # noqa: PTH100 - symlinks keep their names
    different = len(set(exact))
    short = [_without_file(_given(path)) for path in paths]
    if different > 1:
        short = _without_common_end(short)
    found = _telling_apart(short, different) or _telling_apart(exact, different)
    return _numbered([os.fsencode(label).decode("utf-8", "backslashreplace") for label in found])


def _given(path: Path) -> tuple[str, ...]:
    """Return the parts of a path as the user knows it; what is no name (``.``, ``..``) gets one."""
    plain = os.path.normpath(path)
    return Path(os.path.abspath(path) if plain.startswith(".") else plain).parts  # noqa: PTH100


def _without_file(parts: tuple[str, ...]) -> tuple[str, ...]:
    """A run folder stands for its capture, and a file needs no suffix."""
    *folders, name = parts
    if name in (EXPORT, REPORT) and folders not in ([], [os.sep]):
        return tuple(folders)
    path = Path(name)
    return (*folders, path.stem if path.suffix in _SUFFIXES else name)


def _without_common_end(paths: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Take off the last parts that all the paths share, where something is left to tell them apart."""
    paths = list(paths)
    while len({parts[-1] for parts in paths}) == 1 < min(map(len, paths)):
        paths = [parts[:-1] for parts in paths]
    return paths


def _telling_apart(paths: Sequence[tuple[str, ...]], different: int) -> list[str]:
    """Join as few of the last parts as tell so many paths apart; nothing where all of them do not."""
    for count in range(1, max(map(len, paths), default=0) + 1):
        names = ["/".join(parts[-count:]) for parts in paths]
        if len(set(names)) == different:
            return names
    return []


def _numbered(names: Sequence[str]) -> list[str]:
    made: dict[str, None] = {}  # in order, and quick to look up
    for name in names:
        again = (f"{name} ({number})" for number in range(2, len(names) + 2))
        made[name if name not in made else next(label for label in again if label not in made)] = None
    return list(made)
