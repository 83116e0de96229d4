"""The page of a job: heat maps and figures of the ranks, also with many ranks."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import recorded
from playwright.sync_api import Page
from rank_exports import Step, member, steps
from rank_exports import straggler as slow_rank
from tiny_export import nvtx

from nsyswrap.analysis.ranks.members import RankCapture, processes
from nsyswrap.analysis.ranks.waiting import RankedRanges, judged_steps
from nsyswrap.analysis.ranks.waiting import steps as steps_of
from nsyswrap.api import open_capture
from nsyswrap.base.units import duration
from nsyswrap.render.page import render_ranks, side_by_side
from nsyswrap.render.page.sections.ranks import (
    SHADES,
    binned,
    by_step,
    most_telling,
    one_clock,
    shade,
    step_table,
)
from nsyswrap.reports.ranks import make, make_job

if TYPE_CHECKING:
    from browser import Visit


pytest_plugins = ("browser",)
MANY, LATE, SLOW_FROM = 64, 37, 21  # ranks, the slow one, and its first slow step
COUNT = 151  # steps of each
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# The other sections are those of any page: axe looks at them in test_page_browser.py.
ONLY_RANKS = "document.querySelectorAll('section:not(#ranks)').forEach(one => one.remove())"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[RankCapture]:
    """Write the captures of 64 ranks, one of which becomes slow."""
    folder = tmp_path_factory.mktemp("many")
    return [
        member(folder, rank, *steps(*(Step(own_ns(rank, k), 3000) for k in range(COUNT))))
        for rank in range(MANY)
    ]


def own_ns(rank: int, step: int) -> int:
    return 1000 + rank + (600 if rank == LATE and step >= SLOW_FROM else 0)


@pytest.fixture(scope="module")
def many_page(many: list[RankCapture], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "job.html"
    path.write_text(render_ranks("job", many), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def nine_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with all that a page of many has, for checks whose time grows with its cells."""
    folder = tmp_path_factory.mktemp("nine")
    nine = [member(folder, rank, *steps(*[Step(1000 + rank, 3000)] * 40)) for rank in range(9)]
    (folder / "nine.html").write_text(render_ranks("job", nine), encoding="utf-8")
    return folder / "nine.html"


@pytest.fixture(scope="module")
def straggler(tmp_path_factory: pytest.TempPathFactory) -> list[RankCapture]:
    """Return both processes of a recorded job."""
    run = recorded.run_folder("ddp/straggler", tmp_path_factory.mktemp("straggler"))
    return processes(open_capture(run))


