"""The page of several ranks: which captures are ranks, what is shown of them, and that many stay readable."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import recorded
from rank_exports import Step, member, run_folder, steps
from tiny_export import call, kernel, nvtx, write

from nsyswrap.capture import open_capture
from nsyswrap.folder import EXPORT, STATUS
from nsyswrap.page import render_ranks
from nsyswrap.page.ranks import side_by_side
from nsyswrap.page.ranks_bins import binned, most_telling, numbers
from nsyswrap.page.ranks_heat import SHADES, shade
from nsyswrap.ranks import make, make_job
from nsyswrap.ranks.members import processes
from nsyswrap.ranks.steps import Steps
from nsyswrap.ranks.steps import steps as steps_of
from nsyswrap.units import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from browser import Visit
    from conftest import Cli
    from playwright.sync_api import Page

    from nsyswrap.ranks.members import Member

pytest_plugins = ("browser",)
FAST, SLOW = Step(100, 400), Step(300, 400)
MANY, LATE, SLOW_FROM = 64, 37, 21  # ranks, the last one, and the step from which on it is slow
COUNT = 151  # steps of each


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[Member]:
    """64 ranks, one of which becomes slow."""
    folder = tmp_path_factory.mktemp("many")
    return [
        member(folder, rank, *steps(*(Step(own_ns(rank, k), 3000) for k in range(COUNT))))
        for rank in range(MANY)
    ]


def own_ns(rank: int, step: int) -> int:
    return 1000 + rank + (600 if rank == LATE and step >= SLOW_FROM else 0)


@pytest.fixture(scope="module")
def many_page(many: list[Member], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "job.html"
    path.write_text(render_ranks("job", many), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def straggler(tmp_path_factory: pytest.TempPathFactory) -> list[Member]:
    """Both processes of a recorded job."""
    run = recorded.run_folder("ddp/straggler", tmp_path_factory.mktemp("straggler"))
    return processes(open_capture(run))


@pytest.fixture(scope="module")
def straggler_page(straggler: list[Member], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "straggler.html"
    path.write_text(render_ranks("straggler", straggler), encoding="utf-8")
    return path


# Which captures are ranks


def has_ranks(page: Path) -> bool:
    return '<section id="ranks"' in page.read_text(encoding="utf-8")


def test_the_folder_of_a_launch_is_a_page_of_ranks(tmp_path: Path, cli: Cli) -> None:
    for rank, step in ((2, SLOW), (0, FAST)):
        run_folder(tmp_path / "job", rank, 4, *steps(*[step] * 6), profiled=[0, 1, 2])
    done = cli("view", "job")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "nsyswrap: 2 of 4 ranks are there: 1 missing, 3 not profiled (--ranks)",
        "wrote job.html",
    ]
    page = (tmp_path / "job.html").read_text(encoding="utf-8")
    assert "<title>job: 2 ranks · nsyswrap</title>" in page
    assert "rank 2 was last in 6 of 6 collectives" in page
    assert "2 of 4 ranks are there: 1 missing, 3 not profiled (--ranks)" in page
    assert re.findall(r'aria-label="Timeline of ([^"]*)"', page) == ["rank 0", "rank 2"]


def test_captures_whose_names_say_their_rank(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "job").mkdir()
    paths = [write(tmp_path / "job" / f"x.rank{rank}.sqlite", *steps(FAST)) for rank in (10, 9)]
    assert cli("view", *paths).stderr == "wrote job.html\n"
    assert has_ranks(tmp_path / "job.html")
    assert cli("view", "job", "-o", "again.html").returncode == 0
    assert has_ranks(tmp_path / "again.html")


def test_ranks_of_two_launches_and_captures_without_a_rank_stand_side_by_side(
    tmp_path: Path, cli: Cli
) -> None:
    for job in ("one", "two"):
        run_folder(tmp_path / job, 0, 1, *steps(FAST))
    write(tmp_path / "left.sqlite", *steps(FAST))
    for given in (("one/rank-0", "two/rank-0"), ("one/rank-0", "left.sqlite"), ("left.sqlite",)):
        assert cli("view", *given, "-o", "page.html", "--force").returncode == 0
        assert not has_ranks(tmp_path / "page.html")


def test_a_capture_of_several_processes_is_taken_apart_where_that_is_asked_for(
    tmp_path: Path, cli: Cli
) -> None:
    run = recorded.run_folder("ddp/straggler", tmp_path)
    assert cli("view", run).returncode == 0
    assert not has_ranks(tmp_path / "straggler.html")
    done = cli("view", run, "--by", "rank", "--force")
    assert "each of its 2 processes is taken as one" in done.stderr
    assert done.stderr.endswith("wrote straggler.html\n")
    page = (tmp_path / "straggler.html").read_text(encoding="utf-8")
    assert has_ranks(tmp_path / "straggler.html")
    assert len(re.findall(r'aria-label="Timeline of process \d+"', page)) == 2


def test_one_program_is_compared_with_nothing(tmp_path: Path, cli: Cli) -> None:
    done = cli("view", write(tmp_path / "x.sqlite", *steps(FAST)), "--by", "rank")
    assert done.returncode == 2
    assert "only process 100 is there" in done.stderr
    assert list(tmp_path.glob("*.html")) == []


def test_of_two_ranks_one_is_damaged(tmp_path: Path, cli: Cli) -> None:
    for rank in (0, 1):
        run_folder(tmp_path / "job", rank, 2, *steps(FAST))
    (tmp_path / "job" / "rank-1" / EXPORT).write_bytes(b"SQLite format 3\0 and nothing more")
    done = cli("view", "job", "-o", "x.html")
    assert done.returncode == 65
    assert "nsyswrap: rank 1: " in done.stderr
    assert not has_ranks(tmp_path / "x.html")
    assert "<title>rank 0 · nsyswrap</title>" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_the_newest_launch_is_shown_unasked(tmp_path: Path, cli: Cli) -> None:
    for rank in (0, 1):
        run = run_folder(tmp_path / "nsyswrap-runs" / "job", rank, 2, *steps(FAST))
        (run / STATUS).write_text("{}")
    assert cli("view", "--by", "rank").stderr == "wrote job.html\n"
    assert has_ranks(tmp_path / "job.html")


# What is shown


def test_shades() -> None:
    assert [shade(part, 70) for part in (0, 9, 10, 69, 70)] == [0, 0, 1, 6, SHADES - 1]
    assert shade(0, 0) == 0


def test_steps_are_binned_and_shaded_against_their_median(many: list[Member]) -> None:
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


def some(name: str, own_ns: int, count: int) -> Steps:
    """Ranges of two ranks that hold so much own GPU time together."""
    times = np.full((2, count), own_ns // (2 * count))
    return Steps(name, (0, 1), times, times, times * 0)


def test_ranges_that_hold_little_and_those_that_hold_all_once_are_no_steps() -> None:
    train, epoch, step = some("train", 1200, 1), some("epoch", 1200, 2), some("step", 1100, 10)
    forward, log, idle = some("forward", 900, 10), some("log", 40, 20), some("idle", 0, 50)
    assert most_telling([train, epoch, step, forward, log, idle]) is step
    assert most_telling([train, log]) is train
    assert most_telling([idle]) is None
    assert most_telling([]) is None


def test_of_many_ranks_those_are_side_by_side_that_wait_least_and_most(many: list[Member]) -> None:
    assert list(side_by_side(make_job(many), many)) == [
        f"rank {number}" for number in (0, 1, 2, 3, LATE, 61, 62, 63)
    ]
    few = many[:8]
    assert list(side_by_side(make_job(few), few)) == [one.label for one in few]


def test_without_collectives_nothing_is_said_to_wait(tmp_path: Path, visit: Visit) -> None:
    alone = [call("cudaLaunchKernel", 1, 2, 1), kernel("gemm", 10, 110, 1)]
    page = visit(written(tmp_path, [member(tmp_path, rank, *alone) for rank in (0, 1)]))
    assert page.locator("#ranks .heat tbody tr").first.locator("td").all_inner_texts() == [
        *("100 ns", "0 ns", "-", "-")
    ]
    text = page.locator("#ranks").inner_text()
    assert "no communication kernels: nothing tells who waits" in text
    assert "no steps to compare" in text


def test_ranks_that_ran_nothing_on_a_gpu(tmp_path: Path, visit: Visit) -> None:
    members = [member(tmp_path, rank, nvtx("step", 0, 100 + rank)) for rank in (0, 1)]
    text = visit(written(tmp_path, members)).locator("#ranks").inner_text()
    assert "Not here: rank_waiting: no rank holds" in text


def test_a_range_that_is_not_on_every_rank(tmp_path: Path, visit: Visit) -> None:
    nothing = [kernel("gemm", 10, 110, 1), call("cudaLaunchKernel", 1, 2, 1)]
    members = [member(tmp_path, 0, *steps(*[FAST] * 6)), member(tmp_path, 1, *steps(*[SLOW] * 5))]
    members.append(member(tmp_path, 2, *nothing))
    text = visit(written(tmp_path, members)).locator("#ranks .steps").text_content() or ""
    assert "NVTX range “step”, 5 times; 2 of 3 ranks have it" in text
    assert "not as often on every rank: range 'step'; the first of each are matched" in text


def test_names_that_would_be_markup_are_names(tmp_path: Path, visit: Visit) -> None:
    hostile = "\"><img src=x onerror='window.pwned = 1'></script><script>window.pwned = 1</script>"
    rows = [
        row._replace(cells={**row.cells, "text": hostile}) if row.cells.get("text") == "step" else row
        for row in steps(*[FAST] * 20)
    ]
    page = visit(written(tmp_path, [member(tmp_path, rank, *rows) for rank in (0, 1)]))
    page.locator(".strips").focus()
    page.keyboard.press("ArrowRight")
    assert f", {hostile} 0: " in page.locator(".steps .readout").inner_text()
    assert page.locator("img").count() == 0
    assert page.evaluate("typeof window.pwned") == "undefined"


def written(folder: Path, members: Sequence[Member]) -> Path:
    path = folder / "page.html"
    path.write_text(render_ranks("job", members), encoding="utf-8")
    return path


# In the browser


@pytest.mark.parametrize("name", ["many_page", "straggler_page"])
def test_ranks_have_a_section_and_nothing_sticks_out(
    name: str, visit: Visit, request: pytest.FixtureRequest
) -> None:
    page = visit(request.getfixturevalue(name))
    assert page.evaluate("[...document.querySelectorAll('section')].map(e => e.id)")[:3] == [
        *("ran", "ranks", "verdicts")
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
    assert said(page) == "rank 37, step 20 to 21, their mean: 1.34 µs; median of the ranks 1.03 µs (+30 %)."


def test_keys_lead_through_ranks_and_steps(many_page: Path, visit: Visit) -> None:
    page = visit(many_page)
    header = '.steps th[data-name="first_step"] button'
    page.evaluate(f"document.querySelector('{header}').click()")  # the order of rows is not that of columns
    page.locator(".strips").focus()
    keys = ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp", "End", "ArrowRight", "Home", "ArrowLeft")
    found = []
    for key in keys:
        page.keyboard.press(key)
        found.append(said(page).partition(":")[0])
    mean = ", their mean"
    assert found == [
        *(f"rank 0, step 0 to 1{mean}", f"rank 1, step 0 to 1{mean}", f"rank 1, step 2 to 3{mean}"),
        *(f"rank 0, step 2 to 3{mean}", "rank 0, step 150", "rank 0, step 150"),
        *(f"rank 0, step 0 to 1{mean}",) * 2,
    ]
    assert page.locator(".mark").count() == 1


def said(page: Page) -> str:
    return page.locator(".steps .readout").inner_text()


def test_few_steps_have_their_figures_in_the_cells(
    straggler: list[Member], straggler_page: Path, visit: Visit
) -> None:
    page = visit(straggler_page)
    [found] = steps_of(make_job(straggler))[0]
    cells = page.locator(".steps .heat td").all_inner_texts()
    assert cells == [duration(own) for own in found.own_ns[:, 0].tolist()]
    assert page.locator(".strips").count() == 0


def test_the_numbers_of_both_pictures_are_saved(many: list[Member], many_page: Path, visit: Visit) -> None:
    page = visit(many_page)
    page.evaluate("document.querySelectorAll('#ranks details').forEach(one => one.open = true)")
    ranks, by_step = (saved(page, name) for name in ("Waiting for other ranks", "Own GPU time in each"))
    assert [row["rank"] for row in ranks] == [str(rank) for rank in range(MANY)]
    assert [float(row["rank 37 own_ns"]) for row in by_step[9:12]] == [1037, 1337, 1637]
    found = most_telling(steps_of(make_job(many))[0])
    assert found
    assert len(by_step) == len(numbers(binned(make_job(many), found)))


def saved(page: Page, name: str) -> list[dict[str, Any]]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f"Save {name}").click()
    return list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))


def test_the_other_tables_say_the_rank(many_page: Path, visit: Visit) -> None:
    page = visit(many_page)
    labels = page.evaluate(
        "[...document.querySelectorAll('#kernels tbody tr')].map(row => row.cells[0].textContent)"
    )
    assert set(labels) == {f"rank {rank}" for rank in (0, 1, 2, 3, LATE, 61, 62, 63)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["many_page", "straggler_page"])
def test_contrast_headings_and_all_that_axe_looks_at(
    name: str, scheme: str, visit: Visit, request: pytest.FixtureRequest
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit(request.getfixturevalue(name), color_scheme=scheme)
    page.evaluate("document.querySelectorAll('#ranks details').forEach(one => one.open = true)")
    found = axe.Axe().run(page, context="#ranks").response["violations"]
    found += axe.Axe().run(page).response["violations"] if name == "straggler_page" else []
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_shade_can_be_read(scheme: str, many_page: Path, visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit(many_page, color_scheme=scheme)
    page.evaluate(
        """shades => [...document.querySelectorAll("#ranks .heat td")].forEach(
          (cell, i) => (cell.className = `shade-${i % shades}`))""",
        SHADES,
    )
    found = axe.Axe().run(page, context="#ranks .heat").response
    assert found["violations"] == []
    assert "color-contrast" in [rule["id"] for rule in found["passes"]]
