"""The commands and examples in README.md and docs/, and what each of them needs."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

GPU, NSYS, TORCH = "a GPU", "nsys", "nsys and PyTorch"  # the tests run these where there is one
CAPTURES = "captures"  # the tests lay two .sqlite files into the folder
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NEEDS = re.compile(r"#.*?\bneeds ([^;]+)")


class Command(NamedTuple):
    """A line of shell in a page. ``needs`` is what its comment says that it needs, or empty.

    ``after`` are the lines above that record what it shows.
    """

    line: str
    needs: str = ""
    after: tuple[str, ...] = ()


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of this language."""
    return [text for name, text in _FENCE.findall(page.read_text(encoding="utf-8")) if name == language]


def commands(pages: Iterable[Path]) -> list[Command]:
    """Return the commands of all ``sh`` blocks, each once."""
    found = (command for page in pages for block in blocks(page, "sh") for command in _of_block(block))
    return list(dict.fromkeys(found))


def _of_block(block: str) -> Iterator[Command]:
    """Yield the commands of a block. A comment on the line above a command counts like one behind it."""
    above, recorded = "", list[str]()
    for line in block.splitlines():
        if line.startswith("#"):
            above = line
        elif line:
            needs = _NEEDS.search(line) or _NEEDS.search(above)
            shows = line.startswith("nsyswrap report ") and needs
            yield Command(line, needs[1].strip() if needs else "", tuple(recorded) if shows else ())
            above = ""
            if needs:
                recorded.append(line)


def left_out(found: Iterable[Command]) -> list[Command]:
    """Return the commands that no test runs on any machine."""
    return [command for command in found if command.needs not in ("", GPU, NSYS, TORCH, CAPTURES)]
