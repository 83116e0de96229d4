"""Pages of a selection, and the reasons that replace empty sections."""

import re
from html import unescape
from pathlib import Path

import pytest
from conftest import Cli
from recorded import SHIPPED, run_folder
from tiny_export import PID, Row, call, diagnostic, global_id, kernel, memcpy, memset, nvtx, opened, row

from nsyswrap.analysis.ranks.members import processes
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.render.page import render, render_ranks
from nsyswrap.reports.summary import summarize

pytestmark = pytest.mark.slow

ADD2 = SHIPPED / "add2" / "both"
PARTS = {
    ("--time", "2.67s/2.675s"): "time 2.67s/2.675s",
    ("--time", "2.67s/2.675s", "--clip", "yes"): "time 2.67s/2.675s",
    ("--nvtx", "both/cuda/3"): "NVTX range 'both/cuda': instance 3 of 10",
    ("--nvtx", "both/cuda"): "NVTX range 'both/cuda': all 10 instances",
    ("--device", "0"): "device 0",
}


def text_of(markup: str) -> str:
    return unescape(re.sub(r"\s*<[^>]*>\s*", " ", markup))


@pytest.mark.parametrize(
    ("captures", "title"), [("abc", "a · b · c"), ("abcde", "a, b, c and 2 more")], ids=["three", "five"]
)
def test_the_title_names_three_captures(captures: str, title: str, tmp_path: Path) -> None:
    page = render(dict.fromkeys(captures, opened(tmp_path, kernel("k", 0, 9))))
    assert f"<title>{title} · nsyswrap</title>" in page


@pytest.mark.parametrize("asked", PARTS, ids=" ".join)
def test_title_card_and_stderr_say_which_part_it_is(asked: tuple[str, ...], tmp_path: Path, cli: Cli) -> None:
    done = cli("view", ADD2, *asked)
    assert (done.returncode, done.stderr) == (0, f"nsyswrap: selected: {PARTS[asked]}\nwrote both.html\n")
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert f"<title>both ({PARTS[asked]}) · nsyswrap</title>" in page
    assert f"<h1>both ({PARTS[asked]})</h1>" in page
    assert f'<p class="warning">selected: {PARTS[asked]}</p>' in page


# The launches of the first two lie before the window, the first kernel ends where it begins: nsys counts it.
# k[100,200)   k[150 ..... 250)   k[300 ... 320)          window [200, 310)
@pytest.mark.parametrize(("time", "nvtx_name"), [("200ns/310ns", ""), ("", "step")])
def test_a_page_of_a_part_counts_the_same_kernels_everywhere(
    time: str, nvtx_name: str, tmp_path: Path
) -> None:
    rows = [nvtx("step", 200, 260), nvtx("step", 240, 310), nvtx("outside", 0, 400)]
    rows += [kernel("k", *times, i) for i, times in enumerate(((100, 200), (150, 250), (300, 320)), 1)]
    rows += [call("cudaLaunchKernel", start, start + 5, i) for i, start in enumerate((80, 130, 280), 1)]
    page = render({"x": opened(tmp_path, *rows).select(time=time, nvtx=nvtx_name)})
    assert '<p class="trust">2 kernels; ' in page
    assert (
        cells(page, "cuda_gpu_kern_sum", "instances") == cells(page, "kernel_class_sum", "instances") == ["2"]
    )
    assert (
        cells(page, "cuda_gpu_kern_sum", "total_ns") == cells(page, "kernel_class_sum", "total_ns") == ["60"]
    )
    assert cells(page, "timeline", "events")[0] == "2"  # the stream


def cells(page: str, report: str, column: str) -> list[str]:
    """The values of a column in the page's table of a report; empty if the page does not have it."""
    found = re.search(rf'<table data-report="{report}">(.*?)</table>', page)
    if not found:
        return []
    names = re.findall(r'<th [^>]*data-name="([^"]*)"', found[1])
    lines = re.findall(r"<tr>(<td.*?)</tr>", found[1])
    return [re.findall(r'<td[^>]*?(?: data-value="([^"]*)")?>', line)[names.index(column)] for line in lines]


