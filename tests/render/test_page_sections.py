"""The contract of every section of the page, and how a new section is added."""

import importlib
import pkgutil
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conditioned import H200, MS, POWER, around, idle, recorded, sample
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from recorded import SHIPPED, run_folder
from tiny_export import (
    PID,
    Row,
    call,
    diagnostic,
    everything,
    global_id,
    kernel,
    memcpy,
    memset,
    nvtx,
    opened,
    row,
    write,
)

from nsyswrap.analysis.ranks.members import processes
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.run_facts import Conditions, Git, Host
from nsyswrap.render.page import render, render_ranks, sections
from nsyswrap.render.page.html import Markup, Section, Subject, data, element, plain, section
from nsyswrap.render.page.sections import SECTIONS
from nsyswrap.render.page.sections.summary import CONDITIONS
from nsyswrap.reports.summary import summarize


def test_every_module_is_listed_and_every_listed_one_is_there() -> None:
    modules = [
        importlib.import_module(f"{sections.__name__}.{module.name}")
        for module in pkgutil.iter_modules(sections.__path__)
    ]
    made = [value for module in modules for value in vars(module).values() if isinstance(value, Section)]
    assert sorted(map(id, made)) == sorted(map(id, SECTIONS))
    assert len({section.anchor for section in SECTIONS}) == len(SECTIONS)


@pytest.mark.parametrize("part", SECTIONS, ids=lambda part: part.anchor)
def test_it_has_its_anchor(part: Section[Subject], tmp_path: Path) -> None:
    markup = part.make(Subject({"x": open_capture(write(tmp_path / "x.sqlite", *everything()))}))
    assert markup is None or f'id="{part.anchor}"' in markup


def longest(subject: Subject) -> Markup:
    tables = subject.tables("cuda_gpu_kern_sum").values()
    return section("longest", "Longest kernel", *(element("p", table.data["name"][0]) for table in tables))


LONGEST = Section("longest", "Longest", longest)


def test_a_new_section_is_an_entry_in_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = opened(tmp_path, kernel("short", 0, 5), kernel("long", 10, 90))
    anchors = re.findall(r'<a href="#(\w+)">', render({"x": capture}))
    monkeypatch.setattr(sections, "SECTIONS", (*SECTIONS, LONGEST))
    page = render({"x": capture})
    assert re.findall(r'<a href="#(\w+)">', page) == [*anchors, "longest"]
    assert '<a href="#longest">Longest</a>' in page
    assert '<section id="longest" aria-labelledby="longest-title">' in page
    assert "<p>long</p></section>" in page


def test_a_finding_says_how_its_saving_is_known(tmp_path: Path) -> None:
    gpu = row("TARGET_INFO_GPU", id=0, name="GPU", smCount=10)
    page = render(
        {"x": opened(tmp_path, gpu, kernel("few", 0, 50_000), kernel("full", 50_000, 90_000, gridX=10))}
    )
    assert re.findall('class="stake">([^<]*)', page) == ["about 45.0 µs, 50.0 % (estimate)"]


# As in tests/analysis/test_conditions.py: 19 samples, from 1.2 s to 3.0 s.
WORK = kernel("k", 1050 * MS, 2950 * MS)
FACTS = Conditions(
    (replace(H200, mig=False, ecc=True),),
    Host("gpu07", "Xeon Platinum 8480", 64, "performance", (1.2, 3.4)),
    {"torch": "2.9.1", "cudnn": "9.10"},
    Git("0123456789abcdef", dirty=True),
)
SAMPLES = around([sample(1100 + 100 * i, 1200 + i, 680 + i, POWER if i > 10 else 0) for i in range(20)])


def markup(**captures: CaptureReader) -> str:
    made = CONDITIONS.make(Subject(captures))
    assert made is not None
    return made


def texts(html: str) -> list[str]:
    return [text for text in re.split(r"<[^>]*>", html) if text]


def test_a_card_for_the_gpu_and_lines_on_the_machine(tmp_path: Path) -> None:
    html = markup(x=recorded(tmp_path / "run", [WORK], SAMPLES, FACTS))
    assert texts(html) == [
        *("Conditions", "GPU 0 · NVIDIA H200"),
        *("SM clock", "1210 of 1980 MHz", "Memory clock", "3201 MHz", "Power", "690 of 700 W"),
        *(
            "Temperature",
            "50 °C",
            "Throttled",
            "47.4 %",
            "medians of 19 samples while it worked · MIG off · ECC on",
        ),
        *("SM clock over 4.0 s, at most 1219 MHz", "Power over 4.0 s, at most 699 W"),
        "node gpu07 · Xeon Platinum 8480, 64 cores · CPU governor performance · load 1.2 before, 3.4 after",
        "torch 2.9.1 · cudnn 9.10 · commit 0123456789ab-dirty",
    ]
    assert '<dt title="from 1201 to 1219">SM clock</dt>' in html
    assert '<dt title="power limit 47.4 %">Throttled</dt>' in html


