"""Figures: values agree with the reports, text fits, and odd names do no harm."""

import lzma
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from drawn import corners, drawn, steps
from made_comparison import SLOWER, comparison, pair
from made_runs import KERNELS, SETUP, MadeKernel, made_side
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from recorded import DOZEN, run_folder
from tiny_export import Row, call, everything, graph, kernel, memcpy, nvtx, opened, row

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.launches import launches_of
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.units import Unit
from nsyswrap.render.comparison import ComparisonRows
from nsyswrap.render.page.compare import compare_page
from nsyswrap.render.plots import NAMES, find_plot
from nsyswrap.render.plots.comparison import draw_comparison
from nsyswrap.render.plots.figure import Format, Sheet, content, log_axis
from nsyswrap.reports.wording.verdicts import launch_verdict

FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")
HOSTILE: tuple[str | bytes, ...] = (
    "k<$x^2$, $\\nope$>(int)",
    '<script>alert("1")</script> & {x} %s %d',
    "line\nbreak\ttab\x1b[31m\u202e \U0001f600 \u4e2d\u6587 \u0645\u0631",
    "_underscore",
    "W" * 1500,
    "",
    b"not \xff UTF-8",
)


OF_EVENTS = [name for name in NAMES if not find_plot(name).if_possible]
RECORDED = Path(__file__).parents[1] / "data" / "flops"


def recorded_capture(name: str, scratch: Path) -> CaptureReader:
    return open_capture(run_folder(name, scratch))


def everything_drawn(capture: CaptureReader) -> dict[str, Sheet]:
    made = {}
    for kind in NAMES:
        with suppress(NotInCapture):
            made[kind] = capture.plot(kind)
    return made


@pytest.mark.parametrize(
    ("data", "ends", "ticks"),
    [
        ((3.1, 870), (2, 1000), [10, 100, 1000]),
        ((2, 50), (2, 50), [2, 5, 10, 20, 50]),
        ((9.5, 10.5), (2, 50), [2, 5, 10, 20, 50]),
    ],
)
def test_logarithmic_axes_begin_and_end_at_round_numbers(
    data: tuple[float, float], ends: tuple[float, float], ticks: list[float]
) -> None:
    axes = Figure().add_subplot()
    axes.set_xlim(*data)
    log_axis(axes, "x", Unit.COUNT, "")
    assert axes.get_xlim() == pytest.approx(ends)
    assert [one for one in axes.get_xticks() if ends[0] <= one <= ends[1] * 1.001] == pytest.approx(ticks)


def test_a_pdf_has_fonts_that_printers_take(tmp_path: Path) -> None:
    pdf = content(opened(tmp_path, kernel("k", 0, 20)).plot("top-kernels"), "pdf")
    assert (pdf.count(b"/Subtype /Type3"), pdf.count(b"/FontFile2") > 0) == (0, True)


@pytest.mark.parametrize("name", DOZEN[1::3])  # kernels, ranks, ranges, queues
@pytest.mark.slow
def test_recorded_captures_draw_and_can_be_read(name: str, tmp_path: Path) -> None:
    made = everything_drawn(recorded_capture(name, tmp_path))
    assert "timeline" in made
    for kind, figure in made.items():
        shown = drawn(figure)
        assert shown.pixels.shape[1] == 800
        assert shown.cut_off() == [], kind
        assert shown.overlapping() == [], kind


def test_bars_are_as_long_as_the_kernels_take(tmp_path: Path) -> None:
    capture = recorded_capture("ddp/even", tmp_path)
    data = capture.report("cuda_gpu_kern_sum").data
    figure = capture.plot("top-kernels")
    [axes] = figure.axes
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    totals = list(data["total_ns"])[: len(bars)]
    assert [bar.get_width() for bar in bars] == totals
    pixels = drawn(figure).pixels
    lengths = [pixels_of(bar, pixels) for bar in bars[:3]]
    assert np.array(lengths) / lengths[0] == pytest.approx(np.array(totals[:3]) / totals[0], abs=0.01)


