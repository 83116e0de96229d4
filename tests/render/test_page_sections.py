"""What every section of the page has to keep, those to come included."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

import pytest
from tiny_export import everything, write

from nsyswrap.api import open_capture
from nsyswrap.render.page import SECTIONS, sections
from nsyswrap.render.page.subject import Subject
from nsyswrap.reports import find_report

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.render.page.html import Section
    from nsyswrap.reports.table import Table


class Asked(Subject):
    """Remembers which reports it was asked for."""

    names: set[str]

    def tables(self, name: str) -> dict[str, Table]:
        self.names.add(name)
        return super().tables(name)


def test_every_module_is_listed_and_every_listed_one_is_there() -> None:
    assert sorted(sections.NAMES) == sorted(module.name for module in pkgutil.iter_modules(sections.__path__))
    assert len({part.anchor for part in SECTIONS}) == len(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.anchor)
def test_it_says_which_reports_it_reads(section: Section, tmp_path: Path) -> None:
    subject = Asked({"x": open_capture(write(tmp_path / "x.sqlite", *everything()))})
    subject.names = set()
    markup = section.make(subject)
    assert subject.names == set(section.reads)
    for name in section.reads:
        assert find_report(name).name == name
    assert markup is None or f'id="{section.anchor}"' in markup
