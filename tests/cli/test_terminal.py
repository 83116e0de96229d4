"""What a terminal gets: names that hold control characters neither move its cursor nor color its text."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Cli
from sampled import sampled
from tiny_export import call, kernel, nvtx, write
from waiting import PATIENCE_S
from warm_cli import WarmCli, shown_on

# A title, hidden text, "move up", a C1 escape sequence, two overrides of the direction, a tab and a return.
EVIL = "e\x1b]0;x\x07\x1b[8m\x1b[2A\x9b31m\u202e\u2066\tl\r"
BREAK = f"{EVIL}\n::error::forged\nnsyswrap: forged"
STYLE = re.compile("\x1b\\[(?:[0124]|3[1236])(?:;(?:[0124]|3[1236]))*m")
PROGRESS = re.compile("\r +\r")  # wipes a line
UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
PLAN = """
[env]
A = {evil}
[node]
setup = ["true {escaped}"]
[[runs]]
name = {evil}
command = [{python}, {evil}, "{{v}}"]
grid = {{ v = [{evil}, "b"] }}
"""


ON_TERMINAL = {"TERM": "xterm", "COLUMNS": "100"}


def at_terminal(
    folder: Path, environment: dict[str, str], *arguments: str, python: Sequence[str] = ("-m", "nsyswrap")
) -> str:
    """Return all that a command prints on a terminal, both streams, as the terminal gets it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *python, *arguments],
        cwd=folder,
        env={**environment, **ON_TERMINAL},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    got = shown_on(ours)
    process.wait(timeout=PATIENCE_S)
    return got


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    events = (
        call("cudaLaunchKernel", 0, 5, 1),
        kernel(f"{EVIL} kernel", 10, 30, 1),
        nvtx(f"{EVIL} range", 0, 40),
    )
    write(tmp_path / f"{EVIL}.sqlite", *events)
    write(tmp_path / "x.sqlite", *events)
    (tmp_path / f"{EVIL}.damaged.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    (tmp_path / f"{EVIL}.py").write_text("")
    texts = {
        "evil": json.dumps(BREAK),
        "escaped": json.dumps(EVIL)[1:-1],
        "python": json.dumps(sys.executable),
    }
    (tmp_path / "plan.toml").write_text(PLAN.format(**texts))
    (tmp_path / "runs" / EVIL).mkdir(parents=True)
    (tmp_path / "runs" / EVIL / "run.json").write_text("{}")
    return tmp_path


@sampled(
    "command",
    [
        ["report", f"{EVIL}.sqlite"],
        ["report", f"{EVIL}.sqlite", "x.sqlite"],
        ["report", f"{EVIL}.sqlite", "--nvtx", f"wrong {EVIL}"],
        ["report", f"{EVIL}.sqlite", "-r", "nvtx_sum", "-r", "cuda_gpu_kern_sum"],
        ["report", f"{EVIL}.sqlite", "-r", EVIL],
        ["report", f"{EVIL}.sqlite", "--list"],
        ["report", f"{EVIL}.sqlite", "--top", EVIL],
        ["report", f"{EVIL}.sqlite", f"--{EVIL}"],
        ["report", f"{EVIL}.sqlite", "-r", "nvtx_sum", "--format", "csv"],
        ["report", f"{EVIL}.sqlite", "-r", "nvtx_sum", "--format", "tsv"],
        ["report", f"{EVIL}.sqlite", "-r", "nvtx_sum", "--format", "json"],
        ["report", f"{EVIL}.sqlite", "-r", "nvtx_sum", "--format", "markdown"],
        ["report", f"{EVIL}.damaged.sqlite"],
        ["report", f"{EVIL}.absent"],
        ["report", b"\x9b31m\xff.absent"],
        ["report", "--explain", EVIL],
        ["view", f"{EVIL}.sqlite"],
        ["view", f"{EVIL}.sqlite", "-o", "-"],
        ["plot", f"{EVIL}.sqlite", "-o", EVIL],
        ["export", f"{EVIL}.sqlite", "--perfetto", "-"],
        ["export", f"{EVIL}.sqlite", "--perfetto", "-", "--format", "json"],
        ["export", f"{EVIL}.sqlite", "--perfetto", f"{EVIL}.json"],
        ["redact", "--check", f"{EVIL}.sqlite"],
        ["redact", f"{EVIL}.sqlite", "-o", f"{EVIL}.out.sqlite"],
        ["collect", "runs"],
        ["collect", f"{EVIL}.sqlite", "x.sqlite", "-o", EVIL],
        ["batch", "run", "plan.toml", "--dry-run"],
        ["batch", "run", "plan.toml", "--dry-run", "--executor", "slurm"],
        ["batch", "run", EVIL],
        ["batch", "status", f"runs/{EVIL}"],
        ["scenarios", "run", EVIL],
        ["profile", "--dry-run", f"{EVIL}.py", EVIL],
        ["profile", f"{EVIL}.absent"],
        [EVIL],
    ],
    fast=12,
    ids=lambda command: " ".join(str(part) for part in command).replace(EVIL, "EVIL").replace("\x9b", ""),
)
def test_no_control_character_reaches_a_terminal(
    folder: Path, warm_cli: WarmCli, command: list[str | bytes]
) -> None:
    got = warm_cli.at_terminal([*map(os.fsdecode, command)], folder, ON_TERMINAL).stdout
    assert got.strip()
    assert UNWANTED.findall(PROGRESS.sub("", STYLE.sub("", got))) == []
    got.encode()  # no byte is left that is not UTF-8


def test_data_in_a_pipe_stay_as_they_are(folder: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "nsyswrap", "report", "x.sqlite", "-r", "nvtx_sum", "--format", "csv"]
    env = {**environment, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True)
    assert f"{EVIL} range".encode() in done.stdout


@pytest.mark.parametrize(
    "variables",
    [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}],
    ids=lambda variables: "".join(variables.values()),
)
def test_a_terminal_without_utf8_gets_ascii_in_columns(
    folder: Path, environment: dict[str, str], variables: dict[str, str]
) -> None:
    names = ("漢字 µ", "k" * 200)
    write(folder / "y.sqlite", *(kernel(name, 0, 20_000 + i, 1) for i, name in enumerate(names)))
    env = {name: value for name, value in environment.items() if not name.startswith(("LC_", "PYTHONIO"))}
    command = ["report", "y.sqlite", "-r", "cuda_gpu_sum", "--color", "never"]
    after_progress = at_terminal(folder, {**env, **variables}, *command).rpartition("\r")[2]
    assert after_progress.splitlines()[1:] == [
        "Time %  Total Time  Instances      Avg      Med  Operation",
        f"  50.0     20.0 us          1  20.0 us  20.0 us  {'k' * 32}...{'k' * 16}",
        "  50.0     20.0 us          1  20.0 us  20.0 us  \\u6f22\\u5b57 u",
        "... 4 columns left out for width (--format csv has all)",
    ]


