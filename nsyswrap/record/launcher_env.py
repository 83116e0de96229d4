"""Detect the rank of this process from the environment variables of torchrun, mpirun and srun.

The most specific launcher counts: torchrun inside srun is torchrun, mpirun in a batch script is MPI. The
script of a batch job has SLURM_PROCID without a number of tasks, and is not a rank. A single process of a
launch is not a rank either.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nsyswrap.base.errors import UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass

with lazy_imports():  # a run without ranks needs it not
    from nsyswrap.base import run_folder


# Launcher -> the variables of rank, world size, rank on this node, and number of ranks on this node.
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
_STARTED_FIELD = 19  # of /proc/PID/stat, counted after the program's name
_LEAST_WORLD = 2


@dataclass(frozen=True)
class Rank:
    """The rank of this process, from 0, and the number of ranks.

    ``local_rank`` is the rank on this node, None if the launcher does not give it. ``all_here``: the launcher
    says that all ranks run on this node.
    """

    rank: int
    world_size: int
    local_rank: int | None
    launcher: str
    all_here: bool = False

    @property
    def folder(self) -> str:
        """The name of the run folder, padded so that names sort as ranks do: rank-03 of 64."""
        return run_folder.rank_folder_name(self.rank, self.world_size)


def detect(environment: Mapping[str, str] = os.environ, least: int = _LEAST_WORLD) -> Rank | None:
    """Return the rank of this process; None outside of a launch and for fewer ranks than ``least``."""
    for launcher, (rank, world, local, here) in _LAUNCHERS.items():
        numbers = [_number(environment, name) for name in (rank, world, local, here)]
        own, world_size, local_rank, on_node = numbers
        if own is None or world_size is None or (launcher == "torchrun" and local_rank is None):
            continue  # RANK without LOCAL_RANK numbers nodes, as in a pod that starts torchrun
        if launcher == "Slurm":
            on_node = world_size if environment.get("SLURM_STEP_NUM_NODES") == "1" else None
        rank_here = Rank(own, world_size, local_rank, launcher, all_here=on_node == world_size)
        return rank_here if world_size >= least else None
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None


def session(rank: Rank, environment: Mapping[str, str] = os.environ) -> str:
    """Return a name that is the same for all ranks of one launch, and different for the next launch.

    Raises UsageError if the launcher gives nothing to make one of.
    """
    name = _launch_name(rank, environment) or (_parent_name() if rank.all_here else "")
    if not name:
        raise UsageError(
            f"{rank.launcher} gives its ranks no common name: they cannot agree on a run folder",
            "use -o DIR: each rank writes to DIR/rank-N",
        )
    return re.sub(r"[^\w.+-]", "-", name)


def _launch_name(rank: Rank, environment: Mapping[str, str]) -> str:
    step = environment.get("SLURM_STEP_ID", "")
    name = ""
    if rank.launcher == "torchrun":
        run_id = environment.get("TORCHELASTIC_RUN_ID", "none")
        restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
        name = "" if run_id == "none" else run_id + ("" if restarts == "0" else f"-restart{restarts}")
    elif rank.launcher == "Slurm" or (rank.launcher == "MPICH" and step):
        name = step  # under MPICH: the step of Hydra's processes on the nodes
    else:
        name = environment.get("PMIX_NAMESPACE", "")
    return f"{_slurm_job(environment)}{name}" if name else ""


def _slurm_job(environment: Mapping[str, str]) -> str:
    """Return the job id with its array task, and the restart count of a requeued job."""
    job = environment.get("SLURM_ARRAY_JOB_ID") or environment.get("SLURM_JOB_ID")
    if not job:
        return ""
    task = environment.get("SLURM_ARRAY_TASK_ID")
    again = environment.get("SLURM_RESTART_COUNT", "0")
    return f"{job}{f'_{task}' if task else ''}.{'' if again == '0' else f'restart{again}.'}"


def _parent_name() -> str:
    """Return start time and process id of our parent, the launcher; empty if /proc does not have them."""
    parent = os.getppid()
    try:
        stat = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8", errors="replace")
        kernel = Path("/proc/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    ticks = int(stat.rpartition(")")[2].split()[_STARTED_FIELD])
    booted_s = re.search(r"^btime (\d+)$", kernel, re.MULTILINE)
    if not booted_s:
        return ""
    # In whole seconds, from fixed values of the kernel: the same for all ranks at any time.
    started_s = int(booted_s[1]) + ticks // os.sysconf("SC_CLK_TCK")
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started_s))}-{parent}"


def parse_ranks(text: str, world_size: int) -> tuple[int, ...]:
    """Return the sorted ranks of ``--ranks``, such as ``0,8`` or ``0-3,8``.

    Raises UsageError if the text is invalid, or if a rank is not below ``world_size``.
    """
    ranks: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if first > last:
            raise UsageError(f"invalid --ranks {text!r}: expected ranks, for example 0,8 or 0-3,8")
        if last >= world_size:
            raise UsageError(f"invalid --ranks {text!r}: no rank {last}; expected 0 to {world_size - 1}")
        ranks.update(range(first, last + 1))
    return tuple(sorted(ranks))


def rank_facts(rank: Rank, profiled: Sequence[int] | None = None) -> dict[str, object]:
    """Return the rank's entry in run.json. ``profiled`` are the ranks of --ranks, None: all."""
    return {
        "rank": rank.rank,
        "world_size": rank.world_size,
        "local_rank": rank.local_rank,
        "launcher": rank.launcher,
        "profiled": None if profiled is None else list(profiled),
    }
