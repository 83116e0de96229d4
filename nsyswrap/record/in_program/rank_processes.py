"""Ranks that a script starts as child processes. They end with the script and write results into files."""

from __future__ import annotations

import json
import os
import signal
import time
from threading import Thread
from typing import TYPE_CHECKING, Any

from nsyswrap.base import paths
from nsyswrap.base.errors import ScenarioFailed

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from pathlib import Path


def leave_result(folder: Path, rank: int, make: Callable[[], dict[str, Any]]) -> None:
    """Run one rank: write the result of ``make``, or a one-line error. Its parent keeps its stdin open."""
    Thread(target=_end_with_parent, daemon=True).start()
    result = folder / f"rank-{rank}.json"
    try:
        result.write_text(json.dumps(make()))
    except Exception as error:  # noqa: BLE001 - the parent reports any error
        result.with_suffix(".error").write_text(" ".join(str(error).split()) or type(error).__name__)
        # Without destructors: NCCL's may wait for the other ranks.
        os._exit(1)


def _end_with_parent() -> None:
    os.read(0, 1)  # not sys.stdin, whose lock the interpreter needs at exit
    os._exit(1)


def await_ranks(ranks: Sequence[subprocess.Popen[bytes]], folder: Path) -> list[dict[str, Any]]:
    """Return the results of all ranks. If one fails, kill the others and raise ScenarioFailed."""
    codes: list[int | None] = [None]
    while None in codes and not any(codes):
        time.sleep(0.05)
        codes = [rank.poll() for rank in ranks]
    failures = [f"rank {rank} {_cause(folder, rank, code)}" for rank, code in enumerate(codes) if code]
    if failures:
        for rank in ranks:
            rank.kill()
        raise ScenarioFailed("; ".join(failures))
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(len(ranks))]


def _cause(folder: Path, rank: int, code: int) -> str:
    error = folder / f"rank-{rank}.error"
    if paths.exists(error):
        return f"failed: {error.read_text()}"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
