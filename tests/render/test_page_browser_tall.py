"""A timeline that is higher than the screen: the axis, and what is said, stay in sight."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page
from timeline_page import ends, opened_all, picture, readout, timeline
from tiny_export import kernel, opened

from nsyswrap.render.page import render

if TYPE_CHECKING:
    from browser import Visit

pytest_plugins = ("browser",)
STREAMS = 50
HEIGHT = 600  # of the screen


@pytest.fixture
def tall(tmp_path: Path, visit: Visit) -> Page:
    """A page with a lane for each of many streams. The first and the last kernel have the same name."""
    names = ["first", *(f"k{i}" for i in range(STREAMS - 2)), "first"]
    rows = [kernel(name, 1000 * i, 1000 * i + 900, i, streamId=i) for i, name in enumerate(names)]
    (path := tmp_path / "page.html").write_text(render({"x": opened(tmp_path, *rows)}), encoding="utf-8")
    page = opened_all(visit(path, viewport={"width": 1280, "height": HEIGHT}))
    page.evaluate("timelines[0].article.scrollIntoView()")
    ends(page)
    return page


def lane_top(page: Page) -> float:
    """Return how far the chosen lane is below the top of the screen, in pixels."""
    top: float = page.evaluate(
        """() => {
          const { canvas, content, picture } = timelines[0];
          return canvas.getBoundingClientRect().top + content.rows.tops[picture.lane];
        }"""
    )
    return top


def panel_top(page: Page) -> float:
    box = timeline(page).locator(".panel").bounding_box()
    assert box
    assert box["y"] + box["height"] <= HEIGHT + 1
    return box["y"]


def test_what_is_said_is_on_the_screen(tall: Page) -> None:
    box = picture(tall).bounding_box()
    assert box
    assert box["y"] + box["height"] > HEIGHT
    tall.mouse.move(box["x"] + 200, box["y"] + 50)
    assert "stream 0" in readout(tall)
    before = panel_top(tall)
    tall.keyboard.down("Shift")
    tall.mouse.down()
    tall.mouse.move(box["x"] + 300, box["y"] + 50, steps=3)
    tall.mouse.up()
    tall.keyboard.up("Shift")
    assert timeline(tall).locator(".measure").is_visible()
    assert HEIGHT / 2 < panel_top(tall) < before


def test_the_screen_follows_what_is_selected(tall: Page) -> None:
    tall.evaluate("timelines[0].select(0)")
    picture(tall).focus()
    for key in ("n", "p", "n"):
        tall.keyboard.press(key)
        ends(tall)
        assert 0 < lane_top(tall) < panel_top(tall) - 20
    assert f"stream {STREAMS - 1}" in readout(tall)
    for _ in range(STREAMS // 2):
        tall.keyboard.press("ArrowUp")
    assert 0 < lane_top(tall) < panel_top(tall) - 20


def test_the_axis_is_over_the_lanes_that_are_seen(tall: Page) -> None:
    axis = "timelines[0].canvas.getBoundingClientRect().top + timelines[0].picture.axis"
    first = tall.evaluate(axis)
    assert tall.evaluate("timelines[0].picture.axis") == 0
    tall.evaluate("scrollBy(0, 400)")
    ends(tall)
    top = tall.evaluate(axis)
    assert 0 < top < first
    below = tall.evaluate("document.querySelector('nav').getBoundingClientRect().bottom")
    assert top == pytest.approx(below, abs=1)
    drawn = tall.evaluate(
        """() => {
          const { picture, canvas: { width } } = timelines[0];
          const { data } = picture.pen.getImageData(0, picture.axis, width, HEAD);
          const inked = data.filter((value, i) => i % 4 === 3 && value).length;
          return [inked, picture.laneAt(picture.axis + 5)];
        }"""
    )
    assert drawn[0] > 100  # letters
    assert drawn[1] == -1


def test_lanes_on_the_screen_without_events_have_a_way_back(tall: Page) -> None:
    back = timeline(tall).get_by_role("button", name="Show the event nearest to this view")
    last = STREAMS - 1
    tall.evaluate(f"timelines[0].view.show({1000 * last - 100}, {1000 * last + 900}); timelines[0].draw()")
    back.wait_for()  # the event in view is further down
    assert readout(tall).startswith("No event in view. The nearest one is ")
    panel_top(tall)
    back.click()
    assert 0 < tall.evaluate("timelines[0].view.end") < 1000 * last
    tall.evaluate("scrollBy(0, 5000)")
    ends(tall)
    back.wait_for(state="hidden")


def test_a_text_that_has_no_room_can_be_scrolled_by_keys(tmp_path: Path, visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    name = "void " + "a_long_name::" * 80 + "kernel<int>(T1)"
    (path := tmp_path / "page.html").write_text(render({"x": opened(tmp_path, kernel(name, 0, 900))}))
    page = opened_all(visit(path, viewport={"width": 390, "height": 400}, loud=True))
    page.evaluate("timelines[0].select(0); timelines[0].article.scrollIntoView()")
    panel = timeline(page).locator(".panel")
    assert panel.evaluate("panel => panel.scrollHeight > panel.clientHeight")
    assert axe.Axe().run(page).response["violations"] == []
