"""The answer from the command line and from Python, and the steps it is about."""

import json
import re
from pathlib import Path

import pytest
from conftest import Cli
from recorded import run_folder
from tiny_export import call, kernel, nvtx, write

from nsyswrap.api import open_capture
from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports.answer import answer_lines, as_dict
from nsyswrap.reports.summary import SECTIONS


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Six steps of 1000 ns, each with a kernel of 300 ns; steps 2 to 3 have one of 600 ns."""
    rows = []
    for step in range(6):
        begin, lasts = 1000 * step, 600 if step in (2, 3) else 300
        rows += [nvtx("step", begin, begin + 990), call("cudaLaunchKernel", begin + 10, begin + 20, step + 1)]
        rows += [kernel("k", begin + 30, begin + 30 + lasts, step + 1)]
    return write(tmp_path / "x.sqlite", *rows)


def first_line(cli: Cli, *options: str | Path) -> str:
    done = cli("report", *options)
    assert done.returncode == 0, done.stderr
    return str(done.stdout.splitlines()[0])


def test_steps_are_chosen_by_name_number_or_both(cli: Cli, export: Path) -> None:
    # Busy 1200 of 2000 ns in steps 2 and 3. Step 0 is warm-up, step 5 ends with its range: 2100 of 4990 ns.
    for chosen in ("2-3", "step/2-3"):
        assert first_line(cli, export, "--steps", chosen) == (
            "GPU busy 60 % of steps 2 to 3: 2 x 'step', 1.00 µs each (2.00 µs)"
        )
    assert (
        first_line(cli, export, "--steps", "step/2")
        == "GPU busy 60 % of step 2: 1 x 'step', 1.00 µs each (1.00 µs)"
    )
    assert first_line(cli, export, "--steps", "step").startswith(
        "GPU busy 42 % of the steady part: 5 x 'step'"
    )


def test_steps_that_are_not_there_are_an_error(cli: Cli, export: Path) -> None:
    for command, chosen in (("report", "epoch"), ("report", "17-20"), ("view", "epoch/1")):
        done = cli(command, export, "--steps", chosen)
        assert (done.returncode, done.stdout) == (65, "")
        assert "--steps" in done.stderr or "the capture has 6 steps, numbered from 0" in done.stderr
    with pytest.raises(NotInCapture, match="epoch"):
        _ = open_capture(export).select(steps="epoch").answer


def test_python_users_choose_steps_too(export: Path) -> None:
    capture = open_capture(export)
    chosen = capture.select(steps="2-3")
    assert chosen.answer.busy_ns == {"other_kernel": 1200}
    assert chosen.select(device=0).view.steps == "2-3"
    assert capture.answer is capture.answer
    assert capture.viewed(steps="2-3").answer == chosen.answer


def test_the_page_judges_the_steps(cli: Cli, export: Path) -> None:
    done = cli("view", export, "--steps", "2-3", "-o", "-")
    assert re.search(
        r'<data [^>]*data-figure="busy_percent">60 %</data><span> busy in steps 2 to 3<', done.stdout
    )


def test_markdown_begins_with_the_answer_unless_reports_are_named(cli: Cli, export: Path) -> None:
    shown = cli("report", export, "--format", "markdown").stdout.splitlines()
    capture = open_capture(export)
    lines = answer_lines(capture, capture.answer)
    assert shown[0] == "**Answer**"
    assert len([line for line in shown[:20] if line.lstrip().startswith("- ")]) == len(lines)
    assert shown[2].startswith("- GPU busy 42 % of the steady part")
    named = cli("report", export, "--format", "markdown", "-r", "cuda_gpu_kern_sum").stdout
    assert named.startswith("**CUDA GPU Kernel Summary**")
    two = cli("report", export, export, "--format", "markdown").stdout
    assert two.count("- GPU busy 42 %") == 2
    assert two.startswith("**x**")


@pytest.mark.parametrize("name", ["add2/none", "nvtx/host"])
def test_json_has_the_answer_of_each_capture(cli: Cli, name: str, tmp_path: Path) -> None:
    folder = run_folder(name, tmp_path / "runs")
    [named] = json.loads(cli("report", folder, "-r", "nvtx_sum", "--format", "json").stdout)["captures"]
    assert named["answer"] is None
    document = json.loads(cli("report", folder, "--format", "json").stdout)
    assert [table["name"] for table in document["reports"]] == [table for table, _ in SECTIONS]
    [about] = document["captures"]
    assert about["answer"] == json.loads(json.dumps(as_dict(open_capture(folder).answer)))


def test_output_that_is_not_utf8_is_ascii(cli: Cli, export: Path) -> None:
    not_utf8 = {"PYTHONIOENCODING": "ascii:backslashreplace", "PYTHONUTF8": "0"}
    whole = cli("report", export, PYTHONIOENCODING="utf-8").stdout
    assert "█" in whole
    table = str.maketrans({"█": "#", "▒": "+", "░": ".", "µ": "u", "·": "-", "…": "...", "\u00d7": "x"})
    assert cli("report", export, **not_utf8).stdout == whole.translate(table)
    cli("report", export, "-o", "screen.txt", **not_utf8)
    assert "█" in (export.parent / "screen.txt").read_text(encoding="utf-8")
