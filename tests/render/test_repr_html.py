"""HTML of tables and captures in a notebook: the cells of the screen, with escaped text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from recorded import run_folder
from tiny_export import diagnostic, everything, kernel, opened

from nsyswrap.api import open_capture
from nsyswrap.render.formats.text import column_cells, fitted_columns, heading
from nsyswrap.render.names import readable_tables
from nsyswrap.render.notebook import names_first, table_html
from nsyswrap.reports import NAMES, find_report
from nsyswrap.reports.summary import summarize

if TYPE_CHECKING:
    from browser import Visit

pytest_plugins = ("browser",)
CELL = "font-size:12px;padding:2px 8px;text-align:"
NAME = '<script>alert("1")</script> & $x$ \n \U0001f600 ' + "y" * 1500


class Page(HTMLParser):
    """Parse the cells of all tables, their tooltips, the texts between tables, and all tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.wholes: list[str | None] = []  # the tooltips of the cells in a row
        self.said: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.wholes.append(dict(attrs).get("title") if tag == "td" else None)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        else:
            self.said.append(data)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "advice"])
def test_every_report_shows_the_cells_of_the_screen(name: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *everything()).report(name)
    page = Page(table._repr_html_())
    [[heads, *rows]] = page.tables
    texts = column_cells(table.first(20), "auto")
    [readable] = readable_tables([table])
    shown = fitted_columns(readable, column_cells(readable.first(20), "auto"), 100)
    order = names_first(table.columns, list(shown))
    assert [row[k] for row in rows for k in range(len(order))] == [
        cell for row in zip(*(shown[i] for i in order), strict=True) for cell in row
    ]
    assert heads == [heading(table.columns[i]) for i in order]
    hidden = len(table.columns) - len(order)
    assert ("left out for width (.frame has all)" in "".join(page.said)) is bool(hidden)
    wholes = page.wholes[len(heads) :]
    cells = [
        whole or cell for cell, whole in zip((cell for row in rows for cell in row), wholes, strict=True)
    ]
    assert cells == [cell for row in zip(*(texts[i] for i in order), strict=True) for cell in row]
    assert len(rows) == min(len(table), 20)
    assert table.schema.title in page.said
    assert not table.verdict or table.verdict in page.said
    assert {f"note: {note}" for note in table.notes} <= set(page.said)


def test_rows_beyond_the_first_are_counted(tmp_path: Path) -> None:
    table = opened(tmp_path, *(kernel(f"k{i}", i, i + 1) for i in range(30))).report("cuda_gpu_kern_sum")
    page = Page(table._repr_html_())
    assert len(page.tables[0]) == 21
    assert "… 10 more rows (.frame has all)" in page.said
    assert len(Page(table_html(table, top=None)).tables[0]) == 31


def test_figures_stand_on_the_right_and_say_what_they_are(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel("k", 0, 20)).report("cuda_gpu_kern_sum")
    heads = [attributes for tag, attributes in Page(table._repr_html_()).tags if tag == "th"]
    *figures, name = [column.help for column in table.columns]
    assert [head["title"] for head in heads] == [name, *figures]
    assert len(figures) == 8
    assert [head["style"] for head in heads] == [f"{CELL}left", *[f"{CELL}right"] * (len(heads) - 1)]
    cells = [attributes["style"] for tag, attributes in Page(table._repr_html_()).tags if tag == "td"]
    assert cells == [f"{CELL}left;white-space:nowrap", *[f"{CELL}right;white-space:nowrap"] * 8]


def test_names_are_text_and_shortened_ones_keep_the_whole_in_the_title(tmp_path: Path) -> None:
    html = opened(tmp_path, kernel(NAME, 0, 20)).report("cuda_gpu_kern_sum")._repr_html_()
    page = Page(html)
    assert {tag for tag, _ in page.tags} <= {"div", "b", "code", "table", "thead", "tbody", "tr", "th", "td"}
    shown = page.tables[0][1][0]
    assert shown.startswith("<script>alert")
    assert len(shown) <= 80
    titles = [attributes.get("title") for tag, attributes in page.tags if tag == "td"]
    assert titles[0] == NAME.replace("\n", "\\n")
    assert "mathjax_ignore" in str(page.tags[0][1]["class"])