@pytest.mark.parametrize("form", ["text", "csv", "markdown"])
def test_no_progress_is_shown_among_the_rows(folder: Path, environment: dict[str, str], form: str) -> None:
    at_once = "from nsyswrap.cli import main, output; output._PATIENCE_S = 0.0; main()"  # every step is slow
    command = ["report", "x.sqlite", "-r", "cuda_gpu_kern_sum", "--format", form]
    got = at_terminal(folder, environment, *command, python=["-c", at_once])
    assert "reading" in got.rpartition("\r")[0]
    assert "writing" not in got
    assert "Instances" in got.rpartition("\r")[2]


@pytest.mark.parametrize("option", ["--perfetto - --format json", "--flamegraph -"])
def test_no_progress_is_shown_among_what_is_exported(
    folder: Path, environment: dict[str, str], option: str
) -> None:
    at_once = "from nsyswrap.cli import main, output; output._PATIENCE_S = 0.0; main()"  # every step is slow
    got = at_terminal(folder, environment, "export", "x.sqlite", *option.split(), python=["-c", at_once])
    assert "wrote stdout" in got
    assert "writing" not in got


@sampled(
    "form", ["csv", "tsv", "json", "markdown", "text", "csv --csv-safe", "tsv --csv-safe"], fast=["text"]
)
def test_every_format_on_a_terminal(folder: Path, warm_cli: WarmCli, form: str) -> None:
    command = ["report", "x.sqlite", "-r", "cuda_gpu_kern_sum", "--format", *form.split()]
    got = warm_cli.at_terminal(command, folder, ON_TERMINAL).stdout
    assert "kernel" in got
    assert UNWANTED.findall(PROGRESS.sub("", STYLE.sub("", got))) == []


@pytest.mark.usefixtures("folder")
def test_a_value_of_a_plan_stays_on_its_line(cli: Cli) -> None:
    done = cli("batch", "run", "plan.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert UNWANTED.findall(done.stdout + done.stderr) == []
    first, second = done.stdout.splitlines()
    words = subprocess.run(
        ["bash", "-c", f"set -- {second.partition(': ')[2]}\nprintf '%s\\0' \"$@\""],
        capture_output=True,
        check=True,
    ).stdout
    values = words.decode("utf-8", "replace").split("\0")
    assert values[1:-1] == [sys.executable, BREAK.replace("\x9b", "\ufffd"), "b"]  # as it can be typed
    assert first.startswith("00001-")


@pytest.mark.usefixtures("folder")
def test_a_script_in_a_pipe_stays_as_it_is(cli: Cli) -> None:
    done = cli("batch", "run", "plan.toml", "--dry-run", "--executor", "slurm")
    assert done.returncode == 0, done.stderr
    assert f"\ntrue {EVIL}\n".replace("\r\n", "\n") in done.stdout.replace("\r\n", "\n")


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_runner_of_github_gets_no_command_of_a_name(folder: Path, cli: Cli, form: str) -> None:
    events = (call("cudaLaunchKernel", 0, 5, 1), kernel("##[add-mask]1\n::error::k", 10, 30, 1))
    for name in ("::error::a", "::error::b", "::warning::c"):
        write(folder / f"{name}.sqlite", *events)
    (folder / "::warning::c.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    names = ("::error::a.sqlite", "::error::b.sqlite", "::warning::c.sqlite")
    done = cli(
        "report", *names, "-r", "cuda_gpu_kern_sum", "--format", form, GITHUB_ACTIONS="true", COLUMNS="200"
    )
    assert "error::k" in done.stdout
    lines = re.split("[\r\n]", done.stdout + done.stderr)
    assert [line for line in lines if line.lstrip().startswith("::") or "##[" in line] == []
