"""Pages of a dozen kinds of captures, each open in a browser: quiet, readable, one value for each figure.

The browser of the tests fails a page that says a word on its console, or asks for anything but itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from made_runs import made_side
from rank_exports import Step, member, steps
from recorded import run_folder
from tiny_export import allocation, call, kernel, metric, nvml_samples, opened, row

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.ranks.members import processes
from nsyswrap.api import open_capture
from nsyswrap.render.page import render, render_ranks
from nsyswrap.render.page.compare import compare_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from browser import Visit
    from page_examples import PageOf
    from playwright.sync_api import ViewportSize

pytest_plugins = ("browser", "page_examples")
pytestmark = pytest.mark.slow
RANKS = 16
LAPTOP: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
RECORDED = {
    "a training in PyTorch": "ladder/start",
    "CUDA graphs": "graphs/nodes",
    "managed memory": "copies/faults",
    "an inference": "inference/decode",
    "MPI and OS calls": "hybrid/gpu",
    "no GPU work": "nvtx/host",
}
READY = "typeof timelines === 'undefined' || Promise.all(timelines.map((one) => one.ready)).then(() => 0)"
# The other rows of a table are as its first ones, and axe takes long for each.
FEW_ROWS = "document.querySelectorAll('tbody tr:nth-child(n + 6)').forEach((one) => one.remove())"
FIGURES = """[...document.querySelectorAll("[data-figure]")].map((one) => [
  one.closest(".tiles > div")?.querySelector("h3")?.textContent ?? "", one.dataset.figure, one.value])"""


def two_ranks(folder: Path) -> str:
    return render_ranks("job", processes(open_capture(run_folder("ddp/straggler", folder))))


def many_ranks(folder: Path) -> str:
    every = [member(folder, rank, *steps(*[Step(1000 + rank, 3000)] * 40)) for rank in range(RANKS)]
    return render_ranks("job", every)


def comparison(_: Path) -> str:
    return compare_page(
        compare(made_side("before", seed=1), made_side("after", seed=2, factors={"gemm": 1.3}))
    )


def before_metadata(folder: Path) -> str:
    """An export as of nsys 2021: no names of numbers, no facts on the recording."""
    gpu = row("TARGET_INFO_CUDA_GPU", deviceId=0, name="Quadro RTX 6000")
    return render({"x": opened(folder, gpu, *work(8))})


def memory_and_metrics(folder: Path) -> str:
    memory = (allocation(1, 10, 3 << 30), allocation(2, 5000, 1 << 30))
    sampled = (*metric("SMs Active [Throughput %]", 3, 5, 97, every=5000), *nvml_samples((74, 36), (310, 41)))
    return render({"x": opened(folder, *memory, *sampled, *work(8))})


def work(launches: int) -> list[Any]:
    return [
        one
        for i in range(launches)
        for one in (
            call("cudaLaunchKernel", 2000 * i, 2000 * i + 90, i + 1),
            kernel(f"k{i % 2}", 2000 * i + 100, 2000 * i + 1500, i + 1),
        )
    ]


MADE: dict[str, Callable[[Path], str]] = {
    "two ranks": two_ranks,
    "sixteen ranks": many_ranks,
    "a comparison": comparison,
    "an export of 2021": before_metadata,
    "memory and metrics": memory_and_metrics,
}
KINDS = [*RECORDED, *MADE, "many"]  # the last one has more events than a page keeps, as one of millions


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_quiet_readable_and_of_one_mind(
    kind: str, tmp_path: Path, page_of: PageOf, visit: Visit
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    path = page_of(kind) if kind == "many" else tmp_path / "page.html"
    if kind in RECORDED:
        capture = open_capture(run_folder(RECORDED[kind], tmp_path))
        path.write_text(render({"x": capture}), encoding="utf-8")
    elif kind in MADE:
        path.write_text(MADE[kind](tmp_path), encoding="utf-8")
    scheme = "dark" if KINDS.index(kind) % 2 else "light"
    page = visit(path, viewport=LAPTOP, color_scheme=scheme)
    page.evaluate(READY)
    values = defaultdict(set)
    for label, key, value in page.evaluate(FIGURES):
        values[label, key].add(value)
    assert all(len(each) == 1 for each in values.values())
    assert values or kind == "no GPU work"
    for size in (PHONE, LAPTOP):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    page.evaluate(FEW_ROWS)
    violations = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in violations] == []
