"""Measure the frames of a page's timeline in a browser, beside those of an empty canvas of its size.

    python tests/bench/frames.py PAGE.html

It zooms in and out over the whole time, and moves, a step in each frame. Of each frame it says how long it
took, and the processor time of the page's script in it: the rest is the browser's, and that of other
processes. Ends with 1 if the frames are slower than they should be: in the median 2 times those of the empty
canvas, in the 95th percentile 4 times, none over 100 ms. No part of the script should take over 25 ms, nor
while the page opens.
"""

import os
import sys
from bisect import bisect_left
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page
from typing_extensions import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from browser import chromium_path
from playwright.sync_api import sync_playwright

FRAMES = 240
MOST_MEDIAN, MOST_LATE, MOST_MS, MOST_SCRIPT_MS = 2, 4, 100, 25
_MEASURE = """async ([frames, empty]) => {
  const timeline = timelines[0];
  timeline.article.scrollIntoView();
  timeline.act("home");
  const blank = Object.assign(document.createElement("canvas"), { width: timeline.canvas.width });
  blank.height = timeline.canvas.height;
  if (empty) timeline.canvas.parentNode.replaceChild(blank, timeline.canvas);
  const pen = blank.getContext("2d");
  const found = [];
  const target = 0.6 * timeline.content.length;
  await new Promise((rest) => setTimeout(rest, 1000)); // the browser draws what was scrolled into view
  let before = await new Promise(requestAnimationFrame);
  performance.mark("frame");
  for (let i = 0; i < frames; i++) {
    if (empty) pen.clearRect(0, 0, blank.width, blank.height);
    else {
      if (i % 120 < 80) timeline.view.zoom(i % 80 < 40 ? 0.8 : 1.25, target);
      else timeline.view.pan(i % 80 < 60 ? 0.05 : -0.05);
      timeline.draw();
    }
    const now = await new Promise(requestAnimationFrame);
    performance.mark("frame");
    found.push(now - before);
    before = now;
  }
  if (empty) blank.parentNode.replaceChild(timeline.canvas, blank);
  return found;
}"""
_SCRIPTS = (
    *("EvaluateScript", "FunctionCall", "FireAnimationFrame", "TimerFire"),
    "BlinkScheduler_PerformMicrotaskCheckpoint",
)


class Trace:
    """What the browser traces while the ``with`` block runs."""

    def __init__(self, browser: Browser, page: Page) -> None:
        self._page, self._session = page, browser.new_browser_cdp_session()
        self._events: list[dict[str, Any]] = []
        self._done: list[object] = []
        self._session.on("Tracing.dataCollected", lambda part: self._events.extend(part["value"]))
        self._session.on("Tracing.tracingComplete", lambda end: self._done.extend([end]))

    def __enter__(self) -> Self:
        categories = ["devtools.timeline", "blink.user_timing", "toplevel"]
        self._session.send("Tracing.start", {"traceConfig": {"includedCategories": categories}})
        return self

    def __exit__(self, *_: object) -> None:
        self._session.send("Tracing.end")
        while not self._done:
            self._page.wait_for_timeout(20)

    def scripts(self) -> list[tuple[int, float]]:
        """Return start and processor time in ms of each outermost piece of script, by start."""
        found = [event for event in self._events if event["name"] in _SCRIPTS and "tdur" in event]
        outermost, reached = [], 0
        for event in sorted(found, key=lambda event: (event["ts"], -event["dur"])):
            if event["ts"] >= reached:
                outermost.append((event["ts"], event["tdur"] / 1e3))
                reached = event["ts"] + event["dur"]
        return outermost

    def by_frame(self) -> list[float]:
        """Return the processor time of the script in each frame, in ms."""
        marks = sorted(event["ts"] for event in self._events if event["name"] == "frame")
        times = [0.0] * (len(marks) + 1)
        for start, ms in self.scripts():
            times[bisect_left(marks, start)] += ms
        return times[1:-1]


def three(times: list[float]) -> list[float]:
    """Return the median, the 95th percentile and the longest."""
    ordered = sorted(times)
    return [ordered[len(ordered) // 2], ordered[int(0.95 * len(ordered))], ordered[-1]]


def main(path: Path) -> int:
    """Return the exit code: 1 if frames are too slow."""
    with sync_playwright() as driver:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=chromium_path(), args=[*sandbox, "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        with Trace(browser, page) as opening:
            page.goto(path.resolve().as_uri())
            page.evaluate("timelines[0].ready.then(() => 0)")
        rows: dict[str, list[float]] = {}
        for what in ("empty canvas", "timeline"):
            with Trace(browser, page) as moving:
                times = page.evaluate(_MEASURE, [FRAMES, what == "empty canvas"])
            rows[what] = three(times)
        rows["its script"] = three(moving.by_frame())
        browser.close()
    parts = [ms for _, ms in opening.scripts()]
    sys.stdout.write(
        f"{path.name}: {path.stat().st_size / 1e6:.1f} MB; it opens with {sum(parts):.0f} ms of script, "
        f"the longest part {max(parts):.0f} ms\nframes in ms: median, 95th percentile, longest\n"
    )
    for what, figures in rows.items():
        sys.stdout.write(f"{what:12}  " + "  ".join(f"{ms:6.1f}" for ms in figures) + "\n")
    blank, drawn, script = rows["empty canvas"], rows["timeline"], rows["its script"]
    slow = drawn[0] > MOST_MEDIAN * blank[0] or drawn[1] > MOST_LATE * blank[1] or drawn[2] > MOST_MS
    return int(slow or max(*parts, script[2]) > MOST_SCRIPT_MS)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
