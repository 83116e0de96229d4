"""Sweeps of a small program on this machine, and how their runs ended."""

from pathlib import Path

from nsyswrap.record.batch.folder import RunState, open_batch

PROGRAM = """
import os, sys, time
seconds, code = sys.argv[1:]
print(os.environ.get("CUDA_VISIBLE_DEVICES"), time.time(), flush=True)
if os.path.exists("go-on") or seconds != "600":
    seconds = min(float(seconds), 1)
time.sleep(float(seconds))
print(time.time())
sys.exit(int(code))
"""
RECORDING = ("--trace", "nvtx", "--no-stats", "-o", "b")


def sweep(*options: str, seconds: str = "0", code: str = "0") -> list[str]:
    """The arguments of a sweep: run by run, ``{s}`` seconds long and ending with ``{c}``."""
    values = ["-p", f"s={seconds}", "-p", f"c={code}"]
    return ["batch", "sweep", *RECORDING, *values, *options, "--", "prog.py", "{s}", "{c}"]


def states(folder: Path) -> dict[int, RunState]:
    return open_batch(folder / "b").survey()


def outcomes(folder: Path) -> list[str]:
    return [state.state for state in states(folder).values()]
