"""What is made of a capture to be passed on holds no credential and no name of a person in a path."""

import random
from pathlib import Path

import numpy as np
import pytest
from conftest import Cli
from credential_kinds import made
from sampled import sampled
from tiny_export import DIAGNOSTIC, KERNEL, everything, kernel, nvtx, row, write

from nsyswrap import open_capture

CHANCE = random.Random(3)  # noqa: S311 - not for secrets
FIRST, SECOND, ARGUMENT = (made(form, CHANCE) for form in ("ghp_{a36}", "ghp_{a36}", "{w14}"))
SECRETS = (FIRST, SECOND, ARGUMENT, "zaphod")
WORDS = ["train.py", "--password", ARGUMENT]
RANGES = [f"login {FIRST}", f"login {SECOND}", "login redacted", "open /home/zaphod/x"]
COMMANDS = {
    "page": "view x.sqlite -o page.html",
    "report in Markdown": "report x.sqlite -r nvtx_sum --format markdown",
    "screen in Markdown": "report x.sqlite --format markdown",
    "comparison": "compare x.sqlite y.sqlite --anyway --format markdown",
    "baseline": "baseline save b.json x.sqlite",
    "metrics": "export x.sqlite --metrics openmetrics -o m.txt",
    "plots": "plot x.sqlite --format svg -o plots",
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    arguments = [
        row("META_DATA_CAPTURE", name=f"PROCESS_0:{'COMMAND' if not i else f'ARGUMENT_{i - 1}'}", value=word)
        for i, word in enumerate(WORDS)
    ]
    ranges = [nvtx(name, i, 900 + i) for i, name in enumerate(RANGES)]
    whole = [one for one in everything() if one.table != DIAGNOSTIC]  # without lost events
    write(tmp_path / "y.sqlite", *whole, *ranges, *arguments)
    return write(tmp_path / "x.sqlite", *whole, *ranges, *arguments)


@pytest.mark.usefixtures("capture")
@sampled("what", COMMANDS, fast=3)
def test_what_is_passed_on_holds_no_secret(tmp_path: Path, cli: Cli, what: str) -> None:
    done = cli(*COMMANDS[what].split())
    assert done.returncode == 0, done.stderr
    texts = [done.stdout, done.stderr]
    written = [path for path in tmp_path.rglob("*.*") if path.is_file() and path.suffix != ".sqlite"]
    texts += [path.read_text(encoding="utf-8") for path in written]
    assert [secret for secret in SECRETS if any(secret in text for text in texts)] == []
    assert "written with 'redacted' in place of credentials and of people's names" in done.stderr


def test_ranges_stay_different_and_keep_their_numbers(capture: Path) -> None:
    rows = open_capture(capture).report("nvtx_sum").rows()
    shown = open_capture(capture).viewed(shared=True).report("nvtx_sum").rows()
    new = {"login redacted", "login redacted (2)", "login redacted (3)", "open /home/redacted/x"}
    names = {str(cell).removeprefix(":") for cells in shown for cell in cells if "redacted" in str(cell)}
    assert names == new
    numbers = [[cell for cell in cells if not isinstance(cell, str)] for cells in rows]
    assert [[cell for cell in cells if not isinstance(cell, str)] for cells in shown] == numbers


def test_names_of_kernels_hold_no_secret(tmp_path: Path) -> None:
    names = [f"open /home/zaphod/x {FIRST}", "add"]
    capture = open_capture(
        write(tmp_path / "k.sqlite", *(kernel(name, i, i + 5) for i, name in enumerate(names)))
    )
    near = capture.nearby({KERNEL: np.arange(2)}, (0, 9))  # as a window of a large capture is read
    for one in (capture, near):
        ids = one.columns("kernel", "name")["name"]
        assert one.texts(ids) == names
        assert one.viewed(shared=True).texts(ids) == ["open /home/redacted/x redacted", "add"]


def test_data_has_names_as_they_are(capture: Path, cli: Cli) -> None:
    done = cli("report", capture, "-r", "nvtx_sum", "--format", "csv")
    assert all(name in done.stdout for name in RANGES)
    assert "written with 'redacted'" not in done.stderr
