"""Measure the frames of a page's timeline in a browser, beside those of an empty canvas of its size.

    python tests/bench/frames.py PAGE.html

It zooms in and out over the whole time, and moves, a step in each frame. Ends with 1 if the frames are slower
than they should be: in the median 2 times those of the empty canvas, in the 95th percentile 4 times, none
over 100 ms.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from browser import chromium_path
from playwright.sync_api import sync_playwright

FRAMES = 240
MOST_MEDIAN, MOST_LATE, MOST_MS = 2, 4, 100
_MEASURE = """async ([frames, empty]) => {
  const timeline = timelines[0];
  await timeline.ready;
  timeline.article.scrollIntoView();
  timeline.act("home");
  const blank = Object.assign(document.createElement("canvas"), { width: timeline.canvas.width });
  blank.height = timeline.canvas.height;
  if (empty) timeline.canvas.parentNode.replaceChild(blank, timeline.canvas);
  const pen = blank.getContext("2d");
  const found = [];
  const target = 0.6 * timeline.content.length;
  let before = await new Promise(requestAnimationFrame);
  for (let i = 0; i < frames; i++) {
    if (empty) pen.clearRect(0, 0, blank.width, blank.height);
    else {
      if (i % 120 < 80) timeline.view.zoom(i % 80 < 40 ? 0.8 : 1.25, target);
      else timeline.view.pan(i % 80 < 60 ? 0.05 : -0.05);
      timeline.draw();
    }
    const now = await new Promise(requestAnimationFrame);
    found.push(now - before);
    before = now;
  }
  if (empty) blank.parentNode.replaceChild(timeline.canvas, blank);
  found.sort((a, b) => a - b);
  return [found[frames >> 1], found[Math.floor(0.95 * frames)], found.at(-1)];
}"""


def main(path: Path) -> int:
    """Return the exit code: 1 if frames are too slow."""
    with sync_playwright() as driver:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=chromium_path(), args=[*sandbox, "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.resolve().as_uri())
        empty, drawn = (page.evaluate(_MEASURE, [FRAMES, what]) for what in (True, False))
        browser.close()
    size = path.stat().st_size / 1e6
    sys.stdout.write(f"{path.name}: {size:.1f} MB; frames in ms: median, 95th percentile, longest\n")
    for what, times in (("empty canvas", empty), ("timeline", drawn)):
        sys.stdout.write(f"{what:12}  " + "  ".join(f"{ms:6.1f}" for ms in times) + "\n")
    slow = drawn[0] > MOST_MEDIAN * empty[0] or drawn[1] > MOST_LATE * empty[1] or drawn[2] > MOST_MS
    return int(slow)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
