"""Tables on a narrow screen: short forms come before cuts, and one line says that columns are left out."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import PICTURED
from rich.text import Text
from tiny_export import call, everything, kernel, memcpy, memset, opened

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import Unit
from nsyswrap.render import summary_screen
from nsyswrap.render.formats import csv, json, text
from nsyswrap.render.names import abbreviated
from nsyswrap.reports import NAMES
from nsyswrap.reports.answer import AnswerLine
from nsyswrap.reports.summary import summarize
from nsyswrap.reports.table import Column, Schema, Table, table_of

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
        Column("total_ns", "Total Time", Unit.NS, "h"),
        Column("name", "Name", Unit.TEXT, "h", kernels=True),
    )
    table = table_of(Schema("a", "A", columns), [(10**9, name) for name in names])
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
        replace(part, schema=replace(part.schema, name=name))
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
        Column("total_ns", "Total Time", Unit.NS, "h"),
        Column("api", "API", Unit.TEXT, "h"),
        Column("kernel", "Kernel", Unit.TEXT, "h"),
    )
    rows = [(10**9, "cudaLaunchKernel", "k" * 30), (10**9, "4096    1    1  256", "short")]
    [first, second] = (lines_of(table_of(Schema("a", "A", columns), [row]), 44)[2] for row in rows)
    assert first == "    1.00 s  cudaLaunchKernel  kkkkkkkk…kkkkk"
    assert second == "    1.00 s  4096    1    1  256  short"
    narrow = lines_of(table_of(Schema("a", "A", columns), rows[1:]), 34)[2]
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
