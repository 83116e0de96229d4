"""Markdown tables: a renderer of GitHub's tables gets every name back unchanged."""

import html
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from sampled import sampled
from tiny_export import everything, kernel, opened

from nsyswrap.base.text import printable
from nsyswrap.render.formats import markdown
from nsyswrap.reports import NAMES
from nsyswrap.reports.table import Column, Schema, table_of

COLUMNS = (Column("name", "Name", "h"), Column("total_ns", "Total", "h"))
SCHEMA = Schema("r", "Copies <by> *direction*", *COLUMNS)
UGLY = [
    "void f<int, 4>(T1 *, T2 &&)",
    "a | b || c |",
    "back\\slash \\| \\",
    "`tick` ``two`` `",
    "```",
    "two\nlines\tand\ra tab",
    "<script>alert(1)</script> &lt; &amp;",
    "*bold* _under_ ~~gone~~ [link](http://x) ![image](y)",
    "@someone #12 :smile: $x$ https://example.org",
    " blanks around ",
    "    1    1    1",
    "- list",
    "漢字" * 30,
    "x" * 500,
]


def rendered(content: str) -> tuple[list[list[str]], str]:
    """Return the rows of the rendered table, header first, and the whole HTML."""
    page = str(MarkdownIt("commonmark").enable("table").render(content))
    rows = re.findall("<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub("</?code>", "", cell)) for cell in row] for row in cells], page


def names_in(names: Sequence[str]) -> list[str]:
    [content] = markdown.render([table_of(SCHEMA, [(name, 1500) for name in names])]).values()
    (header, *rows), _ = rendered(content)
    assert header == ["Name", "Total"]
    assert {total for _, total in rows} <= {"1.50 µs"}
    return [name for name, _ in rows]


@pytest.mark.parametrize("name", UGLY)
def test_a_name_is_shown_in_full_and_as_it_is(name: str) -> None:
    assert names_in([name]) == [printable(name)]


def test_names_of_any_make() -> None:
    dice = random.Random(7)  # noqa: S311 - no secret
    pieces = ["`", "``", "|", "\\", " ", "<", ">", "*", "_", "[x]", "&amp;", "k", "\n", "漢"]
    names = ["k" + "".join(dice.choices(pieces, k=dice.randrange(1, 9))) + "k" for _ in range(300)]
    names += [name[1:-1] for name in names if name[1:-1].strip()]
    assert names_in(names) == [printable(name) for name in names]


def test_an_empty_name_is_an_empty_cell() -> None:
    assert names_in([""]) == [""]


def test_the_source_is_aligned_for_people(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("add", 0, 5000), kernel("a|b", 0, 700))
    [(file, content)] = markdown.render([capture.report("cuda_gpu_kern_sum")], top=1).items()
    assert file == "cuda_gpu_kern_sum.md"
    assert content.splitlines() == [
        "**CUDA GPU Kernel Summary** `cuda_gpu_kern_sum`",
        "",
        "| Time % | Total Time | Instances |     Avg |     Med |     Min |     Max | StdDev | Name  |",
        "| -----: | ---------: | --------: | ------: | ------: | ------: | ------: | -----: | ----- |",
        "|   87.7 |    5.00 µs |         1 | 5.00 µs | 5.00 µs | 5.00 µs | 5.00 µs |   0 ns | `add` |",
        "",
        "1 more row (-r cuda_gpu_kern_sum)",
    ]


def test_title_window_and_notes_are_literal_too() -> None:
    table = replace(
        table_of(SCHEMA, []),
        notes=("a_b_ is <not> *here*",),
        selection="NVTX range `step`@<x>",
        suffix="_base",
    )
    [(file, content)] = markdown.render([table]).items()
    _, page = rendered(content)
    assert file == "r_base.md"
    said = [html.unescape(re.sub("</?code>", "", part)) for part in re.findall("<p>(.*?)</p>", page)]
    assert said == [
        "<strong>Copies <by> *direction*</strong> r_base",
        "no rows",
        "selected: NVTX range `step`@<x>",
        "note: a_b_ is <not> *here*",
    ]


@sampled("name", NAMES, fast=12)
def test_every_report_is_one_table(name: str, tmp_path: Path) -> None:
    table = opened(tmp_path, *everything()).report(name)
    [content] = markdown.render([table]).values()
    rows, page = rendered(content)
    assert page.count("<table>") == 1
    assert len(rows) == len(table) + 1
    assert {len(row) for row in rows} == {len(table.columns)}
