"""The page in print and on narrow screens: folded parts open, headers repeat, nothing is cut off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page
from timeline_page import whole
from tiny_export import call, kernel, opened

from nsyswrap.render.page import render

if TYPE_CHECKING:
    from browser import Visit
    from page_examples import PageOf

pytest_plugins = ("browser", "page_examples")
WIDTH, HEIGHT = 718, 1000  # A4 within margins of 10 mm
ALIKE = "void clover::par_ranged2d_kernel<{}<nv_dl_tag<void (*)(bool, int, int, int), &(advec), {}>>>(T1)"


def printed(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


@pytest.mark.parametrize("kind", ["two GPUs", "many"])
def test_a_capture_takes_at_most_four_pages(kind: str, page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of(kind))
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) <= 4


def test_only_tables_that_are_open_are_printed_and_not_all_rows(page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("many")))
    page.locator("#findings > details.numbers > summary").click()
    printed(page)
    assert page.locator("details.numbers:visible").count() == 2  # with all kernels
    assert page.locator("#kernels tbody tr:visible").count() == 15
    assert page.locator("#kernels .paper").first.inner_text() == "On paper: 15 of 300 rows."


@pytest.mark.parametrize("kind", ["two GPUs", "side by side", "many"])
def test_nothing_is_cut_off_at_the_edge_of_the_paper(kind: str, page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of(kind))
    printed(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    wide = "[...document.querySelectorAll('table')].filter(t => t.offsetWidth > t.parentNode.offsetWidth)"
    assert page.evaluate(f"{wide}.map(table => table.dataset.report)") == []


def test_a_picture_that_is_cut_on_paper_says_so(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("two GPUs"))
    count = page.evaluate("timelines[0].ready.then(() => timelines[0].content.lanes.length)")
    note = page.locator(".timeline .paper").first
    assert note.text_content() == ""
    printed(page)
    shown = page.locator(".labels .lane").count()
    assert shown < count
    assert note.inner_text() == f"On paper: {shown} of {count} lanes. The page has the others."
    heights = page.evaluate("['.labels', '.picture canvas'].map(e => document.querySelector(e).offsetHeight)")
    assert max(heights) <= 390
    assert abs(heights[0] - heights[1]) <= 4  # each name is beside its lane


def test_the_events_of_the_timeline_are_printed(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("two GPUs"))
    page.evaluate("Promise.all(timelines.map(one => one.ready))")
    size = page.evaluate(
        """() => {
          dispatchEvent(new Event("beforeprint"));
          const { width, height } = timelines[0].canvas;
          dispatchEvent(new Event("afterprint"));
          return [width, height];
        }"""
    )
    images = re.findall(rb"/Subtype /Image\s+/Width (\d+)\s+/Height (\d+)", page.pdf(format="A4"))
    assert tuple(b"%d" % part for part in size) in images


def test_headers_are_such_that_every_sheet_repeats_them(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("two GPUs"))
    printed(page)
    styles = page.evaluate(
        """[...document.querySelectorAll(".table th")].map(
          head => [getComputedStyle(head).position, getComputedStyle(head.firstChild).display].join())"""
    )
    assert set(styles) == {"static,contents"}  # Chromium does not repeat other headers
    assert page.locator(".picture").evaluate("e => getComputedStyle(e).breakInside") == "avoid"


def test_a_phone_has_no_help_on_keys(page_of: PageOf, visit: Visit) -> None:
    page = visit(
        page_of("one launch"), has_touch=True, is_mobile=True, viewport={"width": 390, "height": 800}
    )
    assert page.locator(".keys").count() > 0
    assert page.locator(".keys:visible").count() == 0


@pytest.mark.parametrize("width", [360, 641, 700, 900, 1280])
def test_copies_have_bars_at_any_width(width: int, page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("two GPUs")))
    page.set_viewport_size({"width": width, "height": 900})
    bars = page.evaluate("[...document.querySelectorAll('.bars .bar')].map(e => e.clientWidth)")
    assert len(set(bars)) == 1  # readers compare the bars by their length
    assert bars[0] >= 128


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_names_that_begin_alike_are_told_apart(width: int, tmp_path: Path, visit: Visit) -> None:
    names = [
        ALIKE.format(what, number) for what in ("PdV_kernel", "accelerate_kernel") for number in range(9)
    ]
    rows = [kernel(name, 100 * i, 100 * i + 50, i) for i, name in enumerate(names)]
    path = tmp_path / "page.html"
    path.write_text(render({"x": opened(tmp_path, call("cudaFree", 0, 5), *rows)}), encoding="utf-8")
    page = whole(visit(path, viewport={"width": width, "height": 900}))
    shown = page.locator("#kernels details.numbers").first.locator(".name > summary")
    assert len(set(shown.all_inner_texts())) == len(names)
    assert max(map(len, shown.all_inner_texts())) <= 70
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert shown.evaluate_all(cut) == 0
    assert set(page.locator("#kernels .name > code").all_text_contents()) == set(names)