def pixels_of(bar: Rectangle, pixels: NDArray[np.uint8]) -> int:
    """Count the pixels with the color of the bar in the line through its middle."""
    box = bar.get_window_extent()
    line = pixels[round(pixels.shape[0] - (box.y0 + box.y1) / 2), :, :3]
    color = np.array(to_rgb(bar.get_facecolor())) * 255
    return int((np.abs(line - color).max(axis=1) < 2).sum())


def test_the_title_says_what_the_screen_says(tmp_path: Path) -> None:
    capture = recorded_capture("add/grid", tmp_path)
    data = capture.report("cuda_gpu_sum").data
    percent = dict(zip(data["operation"], data["time_percent"], strict=True))
    texts = drawn(capture.plot("top-kernels")).texts
    [name] = [name for name in percent if name.startswith("add")]
    assert {"add takes 64 % of the GPU time", "1.82 ms", f"{percent[name]:.1f} %", "1"} <= set(texts)


def test_copies_that_take_more_than_the_kernels_are_in_the_title(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 20), memcpy(1, 20, 100, 4096))
    texts = drawn(capture.plot("top-kernels")).texts
    assert "k takes 20 % of the GPU time, copies and memsets 80 %" in texts


def test_graphs_recorded_as_a_whole_count_as_gpu_time(tmp_path: Path) -> None:
    texts = drawn(opened(tmp_path, kernel("k", 0, 20), graph(20, 100, 1)).plot("top-kernels")).texts
    assert "k takes 20 % of the GPU time, CUDA graphs traced as a whole 80 %" in texts
    assert any(text.startswith("CUDA graphs traced as a whole (1) took 80 ns, counted") for text in texts)
    assert "20.0 %" in texts  # beside its bar


@pytest.mark.parametrize(("other_ns", "said"), [(0, "100 %"), (4, "99.6 %"), (8, "99 %"), (950, "51 %")])
def test_nearly_all_is_not_all(other_ns: int, said: str, tmp_path: Path) -> None:
    rows = [kernel("k", 0, 1000)] + [kernel("rest", 1000, 1000 + other_ns)] * (other_ns > 0)
    assert f"k takes {said} of the GPU time" in drawn(opened(tmp_path, *rows).plot("top-kernels")).texts


def launched_kernels(name: str, times: int) -> list[Row]:
    starts = range(0, 1000 * times, 1000)
    calls = [call("cudaLaunchKernel", at, at + 100, at + 1) for at in starts]
    return calls + [kernel(name, at + 200, at + 950, at + 1) for at in starts]


@pytest.mark.slow
def test_captures_without_repeated_launches_are_not_judged(tmp_path: Path) -> None:
    made = {}
    for name, times in (("once", 1), ("also once", 1), ("thrice", 3)):
        (tmp_path / name).mkdir()
        made[name] = opened(tmp_path / name, *launched_kernels("k", times))
    # Both repeat launches wait 200 ns on an idle GPU, of the 2750 ns from the first kernel to the last.
    idle = "1 capture: launch latency left the GPU idle for 14.5 % of the time judged"
    for chosen, title in (
        (["once"], "No repeated launches: 1 first launch, call 100 ns"),
        (["once", "also once"], "No repeated launches in any of 2 captures"),
        (["once", "thrice"], f"{idle} (1 more has no repeated launches)"),
        (list(made), f"{idle} (2 more have no repeated launches)"),
    ):
        assert title in drawn(find_plot("launch").draw({name: made[name] for name in chosen})).texts
    two = opened(
        tmp_path,
        *launched_kernels("k", 1),
        call("cudaLaunchKernel", 5000, 5300, 7777),
        kernel("l", 5400, 5500, 7777),
    )
    assert "No repeated launches: 2 first launches, median call 200 ns" in drawn(two.plot("launch")).texts


@pytest.mark.slow
def test_captures_stand_side_by_side(tmp_path: Path) -> None:
    captures = {name: recorded_capture(name, tmp_path) for name in ("gelu/torch", "gelu/compile")}
    figure = find_plot("top-kernels").draw(captures)
    [axes] = figure.axes
    widths = {patch.get_width() for patch in axes.patches if isinstance(patch, Rectangle)}
    totals = [total for c in captures.values() for total in c.report("cuda_gpu_kern_sum").data["total_ns"]]
    assert widths == set(totals)
    texts = drawn(figure).texts
    assert {*captures, " not in this capture"} <= set(texts)
    for kind in OF_EVENTS:
        shown = drawn(find_plot(kind).draw(captures))
        assert (shown.cut_off(), shown.overlapping()) == ([], []), kind
        assert any("2 captures" in text for text in shown.texts), kind


