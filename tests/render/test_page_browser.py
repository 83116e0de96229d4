"""The page in a real browser: no errors, readable, and tables with the numbers of the reports."""

from __future__ import annotations

import csv
import io
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conditioned import MS, around, recorded
from playwright.sync_api import Locator, Page
from timeline_page import whole
from tiny_export import kernel

from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import without_folders
from nsyswrap.base.units import duration
from nsyswrap.render.page import render
from nsyswrap.render.page.sections import SECTIONS as ALL_SECTIONS
from nsyswrap.reports.answer import answer_lines

if TYPE_CHECKING:
    from browser import Visit
    from page_examples import Captures, PageOf

    from nsyswrap.api import CaptureReader

pytest_plugins = ("browser", "page_examples")
KINDS = ("one launch", "two GPUs", "NVTX only", "side by side", "many", "nothing on the GPU")
# Only jobs have ranks, only new runs have conditions, and not all captures have GPU work in NVTX ranges.
SECTIONS = [part for part in ALL_SECTIONS if part.anchor not in ("ranks", "conditions", "ranges")]
IN_RANGES, NO_GPU = ("two GPUs", "side by side"), ("NVTX only", "nothing on the GPU")
# Reports on the page, and the number of their rows there.
TABLES = {
    "cuda_gpu_kern_sum": 400,
    "kernel_class_sum": 400,
    "memcpy_bandwidth": 400,
    "launch_overhead": 100,
    "timing_audit": 100,
    "gpu_time": 100,
    "gpu_idle": 50,
    "advice": 100,
    "step_budget": 100,
    "diagnostics": 400,
}


def raw_rows(page: Page, report: str) -> list[dict[str, str]]:
    """Return the raw values of a table on the page, by column name."""
    found: list[dict[str, str]] = page.evaluate(
        """report => {
          const table = document.querySelector(`table[data-report="${report}"]`);
          const names = [...table.tHead.rows[0].cells].map(cell => cell.dataset.name);
          return [...table.tBodies[0].rows].map(row => Object.fromEntries(
            [...row.cells].map((cell, i) => [names[i], rawValue(cell)])));
        }""",
        report,
    )
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_section_is_there_and_nothing_sticks_out(kind: str, page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of(kind))
    shown = page.evaluate("[...document.querySelectorAll('section')].map(e => e.id)")
    made = [part.anchor for part in SECTIONS if not (part.of_gpu and kind in NO_GPU)]
    assert [anchor for anchor in shown if anchor != "ranges"] == made
    assert ("ranges" in shown) == (kind in IN_RANGES)
    names, headings = (page.locator(f"{where}").all_inner_texts() for where in ("nav a", "section > h2"))
    assert names == headings
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        lines = "all => all.map(e => e.offsetHeight / parseFloat(getComputedStyle(e).fontSize))"
        assert all(height < 1.5 for height in page.locator(".busy data").evaluate_all(lines))


def test_the_conditions_of_a_run_have_their_curves(tmp_path: Path, visit: Visit) -> None:
    capture = recorded(tmp_path / "run", [kernel("k", 1000 * MS, 3000 * MS)], around([]))
    (tmp_path / "page.html").write_text(render({"run": capture}), encoding="utf-8")
    page = visit(tmp_path / "page.html")
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        boxes = page.locator("#conditions svg").evaluate_all("all => all.map(e => e.clientWidth)")
        assert len(boxes) == 2  # clock and power
        assert all(width / 2 < box < width for box in boxes)


@pytest.mark.parametrize("kind", ["one launch", "two GPUs", "side by side", "many"])
def test_the_numbers_are_those_of_the_reports(
    kind: str, page_of: PageOf, captures: Captures, visit: Visit
) -> None:
    page = visit(page_of(kind))
    for report, most in TABLES.items():
        expected = expected_rows(captures(kind), report)
        found = raw_rows(page, report) if expected else []
        assert len(found) == min(len(expected), most)
        assert found == expected[:most]


