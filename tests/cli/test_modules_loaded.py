"""How many modules of ours are loaded when nsys starts: each is waited for before the program runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from test_imports import HEAVY
from waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("nsys")
MOST = 44
# Python imports this by itself. It writes the loaded modules when a process starts `nsys profile`, the first
# time: an nsys that fails on a busy machine is started again.
SITECUSTOMIZE = """
import os, sys

def note_modules(event, arguments):
    if event == "subprocess.Popen":
        _, command, *_ = arguments
        if "profile" in command and command[-1] != "--help" and not os.path.exists({path!r}):
            with open({path!r}, "w") as file:
                print(*sys.modules, file=file)

sys.addaudithook(note_modules)
"""
SCENARIO = '''"""Do nothing."""
VARIANTS = ("one",)
NEEDS = ()
LOOK_FOR = "nothing."
'''
RUN_SCENARIO = """
from pathlib import Path
from nsyswrap.record import scenarios
scenarios._shipped = lambda _: Path()
from nsyswrap.cli import main
main(["scenarios", "run", "nothing", "-o", "run"])
"""

# The program has ended when nsys tells its progress first: from then on it is not disturbed.
MESSAGES = """
import sys, threading
from nsyswrap.cli import profile
messages = []
progress = profile._importing(messages.append)
progress("")
assert "numpy" not in sys.modules
progress("nsys: exporting")
progress("nsys: writing its tables")
progress("")
assert threading.active_count() == 1
assert set(profile._SCREEN) <= sys.modules.keys()
assert messages == ["", "nsys: exporting", "nsys: writing its tables", ""]
"""


@pytest.fixture
def python_path(tmp_path: Path, environment: dict[str, str]) -> str:
    """Where Python finds nsyswrap and a sitecustomize that notes the modules."""
    folder = tmp_path / "site"
    folder.mkdir()
    text = SITECUSTOMIZE.format(path=str(tmp_path / "modules"))
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return os.pathsep.join([str(folder), environment["PYTHONPATH"]])


def check_modules(folder: Path) -> None:
    modules = (folder / "modules").read_text(encoding="utf-8").split()
    ours = [name for name in modules if name.partition(".")[0] == "nsyswrap"]
    assert "nsyswrap.record.run" in ours
    assert len(ours) <= MOST, "\n".join(ours)
    assert HEAVY & set(modules) == set()


@pytest.mark.parametrize("more", [(), ("-r", "all", "--csv", "csv")])
def test_profile(tmp_path: Path, cli: Cli, python_path: str, more: tuple[str, ...]) -> None:
    done = cli("profile", "--no-stats", *more, "--", sys.executable, "-c", "pass", PYTHONPATH=python_path)
    assert done.returncode == 0, done.stderr
    check_modules(tmp_path)


def test_a_run_of_a_batch(tmp_path: Path, cli: Cli, python_path: str) -> None:
    sweep = ("batch", "sweep", "--no-stats", "-p", "x=1", "--", sys.executable, "-c", "pass", "{x}")
    done = cli(*sweep, PYTHONPATH=python_path)
    assert done.returncode == 0, done.stderr
    check_modules(tmp_path)


def test_a_scenario(tmp_path: Path, environment: dict[str, str], python_path: str) -> None:
    (tmp_path / "nothing.py").write_text(SCENARIO, encoding="utf-8")
    command = [sys.executable, "-c", RUN_SCENARIO]
    variables = {**environment, "PYTHONPATH": python_path}
    subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True, timeout=PATIENCE_S)
    check_modules(tmp_path)


@pytest.mark.parametrize("name", ["nope", "gpu_idle,nope", "gpu_gaps:nope=1"])
def test_a_wrong_report_is_rejected_before_the_program_runs(tmp_path: Path, cli: Cli, name: str) -> None:
    done = cli("profile", "-r", name, "--", "touch", "ran")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nope" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_shows_a_capture_is_imported_while_nsys_writes(environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", MESSAGES], env=environment, check=True)