def test_a_picture_names_its_program(tmp_path: Path) -> None:
    capture, other = (recorded_capture(name, tmp_path) for name in ("cdist/mm", "gelu/torch"))
    program, second = "cdist.py", "gelu.py"
    alike = drawn(find_plot("timeline").draw({"a": capture, "b": capture})).texts
    assert {"a", "b", program} <= set(alike)
    apart = drawn(find_plot("timeline").draw({"a": capture, "b": other})).texts
    assert {f"{program} (a)", f"{second} (b)"} <= set(apart)
    assert program not in apart


# The recording of the second rank starts later; its call is 200 ns after that.
@pytest.mark.parametrize(
    ("started", "lengths", "second"),
    [(100, (1300, 1300), 300), (4000, (1000, 1000), 0)],
    ids=["at once", "one after the other"],
)
def test_captures_of_one_time_are_drawn_on_one_clock(
    started: int, lengths: tuple[int, int], second: int, tmp_path: Path
) -> None:
    ranks = {}
    for number, since in enumerate((5000, 5000 + started)):
        (tmp_path / f"{number}").mkdir()
        at = 200 * number
        session = row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=since)
        rows = [call("cudaLaunchKernel", at, at + 50, 1), kernel("k", at + 100, at + 1000, 1)]
        ranks[f"{number}"] = opened(tmp_path / f"{number}", session, *rows)
    figure = find_plot("timeline").draw(ranks)
    assert tuple(axes.get_xlim()[1] for axes in figure.axes) == lengths
    begins = [min(part.edges[:-1][part.heights > 0][0] for part in steps(axes)) for axes in figure.axes]
    assert begins == [0, second]
    texts = drawn(figure).texts
    assert any("the captures share one clock" in text for text in texts) == bool(second)
    assert ("time of the first capture (µs)" in texts) == bool(second)


def test_kernels_stand_under_the_roofs_of_their_gpu(tmp_path: Path) -> None:
    """Products of bf16 and the attention of a GPT; TF32 and FP32 of ResNet-50."""
    captures = {}
    for name in ("gpt", "resnet"):
        packed = (RECORDED / f"{name}.sqlite.xz").read_bytes()
        (tmp_path / f"{name}.sqlite").write_bytes(lzma.decompress(packed))
        captures[name] = open_capture(tmp_path / f"{name}.sqlite")
    plot = find_plot("roofline")
    gpt = plot.compute(captures["gpt"])
    assert set(gpt.classes) == {"gemm", "attention"}
    assert list(gpt.roofs) == ["bf16, f16"]
    assert (gpt.flop_per_s < gpt.roofs["bf16, f16"]).all()
    assert list(plot.compute(captures["resnet"]).roofs) == ["tf32", "f32"]
    figure = plot.draw(captures)
    shown = drawn(figure)
    assert (shown.cut_off(), shown.overlapping()) == ([], [])
    assert any("2 captures" in text for text in shown.texts)
    # Not as SVG: matplotlib 3.11 gave the markers of a scatter other ids once.
    assert content(plot.draw(captures), "png") == content(plot.draw(captures), "png")
    selected = captures["gpt"].select(time="0s/1s")
    assert any("selected: time" in text for text in drawn(selected.plot("roofline")).texts)
    with pytest.raises(NotInCapture, match="floating-point operations"):
        opened(tmp_path, kernel("k", 0, 20)).plot("roofline")


