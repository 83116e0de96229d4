"""Each name and call on the page about Python is executed."""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recorded import ROOT
from tiny_export import everything, write

import nsyswrap
from nsyswrap.api.gpu_profile import Profiler
from nsyswrap.base import errors

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
RUN = ROOT / "nsyswrap" / "recorded" / "add2" / "none"
KINDS = ("kernel", "memcpy", "memset", "api", "nvtx")
PARTS: dict[str, Any] = {
    "time": "0s/1s",
    "nvtx": "none/cuda",
    "steps": "",
    "device": None,
    "process": None,
    "clip": True,
}
WORDS = {"Run", "_ns", "_bytes", "_percent", ".sqlite", ".nsys-rep", "nsyswrap.profile"}  # no names to call


@pytest.fixture(scope="module")
def capture() -> nsyswrap.CaptureReader:
    return nsyswrap.open_capture(RUN)


def spans() -> set[str]:
    """Return what the page shows as code in a sentence or in a table."""
    return set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))) - WORDS


def calls(capture: nsyswrap.CaptureReader, full: nsyswrap.CaptureReader) -> dict[str, Callable[[], object]]:
    """Return what executes each of them, but for what needs nsys; ``full`` has events of every kind."""
    report, answer = capture.report("advice"), capture.answer
    comparison = nsyswrap.compare(RUN, [RUN.parent / "both"], anyway=True)
    finding = answer.findings[0]
    with pytest.raises(errors.NotInCapture) as raised:
        capture.select(nvtx="no such range").report("gpu_time")
    error = raised.value
    return {
        "nsyswrap.open_capture(path)": lambda: nsyswrap.open_capture(str(RUN)),
        "capture.answer": lambda: answer,
        "capture.report(name)": lambda: capture.report("cuda_gpu_kern_sum"),
        "capture.events(kind)": lambda: capture.events("kernel"),
        "capture.select(...)": lambda: capture.select(nvtx="none/cuda"),
        "capture.plot(kind)": lambda: capture.plot("timeline"),
        'capture.report("advice").frame': lambda: report.frame,
        "capture.select(nvtx=...)": lambda: capture.select(nvtx="none/cuda"),
        "nsyswrap.compare(base, new)": lambda: comparison,
        "nsyswrap.measure(name)": lambda: nsyswrap.measure("step").__enter__(),
        "nsyswrap.REPORTS": lambda: nsyswrap.REPORTS,
        "nsyswrap.base.errors.NsyswrapError": lambda: errors.NsyswrapError,
        "NotInCapture": lambda: errors.NotInCapture,
        "read_parquet": lambda: pd.read_parquet,
        ".frame": lambda: report.frame,
        ".notes": lambda: report.notes,
        ".verdict": lambda: report.verdict,
        ".outcome": lambda: comparison.outcome,
        ".obstacles": lambda: comparison.obstacles,
        ".left_out": lambda: comparison.left_out,
        ".table.frame": lambda: comparison.table.frame,
        ".message": lambda: error.message,
        ".hint": lambda: error.hint,
        **{name: partial(getattr, answer, name) for name in ("busy_ns", "idle_ns", "findings")},
        **{
            name: partial(getattr, finding, name)
            for name in ("kind", "numbers", "ceiling_ns", "window_ns", "status", "source")
        },
        **{name: partial(full.events, name) for name in KINDS},
        **{name: partial(capture.select, **{name: value}) for name, value in PARTS.items()},
    }


def test_each_name_and_call_can_be_executed(capture: nsyswrap.CaptureReader, tmp_path: Path) -> None:
    known = calls(capture, nsyswrap.open_capture(write(tmp_path / "full.sqlite", *everything())))
    assert spans() - known.keys() == {
        *("nsyswrap.profile(command)", ".status", ".folder", ".capture"),
        "nsyswrap collect",  # a command
    }
    for execute in known.values():
        assert execute() is not None


def test_a_deprecated_name_is_the_new_one() -> None:
    name = "Capture"
    with pytest.deprecated_call(match=r"nsyswrap\.Capture is now nsyswrap\.CaptureReader"):
        assert getattr(nsyswrap, name) is nsyswrap.CaptureReader


def test_the_former_name_of_the_scope_works(capture: nsyswrap.CaptureReader) -> None:
    with pytest.deprecated_call(match=r"answer\.part is now answer\.scope"):
        assert capture.answer.part == capture.answer.scope


@pytest.mark.slow
@pytest.mark.usefixtures("nsys")
def test_profile_returns_what_the_page_says(tmp_path: Path) -> None:
    run = nsyswrap.profile([sys.executable, "-c", "print()"], output=tmp_path / "run", timeout=60)
    assert run.status.outcome == "done"
    assert run.folder == tmp_path / "run"
    assert run.capture.source


def test_a_wrong_trace_is_refused_before_anything_runs(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fixture = Profiler(tmp_path, tmp_path, request.node)
    profiles: tuple[Callable[..., object], ...] = (nsyswrap.profile, fixture)
    for profile in profiles:
        with pytest.raises(errors.UsageError, match="invalid trace 'cuda,nvxt': no value 'nvxt'") as caught:
            profile(sys.executable, trace="cuda,nvxt")
        assert caught.value.hint == "did you mean 'nvtx'?"
    assert not (tmp_path / "nsyswrap-runs").exists()
