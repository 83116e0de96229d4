"""The files that are mutated, as nsyswrap writes them, and what commands print for them as they are."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from unittest import mock

from conditioned import EPOCH, H200, csv_of, sample
from tiny_export import everything, kernel, row, write

import nsyswrap
from nsyswrap.base.run_facts import Conditions, Host
from nsyswrap.base.run_folder import CLAIM, CONDITIONS, EXPORT, RUN, RunFolder, Status
from nsyswrap.record.batch.folder import make_batch
from nsyswrap.record.batch.plan import read_plan
from nsyswrap.reports.runs.digest import write_digest

CAPTURE = Path("tiny.sqlite")
RULES = Path("rules.toml")
PLAN = Path("plan.toml")
SETTINGS = Path("config/nsyswrap/config.toml")
PROJECT = Path("pyproject.toml")
INDEX = Path("state/nsyswrap/runs/node1.jsonl")
CONDITIONED = Path("ranks/rank-0")
SWEEP, OUT, OLD = Path("sweep"), Path("out"), Path("old")
TABLES = ("results.csv", "summaries.csv", "kernels.csv")
TEXTS = {
    PLAN: """
name = "sweep"
repeat = 2
timeout = 60.5
env = { MODE = "fast" }

[nsys]
trace = "cuda,nvtx"
stats = false
delay = 0.5
args = ["--cuda-memory-usage=true"]

[slurm]
partition = "gpu"
cpus-per-task = 4

[[runs]]
command = "train.py --batch {batch} --rate {rate}"
grid = { batch = [32, 64] }
points = [{ rate = 1e-3 }, { rate = 0.1 }]
repeat = 1

[[runs]]
command = ["./add", "{size}"]
grid.size = [1, "many"]
""",
    RULES: """
[[class]]
name = "stencil"
pattern = "advec|diffuse"

[[class]]
name = "mine"
pattern = '^k$'
""",
    SETTINGS: """
top = 7
color = "never"
trace = "cuda"
nsys = "/opt/nsys/bin/nsys"
""",
    PROJECT: """
[project]
name = "x"

[tool.nsyswrap]
top = 5
readable = true
""",
    INDEX: """
{"folder": "sweep", "cwd": ".", "began": 1795321098.123}

{"folder": "ranks/rank-0", "cwd": ".", "began": 1795321099}
{"folder": "gone", "cwd": "/", "began": 1795321000.5}
""",
}
ENVIRONMENT = {"XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state"}
_VERSION = "0.2.0"
_EXPORT_TIME = 1_795_321_098_000_000_000  # ns


@cache
def template() -> dict[Path, bytes]:
    """Return the files of the template by their paths in the folder of a case, the same for all commits."""
    with (
        tempfile.TemporaryDirectory() as made,
        mock.patch("nsyswrap.record.batch.folder.version", return_value=_VERSION),
        mock.patch("nsyswrap.reports.runs.digest.version", return_value=_VERSION),
    ):
        folder = Path(made)
        for path, text in TEXTS.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        write(folder / CAPTURE, *everything(), kernel("advec_x", 0, 7, 50))
        _make_sweep(folder)
        for rank in (0, 1):
            rank_folder = folder / "ranks" / f"rank-{rank}"
            rank_folder.mkdir(parents=True)
            _end(rank_folder, 10 + rank, rank=rank)
        _put_conditions(folder / CONDITIONED)
        return {
            path.relative_to(folder): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def _make_sweep(folder: Path) -> None:
    """Make a batch whose first runs are done, the second without its capture; the last one is lost."""
    batch = make_batch(folder / SWEEP, read_plan(folder / PLAN))
    for number in batch.runs:
        if number < len(batch.runs):
            _end(batch.run_folder(number), number)
    (batch.run_folder(2) / EXPORT).unlink()
    _claim(batch.run_folder(len(batch.runs)))
    jobs = [{"job": "17", "offset": 0, "tasks": "1-6", "submitted": 1_795_321_098}]
    (folder / SWEEP / "slurm").mkdir()
    (folder / SWEEP / "slurm" / "jobs.json").write_text(json.dumps({"jobs": jobs}), encoding="utf-8")


def _end(folder: Path, number: int, rank: int | None = None) -> None:
    kernels = [kernel("k", 100 * i, 100 * i + 10 * number, i) for i in range(1, 4)]
    # Captures that started at one time, of one size, count as copies.
    write(folder / EXPORT, *kernels, row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH + (rank or 0)))
    os.utime(folder / EXPORT, ns=(_EXPORT_TIME, _EXPORT_TIME))
    run = RunFolder(folder)
    facts = {"rank": rank, "local_rank": rank, "world_size": 2, "profiled": None}
    run.write(
        RUN,
        {
            "nsyswrap": _VERSION,
            "command": ["python3", "train.py"],
            "cwd": "/",
            "host": "node1",
            "env_set": [],
            "timeout_s": None,
            "started": "2026-11-22T04:18:18.899+00:00",
            "nsys": {"path": "nsys", "version": "2023.4.4.54", "trace": "nvtx", "capture_range": None},
            **({} if rank is None else {"rank": facts}),
            "duration_s": 1.228,
            "nsys_starts": 1,
            "gpus": [],
            "driver": "",
            "cuda": "",
            "gpu_error": "",
        },
    )
    write_digest(folder)  # which has facts of run.json, too
    _claim(folder)
    run.write_status(Status("done", 0, 0, 0))


def _put_conditions(folder: Path) -> None:
    """Add the conditions of a GPU with ten samples, all within 100 ms after its kernels."""
    run = RunFolder(folder)
    facts = Conditions((H200,), Host("node1", "Xeon", 64, "powersave", (0.5, 2.5)), {"torch": "2.9.1"})
    run.write(RUN, run.read_run() | {"conditions": json.loads(json.dumps(asdict(facts)))})
    run.write(CONDITIONS, csv_of([sample(9 * i, 1980 - 60 * i) for i in range(1, 11)]))


def _claim(folder: Path) -> None:
    facts = {"host": "node1", "pid": 6111, "began": 1_795_321_098.9, "job": "17_1", "restarts": 0}
    RunFolder(folder).write(CLAIM, json.dumps(facts))


def lay(folder: Path, without: Path | None = None) -> None:
    for path, raw in template().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path != without:
            target.write_bytes(raw)
            os.utime(target, ns=(_EXPORT_TIME, _EXPORT_TIME))


def tables(folder: Path) -> dict[str, str]:
    """Return the tables that ``collect`` wrote; empty texts for those that it did not write."""
    paths = {name: folder / OUT / name for name in TABLES}
    return {name: path.read_bytes().decode() if path.exists() else "" for name, path in paths.items()}


@cache
def tables_before() -> dict[str, str]:
    """Return the tables of the template as it is."""
    with tempfile.TemporaryDirectory() as made:
        _printed(Path(made), ("collect", str(SWEEP), "-o", str(OUT), "--jobs", "1"))
        return tables(Path(made))


@cache
def printed_before(argv: tuple[str, ...]) -> str:
    """Return what the command prints for the template as it is."""
    with tempfile.TemporaryDirectory() as made:
        return _printed(Path(made), argv)


def _printed(folder: Path, argv: tuple[str, ...]) -> str:
    lay(folder)
    code = "from nsyswrap.cli import main; main()"
    places = {name: str(folder / place) for name, place in ENVIRONMENT.items()}
    places["PYTHONPATH"] = str(Path(nsyswrap.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=folder,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