def test_the_title_of_a_histogram_counts_the_captures_with_its_kernel(tmp_path: Path) -> None:
    captures = {}
    for name, end in (("first", 90), ("other", 50)):
        folder = tmp_path / name
        folder.mkdir()
        captures[name] = opened(folder, *(kernel(name, 100 * i, 100 * i + end) for i in range(3)))
    plot = find_plot("histogram")
    assert any(text.endswith(" in 1 of 2 captures") for text in drawn(plot.draw(captures)).texts)
    both = {"a": captures["first"], "b": captures["first"]}
    assert any(text.endswith(" in 2 captures") for text in drawn(plot.draw(both)).texts)


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    rows = [kernel(f"k{i:02}", 100 * i, 100 * i + 50 - i) for i in range(20)]
    texts = drawn(opened(tmp_path, *rows).plot("top-kernels")).texts
    assert {"k00", "k11"} <= set(texts)
    assert "k12" not in texts
    assert "not drawn: 8 more kernels, 276 ns in total" in texts


def test_launches_are_those_of_the_report(tmp_path: Path) -> None:
    capture = recorded_capture("add2/both", tmp_path)
    data = capture.report("launch_overhead").data
    figure = capture.plot("launch")
    repeat, calls, first = figure.axes
    assert all(np.size(points.get_facecolor()) == 0 for points in calls.collections)  # none hides another
    [shape] = steps(repeat)
    assert shape.heights.sum() == np.asarray(data["uncontended"])[0]
    [median] = repeat.lines
    assert {x for x, _ in corners(median)} == {np.asarray(data["latency_med_ns"])[0]}
    [shape] = steps(first)
    assert shape.heights.sum() == np.asarray(data["first_launches"])[0]
    texts = drawn(figure).texts
    assert launch_verdict(capture).partition(". Median")[0] in texts  # as in the report
    found = launches_of(capture)
    for points, mine in zip(calls.collections, (~found.first, found.first), strict=True):
        spots = np.log10(np.asarray(points.get_offsets()))
        launches = np.log10(np.stack((found.gpu_ns[mine], found.api_ns[mine]), axis=1))
        apart = np.abs(launches[:, None] - spots[None]).max(axis=2)
        assert apart.min(axis=1).max() < 0.01  # each launch has a spot: 2 % are less than a pixel
        assert apart.min(axis=0).max() < 0.01  # and each spot has a launch
    for (least, most), times in ((calls.get_xlim(), found.gpu_ns), (calls.get_ylim(), found.api_ns)):
        assert times.max() < most < times.max() ** 2 / least  # no axis is half empty


def test_copies_are_those_of_the_report(tmp_path: Path) -> None:
    capture = recorded_capture("copies/pinned", tmp_path)
    data = capture.report("memcpy_bandwidth").data
    figure = capture.plot("copies")
    [axes] = figure.axes
    lines = [line for line in axes.lines if line.get_marker() not in ("None", None)]
    assert {line.get_linestyle() for line in lines} == {"None"}  # sizes between them were not measured
    drawn_rows = {point for line in lines for point in corners(line)}
    mean = np.asarray(data["total_bytes"]) / np.asarray(data["count"])
    assert drawn_rows == set(zip(mean.tolist(), data["bandwidth_bytes_per_s"], strict=True))
    [limit] = {corners(line)[0][1] for line in axes.lines if line not in lines}
    assert limit == np.nanmax(np.asarray(data["link_bytes_per_s"]))


def test_copies_of_several_sizes_stand_where_their_sums_do(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(1, 0, 100, 8), memcpy(1, 100, 200, 8), memcpy(1, 200, 400, 2984))
    figure = capture.plot("copies")
    [line] = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", None)]
    [point] = corners(line)
    assert point == pytest.approx((1000, 3000 / 400e-9))
    assert any(text.startswith("large marker: all copies") for text in drawn(figure).texts)


def test_lanes_are_as_high_as_their_stream_is_busy(tmp_path: Path) -> None:
    rows = [kernel("gemm", 0, 6000), memcpy(1, 6000, 9000, 100), kernel("gemm", 9600, 12000, streamId=8)]
    figure = opened(tmp_path, *rows).plot("timeline")
    [axes] = figure.axes
    busy = {
        (shape.label, int(shape.base.min())): float((np.abs(shape.heights) * np.diff(shape.edges)).sum())
        for shape in steps(axes)
    }
    whole = 0.84
    assert busy == pytest.approx(
        {
            ("other products", 1): 6000 * whole,
            ("Host-to-Device", 1): 3000 * whole / 2,
            ("other products", 0): 2400 * whole,
        }
    )


