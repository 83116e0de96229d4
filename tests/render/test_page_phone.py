"""The page on a phone: fingers, and names of lanes where there is little room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recorded import run_folder
from timeline_page import ends, opened_all, picture, readout
from tiny_export import kernel, opened

from nsyswrap.api import open_capture
from nsyswrap.render.page import render

if TYPE_CHECKING:
    from browser import Visit
    from page_examples import PageOf

pytest_plugins = ("browser", "page_examples")
PHONE = {"width": 390, "height": 800}


def test_a_pinch_over_emptiness_finds_the_way_back(tmp_path: Path, visit: Visit) -> None:
    rows = [kernel("k", 10**6 * i, 10**6 * i + 100_000, i) for i in range(3)]
    path = tmp_path / "page.html"
    path.write_text(render({"x": opened(tmp_path, *rows)}), encoding="utf-8")
    page = opened_all(visit(path, viewport=PHONE, has_touch=True, is_mobile=True))
    picture(page).scroll_into_view_if_needed()
    back = page.locator("[data-action=back]")
    screen = page.context.new_cdp_session(page)
    x, y = page.evaluate(
        """() => {
          const { canvas, content, picture } = timelines[0];
          const { left, top } = canvas.getBoundingClientRect();
          return [left + picture.x(600_000), top + content.rows.tops[0] + 10];
        }"""
    )

    def touch(kind: str, *places: float) -> None:
        points = [{"x": place, "y": y, "id": i} for i, place in enumerate(places)]
        screen.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    assert not back.is_visible()
    for _ in range(3):  # each zooms to a fourth
        touch("touchStart", x - 15, x + 15)
        for apart in (25, 40, 60):
            touch("touchMove", x - apart, x + apart)
        touch("touchEnd")
    start, end = ends(page)
    assert 100_000 < start < 600_000 < end < 1_000_000
    back.wait_for(state="visible")
    assert readout(page).startswith("No event in view. The nearest one is ")
    back.tap()
    back.wait_for(state="hidden")
    start, end = ends(page)
    assert start < 100_000 or end > 1_000_000
    assert page.locator(".keys:visible").count() == 0


def test_lanes_of_two_processes_are_told_apart(tmp_path: Path, visit: Visit) -> None:
    every = [
        kernel(f"k{i % 3}", 10**6 * i, 10**6 * i + 300_000, i, pid=pid)
        for pid in (100, 200)
        for i in range(60)
    ]
    path = tmp_path / "page.html"
    path.write_text(render({"x": opened(tmp_path, *every)}), encoding="utf-8")
    page = opened_all(visit(path, viewport=PHONE, has_touch=True, is_mobile=True))
    labels = page.locator(".labels .lane span")
    shown = labels.all_inner_texts()
    assert {"idle, 100", "idle, 200"} <= set(shown)
    assert len(set(shown)) == len(shown)
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    assert [text for text in labels.evaluate_all(cut) if text.startswith("idle")] == []


def test_no_name_of_a_usual_lane_is_cut(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("one launch"), viewport=PHONE, has_touch=True, is_mobile=True))
    labels = page.locator(".labels .lane span")
    assert "idle" in labels.all_inner_texts()
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    assert labels.evaluate_all(cut) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    assert "idle, by cause" in labels.all_inner_texts()


def test_what_a_finding_can_save_stands_in_one_line(tmp_path: Path, visit: Visit) -> None:
    path = tmp_path / "page.html"
    path.write_text(render({"x": open_capture(run_folder("ladder/start", tmp_path))}), encoding="utf-8")
    page = visit(path, viewport=PHONE)
    heights = page.evaluate("[...document.querySelectorAll('.advice .share')].map((one) => one.offsetHeight)")
    assert len(heights) == 3
    assert max(heights) < 30
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