@pytest.fixture(scope="module")
def straggler_page(straggler: list[RankCapture], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "straggler.html"
    path.write_text(render_ranks("straggler", straggler), encoding="utf-8")
    return path


# What is shown


def test_shades() -> None:
    assert [shade(part, 70) for part in (0, 9, 10, 69, 70)] == [0, 0, 1, 6, SHADES - 1]
    assert shade(0, 0) == 0


def test_steps_are_binned_and_shaded_against_their_median(many: list[RankCapture]) -> None:
    job = make_job(many)
    found = most_telling(steps_of(job)[0])
    assert found is not None
    bins = binned(job, found)
    assert (bins.name, bins.count, bins.width, bins.own_ns.shape) == ("step", COUNT, 2, (MANY, 76))
    assert [bins.steps(column) for column in (0, 10, 75)] == [(0, 1), (20, 21), (150, 150)]
    assert bins.own_ns[:, 0].tolist() == [1000 + rank for rank in range(MANY)]
    assert bins.own_ns[LATE, 9:12].tolist() == [1037, (1037 + 1637) / 2, 1637]
    assert bins.own_ns[LATE, 75] == 1637
    assert set(bins.median_ns.tolist()) == {1031.5}  # 1000 to 1063, and one of the upper half moves up
    # 1037, 1337 and 1637 are 0.5, 30 and 59 % more than that, 1063 is 3.1 % more.
    assert bins.shades[LATE, 9:12].tolist() == [0, 4, 5]
    assert bins.shades[(0, MANY - 1), 0].tolist() == [0, 1]


def some(name: str, own_ns: int, count: int) -> RankedRanges:
    """Return ranges of two ranks with this much own GPU time together."""
    times = np.full((2, count), own_ns // (2 * count))
    return RankedRanges(name, (0, 1), times, times, times * 0)


def test_ranges_that_hold_little_and_those_that_hold_all_once_are_no_steps() -> None:
    train, epoch, step = some("train", 1200, 1), some("epoch", 1200, 2), some("step", 1100, 10)
    forward, log, idle = some("forward", 900, 10), some("log", 40, 20), some("idle", 0, 50)
    assert most_telling([train, epoch, step, forward, log, idle]) is step
    assert most_telling([train, log]) is train
    assert most_telling([idle]) is None
    assert most_telling([]) is None


def test_of_many_ranks_those_are_side_by_side_that_wait_least_and_most(many: list[RankCapture]) -> None:
    assert list(side_by_side(make_job(many), many)) == [
        f"rank {number}" for number in (0, 1, 2, 3, LATE, 61, 62, 63)
    ]
    few = many[:8]
    assert list(side_by_side(make_job(few), few)) == [one.label for one in few]


# In the browser


@pytest.mark.parametrize("name", ["many_page", "straggler_page"])
def test_ranks_have_a_section_and_nothing_sticks_out(
    name: str, visit: Visit, request: pytest.FixtureRequest
) -> None:
    page = visit(request.getfixturevalue(name))
    assert page.evaluate("[...document.querySelectorAll('section')].map(e => e.id)")[:3] == [
        *("ranks", "answer", "findings")
    ]
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    fits = "[...document.querySelectorAll('.wide-picture')].map(one => one.scrollWidth <= one.clientWidth)"
    assert all(page.evaluate(fits))


@pytest.mark.parametrize("name", ["many", "straggler"])
def test_figures_are_those_of_the_report(name: str, visit: Visit, request: pytest.FixtureRequest) -> None:
    members = request.getfixturevalue(name)
    page = visit(request.getfixturevalue(f"{name}_page"))
    table = make(make_job(members), "rank_waiting")
    assert page.locator("#ranks > .lead").inner_text() == table.verdict
    shown = page.evaluate(
        """() => [...document.querySelector("#ranks .heat").tBodies[0].rows].map(
          row => [...row.cells].map((cell, i) => i ? Number(cell.dataset.value) : cell.textContent))"""
    )
    names = ("own_ns", "communication_ns", "waiting_ns", "last")
    figures = zip(*(np.asarray(table.data[name]).tolist() for name in names), strict=True)
    assert shown == [[one.label, *row] for one, row in zip(members, figures, strict=True)]


def test_many_ranks_in_few_pixels(many_page: Path, visit: Visit) -> None:
    assert many_page.stat().st_size < 3_000_000
    page = visit(many_page)
    assert page.locator("#ranks .heat tbody tr").count() == page.locator(".strip > svg").count() == MANY
    for picture in ("#ranks .heat", ".strips"):
        box = page.locator(picture).bounding_box()
        assert box
        assert box["height"] < 24 * MANY
    assert "rank 37 was last in 130 of 151 collectives" in page.locator("#ranks > .lead").inner_text()
    assert "The other sections show 8 of 64 ranks" in page.locator("#ranks").inner_text()


def test_pointing_at_a_step_tells_its_figures(many_page: Path, visit: Visit) -> None:
    page = visit(many_page)
    strip = page.locator(".strip").nth(LATE).locator("svg")
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    assert box
    strip.hover(position={"x": box["width"] * 10.5 / 76, "y": box["height"] / 2})
    text = readout(page)
    assert text == "rank 37, 'step' 20 to 21 (mean): 1.34 µs; median of the ranks 1.03 µs (+30 %)."


def test_keys_lead_through_ranks_and_steps(many_page: Path, visit: Visit) -> None:
    page = visit(many_page)
    header = '.steps th[data-name="first_step"] button'
    page.evaluate(f"document.querySelector('{header}').click()")  # reorders rows, not columns
    page.locator(".strips").focus()
    keys = ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp", "End", "ArrowRight", "Home", "ArrowLeft")
    found = []
    for key in keys:
        page.keyboard.press(key)
        found.append(readout(page).partition(":")[0])
    mean = " (mean)"
    assert found == [
        *(f"rank 0, 'step' 0 to 1{mean}", f"rank 1, 'step' 0 to 1{mean}", f"rank 1, 'step' 2 to 3{mean}"),
        *(f"rank 0, 'step' 2 to 3{mean}", "rank 0, 'step' 150", "rank 0, 'step' 150"),
        *(f"rank 0, 'step' 0 to 1{mean}",) * 2,
    ]
    assert page.locator(".mark").count() == 1


def readout(page: Page) -> str:
    return page.locator(".steps .readout").inner_text()


def test_few_steps_have_their_figures_in_the_cells(
    straggler: list[RankCapture], straggler_page: Path, visit: Visit
) -> None:
    page = visit(straggler_page)
    found = judged_steps(make_job(straggler))
    assert found is not None
    assert found.own_ns.shape == (2, 5)
    cells = page.locator(".steps .heat td").all_inner_texts()
    assert cells == [duration(own) for own in found.own_ns.ravel().tolist()]
    assert page.locator(".strips").count() == 0


def test_the_numbers_of_both_pictures_are_saved(
    many: list[RankCapture], many_page: Path, visit: Visit
) -> None:
    page = visit(many_page)
    page.evaluate("document.querySelectorAll('#ranks details').forEach(one => one.open = true)")
    ranks, by_step = (saved(page, name) for name in ("Waiting for other ranks", "Own GPU time in each"))
    assert [row["rank"] for row in ranks] == [str(rank) for rank in range(MANY)]
    assert [float(row["rank 37 own_ns"]) for row in by_step[9:12]] == [1037, 1337, 1637]
    found = most_telling(steps_of(make_job(many))[0])
    assert found
    assert len(by_step) == len(step_table(binned(make_job(many), found)))


def saved(page: Page, name: str) -> list[dict[str, Any]]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f"Save CSV of {name}").click()
    return list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))


