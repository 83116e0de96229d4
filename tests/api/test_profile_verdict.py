"""A profile against a baseline: when the verdict is true, and what a failing test shows."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import SETUP, made_side
from recorded import SHIPPED

from nsyswrap.analysis.compare.gate import GateLimits
from nsyswrap.analysis.compare.model import Side
from nsyswrap.api import Run
from nsyswrap.api.gpu_profile import Profile, Profiler
from nsyswrap.api.profiled import verdict_of
from nsyswrap.base.errors import CaptureError
from nsyswrap.base.run_folder import Status
from nsyswrap.reports.compare.baseline import baseline_text
from nsyswrap.reports.compare.sides import load_side

KERNELS = GateLimits(metrics=("kernels",))
BASE = made_side("base")


def test_equal_sides_pass() -> None:
    verdict = verdict_of(BASE, made_side("new", seed=2), KERNELS)
    assert verdict
    assert repr(verdict).startswith("<PASS: ")


def test_a_slower_kernel_fails_and_is_named() -> None:
    verdict = verdict_of(BASE, made_side("new", seed=2, factors={"gemm": 1.3}), KERNELS)
    assert not verdict
    assert repr(verdict).startswith("<FAIL: 1 of ")
    assert any("gemm" in line and "%" in line for line in verdict.lines)
    assert verdict_of(
        BASE, made_side("new", seed=2, factors={"gemm": 1.3}), GateLimits(0.5, metrics=("kernels",))
    )


def test_a_pattern_without_a_kernel_is_an_error() -> None:
    with pytest.raises(CaptureError, match="no kernel matches 'gem'"):
        verdict_of(BASE, BASE, GateLimits(kernels=("gem",)))


def test_one_run_gives_no_verdict_and_fails() -> None:
    verdict = verdict_of(Side("base", BASE.runs[:1]), Side("new", BASE.runs[1:2]), KERNELS)
    assert not verdict
    assert "cannot tell noise from change" in repr(verdict)
    assert verdict.lines[-1] == "use gpu_profile(..., runs=5), and a baseline of as many runs"


def test_another_gpu_fails_and_is_named() -> None:
    other = made_side("new", seed=2)
    runs = tuple(replace(run, setup=replace(SETUP, gpus=("NVIDIA L4",))) for run in other.runs)
    verdict = verdict_of(BASE, Side("new", runs), KERNELS)
    assert not verdict
    assert any("NVIDIA H200" in line and "NVIDIA L4" in line for line in verdict.lines)


def test_noise_is_true_unless_strict() -> None:
    noisy = made_side("new", runs=3, seed=3, factors={"gemm": 1.05})
    base = Side("base", BASE.runs[:3])
    verdict, strict = (
        verdict_of(base, noisy, GateLimits(metrics=("kernels",), is_strict=is_strict))
        for is_strict in (False, True)
    )
    assert verdict.result.verdict == "cannot tell"
    assert (bool(verdict), bool(strict)) == (True, False)


@pytest.fixture
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Profile:
    """Three runs that are equal to the last bit."""
    runs = [shutil.copytree(SHIPPED / "add2" / "both", tmp_path / f"run-{n}") for n in range(3)]
    done = Status("done", 0, 0, 0)
    return Profile(
        Profiler(tmp_path, tmp_path, request.node), tmp_path, tuple(Run(run, done) for run in runs)
    )


def test_a_saved_baseline(profile: Profile, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    side = load_side([run.folder for run in profile.runs])
    (tmp_path / "baseline.json").write_text(baseline_text(side))
    verdict = profile.compare("baseline.json", metrics=("total",))  # beside the test
    assert verdict, verdict.lines
    (section,) = (text for when, name, text in request.node._report_sections if name == "gpu_profile")  # noqa: SLF001
    assert section.endswith("\n".join(verdict.lines))


def test_a_baseline_that_is_not_there(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught:
        profile.compare("missing.json")
    assert (
        caught.value.hint
        == f"save these runs as the baseline: nsyswrap baseline save missing.json {tmp_path}"
    )
