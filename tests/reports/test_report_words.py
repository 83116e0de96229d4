"""The titles, column headers and help texts of our own tables, as far as a machine can check words."""

import importlib
import pkgutil
import re

import pytest

import nsyswrap.reports
from nsyswrap.base.units import Unit
from nsyswrap.reports import INSIGHT, NSYS, find_report
from nsyswrap.reports.table import Schema

LONGEST_TITLE, LONGEST_HEADER, LONGEST_HELP = 72, 20, 200
LOWER = {"and", "by", "nsys", "of"}
# Columns of one name for different quantities: a sum over a run, and a part of a gap; or beside Avg and P95;
# all communication, and what no compute hides; waiting that costs, and what launches expose.
OF_TWO_KINDS = {"communication_ns", "copy_ns", "exposed_ns", "graph_ns", "idle_ns", "launch_ns"}
OF_TWO_KINDS |= {"med_ns", "own_ns"}


def schemas() -> dict[str, Schema]:
    """Return the schemas of our own tables by name: the insight reports, and those that modules define."""
    found = {name: find_report(name).schema for name in INSIGHT}
    for info in pkgutil.walk_packages(nsyswrap.reports.__path__, "nsyswrap.reports."):
        values = vars(importlib.import_module(info.name)).values()
        found |= {value.name: value for value in values if isinstance(value, Schema)}
    return {name: schema for name, schema in found.items() if name not in NSYS}


SCHEMAS = schemas()
COLUMNS = [(schema, column) for schema in SCHEMAS.values() for column in schema.columns]


def test_every_kind_of_table_is_read() -> None:
    assert {*INSIGHT, "rank_skew", "rank_steps", "rank_waiting", "scenario_runs", "cross_check"} <= {*SCHEMAS}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_title_is_short_and_begins_with_a_capital(name: str) -> None:
    title = SCHEMAS[name].title
    assert len(title) <= LONGEST_TITLE
    assert title[0].isupper()
    assert not re.search(r"\b[Ww](hat|ho|hether)\b|[.:;,]$|  ", title)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_columns_of_a_table_have_different_headers(name: str) -> None:
    headers = [(column.header, column.unit) for column in SCHEMAS[name].columns]
    assert len({*headers}) == len(headers)


def test_a_header_is_short_and_in_title_case() -> None:
    for _, column in COLUMNS:
        assert len(column.header) <= LONGEST_HEADER, column.header
        assert column.header == column.header.strip()
        for word in re.findall(r"[A-Za-z]+", column.header):
            assert word[0].isupper() or word in LOWER, column.header


def test_a_column_has_the_same_header_in_every_table() -> None:
    headers: dict[str, set[str]] = {}
    for _, column in COLUMNS:
        headers.setdefault(column.name, set()).add(column.header)
    assert {name for name, names in headers.items() if len(names) > 1} == OF_TWO_KINDS


def test_a_help_text_is_a_phrase_without_a_full_stop() -> None:
    for schema, column in COLUMNS:
        where = f"{schema.name}.{column.name}: {column.help}"
        assert 0 < len(column.help) <= LONGEST_HELP, where
        assert not re.search(r"[.:;,]$|  |^[A-Z][a-z]", column.help) or column.help.startswith("PyTorch"), (
            where
        )


def test_no_unit_stands_in_a_header() -> None:
    for _, column in COLUMNS:
        assert column.unit is Unit.TEXT or not re.search(r"\(|%", column.header), column.header
