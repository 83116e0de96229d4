"""The contract of every section of the page, and how a new section is added."""

import pkgutil
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conditioned import H200, MS, POWER, around, idle, recorded, sample
from hypothesis import given
from hypothesis import strategies as st
from recorded import run_folder
from tiny_export import (
    everything,
    kernel,
    opened,
    row,
    write,
)

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.run_facts import Conditions, Git, Host
from nsyswrap.render.page import render, sections
from nsyswrap.render.page.html import Markup, Section, Subject, data, element, plain, section
from nsyswrap.render.page.sections import SECTIONS
from nsyswrap.render.page.sections.summary import conditions


def test_every_module_is_listed_and_every_listed_one_is_there() -> None:
    modules = {f"{sections.__name__}.{module.name}" for module in pkgutil.iter_modules(sections.__path__)}
    assert {part.make.__module__ for part in SECTIONS} == modules
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
    made = conditions(Subject(captures))
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
    assert conditions(Subject({"x": capture})) is None
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