def test_the_other_tables_say_the_rank(many_page: Path, visit: Visit) -> None:
    page = visit(many_page)
    rows = "document.querySelectorAll('#kernels [data-report] tbody tr')"
    labels = page.evaluate(f"[...{rows}].map(row => row.cells[0].textContent)")
    assert set(labels) == {f"rank {rank}" for rank in (0, 1, 2, 3, LATE, 61, 62, 63)}


@pytest.mark.parametrize(("name", "scheme"), [("nine_page", "light"), ("straggler_page", "dark")])
def test_contrast_headings_and_all_that_axe_looks_at(
    name: str, scheme: str, visit: Visit, request: pytest.FixtureRequest
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit(request.getfixturevalue(name), loud=True, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('#ranks details').forEach(one => one.open = true)")
    assert page.locator(".strips").count() == (name == "nine_page")
    page.evaluate(ONLY_RANKS)
    found = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found] == []


def test_every_shade_can_be_read(nine_page: Path, visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit(nine_page, loud=True)
    page.evaluate(ONLY_RANKS)
    page.evaluate(
        """shades => [...document.querySelectorAll("#ranks .heat td")].forEach(
          (cell, i) => (cell.className = `shade-${i % shades}`))""",
        SHADES,
    )
    contrast = {"runOnly": ["color-contrast"]}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        found = axe.Axe().run(page, context="#ranks .heat", options=contrast).response
        assert found["violations"] == [], scheme
        assert "color-contrast" in [rule["id"] for rule in found["passes"]]


def test_ranks_are_drawn_on_one_clock_with_their_waits(tmp_path: Path) -> None:
    # The session of rank 1 began 5 ns later. Rank 0 computes 100 ns and waits 200 ns for rank 1.
    job = make_job(slow_rank(tmp_path))
    drawn = str(one_clock(job))
    texts = re.findall(r"<title>([^<]*)</title>", drawn)
    assert texts == [
        "rank 0: own work 100 ns, communication 290 ns, waiting for other ranks 200 ns",
        "rank 1: own work 300 ns, communication 90 ns, waiting for other ranks 0 ns",
    ]
    lefts = [float(left) for left in re.findall(r'd="M([\d.]+) 0H[^"]*" class="own"', drawn)]
    assert lefts[1] - lefts[0] == pytest.approx(1000 * 5 / 10_005, abs=0.11)


def test_the_steps_are_those_that_the_answer_is_about(tmp_path: Path) -> None:
    library = [nvtx("cub::DeviceRadixSort", 100 * i, 100 * i + 90) for i in range(600)]
    members = [member(tmp_path, rank, *steps(*[Step(1000 + rank, 3000)] * 20), *library) for rank in range(2)]
    found = judged_steps(make_job(members))
    assert found is not None
    assert found.own_ns.tolist() == [[1000] * 20, [1001] * 20]
    assert "Own GPU time in each 'step', by rank" in str(by_step(make_job(members)))


def test_names_of_processes_are_whole_on_a_phone(straggler_page: Path, visit: Visit) -> None:
    page = visit(straggler_page, viewport={"width": 390, "height": 844})
    cut = page.evaluate(
        "[...document.querySelectorAll('.clock-row > span')].map((one) => one.scrollWidth - one.clientWidth)"
    )
    assert cut
    assert max(cut) == 0
