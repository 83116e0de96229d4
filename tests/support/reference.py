"""Write the pages and blocks of the documentation that come from the code.

    python tests/support/reference.py

It writes docs/options.md, docs/reports.md, docs/scenarios.md, the keys of [nsys] in docs/batch.md, and each
block of output that stands right below a command in README.md and docs/. tests/test_docs.py fails where one
of them is not up to date.
"""

import ast
import importlib
import io
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import click

from nsyswrap.base.units import Unit, csv_label
from nsyswrap.capture.schema import EVENTS
from nsyswrap.cli import cli, main
from nsyswrap.record.batch.plan.toml_table import NSYS as NSYS_KEYS
from nsyswrap.render.formats.text import heading
from nsyswrap.reports import INSIGHT, NSYS, find_report, module, ranks
from nsyswrap.reports.ranks import RankReport
from nsyswrap.reports.table import Column, Report
from nsyswrap.reports.wording.advice import WORDINGS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PACKAGE = ROOT / "nsyswrap"
COMMAND = "python tests/support/reference.py"
MORE = "[...]"  # the last line of a block that shows the beginning of an output
# A terminal of 80 columns with UTF-8 and no color, and no settings of the user
_TERMINAL = {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "XDG_CONFIG_HOME": os.devnull}
_SHOWN = re.compile(r"```sh\n(?P<command>nsyswrap [^\n]*)\n```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
_FINDINGS = re.compile(r"(?<=<!-- written by tests/support/reference.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
_PLAN_KEYS = re.compile(r"(?m)^(\| `\[nsys\]` \| )`.*$")
_SENTENCE_END = re.compile(r"(?<=[\w)`])\. (?=[A-Z`])")
_CODE = re.compile(r"(`+[^`]*`+)")
_GROUPS = (
    ("The reports of nsys", NSYS, "They equal `nsys stats --format csv` cell by cell."),
    ("The reports of nsyswrap", INSIGHT, "Their values are not rounded."),
    ("Reports over ranks", ranks.NAMES, "They need [`nsyswrap report --by rank`](batch.md#many-ranks)."),
)


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


def run(command: str, folder: Path = ROOT) -> Done:
    """Run a command line of nsyswrap in this process, in the same way on every machine."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = 0
    before = Path.cwd()
    os.chdir(folder)
    recorded = mock.patch("nsyswrap.cli.demo._lacks", return_value=["the documentation shows it as recorded"])
    try:
        with redirect_stdout(out), redirect_stderr(err), recorded, mock.patch.dict(os.environ, _TERMINAL):
            main(shlex.split(command, comments=True)[1:])
    except SystemExit as end:
        code = end.code
    finally:
        os.chdir(before)
    return Done(int(str(code or 0)), _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def options_page() -> str:
    """Return docs/options.md: the help of every command that is not hidden."""
    context = click.Context(cli, info_name="nsyswrap")
    return "\n".join(
        [
            "# Commands and options\n",
            "All commands with their options, as `nsyswrap COMMAND --help` or `--help-all` prints them.",
            f"`{COMMAND}` writes this page from the code.\n",
            *_helps(cli, context),
        ]
    )


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those of its sub-commands."""
    option = "--help-all" if getattr(command, "has_rare", False) else "--help"
    shown = run(f"{context.command_path} {option}").stdout.rstrip()
    yield f"## {context.command_path}\n\n```text\n{shown}\n```\n"
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner and not inner.hidden:
            yield from _helps(inner, click.Context(inner, parent=context, info_name=name))


def reports_page() -> str:
    """Return docs/reports.md: every report with its columns, and the events that it needs."""
    lines = [
        "# Reports",
        "",
        "All reports with their columns and the events that they need.",
        f"`{COMMAND}` writes this page from the code. `nsyswrap report --explain NAME` prints one report.",
        "`nsyswrap report CAPTURE --list` says which of them a capture can answer.",
    ]
    for group, names, remark in _GROUPS:
        rows = [(f"[`{name}`](#{name})", _escaped(_found(name).schema.title)) for name in names]
        lines += ["", f"## {group}", "", remark, "", *_table(("report", "title"), rows)]
    for group, names, _ in _GROUPS:
        lines += ["", f"## {group}, column by column"]
        for name in names:
            lines += ["", f"### {name}", "", *_about(name)]
    return "\n".join(lines) + "\n"


def _found(name: str) -> Report | RankReport:
    return ranks.find_rank_report(name) if name in ranks.NAMES else find_report(name)


def _about(name: str) -> Iterator[str]:
    """Yield the lines about one report: what it answers, what it needs and takes, its columns."""
    report = _found(name)
    home = importlib.import_module(f"nsyswrap.reports.ranks.{name}") if name in ranks.NAMES else module(name)
    yield f"**{_escaped(report.schema.title)}**"
    yield ""
    yield _escaped((home.__doc__ or "").strip())
    facts = [*_needs(report.needs), *_options(report)]
    if facts:
        yield ""
        yield from (f"- {fact}" for fact in facts)
    yield ""
    rows = [_column_row(column, parity=name in NSYS) for column in report.schema.columns]
    names = ("nsys' CSV", "JSON, Python") if name in NSYS else ("screen", "CSV, JSON, Python")
    yield from _table((*names, "unit", "meaning"), rows)


def syntax_trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each file of the package. All take seconds, and 140 MB."""
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def public_classes(trees: Mapping[str, ast.Module]) -> list[tuple[str, str, str]]:
    """Return name, file and first sentence of the docstring of each public class, by name."""
    classes = [
        (node.name, path, (ast.get_docstring(node) or "").partition("\n\n")[0])
        for path, module in trees.items()
        for node in module.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    return sorted((name, path, _first_sentence(text)) for name, path, text in classes)


def _first_sentence(text: str) -> str:
    words = " ".join(text.replace("``", "`").split())
    return _SENTENCE_END.split(words, maxsplit=1)[0].rstrip(".")


def glossary_page() -> str:
    """Return docs/glossary.md: the noun of each public class, what it is, and where it stands."""
    rows = [
        (
            re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower(),
            f"`{name}`, `{path}`",
            _escaped(text),
        )
        for name, path, text in public_classes(syntax_trees())
    ]
    return "\n".join(
        [
            "# Glossary\n",
            "The nouns of the code, for its readers: each noun has one class.",
            "[Findings](findings.md) explains the words of the screen.",
            f"`{COMMAND}` writes this page from the docstrings.\n",
            *_table(("noun", "class in `nsyswrap/`", "what it is"), rows),
            "",
        ]
    )


def _needs(groups: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for group in groups:
        kinds = [EVENTS[kind] for kind in group]
        yield f"Needs {' or '.join(kind.title for kind in kinds)}: `{kinds[0].collect}`"


def _options(report: Report | RankReport) -> Iterator[str]:
    """Yield the options that a report takes after its name."""
    if qualifiers := getattr(report, "qualifiers", ()):
        yield f"Takes {', '.join(f'`:{qualifier}`' for qualifier in qualifiers)}"
    for option in getattr(report, "options", ()):
        yield _escaped(f"Takes `:{option.name}=N`: {option.help}; {option.default} by default")


def _column_row(column: Column, *, parity: bool) -> tuple[str, ...]:
    header = column.header.strip() + csv_label(column.unit, "ns") if parity else heading(column)
    era = f"; only with `--rounding {column.era}`" if column.era else ""
    unit = "" if column.unit in (Unit.TEXT, Unit.NUMBER) else column.unit.value.replace("_per_", "/")
    return _escaped(header), f"`{column.name}`", unit, _escaped(column.help) + era


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _escaped(text: str) -> str:
    """Return text whose characters Markdown would read as markup are escaped, outside of code."""
    parts = _CODE.split(text)
    return "".join(
        part if number % 2 else re.sub(r"([*<|\[\]])", r"\\\1", part) for number, part in enumerate(parts)
    )


def with_outputs(page: str) -> str:
    """Return the page with the tables that are written, and the output of each command with a block below."""
    page = _PLAN_KEYS.sub(lambda row: f"{row[1]}{' '.join(f'`{key}`' for key in NSYS_KEYS)} |", page)
    return _SHOWN.sub(_renewed, _FINDINGS.sub(lambda _: _findings(), page))


def _findings() -> str:
    """Return a row for each finding of the advice. Idle time without a finding of its own has none."""
    rows = (
        (f"`{kind}`", _escaped(text.heading or text.sentence), _escaped(text.do), _escaped(text.unless))
        for kind, text in WORDINGS.items()
        if text.do and not kind.startswith("idle_")
    )
    table = _table(("finding", "on the screen", "what to do", "wrong if"), rows)
    return "\n".join(["", *table, "", ""])


def _renewed(block: re.Match[str]) -> str:
    """Return a command and its output, cut to as many lines as before if it ended in [...]."""
    done = run(block["command"])
    if done.code:
        raise SystemExit(f"{block['command']}: {done.stderr}")
    *lines, last = block["output"].splitlines() or [""]
    output = done.stdout.rstrip("\n")
    if last == MORE:
        output = "\n".join([*output.splitlines()[: len(lines)], MORE])
    return f"```sh\n{block['command']}\n```\n\n```text\n{output}\n```"


def pages() -> list[Path]:
    """Return README.md and every page in docs/."""
    return [README, *sorted(DOCS.glob("*.md"))]


# Pages that are written whole, and the functions that return them
WRITTEN = {
    DOCS / "glossary.md": glossary_page,
    DOCS / "options.md": options_page,
    DOCS / "reports.md": reports_page,
}


def write() -> None:
    """Write all of it into this checkout."""
    import scenario_page  # noqa: PLC0415 - reads every recorded run, which the tests of other pages need not

    scenario_page.write()
    for path, page in WRITTEN.items():
        path.write_text(page(), encoding="utf-8")
    for path in pages():
        path.write_text(with_outputs(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