def test_a_kernel_has_its_readable_name_and_the_full_one_in_the_title(tmp_path: Path) -> None:
    capture = open_capture(run_folder("add2/none", tmp_path))
    [full] = [name for name in capture.report("cuda_gpu_kern_sum").data["name"] if "at::native" in str(name)]
    for html in (capture.report("cuda_gpu_kern_sum")._repr_html_(), capture._repr_html_()):
        cells = [cell for table in Page(html).tables for row in table for cell in row]
        assert "elementwise add<float> \N{MULTIPLICATION SIGN}4" in cells
        assert not any("at::native" in cell for cell in cells)
        assert full in Page(html).wholes


@pytest.mark.parametrize("name", ["gelu/compile", "graphs/graph", "copies/pageable"])
def test_no_table_is_wider_than_a_notebook(name: str, tmp_path: Path, visit: Visit) -> None:
    capture = open_capture(run_folder(name, tmp_path))
    tables = [capture.report(one) for one in NAMES if not find_report(one).lacks(capture)]
    html = "".join(table._repr_html_() for table in tables)
    (tmp_path / "x.html").write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><body style="width:900px;margin:0">{html}', encoding="utf-8"
    )
    widths = visit(tmp_path / "x.html").eval_on_selector_all("table", "all => all.map(t => t.offsetWidth)")
    assert len(widths) > 10
    assert max(widths) <= 900


def test_a_name_that_is_no_utf8_can_be_sent(tmp_path: Path) -> None:
    html = opened(tmp_path, kernel(b"bad \xff name", 0, 20)).report("cuda_gpu_kern_sum")._repr_html_()
    assert "name" in html
    html.encode()


def test_findings_are_whole(tmp_path: Path) -> None:
    table = open_capture(run_folder("add/grid", tmp_path)).report("advice")
    page = Page(table._repr_html_())
    said = "\n".join(page.said)
    assert len(table) > 0
    for column in ("what", "evidence", "advice", "unless", "example"):
        assert all(str(text) in said for text in table.data[column])
    assert page.tables == []


def test_what_is_selected_is_said(tmp_path: Path) -> None:
    table = opened(tmp_path, *everything()).select(time="0s/1us").report("cuda_gpu_kern_sum")
    assert f"selected: {table.selection}" in Page(table._repr_html_()).said


@pytest.mark.parametrize("name", ["add/grid", "copies/pageable", "hybrid/threads", "graphs/graph"])
def test_a_capture_shows_its_summary(name: str, tmp_path: Path) -> None:
    capture = open_capture(run_folder(name, tmp_path))
    summary = summarize(capture)
    page = Page(capture._repr_html_())
    assert {summary.origin, *summary.trust.lines} <= set(page.said)
    answers = {line.text for line in summary.lines}
    assert answers <= {text.strip().removeprefix("\xa0\xa0") for text in page.said}
    assert {table.schema.title for table, _ in summary.tables} <= set(page.said)
    assert [len(rows) - 1 for rows in page.tables] == [min(len(t), top or 20) for t, top in summary.tables]


def test_warnings_of_a_capture_are_text_too(tmp_path: Path) -> None:
    html = opened(tmp_path, kernel("k", 0, 1), diagnostic("<b>dropped</b> events"))._repr_html_()
    assert "&lt;b&gt;dropped" in html
    assert "<b>dropped" not in html


def test_an_answer_shows_itself_in_the_words_of_the_screen(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything(), kernel(NAME, 2_000_000, 9_000_000))
    answer = capture.answer
    sentences = [line.sentence for line in summarize(capture).lines if not line.typed]
    assert len(sentences) > 1
    text = " ".join(repr(answer).split())
    page = Page(answer._repr_html_() or "")
    for sentence in sentences:
        assert " ".join(sentence.split()) in text
        assert any(sentence in said for said in page.said)
    assert (answer._repr_markdown_() or "").startswith("**Answer**\n\n- ")
    copy = replace(answer, scope="another")  # of no capture
    assert repr(copy).startswith("NotebookAnswer(scope='another'")
    assert answer == capture.answer != copy
