"""The command lines of launchers, which start the ranks of a run, and how to stop them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.records import dataclass

START_VARIABLE = "NSYSWRAP_START_RANK"  # JSON: the words that start Python in the container of the ranks
INPUT_VARIABLE = "NSYSWRAP_ENDS_WITH_INPUT"  # set for ranks that are to end when their stdin closes
NAMES = ("srun", "torchrun", "mpirun")
# What a launcher prints of a rank that failed: the first such line names the cause.
_FAILED = (
    re.compile(r"srun: error: \S+: tasks? [\d,-]+: (?:Exited with exit code (?P<code>\d+)|(?!Exited)\S.*)"),
    re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: \d+"),
    re.compile(r"Exit code: +(?P<code>\d+)"),
)
_LACKED_MEMORY = re.compile(
    r"slurmstepd\S*: .*(exceeded \w* ?memory limit|oom.kill|out-of-memory)", re.IGNORECASE
)
MORE_MEMORY = "request more with mem in [slurm]"
KILLED = "SIGKILL often means that memory ran out; on Slurm, request more with mem in [slurm]"
# Open MPI waits so many seconds before its SIGTERM, and again before it kills: without these one second, too
# short to write a report. It waits for all of this time, and keeps the nodes.
_PATIENCE = {"OMPI_MCA_odls_base_sigkill_timeout": "30", "PRTE_MCA_odls_base_sigkill_timeout": "30"}


@dataclass(frozen=True)
class RankLaunch:
    """The launch of ``ntasks`` ranks. Each rank is the command ``rank``.

    ``python`` begins the command of another Python, in the container of the ranks: empty for our own.
    ``name`` tells the step from other steps of a scheduler's job, which has so many ``nodes``. ``end_step``
    sends SIGTERM to the step of this name, and returns False if it cannot. ``options`` are the launcher's.
    """

    launcher: str
    ntasks: int
    rank: Sequence[str]
    name: str
    python: Sequence[str] = ()
    nodes: int = 1
    end_step: Callable[[str], bool] = lambda _: False
    options: Sequence[str] = ()

    @property
    def argv(self) -> list[str]:
        """The command line. Raises Unavailable if the launcher is missing on this machine."""
        if self.launcher == "srun":
            return [*self._srun(self.ntasks), *self.options, *self.rank]
        if self.launcher == "mpirun":
            return [_on_path("mpirun"), "-n", str(self.ntasks), *self.options, *self.rank]
        torchrun = [*self._torchrun(), *self.options, "--no-python", *self.rank]
        if self.nodes == 1:  # also where there is no srun
            return torchrun
        return [*self._srun(self.nodes), f"--nodes={self.nodes}", "--ntasks-per-node=1", *torchrun]

    @property
    def variables(self) -> dict[str, str]:
        """Variables for the launcher, beside those of the run."""
        own = {INPUT_VARIABLE: "1"} if self.is_step else {}
        return own | {name: value for name, value in _PATIENCE.items() if name not in os.environ}

    @property
    def is_step(self) -> bool:
        """True if srun starts the ranks, or torchrun on each node."""
        return self.launcher == "srun" or (self.launcher == "torchrun" and self.nodes > 1)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Make all ranks write their reports and end. To srun SIGTERM means to kill them."""
        if not (self.is_step and self.end_step(self.name)):
            process.terminate()

    def _srun(self, ntasks: int) -> list[str]:
        # We end the others when a rank fails, see ranks_outcome. One that ends early ends none.
        own = [f"--job-name={self.name}", "--kill-on-bad-exit=0", "--wait=0", "--input=all"]
        return [_on_path("srun"), f"--ntasks={ntasks}", *own]

    def _torchrun(self) -> list[str]:
        per_node = f"--nproc-per-node={self.ntasks // self.nodes}"
        if self.nodes == 1:
            return [*self._torchrun_itself(), "--standalone", per_node]
        place = f"--rdzv-endpoint={socket.gethostname()}:{_free_port()}"
        own = ["--rdzv-backend=c10d", place, f"--rdzv-id={self.name}"]
        return [*self._torchrun_itself(), f"--nnodes={self.nodes}", per_node, *own]

    def _torchrun_itself(self) -> list[str]:
        if self.python or importlib.util.find_spec("torch"):
            return [*(self.python or [sys.executable]), "-m", "torch.distributed.run"]
        return [_on_path("torchrun")]


def first_failure(errors: str) -> tuple[str, int | None]:
    """Return the line of a launcher on the first rank that failed, and the exit code of that rank.

    ``errors`` is what the launcher printed. The line is empty if none is found.
    """
    for line in errors.splitlines():
        if match := next(filter(None, (pattern.search(line) for pattern in _FAILED)), None):
            code = None if match["code"] is None else int(match["code"])
            return match.group(), 128 - code if code is not None and code < 0 else code
    return "", None


def lacked_memory(lines: Sequence[str]) -> str:
    """Return the last line on a step that Slurm killed for its memory, or an empty text."""
    return next(filter(_LACKED_MEMORY.search, reversed(lines)), "").strip()


def _on_path(name: str) -> str:
    if not shutil.which(name):
        raise Unavailable(f"{name} not found on PATH", f"load a module that has {name}, in setup of [node]")
    return name


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
        return port
