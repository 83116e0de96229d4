"""The contract of every section of the page, and how a new section is added."""

from __future__ import annotations

import pkgutil
import re
import sys
from typing import TYPE_CHECKING

import pytest
from tiny_export import everything, kernel, opened, write

from nsyswrap.api import open_capture
from nsyswrap.render.page import render, sections
from nsyswrap.render.page.subject import Subject
from nsyswrap.reports import find_report

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.render.page.html import Section
    from nsyswrap.reports.table import Table

SECTIONS = sections.all_sections()
NEW_SECTION = """
from nsyswrap.render.page.html import Section, element, section


def longest(subject):
    tables = subject.tables("cuda_gpu_kern_sum").values()
    return section("longest", "Longest kernel", *(element("p", table.data["name"][0]) for table in tables))


SECTION = Section("longest", "Longest", longest, reads=("cuda_gpu_kern_sum",))
"""


class Asked(Subject):
    """Records the names of the reports that it is asked for."""

    names: set[str]

    def tables(self, name: str, top: int | None = None) -> dict[str, Table]:
        self.names.add(name)
        return super().tables(name, top)


def test_every_module_is_listed_and_every_listed_one_is_there() -> None:
    assert sorted(sections.NAMES) == sorted(module.name for module in pkgutil.iter_modules(sections.__path__))
    assert len({section.anchor for section in SECTIONS}) == len(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.anchor)
def test_it_says_which_reports_it_reads(section: Section[Subject], tmp_path: Path) -> None:
    subject = Asked({"x": open_capture(write(tmp_path / "x.sqlite", *everything()))})
    subject.names = set()
    markup = section.make(subject)
    assert subject.names == set(section.reads)
    for name in section.reads:
        assert find_report(name).name == name
    assert markup is None or f'id="{section.anchor}"' in markup


def test_a_new_section_is_one_module_and_its_name_in_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = opened(tmp_path, kernel("short", 0, 5), kernel("long", 10, 90))
    anchors = re.findall(r'<a href="#(\w+)">', render({"x": capture}))
    (tmp_path / "longest_kernel.py").write_text(NEW_SECTION, encoding="utf-8")
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path)])
    monkeypatch.setattr(sections, "NAMES", (*sections.NAMES, "longest_kernel"))
    try:
        page = render({"x": capture})
    finally:
        sys.modules.pop(f"{sections.__name__}.longest_kernel", None)
    assert re.findall(r'<a href="#(\w+)">', page) == [*anchors, "longest"]
    assert '<a href="#longest">Longest</a>' in page
    assert '<section id="longest" aria-labelledby="longest-title">' in page
    assert "<p>long</p></section>" in page
