"""Reports as text: the width limit holds for all names, and the command prints the text."""

import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conftest import Cli
from recorded import PICTURED
from rich.cells import cell_len
from rich.text import Text
from sampled import sampled
from tiny_export import call, everything, kernel, memcpy, memset, nvtx, opened, write
from warm_cli import WarmCli

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.errors import NotInCapture
from nsyswrap.render import summary_screen
from nsyswrap.render import summary_screen as screen
from nsyswrap.render.formats import csv, json, text
from nsyswrap.render.formats.text import table_lines
from nsyswrap.render.names import abbreviated
from nsyswrap.reports import NAMES, parse
from nsyswrap.reports.answer import AnswerLine
from nsyswrap.reports.summary import summarize
from nsyswrap.reports.table import Column, Schema, Table, table_of

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
    columns = (Column("start_ns", "Start", "h"), Column("name", "Name", "h"))
    schema = Schema("trace", "Trace", *columns)

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


H2D, D2H, UM_H2D, UM_D2H = 1, 2, 11, 12
ADD = (
    "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>"
)


def lines_of(table: Table, width: int = 80) -> list[str]:
    return next(iter(text.render([table], width=width).values())).splitlines()


def migrating(folder: Path) -> CaptureReader:
    kinds = (H2D, D2H, UM_H2D, UM_D2H)
    return opened(folder, *(memcpy(kind, 0, 50 + kind, 4096) for kind in kinds), memset(100, 150, 64))


def test_copies_have_short_names_at_80_columns_and_whole_ones_at_200(tmp_path: Path) -> None:
    table = migrating(tmp_path).report("memcpy_bandwidth")
    names = {line[: line.index("  ")] for line in lines_of(table)[2:7]}
    assert names == {"H2D", "D2H", "UM H2D", "UM D2H", "memset"}
    assert "[CUDA memcpy Unified Host-to-Device]" in "\n".join(lines_of(table, 300))


def named(*names: str, width: int) -> list[str]:
    """Return the names of a table of a figure of 10 columns, as a screen of this width shows them."""
    columns = (
        Column("total_ns", "Total Time", "h"),
        Column("name", "Name", "h", kernels=True),
    )
    table = table_of(Schema("a", "A", *columns), [(10**9, name) for name in names])
    return [line[12:] for line in lines_of(table, width)[2 : 2 + len(names)]]


@pytest.mark.parametrize(
    ("room", "name"),
    [
        (36, "[CUDA memcpy Unified Host-to-Device]"),
        (35, "[CUDA memcpy UM H2D]"),
        (20, "[CUDA memcpy UM H2D]"),
        (19, "memcpy UM H2D"),
        (13, "memcpy UM H2D"),
        (12, "UM H2D"),
    ],
)
def test_a_name_is_as_long_as_there_is_room(room: int, name: str) -> None:
    assert named("[CUDA memcpy Unified Host-to-Device]", width=12 + room) == [name]


def test_a_name_is_cut_where_its_short_form_is_too_long() -> None:
    assert named(ADD, width=12 + 14) == ["elementw…t> \N{MULTIPLICATION SIGN}4"]


def test_the_copies_of_a_table_have_one_form() -> None:
    names = ("[CUDA memcpy Unified Host-to-Device]", "[CUDA memcpy Device-to-Host]", "[CUDA memset]")
    assert named(*names, width=12 + 30) == ["[CUDA memcpy UM H2D]", "[CUDA memcpy D2H]", "[CUDA memset]"]


def test_a_kernel_that_does_not_fit_has_its_readable_name() -> None:
    assert named(ADD, "copy", width=60) == ["elementwise add<float> \N{MULTIPLICATION SIGN}4", "copy"]
    assert named(ADD, width=200) == [ADD]


def test_all_kernels_of_a_column_become_readable_if_one_does_not_fit() -> None:
    gemm = "nvjet_tst_64x128_64x8_1x2_h_bz_TNN"
    assert named(ADD, gemm, width=60) == [
        "elementwise add<float> \N{MULTIPLICATION SIGN}4",
        "gemm bf16 64x128x64 tnn",
    ]
    assert named(gemm, width=60) == [gemm]


def test_kernels_that_share_a_readable_name_are_numbered() -> None:
    one, other = ADD, ADD.replace("3ul", "4ul")
    shown = [f"elementwise add<float> \N{MULTIPLICATION SIGN}4 #{number}" for number in (1, 2)]
    assert named(one, other, width=60) == shown
    assert abbreviated([one], 30, [one]) == ["elementwise add<float> \N{MULTIPLICATION SIGN}4"]
    assert abbreviated([one], 30, [one, other]) == shown[:1]  # a row that is not shown


def test_kernels_are_numbered_among_all_rows_also_those_that_top_leaves_out(tmp_path: Path) -> None:
    add = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, X>(int)"
    names = [add, add.replace("(int)4", "4")]
    capture = opened(tmp_path, *(kernel(name, 9 * i, 9 * i + 5) for i, name in enumerate(names)))
    table = capture.report("cuda_gpu_kern_sum")
    every, first = (str(*text.render([table], width=80, top=top).values()) for top in (None, 1))
    assert ("#1" in every, "#2" in every, "#1" in first) == (True, True, True)


