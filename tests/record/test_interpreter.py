"""The Python that runs a program, and the versions installed for it."""

from __future__ import annotations

import os
import platform
import sys
import time
import venv
from typing import TYPE_CHECKING

import pytest

from nsyswrap.record.conditions import interpreter, versions

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = {"python": platform.python_version()}
PATIENT_S = 120.0  # of a busy machine


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with distributions that have metadata and no code."""
    folder = tmp_path_factory.mktemp("environment") / "of a project"
    venv.create(folder, symlinks=True)
    installed = {"torch": "2.9.0+cu130", "nvidia_cudnn_cu13": "9.13.0.50", "triton": "3.5.0", "numpy": "2.3"}
    installed |= {"nvidia_nccl_cu12": "2.27.3", "nvidia_nccl_cu13": "2.28.1"}  # which is used is not known
    [site] = folder.glob("lib/python*/site-packages")
    for name, version in installed.items():
        metadata = site / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    (site / "torch.py").write_text("raise SystemExit('imported')")
    return folder


def script(folder: Path, first_line: str) -> Path:
    path = folder / "launch"
    path.write_text(f"{first_line}\nimport sys\n")
    path.chmod(0o755)
    return path


def test_versions_of_a_virtual_environment(environment: Path) -> None:
    certain = {"torch": "2.9.0+cu130", "cudnn": "9.13.0.50", "triton": "3.5.0"}
    assert versions([str(environment / "bin/python"), "train.py"], os.environ, PATIENT_S) == {
        **PYTHON,
        **certain,
    }


def test_the_python_of_a_script(environment: Path, tmp_path: Path) -> None:
    python = environment.with_name("linked") / "bin" / "python3"
    python.parent.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        python.symlink_to(environment / "bin" / "python3")
    assert interpreter([str(script(tmp_path, f"#!{python}"))], {}) == str(python)
    assert interpreter([str(script(tmp_path, f"#!{python} -u"))], {}) == str(python)
    assert interpreter(
        [str(script(tmp_path, "#!/usr/bin/env python3"))], {"PATH": str(python.parent)}
    ) == str(python)


@pytest.mark.parametrize("first_line", ["#!/bin/sh", "#!", "", "#!/usr/bin/env", "#!/opt/missing/python3"])
def test_what_is_not_known_to_be_python(tmp_path: Path, first_line: str) -> None:
    assert interpreter([str(script(tmp_path, first_line))], {}) is None
    assert versions([str(script(tmp_path, first_line))], {}) == {}


def test_a_program_that_is_missing_or_binary() -> None:
    assert interpreter(["no-such-program"], os.environ) is None
    assert interpreter(["true"], os.environ) is None


def test_the_environment_of_the_program_decides(environment: Path) -> None:
    [site] = environment.glob("lib/python*/site-packages")
    with_path = {**os.environ, "PYTHONPATH": str(site)}
    assert versions([sys.executable], with_path, PATIENT_S)["torch"] == "2.9.0+cu130"


def test_nothing_in_the_current_folder_is_imported(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    assert "torch" in versions([str(environment / "bin/python")], os.environ, PATIENT_S)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("program", ["exit 1", "echo hello", "echo '[1, {}]'", "true", "exec sleep 60"])
def test_a_python_that_does_not_answer(tmp_path: Path, program: str) -> None:
    python = script(tmp_path, f"#!/bin/sh\n{program}").rename(tmp_path / "python3")
    began = time.monotonic()
    assert versions([str(python)], os.environ, limit_s=0.5) == {}
    assert time.monotonic() < began + 10
