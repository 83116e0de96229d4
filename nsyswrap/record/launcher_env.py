"""One rank among many: what torchrun, mpirun and srun tell the processes they start.

The most specific launcher counts: torchrun inside of srun is torchrun, mpirun inside of a batch script is
MPI. In the script of a batch job Slurm says SLURM_PROCID too, but not of how many: that is no rank, nor is a
world of one.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Launcher -> the variables of rank and world size, of the rank on this node, and of how many are here.
_LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
}
_STARTED_FIELD = 19  # of /proc/PID/stat, behind the name of the program
_LEAST_WORLD = 2


@dataclass(frozen=True)
class Rank:
    """Which of how many processes this is, from 0; ``local_rank`` among those of its node, None: not said.

    ``all_here``: the launcher says that all ranks run on this node.
    """

    rank: int
    world_size: int
    local_rank: int | None
    launcher: str
    all_here: bool = False

    @property
    def folder(self) -> str:
        """The name of its run folder, such that names sort as ranks do: rank-03 of 64."""
        return f"rank-{self.rank:0{len(str(self.world_size - 1))}}"


def detect(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return the rank that a launcher made of this process; None outside of one, and in a world of one."""
    for launcher, (rank, world, local, here) in _LAUNCHERS.items():
        numbers = [_number(environment, name) for name in (rank, world, local, here)]
        own, world_size, local_rank, on_node = numbers
        if own is None or world_size is None or (launcher == "torchrun" and local_rank is None):
            continue  # RANK without LOCAL_RANK is a node's, as in a pod that is to start torchrun
        if launcher == "Slurm":
            on_node = world_size if environment.get("SLURM_STEP_NUM_NODES") == "1" else None
        found = Rank(own, world_size, local_rank, launcher, all_here=on_node == world_size)
        return found if world_size >= _LEAST_WORLD else None
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None


def session(rank: Rank, environment: Mapping[str, str] = os.environ) -> str:
    """Return a name that all ranks of one launch agree on, and that the next launch does not have.

    Raises UsageError where there is nothing to make one of.
    """
    made = _named(rank, environment) or (_of_parent() if rank.all_here else "")
    if not made:
        raise UsageError(
            f"{rank.launcher} gives its ranks no name that they share, so they cannot agree on a folder",
            "give one with -o DIR: each rank writes into DIR/rank-N",
        )
    return re.sub(r"[^\w.+-]", "-", made)


def _named(rank: Rank, environment: Mapping[str, str]) -> str:
    """Return what the launcher itself calls the launch; empty where it does not."""
    step = environment.get("SLURM_STEP_ID", "")
    name = ""
    if rank.launcher == "torchrun":
        run_id = environment.get("TORCHELASTIC_RUN_ID", "none")
        restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
        name = "" if run_id == "none" else run_id + ("" if restarts == "0" else f"-restart{restarts}")
    elif rank.launcher == "Slurm" or (rank.launcher == "MPICH" and step):
        name = step  # Hydra starts its own processes on the nodes as one step, srun the ranks themselves
    else:
        name = environment.get("PMIX_NAMESPACE", "")
    return f"{_slurm_job(environment)}{name}" if name else ""


def _slurm_job(environment: Mapping[str, str]) -> str:
    """Return job and place in its array, as Slurm writes them, with the restart of a requeued job."""
    job = environment.get("SLURM_ARRAY_JOB_ID") or environment.get("SLURM_JOB_ID")
    if not job:
        return ""
    task = environment.get("SLURM_ARRAY_TASK_ID")
    again = environment.get("SLURM_RESTART_COUNT", "0")
    return f"{job}{f'_{task}' if task else ''}.{'' if again == '0' else f'restart{again}.'}"


def _of_parent() -> str:
    """Return when the launcher, our parent, was started, and its process id; empty where nobody says."""
    parent = os.getppid()
    try:
        said = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8", errors="replace")
        kernel = Path("/proc/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    ticks = int(said.rpartition(")")[2].split()[_STARTED_FIELD])
    booted_s = re.search(r"^btime (\d+)$", kernel, re.MULTILINE)
    if not booted_s:
        return ""
    # Whole seconds of what the kernel keeps: the same for all ranks, whenever they ask.
    started_s = int(booted_s[1]) + ticks // os.sysconf("SC_CLK_TCK")
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started_s))}-{parent}"


def chosen(text: str, world_size: int) -> tuple[int, ...]:
    """Read ``--ranks``: ``0,8`` or ``0-3,8``; raises UsageError, also for a rank beyond the world's size."""
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if first > last:
            raise UsageError(f"--ranks {text!r}: {part!r} is no rank", "as in --ranks 0,8 or 0-3,8")
        if last >= world_size:
            raise UsageError(
                f"--ranks {text!r}: there is no rank {last} among {world_size}",
                f"they are 0 to {world_size - 1}",
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def facts(rank: Rank, profiled: Sequence[int] | None = None) -> dict[str, object]:
    """Return what run.json says of the rank; ``profiled`` are those that --ranks names, None: all."""
    said = {"rank": rank.rank, "world_size": rank.world_size, "local_rank": rank.local_rank}
    return {**said, "launcher": rank.launcher, "profiled": None if profiled is None else list(profiled)}
