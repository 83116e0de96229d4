"""Reports as text: the width limit holds for all names, and the command prints the text."""

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conftest import Cli
from rich.cells import cell_len
from sampled import sampled
from tiny_export import call, everything, kernel, memcpy, nvtx, opened, write
from warm_cli import WarmCli

from nsyswrap.api import CaptureReader
from nsyswrap.base.units import Unit
from nsyswrap.render import summary_screen as screen
from nsyswrap.render.formats import text
from nsyswrap.render.formats.text import table_lines
from nsyswrap.reports import NAMES, parse
from nsyswrap.reports.summary import summarize
from nsyswrap.reports.table import Column, Schema, table_of

LONG = "void cutlass::Kernel<cutlass::gemm::device::Gemm<float, {}, cutlass::epilogue::Linear>>(T1::Params)"
UGLY = [
    "漢字" * 60,
    "👩‍👩‍👧❤️" * 20,
    "é" * 200,
    "\x1b[31mred\x1b[0m\x07\r",
    "two\nlines\tand a tab",
    "right to left \u202eevil\u2028",
    "[bold red]markup[/] [link=http://x]y[/link] :smile:",
    "a" * 500,
    "a" * 250 + "b" + "a" * 249,
    *(LONG.format(kind) for kind in ("half", "float", "int8")),
]


def ugly(folder: Path) -> CaptureReader:
    """Reports of every kind with names that are long, wide, or contain control characters."""
    rows = []
    for i, name in enumerate(UGLY):
        end = 10**9 + 10**i
        rows += [kernel(name, 100, end, i), call(f"{name}Synchronize", 0, 50 + i, i), nvtx(name, 0, 60 + i)]
    copies = [memcpy(kind, 0, 10 ** (kind + 4), 10**kind) for kind in range(1, 11)]
    return opened(folder, *everything(), *rows, *copies)


def text_of(capture: CaptureReader, report: str, width: int = 100, *, color: bool = False) -> list[str]:
    [content] = text.render([capture.report(report)], width=width, color=color).values()
    return content.splitlines()


@sampled("widths", [range(40, 201, 10), (40, 100, 200)], fast=[(40, 100, 200)])
@sampled("report", NAMES, fast=12)
def test_a_table_is_never_wider_than_asked_and_has_all_its_rows(
    report: str, widths: Iterable[int], tmp_path: Path
) -> None:
    table = replace(ugly(tmp_path).report(report), verdict="")
    prose = any(column.is_sentence for column in table.columns)  # sentences take several lines
    for width in widths:
        [content] = text.render([table], width=width).values()
        lines = content.splitlines()
        code = [line for line in lines if line.startswith("   code:")]  # one line each, to be pasted
        assert max(cell_len(line) for line in lines if line not in code) <= width, width
        if table.schema.layout == "paragraphs":
            assert sum(line.startswith("   seen:") for line in lines) == len(table)
            examples = [f"   code:   {example}" for example in table.data["example"]]
            assert code == examples
            continue
        body = lines[2:]
        notes = next((i for i, line in enumerate(body) if line.startswith("… ")), len(body))
        assert notes >= len(table) if prose else notes == len(table), width


def test_every_name_is_told_apart_at_100_columns(tmp_path: Path) -> None:
    _, header, *lines = text_of(ugly(tmp_path), "cuda_gpu_kern_sum")
    assert len({line[header.index("Name") :] for line in lines[: len(UGLY)]}) == len(UGLY)


def test_what_moves_the_cursor_is_written_as_an_escape(tmp_path: Path) -> None:
    content = "\n".join(text_of(ugly(tmp_path), "cuda_gpu_kern_sum", 200))
    assert not set(content) & {"\x1b", "\x07", "\r", "\t", "\u202e", "\u2028"}
    assert r"\x1b[31mred\x1b[0m\x07\r" in content
    assert r"two\nlines\tand a tab" in content
    assert r"right to left \u202eevil\u2028" in content


def test_markup_in_a_name_is_text(tmp_path: Path) -> None:
    content = "\n".join(text_of(ugly(tmp_path), "cuda_gpu_kern_sum", 200, color=True))
    assert "[bold red]markup[/] [link=http://x]y[/link] :smile:" in content


def test_without_colour_there_is_no_escape_sequence(tmp_path: Path) -> None:
    capture = ugly(tmp_path)
    assert "\x1b" not in "\n".join(text_of(capture, "cuda_gpu_kern_sum"))
    assert "\x1b[" in "\n".join(text_of(capture, "cuda_gpu_kern_sum", color=True))


def test_figures_have_units_and_missing_ones_a_dash(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 2500, 1), kernel(7, 1000, 3000, 1))
    title, header, row, *_ = text_of(capture, "launch_overhead")
    assert title == "Launch overhead  launch_overhead"
    assert header.startswith("Launches  First Launches  Repeats  API Med  ")
    assert row.split()[:4] == ["1", "1", "0", "-"]
    assert row.endswith("  [all launches]")
    assert text_of(capture, "cuda_gpu_kern_sum")[2].endswith("(no name)")


def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(kernel(f"k{i}", 0, i + 1) for i in range(1500)))
    [content] = text.render([capture.report("cuda_gpu_kern_sum")], top=2).values()
    assert len(content.splitlines()) == 5
    assert content.splitlines()[-1] == "… 1,498 more rows (-r cuda_gpu_kern_sum)"


