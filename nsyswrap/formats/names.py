"""Kernel names on a screen: shorter, and still told apart. Rows are never merged for it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nsyswrap.report import Table

_ROUNDS = 4  # names that part at different places need more than one look
_CONTEXT = 3  # characters shown before the place where two names part
_NARROW = re.compile("[ -~µ…\u00d7]*")


def screen_width(text: str) -> int:
    """Return the columns of a screen that a text takes; most have no character worth a look."""
    return len(text) if _NARROW.fullmatch(text) else cell_len(text)


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to ``width`` columns of a screen; different names stay different.

    Those that part in more places than there is room for get a number.
    """
    plain = {name: _without_parameters(name) for name in names}
    if len(set(plain.values())) < len(plain):  # the parameters tell some of them apart
        plain = {name: name for name in names}
    shown = {name: shorten(text, width) for name, text in plain.items()}
    for _ in range(_ROUNDS):
        for group in _alike(shown):
            parting = _parting([plain[name] for name in group])
            shown.update({name: _from(plain[name], parting, width) for name in group})
    for number, name in enumerate([name for group in _alike(shown) for name in group], 1):
        shown[name] = f"{clip(shown[name], width - len(f'~{number}'))}~{number}"
    return [shown[name] for name in names]


def readable_tables(tables: Sequence[Table]) -> list[Table]:
    """Return tables for a screen: kernels have names a person can read, the same in all of them."""
    columns = [(table, column.name) for table in tables for column in table.columns if column.kernels]
    shown = told_apart({text for table, name in columns for text in table.data[name] if text is not None})
    return [_renamed(table, shown) for table in tables]


def _renamed(table: Table, shown: Mapping[str, str]) -> Table:
    columns = [column.name for column in table.columns if column.kernels]
    texts = {name: [text and shown[text] for text in table.data[name]] for name in columns}
    return replace(table, data={**table.data, **texts})


def told_apart(names: Iterable[str]) -> dict[str, str]:
    """Return what each name reads like; those that would read the same are numbered, in their order."""
    shown = {name: _readable(name) for name in sorted(names)}
    for group in _alike(shown):
        shown.update({name: f"{shown[name]} #{number}" for number, name in enumerate(group, 1)})
    for group in _alike(shown):  # a name that looks like a numbered one
        shown.update({name: name for name in group})
    return shown


def _readable(name: str) -> str:
    """Leave the NVTX range before a kernel's name as it is."""
    from nsyswrap.kernel_names import readable  # noqa: PLC0415 - few ask for it

    head, slash, tail = name.rpartition("/")
    return head + slash + readable(tail)


def _parting(texts: Sequence[str]) -> int:
    """Return where different texts begin to differ."""
    first, last = min(texts), max(texts)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


def _alike(shown: Mapping[str, str]) -> list[list[str]]:
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
