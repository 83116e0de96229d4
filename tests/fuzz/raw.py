"""Mutated bytes of an export: its header, its pages, the cells on them, and where it ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.bases import any_base
from fuzz.case import Case
from fuzz.commands import command

if TYPE_CHECKING:
    Bytes = bytearray
    Random = random.Random

_LEAST = 600  # bytes that are left to be mutated
_PAGE_TYPES = (2, 5, 10, 13)
_HEADERS = (8, 12)  # of a page with cells, and of one with child pages
_FIELDS = {  # of the file's header: where, how many bytes, and values that are special there
    "page size": (16, 2, (0, 1, 256, 512, 1024, 4096, 32768, 513)),
    "write version": (18, 1, (0, 1, 2, 3, 255)),
    "read version": (19, 1, (0, 1, 2, 3, 255)),
    "reserved bytes": (20, 1, (0, 8, 32, 255)),
    "payload fractions": (21, 3, (0x402020, 0, 0xFFFFFF)),
    "change counter": (24, 4, (0, 1, 2**32 - 1)),
    "page count": (28, 4, (0, 1, 2, 2**31, 2**32 - 1)),
    "first freelist page": (32, 4, (0, 1, 2, 3, 2**32 - 1)),
    "freelist pages": (36, 4, (0, 1, 1000, 2**32 - 1)),
    "schema cookie": (40, 4, (0, 1, 2**32 - 1)),
    "schema format": (44, 4, (0, 1, 2, 3, 4, 5)),
    "cache size": (48, 4, (0, 1, 2**31, 2**32 - 1)),
    "largest root page": (52, 4, (0, 1, 2, 2**32 - 1)),
    "text encoding": (56, 4, (0, 1, 2, 3, 4)),
    "user version": (60, 4, (0, 2**32 - 1)),
    "incremental vacuum": (64, 4, (0, 1)),
    "application": (68, 4, (0, 2**32 - 1)),
    "version valid for": (92, 4, (0, 1, 2**32 - 1)),
}


class Layout:
    """Where the pages of an export are; ``content`` may be damaged already."""

    def __init__(self, content: Bytes) -> None:
        size = int.from_bytes(content[16:18], "big")
        self.page = 65536 if size == 1 else max(size, 512)
        self.count = max(1, len(content) // self.page)

    def start(self, number: int) -> int:
        """Return where the header of a page begins; pages count from 0."""
        return number * self.page + 100 * (number == 0)

    def any_leaf(self, random: Random, content: Bytes) -> int:
        """Return a page of rows, or any page."""
        leaves = [n for n in range(self.count) if content[self.start(n)] == 13]
        return random.choice(leaves or range(self.count))

    def cells(self, number: int, content: Bytes) -> list[int]:
        """Return where the cells of a page begin."""
        start = self.start(number)
        first = start + _HEADERS[content[start] in (2, 5)]
        count = min(int.from_bytes(content[start + 3 : start + 5], "big"), self.page // 4)
        pointers = (int.from_bytes(content[first + 2 * n : first + 2 * n + 2], "big") for n in range(count))
        return [number * self.page + pointer for pointer in pointers if pointer < self.page]


def _bit(random: Random, content: Bytes) -> str:
    at, bit = random.randrange(len(content)), random.randrange(8)
    content[at] ^= 1 << bit
    return f"bit {bit} of byte {at}"


def _run(random: Random, content: Bytes) -> str:
    at, count = random.randrange(len(content)), random.choice((1, 2, 4, 9, 64, 600))
    fill = random.choice((b"\0", b"\xff", b"\x80", b"\x7f", None))
    part = random.randbytes(count) if fill is None else fill * count
    content[at : at + count] = part[: len(content) - at]
    return f"{count} bytes from {at}"


def _end(random: Random, content: Bytes) -> str:
    page = Layout(content).page
    at = random.choice(
        (
            random.randrange(len(content)),
            random.randrange(200),
            page * random.randrange(max(1, len(content) // page)),
        )
    )
    del content[at:]
    return f"cut off at {at}"


def _garbage(random: Random, content: Bytes) -> str:
    count = random.choice((1, 17, 512, 5000))
    content += random.randbytes(count)
    return f"{count} bytes appended"


def _header(random: Random, content: Bytes) -> str:
    name = random.choice(list(_FIELDS))
    at, size, special = _FIELDS[name]
    value = random.choice((*special, random.randrange(256**size)))
    content[at : at + size] = value.to_bytes(size, "big")
    return f"{name} {value}"


def _page_type(random: Random, content: Bytes) -> str:
    number = random.randrange(Layout(content).count)
    kind = random.choice((*_PAGE_TYPES, 0, random.randrange(256)))
    content[Layout(content).start(number)] = kind
    return f"type {kind} of page {number + 1}"


def _page_header(random: Random, content: Bytes) -> str:
    """The first free block, the number of cells, the start of the cells, the free bytes, the last child."""
    layout = Layout(content)
    number = layout.any_leaf(random, content) if random.random() < 0.7 else random.randrange(layout.count)
    at, size = random.choice(((1, 2), (3, 2), (3, 2), (5, 2), (7, 1), (8, 4)))
    start = layout.start(number) + at
    old = int.from_bytes(content[start : start + size], "big")
    value = (
        random.choice((old + 1, max(old - 1, 0), 0, 256**size - 1, random.randrange(256**size))) % 256**size
    )
    content[start : start + size] = value.to_bytes(size, "big")
    return f"{value} at byte {at} of the header of page {number + 1}"


def _pointer(random: Random, content: Bytes) -> str:
    layout = Layout(content)
    number = layout.any_leaf(random, content)
    start = layout.start(number) + 8
    which = start + 2 * random.randrange(max(1, len(layout.cells(number, content))))
    other = start + 2 * random.randrange(max(1, len(layout.cells(number, content))))
    value = random.choice((content[other : other + 2], b"\0\0", b"\xff\xff", random.randbytes(2)))
    content[which : which + 2] = value
    return f"cell pointer at {which}"


def _cell(random: Random, content: Bytes) -> str:
    """The length of a record, its rowid, its header, or the type of one of its values."""
    layout = Layout(content)
    cells = layout.cells(layout.any_leaf(random, content), content)
    if not cells:
        return _bit(random, content)
    at = min(random.choice(cells) + random.choice((0, 0, 1, 2, 3, *range(4, 24))), len(content) - 1)
    new = random.choice(
        ((content[at] + random.choice((1, 2, 255, 254))) & 255, random.randrange(256), *range(10), 0x80, 0xFF)
    )
    content[at] = new
    if random.random() < 0.2:
        content[at : at + 9] = b"\xff" * min(9, len(content) - at)
    return f"byte {new} in a cell, at {at}"


def _child(random: Random, content: Bytes) -> str:
    """A page number: of a child page, an overflow page or a freelist."""
    layout = Layout(content)
    parents = [n for n in range(layout.count) if content[layout.start(n)] == 5]
    value = random.choice((0, 1, 2, random.randrange(layout.count + 3), 2**31 - 1, 2**32 - 1))
    if not parents or random.random() < 0.3:
        at = random.randrange(layout.count) * layout.page  # an overflow page begins with the next one
    else:
        number = random.choice(parents)
        at = random.choice((*layout.cells(number, content), layout.start(number) + 8))
    content[at : at + 4] = value.to_bytes(4, "big")[: len(content) - at]
    return f"page {value} at {at}"


def _pages(random: Random, content: Bytes) -> str:
    """Swapped, copied, emptied, or with leaves of another page."""
    layout = Layout(content)
    one, other = (random.randrange(layout.count) * layout.page for _ in range(2))
    how = random.choice(("swapped", "copied", "zero", "random"))
    first, second = bytes(content[one : one + layout.page]), bytes(content[other : other + layout.page])
    content[other : other + layout.page] = {
        "zero": bytes(len(second)),
        "random": random.randbytes(len(second)),
    }.get(how, first[: len(second)])
    if how == "swapped":
        content[one : one + layout.page] = second[: len(first)]
    return f"page {other // layout.page + 1} {how} ({one // layout.page + 1})"


def _text(random: Random, content: Bytes) -> str:
    """Bytes of the schema, as of a name or a type."""
    at = content.find(
        random.choice((b"CREATE TABLE", b"INTEGER", b"CUPTI_", b"StringIds", b"demangled", b"start"))
    )
    at = max(at, 0) + random.randrange(8)
    content[at] = random.choice((0, 32, 34, 0x80, 0xC3, 0xFF, random.randrange(256)))
    return f"byte {content[at]} in the schema, at {at}"


MUTATIONS: tuple[Callable[[Random, Bytes], str], ...] = (
    *(_bit, _bit, _run, _run, _end, _garbage, _header, _page_type, _page_header, _pointer),
    *(_cell, _cell, _cell, _child, _pages, _text),
)


def case(random: Random, folder: Path) -> Case:
    """Return a command on an export of which some bytes are changed."""
    name, base = any_base(random)
    content = bytearray(base)
    made = [name]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        made += [random.choice(MUTATIONS)(random, content)] if len(content) > _LEAST else []
    export = folder / "x.sqlite"
    export.write_bytes(content)
    return command(random, export, "; ".join(made))
