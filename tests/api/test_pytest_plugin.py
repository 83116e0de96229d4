"""The pytest plugin: a session that does not use it, and ``gpu_profile`` in a session of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from doc_commands import blocks
from gpus_here import needs_gpu

from nsyswrap.api import pytest_plugin, runs
from nsyswrap.api.gpu_profile import Profile, Profiler
from nsyswrap.api.profiled import MatchedEvents
from nsyswrap.base.errors import Unavailable
from nsyswrap.base.run_folder import CALLER
from nsyswrap.record.doctor.programs import probe
from nsyswrap.record.in_program import call_function

if TYPE_CHECKING:
    Session = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compare.md"
MAY_LOAD = {"nsyswrap", "nsyswrap.base", "nsyswrap.base.lazy", "nsyswrap.api"}

UNUSED = f"""
import sys

def test_nothing_is_loaded():
    ours = {{name for name in sys.modules if name.partition(".")[0] == "nsyswrap"}}
    assert ours == {MAY_LOAD | {"nsyswrap.api.pytest_plugin"}}
    assert not {{"numpy", "pandas", "matplotlib", "click", "rich", "dataclasses_json"}} & set(sys.modules)
"""
USED = """
import os
from pathlib import Path

import pytest


class Point:
    x = 2


def work(number, point, path):
    print("working", number, point.x, path, os.getpid())


def fail():
    print("about to fail")
    raise ValueError("out of luck")


def test_function(gpu_profile, capfd):
    profile = gpu_profile(work, 3, Point(), Path("a b"), runs=2)
    out = capfd.readouterr().out
    assert out.count("working 3 2 a b") == 2
    assert str(os.getpid()) not in out
    assert [run.folder.name for run in profile.runs] == ["run-1", "run-2"]
    assert (profile.kernels("add*").count, profile.launches.count) == (0, 0)
    assert "GPU" in repr(profile.kernels())
    assert profile.report("diagnostics").frame is not None
    command = profile.runs[0].folder.joinpath("run.json").read_text()
    assert __name__ + ":work" in command
    assert str(gpu_profile.folder) not in command.partition('"cwd"')[0]


def test_script_beside(gpu_profile, monkeypatch, capfd):
    monkeypatch.chdir("/")
    gpu_profile("script.py", "--steps", 3)
    assert capfd.readouterr().out == "['--steps', '3']\\n"


def test_failing(gpu_profile):
    gpu_profile(fail)


def test_lambda(gpu_profile):
    gpu_profile(lambda: 1)
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Runs pytest on a test file, with this plugin and no others but those named."""

    def run(text: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_it.py").write_text(text)
        (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:])\n")
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        plugins = ("-p", pytest_plugin.__name__, "-p", "no:cacheprovider")
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, "--basetemp=tmp", "-q", "-rs", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


def test_a_session_that_does_not_use_it_loads_nothing(session: Session) -> None:
    done = session(UNUSED, "-W", "error")
    assert done.returncode == 0, done.stdout


def test_the_fixture_is_explained(session: Session) -> None:
    done = session("", "--fixtures")
    assert "gpu_profile" in done.stdout
    assert "Profile a program or a function under nsys" in done.stdout


@pytest.mark.usefixtures("nsys")
def test_programs_and_functions(session: Session, tmp_path: Path) -> None:
    done = session(USED, "-p", "xdist", "-n", "2")
    assert "2 failed, 2 passed" in done.stdout, done.stdout
    text = done.stdout
    assert "Failed: program failed under nsys: test_it:fail ended with exit code 1" in text
    assert "about to fail" in text
    assert "ValueError: out of luck" in text
    assert "is a lambda: another process cannot import it" in text
    assert "nsyswrap/api" not in text  # tracebacks end in the test
    assert list(tmp_path.glob("tmp/*/test_failing0/gpu_profile-1/run-1/status.json"))


def test_without_nsys_a_test_is_skipped_unless_it_was_named(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_nsys(_: object) -> None:
        raise Unavailable("nsys not found", "install it")

    monkeypatch.setattr(runs, "run", no_nsys)
    monkeypatch.setenv("NSYSWRAP_NSYS", "/no/nsys")
    profile = Profiler(tmp_path, tmp_path, request.node)
    with pytest.raises(Unavailable, match="nsys not found"):
        profile(sys.executable)
    monkeypatch.delenv("NSYSWRAP_NSYS")
    with pytest.raises(pytest.skip.Exception, match="gpu_profile: nsys not found"):
        profile(sys.executable)


def test_the_script_has_the_name_that_commands_know() -> None:
    assert Path(call_function.__file__).name == CALLER


def test_the_page_names_what_there_is() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## pytest\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"\bprofile\.(\w+)|`\.(\w+)`", section))
    names = {one or other for one, other in named} - {"cu"}
    assert {"kernels", "compare", "total_bytes"} <= names
    assert {name for name in names if not (hasattr(Profile, name) or hasattr(MatchedEvents, name))} == set()


@pytest.mark.gpu
@pytest.mark.usefixtures("nsys", "torch")
@needs_gpu
def test_the_first_example_of_the_page(session: Session) -> None:
    done = session(blocks(PAGE, "python")[0], "-k", "one_kernel")
    assert done.returncode == 0, done.stdout


@pytest.mark.gpu
@pytest.mark.usefixtures("nsys")
@needs_gpu
def test_kernels_are_counted(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    # not by the fixture: where only PYTHONPATH has nsyswrap, pytest does not find its plugin
    profile = Profiler(tmp_path, request.path.parent, request.node)(probe.__file__, "gpu")
    adds, copies = profile.kernels("vector_add*"), profile.copies("H2D")
    assert adds.count == probe.ROUNDS, adds
    assert copies.count == 2 * probe.ROUNDS
    assert 0 < adds.median_ns <= adds.total_ns
    assert profile.launches.count == probe.ROUNDS
