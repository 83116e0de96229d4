"""The contract of every section of the page, and how a new section is added."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from tiny_export import everything, kernel, opened, row, write

from nsyswrap.api import open_capture
from nsyswrap.render.page import render, sections
from nsyswrap.render.page.html import Markup, Section, Subject, element, section
from nsyswrap.render.page.sections import SECTIONS


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
