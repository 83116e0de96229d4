"""The reports on unified memory and on what the CPU did equal what the nsys on this machine says.

Of captures nobody recorded: names are missing, calls did not end, totals are equal, tables are empty or
not there.
"""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from nsys_says import UNITS, made_by_us, said_by
from tiny_export import (
    MPI_COLLECTIVE,
    MPI_OTHER,
    MPI_P2P,
    MPI_START_WAIT,
    OSRT,
    UM_CPU_FAULT,
    UM_GPU_FAULT,
    Row,
    global_id,
    memcpy,
    on_cpu,
    row,
    um_cpu_fault,
    um_gpu_fault,
    write,
)

from nsyswrap.api import CaptureReader
from nsyswrap.base.units import Rounding, TimeUnit

SUMMARIES = ("osrt_sum", "openacc_sum", "um_total_sum", "um_cpu_page_faults_sum", "mpi_event_trace")
LIMITS = ("um_sum", "um_sum:rows=3", "um_sum:rows=0", "um_sum:rows=-1")
NEW = {"2025": ("mpi_event_sum",), "legacy": ()}
MPI = {
    MPI_P2P: ("size", "tag", "remoteRank"),
    MPI_START_WAIT: (),
    MPI_OTHER: (),
    MPI_COLLECTIVE: ("size", "recvSize", "rootRank"),
}
OPENMP = ("PARALLEL", "TASK", "SYNC_REGION")
OPENACC = ("DATA", "LAUNCH", "OTHER")
STRINGS = {1: "b", 2: "b"}
NAMES: list[str | int] = [*STRINGS, "A", "é", "c, d", 7, 8]  # StringIds has no 7 and no 8
THREADS = [global_id(100, 100), global_id(100, 101), global_id(200, 200), None]


class Dice(random.Random):
    """What random events are made of."""

    def times(self) -> tuple[int, int]:
        start = self.randrange(1000)
        return start, start + self.choice((0, self.randrange(4), self.randrange(40_000)))

    def called(self, table: str, **more: object) -> list[Row]:
        """Up to seven calls of one table."""
        calls = [
            on_cpu(table, self.choice(NAMES), *self.times()) for _ in range(self.choice((0, 1, 3, 5, 7)))
        ]
        return [Row(table, {**call.cells, "globalTid": self.choice(THREADS), **more}) for call in calls]


def host(dice: Dice) -> list[Row]:
    calls = [call for value in (27, 27, 3) for call in dice.called(OSRT, eventClass=value)]
    for part in OPENACC:
        for _ in range(4):
            place = {"srcFile": dice.choice([None, "x.c", "y.c", 7]), "lineNo": dice.choice([None, 0, 12])}
            calls += dice.called(f"CUPTI_ACTIVITY_KIND_OPENACC_{part}", eventKind=0, **place)
    for part in OPENMP[: dice.randrange(4)]:
        calls += dice.called(f"OPENMP_EVENT_KIND_{part}")
    return calls


def mpi(dice: Dice) -> Iterable[Row]:
    for table, fields in MPI.items():
        for _ in range(dice.randrange(5)):
            sizes = {field: dice.choice([None, -1, 0, 5, dice.randrange(10**9)]) for field in fields}
            lost: dict[str, None] = dice.choice(({}, {}, {"end": None}, {"textId": None}))
            yield from dice.called(table, **sizes, **lost)
    for _ in range(dice.randrange(1, 5)):
        yield row("MPI_RANKS", globalTid=dice.choice(THREADS), rank=dice.randrange(3))


def unified_memory(dice: Dice) -> Iterable[Row]:
    def address() -> int:
        return (1 + dice.randrange(12)) << 36

    for _ in range(dice.choice((0, 1, 10))):
        place = {"sourceFile": dice.choice((None, "a.c", 7)), "sourceLine": dice.choice((None, 0, 3))}
        yield um_cpu_fault(address(), dice.randrange(1000), CpuInstruction=dice.choice(NAMES), **place)
    for _ in range(dice.choice((0, 1, 10))):
        yield um_gpu_fault(address(), *dice.times(), dice.randrange(5))
    for _ in range(dice.randrange(1, 25)):
        kind, size = dice.choice((1, 11, 12, 12, 13)), dice.choice((0, 4096, dice.randrange(10**7)))
        yield memcpy(kind, *dice.times(), size, virtualAddress=dice.choice((None, address(), address())))


def anything(dice: Dice, folder: Path) -> Path:
    """An export in which some tables are empty and some are not there."""
    rows = [*host(dice), *mpi(dice), *unified_memory(dice), row("TARGET_INFO_GPU", id=0, name="GPU")]
    tables = sorted({each.table for each in rows} - {"TARGET_INFO_GPU", "MPI_RANKS"})
    left_out = dice.sample(tables, dice.choice((0, 0, 1, 2)))
    empty = [table for table in (UM_CPU_FAULT, UM_GPU_FAULT, OSRT, MPI_P2P) if dice.random() < 0.6]
    kept = [each for each in rows if each.table not in left_out]
    return write(folder / "x.sqlite", *kept, strings=STRINGS, empty=empty)


def without_ties(text: str) -> tuple[list[str], list[str]]:
    """The rows in any order, and the totals in theirs: nsys takes the tables of OpenMP in no order."""
    lines = text.splitlines()
    return sorted(lines), [line.split(",")[1] for line in lines]


def compare(capture: CaptureReader, said: dict[str, str], rounding: Rounding, unit: TimeUnit = "ns") -> None:
    for asked, text in said.items():
        ours = made_by_us(capture, asked, rounding, unit)
        if asked == "openmp_sum":
            assert without_ties(ours) == without_ties(text)
        else:
            assert ours == text, asked


@pytest.mark.parametrize("seed", range(10))
def test_any_capture(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    export = anything(dice, tmp_path)
    unit: TimeUnit = dice.choice(tuple(UNITS))
    asked = [*SUMMARIES, *LIMITS, "openmp_sum", *NEW[rounding]]
    compare(CaptureReader(export), said_by(nsys, export, asked, unit), rounding, unit)


@pytest.mark.parametrize("seed", range(10))
def test_any_window(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    export = anything(dice, tmp_path)
    start, end = sorted(dice.sample(range(3000), 2))
    time, window = dice.choice(
        (
            (f"{start}/{end}", f":start={start}:end={end}"),
            (f"{start}/", f":start={start}"),
            (f"/{end}", f":end={end}"),
        )
    )
    reports = [*SUMMARIES, *LIMITS, "openmp_sum", *NEW[rounding]]
    said = said_by(nsys, export, [name + window for name in reports])
    compare(
        CaptureReader(export).select(time=time), {name: said[name + window] for name in reports}, rounding
    )