def test_lanes_hold_the_time_that_reports_say(tmp_path: Path) -> None:
    capture = recorded_capture("overlap/four_streams", tmp_path).select(time="0s/1000s")
    made = find_plot("timeline").compute(capture)
    [total] = capture.report("gpu_time").data["kernel_total_ns"]
    kernels = [share for lane in made.lanes for kind, share in lane.shares.items() if "kernels" in kind.label]
    assert sum(float((share * np.diff(made.edges)).sum()) for share in kernels) == pytest.approx(total)


def test_a_short_event_is_seen_and_is_no_more_than_a_mark(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("a", 0, 10), kernel("b", 10**9 - 10, 10**9))
    [axes] = capture.plot("timeline").axes
    [(_, heights, _, _)] = steps(axes)
    assert np.flatnonzero(heights).tolist() == [0, len(heights) - 1]
    assert heights.max() == pytest.approx(0.05 * 0.84)


def test_ranges_of_some_length_are_drawn_with_their_names_by_level(tmp_path: Path) -> None:
    ranges = [
        nvtx("outer step", 0, 900_000),
        nvtx("inner part", 100_000, 400_000),
        nvtx("tiny", 500_000, 500_010),
    ]
    capture = opened(tmp_path, *ranges, kernel("k", 0, 10), kernel("k", 999_990, 1_000_000))
    shown = dict(drawn(capture.plot("timeline")).places)
    assert shown["outer step"].y0 > shown["inner part"].y1
    assert "tiny" not in shown


def test_a_million_events_are_no_more_shapes_than_a_thousand(tmp_path: Path) -> None:
    sizes = []
    for count in (1_000, 20_000):
        rows = [kernel("k", 100 * i, 100 * i + 60) for i in range(count)]
        (tmp_path / str(count)).mkdir()
        figure = opened(tmp_path / str(count), *rows).plot("timeline")
        [axes] = figure.axes
        sizes.append(sum(len(shape.heights) for shape in steps(axes)))
    assert sizes == [600, 600]


@pytest.mark.slow
def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    rows = [row("ThreadNames", nameId=HOSTILE[2], priority=1, globalTid=call("c", 0, 1).cells["globalTid"])]
    for number, name in enumerate(HOSTILE):
        start = 10_000 * number
        rows += [call("cudaLaunchKernel", start, start + 100, number + 1)]
        rows += [kernel(name, start + 200, start + 4_000, number + 1, streamId=number)]
        rows += [nvtx(name, start, start + 9_000)] if isinstance(name, str) else []
    for kind, figure in everything_drawn(opened(tmp_path, *rows)).items():
        shown = drawn(figure)
        assert shown.cut_off() == [], kind
        assert shown.overlapping() == [], kind
        for form in FORMATS:
            assert len(content(figure, form)) < 500_000


def test_names_are_shown_literally(tmp_path: Path) -> None:
    rows = [kernel(name, 100 * i, 100 * i + 50) for i, name in enumerate(HOSTILE)]
    texts = drawn(opened(tmp_path, *rows).plot("top-kernels")).texts
    assert "k<$x^2$, $\\nope$>" in "".join(texts)
    assert any(
        text.startswith(r"line\nbreak\ttab\x1b[31m\u202e \U0001f600 \u4e2d\u6587 \u0645\u0631")
        for text in texts
    )
    assert "(no name)" in texts


@pytest.mark.parametrize(
    ("kind", "form"), [*((kind, "svg") for kind in OF_EVENTS), ("timeline", "png"), ("timeline", "pdf")]
)
@pytest.mark.slow
def test_a_picture_is_the_same_each_time_whatever_the_user_has_set(
    form: Format, kind: str, tmp_path: Path
) -> None:
    capture = opened(tmp_path, *everything())
    before = content(capture.plot(kind), form)
    with mpl.rc_context(
        {"axes.facecolor": "black", "font.size": 30, "text.color": "red", "svg.hashsalt": None}
    ):
        mine = {name: mpl.rcParams[name] for name in mpl.rcParams if name != "backend"}
        assert content(capture.plot(kind), form) == before
        assert {name: mpl.rcParams[name] for name in mine} == mine


