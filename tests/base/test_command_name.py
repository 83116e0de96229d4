"""The command that hints name is one that works when it is typed."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from ran import ran

from nsyswrap.cli import output
from nsyswrap.cli.help import COMMANDS


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in which nsyswrap is installed in .venv, and a capture that is none."""
    script = tmp_path / ".venv" / "bin" / "nsyswrap"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!{sys.executable}\nfrom nsyswrap.cli import main\nmain()\n")
    script.chmod(0o755)
    return tmp_path


def hint(folder: Path, environment: dict[str, str], *command: str, path: str = os.defpath) -> str:
    """Return the command that a usage error advises."""
    done = ran([*command, "report", "--qqq"], cwd=folder, env={**environment, "PATH": path})
    [line] = [line for line in done.stderr.splitlines() if line.endswith(" shows all options")]
    return line.strip().removesuffix(" report --help shows all options")


def test_a_script_that_is_not_on_the_path(checkout: Path, environment: dict[str, str]) -> None:
    assert hint(checkout, environment, ".venv/bin/nsyswrap") == ".venv/bin/nsyswrap"
    assert hint(checkout, environment, str(checkout / ".venv/bin/nsyswrap")) == ".venv/bin/nsyswrap"
    other = checkout / "runs"
    other.mkdir()
    assert hint(other, environment, "../.venv/bin/nsyswrap") == "../.venv/bin/nsyswrap"
    script = str(checkout / ".venv/bin/nsyswrap")
    assert hint(other, environment, script) == script


def test_a_script_on_the_path(checkout: Path, environment: dict[str, str]) -> None:
    path = f"{checkout}/.venv/bin:{os.defpath}"
    assert hint(checkout, environment, ".venv/bin/nsyswrap", path=path) == "nsyswrap"
    twin = checkout / "elsewhere" / "nsyswrap"
    twin.parent.mkdir()
    shutil.copy(checkout / ".venv/bin/nsyswrap", twin)  # another installation comes first
    assert hint(checkout, environment, ".venv/bin/nsyswrap", path=f"{twin.parent}:{path}") != "nsyswrap"


def test_a_module(tmp_path: Path, environment: dict[str, str]) -> None:
    assert hint(tmp_path, environment, sys.executable, "-m", "nsyswrap") == f"{sys.executable} -m nsyswrap"


def test_help_names_the_module_once(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "nsyswrap"]
    done = ran(command, cwd=tmp_path, env=environment, check=True)
    assert done.stdout.count(sys.executable) == done.stdout.count(f"{sys.executable} -m nsyswrap ") > 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see nsyswrap report runs/a", "see X report runs/a"),
        ("(`nsyswrap redact --help`)", "(`X redact --help`)"),
        ("nsyswrap: report.sqlite is missing", "nsyswrap: report.sqlite is missing"),
        (
            "nsyswrap/recorded, nsyswrap-runs, /opt/nsyswrap report",
            "nsyswrap/recorded, nsyswrap-runs, /opt/nsyswrap report",
        ),
        ("nsyswrap reports the figures of nsys", "nsyswrap reports the figures of nsys"),
        ("Usage: nsyswrap report [OPTIONS]", "Usage: nsyswrap report [OPTIONS]"),
    ],
)
def test_only_commands_are_replaced(monkeypatch: pytest.MonkeyPatch, text: str, shown: str) -> None:
    monkeypatch.setattr(output, "command_name", lambda: "X")
    assert output.with_command_name(text, COMMANDS) == shown