def test_texts_that_would_become_equal_stay_as_they_are() -> None:
    texts = ["[CUDA memcpy Peer-to-Peer]", "[CUDA memcpy P2P]"]
    assert abbreviated(texts, 20) == texts


CUT = re.compile(r"\[CUDA[^\]]*…|memcpy [^ ]*…|Unified[^ ]*…|host code[^ ]* ?[^ ]*…|cuda\w+…\w+(?=  )")


@pytest.mark.parametrize("name", ["add2/both", "add/grid"])
def test_no_recorded_copy_or_cause_or_call_is_cut_at_80_columns(name: str) -> None:
    capture = open_capture(PICTURED.parents[1] / name)
    cut: dict[str, list[str]] = {}
    for report in NAMES:
        with suppress(NotInCapture):
            table = capture.report(report)
            cut[report] = [line for line in lines_of(table) if CUT.search(line)]
    assert len(cut) > 20
    assert not any(cut.values()), cut


def test_files_for_programs_keep_the_names_of_nsys(tmp_path: Path) -> None:
    table = migrating(tmp_path).report("memcpy_bandwidth")
    for content in (*csv.render([table]).values(), *json.render([table]).values()):
        assert "[CUDA memcpy Unified Host-to-Device]" in content
        assert "H2D" not in content


def test_one_line_tells_of_the_columns_left_out_of_all_tables(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything())
    tables = [
        capture.report(name) for name in ("cuda_gpu_trace", "cuda_api_sum", "cuda_gpu_kern_sum", "gpu_idle")
    ]
    lines = "".join(text.render(tables, width=80).values()).splitlines()
    assert [line for line in lines if "left out" in line] == [lines[-1]]
    assert lines[-1] == "… columns left out for width in 4 tables (--format csv has all)"
    alone = lines_of(tables[1])
    assert [line for line in alone if "left out" in line] == [alone[-1]]
    assert "left out" not in "".join(text.render(tables, width=1000).values())


def test_the_summary_screen_tells_once_that_tables_have_more(tmp_path: Path) -> None:
    lines = summary_screen.render(summarize(opened(tmp_path, *everything())), width=80).splitlines()
    assert sum("columns" in line for line in lines) == 1


def test_a_verdict_that_two_tables_share_stands_once(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel("k", 0, 5), call("f", 0, 9)).report("cuda_gpu_kern_sum")
    tables = [
        replace(table, verdict=verdict) for verdict in ("the first is late", "the first is late", "fine")
    ]
    tables = [
        replace(part, schema=Schema(name, part.schema.title, *part.schema.columns))
        for part, name in zip(tables, "abc", strict=True)
    ]
    lines = "".join(text.render(tables, width=80).values()).splitlines()
    assert [line for line in lines if line in ("the first is late", "fine")] == ["the first is late", "fine"]


def test_no_line_of_a_colored_screen_is_bold_but_headings() -> None:
    summary = summarize(open_capture(PICTURED))
    lines = [
        Text.from_ansi(line) for line in summary_screen.render(summary, width=80, color=True).splitlines()
    ]
    bold = {
        line.plain: line.plain[span.start : span.end]
        for line in lines
        for span in line.spans
        if "bold" in str(span.style)
    }
    headings = {text: part for text, part in bold.items() if part.endswith(":")}
    titles = {text: part for text, part in bold.items() if text not in headings}
    assert (
        headings["GPU busy 8 % of the whole capture: 63.4 ms from first to last GPU operation"]
        == "GPU busy 8 % of the whole capture:"
    )
    assert set(titles.values()) == {table.schema.title for table, _ in summary.tables}
    assert all(len(part) < len(text) for text, part in bold.items())


def test_a_short_name_stays_whole_beside_a_long_one_and_figures_in_a_text_move_together() -> None:
    columns = (
        Column("total_ns", "Total Time", "h"),
        Column("api", "API", "h"),
        Column("kernel", "Kernel", "h"),
    )
    rows = [(10**9, "cudaLaunchKernel", "k" * 30), (10**9, "4096    1    1  256", "short")]
    [first, second] = (lines_of(table_of(Schema("a", "A", *columns), [row]), 44)[2] for row in rows)
    assert first == "    1.00 s  cudaLaunchKernel  kkkkkkkk…kkkkk"
    assert second == "    1.00 s  4096    1    1  256  short"
    narrow = lines_of(table_of(Schema("a", "A", *columns), rows[1:]), 34)[2]
    assert narrow == "    1.00 s  4096 1 1 256  short"


def test_a_sentence_of_the_answer_is_wrapped_once() -> None:
    words = " ".join(f"word{number:02}" for number in range(20))
    texts = summary_screen.answer_texts([AnswerLine(words, "verdict", heading="No GPU work")], 60)
    lines = [str(line) for line in texts]
    assert all(len(line) > 60 - len(" word00") for line in lines[:-1])
    assert [line[:4] for line in lines[1:]] == ["    "] * (len(lines) - 1)


def test_what_matters_is_neither_yellow_nor_cyan(tmp_path: Path) -> None:
    """These have a contrast of 1.7 : 1 or less to a white ground."""
    screen = summary_screen.render(summarize(opened(tmp_path, *everything())), color=True)
    styles = {code for codes in re.findall(r"\x1b\[([\d;]*)m", screen) for code in codes.split(";")}
    assert styles <= {"0", "1", "2", "4", "31", "32", "35"}