def test_a_notebook_gets_a_figure_that_shows_itself(tmp_path: Path) -> None:
    figure = opened(tmp_path, *everything()).plot("launch")
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="no plot named 'lunch'") as refused:
        find_plot("lunch")
    assert refused.value.hint == "did you mean 'launch'?"


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        ("top-kernels", "no kernels"),
        ("launch", "no kernels"),
        ("copies", "no copies"),
        ("timeline", "no GPU"),
    ],
)
def test_what_a_capture_lacks_is_said(kind: str, lacks: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, row("TARGET_INFO_GPU", id=0, name="GPU"))
    with pytest.raises(NotInCapture, match=lacks) as refused:
        capture.plot(kind)
    assert "--trace cuda,nvtx" in refused.value.hint


@pytest.mark.parametrize("kind", NAMES)
def test_nothing_selected_is_no_picture(kind: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything()).select(time="30s/31s")
    with pytest.raises(NotInCapture, match="in the selection"):
        capture.plot(kind)


def test_the_share_of_a_window_is_said_to_be_of_what_is_selected(tmp_path: Path) -> None:
    rows = [call("cudaMalloc", 0, 5), kernel("a", 0, 1000), kernel("b", 3000, 4000)]
    whole = opened(tmp_path, *rows)
    part, alone = whole.select(time="1us/6us"), whole.select(device=0)
    both = {"whole": whole, "part": part}
    for found, title in (
        ({"": whole}, "GPU 0 busy 50.0 % of the time from first to last operation"),
        ({"": alone}, "GPU 0 busy 50.0 % of the time from first to last operation"),
        ({"": part}, "GPU 0 busy 20.0 % of the time selected"),
        (
            both,
            "GPUs of 2 captures busy 20.0 % to 50.0 % of the time from first to last operation or selected",
        ),
    ):
        assert any(text.startswith(title) for text in drawn(find_plot("timeline").draw(found)).texts), title


def test_the_timeline_shows_the_steps_around_the_median_one(tmp_path: Path) -> None:
    rows = [call("cudaMalloc", 0, 5_000_000)]  # start-up
    for i in range(20):
        at = 10_000_000 + 1_000_003 * i
        rows += [
            call("cudaLaunchKernel", at, at + 10_000, i + 1),
            kernel("k", at + 20_000, at + 520_000, i + 1),
        ]
    capture = opened(tmp_path, *rows)
    made = find_plot("timeline").compute(capture)
    assert made.scope == "in steps 1 to 6 of 19 steady ones"
    assert made.edges[[0, -1]].tolist() == [10_000_000 + 1_000_003 * i for i in (1, 7)]
    figure = capture.plot("timeline")
    drawn(figure)
    [axes] = figure.axes
    shown = [tick.get_text() for tick in axes.get_xticklabels() if tick.get_text()]
    assert {"2", "4", "6"} <= set(shown)
    assert axes.get_xlabel() == "time after 0.01 s of the capture (ms)"


def test_kernels_have_readable_names_and_what_is_empty_is_not_drawn(tmp_path: Path) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, T)"
    capture = opened(tmp_path, *launched_kernels(name, 1))
    assert "elementwise add<float> \N{MULTIPLICATION SIGN}4" in drawn(capture.plot("top-kernels")).texts
    figure = capture.plot("launch")
    assert len(figure.axes) == 1 + bool(len(find_plot("launch").compute(capture).latency_ns[1]))
    assert not any(axes.get_ylabel() == "number of repeat launches" for axes in figure.axes)


def test_what_is_selected_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything()).select(time="0s/1ms")
    for kind in OF_EVENTS:
        assert any("selected: time" in text for text in drawn(capture.plot(kind)).texts), kind


