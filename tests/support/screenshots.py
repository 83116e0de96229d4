"""Make the pictures of README.md and docs/ again, from the recorded captures.

    python tests/support/screenshots.py [FOLDER] [--million CAPTURE]

million.png is made where a capture is named: a million kernels that ``tests/bench/make_export.py`` makes.

Needs Chromium, and playwright to drive it (``pip install '.[test]'``). FOLDER is docs/ where none is named.
"""

import argparse
import io
import os
import tempfile
from pathlib import Path

import reference
from browser import chromium_path
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from recorded import PICTURED, ROOT, pictured, run_folder
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from nsyswrap.api import open_capture
from nsyswrap.render.page import render
from nsyswrap.render.plots import NAMES
from nsyswrap.render.plots.figure import content

_TRAINING = "ladder/start"  # a training loop, recorded on an H200
_COMMAND = "nsyswrap report nsyswrap/recorded/add2/none"
_WIDTH = 80  # columns of the terminal, as of the outputs in the pages
_COLORS = 256  # of a picture of the page or terminal
_MOST_BYTES = 150_000  # of a picture
_FEW_LANES = 760  # height of the picture of a timeline with many lanes
_TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; background: {background}; }}
pre {{ margin: 0; padding: 16px 20px; width: max-content; color: {foreground};
  font: 13px/1.4 "DejaVu Sans Mono", "Liberation Mono", monospace; }}
{stylesheet}
</style><pre>{code}</pre>"""


def main(folder: Path, million: Path | None) -> None:
    """Write a picture of each part of docs/, and plots/ with one of each kind.

    Write million.png where its capture is named.
    """
    save_plots(folder / "plots")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as scratch:
        browser = driver.chromium.launch(executable_path=chromium_path(), args=sandbox)

        def page_of(label: str, capture: Path) -> Page:
            return _opened(browser, Path(scratch, "page.html"), render({label: open_capture(capture)}))

        made = [folder / f"{name}.png" for name in ("overview", "timeline", "terminal")]
        training = run_folder(_TRAINING, Path(scratch))
        _first_screen(page_of("train.py", training), made[0])
        _timeline(page_of("add2 both", PICTURED), made[1])
        _opened(browser, Path(scratch, "t.html"), _terminal()).locator("pre").screenshot(path=made[2])
        if million:
            made.append(folder / "million.png")
            _few_ms(page_of("million", million), made[-1])
        browser.close()
    for picture in made:
        _shrink(picture)


def _shrink(path: Path) -> None:
    """Reduce a picture to 256 colors."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    if path.stat().st_size > _MOST_BYTES:
        raise SystemExit(f"{path}: {path.stat().st_size:,} bytes, at most {_MOST_BYTES:,} are wanted")


def save_plots(folder: Path) -> None:
    """Draw all plots as PNG, called after their kind. The pictures do not name the version."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for kind in NAMES:
            figure = open_capture(pictured(kind, Path(scratch))).plot(kind)
            with Image.open(io.BytesIO(content(figure, "png"))) as picture:
                picture.save(folder / f"{kind}.png", optimize=True)  # without metadata


def _opened(browser: Browser, path: Path, content: str) -> Page:
    path.write_text(content, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.goto(path.as_uri())
    page.evaluate("typeof timelines === 'undefined' || Promise.all(timelines.map(one => one.ready))")
    return page


def _first_screen(page: Page, path: Path) -> None:
    """Show what a laptop shows of a page at first."""
    page.set_viewport_size({"width": 1440, "height": 900})
    page.wait_for_timeout(500)  # for the frame to be drawn
    page.screenshot(path=path)


def _timeline(page: Page, path: Path) -> None:
    """Show a kernel with its launch and what ran around it."""
    _select_kernel(page)
    page.locator("article.timeline").screenshot(path=path)


def _few_ms(page: Page, path: Path) -> None:
    """Show the first GPU of the timeline, zoomed to those 5 ms that have most of its events one by one."""
    page.evaluate(
        """() => {
          const [timeline] = timelines;
          const { events, lanes } = timeline.content;
          const ofFirst = lanes.map((_, lane) => lane).filter(lane => lanes[lane].group === lanes[0].group);
          let [most, from] = [0, 0];
          for (let i = 0; i < events.count; i += 50) {
            const start = events.start[i];
            const inside = ofFirst.map(lane => events.range(lane, start, start + 5e6));
            const count = inside.reduce((sum, [first, last]) => sum + last - first, 0);
            if (count > most) [most, from] = [count, start];
          }
          timeline.act("none"); // what is selected at first lies elsewhere
          timeline.view.show(from, from + 5e6);
          timeline.draw();
          timeline.article.scrollIntoView();
        }"""
    )
    page.wait_for_timeout(500)  # for the frame to be drawn
    article = page.locator("article.timeline").bounding_box()
    assert article
    top = article["y"] + page.evaluate("scrollY")
    clip = {**article, "y": top, "height": min(article["height"], _FEW_LANES)}
    page.screenshot(path=path, full_page=True, clip=clip)  # type: ignore[arg-type]


def _select_kernel(page: Page) -> None:
    """Select a kernel among the last ones, and zoom the timeline to it."""
    page.evaluate(
        """() => {
          const [timeline] = timelines;
          const { events, series } = timeline.content;
          const kernels = [...events.series.keys()].filter(
            i => series[events.series[i]].family === "kernels" && events.call[i] >= 0);
          timeline.article.scrollIntoView(); // what is not on the screen is not drawn
          timeline.select(kernels.at(-3));
          timeline.fit(kernels.at(-3), 3);
        }"""
    )
    page.wait_for_timeout(500)  # for the frame to be drawn


def _terminal() -> str:
    """Return the summary screen as a page, as a terminal shows it."""
    console = Console(width=_WIDTH, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    console.print(f"$ {_COMMAND}", style="bold", highlight=False)
    console.print(Text.from_ansi(reference.run(f"{_COMMAND} --color always").stdout))
    return console.export_html(theme=MONOKAI, code_format=_TERMINAL, inline_styles=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs")
    parser.add_argument("--million", type=Path)
    main(**vars(parser.parse_args()))
