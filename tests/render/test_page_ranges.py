"""The range section of the page: parts as wide as their time, and a picture that is linked with its table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made_modules import Training, training
from tiny_export import call, kernel, opened

from nsyswrap.render.page import render
from nsyswrap.render.page.html import Subject
from nsyswrap.render.page.sections.tables import ranges

if TYPE_CHECKING:
    from browser import Visit

pytest_plugins = ("browser",)

PART = re.compile(r'<svg x="([\d.]+)%" y="(\d+)" width="([\d.]+)%" height="26" data-path="([^"]+)">')


def places(markup: str) -> dict[str, tuple[float, int, float]]:
    """Left, level and width of each part by path, in percent of the picture."""
    return {
        path: (float(left), int(top) // 26, float(width)) for left, top, width, path in PART.findall(markup)
    }


# Per step: embed 3; layers 10 and 20 forward, 20 and 40 backward and 5 for each bias; adam 7: 110 in all.
def test_parts_are_as_wide_as_their_time_and_below_what_is_around(tmp_path: Path) -> None:
    markup = ranges(Subject({"a": opened(tmp_path, *training(steps=2))}))
    assert markup is not None
    found = places(markup)
    assert set(found) == {"GPT", "GPT/layers.1", "GPT/layers.0", "optimizer"}
    of = 100 / 110
    assert found["GPT"] == pytest.approx((0, 0, 103 * of), abs=0.001)
    assert found["GPT/layers.1"] == pytest.approx((0, 1, 65 * of), abs=0.001)
    assert found["GPT/layers.0"] == pytest.approx((65 * of, 1, 35 * of), abs=0.001)
    assert found["optimizer"] == pytest.approx((103 * of, 0, 7 * of), abs=0.001)
    assert "<title>GPT/layers.0: 70 ns, 31.8 %, own 70 ns, forward 20 ns, backward 50 ns, idle" in markup


def test_there_is_no_section_without_work_in_ranges(tmp_path: Path) -> None:
    plain = opened(tmp_path, call("launch", 0, 5, 1), kernel("k", 10, 20, 1))
    assert ranges(Subject({"a": plain})) is None
    assert 'id="ranges"' not in render({"a": plain})


@pytest.mark.browser
def test_a_click_filters_the_table_and_a_row_marks_its_part(tmp_path: Path, visit: Visit) -> None:
    made = Training()
    for i, letter in enumerate("abcdefghijkl"):
        made.range(f"part {letter} of the whole program", 1000 * i, 1000 * i + 900)
        made.launch("k", 1000 * i + 5, 50)
    (tmp_path / "page.html").write_text(render({"a": opened(tmp_path, *made.rows)}))
    page = visit(tmp_path / "page.html")
    part = page.locator("#ranges .of-steady [data-path='part h of the whole program']")
    name = part.locator("text").text_content() or ""
    assert name.startswith("part h")
    assert name.endswith("…")
    part.click(position={"x": 8, "y": 8})
    shown = page.locator("#ranges .of-steady tbody tr:visible")
    assert shown.count() == 1
    shown.first.hover()
    assert "chosen" in (part.get_attribute("class") or "")
    part.click(position={"x": 8, "y": 8})
    assert shown.count() > 9


@pytest.mark.browser
def test_keys_lead_through_the_parts_and_zoom_to_one(tmp_path: Path, visit: Visit) -> None:
    (tmp_path / "page.html").write_text(render({"a": opened(tmp_path, *training(steps=2))}))
    page = visit(tmp_path / "page.html")
    picture = page.locator(".icicle:visible").first
    picture.focus()

    def width(path: str) -> str | None:
        return picture.locator(f"[data-path='{path}']").get_attribute("width")

    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert (picture.get_attribute("aria-label") or "").startswith("GPT/layers.0: ")
    page.keyboard.press("Enter")
    assert (width("GPT/layers.0"), width("GPT")) == ("100%", "100%")
    page.keyboard.press("Escape")
    assert width("GPT") != "100%"
    parts = "[{left: 0, width: 60, top: 0}, {left: 60, width: 40, top: 0}, {left: 60, width: 20, top: 26}]"
    keys = (
        "[[0, 'ArrowRight'], [1, 'ArrowDown'], [2, 'ArrowUp'], [0, 'ArrowLeft'], [0, 'x'], [-1, 'ArrowUp']]"
    )
    found = page.evaluate(f"{keys}.map(([now, key]) => nextPart({parts}, now, key))")
    assert found == [1, 2, 1, -1, -1, 0]
    assert page.evaluate("zoomed({left: 60, width: 20}, 60, 40)") == [0, 50]
    assert page.evaluate("zoomed({left: 50, width: 50}, 60, 40)") == [0, 100]
