"""Run folders of equal steps with a kernel each, for tests of what `compare` and baselines read."""

from pathlib import Path
from typing import Any

from tiny_export import call, kernel, nvtx, write

from nsyswrap.base.run_folder import EXPORT, RUN, Outcome, RunFolder, Status

STEPS = 20


def make_run(folder: Path, kernel_us: int = 40, outcome: Outcome = "done", **facts: Any) -> Path:
    """Make a run of steps that end with a kernel of ``kernel_us``, and a pause of 20 µs before each."""
    run = RunFolder(folder)
    run.make()
    rows, at = [], 0
    for n in range(STEPS):
        end = at + 20_000 + kernel_us * 1000 + n % 3 * 100
        rows += [
            nvtx("step", at, end + 5_000),
            call("cudaLaunchKernel", at + 5_000, at + 15_000, n + 1),
            kernel("add(float*)", at + 20_000, end, n + 1),
        ]
        at = end + 10_000
    write(folder / EXPORT, *rows)
    command = ["python3", "train.py"]
    run.write(RUN, {"nsyswrap": "0.2", "command": command, "duration_s": 1.0, **facts})
    failed = outcome != "done"
    run.write_status(Status(outcome, int(failed), 0, int(failed), "exit code 1" if failed else ""))
    return folder


def make_repeats(folder: Path, kernels_us: tuple[int, ...]) -> Path:
    """Make a folder of equal runs, run-1 and on, with kernels of these durations."""
    for number, kernel_us in enumerate(kernels_us, 1):
        make_run(folder / f"run-{number}", kernel_us, repeat={"number": number, "count": len(kernels_us)})
    return folder