def expected_rows(captures: dict[str, CaptureReader], report: str) -> list[dict[str, str]]:
    """Return a report of all captures that have its events, without the folders that a page leaves out."""
    found: list[dict[str, str]] = []
    for label, capture in captures.items():
        with suppress(NotInCapture):
            table = capture.report(report)
            names = [column.name for column in table.columns]
            first = {"capture": label} if len(captures) > 1 else {}
            found += [first | dict(zip(names, map(_raw, row), strict=True)) for row in table.rows()]
    return found


def _raw(value: object) -> str:
    return "" if value is None else without_folders(value) if isinstance(value, str) else repr(value)


def test_the_answer_has_the_lines_of_the_screen(page_of: PageOf, captures: Captures, visit: Visit) -> None:
    page = visit(page_of("side by side"))
    answers = page.locator(".tile.answer")
    for number, capture in enumerate(captures("side by side").values()):
        lines = [line for line in answer_lines(capture, capture.answer) if not line.typed]
        findings = [i for i, line in enumerate(lines) if line.kind == "finding"]  # in a section of their own
        assert findings
        theirs = {i + 1 for i in findings if lines[i + 1 : i + 2] and lines[i + 1].kind == "detail"}
        others = [line for i, line in enumerate(lines) if i not in {*findings, *theirs}]
        texts = [line.text.removesuffix(" (-r timing_audit)") for line in others]  # the page has both
        paragraphs = answers.nth(number).locator("p:not(.of-whole p)")
        told = paragraphs.all_inner_texts()
        assert re.fullmatch(rf"{lines[0].figures[0].text}\s+busy (in a step|of the whole capture)", told[0])
        assert told[1:] == [lines[0].sentence, *texts[1:]]
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 800})
            assert all(line.is_visible() for line in paragraphs.all())


def test_a_click_sorts_and_so_does_the_keyboard(page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("two GPUs")))
    header = page.locator('table[data-report="cuda_gpu_kern_sum"] th[data-name="instances"]')

    def column() -> list[int]:
        return [int(row["instances"]) for row in raw_rows(page, "cuda_gpu_kern_sum")]

    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert column() == sorted(column(), reverse=True) != sorted(column())
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert column() == sorted(column())
    page.locator('#kernels th[data-name="name"] button').first.click()
    seen = page.locator("#kernels details.numbers").first.locator(".name > summary").all_inner_texts()
    assert seen == page.evaluate("all => [...all].sort(ORDER.compare).reverse()", seen)
    sizes = ["512 B", "4 KiB", "64 KiB", "1 MiB", "GiB"]
    assert page.evaluate(
        """all => all.map((text, i) => {
      const cell = Object.assign(document.createElement("td"), { textContent: text });
      return sortValue(cell);
    })""",
        sizes,
    ) == ["512", "4096", "65536", "1048576", "GiB"]


def test_what_is_missing_comes_last_however_it_is_sorted(page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("two GPUs")))
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    header = page.locator('table[data-report="launch_overhead"] th[data-name="latency_med_ns"] button')
    for _ in range(2):
        header.click()
        values = [row["latency_med_ns"] for row in raw_rows(page, "launch_overhead")]
        assert "" in values
        assert values.index("") == len(values) - values.count("")


def test_the_filter_leaves_what_holds_the_word(page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("two GPUs")))
    page.locator("#kernels input").first.fill("ALLREDUCE")
    shown = page.locator('table[data-report="cuda_gpu_kern_sum"] tbody tr:visible')
    assert shown.count() == 1
    assert "ncclDevKernel_AllReduce" in (shown.locator("code").text_content() or "")
    assert page.locator("#kernels output").first.inner_text() == "1 of 14 rows"
    page.locator("#kernels input").first.fill("")
    assert shown.count() == 14


def test_a_name_opens_to_all_of_it_and_is_copied(page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("two GPUs")))
    name = page.locator("#kernels details.name").first
    assert not name.locator("code").is_visible()
    name.locator("summary").click()
    assert name.locator("code").inner_text().startswith("ncclDevKernel_")
    name.locator("button.copy").click()
    page.wait_for_function("document.querySelector('#kernels .copy').textContent !== 'Copy'")
    copied = name.locator("button.copy").inner_text()
    assert copied in ("Copied", "Selected")
    if copied == "Selected":
        assert page.evaluate("getSelection().toString()") == name.locator("code").inner_text()


