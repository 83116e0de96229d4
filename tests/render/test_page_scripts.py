"""What the scripts of a page compute, on values worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from browser import Visit
    from page_examples import PageOf
    from playwright.sync_api import Page

pytest_plugins = ("browser", "page_examples")
pytestmark = pytest.mark.slow


@pytest.fixture
def page(page_of: PageOf, visit: Visit) -> Page:
    opened = visit(page_of("one launch"))
    opened.evaluate("timelines[0].ready.then(() => 0)")
    return opened


def results(page: Page, expected: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = page.evaluate(
        "all => Object.fromEntries(all.map((one) => [one, eval(one)]))", [*expected]
    )
    return values


@pytest.mark.parametrize(
    "expected",
    [
        {  # columns.js
            "firstOver([1, 3, 3, 5], 3, 0, 4)": 3,
            "firstOver([1, 3, 3, 5], 9, 0, 4)": 4,
            "firstFrom([1, 3, 3, 5], 3, 0, 4)": 1,
            "firstFrom([1, 3, 3, 5], 3, 2, 4)": 2,
        },
        {  # timeline.js, search.js
            "[...countsOf([2, 0, 2], 4)]": [1, 0, 2, 0],
            "nextIn({ start: [0, 10, 20] }, [0, 2], 0, 5, 1)": 2,
            "nextIn({ start: [0, 10, 20] }, [0, 2], 2, 5, 1)": 2,
            "nextIn({ start: [0, 10, 20] }, [0, 2], 1, 5, 1)": 2,
            "nextIn({ start: [0, 10, 20] }, [0, 2], -1, 30, -1)": 2,
        },
        {  # view.js, readout.js
            "[0, 0.04, 99.94, 99.96, 100].map(percent)": [
                "0.0 %",
                "under 0.1 %",
                "99.9 %",
                "over 99.9 %",
                "100.0 %",
            ],
            "[999, 1000, 4.29e9].map(amount)": ["999 bytes", "1 kB", "4.29 GB"],
            "new View(1000, 2e9).ticks(102 * 9).at(0)[0]": 0,
            "new View(1000, 2e9).ticks(102 * 9).map(([time]) => time)": [*range(0, 1001, 100)],
            "new View(1000, 0).ticks(102 * 3).map(([, text]) => text)": ["0.0 µs", "0.5 µs", "1.0 µs"],
        },
        {  # measure.js, limit.js
            "timeOption({ origin: 100 }, 0.4, 20)": "100ns/120ns",
            "shellQuoted('run/a-b.sqlite')": "run/a-b.sqlite",
            'shellQuoted("it\'s")': "'it'\"'\"'s'",
        },
        {  # tables.js
            "['1e3', '=1', '-1.5', '@x', 'a\"b', 'a,b'].map(csvCell)": [
                *("1e3", "'=1", "-1.5", "'@x", '"a""b"', '"a,b"')
            ],
            "['10', '', '9', 'b2', 'b10'].sort(compare)": ["9", "10", "b2", "b10", ""],
        },
        {  # pixels.js
            "word('#010203')": 0xFF030201,
            "word('#ffffff', '#000000', 0.4)": 0xFF666666,
            "[...inkOf(7, 1, 9)]": [7, 7, 7, 9, 7, 7, 9, 7, 7, 9, 7, 7, 9, 7, 7, 7],
            "placesOf([2, 4, 4, 7], 3.5, 6.1)": [1, 3],
        },
    ],
    ids=["places", "events", "texts", "options", "tables", "pixels"],
)
def test_a_function_gives_what_paper_says(page: Page, expected: dict[str, Any]) -> None:
    assert results(page, expected) == expected


def test_two_neighboring_bins_become_one_with_their_sums(page: Page) -> None:
    merged = page.evaluate(
        """() => {
          const part = { series: 3, at: [0, 1, 4, 7], taken: [1, 2, 4, 8], begun: [1, 0, 2, 1] };
          const { series, at, taken, begun } = Bins.prototype.merged(part);
          return [series, [...at], [...taken], [...begun]];
        }"""
    )
    assert merged == [3, [0, 2, 3], [3, 4, 8], [1, 2, 1]]


def test_measured_time_counts_what_overlaps_once(page: Page) -> None:
    """Lanes of 0-40 and 60-90, and of 30-70: from 10 to 80 they cover all of it, one alone 50."""
    covered = page.evaluate(
        """() => {
          const events = { start: [0, 60, 30], end: [40, 90, 70], range: (lane) => [[0, 2], [2, 3]][lane] };
          const measure = { content: { events } };
          return [[0, 1], [0], [1]].map((lanes) => Measure.prototype.covered.call(measure, lanes, 10, 80));
        }"""
    )
    assert covered == [70, 50, 40]


def test_undo_leads_to_the_view_before(page: Page) -> None:
    seen = page.evaluate(
        """() => {
          const view = new View(1000, 0);
          view.show(100, 200);
          view.keep();
          view.keep(); // the same once more is no step back
          view.zoom(0.5, 100);
          const closer = [view.start, view.end];
          view.keep();
          view.undo();
          return [closer, [view.start, view.end]];
        }"""
    )
    assert seen == [[100, 150], [100, 200]]
