"""The NVTX reports equal what the nsys on this machine says, also of captures nobody recorded."""

import random
from pathlib import Path

import pytest
from nsys_says import UNITS, made_by_us, said_by
from tiny_export import Row, call, changed, domain, global_id, kernel, memcpy, memset, nvtx, write

from nsyswrap import open_capture
from nsyswrap.base.units import Rounding, TimeUnit
from nsyswrap.capture.schema import NVTX_START_END

SUMS = ("nvtx_sum", "nvtx_pushpop_sum", "nvtx_startend_sum")
NESTED = (
    "nvtx_pushpop_trace",
    *("nvtx_kern_sum", "nvtx_kern_sum:base", "nvtx_kern_sum:mangled"),
    *("nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace", "cuda_gpu_kern_sum:nvtx-name"),
)
NAMES = ["step", "", "a/b", "é, x", "Step", None]
REGISTERED = [None, "step", "load", "", 7]  # StringIds has no 7
DOMAINS = {1: "io", 2: "A b", 3: None}
KERNELS: list[str | int] = ["k", "K", "a, b", 7]
PROCESSES = (5, 100, 101)
THREADS = (5, 100)
MARK, CATEGORY = 34, 33


class Dice(random.Random):
    """What random events are made of: few numbers, so that many are equal."""

    def span(self) -> tuple[int, int]:
        start = self.randrange(60)
        return start, start + self.choice((0, self.randrange(5), self.randrange(60)))

    def thread(self) -> int:
        return global_id(self.choice(PROCESSES), self.choice(THREADS))

    def correlation(self) -> int | None:
        return self.randrange(1, 12) if self.random() < 0.9 else None


def ranges(dice: Dice) -> list[Row]:
    """Ranges of all kinds, the creation of their domains, and events that are no ranges."""

    def one() -> Row:
        start, end = dice.span()
        kind = dice.choice([59, 59, 59, 60, 60, 70, 71, MARK, CATEGORY])
        thread = dice.thread()
        moved = kind in NVTX_START_END and dice.random() < 0.2
        return nvtx(
            dice.choice(NAMES),
            start,
            None if kind in (MARK, CATEGORY) or dice.random() < 0.1 else end,
            globalTid=thread,
            eventType=kind,
            textId=dice.choice(REGISTERED),
            domainId=dice.choice([None, 0, 1, 2, 3]),
            endGlobalTid=thread if moved else None,
        )

    created = [
        domain(
            name, number, pid=process, tid=dice.choice(THREADS), start=dice.randrange(60), endGlobalTid=None
        )
        for process in PROCESSES[:2]
        for number, name in DOMAINS.items()
    ]
    events = [*created, *(one() for _ in range(dice.randrange(40)))]
    dice.shuffle(events)
    return events


def work(dice: Dice) -> list[Row]:
    """Calls and operations: of some calls none, of some several, of some operations two calls or none."""
    calls = [
        call(dice.choice(["cudaLaunchKernel", "cuLaunchKernel"]), *dice.span(), globalTid=dice.thread())
        for _ in range(30)
    ]
    kernels = [
        kernel(dice.choice(KERNELS), *dice.span(), shortName="s", mangledName=dice.choice([None, "m"]))
        for _ in range(dice.randrange(20))
    ]
    copies = [memcpy(dice.randrange(1, 9), *dice.span(), 100) for _ in range(dice.randrange(10))]
    operations = [*kernels, *copies, *(memset(*dice.span(), 100) for _ in range(dice.randrange(5)))]
    return [
        *(changed(one, correlationId=dice.correlation()) for one in calls),
        *(
            changed(one, correlationId=dice.correlation(), globalPid=global_id(dice.choice(PROCESSES)))
            for one in operations
        ),
    ]


def comparable(report: str, text: str) -> str:
    """Leave out what only nsys before 2024 lists in nvtx_gpu_proj_trace: work outside of all named ranges."""
    if report != "nvtx_gpu_proj_trace":
        return text
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(",")]
    return "".join(lines) if len(lines) > 1 else ""


@pytest.mark.parametrize("seed", range(16))
def test_any_capture(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    export = write(tmp_path / "x.sqlite", *ranges(dice), *work(dice))
    unit: TimeUnit = dice.choice(list(UNITS))
    for name, text in said_by(nsys, export, (*SUMS, *NESTED), unit).items():
        ours = made_by_us(open_capture(export), name, rounding, unit)
        assert comparable(name, ours) == comparable(name, text), name


@pytest.mark.parametrize("seed", range(8))
def test_domains_of_several_threads(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    created = [
        domain(
            dice.choice(["io", "other", None]),
            1,
            pid=dice.choice(PROCESSES),
            tid=tid,
            start=dice.randrange(9),
        )
        for tid in (5, 5, 6, 7, 100)
    ]
    capture = open_capture(write(tmp_path / "x.sqlite", *ranges(dice), *created))
    for name, text in said_by(nsys, capture.path, SUMS).items():
        assert made_by_us(capture, name, rounding) == text, name


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("by", ["time", "nvtx"])
def test_a_part_of_any_capture(by: str, seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    part = {by: "main" if by == "nvtx" else f"{dice.randrange(60)}/{dice.randrange(60, 90)}"}
    main = nvtx("main", *dice.span(), globalTid=dice.thread(), domainId=0, endGlobalTid=None)
    export = write(tmp_path / "x.sqlite", *ranges(dice), main, *work(dice))
    capture = open_capture(export).select(**part)  # type: ignore[arg-type]
    for name, text in said_by(nsys, export, (*SUMS, *NESTED), **part).items():  # type: ignore[arg-type]
        assert comparable(name, made_by_us(capture, name, rounding)) == comparable(name, text), name
