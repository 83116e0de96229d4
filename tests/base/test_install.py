"""What an optional feature needs is installed by the command that is named, in every kind of installation."""

import shlex
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from ran import ran

from nsyswrap.base.version import pip_install

ROOT = Path(__file__).resolve().parents[2]
REQUIRES = ["click>=8.1", "pyarrow>=14; extra == 'parquet'", 'torch>=2.1 ; extra == "scenarios"']


def test_the_packages_of_an_extra_are_named_and_not_nsyswrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _name: REQUIRES)
    assert shlex.split(pip_install("parquet"))[1:] == ["-m", "pip", "install", "pyarrow>=14"]
    assert shlex.split(pip_install("scenarios"))[1:] == ["-m", "pip", "install", "torch>=2.1"]


def test_it_is_the_python_that_runs_nsyswrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert shlex.split(pip_install("parquet"))[0] == "python3"
    monkeypatch.setenv("PATH", "/nowhere")
    assert shlex.split(pip_install("parquet"))[0] == sys.executable


def test_a_checkout_that_is_not_installed_is_named(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare")  # no nsyswrap is installed there
    program = "from nsyswrap.base.version import pip_install; print(pip_install('parquet'))"
    done = ran([tmp_path / "bare/bin/python3", "-c", program], env={"PYTHONPATH": str(ROOT)}, check=True)
    assert shlex.split(done.stdout)[1:] == ["-m", "pip", "install", f"{ROOT}[parquet]"]


def test_pip_takes_what_is_named() -> None:
    pytest.importorskip("pip")
    command = [*shlex.split(pip_install("parquet")), "--dry-run", "--no-deps", "--no-index", "-q"]
    done = ran(command)
    assert done.returncode == 0, (
        done.stderr
    )  # it is installed already: pip reads what it needs, and that is all
