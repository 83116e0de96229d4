"""The language of what people read from the analysis and the reports, as far as a machine can check it.

Read are the schemas of our own tables, and every string literal in nsyswrap/analysis and nsyswrap/reports
that is a text: it has a space, and is no docstring, pattern or SQL.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import nsyswrap.analysis
import nsyswrap.reports
from nsyswrap.base.units import Unit
from nsyswrap.reports import INSIGHT, NSYS, find_report
from nsyswrap.reports.table import Schema

LONGEST_TITLE, LONGEST_HEADER, LONGEST_HELP = 72, 20, 200
MOST_WORDS = 20  # of a sentence
LOWER = {"and", "by", "of"}
# Columns of one name for different quantities: a sum over a run, and a part of a gap; or beside Avg and P95.
OF_TWO_KINDS = {"copy_ns", "graph_ns", "launch_ns", "med_ns"}
# Words of riddles, of British spelling, and of the left column of the style guide.
BANNED = (
    *(r"\bnobody\b", r"\bsomebody\b", r"\bwho\b", r"\bbe it\b", r"\bthat is why\b", r"\bfare[ds]?\b"),
    *(
        r"\bidles\b",
        r"\bidled\b",
        r"\bin all\b(?! \w+s\b)",
        r"\bis no\b",
        r"\bthere is no\b",
        r"\bthere are none\b",
    ),
    *(
        r"\bwhat is (selected|said|left out)\b",
        r"\bthe least first\b",
        r"\bno spread\b",
    ),
    *(r"\bseen:", r"\bfills a buffer first\b", r"\bshould have been\b", r"\bone alone\b", r"\blook at\b"),
    *(r"synchronis", r"utilis", r"initialis", r"optimis", r"recognis", r"behaviour", r"colour", r"labell"),
)


def schemas() -> dict[str, Schema]:
    """Return the schemas of our own tables by name: the insight reports, and those that modules define."""
    found = {name: find_report(name).schema for name in INSIGHT}
    for info in pkgutil.walk_packages(nsyswrap.reports.__path__, "nsyswrap.reports."):
        values = vars(importlib.import_module(info.name)).values()
        found |= {value.name: value for value in values if isinstance(value, Schema)}
    return {name: schema for name, schema in found.items() if name not in NSYS}


SCHEMAS = schemas()
COLUMNS = [(schema, column) for schema in SCHEMAS.values() for column in schema.columns]


def texts() -> dict[tuple[str, int], str]:
    """Return each text by file and line, with {} for the values in it."""
    found = {}
    for package in (nsyswrap.analysis, nsyswrap.reports):
        [root] = package.__path__
        for path in sorted(Path(root).rglob("*.py")):
            tree = ast.parse(path.read_text())
            left_out = {
                id(part)
                for node in ast.walk(tree)
                if isinstance(node, (ast.JoinedStr, ast.Expr))
                for part in ast.walk(node)
                if isinstance(part, ast.Constant)
                if not (isinstance(node, ast.Expr) and part is not node.value)
            }
            for node in ast.walk(tree):
                text = literal(node) if id(node) not in left_out else ""
                if " " in text.strip() and not re.search(r"\n|\\|\(\?|\^", text):
                    found[f"{path.relative_to(Path(root).parent)}", node.lineno] = text
    return found


def literal(node: ast.AST) -> str:
    """Return the text of a string or an f-string; empty for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


TEXTS = texts()


def test_every_kind_of_table_and_text_is_read() -> None:
    assert {*INSIGHT, "rank_skew", "rank_steps", "rank_waiting", "scenario_runs", "cross_check"} <= {*SCHEMAS}
    files = {file for file, _ in TEXTS}
    assert {"analysis/advice/host.py", "analysis/launch_bound.py", "reports/answer/lines.py"} <= files


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


@pytest.mark.parametrize("pattern", BANNED)
def test_no_text_has_a_banned_phrase(pattern: str) -> None:
    assert {place: text for place, text in TEXTS.items() if re.search(pattern, text)} == {}


def test_no_text_but_a_line_of_code_has_two_spaces() -> None:
    odd = {place: text for place, text in TEXTS.items() if re.search(r"\S  +[^ #]|  $", text)}
    assert odd == {}


def test_no_sentence_is_longer_than_twenty_words() -> None:
    long = {
        (place, sentence)
        for place, text in TEXTS.items()
        for sentence in re.split(r"[.;:]\s|, (?=\d+ )", text)
        if len(re.findall(r"[A-Za-z][\w'-]*|\{\}", sentence)) > MOST_WORDS
    }
    assert long == set()
