"""The timeline of a page that is open in a browser: its picture, what it shows, and what it says."""

from playwright.sync_api import Locator, Page, Position


def timeline(page: Page) -> Locator:
    return page.locator("article.timeline").first


# A change is drawn in the next frame. The first frame is drawn once the page knows its width.
DRAWN = """async canvas => {
    for (let frames = 0; frames < 2 || !("start" in canvas.dataset); frames += 1) {
        await new Promise(requestAnimationFrame);
    }
    return {...canvas.dataset};
}"""


def picture(page: Page) -> Locator:
    return timeline(page).locator(".picture canvas")


OPEN_ALL = """timelines[0].ready.then(() => {
    for (const action of ["none", "lanes", "home"]) timelines[0].act(action);
    timelines[0].picture.lane = -1;
})"""
# The parts of the page that are hidden then would be found, too.
WHOLE = """() => {
    document.querySelector("#whole")?.click();
    document.querySelectorAll(".of-steady, .first-kernels").forEach((part) => part.remove());
    document.querySelector("#kernels details.numbers").open = true;
}"""


def opened_all(page: Page) -> Page:
    """Wait for the timeline, and show all of its time and lanes: it opens on what matters, and selects it."""
    page.evaluate(OPEN_ALL)
    return page


def whole(page: Page) -> Page:
    """Choose the figures of the whole capture, and open the table of all kernels."""
    page.evaluate(WHOLE)
    return page


def ends(page: Page) -> tuple[float, float]:
    """Return the visible times of the timeline in ns after its first event."""
    data = picture(page).evaluate(DRAWN)
    return float(data["start"]), float(data["end"])


def readout(page: Page) -> str:
    return timeline(page).locator(".readout").inner_text()


def place_of(page: Page, family: str) -> Position:
    """Point at the middle of the longest event of a family in the timeline; return this place."""
    canvas = picture(page)
    canvas.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """family => {
          const { picture, content: { events, series, rows }, view } = timelines[0];
          const every = Array.from({ length: events.count }, (_, i) => events.item(i));
          const mine = every.filter(item => series[item.series].family === family);
          const item = mine.reduce((a, b) => (a.duration >= b.duration ? a : b));
          view.show(item.start - item.duration, item.end + item.duration);
          picture.draw();
          return [picture.x((item.start + item.end) / 2), rows.tops[item.lane] + 10];
        }""",
        family,
    )
    canvas.hover(position={"x": x, "y": y})
    return {"x": x, "y": y}
