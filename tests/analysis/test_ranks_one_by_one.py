"""Reports over random ranks equal what plain Python says of them, one kernel and one range at a time."""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest
from fixed_examples import FILES
from hypothesis import given
from hypothesis import strategies as st
from rank_exports import ALL_REDUCE, BROADCAST, member
from tiny_export import Row, call, kernel, nvtx

from nsyswrap.reports import ranks

ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096>)"
NAMES = (ALL_REDUCE, ALL_GATHER, BROADCAST, "gemm", "add")
TOGETHER = (ALL_REDUCE, ALL_GATHER)


class Kernel(NamedTuple):
    name: str
    stream: int
    launched: int
    start: int
    lasting: int

    @property
    def communicates(self) -> bool:
        return self.name.startswith("nccl")


class Range(NamedTuple):
    name: str
    start: int
    lasting: int


class Rank(NamedTuple):
    kernels: list[Kernel]
    ranges: list[Range]


KERNELS = st.builds(
    Kernel,
    st.sampled_from(NAMES),
    st.sampled_from((7, 9)),
    st.integers(0, 50),
    st.integers(0, 100),
    st.integers(0, 20),
)
RANGES = st.builds(Range, st.sampled_from(("step", "load")), st.integers(0, 50), st.integers(0, 50))
JOBS = st.lists(
    st.builds(Rank, st.lists(KERNELS, min_size=1, max_size=12), st.lists(RANGES, max_size=6)),
    min_size=2,
    max_size=4,
)


def export(rank: Rank) -> list[Row]:
    rows: list[Row] = [nvtx(one.name, one.start, one.start + one.lasting) for one in rank.ranges]
    for number, one in enumerate(rank.kernels):
        rows += [
            call("cudaLaunchKernel", one.launched, one.launched + 1, number),
            kernel(one.name, one.start, one.start + one.lasting, number, streamId=one.stream),
        ]
    return rows


def sequences(rank: Rank) -> dict[tuple[int, str], list[int]]:
    """The numbers of the kernels of each stream and name, streams by their first collective."""
    streams: dict[int, int] = {}
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, one in sorted(enumerate(rank.kernels), key=lambda pair: pair[1].start):
        if one.name in TOGETHER:
            place = streams.setdefault(one.stream, len(streams))
            found[place, one.name].append(number)
    return found


def collectives(job: Sequence[Rank]) -> list[dict[int, int]]:
    """Of each collective the number of the kernel of each rank that takes part."""
    found = [sequences(rank) for rank in job]
    made = []
    for key in {key for one in found for key in one}:
        taking = {rank: one[key] for rank, one in enumerate(found) if key in one}
        if len(taking) > 1:
            made += [
                {rank: numbers[k] for rank, numbers in taking.items()}
                for k in range(min(map(len, taking.values())))
            ]
    return made


def waited(job: Sequence[Rank]) -> list[dict[int, int]]:
    """The waiting of each rank in its kernels, by their number."""
    found: list[dict[int, int]] = [{} for _ in job]
    for one in collectives(job):
        shortest = min(job[rank].kernels[number].lasting for rank, number in one.items())
        for rank, number in one.items():
            found[rank][number] = job[rank].kernels[number].lasting - shortest
    return found


def expected_waiting(job: Sequence[Rank]) -> list[tuple[object, ...]]:
    waiting = waited(job)
    last = [0] * len(job)
    for one in collectives(job):
        least = [rank for rank, number in one.items() if waiting[rank][number] == 0]
        if len(least) == 1:
            last[least[0]] += 1
    rows: list[tuple[object, ...]] = []
    for rank, (given_rank, own) in enumerate(zip(job, waiting, strict=True)):
        total = sum(one.lasting for one in given_rank.kernels)
        communication = sum(one.lasting for one in given_rank.kernels if one.communicates)
        all_waiting = sum(own.values()) if own or not communication else None
        rows.append(
            (
                *(rank, len(own), last[rank], total, total - communication, communication, all_waiting),
                None if all_waiting is None or not total else pytest.approx(100 * all_waiting / total),
                median(own.values()) if own else None,
            )
        )
    return rows


def step_times(rank: Rank, waiting: dict[int, int]) -> dict[str, list[tuple[int, int, int]]]:
    """Duration, own GPU time and waiting of the ranges of each name, by their start."""
    found = defaultdict(list)
    for one in sorted(rank.ranges, key=lambda one: one.start):
        inside = [
            (number, kernel)
            for number, kernel in enumerate(rank.kernels)
            if one.start <= kernel.launched < one.start + one.lasting
        ]
        own = sum(kernel.lasting for _, kernel in inside if not kernel.communicates)
        found[one.name].append((one.lasting, own, sum(waiting.get(number, 0) for number, _ in inside)))
    return found


def expected_steps(job: Sequence[Rank]) -> set[tuple[object, ...]]:
    """Of each step its name and number, slowest time, fastest time, their difference and the most waiting."""
    found = [step_times(rank, waiting) for rank, waiting in zip(job, waited(job), strict=True)]
    rows: set[tuple[object, ...]] = set()
    for name in {name for one in found for name in one}:
        taking = [one[name] for one in found if name in one]
        matched = min(map(len, taking))
        judged = 1 if any(step[1] for steps in taking for step in steps[:matched]) else 0
        for k in range(matched if len(taking) > 1 else 0):
            times = [steps[k][judged] for steps in taking]
            most = max(steps[k][2] for steps in taking)
            rows.add((name, k, max(times), min(times), max(times) - min(times), most))
    return rows


@FILES
@given(JOBS)
@pytest.mark.slow
def test_random_jobs(job: list[Rank]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        members = [member(Path(folder), number, *export(rank)) for number, rank in enumerate(job)]
        made = ranks.make_job(members)
        assert [row[:9] for row in ranks.make(made, "rank_waiting").rows()] == expected_waiting(job)
        if any(rank.ranges for rank in job):
            names = ("range", "occurrence", "slowest_ns", "fastest_ns", "skew_ns", "waiting_ns")
            table = ranks.make(made, "rank_steps")
            columns = [column.name for column in table.columns]
            found = {tuple(row[columns.index(name)] for name in names) for row in table.rows()}
            assert found == expected_steps(job)