def test_ranks_of_one_capture_share_the_part_and_the_window(tmp_path: Path) -> None:
    rows = [kernel("k", begin, begin + 100, 1, pid=pid) for pid, begin in ((100, 1000), (200, 5000))]
    part = opened(tmp_path, *rows).select(time="1us/9us")
    page = render_ranks("job", processes(part))
    assert "<title>job: 2 ranks (time 0.000001s/0.000009s) · nsyswrap</title>" in page
    assert re.findall(r'"origin":(\d+),"length":(\d+)', page) == [("1000", "8000")] * 2  # the selected time
    assert re.findall(r'"gpu":\[(\d+),(\d+)\]', page) == [("0", "100"), ("4000", "4100")]


def test_captures_of_their_own_have_windows_of_their_own(tmp_path: Path) -> None:
    for name, begin in (("x", 1000), ("y", 5000)):
        (tmp_path / name).mkdir()
        opened(tmp_path / name, kernel("k", begin, begin + 100, 1))
    captures = {name: open_capture(next((tmp_path / name).glob("*.sqlite"))) for name in ("x", "y")}
    assert re.findall(r'"origin":(\d+),"length":(\d+)', render(captures)) == [
        ("1000", "100"),
        ("5000", "100"),
    ]


def test_a_part_that_holds_nothing_is_no_capture_that_holds_nothing(tmp_path: Path) -> None:
    rows = (call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 20, 1), nvtx("step", 0, 9))
    page = text_of(render({"x": opened(tmp_path, *rows).select(time="1s/2s")}))
    assert "No event with a start and an end was recorded in the selection." in page
    assert "No GPU work in the selection" in page
    assert page.count(" No events in the selection.") == 2  # kernels, idle time
    assert "none found" not in page


def test_the_page_begins_with_the_answer(tmp_path: Path) -> None:
    rows = [call("cudaLaunchKernel", 100 * i, 100 * i + 10, i) for i in range(10)]
    rows += [kernel("k", 100 * i + 10, 100 * i + 50, i) for i in range(10)]
    page = render({"a": opened(tmp_path, *rows)})
    first = page[page.index("<h2") :]
    # Steps 1 to 9 from launch to launch: 40 of 100 ns busy, the last one ends with its kernel after 50 ns.
    text = re.sub(r"\s+", " ", text_of(first))
    assert "42 % busy in a step" in text
    assert "9 steps of one GPU operation, 94.4 ns each" in text
    assert first.index(" busy in a step") < first.index('id="findings"')


def test_a_page_to_send_names_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my runs"
    folder.mkdir()
    argv = (tmp_path / "train.py", f"--data={tmp_path / 'data'}", "/data")
    names = ("PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_0", "PROCESS_0:ARGUMENT_1")
    rows = [
        row("META_DATA_CAPTURE", name=name, value=str(part)) for name, part in zip(names, argv, strict=True)
    ]
    rows += [nvtx("step", 0, 9), kernel("k", 10, 20, 1), diagnostic(f"the clock of {tmp_path}/x.log jumped")]
    opened(folder, *rows, diagnostic("Dropped 12 events, see '/var/log/a b.txt' or file:/var/log/b.txt"))
    (folder / "run.json").write_text("{}")  # of a run that was killed
    (folder / "tiny.sqlite").rename(folder / "report.sqlite")
    (folder / ".recording-1").mkdir()
    (folder / ".recording-1" / "report.qdstrm").touch()
    page = render({"x": open_capture(folder)})
    assert str(tmp_path) not in page
    assert not re.search(r"(?<!<)/(tmp|data|var)\b", page)  # </data> ends a figure
    assert "is in x/.recording-1/report.qdstrm" in page
    for kept in (">train.py --data=data data<", "the clock of x.log jumped", "x holds no CUDA API calls"):
        assert kept in page


@pytest.mark.parametrize("name", ["add2/both", "copies/pinned", "nvtx/host", "p2p/staged"])
def test_a_recorded_page_names_no_folder(name: str, tmp_path: Path) -> None:
    page = render({"x": open_capture(run_folder(name, tmp_path))})  # nsys names its own log files
    markup = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    assert re.findall(r"""(?:^|[\s"'>=(:])/\w[\w.-]*/[^<]{9}""", markup) == []