def test_what_is_selected_stands_under_the_table(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), memcpy(1, 0, 5, 8)).select(time="0/3", device=0)
    table = replace(capture.report("cuda_gpu_mem_time_sum"), notes=("what the command line says on stderr",))
    [content] = text.render([table], width=80).values()
    assert content.splitlines()[-2:] == [
        "selected: time 0s/0.000000003s; device 0; whole rows (--clip no)",
        "… 1 column left out for width (--format csv has all)",
    ]


def test_what_is_selected_stands_above_the_tables_of_the_screen(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 50, 1), call("f", 0, 9, 1)).select(time="5/20", process=100)
    lines = screen.render(summarize(capture)).splitlines()
    selected = [line for line in lines if line.startswith("selected")]
    assert selected == [
        "selected: time 0.000000005s/0.00000002s; process 100; rows cut at its ends (--clip yes)"
    ]
    assert lines.index(selected[0]) < lines.index("")


def test_a_screen_of_everything_speaks_of_no_window(tmp_path: Path) -> None:
    assert "selected" not in screen.render(summarize(opened(tmp_path, kernel("k", 10, 50, 1))))


def test_files_and_titles_say_how_a_report_was_asked_for(tmp_path: Path) -> None:
    table = parse("cuda_gpu_kern_sum:base").make(opened(tmp_path, kernel("k", 0, 5), kernel("l", 0, 5)))
    [(file, content)] = text.render([table], top=1).items()
    assert file == "cuda_gpu_kern_sum_base.txt"
    assert content.splitlines()[0].endswith("  cuda_gpu_kern_sum_base")
    assert content.splitlines()[-1] == "… 1 more row (-r cuda_gpu_kern_sum:base)"


def test_a_missing_text_is_a_gap_where_it_names_nothing(tmp_path: Path) -> None:
    lines = text_of(opened(tmp_path, kernel(7, 0, 5)), "cuda_gpu_trace", 400)
    assert lines[2].count("(no name)") == 1
    assert lines[2].endswith("(no name)")


def test_a_long_trace_takes_steps_that_grow_with_it() -> None:
    columns = (Column("start_ns", "Start", Unit.NS, "h"), Column("name", "Name", Unit.TEXT, "h"))
    schema = Schema("trace", "Trace", columns)

    def steps(rows: int) -> int:
        table = table_of(schema, [(i, f"{'same' * 50}{i}") for i in range(rows)])
        lines = 0

        def trace(_: FrameType, event: str, __: object) -> Any:  # noqa: ANN401 - itself
            nonlocal lines
            lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert len(table_lines(table, 100)) == rows + 2
        finally:
            sys.settrace(before)
        return lines

    assert steps(2000) < 20 * steps(200)  # ten times the rows must not take a hundred times the steps


def test_several_reports_in_one_go(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5), call("f", 0, 5))
    done = cli("report", path, "-r", "cuda_api_sum", "-r", "cuda_gpu_kern_sum", "--format", "csv")
    assert done.stdout.count("Time (%)") == 2
    assert done.stdout.index("Num Calls") < done.stdout.index("Instances")


def test_csv_files_into_a_folder(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k, l", 0, 5))
    done = cli("report", path, "--csv", tmp_path / "new" / "csv")
    folder = tmp_path / "new" / "csv"
    files = {file.name for file in folder.iterdir()}
    assert (done.returncode, done.stdout) == (0, "")
    assert files >= {"cuda_gpu_kern_sum.csv", "cuda_gpu_sum.csv"}
    assert not {name for name in files if "api_sum" in name or "nvtx" in name}  # which have no events
    assert (folder / "cuda_gpu_kern_sum.csv").read_bytes().endswith(b'5.0,5,5,0.0,"k, l"\n')


def test_a_pipe_that_has_seen_enough(tmp_path: Path, environment: dict[str, str]) -> None:
    path = write(tmp_path / "x.sqlite", *(kernel(f"kernel {i}", 0, 5) for i in range(5000)))
    command = [
        sys.executable,
        "-m",
        "nsyswrap",
        "report",
        str(path),
        "-r",
        "cuda_gpu_kern_sum",
        "--format",
        "csv",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"Time (%)")
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("said", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colour_is_for_terminals_that_want_it(
    tmp_path: Path, warm_cli: WarmCli, said: dict[str, str], *, coloured: bool
) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    done = warm_cli.at_terminal(["report", str(path)], tmp_path, {"TERM": "xterm", **said})
    assert done.returncode == 0
    assert ("\x1b[" in done.stdout) is coloured
    assert "cuda_gpu_sum" in done.stdout


@pytest.mark.parametrize(
    ("color", "said", "coloured"),
    [
        ("auto", {}, False),  # a pipe
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "0"}, False),
        ("auto", {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_the_option_outranks_the_variables(
    tmp_path: Path, cli: Cli, color: str, said: dict[str, str], *, coloured: bool
) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 5))
    done = cli("report", path, "--color", color, **{"TERM": "xterm", **said})
    assert done.returncode == 0
    assert ("\x1b[1m" in done.stdout) is coloured  # a title
    assert "cuda_gpu_sum" in done.stdout
    assert "\x1b" not in done.stderr
