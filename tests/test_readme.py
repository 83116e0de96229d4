"""The README stays true: its demo is what the demo prints, its commands and its Python run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nsyswrap.record import gpus as device

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
NO_GPU = device.query().error


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    """Every nsyswrap command line of the README that stands on a line of its own."""
    lines = "".join(blocks("sh")).splitlines()
    return [line for line in lines if line.startswith("nsyswrap ")]


def needs(command: str) -> list[pytest.MarkDecorator]:
    """What a command cannot do without: `.cu` files and scenarios a GPU, profile a real nsys."""
    marks = [pytest.mark.nsys] if " profile " in command else []
    if re.search(r"profile (kernels|scenarios)|scenarios run", command):
        marks += [pytest.mark.gpu, pytest.mark.skipif(bool(NO_GPU), reason=f"needs a GPU: {NO_GPU}")]
    return marks


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the checkout and may be written to, with one run in it."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("kernels", "scenarios", "nsyswrap"):
        (folder / name).symlink_to(ROOT / name)
    run = folder / "nsyswrap-runs" / "add2-1"
    run.mkdir(parents=True)
    (run / "report.sqlite").symlink_to(ROOT / "nsyswrap/recorded/add2/both/report.sqlite")
    (run / "status.json").write_text("{}")
    return folder


def test_each_promise_is_held_by_a_test_that_there_is() -> None:
    promises = README.partition("### What you can rely on")[2].partition("\n## ")[0]
    named = re.findall(r"`(test_\w+)`", promises)
    defined = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("**/test_*.py"))
    assert len(named) > 12
    assert [name for name in named if f"def {name}(" not in defined] == []


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [pytest.param(c, marks=needs(c)) for c in commands()])
@pytest.mark.slow
def test_command_works(command: str, checkout: Path) -> None:
    arguments = shlex.split(command, comments=True)[1:]
    done = run([sys.executable, "-m", "nsyswrap", *arguments], checkout)
    assert done.returncode == 0, done.stderr
    assert "nothing in what is selected" not in done.stderr


def test_every_command_of_the_tool_is_in_the_readme() -> None:
    from nsyswrap.cli import COMMANDS  # noqa: PLC0415

    shown = README
    assert [name for name in COMMANDS if f"nsyswrap {name}" not in shown] == []


def test_every_report_is_in_the_readme() -> None:
    from nsyswrap.reports import NAMES  # noqa: PLC0415

    assert [name for name in NAMES if f"`{name}`" not in README] == []


@pytest.mark.skipif(not NO_GPU, reason="with a GPU the demo shows this machine's own numbers")
@pytest.mark.slow
def test_the_demo_prints_what_the_readme_shows() -> None:
    done = run([sys.executable, "-m", "nsyswrap", "demo"], ROOT)
    first, _, shown = done.stdout.partition("\n\n")
    assert done.returncode == 0
    assert first.startswith("Recorded on an NVIDIA H200, not run here: ")
    assert shown == blocks("text")[0]


@pytest.mark.slow
def test_the_python_examples_run() -> None:
    done = run([sys.executable, "-c", "\n".join(blocks("python"))], ROOT)
    assert done.returncode == 0, done.stderr
    assert re.match(r"\d+\n", done.stdout)  # what measure took
    assert re.search(r"^load: [\d.]+ ms$", done.stderr, re.MULTILINE)
    assert "add2_kernel" in done.stdout
