"""The CUDA reports equal what the nsys on this machine says, also of captures nobody recorded."""

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from nsys_says import NAMED, UNITS, made_by_us, said_by
from tiny_export import (
    API,
    Row,
    call,
    changed,
    enums,
    global_id,
    kernel,
    memcpy,
    memset,
    nvtx,
    opened,
    row,
    write,
)
from waiting import PATIENCE_S

from nsyswrap import open_capture
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.units import Rounding, TimeUnit
from nsyswrap.capture.intervals import LEAST, MOST
from nsyswrap.capture.selection import parse_time

OTHERS = ("cuda_api_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_api_trace")
QUALIFIERS = ("", ":base", ":mangled", ":nvtx-name", ":nvtx-name:base", ":nvtx-name:mangled")
KERNEL_NAMES: list[str | int] = [
    *("a", "B", "add(int, float *)", "Z<(int)4>", "é(x)", "b, c", "Ab", "void f(T)", "cudaFree"),
    *(7, 8),  # StringIds has no 7 and no 8
    "[CUDA memset]",
]
CALL_NAMES: list[str | int] = [
    *("cudaLaunchKernel_v7000", "cudaLaunchKernel", "cudaGraphLaunch_v10000", "cuMemAlloc_v2", "a"),
    *("cudaFree_v3020", 9, 6),
]
RANGES = ["step", "", "a/b", "é, x", None]
PROCESSES = (5, 100, 101)


class Dice(random.Random):
    """What random events are made of: few numbers, so that many are equal."""

    def times(self) -> tuple[int, int]:
        start = self.choice((self.randrange(20), self.randrange(1000)))
        return start, start + self.choice((0, self.randrange(6), self.randrange(40_000), 10**9, 3 * 10**9))

    def some(self, most: int) -> range:
        """No event at all in a fifth of the tables."""
        return range(self.choice((0, *(self.randrange(1, most) for _ in range(4)))))

    def place(self) -> dict[str, object]:
        """Where an operation ran, and what it belongs to."""
        correlation, process = self.choice([None, *range(8)]), self.choice(PROCESSES)
        ids = {"correlationId": correlation, "globalPid": self.choice([None, *[global_id(process)] * 9])}
        return {
            **ids,
            "deviceId": self.randrange(3),
            "contextId": self.randrange(3),
            "streamId": self.choice([0, 7, 13]),
            "greenContextId": self.choice([None, 0, 2]),
        }


def kernels(dice: Dice) -> list[Row]:
    def one() -> Row:
        sizes = {f"{what}{axis}": dice.choice([1, 2, 99_999]) for what in ("grid", "block") for axis in "XYZ"}
        used = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
        names = {"shortName": dice.choice(KERNEL_NAMES), "mangledName": dice.choice([None, *KERNEL_NAMES])}
        more = {**sizes, **{column: dice.choice([0, 16, 49_152]) for column in used}, **names}
        return changed(kernel(dice.choice(KERNEL_NAMES), *dice.times()), **more, **dice.place())

    made = [one() for _ in dice.some(30)]
    for first in made[:1]:  # an export in which no kernel has its process is taken for a trimmed one
        first.cells["globalPid"] = global_id(5)
    return made


def memory_operations(dice: Dice) -> list[Row]:
    kinds = [None, *range(9)]
    copies = [
        memcpy(dice.randrange(15), *dice.times(), dice.randrange(10**9), srcKind=dice.choice(kinds))
        for _ in dice.some(30)
    ]
    sets = [memset(*dice.times(), dice.randrange(10**5), memKind=dice.choice(kinds)) for _ in dice.some(6)]
    return [changed(one, dstKind=2, value=0, **dice.place()) for one in copies + sets]


def calls(dice: Dice) -> list[Row]:
    def one() -> Row:
        correlation, process = dice.choice([None, *range(8)]), dice.choice(PROCESSES)
        threads = [None, *[global_id(process, dice.choice([5, 100]))] * 9]
        more = {"globalTid": dice.choice(threads), "returnValue": dice.choice([0, 0, 600])}
        return changed(call(dice.choice(CALL_NAMES), *dice.times(), correlation), **more)

    return [one() for _ in dice.some(30)]


def ranges(dice: Dice) -> list[Row]:
    """Ranges of which no two start together: nsys' choice between those depends on its index."""
    starts = dice.sample(range(900), 30)
    return [
        nvtx(
            dice.choice(RANGES),
            start,
            dice.choice([None, start + dice.randrange(1, 2 * 10**9)]),
            globalTid=global_id(dice.choice(PROCESSES), dice.choice([5, 100])),
            eventType=dice.choice([59, 60]),
            endGlobalTid=None,
        )
        for start in starts
    ]


def surroundings(dice: Dice) -> list[Row]:
    """GPUs and threads, of which some are missing, and what numbers mean, of which most is said."""
    threads = [global_id(process, thread) for process in PROCESSES for thread in (5, 100)]
    said = [one for one in enums() if one.cells["id"] != 9]
    return [
        row("TARGET_INFO_GPU", id=0, name="NVIDIA H200, 1"),
        row("TARGET_INFO_GPU", id=1, name=None),
        *(
            row("ThreadNames", nameId=dice.choice(["python", "é", 7]), priority=20, globalTid=thread)
            for thread in dice.sample(threads, 4)
        ),
        row("ThreadNames", nameId="nobody", priority=None, globalTid=None),
        *said,
    ]


