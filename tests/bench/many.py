"""Make many captures, and many runs of which a few have one: once a bench, removed at its end."""

import atexit
import datetime as dt
import json
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path

from collect import made

from nsyswrap.base.run_folder import EXPORT, REPORT, RUN, RunFolder, Status

CAPTURES, RUNS = 2_000, 20_000
_APART_S = 300  # from one run to the next
_RECORDED = Path(__file__).resolve().parents[2] / "nsyswrap" / "recorded" / "add2" / "both" / EXPORT


@cache
def captures() -> Path:
    """Return a batch of run folders with a capture of 200 launches each, and no digest."""
    batch = _folder() / "captures"
    for number in range(CAPTURES):
        made(batch, number)
    return batch


@cache
def runs() -> Path:
    """Return the folder in which runs were begun for ten weeks; the last one has a capture to show."""
    folder, now = _folder() / "runs", time.time()
    for number in range(RUNS):
        run = RunFolder(folder / "nsyswrap-runs" / f"program-{number:05}")
        begun = now - _APART_S * (RUNS - number)
        started = dt.datetime.fromtimestamp(begun, dt.timezone.utc).isoformat()
        run.create({})
        run.write(RUN, json.dumps({"nsyswrap": "0", "command": ["./program"], "started": started}))
        (run.path / EXPORT).touch()
        (run.path / REPORT).touch()
        run.write_status(Status("done", 0, 0, 0))
        for name in os.listdir(run.path):  # noqa: PTH208 - of 20,000 runs
            os.utime(run.path / name, (begun + 10, begun + 10))
    shutil.copy(_RECORDED, run.path / EXPORT)
    return folder


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="nsyswrap-bench.many-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
