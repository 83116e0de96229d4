"""What collecting many captures costs: time and peak memory at several numbers of runs.

Makes a batch of small captures with kernels of different lengths in each, then collects it twice: by reading
every capture, and from the digests that the runs of a batch leave in their folders. Memory is the most that
the process, and any of its workers, ever had resident.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from batch_folders import key_of
from tiny_export import Row, call, enums, kernel, memcpy, nvtx, write

from nsyswrap.base.run_folder import DIGEST, EXPORT, SPEC, RunFolder, Status
from nsyswrap.base.threads import usable_cpus
from nsyswrap.reports.runs.gather import Task, digest_all

ROOT = Path(__file__).resolve().parents[2]
_LAUNCHES = 200  # of each capture
_REPEATS = 10
_MIB = 1024  # KiB, what /proc counts in
_PAUSE_S = 0.02


def main() -> None:
    """Make what is asked for, collect it, print a line for each measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "numbers", nargs="*", type=int, default=[200, 1000, 2000], help="captures (200 1000 2000)"
    )
    parser.add_argument("--jobs", type=int, default=usable_cpus(), help="processes (default: one a CPU)")
    asked = parser.parse_args()
    print("captures  from       seconds  ms/capture  parent MiB  worker MiB")
    for number in asked.numbers:
        with tempfile.TemporaryDirectory() as scratch:
            batch = Path(scratch, "batch")
            folders = [made(batch, i) for i in range(number)]
            rows = [
                {"number": i, "folder": folder.name, "key": key_of(folder), "active": True}
                for i, folder in enumerate(folders, 1)
            ]
            RunFolder(batch).write("batch.json", {"name": "bench", "id": "1", "runs": rows})
            measure(batch, number, asked.jobs, "captures")
            tasks = [Task(i, folder, folder / DIGEST) for i, folder in enumerate(folders)]
            for _, answer in digest_all(tasks, asked.jobs):
                assert not answer.error, answer.error
            measure(batch, number, asked.jobs, "digests")


def made(batch: Path, number: int) -> Path:
    """Make one run folder of a batch, its spec, status and capture."""
    combination, repeat = divmod(number, _REPEATS)
    run = RunFolder(batch / "runs" / f"{number:05}")
    run.create({})
    run.write(SPEC, {"label": f"n={combination}", "parameters": {"n": combination}, "repeat": repeat + 1})
    run.write("run.json", json.dumps({"duration_s": 1.5}))
    write(run.path / EXPORT, *enums(), *_rows(random.Random(number)))  # noqa: S311 - figures, no secrets
    run.write_status(Status("done", 0, 0, 0))
    return run.path


def _rows(figures: random.Random) -> list[Row]:
    rows: list[Row] = []
    for i in range(1, _LAUNCHES):
        start = 100_000 * i
        length = figures.randrange(1_000, 50_000)
        rows += [
            call("cudaLaunchKernel", start, start + 5_000, i),
            kernel(f"kernel_{i % 8}(float *, int)", start + 7_000, start + 7_000 + length, i),
        ]
    return [*rows, memcpy(1, 10, 5_000, 4096), nvtx("all", 0, 100_000 * _LAUNCHES)]


def measure(batch: Path, number: int, jobs: int, source: str) -> None:
    """Collect the batch in a process of its own, and print what that took."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "nsyswrap", "collect", str(batch), "--jobs", str(jobs)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peaks: dict[int, int] = {}
    before: list[int] = []
    while process.poll() is None:
        children = _children(process.pid)
        for pid in (process.pid, *(pid for pid in children if pid in before)):
            peaks[pid] = max(peaks.get(pid, 0), _peak_kib(pid))
        before = children
        time.sleep(_PAUSE_S)
    seconds = time.perf_counter() - begun
    said = process.communicate()[1].decode()
    if process.returncode:
        sys.exit(said)
    with (batch / "results.csv").open(newline="", encoding="utf-8") as file:
        done = sum(
            row["outcome"] == "done" and row["kernels"] == str(_LAUNCHES - 1) for row in csv.DictReader(file)
        )
    assert done == number, said
    parent = peaks.pop(process.pid) / _MIB
    worker = f"{max(peaks.values()) / _MIB:10.0f}" if peaks else "         -"
    print(
        f"{number:8,}  {source:8} {seconds:9.2f} {1e3 * seconds / number:11.2f} {parent:11.0f}  {worker}",
        flush=True,
    )


def _children(pid: int) -> list[int]:
    """Return the workers, which are forked. git, which is asked for the version, is soon another program.

    Until then the process waits for it, in a sleep that nothing interrupts.
    """
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        workers = [int(child) for child in children if _program(child) == _program(pid)]
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:  # it has ended
        return []
    return [] if state == "D" else workers


def _program(pid: int | str) -> Path:
    return Path(f"/proc/{pid}/exe").readlink()


def _peak_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    main()
