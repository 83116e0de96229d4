"""Batches as they lie on disk, made by hand: run folders with a spec, a status, and tiny captures."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

from tiny_export import kernel, write

from nsyswrap.base.run_facts import spec_key
from nsyswrap.base.run_folder import CLAIM, EXPORT, RUN, SPEC, Outcome, RunFolder, Status

DONE = Status("done", 0, 0, 0)


def planned(
    batch: Path, number: int, parameters: Mapping[str, object], repeat: int = 1, label: str = ""
) -> Path:
    """Plan a run: a folder with a spec, and no more."""
    folder = batch / "runs" / f"{number:05}"
    folder.mkdir(parents=True)
    said = label or " ".join(f"{name}={value}" for name, value in parameters.items())
    spec = {"label": said, "parameters": parameters, "repeat": repeat, "command": [folder.name]}
    RunFolder(folder).write(SPEC, spec)
    return folder


def captured(folder: Path, *lengths_ns: int, outcome: Outcome = "done", wall_s: float = 1.5) -> Path:
    """End a run with a capture: kernels ``k`` of these lengths, one after another."""
    begin = [sum(lengths_ns[:i]) for i in range(len(lengths_ns))]
    write(
        folder / EXPORT,
        *(kernel("k", b, b + ns, i) for i, (b, ns) in enumerate(zip(begin, lengths_ns, strict=True))),
    )
    return ended(folder, outcome, wall_s)


def ended(folder: Path, outcome: Outcome, wall_s: float = 1.5, message: str = "") -> Path:
    """Write down how a run ended."""
    RunFolder(folder).write(RUN, {"duration_s": wall_s})
    codes = {"done": 0, "timed_out": 75, "nsys_failed": 70}
    RunFolder(folder).write_status(Status(outcome, None, None, codes.get(outcome, 1), message))
    return folder


def claimed(folder: Path) -> Path:
    """Begin a run, and let go of it: a node that died."""
    RunFolder(folder).write(CLAIM, {"host": "gone", "pid": 1, "began": 0.0, "job": "", "restarts": 0})
    return folder


def batch_of(batch: Path) -> Path:
    """Write batch.json for the run folders that are there."""
    folders = sorted((batch / "runs").iterdir())
    rows = [
        {"number": i, "folder": f.name, "key": key_of(f), "active": True} for i, f in enumerate(folders, 1)
    ]
    RunFolder(batch).write("batch.json", {"id": "1", "name": batch.name, "runs": rows})
    return batch


def key_of(folder: Path) -> str:
    """Return the key of a run folder's spec.json, as batch.json has it."""
    return spec_key(json.loads((folder / SPEC).read_text(encoding="utf-8")))


def rows_of(file: Path) -> list[dict[str, str]]:
    """Read a CSV file as anybody would."""
    with file.open(newline="", encoding="utf-8") as content:
        return list(csv.DictReader(content))