def test_of_many_kinds_of_copies_the_most_frequent_are_drawn(tmp_path: Path) -> None:
    rows = [row("ENUM_CUDA_MEMCPY_OPER", id=100 + i, name=f"K{i}", label=f"K{i}") for i in range(40)]
    rows += [memcpy(100 + i, 100 * i, 100 * i + 40 + i, 8) for i in range(40)]
    rows += [memcpy(139, 10_000 + 100 * i, 10_000 + 100 * i + 50, 8) for i in range(2)]
    capture = opened(tmp_path, *rows)
    [lane] = find_plot("timeline").compute(capture).lanes
    names = [kind.label for kind in lane.shares]
    assert len(names) == 17
    assert {"K39", "other copies"} <= set(names)
    copies = find_plot("copies").compute(capture)
    assert len(copies.lines) == 24
    assert set(copies.single_copies) == {line.direction for line in copies.lines}
    assert "not drawn: 16 less used kinds of copies" in copies.notes


OTHERS = tuple(
    MadeKernel(f"void a_kernel_with_a_long_name_number_{i}<float, 128>(int)", 20.0 + i, 50) for i in range(8)
)


def test_bars_are_the_differences_and_texts_are_whole() -> None:
    base = made_side("before", kernels=(*KERNELS, *OTHERS), seed=1)
    new = made_side("after", kernels=(*KERNELS, *OTHERS), seed=2, factors={"gemm": 1.3, "long_name": 1.2})
    comparison = compare(base, new)
    figure = draw_comparison(comparison)
    bars, steps = figure.axes
    widths = [bar.get_width() for bar in bars.patches if isinstance(bar, Rectangle)]
    assert widths == [part.cost_ns for part in ComparisonRows(comparison).largest(12)]
    whole = [
        max(bar.get_x() + bar.get_width() for bar in side) for side in zip(*steps.containers, strict=True)
    ]
    assert whole == pytest.approx(
        [
            sum(pair.base_per_step_ns or 0 for pair in comparison.of("budget")),
            sum(pair.new_per_step_ns or 0 for pair in comparison.of("budget")),
        ]
    )
    shown = drawn(figure)
    assert shown.cut_off() == []
    assert shown.overlapping() == []
    assert any("▲ slower, +2" in text for text in shown.texts)


def test_without_verdicts_it_says_why() -> None:
    base = made_side("before", steps=0, seed=1)
    new = made_side("after", steps=0, seed=2, setup=replace(SETUP, driver="575.51.03"))
    shown = drawn(draw_comparison(compare(base, new)))
    assert any("no verdicts: not comparable: driver" in text for text in shown.texts)
    assert shown.cut_off() == []


def test_causes_are_in_the_order_of_the_page() -> None:
    idle = (pair("budget", f"idle_{cause}", 3e6, 4e6) for cause in ("host", "launch"))
    work = (pair("budget", f"{kind}_kernel", time, time) for kind, time in (("gemm", 1e6), ("norm", 2e6)))
    small = (pair("budget", state, 10.0, 10.0) for state in ("memcpy", "idle_call"))
    compared = comparison(pair("step", "'s'", 9e6, 11e6), *idle, *work, *small)
    names = ["norm", "gemm", "idle: host code", "idle: launch latency", "the rest"]
    assert [cause.name for cause in ComparisonRows(compared).causes] == names
    legend = draw_comparison(compared).axes[-1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == names
    page = compare_page(compared)
    places = [page.index(f"{name} <b>") for name in names]
    assert places == sorted(places)


def test_kernels_of_one_name_have_their_grid_below_it() -> None:
    grids = ("grid 320 1 1, block 512 1 1", "grid 260 1 1, block 512 1 1")
    name = "void a_kernel_with_a_long_name_number_one<float, 128>(int)"
    figure = draw_comparison(
        comparison(*(pair("kernel", name, 1e6, 2e6, SLOWER, detail=one) for one in grids))
    )
    labels = [label.get_text().split("\n") for label in figure.axes[0].get_yticklabels()]
    assert {below for _, below in labels} == {*grids}
    assert len({above for above, _ in labels}) == 1
    assert drawn(figure).cut_off() == []


def test_a_title_without_a_verdict_is_not_said_again() -> None:
    shown = drawn(draw_comparison(compare(made_side("before", 1), made_side("after", 1, seed=2))))
    assert sum("tell noise from change" in text for text in shown.texts) == 1  # the title
    assert not any("line: interval" in text for text in shown.texts)
