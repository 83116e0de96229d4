"""The timeline of the page in a real browser: buttons, keys, wheel, pointer and readout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from timeline_page import ends, opened_all, picture, place_of, readout, timeline, whole
from tiny_export import allocation, call, kernel, metric, nvml_samples, opened

from nsyswrap.base.units import duration
from nsyswrap.render.page import render

if TYPE_CHECKING:
    from browser import Visit
    from page_examples import Captures, PageOf

pytest_plugins = ("browser", "page_examples")
COUNTED = r"(\d+ \N{MULTIPLICATION SIGN} [\w-]+|[\w-]+, started earlier)"
PHONE = {"width": 360, "height": 740}


def test_zoom_and_pan_by_buttons_and_keys(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("two GPUs")))
    every = ends(page)
    timeline(page).get_by_role("button", name="Zoom in").click()
    closer = ends(page)
    assert closer[1] - closer[0] == pytest.approx((every[1] - every[0]) / 2)
    canvas = picture(page)
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
    page = opened_all(visit(page_of("two GPUs")))
    page.evaluate("timelines[0].article.scrollIntoView()")
    box = picture(page).bounding_box()
    assert box
    every = ends(page)
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 30)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.wait_for_function(
        "start => document.querySelector('.picture canvas').dataset.start !== String(start)", arg=every[0]
    )
    start, end = ends(page)
    assert end - start < every[1] - every[0]
    assert (3 * start + end) / 4 == pytest.approx(
        (3 * every[0] + every[1]) / 4, rel=0.01
    )  # this point does not move
    page.keyboard.up("Control")
    page.mouse.wheel(0, 200)  # the page scrolls
    page.wait_for_function(
        "top => document.querySelector('.picture').getBoundingClientRect().top < top", arg=box["y"]
    )
    assert ends(page) == (start, end)
    page.mouse.wheel(0, -200)
    page.wait_for_function(
        "top => document.querySelector('.picture').getBoundingClientRect().top >= top - 1", arg=box["y"]
    )
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4 - 100, box["y"] + 30, steps=4)
    page.mouse.up()
    assert ends(page)[0] == pytest.approx(start + 100 / box["width"] * (end - start), rel=0.01)


def test_a_double_click_fits_an_event_and_a_click_on_the_overview_goes_there(
    page_of: PageOf, visit: Visit
) -> None:
    page = opened_all(visit(page_of("one launch")))
    place = place_of(page, "kernels")
    told = readout(page)
    picture(page).dblclick(position=place)
    start, end = ends(page)
    kernel = page.evaluate("timelines[0].content.events.item(timelines[0].picture.selected)")
    assert start < kernel["start"] < kernel["end"] < end
    assert readout(page) == told
    strip = timeline(page).locator(".overview")
    box = strip.bounding_box()
    assert box
    strip.click(position={"x": 0.75 * box["width"], "y": 10})
    start, end = ends(page)
    length = page.evaluate("timelines[0].content.length")
    assert (start + end) / 2 == pytest.approx(0.75 * length, rel=0.01)


def test_the_wheel_tells_what_the_pointer_is_on_afterwards(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("one launch")))
    place = page.evaluate(
        """() => {
          const { events, rows } = timelines[0].content;
          const kernel = events.call.findIndex((call) => call >= 0);
          return {x: timelines[0].picture.x(events.start[kernel]), y: rows.tops[events.lane[kernel]] + 10};
        }"""
    )
    picture(page).hover(position=place)
    told = readout(page)
    assert re.search(r": in [\d.]+ .s: 1 \N{MULTIPLICATION SIGN} ", told)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.wait_for_function("told => document.querySelector('.readout').textContent !== told", arg=told)


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


def test_keys_step_through_a_lane_and_a_line_leads_to_the_launch(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("side by side")))
    canvas = picture(page)
    canvas.focus()
    while "stream 7" not in readout(page):
        page.keyboard.press("ArrowDown")
    assert re.fullmatch(r"GPU 0.*, stream 7: 51 events\.", readout(page))
    page.keyboard.press(".")
    first = readout(page)
    assert "Launched by cudaMemcpyAsync" in first
    page.evaluate("timelines[0].picture.draw()")
    drawn = canvas.evaluate("canvas => canvas.toDataURL()")
    page.evaluate("timelines[0].picture.connection = () => {}; timelines[0].picture.draw()")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != drawn
    page.keyboard.press(".")
    assert readout(page) != first
    page.keyboard.press(",")
    assert readout(page) == first


def test_a_tap_selects_on_a_phone(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("one launch"), viewport=PHONE, has_touch=True))
    timeline(page).get_by_role("button", name="Show the time of GPU work").click()
    canvas = picture(page)
    assert timeline(page).locator(".labels .lane span").first.inner_text() == "stream 7"
    x, y = page.evaluate("[timelines[0].picture.width / 2, timelines[0].content.rows.tops[0] + 10]")
    canvas.tap(position={"x": x, "y": y})
    assert "Launched by cudaLaunchKernel" in readout(page)


def test_a_view_without_events_finds_the_way_back_and_a_step_is_a_link(tmp_path: Path, visit: Visit) -> None:
    rows = []
    for i in range(6):
        rows += [call("cudaLaunchKernel", 10**6 * i, 10**6 * i + 1000, i + 1)]
        rows += [kernel("k", 10**6 * i + 2000, 10**6 * i + 300_000, i + 1)]
    path = tmp_path / "page.html"
    path.write_text(render({"x": opened(tmp_path, *rows)}), encoding="utf-8")
    page = opened_all(visit(path, viewport=PHONE, has_touch=True))
    back = page.locator("[data-action=back]")
    assert not back.is_visible()
    page.evaluate("timelines[0].view.show(2_400_000, 2_500_000); timelines[0].draw()")
    back.wait_for(state="visible")
    assert page.locator(".readout").inner_text() == "No event in view. The nearest one is 100 µs earlier."
    back.click()
    back.wait_for(state="hidden")
    start, end = page.evaluate("[timelines[0].view.start, timelines[0].view.end]")
    assert start < 2_002_000
    assert end > 2_300_000
    page.locator("#steps .of-steady g[data-start]").nth(3).locator("rect").click()
    start, end = page.evaluate("[timelines[0].view.start, timelines[0].view.end]")
    step = page.locator("#steps .of-steady g[data-start]").nth(3)
    assert (
        start
        < int(step.get_attribute("data-start") or 0) - page.evaluate("timelines[0].content.origin")
        < end
    )


def test_two_fingers_zoom_and_the_one_that_stays_moves(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("one launch"), viewport=PHONE, has_touch=True, is_mobile=True))
    canvas = picture(page)
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
    assert readout(page) == "Nothing selected."  # no tap was recognized


def test_a_caption_that_is_cut_says_so(tmp_path: Path, visit: Visit) -> None:
    calls = [call("cudaMemcpyAsync", 100 * i, 118 * i, i) for i in range(1, 6)]
    path = tmp_path / "page.html"
    path.write_text(render({"x": opened(tmp_path, *calls)}), encoding="utf-8")
    page = opened_all(visit(path))
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
    page = opened_all(visit(path))
    start, end = ends(page)
    canvas = picture(page)
    x, width = page.evaluate("[timelines[0].picture.x(500500), timelines[0].picture.width]")
    y = page.evaluate("timelines[0].content.rows.tops[0] + 10")
    canvas.hover(position={"x": x, "y": y})
    pixels = 3 * (end - start) / width
    found = f"1 \N{MULTIPLICATION SIGN} other, {100 * 1000 / pixels:.1f} % of the time"
    assert readout(page).endswith(f"in {duration(pixels)}: {found}")
    canvas.hover(position={"x": x, "y": 30})  # the line above the lanes
    assert readout(page) == "Nothing selected."


def test_many_kinds_in_a_column_are_together_as_high_as_their_share(tmp_path: Path, visit: Visit) -> None:
    path = tmp_path / "page.html"
    names = ("gemm", "softmax_kernel", "reduce_kernel", "layer_norm_kernel", "CatArrayBatchedCopy", "add")
    rows = [kernel(names[i % 6], 100 * i, 100 * i + 30, i) for i in range(12_000)]
    path.write_text(render({"x": opened(tmp_path, *rows)}))
    page = opened_all(visit(path))
    picture(page).scroll_into_view_if_needed()  # what is not on the screen is not drawn again
    ends(page)
    kinds, drawn, height = page.evaluate(
        """() => {
          const { picture, content } = timelines[0];
          const top = picture.row(content.rows.tops[0]);
          const x = Math.round(picture.columns / 2) + 7;
          const { data } = picture.pen.getImageData(x, top, 1, picture.row(LANE));
          const words = [...new Uint32Array(data.buffer)];
          const empty = new Set([...picture.plain("lane"), ...picture.plain("line"), 0]);
          const kinds = content.series.filter(({ family }) => family === "kernels");
          return [kinds.length, words.filter((word) => !empty.has(word)).length, LANE - 4];
        }"""
    )
    assert kinds >= 5
    assert drawn == pytest.approx(0.3 * height, abs=1)


def test_a_crowd_is_counted_not_named(page_of: PageOf, captures: Captures, visit: Visit) -> None:
    assert page_of("many").stat().st_size < 6_000_000
    page = opened_all(visit(page_of("many")))
    canvas = picture(page)
    counted_text = rf": in [\d.]+ .s: ({COUNTED}, (under )?[\d.]+ % of the time(; )?)+$"
    for y in range(50, 700, 12):  # lanes of steps come before those whose events are counted
        canvas.hover(position={"x": 300, "y": y})
        if re.search(counted_text, text := readout(page)):
            break
    else:
        pytest.fail(text)
    begun, kept = page.evaluate(
        """() => {
          const { series, bins, events, lanes } = timelines[0].content;
          const kernel = series.map(look => look.family === "kernels");
          let begun = 0;
          const whole = bins.levels[0].parts;
          for (const parts of whole.values())
            for (const part of parts) if (kernel[part.series]) begun += part.begun.reduce((a, b) => a + b, 0);
          let kept = 0;
          for (let i = 0; i < events.count; i++)
            if (kernel[events.series[i]]) { kept += 1; begun += !bins.lanes[events.lane[i]]; }
          return [begun, kept];
        }"""
    )
    [capture] = captures("many").values()
    assert begun == capture.count("kernel")
    assert 0 < kept < begun
    counted = page.evaluate(f"timelines[0].readout.around(timelines[0].picture.laneAt({y}), 300)")
    canvas.dblclick(position={"x": 300, "y": y})
    assert ends(page) == pytest.approx((counted["least"], counted["most"]))


def test_more_of_a_picture_is_drawn_in_a_window_that_has_grown(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("many"), viewport={"width": 1280, "height": 300}))
    page.evaluate("timelines[0].ready.then(() => timelines[0].canvas.scrollIntoView())")
    ends(page)
    assert page.evaluate("timelines[0].picture.pixels.height < timelines[0].canvas.height")
    page.set_viewport_size({"width": 1280, "height": 2500})
    page.wait_for_function("() => timelines[0].picture.pixels.height === timelines[0].canvas.height")


def test_where_detail_ends_the_page_says_so_with_the_command(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("many")))
    start, end = page.evaluate(
        """() => {
          const { content: { detail, length }, view } = timelines[0];
          const edges = [0, ...detail.flat(), length];
          const gaps = edges.slice(1).map((to, i) => [edges[i], to]).filter((_, i) => i % 2 === 0);
          const [from, to] = gaps.reduce((a, b) => (a[1] - a[0] >= b[1] - b[0] ? a : b));
          view.show((from + to) / 2 - 5000, (from + to) / 2 + 5000);
          timelines[0].draw();
          return [view.start, view.end].map(time => Math.round(time + timelines[0].content.origin));
        }"""
    )
    limit = timeline(page).locator(".limit code")
    limit.wait_for()
    page.wait_for_function(
        "time => document.querySelector('.limit code').textContent.endsWith(time)", arg=f"/{end}ns"
    )
    assert limit.inner_text() == f"nsyswrap view many.sqlite --time {start}ns/{end}ns"
    assert "Detail ends here" in timeline(page).locator(".limit").inner_text()


def test_the_page_opens_on_the_selected_time(tmp_path: Path, visit: Visit) -> None:
    path = tmp_path / "page.html"
    rows = [kernel("k", 1000 * i, 1000 * i + 500, i) for i in range(100)]
    part = opened(tmp_path, *rows).select(time="20000ns/40000ns")
    path.write_text(render({"x": part}), encoding="utf-8")
    page = visit(path)
    start, end = ends(page)
    origin = page.evaluate("timelines[0].content.origin")
    assert (start + origin, end + origin) == pytest.approx((20_000, 40_000), abs=300)


def test_an_event_leads_to_its_like_and_to_its_row(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(whole(visit(page_of("two GPUs"))))
    row = page.locator("#kernels details.name").first
    row.locator("summary").click()
    row.get_by_role("button", name="Show in the timeline").click()
    first = readout(page)
    full = row.locator("code").inner_text()
    assert re.search(r"One of \d+ of this name", first)
    assert page.locator("tr.selected code").first.text_content() == full
    assert page.evaluate("timelines[0].content.events.item(timelines[0].picture.selected).full") == full
    page.keyboard.press("n")
    assert readout(page) != first
    page.keyboard.press("p")
    assert readout(page) == first
    times = page.evaluate(
        "(({ start, end }) => [start, end])(timelines[0].content.events.item(timelines[0].picture.selected))"
    )
    for _ in range(3):  # zooms about the selected event
        page.keyboard.press("+")
    start, end = ends(page)
    assert start < times[1]
    assert end > times[0]


def test_search_counts_and_steps(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("two GPUs")))
    picture(page).focus()
    page.keyboard.press("/")
    page.keyboard.type("allreduce")
    shown = timeline(page).locator(".search output").inner_text()
    found = re.fullmatch(r"(\d+) events, (\d+) names?", shown)
    assert found, shown
    page.keyboard.press("Enter")
    assert "AllReduce" in readout(page)
    assert int(found[1]) == page.evaluate("timelines[0].search.places.length") > 0
    page.keyboard.press("Escape")
    assert timeline(page).locator(".search output").inner_text() == ""


def test_shift_and_drag_measure_and_undo_goes_back(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("two GPUs"), permissions=["clipboard-read", "clipboard-write"]))
    every = ends(page)
    timeline(page).get_by_role("button", name="Show the time of GPU work").click()
    work = ends(page)
    assert work != every
    page.evaluate("timelines[0].article.scrollIntoView()")
    box = picture(page).bounding_box()
    assert box
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 50, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert ends(page) == work  # nothing moved
    text = timeline(page).locator(".measure").inner_text()
    length = 300 / box["width"] * (work[1] - work[0])
    assert text.startswith(f"Measured: {duration(round(length))}")
    found = re.search(r"--time (\d+)ns/(\d+)ns", text)
    assert found
    origin = page.evaluate("timelines[0].content.origin")
    first = origin + work[0] + 100 / box["width"] * (work[1] - work[0])
    assert list(map(int, found.groups())) == pytest.approx([first, first + length], abs=2)
    timeline(page).get_by_role("button", name=f"Copy {found[0]}").click()
    timeline(page).get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == found[0]
    busy = re.search(r"GPU 0[^:]*: busy ([\d.]+) % of this time", text)
    assert busy
    assert 0 < float(busy[1]) <= 100
    assert re.search(r"Kernels with the most time: [\d.]+ .s in \d+ \N{MULTIPLICATION SIGN} ", text)
    picture(page).focus()
    page.keyboard.press("u")
    assert ends(page) == every


def test_a_view_can_be_sent_as_an_address(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("two GPUs")))
    timeline(page).get_by_role("button", name="Zoom in").click()
    start, end = ends(page)
    begins = f"#timeline-0={round(page.evaluate('timelines[0].content.origin') + start)}ns/"
    page.wait_for_function("begins => location.hash.startsWith(begins)", arg=begins)
    address = page.evaluate("location.hash")
    timeline(page).get_by_role("button", name="Go back to the view before").click()
    page.wait_for_function("address => location.hash !== address", arg=address)  # nor is the old view sent
    page.evaluate("address => { location.hash = ''; location.hash = address; }", address)
    page.wait_for_function("start => Math.abs(timelines[0].view.start - start) < 2", arg=start)
    assert ends(page) == pytest.approx((start, end), abs=2)


def test_an_address_is_followed_before_another_timeline_is_ready(tmp_path: Path, visit: Visit) -> None:
    capture = opened(tmp_path, kernel("k", 0, 9000))
    (path := tmp_path / "page.html").write_text(render({"a": capture, "b": capture}), encoding="utf-8")
    page = visit(path)
    page.add_init_script(
        """let count = 0;
        const unpack = Response.prototype.arrayBuffer;
        const never = new Promise(() => {});
        Response.prototype.arrayBuffer = function () { return count++ ? never : unpack.call(this); };"""
    )
    page.goto(f"{path.as_uri()}#timeline-0=2000ns/3000ns")
    page.reload()
    page.wait_for_function("() => timelines[0].view?.start === 2000 && timelines[0].view.end === 3000")


def test_lanes_fold_and_hide(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("two GPUs")))
    labels = timeline(page).locator(".labels")
    every = labels.locator(".lane").count()
    group = labels.locator("button.group").first
    assert group.get_attribute("aria-expanded") == "true"
    group.click()
    assert labels.locator(".lane").count() < every
    labels.locator(".lane .hide").first.click(force=True)
    less = labels.locator(".lane").count()
    timeline(page).get_by_role("button", name="Show the lanes that are folded").click()
    assert labels.locator(".lane").count() == every > less + 1


def test_findings_gaps_and_steps_lead_into_the_timeline(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(whole(visit(page_of("two GPUs"))))
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.locator("[data-finding] a.spot").first.click()
    assert picture(page).evaluate("e => e === document.activeElement")
    seen = [ends(page)]
    for rows in ('[data-report="gpu_idle"] tbody tr', "#steps tbody tr"):
        row = page.locator(rows).filter(has=page.locator("a.spot")).last
        start, length = row.evaluate(
            """row => ["start_ns", "duration_ns"].map((name) => {
              const head = [...row.closest("table").tHead.rows[0].cells];
              return Number(rawValue(row.cells[head.findIndex((cell) => cell.dataset.name === name)]));
            })"""
        )
        row.locator("a.spot").click()
        seen.append(ends(page))
        start -= page.evaluate("timelines[0].content.origin")
        around = max(length / 4, 1000)
        assert seen[-1] == pytest.approx((start - around, start + length + around), abs=2)
        assert picture(page).evaluate("e => e === document.activeElement")
    assert len(set(seen)) == 3


def test_a_gap_leads_to_the_idle_lane_of_its_gpu(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(whole(visit(page_of("two GPUs"), viewport={"width": 1280, "height": 500})))
    page.evaluate("document.querySelectorAll('#idle details').forEach(one => one.open = true)")
    rows = page.locator('table[data-report="gpu_idle"] tbody tr')
    for device in ("0", "1"):
        of_device = f"""row => rawValue(row.cells[[...row.closest("table").tHead.rows[0].cells].findIndex(
            (cell) => cell.dataset.name === "device_id")]) === "{device}" """
        row = next(row for row in rows.all() if row.evaluate(of_device))
        row.locator("a.spot").click()
        ends(page)
        group, family, top = page.evaluate(
            """() => {
              const { canvas, content: { lanes, rows }, picture: { lane } } = timelines[0];
              const { top } = canvas.getBoundingClientRect();
              return [lanes[lane].group, lanes[lane].family, top + rows.tops[lane]];
            }"""
        )
        assert group.startswith(f"GPU {device} ")
        assert family == "idle by cause"
        assert 0 < top < 500


def test_a_finding_leads_to_the_lane_that_it_is_about(page_of: PageOf, visit: Visit) -> None:
    page = opened_all(visit(page_of("two GPUs"), viewport={"width": 1280, "height": 500}))
    page.evaluate("document.querySelectorAll('#findings details').forEach(one => one.open = true)")
    links = page.locator("[data-finding] a.spot")
    assert links.count()
    for link in links.all():
        link.click()
        ends(page)
        alike, top = page.evaluate(
            """name => {
              const { canvas, content: { findings, events, rows }, picture: { lane } } = timelines[0];
              const [start, end, of] = findings[name];
              const [first, last] = events.range(lane, start, end);
              const inside = (i) => Math.min(events.end[i], end) - Math.max(events.start[i], start);
              // What a finding is about can be several events in a row.
              let common = 0;
              for (let i = first; i < last; i++) common += inside(i);
              const top = canvas.getBoundingClientRect().top + rows.tops[lane];
              return [lane === of && common / (end - start), top];
            }""",
            link.evaluate("link => link.closest('[data-finding]').dataset.finding"),
        )
        assert alike > 0.5
        assert 0 < top < 500


def test_idle_time_says_its_cause(page_of: PageOf, captures: Captures, visit: Visit) -> None:
    page = opened_all(visit(page_of("two GPUs")))
    place_of(page, "idle by cause")
    [capture] = captures("two GPUs").values()
    table = capture.report("gpu_idle")
    longest: dict[str, Any] = dict(zip((one.name for one in table.columns), table.rows()[0], strict=True))
    assert readout(page).startswith(f"{longest['cause']}: {duration(longest['host_ns'])}, at ")


def test_a_curve_says_its_value_where_one_points(tmp_path: Path, visit: Visit) -> None:
    rows = (*metric("SMs Active [Throughput %]", 3, 5, 97, every=5000), allocation(1, 10, 3 << 30))
    capture = opened(tmp_path, kernel("k", 0, 10_000), *rows, allocation(2, 5000, 1 << 30))
    path = tmp_path / "page.html"
    path.write_text(render({"x": capture}), encoding="utf-8")
    page = opened_all(visit(path))
    page.evaluate("timelines[0].article.scrollIntoView()")
    box = picture(page).bounding_box()
    assert box
    titles = page.evaluate("timelines[0].content.rows.shown.map(i => timelines[0].content.lanes[i].title)")
    said = {}
    for title in ("GPU 0 memory", "SMs Active"):
        top = page.evaluate(f"timelines[0].content.rows.tops[{titles.index(title)}]")
        page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + top + 10)
        said[title] = readout(page)
    assert re.fullmatch(
        r"allocated memory, GPU 0 memory, at 0\.\d+ s: 4\.29 GB; from 3\.22 GB to 4\.29 GB in all\.",
        said["GPU 0 memory"],
    )
    assert said["SMs Active"].endswith("97 %; from 5 % to 97 % in all.")


def test_a_curve_has_a_scale_with_its_unit(tmp_path: Path, visit: Visit) -> None:
    path = tmp_path / "page.html"
    samples = nvml_samples((74, 36), (310, 41), every=5000)
    path.write_text(render({"x": opened(tmp_path, kernel("k", 0, 10_000), *samples)}), encoding="utf-8")
    page = opened_all(visit(path))
    ends(page)
    texts = page.evaluate(
        """() => {
          const found = [];
          const pen = {
            fillRect() {},
            measureText: () => ({ width: 9 }),
            fillText: (text) => found.push(text),
          };
          for (const { curve } of timelines[0].content.lanes) {
            if (curve) drawScale({ pen, color: () => "" }, curve, 0);
          }
          return found;
        }"""
    )
    assert texts == ["310 W", "74 W", "41 \N{DEGREE SIGN}C", "36 \N{DEGREE SIGN}C"]


def test_an_old_browser_gets_a_sentence(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("one launch"))
    text = page.evaluate(
        """async () => {
          delete globalThis.DecompressionStream;
          const again = new Timeline(document.querySelector("article.timeline"), 0);
          await again.ready;
          return document.querySelector(".readout").textContent;
        }"""
    )
    assert "cannot unpack the timeline" in text