def anything(dice: Dice) -> list[Row]:
    """Rows in which ids repeat, names are missing, and times are equal or none."""
    parts: list[Callable[[Dice], list[Row]]] = [kernels, memory_operations, calls, ranges, surroundings]
    return [one for part in parts for one in part(dice)]


@pytest.mark.parametrize("seed", range(14))
def test_any_capture_in_any_unit_with_any_names(
    seed: int, tmp_path: Path, nsys: str, rounding: Rounding
) -> None:
    dice = Dice(seed)
    export = write(tmp_path / "x.sqlite", *anything(dice))
    unit: TimeUnit = dice.choice(list(UNITS))
    qualifier = QUALIFIERS[seed % len(QUALIFIERS)]
    asked = [*OTHERS, *(name + qualifier for name in NAMED)]
    for name, text in said_by(nsys, export, asked, unit).items():
        assert made_by_us(open_capture(export), name, rounding, unit) == text, name


@pytest.mark.parametrize("unit", UNITS)
def test_time_units_to_the_last_digit(unit: TimeUnit, tmp_path: Path, nsys: str, rounding: Rounding) -> None:
    dice = random.Random(unit)  # noqa: S311 - no secret
    half = {"ns": 1, "us": 1, "ms": 50, "s": 50_000}[unit]  # what the last digit printed is rounded at
    kernels = []
    for number in range(300):
        duration = dice.randrange(10**5) * 2 * half + half
        kernels += [kernel(f"k{number:03}", 0, duration), kernel(f"k{number:03}", 0, duration + 1)]
    capture = opened(tmp_path, *kernels)
    text = said_by(nsys, capture.path, ["cuda_gpu_kern_sum"], unit)["cuda_gpu_kern_sum"]
    assert made_by_us(capture, "cuda_gpu_kern_sum", rounding, unit) == text
    label = {"ns": "(ns)", "us": "(us)", "ms": "(ms)", "s": "(sec)"}[unit]
    assert text.startswith(f"Time (%),Total Time {label},Instances,")


@pytest.mark.parametrize("report", ["cuda_kern_exec_sum", "cuda_kern_exec_trace"])
def test_the_launch_of_no_kernel(report: str, tmp_path: Path, nsys: str) -> None:
    capture = opened(tmp_path, kernel("k", 5, 9, 1), empty=[API])
    assert said_by(nsys, capture.path, [report])[report] == ""
    with pytest.raises(NotInCapture):
        capture.report(report)


# A report of ours for nsys: what it makes of --filter-time.
WINDOW = """
import nsysstats


class Window(nsysstats.StatsReport):
    display_name = usage = "Window"

    def setup(self):
        failed = super().setup()
        self.query = f"SELECT {self.parsed_args.start} AS first, {self.parsed_args.end} AS last"
        return failed


if __name__ == "__main__":
    Window.Main()
"""


@pytest.mark.parametrize(
    "text",
    [
        *("1s/2.5s", "10ms/", "/300us", " 1s/2s", "1s2ms3us4ns/", "2ns5us2/", "1nsec/1usec", "1msec/1sec"),
        *("1m/1h", "1min/1hour", "1e3/1E4us", "1e-3s/", "1./", "-1s-1ms/+1s", "-1s1ms/", "-1.9/1.9"),
        *("0.5ns0.5ns/", "2.3us/", "1.005us/", "9007199254740993/", "9007199254740993.0/", "5/5", "1us1us/"),
        *("9223372036854775807/", "-9223372036854775808/", "1sec1s/", "12h30m/"),
        # refused
        *(
            "/",
            "5",
            "s/",
            "e3/",
            "1x/",
            "1S/",
            "1 s/",
            "1s /2s",
            "1s/2s/3s",
            "//",
            "1//2",
            "1,000/",
            "1_000/",
        ),
        *("inf/", "nan/", "--1/", "1+1/", "1-1/", "1..5/", "-/", "./", "1e/", "1secs/", "1\u00b5s/", "2s/1s"),
        *("9223372036854775808/", "-9223372036854775809/", "1e400/"),
    ],
)
def test_the_grammar_of_times(text: str, tmp_path: Path, nsys: str) -> None:
    export = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    (tmp_path / "window.py").write_text(WINDOW, encoding="utf-8")
    asked = [
        "-q",
        "--format=csv",
        "--report-dir",
        str(tmp_path),
        "-r",
        "window",
        f"--filter-time={text}",
        str(export),
    ]
    done = subprocess.run(
        [nsys, "stats", *asked], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    if done.returncode:
        with pytest.raises(UsageError):
            parse_time(text)
    else:
        start, end = parse_time(text)
        expected = (LEAST if start is None else start, MOST if end is None else end)
        assert done.stdout.split() == ["first,last", "{},{}".format(*expected)]
