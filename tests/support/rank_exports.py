"""Tiny exports of several ranks: what each rank's kernels and steps took is given, in ns."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiny_export import Row, call, kernel, nvtx, row, write

from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.api import CaptureReader
from nsyswrap.base.run_folder import EXPORT, RUN, RunFolder, Status
from nsyswrap.reports import ranks
from nsyswrap.reports.table import Table

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096>)"
STEP_NS = 10_000


@dataclass
class Step:
    """A step of one rank: it computes for ``own`` ns, then comes to an all-reduce that ends at ``end``."""

    own: int
    end: int


# One computes 100 ns, the other 300; their all-reduces end together: the fast one waits 200 ns in each step.
FAST, SLOW = Step(100, 400), Step(300, 400)


def steps(*given: Step, epoch: int | None = 0) -> list[Row]:
    """Rows of steps ``STEP_NS`` apart; ``epoch`` is when the session began, None: it does not say."""
    rows: list[Row] = [] if epoch is None else [row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=epoch)]
    for number, step in enumerate(given):
        at = number * STEP_NS
        first = 2 * number + 1
        rows += [
            nvtx("step", at, at + STEP_NS - 1),
            *(
                call("cudaLaunchKernel", at + 1, at + 2, first),
                kernel("gemm", at + 10, at + 10 + step.own, first),
            ),
            call("cudaLaunchKernel", at + 3, at + 4, first + 1),
            kernel(ALL_REDUCE, at + 10 + step.own, at + step.end, first + 1, streamId=9),
        ]
    return rows


def member(folder: Path, rank: int, *rows: Row, host: str = "", empty: Iterable[str] = ()) -> RankCapture:
    """A rank and its export."""
    path = folder / f"rank-{rank}"
    path.mkdir(parents=True)
    return RankCapture(
        f"rank {rank}", rank, CaptureReader(write(path / EXPORT, *rows, _own(rank), empty=empty)), host
    )


def _own(rank: int) -> Row:
    """Metadata that differs between ranks: the same capture cannot be two."""
    return row("META_DATA_CAPTURE", name="rank", value=str(rank))


def straggler(folder: Path) -> list[RankCapture]:
    """A slow rank 1, whose session began 5 ns after that of rank 0."""
    return [
        member(folder, 0, *steps(*[FAST] * 6, epoch=1000)),
        member(folder, 1, *steps(*[SLOW] * 6, epoch=1005)),
    ]


def table_over(members: Sequence[RankCapture], name: str) -> Table:
    """Make a report over these ranks."""
    return ranks.make(ranks.make_job(members), name)


def run_folder(
    folder: Path, rank: int, world_size: int, *rows: Row, profiled: list[int] | None = None, started: str = ""
) -> Path:
    """The run folder of a rank, as `nsyswrap profile` leaves it in a launch."""
    path = folder / f"rank-{rank}"
    path.mkdir(parents=True)
    write(path / EXPORT, *rows, _own(rank))
    said = {"rank": rank, "world_size": world_size, "profiled": profiled}
    (path / RUN).write_text(json.dumps({"rank": said, "host": "n1", "started": started}))
    RunFolder(path).write_status(Status("done", 0, 0, 0))
    return path
