"""The processes of a run that used CUDA: `record` writes them into ``run.json``, `analysis` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nsyswrap.base.files import typed

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "gpu_processes"  # in run.json


@dataclass(frozen=True)
class GpuUser:
    """A process that opened the GPU for CUDA. ``parent`` is the process id of its parent.

    ``forked``: it was forked from its parent without an exec; None if the parent had ended. ``rank`` is the
    one that its launcher gave it, such as RANK of torchrun.
    """

    pid: int
    name: str
    parent: int
    forked: bool | None
    rank: int | None = None


def gpu_users_of(run: Mapping[str, Any]) -> list[GpuUser] | None:
    """Return the processes in the content of ``run.json``; None if they are missing or invalid."""
    try:
        return typed(list[GpuUser], run.get(KEY))
    except ValueError:
        return None
