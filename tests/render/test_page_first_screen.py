"""The first screen of the page: it fits a laptop, each figure has one value, its parts lead to each other."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from recorded import run_folder
from timeline_page import DRAWN, ends, picture, readout
from tiny_export import call, kernel, opened

from nsyswrap.api import open_capture
from nsyswrap.render.page import render
from nsyswrap.render.page.html import ChartColumn, Layer, strip, ticks

if TYPE_CHECKING:
    from pathlib import Path

    from browser import Visit
    from page_examples import PageOf
    from playwright.sync_api import Page

pytest_plugins = ("browser", "page_examples")
pytestmark = pytest.mark.slow
LAPTOP = {"width": 1440, "height": 900}
MS = 1_000_000
STEPS, ODD = 12, 7


@pytest.mark.parametrize(("most", "expected"), [(25.0, [5, 10, 15, 20, 25]), (1.0, [0.2, 0.4, 0.6, 0.8, 1])])
def test_an_axis_has_round_times(most: float, expected: list[float]) -> None:
    assert ticks(most * MS) == pytest.approx([MS * one for one in expected])


def test_a_column_is_as_high_as_its_time_and_a_longer_one_is_cut() -> None:
    layers = [Layer("gemm", None), Layer("idle", None)]
    columns = [
        ChartColumn("a", 50, [20, 30], mark="", data={}),
        ChartColumn("b", 400, [100, 300], mark="outlier", data={}),
    ]
    drawn = str(strip("steps", columns, layers, 100, 103))
    assert re.findall(r'<path d="([^"]*)" class="pale">', drawn) == [
        "M0.0 72.0h497.0V90.0H0.0zM500.0 0.0h497.0V90.0H500.0z",  # 20 and all of 100 ns
        "M0.0 45.0h497.0V72.0H0.0z",  # 30 ns above them
    ]
    assert re.findall(r'class="odd[^"]*"', drawn) == ['class="odd outlier"']
    assert 'y="13"' in drawn  # below the lengths of what is cut
    assert "↑ 400 ns" in drawn
    assert "↑ 50.0 ns" not in drawn


def test_each_column_that_is_cut_has_an_arrow_and_its_length_where_there_is_room() -> None:
    cut = (0, 1, 2, 30, 97, 99)
    columns = [ChartColumn("", 400 if i in cut else 50, [50], mark="", data={}) for i in range(100)]
    drawn = str(strip("steps", columns, [Layer("gemm", None)], 100, 103))
    told = re.findall(r'class="cut" x="([^"]*)%"[^>]*>([^<]*)<', drawn)
    assert [float(x) for x, _ in told] == [number + 0.5 for number in cut]
    assert [text for _, text in told] == ["↑", "↑", "↑ 400 ns", "↑ 400 ns", "400 ns ↑", "↑"]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a program with steps of 1 ms, of which one takes 3 ms; each has two kernels."""
    folder, rows, start = tmp_path_factory.mktemp("training"), [], 0
    for step in range(STEPS):
        for number, name in enumerate(("one", "two")):
            at, which = start + number * 300_000, 2 * step + number + 1
            rows += [call("cudaLaunchKernel", at, at + 1000, which)]
            rows += [kernel(name, at + 2000, at + 252_000, which)]
        start += 3 * MS if step == ODD else MS
    path = folder / "page.html"
    path.write_text(render({"x": opened(folder, *rows)}), encoding="utf-8")
    return path


def column(page: Page, number: int) -> tuple[float, float]:
    """Return the times of a column of the steps, on the clock of the timeline."""
    times: list[float] = (
        page.locator("#steps .of-steady g[data-start]")
        .nth(number)
        .evaluate("({ dataset }) => [Number(dataset.start), Number(dataset.length)]")
    )
    start = times[0] - page.evaluate("timelines[0].content.origin")
    return start, start + times[1]


def test_a_click_or_a_key_on_the_strip_shows_a_step_and_back_leads_back(training: Path, visit: Visit) -> None:
    page = visit(training, viewport=LAPTOP)
    first = ends(page)
    strip = page.locator("#steps .of-steady svg.columns")
    columns = strip.locator("g[data-start]")
    assert strip.locator("g.chosen").count() == 1  # the step that is seen first
    columns.nth(ODD).click(force=True)
    start, end = column(page, ODD)
    more = 0.01 * (end - start)
    assert ends(page) == pytest.approx((start - more, end + more))
    assert "outlier" in readout(page)
    assert columns.nth(ODD).get_attribute("class") == "chosen"
    page.mouse.move(0, 0)  # the column below the pointer has a wider outline
    line, above = (one.bounding_box() for one in (strip.locator(".below"), columns.nth(ODD)))
    assert line
    assert above
    assert (line["x"], line["width"]) == pytest.approx((above["x"], above["width"]), abs=0.1)
    assert line["y"] == pytest.approx(above["y"] + above["height"] + 2, abs=0.1)
    strip.focus()
    page.keyboard.press("ArrowRight")
    assert ends(page)[0] == pytest.approx(column(page, ODD + 1)[0], abs=0.02 * MS)
    page.keyboard.press("Home")
    assert columns.first.get_attribute("class") == "chosen"
    page.wait_for_timeout(300)
    for _ in range(3):
        page.go_back()
    page.wait_for_function("start => Math.abs(timelines[0].view.start - start) < 2", arg=first[0])
    assert page.url.startswith("file:")


