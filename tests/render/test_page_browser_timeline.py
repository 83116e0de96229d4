"""The timeline of the page in a real browser: buttons, keys, wheel, pointer and readout."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tiny_export import call, kernel, opened

from nsyswrap.base.units import duration
from nsyswrap.render.page import render

if TYPE_CHECKING:
    from pathlib import Path

    from browser import Visit
    from page_examples import Captures, PageOf
    from playwright.sync_api import Locator, Page

pytest_plugins = ("browser", "page_examples")
COUNTED = r"(\d+ \N{MULTIPLICATION SIGN} [\w-]+|[\w-]+, started earlier)"
PHONE = {"width": 360, "height": 740}


def timeline(page: Page) -> Locator:
    return page.locator("article.timeline").first


# A change is drawn in the next frame. The first frame is drawn once the page knows its width.
DRAWN = """async canvas => {
    for (let frames = 0; frames < 2 || !("start" in canvas.dataset); frames += 1) {
        await new Promise(requestAnimationFrame);
    }
    return {...canvas.dataset};
}"""


def ends(page: Page) -> tuple[float, float]:
    """Return the visible times of the timeline in ns after its first event."""
    data = timeline(page).locator("canvas").evaluate(DRAWN)
    return float(data["start"]), float(data["end"])


def readout(page: Page) -> str:
    return timeline(page).locator(".readout").inner_text()


def test_zoom_and_pan_by_buttons_and_keys(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("two GPUs"))
    every = ends(page)
    timeline(page).get_by_role("button", name="Zoom in").click()
    closer = ends(page)
    assert closer[1] - closer[0] == pytest.approx((every[1] - every[0]) / 2)
    canvas = timeline(page).locator("canvas")
    canvas.focus()
    page.keyboard.press("+")
    nearer = ends(page)
    assert nearer[1] - nearer[0] == pytest.approx((every[1] - every[0]) / 4)
    page.keyboard.press("ArrowRight")
    assert ends(page)[0] == pytest.approx(nearer[0] + (nearer[1] - nearer[0]) / 4)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert ends(page) == pytest.approx(every)
    page.keyboard.press("+")
    page.keyboard.press("Home")
    assert ends(page) == pytest.approx(every)


def test_the_wheel_zooms_where_it_points_and_a_drag_moves(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("two GPUs"))
    canvas = timeline(page).locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    every = ends(page)
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 30)
    page.mouse.wheel(0, -400)
    page.wait_for_function(
        "start => document.querySelector('canvas').dataset.start !== String(start)", arg=every[0]
    )
    start, end = ends(page)
    assert end - start < every[1] - every[0]
    assert (3 * start + end) / 4 == pytest.approx(
        (3 * every[0] + every[1]) / 4, rel=0.01
    )  # this point does not move
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4 - 100, box["y"] + 30, steps=4)
    page.mouse.up()
    assert ends(page)[0] == pytest.approx(start + 100 / box["width"] * (end - start), rel=0.01)


def test_pointing_at_a_kernel_tells_name_duration_and_launch(
    page_of: PageOf, captures: Captures, visit: Visit
) -> None:
    page = visit(page_of("one launch"))
    [capture] = captures("one launch").values()
    kernel, launch = (capture.report(name).rows()[0] for name in ("cuda_kern_exec_trace", "launch_overhead"))
    assert launch[0] == 1
    names = [column.name for column in capture.report("cuda_kern_exec_trace").columns]
    row: dict[str, Any] = dict(zip(names, kernel, strict=True))
    timeline(page).get_by_role("button", name="Show the time of GPU work").click()
    place_of(page, "kernels")
    text = readout(page)
    assert "add" in text
    assert f": {duration(row['kernel_ns'])}, at " in text
    latency = duration(row["kernel_start_ns"] - row["api_start_ns"])
    assert (
        f"Launched by cudaLaunchKernel ({duration(row['api_ns'])}), which started {latency} earlier." in text
    )


def place_of(page: Page, family: str) -> None:
    """Point at the middle of the longest event of a family in the timeline."""
    canvas = timeline(page).locator("canvas")
    canvas.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """family => {
          const { picture, content, view } = timelines[0];
          const mine = content.items.filter(item => content.series[item.series].family === family);
          const item = mine.reduce((a, b) => (a.duration >= b.duration ? a : b));
          const middle = (Math.max(item.start, view.start) + Math.min(item.end, view.end)) / 2;
          return [picture.x(middle), picture.tops[item.lane] + 10];
        }""",
        family,
    )
    canvas.hover(position={"x": x, "y": y})


def test_keys_step_through_a_lane_and_a_line_leads_to_the_launch(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("side by side"))
    canvas = timeline(page).locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    assert re.fullmatch(r"GPU 0.*, stream 7: 51 events\.", readout(page))
    page.keyboard.press("n")
    first = readout(page)
    assert "Launched by cudaMemcpyAsync" in first
    page.evaluate("timelines[0].picture.draw()")
    drawn = canvas.evaluate("canvas => canvas.toDataURL()")
    page.evaluate("timelines[0].picture.connection = () => {}; timelines[0].picture.draw()")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != drawn
    page.keyboard.press("n")
    assert readout(page) != first
    page.keyboard.press("p")
    assert readout(page) == first


def test_a_tap_selects_on_a_phone(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("one launch"), viewport=PHONE, has_touch=True)
    timeline(page).get_by_role("button", name="Show the time of GPU work").click()
    canvas = timeline(page).locator("canvas")
    assert timeline(page).locator(".labels .lane").first.inner_text() == "stream 7"
    x, y = page.evaluate("[timelines[0].picture.width / 2, timelines[0].picture.tops[0] + 10]")
    canvas.tap(position={"x": x, "y": y})
    assert "Launched by cudaLaunchKernel" in readout(page)


def test_two_fingers_zoom_and_the_one_that_stays_moves(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("one launch"), viewport=PHONE, has_touch=True, is_mobile=True)
    canvas = timeline(page).locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    start, end = ends(page)
    screen = page.context.new_cdp_session(page)

    def touch(kind: str, places: dict[int, float]) -> None:
        points = [{"x": box["x"] + x, "y": box["y"] + 50, "id": i} for i, x in places.items()]
        screen.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", {0: 100})
    touch("touchStart", {0: 100, 1: 150})
    for further in (10, 20, 25):
        touch("touchMove", {0: 100 - further, 1: 150 + further})
    middle = start + 125 / box["width"] * (end - start)
    closer = ends(page)
    pixel = (closer[1] - closer[0]) / box["width"]
    assert closer[1] - closer[0] == pytest.approx((end - start) / 2, rel=0.01)
    assert closer[0] + 125 * pixel == pytest.approx(middle, abs=pixel)
    touch("touchEnd", {0: 75})
    assert ends(page) == closer
    touch("touchMove", {1: 225})
    assert ends(page)[0] == pytest.approx(closer[0] - 50 * pixel, abs=pixel)
    touch("touchEnd", {1: 225})
    assert readout(page).startswith("Point at")  # no tap was recognized


def test_a_caption_that_is_cut_says_so(tmp_path: Path, visit: Visit) -> None:
    calls = [call("cudaMemcpyAsync", 100 * i, 118 * i, i) for i in range(1, 6)]
    path = tmp_path / "page.html"
    path.write_text(render({"x": opened(tmp_path, *calls)}), encoding="utf-8")
    page = visit(path)
    ends(page)
    texts = page.evaluate(
        """() => {
          const found = [];
          const fillText = CanvasRenderingContext2D.prototype.fillText;
          CanvasRenderingContext2D.prototype.fillText = (text) => found.push(text);
          timelines[0].picture.draw();
          CanvasRenderingContext2D.prototype.fillText = fillText;
          return found.filter(text => text.startsWith("cuda"));
        }"""
    )
    assert "cudaMemcpyAsync" in texts
    cut = {text for text in texts if text != "cudaMemcpyAsync"}
    assert cut
    assert all(text.endswith("…") and "cudaMemcpyAsync".startswith(text[:-1]) for text in cut)


def test_of_a_column_that_is_almost_idle_the_share_is_small(tmp_path: Path, visit: Visit) -> None:
    path = tmp_path / "page.html"
    spans = ((0, 10), (500_000, 501_000), (1_000_000, 1_000_010))
    path.write_text(render({"x": opened(tmp_path, *(kernel("k", *span, 1) for span in spans))}))
    page = visit(path)
    start, end = ends(page)
    canvas = timeline(page).locator("canvas")
    x, width = page.evaluate("[timelines[0].picture.x(500500), timelines[0].picture.width]")
    canvas.hover(position={"x": x, "y": 50})
    pixels = 3 * (end - start) / width
    found = f"1 \N{MULTIPLICATION SIGN} other, {100 * 1000 / pixels:.1f} % of the time"
    assert readout(page).endswith(f"in {duration(pixels)}: {found}")
    canvas.hover(position={"x": x, "y": 30})  # the line above the lanes
    assert readout(page) == "Nothing selected."


def test_a_crowd_is_counted_not_named(page_of: PageOf, captures: Captures, visit: Visit) -> None:
    assert page_of("many").stat().st_size < 3_000_000
    page = visit(page_of("many"))
    canvas = timeline(page).locator("canvas")
    canvas.hover(position={"x": 300, "y": 50})
    text = readout(page)
    assert re.search(rf": in [\d.]+ .s: ({COUNTED}, [\d.]+ % of the time(; )?)+$", text), text
    begun, kernels = page.evaluate(
        """() => {
          const { content } = timelines[0];
          const kernel = content.series.map(series => series.family === "kernels");
          let begun = 0;
          for (const [lane, series] of Object.entries(content.levels[0].lanes))
            for (const [number, bins] of Object.entries(series))
              if (kernel[number]) begun += bins.begun.reduce((a, b) => a + b, 0);
          const whole = content.items.filter(item => kernel[item.series] && content.lanes[item.lane].whole);
          return [begun + whole.length, content.items.filter(item => kernel[item.series]).length];
        }"""
    )
    [capture] = captures("many").values()
    assert begun == capture.count("kernel")
    assert 0 < kernels < begun / 10  # the page keeps only a few of them
