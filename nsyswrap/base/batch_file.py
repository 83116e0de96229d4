"""Read batch.json, which lists the runs that a batch plans."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nsyswrap.base.files import brief, read_json, typed
from nsyswrap.base.run_folder import BATCH, RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LONGEST_NAME = 255  # bytes, of Linux
_USUAL = re.compile(r"(?:[0-9]{2,9}/)?[0-9]{5,9}[\w=.,+-]{0,99}", re.ASCII).fullmatch  # as we name folders


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: its number, the path of its folder in ``runs/``, and the key of its spec.json.

    The folders of a large batch lie in folders of a thousand: ``12/12345-n=1``. ``active`` is False for a run
    of an earlier plan that a later one left out.
    """

    number: int
    folder: str
    key: str
    active: bool

    def __post_init__(self) -> None:
        """Raise ValueError for a number below 1, and for a folder outside of ``runs/``."""
        if self.number < 1:
            raise ValueError(f"number is {self.number}: expected 1 or more")
        if _USUAL(self.folder):
            return
        thousand, slash, name = self.folder.rpartition("/")
        if (
            name in ("", ".", "..")
            or (slash and not re.fullmatch("[0-9]{2,9}", thousand))
            or "\0" in name
            or len(os.fsencode(name)) > _LONGEST_NAME
        ):
            raise ValueError(f"folder is {brief(self.folder)}: expected the name of a folder")


@dataclass(frozen=True)
class BatchFile:
    """The name of the plan, the id of the batch, and all its runs."""

    name: str
    id: str
    runs: tuple[PlannedRun, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for no run, and for two with the same number, folder or key."""
        if not self.runs:
            raise ValueError("runs is empty: expected at least one run")
        for what in ("number", "folder", "key"):
            if len({getattr(run, what) for run in self.runs}) < len(self.runs):
                raise ValueError(f"two runs have the same {what}")


def batch_of(run: Path) -> Path:
    """Return the folder of the batch that a planned run would be part of, by the path of its folder."""
    return run.parents[1 if run.parent.name == RUNS else 2]


def read(folder: Path) -> BatchFile:
    """Read batch.json of a batch folder. Raises OSError and ValueError."""
    return typed(BatchFile, read_json(folder / BATCH))


def spec_key(spec: Mapping[str, Any]) -> str:
    """Return a hash of a spec.json without label and timeout. Specs of the same key are the same run."""
    facts = {name: value for name, value in spec.items() if name not in ("label", "timeout_s")}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