def test_a_verdict_that_is_not_there_says_what_was_not_collected(tmp_path: Path) -> None:
    without_calls = opened(tmp_path, nvtx("step", 0, 9), kernel("k", 0, 5))
    assert (
        "holds no CUDA API calls; none occurred, or they were not collected "
        "(collect with nsyswrap profile --trace cuda,nvtx)." in audit(without_calls)
    )
    (tmp_path / "calls").mkdir()
    assert (
        "holds no NVTX events; none occurred, or they were not collected "
        "(collect with nsyswrap profile --trace cuda,nvtx)."
        in audit(opened(tmp_path / "calls", call("cudaFree", 0, 9), kernel("k", 10, 20, 1)))
    )


def audit(capture: CaptureReader) -> str:
    found = re.search(r'<section id="program"(.*?)</section>', render({"x": capture}))
    assert found
    return text_of(found[1])


def test_the_button_for_gpu_work_is_of_no_use_where_there_is_none(tmp_path: Path) -> None:
    button = re.compile('<button type="button" data-action="gpu"( disabled)?')
    assert button.findall(render({"x": opened(tmp_path, nvtx("step", 0, 9))})) == [" disabled"]
    (tmp_path / "gpu").mkdir()
    assert button.findall(render({"x": opened(tmp_path / "gpu", kernel("k", 0, 9, 1))})) == [""]


def test_a_gpu_that_never_idled_is_said_to_have(tmp_path: Path) -> None:
    page = render({"x": opened(tmp_path, kernel("k", 10, 20, 1))})
    idle = text_of(page[page.index('<section id="idle"') : page.index('<section id="latency"')])
    assert "No idle gaps: the GPU was busy from the first operation to the last." in idle
    assert "longest gaps" not in idle


def test_of_several_devices_each_has_its_figure(tmp_path: Path) -> None:
    capture = open_capture(run_folder("ddp/straggler", tmp_path))
    table = capture.report("gpu_time")
    shares = [repr(share) for share in table.data["utilisation_percent"].tolist()]  # type: ignore[union-attr]
    assert cells(render({"x": capture}), "gpu_time", "utilisation_percent") == shares


def test_of_a_device_that_several_processes_used_the_whole_is_told(tmp_path: Path) -> None:
    rows = [kernel("k", begin, begin + 40, 1, pid=pid) for pid, begin in ((100, 0), (200, 60))]
    page = render({"x": opened(tmp_path, *rows, memcpy(1, 0, 50, 8, deviceId=1))})
    devices, shares = (cells(page, "gpu_time", name) for name in ("device_id", "utilisation_percent"))
    assert dict(zip(devices[::-1], shares[::-1], strict=True)) == {"0": "80.0", "1": "100.0"}


def test_no_paragraph_of_the_page_is_bold() -> None:
    page = render({label: open_capture(ADD2) for label in ("one", "two")})
    paragraphs = re.findall(r"<p(?: [^>]*)?>(.*?)</p>", page, re.DOTALL)
    bold = [text for text in paragraphs if "<b>" in text]
    assert len(bold) > 3  # of several captures, verdicts begin with the label in bold
    assert all(text_of(re.sub("<b>.*?</b>", "", text)).strip() for text in bold)
    rules = re.findall(r"^([^{}@]+) \{[^}]*font-weight: [67]00", page, re.MULTILINE)
    assert sorted(rules) == [".busy data", ".figures dd", ".heat th", ".labels .group", "th button"]


def test_an_answer_names_commands_only_for_what_the_page_lacks(tmp_path: Path) -> None:
    capture = open_capture(run_folder("ddp/even", tmp_path))
    options = [line.typed for line in summarize(capture).lines if line.typed]
    assert "--by rank" in options
    assert any(typed.startswith("--advice") for typed in options)
    page = render({"even": capture})
    answer = text_of(page[page.index('id="answer"') : page.index('id="findings"')])
    assert "--advice" not in answer
    assert "nsyswrap report even --by rank" in answer
    assert not re.search(r"\(-r \w+\)", text_of(page))


