"""Time windows and NVTX ranges select what the nsys on this machine selects, in every report of its own."""

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nsys_says import made_by_us, said_by
from recorded import run_folder
from tiny_export import (
    MPI_COLLECTIVE,
    MPI_OTHER,
    MPI_P2P,
    MPI_START_WAIT,
    OPENACC,
    OPENMP,
    OSRT,
    PID,
    Row,
    call,
    domain,
    enums,
    everything,
    global_id,
    kernel,
    memcpy,
    memset,
    nvtx,
    on_cpu,
    row,
    um_cpu_fault,
    um_gpu_fault,
    write,
)

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.base.units import Rounding
from nsyswrap.reports import NSYS, find_report

NEWER = {"mpi_event_sum"}  # from nsys 2024 on
OPTIONS = {"gpu_gaps": ":gap=0:rows=-1", "gpu_time_util": ":threshold=90:chunks=7:rows=-1"}
MAIN, WORKER = global_id(PID, PID), global_id(PID, 101)
THREADS = [MAIN, WORKER, global_id(200, 200), global_id(200, 201)]
CALLS: list[str | int] = [
    *("cudaLaunchKernel_v7000", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemset"),
    7,  # StringIds has no 7
]
STEPS = ("step", "a/b", "a/1", "é, x")
DOMAINS = ("", "@lib", "@other", "@é")


def differing(
    nsys: str, capture: CaptureReader, rounding: Rounding, *, time: str = "", nvtx: str = ""
) -> list[str]:
    """Return the reports of which nsys says something else than we do of this part of a capture."""
    there = [name for name in NSYS if rounding == "2025" or name not in NEWER]
    asked = [name + OPTIONS.get(name, "") for name in there]
    asked += [f"{name}:nvtx-name" for name in there if "nvtx-name" in find_report(name).qualifiers]
    said = said_by(nsys, capture.path, asked, time=time, nvtx=nvtx)
    part = capture.select(time=time, nvtx=nvtx)
    made = {name: made_by_us(part, name, rounding) for name in asked}
    return [name for name in asked if comparable(name, made[name]) != comparable(name, said[name])]


def comparable(report: str, text: str) -> str:
    """Leave out the ranges without a name that only nsys before 2024 lists."""
    if report != "nvtx_gpu_proj_trace":
        return text
    lines = [line for line in text.splitlines() if not line.startswith(",")]
    return "\n".join(lines[1:])


class Dice(random.Random):
    """What random events are made of."""

    def times(self) -> tuple[int, int]:
        start = self.randrange(1, 1000)
        return start, start + self.choice((0, self.randrange(6), self.randrange(60), self.randrange(1000)))

    def window(self) -> str:
        """A window: open or not, that cuts much, all or nothing."""
        first, last = sorted(self.randrange(-100, 2200) for _ in range(2))
        forms = (f"{first}/{last}", f"{first}/", f"/{last}", f"{last}/{last}", "-1s/1s", "1s/", "/-1s")
        return self.choice((f"{first}/{last}", *forms))

    def range(self) -> str:
        """A range: of any thread, in a domain or not, the n-th of its name, or one that there is not."""
        number = self.choice(("", "", "/0", "/1", "/2", "/3", "/x"))
        return self.choice(STEPS) + self.choice(DOMAINS) + number

    def on_gpu(self) -> dict[str, Any]:
        return {
            "correlationId": self.choice([None, *range(1, 9)]),
            "globalPid": global_id(self.choice([PID, 200])),
            "deviceId": self.randrange(2),
            "greenContextId": self.choice([None, 0, 2]),
        }


def work(dice: Dice) -> list[Row]:
    """What happens on the GPU, and the calls that start it."""
    used = dict.fromkeys(("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"), 16)
    rows = [kernel(dice.choice("aBé"), *dice.times(), **{**used, **dice.on_gpu()}) for _ in range(15)]
    for _ in range(10):
        address = {"virtualAddress": dice.choice([0, 4096])}
        place = {"srcKind": 0, "dstKind": 2, **dice.on_gpu()}
        rows.append(memcpy(dice.choice([1, 2]), *dice.times(), 100_000, **place))
        rows.append(memcpy(dice.choice([11, 12]), *dice.times(), dice.randrange(10**6), **address))
        rows.append(memset(*dice.times(), 10, **{**dice.on_gpu(), "memKind": dice.choice([1, 2, 4])}))
        rows.append(um_gpu_fault(dice.choice([0, 4096]), *dice.times(), dice.randrange(9)))
        rows.append(um_cpu_fault(dice.choice([0, 4096]), dice.randrange(1000)))
    for _ in range(40):
        thread, correlation = dice.choice(THREADS), dice.randrange(1, 9)
        rows.append(call(dice.choice(CALLS), *dice.times(), correlation, globalTid=thread))
        rows.append(call("cudaDeviceSynchronize", *dice.times(), None, globalTid=thread))
    return rows


def ranges(dice: Dice) -> list[Row]:
    """Ranges of which no two start together: which of those is inside the other nsys leaves to chance."""
    domains = [domain("lib", 1), domain("other", 2), domain(None, 3), domain("é", 1, pid=200)]
    rows = [*domains]
    for start in dice.sample(range(1000), 30):
        text, registered = dice.choice([None, *STEPS]), dice.choice([None, "step", "a/b", 7])
        end = dice.choice([None, *[start + dice.randrange(1, 800)] * 9])
        if end is None:  # nsys fails to select one that never ended
            text, registered = "open", None
        where = {"domainId": dice.choice([None, *range(5)]), "globalTid": dice.choice(THREADS)}
        rows.append(nvtx(text, start, end, textId=registered, eventType=dice.choice([59, 59, 60]), **where))
    return rows


def host(dice: Dice) -> list[Row]:
    """What the CPU does beside CUDA."""
    more: dict[str, dict[str, Any]] = {
        OPENACC: {"eventKind": 1, "srcFile": "add.c", "lineNo": 3, "funcName": None},
        MPI_P2P: {"size": 8, "tag": 1, "remoteRank": 1},
        MPI_COLLECTIVE: {"size": 8, "recvSize": 16, "rootRank": 0},
    }
    tables = (OSRT, OPENMP, OPENACC, MPI_P2P, MPI_START_WAIT, MPI_OTHER, MPI_COLLECTIVE)
    return [
        on_cpu(table, dice.choice("ab"), *dice.times(), globalTid=dice.choice(THREADS), **more.get(table, {}))
        for table in tables
        for _ in range(8)
    ]


def surroundings() -> list[Row]:
    return [
        *enums(),
        *(row("TARGET_INFO_GPU", id=i, name="GPU") for i in (0, 1)),
        *(row("ThreadNames", nameId="python", priority=20, globalTid=thread) for thread in THREADS),
        *(row("MPI_RANKS", globalTid=thread, rank=rank) for rank, thread in enumerate(THREADS)),
    ]


def anything(dice: Dice, folder: Path) -> CaptureReader:
    rows = [*work(dice), *ranges(dice), *host(dice), *surroundings()]
    return open_capture(write(folder / "x.sqlite", *rows))


@pytest.mark.parametrize("seed", range(3))
def test_any_window_of_any_capture(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(seed)
    capture = anything(dice, tmp_path)
    for _ in range(2):
        time = dice.window()
        assert differing(nsys, capture, rounding, time=time) == [], time


@pytest.mark.parametrize("seed", range(3))
def test_any_range_of_any_capture(seed: int, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = Dice(100 + seed)
    capture = anything(dice, tmp_path)
    for _ in range(2):
        name = dice.range()
        assert differing(nsys, capture, rounding, nvtx=name) == [], name


@pytest.mark.parametrize("time", ["20/40", "5/5", "/20", "40/", "1h/2h", "1us/500ms"])
def test_a_window_of_everything(time: str, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    capture = open_capture(write(tmp_path / "x.sqlite", *everything()))
    assert differing(nsys, capture, rounding, time=time) == []


@pytest.mark.parametrize("name", ["step", "part@library", "job", "job/0", "part", "step/1"])
def test_a_range_of_everything(name: str, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    capture = open_capture(write(tmp_path / "x.sqlite", *everything()))
    assert differing(nsys, capture, rounding, nvtx=name) == []


@pytest.mark.parametrize("number", range(4))
def test_a_domain_that_two_threads_created(
    number: int, tmp_path: Path, nsys: str, rounding: Rounding
) -> None:
    domains = (domain("lib", 1), domain("lib", 1, tid=101))
    steps = [nvtx("step", start, start + 10, domainId=1) for start in (10, 30)]
    rows = [*domains, *steps, *(kernel(f"{start}", start, start + 1) for start in range(0, 50, 5))]
    capture = open_capture(write(tmp_path / "x.sqlite", *rows))
    name = f"step@lib/{number}"
    part = capture.select(nvtx=name)
    asked = ("nvtx_sum", "cuda_gpu_kern_sum")  # nsys fails to make those that nest ranges
    for report, text in said_by(nsys, capture.path, asked, nvtx=name).items():
        assert made_by_us(part, report, rounding) == text != ""


RECORDED = ("nvtx/kernels", "ddp/straggler", "graphs/nodes", "copies/faults", "overlap/four_streams")


@pytest.fixture
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> CaptureReader:
    """A recorded capture, in a folder that nsys may write to."""
    return open_capture(shutil.copy(run_folder(request.param, tmp_path) / EXPORT, tmp_path / "x.sqlite"))


@pytest.mark.parametrize(
    ("recorded", "form"),
    [*zip(RECORDED, ("{first}/{last}", "{first}/", "/{last}", "{first}/{last}", "{first}/"), strict=True)],
    indirect=["recorded"],
)
def test_windows_of_a_recorded_capture(
    recorded: CaptureReader, form: str, nsys: str, rounding: Rounding
) -> None:
    starts = np.sort(recorded.columns("api", "start_ns")["start_ns"])
    first, last = (int(starts[len(starts) * part // 10]) for part in (3, 7))
    time = form.format(first=first, last=last)
    assert recorded.select(time=time, clip=False).has("api")
    assert differing(nsys, recorded, rounding, time=time) == [], time


@pytest.mark.parametrize(
    ("recorded", "names"),
    [
        (
            "nvtx/kernels",
            ("epoch", "step 1", "read@io/1", "wait@train/2", "évaluation ✓@train"),
        ),  # read: on a worker
        ("ddp/straggler", ("ncclAllReduce@NCCL/5", "straggler/rank 1/2")),
    ],
    indirect=["recorded"],
)
def test_ranges_of_a_recorded_capture(
    recorded: CaptureReader, names: tuple[str, ...], nsys: str, rounding: Rounding
) -> None:
    for name in names:
        assert recorded.select(nvtx=name, clip=False).has("nvtx")
        assert differing(nsys, recorded, rounding, nvtx=name) == [], name
