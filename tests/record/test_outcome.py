"""How a run ended, from what nsys left behind."""

import errno
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from recorded import PICTURED

from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.record.hooked import HookNotes
from nsyswrap.record.outcome import RunEvidence, judge
from nsyswrap.record.program import Program, RunSpec
from nsyswrap.record.supervisor import NsysEnd


@pytest.mark.parametrize(
    ("ending", "more", "exported", "outcome"),
    [
        ({"code": 0}, {}, True, ("done", 0, 0)),
        ({"code": 7}, {}, True, ("program_failed", 7, 7)),
        ({"code": 1}, {}, False, ("nsys_failed", 1, 70)),
        ({"code": 1}, {"launcher_ran": False}, False, ("nsys_failed", None, 70)),
        ({"code": 0, "timed_out": True}, {}, True, ("timed_out", None, 75)),
        ({"code": 0, "signal": signal.SIGTERM}, {}, True, ("interrupted", None, 143)),
        ({"code": 1}, {"error_number": errno.ENOENT}, False, ("not_started", None, 127)),
        ({"code": 1}, {"error_number": errno.EACCES}, False, ("not_started", None, 126)),
    ],
)
def test_the_outcome_and_the_exit_code_of_a_run(
    ending: dict[str, Any],
    more: dict[str, Any],
    exported: bool,  # noqa: FBT001
    outcome: tuple[str, int | None, int],
    tmp_path: Path,
) -> None:
    if exported:
        shutil.copy(PICTURED / EXPORT, tmp_path)
    known = {"launcher_ran": True, "error_number": 0, "log": "", "reimport_error": None, "unmoved": ()}
    end = NsysEnd(**{"signal": None, "timed_out": False, "killed": False, **ending})
    evidence = RunEvidence(end, work=tmp_path, steps=HookNotes(), **{**known, **more})
    run = RunSpec(Program(("./train",), "train"), tmp_path, RecordingOptions(timeout_s=5.0))
    status = judge(run, evidence)
    assert (status.outcome, status.program_code, status.exit_code) == outcome


@pytest.mark.parametrize("gpu_error", ["", "the NVIDIA driver found no GPU"])
def test_counters_of_a_gpu_that_is_not_there(tmp_path: Path, gpu_error: str) -> None:
    """nsys says the same of no GPU and of one whose counters it cannot sample."""
    log = "Illegal --gpu-metrics-device arguments.\nNone of the installed GPUs are supported."
    end = NsysEnd(1, None, timed_out=False, killed=False)
    evidence = RunEvidence(end, False, 0, log, None, tmp_path, (), HookNotes(), gpu_error=gpu_error)  # noqa: FBT003
    run = RunSpec(Program(("./train",), "train"), tmp_path, RecordingOptions(gpu_metrics=True))
    status = judge(run, evidence)
    assert status.outcome == "nsys_failed"
    if gpu_error:
        assert status.message.endswith(f": --gpu-metrics needs a GPU: {gpu_error}")
        assert status.hint.startswith("record where a GPU is, or omit --gpu-metrics; ")
    else:
        assert status.message.endswith(": nsys cannot sample the counters of this machine's GPUs")
        assert "omit --gpu-metrics to record without them" in status.hint


@pytest.mark.parametrize("killed", [False, True])
def test_a_stopped_run_without_a_report_says_what_nsys_says(tmp_path: Path, *, killed: bool) -> None:
    """Its agent crashed at the end of the program. Where nsyswrap killed nsys, this is no news."""
    log = "Connection to Agent lost. This is most likely a bug. Internal reason: 'End of file'.\n"
    end = NsysEnd(143, signal.SIGTERM, timed_out=False, killed=killed)
    evidence = RunEvidence(end, True, 0, log, None, tmp_path, (), HookNotes())  # noqa: FBT003
    status = judge(RunSpec(Program(("./train",), "train"), tmp_path), evidence)
    reason = (
        "the export is missing" if killed else "nsys lost the connection to its agent, as if that was killed"
    )
    assert status.message == f"stopped by SIGTERM; no report: {reason}"
    assert status.hint == ("" if killed else "profile again")
