"""The pages of a comparison and of a history: what they say, their size, and how a browser shows them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made_history import made_points
from made_runs import KERNELS, SETUP, MadeKernel, made_side, side_of

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import Comparison, Key
from nsyswrap.render.page.compare import compare_page
from nsyswrap.render.page.history import history_page

if TYPE_CHECKING:
    from browser import Visit


pytest_plugins = ("browser",)
OTHERS = tuple(MadeKernel(f"void other<{i}>(int)", 20.0, 50) for i in range(4))
HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"


def text_of(markup: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", markup)))


@cache
def slower() -> Comparison:
    base = made_side("before", kernels=(*KERNELS, *OTHERS, MadeKernel("void gone(int)", 30.0)), seed=1)
    new = made_side("after", kernels=(*KERNELS, *OTHERS), seed=2, factors={"gemm": 1.3, "softmax": 0.7})
    return compare(base, new)


@cache
def history() -> str:
    newer = replace(SETUP, driver="575.51.03")
    return history_page(
        made_points(
            7,
            lambda i: {"gemm": 1.1 if i >= 3 else 1.0},
            lambda i: newer if i >= 5 else SETUP,
            kernels=(*KERNELS, *OTHERS, MadeKernel(HOSTILE, 5.0, 50)),
        )
    )


def test_the_page_says_what_grew_and_by_how_much() -> None:
    text = text_of(compare_page(slower()))
    assert "before → after" in text
    assert text.index("Slower : step") < text.index("Mean times of a steady step.")
    bars = text[text.index("Mean times of a steady step.") :].partition(" All rows ")[0]
    assert re.search(r"gemm.*?\+1\.\d+ ms · 4\.\d+ ms → 5\.\d+ ms ▲ slower, \+\d+\.\d % \(\+", bars)
    assert re.search(r"softmax.*?▼ faster, -\d+\.\d %", bars)
    assert re.search(r"gone.*?→ 0 ns removed", bars)
    assert bars.index("gemm") < bars.index("softmax")  # what costs most is first


def test_obstacles_come_first_and_without_verdicts_no_bar_has_a_verdict() -> None:
    base, new = slower().base, made_side("b", setup=replace(SETUP, driver="575.51.03"), seed=3)
    text = text_of(compare_page(compare(base, new)))
    assert text.index("driver: 570.124.06 → 575.51.03") < text.index("No verdict :")
    assert "▲" not in text
    assert "▼" not in text


def test_without_steps_it_is_about_the_run() -> None:
    base, new = (made_side(name, steps=0, seed=seed) for seed, name in enumerate(("a", "b")))
    text = text_of(compare_page(compare(base, new)))
    assert "Times of a run." in text
    assert "steady step of both sides" not in text


def test_sides_that_are_equal_have_no_bars() -> None:
    side = side_of("a", {Key("kernel", "k"): [100.0] * 3})
    text = text_of(compare_page(compare(side, replace(side, name="b"))))
    assert "What grew" not in text
    assert "a → b" in text


def test_a_page_of_a_thousand_kernels_is_small() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, {}>(int, long)"
    keys = [Key("kernel", name.format(i), "grid 128x1x1 block 256x1x1") for i in range(1000)]
    base, new = (
        side_of(side, {key: [1000.0 * (i + 2) + drift] * 3 for i, key in enumerate(keys)})
        for side, drift in (("a", 0), ("b", 77))
    )
    page = compare_page(compare(base, new))
    assert len(page) < 800_000
    assert "600 more rows: nsyswrap compare --format csv" in page


def test_the_history_says_since_when() -> None:
    text = text_of(history())
    assert re.search(r"c000003 .*gemm.*▲ slower : \+\d+\.\d % \(\+\d", text[: text.index("Line: median")])
    assert "▲ slower since c000003" in text
    assert "Not compared: c000004 and c000005. driver: 570.124.06 → 575.51.03." in text


def test_a_history_without_changes_says_so_and_no_more() -> None:
    text = text_of(history_page(made_points(3)))
    assert "No row is found to have changed by more than 2 % in 3 points" in text
    assert "▲ slower since" not in text


def test_a_history_that_compares_nothing_does_not_say_that_nothing_changed() -> None:
    text = text_of(history_page(made_points(2, runs=1)))
    assert "Nothing could be compared in 2 points" in text
    assert "No row is found" not in text
    assert "no change found" not in text


@pytest.mark.parametrize(("kind", "scheme"), [("compare", "dark"), ("history", "light")])
def test_a_browser_shows_it(kind: str, scheme: str, tmp_path: Path, visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    path = tmp_path / "page.html"
    path.write_text(compare_page(slower()) if kind == "compare" else history(), encoding="utf-8")
    page = visit(path, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details.numbers').forEach(one => one.open = true)")
    found = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found] == []
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("typeof pwned") == "undefined"
    table = page.locator("table").last if kind == "history" else page.locator('table[data-report="kernel"]')
    names, headings = (page.locator(where).all_inner_texts() for where in ("nav a", "section > h2"))
    assert names == headings
    header = table.locator("th").first
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"


def test_without_drawn_steps_what_grew_stands_in_their_place(tmp_path: Path, visit: Visit) -> None:
    base = made_side("a", steps=0, seed=1)
    new = made_side("b", steps=0, seed=2, factors={"gemm": 1.5})
    path = tmp_path / "page.html"
    path.write_text(compare_page(compare(base, new)), encoding="utf-8")
    page = visit(path, viewport={"width": 1440, "height": 900})
    cause, grew = (page.locator(name).bounding_box() for name in ("#step", "#growth"))
    assert cause
    assert grew
    assert cause["x"] == grew["x"] > 300  # beside the conclusion
    assert cause["y"] < grew["y"]
