"""Whether those who are timed say the same: a fast wrong answer is none."""

import csv
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from nsyswrap.base.errors import CheckFailed

_PROJECTED = "nvtx_gpu_proj_trace"
_ROUNDED = 0.051  # how far rounding to one decimal moves a number, and a bit


def check_same(by_nsys: Path, by_us: Path) -> None:
    """Raise CheckFailed where our CSV of a report is not nsys' to the byte; line by line, see measure.py."""
    if not by_nsys.is_file() or not by_nsys.stat().st_size:
        raise CheckFailed(
            f"{by_us.stem}: nsys says nothing", "take an export with kernels, copies and memsets"
        )
    with by_nsys.open("rb") as one, by_us.open("rb") as other:
        for line, (said, found) in enumerate(zip_longest(_named(one, by_us.stem), other), 1):
            if said != found:
                raise CheckFailed(f"{by_us.stem}, line {line}: nsys says {said!r}, nsyswrap {found!r}")


def _named(lines: Iterable[bytes], report: str) -> Iterator[bytes]:
    """Leave out what only nsys before 2024 lists in nvtx_gpu_proj_trace: work outside of all named ranges."""
    return (line for line in lines if not (report == _PROJECTED and line.startswith(b",")))


def check_numbers(by_nsys: Path, unrounded: Path) -> None:
    """Raise CheckFailed where a cell below the header is another text, or no number that rounds to nsys'."""
    one, other = (_rows(path) for path in (by_nsys, unrounded))
    for row, (said, found) in enumerate(zip_longest(one, other, fillvalue=()), 1):
        if not all(_same(*cells) for cells in zip_longest(said, found, fillvalue="nothing")):
            raise CheckFailed(f"{unrounded.stem}, row {row}: nsys says {said}, pandas {found}")


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def _same(one: str, other: str) -> bool:
    try:
        return abs(float(one) - float(other)) <= _ROUNDED
    except ValueError:
        return one == other