def test_a_section_without_a_table_does_not_name_the_report(tmp_path: Path) -> None:
    page = text_of(render({"x": opened(tmp_path, memset(0, 5, 8))}))
    assert "Not available: x holds no kernels" in page
    assert not re.search(r"(step_budget|cuda_gpu_kern_sum|timing_audit): ", page)


def test_without_gpu_work_the_answer_alone_says_why(tmp_path: Path) -> None:
    idle = opened(tmp_path, nvtx("a", 0, 5))
    page = render({"x": idle})
    assert re.findall(r'<section id="(\w+)"', page) == ["answer", "timeline", "program"]
    assert "No GPU work" in text_of(page)
    assert not re.search("Not available|No figures|No findings", page)
    (tmp_path / "busy").mkdir()
    both = render({"x": idle, "y": opened(tmp_path / "busy", kernel("k", 0, 5))})
    assert {"kernels", "steps", "findings"} <= set(re.findall(r'<section id="(\w+)"', both))
    assert "Not available: x holds no kernels" in text_of(both)


def of_autograd(folder: Path, thread: str, *others: Row) -> str:
    """The page of a range with a kernel of 3 us, and of two kernels of 8 us that another thread launched."""
    rows = [
        row("ThreadNames", nameId=thread, priority=20, globalTid=global_id(PID, 101)),
        nvtx("forward", 0, 2000),
        *(call("cudaLaunchKernel", 100, 200, 1), kernel("gemm", 1000, 4000, 1)),
    ]
    for i in (2, 3):
        start = 10_000 * i
        rows += [call("cudaLaunchKernel", start, start + 100, i, tid=101)]
        rows += [kernel("dgrad", start + 500, start + 8500, i)]
    return render({"x": opened(folder, *rows, *others)})


def test_what_autograd_launched_outside_of_ranges_is_of_a_backward(tmp_path: Path) -> None:
    text = text_of(of_autograd(tmp_path, "pt_autograd_0"))
    assert "Module (of backward: profile --modules)" in text
    assert re.search(r"dgrad .* backward \(autograd\) +gemm .* forward ", text)
    assert "(no range): backward (autograd)" in text
    assert "launched by autograd threads, so of backward: 16.0 us" in text.replace("\N{MICRO SIGN}", "u")


def test_what_is_in_no_range_is_a_backward_if_autograd_launched_most_of_it(tmp_path: Path) -> None:
    """16 us of it are of autograd: of 31 us that is most, and of 33 us it is not."""
    for us, is_most in ((15, True), (17, False)):
        folder = tmp_path / str(us)
        folder.mkdir()
        launch = call("cudaLaunchKernel", 90_000, 90_100, 4)
        page = of_autograd(folder, "pt_autograd_0", launch, kernel("adam", 91_000, 91_000 + 1000 * us, 4))
        assert ("(no range): backward (autograd)" in page) == is_most
        assert "launched by autograd threads, so of backward: 16.0" in page


def test_what_another_thread_launched_is_not_said_to_be_of_a_backward(tmp_path: Path) -> None:
    page = of_autograd(tmp_path, "worker")
    assert "backward (autograd" not in page
    assert "(no range)" in text_of(page)


def test_a_kernel_without_a_length_has_its_module(tmp_path: Path) -> None:
    """A clock that counts in steps gives a short kernel the same start and end."""
    rows = [nvtx("forward", 0, 2000)]
    for i, (name, start, end) in enumerate((("gemm", 1000, 4000), ("empty", 5000, 5000)), 1):
        rows += [call("cudaLaunchKernel", 100 * i, 100 * i + 50, i), kernel(name, start, end, i)]
    text = text_of(render({"x": opened(tmp_path, *rows)}))
    assert re.search(r"gemm .* forward +empty .* forward ", text)


def test_a_process_whose_gpu_work_has_no_length_has_no_strip(tmp_path: Path) -> None:
    """The kernel of process 200 begins and ends in one nanosecond."""
    rows = [kernel("gemm", 10, 1010, 1, pid=100), kernel("empty", 50, 50, 2, pid=200)]
    rows += [call("cudaLaunchKernel", 0, 5, i, pid=100 * i) for i in (1, 2)]
    page = render({"x": opened(tmp_path, *rows)})
    assert "Equal parts of the time" in page
    assert not re.search("Equal parts of the time[^<]*200", page)