def test_a_button_saves_the_table_as_csv(page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("two GPUs")))
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save CSV of all 14 kernels").click()
    assert waiting.value.suggested_filename == "cuda_gpu_kern_sum.page.csv"
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert list(csv.DictReader(io.StringIO(text))) == raw_rows(page, "cuda_gpu_kern_sum")


def test_what_is_saved_is_what_is_shown_and_a_part_says_so(page_of: PageOf, visit: Visit) -> None:
    page = whole(visit(page_of("many")))
    page.evaluate("document.querySelectorAll('details.numbers').forEach(one => one.open = true)")
    gaps, all_kernels = (page.locator(f"#{name} button.save").first for name in ("idle", "kernels"))
    assert re.fullmatch(r"Save CSV \(50 of \d+,\d\d\d rows\)", shown_text(gaps))
    assert shown_text(all_kernels) == "Save CSV"
    names = [row["name"] for row in raw_rows(page, "cuda_gpu_kern_sum")]
    page.locator("#kernels input").first.fill(names[3])
    assert shown_text(all_kernels) == f"Save CSV (1 of {len(names)} rows)"
    with page.expect_download() as waiting:
        all_kernels.click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == [names[3]]


def shown_text(button: Locator) -> str:
    """Return the visible text of a button, without the text for screen readers."""
    return str(button.evaluate("e => e.firstChild.textContent + e.querySelector('.part').textContent"))


def test_every_picture_has_its_numbers_to_save(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("side by side"))
    for anchor in [part.anchor for part in SECTIONS if part.anchor != "answer"]:
        tables = page.locator(f"#{anchor} table:not(.first-kernels)").count()  # one with all has the others
        assert tables >= 1, anchor
        assert tables == page.locator(f"#{anchor} button.save").count()


def test_times_are_written_as_the_reports_write_them(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("one launch"))
    times = [
        0,
        1,
        999,
        1_000,
        1_125,
        1_115,
        9_995,
        10_250,
        10_350,
        99_950,
        100_500,
        999_499,
        999_500,
        999.6,
        101_500,
        2_675_000,
        10**9,
    ]
    between = [10 ** (i / 37) for i in range(500)]
    every = [*times, *between]
    assert page.evaluate("times => times.map(duration)", every) == list(map(duration, every))


def test_nothing_can_be_loaded_or_run_from_outside(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("one launch"), loud=True)
    blocked = page.evaluate(
        """async () => {
          const found = [];
          document.addEventListener("securitypolicyviolation", event => found.push(event.effectiveDirective));
          document.body.append(Object.assign(new Image(), { src: "http://192.0.2.1/a.png" }));
          document.body.append(Object.assign(document.createElement("script"), { textContent: "pwned = 1" }));
          document.body.insertAdjacentHTML("beforeend", "<p style='color:red' onclick='pwned = 1'>x</p>");
          await fetch("http://192.0.2.1/").catch(() => {});
          await new Promise(done => setTimeout(done, 200));
          return [found, typeof pwned];
        }"""
    )
    assert blocked[1] == "undefined"
    assert {"img-src", "script-src-elem", "style-src-attr", "connect-src"} <= set(blocked[0])


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [("side by side", "dark"), ("NVTX only", "dark")],  # "one launch" in light, with its tables open: below
)
def test_contrast_headings_and_all_that_axe_looks_at(
    kind: str, scheme: str, page_of: PageOf, visit: Visit
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit(page_of(kind), color_scheme=scheme)
    found = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found] == []


def test_tables_that_are_open_pass_too(page_of: PageOf, visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit(page_of("one launch"), color_scheme="light")
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found] == []


def test_dark_where_the_system_is_and_light_on_paper(page_of: PageOf, visit: Visit) -> None:
    page = visit(page_of("one launch"), color_scheme="dark")

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert ground() == "rgb(20, 22, 26)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert ground() == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
