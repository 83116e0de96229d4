"""A comparison on the screen and as Markdown: short at any size, and names from captures are only data."""

import pytest
from made_comparison import SLOWER, comparison, judged, kernels, pair
from markdown_it import MarkdownIt
from rich.cells import cell_len

from nsyswrap.analysis.compare.model import Comparison, Obstacle
from nsyswrap.base.text import ascii_layout
from nsyswrap.render.comparison import MOST_LINES, markdown, screen

EVIL = "k\x1b[2J|`<script>\n# big [x](y) \u202e"
STEP = pair("step", "'train'", 5_110_000.0, 5_520_000.0, judged("cannot tell", 0.99, 1.2, more_runs=4))
FIRST = """\
Slower: step 'train' 5.11 → 5.52 ms, +8.0 % (between +7.1 and +8.9 %)
Most of it: kernel add<4>, grid 1 1 1, block 32 1 1: +380 µs of +410 µs a step
Other rows: 1 slower (kernel add<4>, grid 1 1 1, block 32 1 1, +8.0 %)
base: before (5 runs)
new: after (5 runs)

Launches: 20 on both sides

Kernels, per step  kernel
Kernel  Base/Step  New/Step  Cost/Step  One Launch      Change %  Between         Verdict
add<4>    1.00 ms   1.38 ms    +380 µs  1.00 → 1.38 ms      +8.0  +7.1 to +8.9 %  slower

Times of one are geometric means over the runs, medians in rows without Between; sums are medians
all rows and columns: --format csv
"""


def large(count: int = 1000) -> Comparison:
    """A comparison with many rows in all groups, many obstacles and remarks."""
    return comparison(
        STEP,
        *(pair("step", f"other {n}", 1e6, 1e6) for n in range(20)),
        *kernels(count),
        *(pair("kernel", f"void added_{n}(float*)", None, 1e3) for n in range(count)),
        *(pair("kernel", f"void removed_{n}(float*)", 1e3, None) for n in range(count)),
        *(pair("budget", state, 1e4, 2e4, SLOWER) for state in BUDGET),
        *(pair("total", f"total {n}", 1e7, 2e7, SLOWER) for n in range(20)),
        *(pair("range", f"step/{n}", 1e4, 2e4) for n in range(count)),
        obstacles=tuple(Obstacle(f"option {n}", "x" * 5000, "y") for n in range(30)),
        remarks=tuple(f"remark {n}" for n in range(30)),
    )


BUDGET = (
    "gemm_kernel",
    "memcpy",
    "communication",
    "idle_launch",
    "idle_host",
    "idle_synchronise",
    "idle_copy",
)


def test_the_screen() -> None:
    step = pair("step", "'train'", 5_110_000.0, 5_520_000.0, SLOWER)
    kernel = pair("kernel", "void add<4>(float*)", 1e6, 1.38e6, SLOWER, detail="grid 1 1 1, block 32 1 1")
    assert screen(comparison(step, kernel), width=100) == FIRST


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    with ascii_layout(active=width == 80):
        lines = screen(large(30), width=width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert width != 80 or all(map(str.isascii, lines))


@pytest.mark.parametrize("width", [80, 100])
def test_kernels_of_one_name_are_told_apart_by_their_grids(width: int) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)"
    grids = ("1024 1 1", "65535 1 1")
    pairs = [pair("kernel", name, 1e6, 1.1e6, SLOWER, detail=f"grid {g}, block 256 1 1") for g in grids]
    rows = [line for line in screen(comparison(*pairs), width=width).splitlines() if "slower" in line]
    assert [next(g for g in grids if f" {g}, 256 1 1" in row) for row in rows[-2:]] == list(grids)


def test_the_screen_is_short() -> None:
    large_screen = screen(large(), width=100).splitlines()
    assert len(large_screen) <= 200  # more than half are obstacles and remarks
    assert large_screen[0].startswith("Besides your change")
    assert sum(line.startswith("kernel_") for line in large_screen) <= 10


def test_top_is_the_number_of_rows() -> None:
    lines = screen(comparison(STEP, *kernels(30)), width=100, top=20).splitlines()
    assert sum(line.startswith("kernel_") for line in lines) == 20


def test_markdown_has_at_most_60_lines() -> None:
    text = markdown(large())
    assert 40 < len(text.splitlines()) <= MOST_LINES == 60
    assert len(text) < 10_000
    assert "… and 2,992 more" in text
    assert "4 more runs a side would probably tell" in text


def test_markdown_keeps_names_as_they_are() -> None:
    text = markdown(
        comparison(
            pair("step", EVIL, 5e6, 6e6, SLOWER),
            pair("kernel", EVIL, 1e6, 1.9e6, SLOWER, detail=EVIL),
            pair("kernel", f"{EVIL} 2", None, 1e6),
            remarks=(EVIL,),
            obstacles=(Obstacle("command", EVIL, EVIL),),
        )
    )
    assert "\x1b" not in text
    assert "\u202e" not in text
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    assert "<script>" not in rendered
    assert "<h1>" not in rendered
    assert "<a " not in rendered
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3 + 4  # header and delimiters, and the rows: no name broke one


def test_control_characters_do_not_reach_a_terminal() -> None:
    text = screen(
        comparison(
            pair("step", EVIL, 5e6, 6e6, SLOWER),
            pair("kernel", EVIL, 1e6, 1.9e6, SLOWER, detail=EVIL),
            remarks=(EVIL,),
            obstacles=(Obstacle("command", EVIL, EVIL),),
        ),
        width=100,
        color=True,
    )
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
