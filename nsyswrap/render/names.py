"""Readable kernel names, and short forms for narrow columns: H2D for Host-to-Device, UM for unified."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import screen_width

if TYPE_CHECKING:
    from nsyswrap.reports.table import Table

with lazy_imports():
    from nsyswrap.analysis import kernel_names
    from nsyswrap.reports.wording import states

_DIRECTIONS = {f"{a}-to-{b}": f"{a[0]}2{b[0]}" for a, b in product(("Host", "Device", "Array"), repeat=2)}
_DIRECTIONS["Peer-to-Peer"] = "P2P"
_DIRECTIONS |= {f"Unified {long}": f"UM {short}" for long, short in _DIRECTIONS.items()}
_COPIES = {f"[CUDA memcpy {long}]": f"[CUDA memcpy {short}]" for long, short in _DIRECTIONS.items()}
_BARE = {text: text.removeprefix("[CUDA ").removesuffix("]") for text in (*_COPIES.values(), "[CUDA memset]")}
_SHORTEST = {text: text.removeprefix("memcpy ") for text in _BARE.values() if text.startswith("memcpy ")}


def readable_tables(tables: Sequence[Table]) -> list[Table]:
    """Return the tables with readable kernel names, each kernel with one name in all of them."""
    columns = [(table, column) for table in tables for column in table.columns if column.kernels]
    readable = kernel_names.distinct_names(
        {text for table, column in columns for text in table.names_of(column) if text is not None}
    )
    return [_renamed(table, readable) for table in tables]


def _renamed(table: Table, readable: Mapping[str, str]) -> Table:
    names = [column.name for column in table.columns if column.kernels]
    texts = {name: [text and readable[text] for text in table.data[name]] for name in names}
    others = [text and readable[text] for text in table.other_names]
    return replace(table, data={**table.data, **texts}, other_names=others)


def abbreviated(texts: Sequence[str], room: int, kernels: Collection[str | None] = ()) -> list[str]:
    """Return the cells of a column, shorter if they are wider than ``room`` columns and have a shorter form.

    All copies of the column get the same form. Different texts stay different. Call it again until nothing
    changes. ``kernels`` are all kernel names of the table: if one does not fit, all become readable.
    """
    wide = {text for text in texts if screen_width(text) > room}
    squeezed = {text: " ".join(text.split()) for text in texts} if any("  " in text for text in wide) else {}
    causes = {text: states.IDLE_NAMES[cause] for cause, text in states.CAUSE_NAMES.items()}
    every = ({**_DIRECTIONS, **_COPIES, **causes}, _BARE, _SHORTEST, squeezed)
    forms = dict(next((forms for forms in every if wide & forms.keys()), {}))
    if len(kernels) and wide - forms.keys():
        forms.update(_readable(set(texts) - forms.keys(), kernels))
    short = [forms.get(text, text) for text in texts]
    return short if len(set(short)) == len(set(texts)) else list(texts)


def _readable(names: Iterable[str], every: Iterable[str | None]) -> dict[str, str]:
    """Return the readable names that are shorter, numbered where several of all kernels have the same."""
    readable = kernel_names.distinct_names({*names, *filter(None, every)})
    return {name: text for name in names if screen_width(text := readable[name]) < screen_width(name)}
