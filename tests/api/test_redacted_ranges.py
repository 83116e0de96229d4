"""A run that records several ranges loses its environment in the export of each."""

from pathlib import Path

import pytest

from nsyswrap.api import runs
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_folder import Status
from nsyswrap.capture.redact import RemovalResult
from nsyswrap.record.program import Callbacks, Program, RunSpec


def test_names_that_lost_a_value_are_counted_by_range(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def execute(spec: RunSpec, callbacks: Callbacks) -> Status:
        for number in range(3):
            callbacks.finish(spec.output / f"range-{number}")
        return Status("done", 0, 0, 0)

    counts, told = iter((0, 3, 2)), list[int]()
    removal = "nsyswrap.capture.redact.remove_environment"
    monkeypatch.setattr(removal, lambda *_: RemovalResult(next(counts), str))
    monkeypatch.setattr("nsyswrap.record.run.execute", execute)
    spec = RunSpec(Program(("true",), "true"), tmp_path, RecordingOptions())
    runs.run(spec, Callbacks(renamed=told.append))
    assert told == [3, 2]
