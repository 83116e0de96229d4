"""The expert rules equal what the nsys on this machine says, also of captures nobody recorded.

Ids repeat and are missing, operations start and end together or take no time, several processes meet.
"""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from nsys_says import RULES, made_by_us, said_by
from tiny_export import MEM_KINDS, Row, call, global_id, kernel, memcpy, memset, nvtx, row, write

from nsyswrap.api import CaptureReader
from nsyswrap.base.units import Rounding, TimeUnit
from nsyswrap.capture import schema

TICK = 500_000  # ns: gaps come out as whole and half ms
UNITS: tuple[TimeUnit, ...] = ("ns", "us", "ms", "s")
CALLS = (
    "cudaMemcpyAsync_v3020",
    "cudaMemcpy2DAsync_ptsz",
    "CUDAMEMCPYTOSYMBOLASYNC",
    "cudaMemcpy_v3020",
    "cudamemcpy3D",
    "cudaMemset_v3020",
    "cudaMemsetASYNC_v3020",
    "cudaDeviceSynchronize_v3020",
    "CudaStreamSynchronize_ptsz",
    "cudaEventSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "xcudaMemcpyAsync",
    7,  # StringIds has no 7
)
OVERHEADS = (
    "CUDA profiling data flush overhead",
    "CUDA profiling stop overhead",
    "CUDA profiling overhead",
    "cuda profiling overhead",
    "CUDA profiling data flush",
)


class Dice(random.Random):
    """What random events are made of."""

    def times(self) -> tuple[int, int]:
        start = self.randrange(self.choice((60, 400))) * TICK + self.choice((0, 0, 1, self.randrange(TICK)))
        return start, start + self.choice((0, TICK, self.randrange(TICK), self.randrange(6 * TICK)))

    def placed(self, operation: Row, **more: object) -> Row:
        """An operation somewhere: in any process, on any device, started by any call or none."""
        pid, hardware = self.choice(((100, 1), (100, 2), (101, 1)))
        place = {
            "globalPid": global_id(pid, hardware=hardware),
            "deviceId": self.randrange(2),
            "contextId": self.choice((None, 0, 1, 2, 3)),
            "greenContextId": self.choice((None, 0, 5)),
            "correlationId": self.choice((None, *range(12))),
        }
        return Row(operation.table, {**operation.cells, **place, **more})

    def copied(self) -> Row:
        size = self.choice((64_000, 64_001, 65_536, self.randrange(10**7)))
        kinds = {column: self.choice((None, 0, 0, 1, 2, 4, 99)) for column in ("srcKind", "dstKind")}
        devices = {column: self.choice((None, 0, 1)) for column in ("srcDeviceId", "dstDeviceId")}
        return self.placed(memcpy(self.choice((1, 2, 8, 10, 11)), *self.times(), size), **kinds, **devices)

    def called(self) -> Row:
        pid = self.choice((100, 101))
        plain = call(self.choice(CALLS), *self.times(), pid=pid, tid=self.choice((pid, 102)))
        return Row(plain.table, {**plain.cells, "correlationId": self.choice((None, *range(12)))})

    def overhead(self) -> Row:
        thread, (start, end) = global_id(self.choice((100, 101)), 1), self.times()
        name = self.choice((*OVERHEADS, 7))
        return row("PROFILER_OVERHEAD", start=start, end=end, globalTid=thread, nameId=name)


def anything(dice: Dice) -> list[Row]:
    """Operations of several processes on two devices, and calls with the ids of any of them."""
    busy = dice.choice((3, 12, 40))
    return [
        *(dice.placed(kernel("k", *dice.times())) for _ in range(dice.randrange(1, busy))),
        *(dice.copied() for _ in range(dice.randrange(busy))),
        *(
            dice.placed(memset(*dice.times(), dice.randrange(10**6)), memKind=dice.choice((None, 0, 1, 4, 4)))
            for _ in range(dice.randrange(busy))
        ),
        *(dice.called() for _ in range(dice.randrange(4 * busy))),
        *(dice.overhead() for _ in range(dice.choice((0, 3, 9)))),
        *(nvtx("step", 5 * TICK, 40 * TICK), nvtx("part", 9 * TICK, 20 * TICK, tid=102)),
    ]


def made(path: Path, *rows: Row) -> CaptureReader:
    """Write an export with the kinds of memory, but the one of 2.

    Their table has its key, as in real exports: where it has none SQLite finds rows in another order.
    """
    write(path, *rows)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"CREATE TABLE {MEM_KINDS} (id INTEGER PRIMARY KEY, name TEXT, label TEXT)")
        kinds = [(i, "", label) for i, label in schema.ENUMS["mem_kind"][1].items() if i != 2]
        db.executemany(f"INSERT INTO {MEM_KINDS} VALUES (?, ?, ?)", kinds)  # noqa: S608 - a name of ours
    return CaptureReader(path)


def asked_of(dice: Dice) -> list[str]:
    """Every rule with its default options, and with others."""
    other = {
        **dict.fromkeys(RULES, ""),
        "cuda_api_sync": f":process={dice.choice((-1, 100, 101, 9))}:thread={dice.choice((-1, 100, 102))}",
        "gpu_gaps": f":gap={dice.choice((0, 1, 2))}",
        "gpu_time_util": f":chunks={dice.choice((1, 7, 333, 1000))}:threshold={dice.choice((0, 30, 101))}",
    }
    return [*RULES, *(f"{rule}:rows={dice.choice((-1, 0, 1, 4))}{more}" for rule, more in other.items())]


@pytest.mark.parametrize("seed", range(12))
def test_any_capture(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    capture = made(tmp_path / "x.sqlite", *anything(dice))
    unit = dice.choice(UNITS)
    for asked, text in said_by(nsys, capture.path, asked_of(dice), unit).items():
        assert made_by_us(capture, asked, rounding, unit) == text, asked


@pytest.mark.parametrize("seed", range(6))
def test_any_part_of_a_capture(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    capture = made(tmp_path / "x.sqlite", *anything(dice))
    start, end = sorted((dice.randrange(60) * TICK, dice.randrange(60) * TICK))
    parts = {
        f":start={start}:end={end}": capture.select(time=f"{start}/{end}"),
        ":nvtx=step": capture.select(nvtx="step"),
        ":nvtx=part": capture.select(nvtx="part"),
    }
    rules = (*RULES[:4], "gpu_gaps:gap=1", "gpu_time_util:chunks=12")
    asked = {f"{rule}{suffix}": (part, rule) for rule in rules for suffix, part in parts.items()}
    for name, text in said_by(nsys, capture.path, list(asked)).items():
        assert made_by_us(*asked[name], rounding) == text, name