def test_keys_lead_to_columns(training: Path, visit: Visit) -> None:
    page = visit(training)
    keys = ["ArrowLeft", "ArrowRight", "Home", "End", "x"]
    assert page.evaluate("keys => keys.map((key) => placeAmong(key, 0, 5))", keys) == [0, 1, 0, 4, None]
    assert page.evaluate("[placeAmong('ArrowRight', 4, 5), placeAmong('ArrowRight', -1, 5)]") == [4, 0]


def test_a_name_is_found_as_tables_write_it(training: Path, visit: Visit) -> None:
    page = visit(training)
    words = ["wise", "elem…wise", "wise…elem", "ELEM", "…"]
    found = page.evaluate("words => words.map((word) => holdsParts('Elementwise', word))", words)
    assert found == [True, True, False, False, True]  # the word is in lower case


def test_the_event_that_is_most_like_a_time_is_found(training: Path, visit: Visit) -> None:
    page = visit(training)
    picture(page).evaluate(DRAWN)
    found = page.evaluate(
        """() => {
          const { events, lanes } = timelines[0].content;
          const lane = lanes.findIndex(({ title }) => title.startsWith("stream"));
          const [first] = events.lanes[lane];
          const at = events.start[first];
          const like = (from, to) => mostAlike(events, at + from, at + to, lane) - first;
          return [like(0, 250_000), like(200_000, 450_000), like(255_000, 290_000)];
        }"""
    )
    assert found[:2] == [0, 1]
    assert found[2] < 0  # none is in this time


def test_the_switch_changes_what_is_seen_also_without_scripts(training: Path, visit: Visit) -> None:
    page = visit(training, viewport=LAPTOP, java_script_enabled=False)
    answer = page.locator("#answer .busy:visible")
    assert "busy in a step" in answer.inner_text()
    assert page.locator("#kernels th:visible", has_text="Share of a step").count() == 1
    page.get_by_label("whole capture").check()
    assert "busy of the whole capture" in answer.inner_text()
    assert page.locator("#kernels th:visible", has_text="Share of the time").count() == 1
    assert page.locator(".of-steady:visible").count() == 0


def test_a_copied_link_holds_the_place_and_the_switch(training: Path, visit: Visit) -> None:
    page = visit(training, viewport=LAPTOP, permissions=["clipboard-read", "clipboard-write"])
    page.locator("#steps .of-steady g[data-start]").nth(ODD).click(force=True)
    seen = ends(page)

    def copied() -> str:
        page.get_by_role("button", name="Copy link").click()
        page.get_by_role("button", name="Copied").wait_for()
        page.get_by_role("button", name="Copy link").wait_for()
        address: str = page.evaluate("navigator.clipboard.readText()")
        return address

    links = [copied()]
    page.get_by_label("whole capture").check()
    links.append(copied())
    assert page.url == links[1]  # the address holds the switch at once
    for link, part in zip(links, ("steady part", "whole capture"), strict=True):
        other = visit(training, viewport=LAPTOP)
        other.goto("about:blank")
        other.goto(link)
        assert ends(other) == pytest.approx(seen, abs=2)
        assert other.get_by_label(part).is_checked()


def test_the_switch_names_the_steps_that_were_chosen(tmp_path: Path) -> None:
    capture = open_capture(run_folder("ladder/start", tmp_path))
    page = render({"x": capture.select(steps="5-7")})
    assert re.findall(r'<input type="radio"[^>]*>([^<]*)', page) == ["steps 5 to 7", "whole capture"]
    assert " busy in steps 5 to 7" in page


def test_the_bar_of_the_answer_has_a_legend_in_the_colors_of_the_steps(tmp_path: Path) -> None:
    page = render({"x": open_capture(run_folder("ladder/start", tmp_path))})
    answer, strips = (page[page.index(f'<section id="{name}"') :] for name in ("answer", "steps"))
    steady = answer[answer.index('class="of-steady"') :].partition("</article>")[0]
    entries = re.findall(r"<li><svg[^>]*>(<rect.*?)</svg>([^<]*) <b>(\d+) %</b>", steady)
    shares = {name: int(share) for _, name, share in entries}
    assert [*shares][:2] == ["elementwise", "gemm"]
    assert [*shares][-1] == "idle"
    assert sum(shares.values()) == 100
    assert f'data-figure="busy_percent">{100 - shares["idle"]} %' in steady
    assert all(f"{drawn}</svg>{name}</li>" in strips for drawn, name, _ in entries)


@pytest.mark.parametrize("kind", ["two GPUs", "side by side", "many", "one launch"])
def test_a_figure_has_one_value_on_a_page(kind: str, page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of(kind))
    pairs = page.evaluate(
        """[...document.querySelectorAll("[data-figure]")].map((one) =>
          [one.closest(".tiles > div")?.querySelector("h3")?.textContent ?? "",
           one.dataset.figure, one.value])"""
    )
    values = defaultdict(set)
    for capture, key, value in pairs:
        values[capture, key].add(value)
    assert values
    assert all(len(each) == 1 for each in values.values())


@pytest.mark.parametrize(
    ("name", "kernels"), [("graphs/nodes", 2), ("inference/decode", 5), ("ladder/start", 5), ("ddp/even", 5)]
)
def test_the_first_five_kernels_are_on_the_first_screen(
    name: str, kernels: int, tmp_path: Path, visit: Visit
) -> None:
    path = tmp_path / "page.html"
    path.write_text(render({"x": open_capture(run_folder(name, tmp_path))}), encoding="utf-8")
    page = visit(path, viewport=LAPTOP)
    picture(page).evaluate(DRAWN)
    rows = page.locator(".first-kernels tbody tr:visible")
    assert rows.count() == kernels
    box = rows.last.bounding_box()
    assert box
    assert box["y"] + box["height"] <= LAPTOP["height"]