def test_a_curve_goes_from_the_first_sample_to_the_last(tmp_path: Path) -> None:
    samples = [sample(0, 500), sample(1000, 1000), sample(2000, 750)]
    html = markup(x=recorded(tmp_path / "run", [WORK], samples, FACTS))
    assert '<polyline points="0.0,20.0 150.0,0.0 300.0,10.0">' in html  # 300 wide, 40 high, 0 at the top
    assert "too few samples while it worked" in html


def test_a_curve_of_a_long_run_has_few_points(tmp_path: Path) -> None:
    samples = [sample(100 * i, 1000 + i % 2) for i in range(10_000)]
    html = markup(x=recorded(tmp_path / "run", [WORK], samples, FACTS))
    [points, _] = re.findall(r'points="([^"]*)"', html)
    assert len(points.split()) == 300


@pytest.mark.parametrize("values", [["", ""], [0, 0], [1980]])
def test_without_values_there_is_no_curve(tmp_path: Path, values: list[object]) -> None:
    samples = [(100 * i, 0, value, "", "", "", "") for i, value in enumerate(values)]
    assert "<svg" not in markup(x=recorded(tmp_path / "run", [WORK], samples, FACTS))


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    html = markup(x=recorded(tmp_path / "run", [WORK], None, Conditions((H200,))))
    assert texts(html) == [
        "Conditions",
        "Clocks unknown: conditions.csv cannot be read: No such file or directory.",
    ]


def test_a_page_without_conditions_has_no_such_section(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything())
    assert CONDITIONS.make(Subject({"x": capture})) is None
    assert 'href="#conditions"' not in render({"x": capture})


def test_several_runs_have_their_labels(tmp_path: Path) -> None:
    without = opened(tmp_path, WORK)
    runs = {name: recorded(tmp_path / name, [WORK], [idle(0)], FACTS) for name in ("a", "b")}
    html = markup(**runs, c=without)
    assert re.findall(r"<h3>(.*?)</h3>", html) == ["'a'", "'b'"]


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\x1b[2J" + "x" * 10_000
    facts = Conditions(
        (replace(H200, name=evil),),
        Host(evil, evil, 1, evil, (1.0,) * 1000),
        {f"{evil}{i}": evil for i in range(100)},
        Git(evil, dirty=False),
    )
    html = markup(x=recorded(tmp_path / "run", [WORK], SAMPLES, facts))
    assert "<script" not in html
    assert "\x1b" not in html
    assert len(html) < 20_000


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


_VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Record tags in order, attributes and texts. Check that every element ends."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.ids += [value for key, value in attrs if key == "id" and value]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    return reader


@given(st.text(), st.text())
@pytest.mark.slow
def test_texts_and_attributes_come_back_as_they_were(text: str, value: str) -> None:
    found = read(element("p", text, data_value=value))
    assert found.text == plain(text)
    assert found.attributes == [("data-value", plain(value))]


@given(st.text())
def test_data_cannot_end_its_element(text: str) -> None:
    found = str(data({"name": text}, "x"))
    assert found.count("<") == 2
    assert found.count("</script>") == 1


def test_what_is_left_out_and_what_has_no_value() -> None:
    assert element("a", None, "x", hidden=True, title=None, open=False) == "<a hidden>x</a>"
    assert element("input", type="search") == '<input type="search">'
    assert element("p", Markup("<b>x</b>"), 3) == "<p><b>x</b>3</p>"


def test_the_page_is_well_formed_and_names_nothing_outside(tmp_path: Path) -> None:
    folders = [run_folder(name, tmp_path) for name in ("add2/both", "graphs/graph")]
    found = read(render({folder.name: open_capture(folder) for folder in folders}))
    assert len(found.ids) == len(set(found.ids))
    links = [value for key, value in found.attributes if key in ("href", "src", "action")]
    assert all(value and value.startswith(("#", "data:")) for value in links)
    assert {value[1:] for value in links if value and value.startswith("#")} <= set(found.ids)
    assert not [key for key, _ in found.attributes if key == "style" or key.startswith("on")]
