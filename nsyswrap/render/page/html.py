"""Build the HTML of a page: elements, tables and charts, and the captures and reports that sections show.

All text is escaped when it is added, so no name in a capture can become a tag. The page's script sorts and
filters tables, and saves them as CSV: a cell holds the value as text for people and, if it is a number, the
unrounded value for the script.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Generic, NamedTuple, TypeVar

from nsyswrap.analysis.answer import Answer, whole_answer
from nsyswrap.analysis.judged_process import main_steps
from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.analysis.no_gpu_work import has_gpu_work
from nsyswrap.analysis.ranks.job import RankJob
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import counted, printable, shorten_all, without_folders
from nsyswrap.base.units import Unit, duration, human, moment
from nsyswrap.capture.capture import Capture
from nsyswrap.render.colors import CROSS, DOTS, GRID, HUES, LINES, STRIPES, Style
from nsyswrap.render.formats.text import heading
from nsyswrap.reports import find_report, summary
from nsyswrap.reports.figures import SentenceFigure
from nsyswrap.reports.make import MadeReports, combine
from nsyswrap.reports.table import Column, Report, Table, Values

LAUNCH_ROWS = 100  # of a table of launches
# The tables that take columns which are freed as soon as the summary is made; None: with all rows.
_TABLES = (("memcpy_bandwidth", None), ("launch_overhead", LAUNCH_ROWS), ("diagnostics", None))


# The captures of a page by label, and their reports, each made once.


def selection_text(capture: Capture) -> str:
    """Return the selection as text, with the rule for rows at its ends only if they stay whole."""
    selection = capture.view.selection
    whole = selection.windowed and selection.clip is False
    return capture.selected if whole else selection.criteria(capture.window) if selection.narrows else ""


def _without_paths(screen: summary.SummaryScreen) -> summary.SummaryScreen:
    return replace(
        screen,
        ending=without_folders(screen.ending),
        command=without_folders(screen.command),
        lines=[replace(line, sentence=without_folders(line.sentence)) for line in screen.lines],
        trust=screen.trust._replace(
            contents=without_folders(screen.trust.contents),
            remarks=[without_folders(line) for line in screen.trust.remarks],
        ),
    )


def _shareable(table: Table) -> Table:
    """Return the table without absolute paths in its sentences. Names of kernels and ranges stay."""
    data = {
        column.name: _texts(table.data[column.name])
        for column in table.columns
        if column.is_sentence or (table.schema.layout == "paragraphs" and column.unit is Unit.TEXT)
    }
    notes = tuple(map(without_folders, table.notes))
    return replace(table, data={**table.data, **data}, notes=notes, verdict=without_folders(table.verdict))


def _shareable_report(report: Report, capture: Capture, top: int | None) -> Table:
    return _shareable(report.top(top).make(capture))


def _texts(values: Values) -> list[str | None]:
    return [None if text is None else without_folders(str(text)) for text in values]


def _steady_view(capture: Capture) -> Capture:
    """Return the steady part of the process with the most GPU work, in all processes."""
    steps = main_steps(capture)
    if steps is None:
        return capture
    (start, end), spans = steps.window, steps.stretches
    selection = replace(capture.view.selection, start_ns=start, end_ns=end, clip=True)
    return capture.viewed(selection=replace(selection, spans=spans) if len(spans) > 1 else selection)


class Subject:
    """Captures, their summaries and their tables."""

    def __init__(self, captures: Mapping[str, Capture], job: RankJob | None = None) -> None:
        """Take captures by label. ``job`` has all ranks if the captures are ranks of one job."""
        # All sections show the same selection, so that their counts agree.
        self.captures = {label: capture.decided().viewed(shared=True) for label, capture in captures.items()}
        self.job = job
        self.is_part = False  # of the steady parts alone
        self.every = self  # the whole captures
        self.summaries = {
            label: _without_paths(summary.summarize(capture, alone=True, sections=_TABLES, with_gaps=True))
            for label, capture in self.captures.items()
        }
        self._reports = MadeReports()
        for label, screen in self.summaries.items():
            for table, _ in screen.tables:
                self._reports.tables.setdefault(table.label, {})[label] = _shareable(table)

    @property
    def selected(self) -> str:
        """The selection as text if all captures have the same, else empty."""
        every: Iterable[Capture] = self.captures.values()
        if self.job is not None:  # a rank may be one process of a capture
            every = [part.viewed(selection=replace(part.view.selection, processes=())) for part in every]
        parts = set(map(selection_text, every))
        return parts.pop() if len(parts) == 1 else ""

    @property
    def within(self) -> str:
        """The end of a sentence about absent events: empty, or that only a selection was searched."""
        narrow = any(capture.view.selection.narrows for capture in self.captures.values())
        return " in the selection" if narrow else ""

    def is_steady(self, label: str) -> bool:
        """Return True if the answer of a capture is about its steady part."""
        answer = self.summaries[label].answer
        return answer is not None and answer.scope == "steady part"

    def whole_answer(self, label: str) -> Answer | None:
        """Return how busy the GPU was in a whole capture; None if its answer is about that."""
        return whole_answer(self.captures[label]) if self.is_steady(label) else None

    @cached_property
    def steady(self) -> Subject | None:
        """The steady parts of the captures, whole captures where there is none; None if none has one."""
        if not any(map(self.is_steady, self.captures)):
            return None
        part = copy(self)
        part.is_part, part.every = True, self
        part.captures = {label: _steady_view(capture) for label, capture in self.captures.items()}
        part._reports = MadeReports()  # noqa: SLF001 - of this class
        return part

    def steps_shown(self, label: str) -> int:
        """Return the number of steps if what is shown of a capture is of them alone, else 0."""
        answer = self.summaries[label].answer
        return answer.steps.count if self.is_part and answer is not None and answer.steps else 0

    def kernel_names(self, label: str) -> set[str]:
        """Return the names of all kernels of a capture, of which each has one readable form on the page."""
        every = self.every.tables("cuda_gpu_kern_sum")[label]
        return {str(name) for name in every.data["name"]}

    def time_ns(self, label: str) -> int:
        """Return the time that is shown of a capture in ns, summed over devices and processes."""
        whole = None if self.is_part else self.whole_answer(label)
        answer = whole or self.summaries[label].answer
        return answer.window_ns if answer is not None else 0

    @property
    def has_gpu_work(self) -> bool:
        """True if something ran on a GPU in a capture, even outside the selection."""
        return any(map(has_gpu_work, self.captures.values()))

    @property
    def several(self) -> bool:
        """True if the page shows captures side by side."""
        return len(self.captures) > 1

    def heading(self, label: str, text: str) -> str:
        """Return a heading of one capture, with its label if there are several."""
        return f"'{label}': {text}" if self.several else text

    def tables(self, name: str, top: int | None = None) -> dict[str, Table]:
        """Return the tables of one report by label, for the captures that can answer it.

        If ``top`` rows are enough, the first use of the report says so.
        """
        report = find_report(name)
        by_label = self._reports.tables.setdefault(name, {})
        for label, capture in self.captures.items():
            if label not in {*by_label, *self._reasons(name)}:
                make = partial(_shareable_report, report, capture, top)
                self._reports.attempt(report.schema, make, capture=label)
        return {label: by_label[label] for label in self.captures if label in by_label}

    def _reasons(self, name: str) -> dict[str, str]:
        """Return why captures lack a report, without its name: the heading of the section says it."""
        return {
            part.capture: self.shareable(part.capture, part.text())
            for part in self._reports.missing
            if part.label == name
        }

    def shareable(self, label: str, text: str) -> str:
        """Return a text about a capture without absolute paths, because pages are sent to others."""
        return without_folders(text.replace(str(self.captures[label].source), label))

    def remarks(self, label: str) -> list[str]:
        """Return what readers must know about the file of a capture."""
        return [self.shareable(label, remark) for remark in self.captures[label].remarks]

    def missing(self, name: str) -> list[str]:
        """Return the reasons why captures cannot answer a report."""
        self.tables(name)
        return list(self._reasons(name).values())

    def why_empty(self, name: str, label: str) -> str:
        """Return the reason why a report of a capture has no rows."""
        table = self.tables(name).get(label)
        if table is None:
            return self._reasons(name)[label]
        return "; ".join(table.notes) or "none found"

    def table(self, name: str) -> Table | None:
        """Return one report of all captures as one table, or None if no capture can answer it."""
        return self.as_one(self.tables(name))

    def as_one(self, tables: Mapping[str, Table]) -> Table | None:
        """Combine tables into one. Several captures get a column of labels in front."""
        if not tables:
            return None
        return combine(list(tables.items())) if self.several else next(iter(tables.values()))


S = TypeVar("S")  # what a page is about
_VOID = {"br", "input", "link", "meta"}  # elements without an end tag

_BAR_HEIGHT = "22"  # in pixels
_HEIGHT = 90  # in pixels
_WIDTH = 1000  # of a strip, in its own units
_GAP = 0.1  # of a column
_LABEL_HEIGHT = 13  # in pixels, of the lengths over the columns that are cut
_LABEL = 7  # percent of the width that such a length takes at most
_MOST_TICKS = 6
_MS = 1_000_000


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


@dataclass(frozen=True)
class Section(Generic[S]):
    """A part of the page: its anchor, its name in the navigation, and the function that makes it.

    ``make`` returns None if there is nothing to show.
    ``of_gpu``: it is left out where no capture has GPU work, as the answer says why.
    ``turn``: those with a higher number are made later, as they take much memory, which others free.
    """

    anchor: str
    name: str
    make: Callable[[S], Markup | None]
    of_gpu: bool = False
    turn: int = 0


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return one element. Children that are not Markup are escaped; None is left out.

    The attribute ``data-value`` is passed as ``data_value``, and ``class`` as ``class_``. An attribute that
    is None or False is left out. An attribute that is True is written without a value.
    """
    attribute_text = "".join(
        _attribute(key.strip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Markup(f"<{name}{attribute_text}>" + ("" if name in _VOID else f"{joined(children)}</{name}>"))


def joined(children: Iterable[object]) -> Markup:
    """Concatenate children. Children that are not Markup are escaped; None is left out."""
    return Markup("".join(_child(child) for child in children if child is not None))


def plain(text: str) -> str:
    """Escape control characters, lone surrogates and characters that change the direction of text."""
    if text.isascii() and text.isprintable():
        return text
    return printable(text).encode("utf-8", "backslashreplace").decode()


def data(value: object, name: str) -> Markup:
    """Return a JSON value for the page's script. The JSON cannot close its script element."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{name}">{content}</script>')


def _child(child: object) -> str:
    return child if isinstance(child, Markup) else html.escape(plain(str(child)), quote=False)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{html.escape(plain(str(value)))}"'


def marked(text: str, figures: Sequence[SentenceFigure]) -> list[str]:
    """Return a text in parts: those that are one of these figures, in their order, with key and value.

    A figure that the text does not say is left out.
    """
    parts: list[str] = []
    for figure in figures:
        before, same, after = text.partition(figure.text)
        if same:
            parts += [before, element("data", same, value=repr(figure.value), data_figure=figure.key)]
            text = after
    return [*parts, text]


def section(name: str, title: str, *children: object) -> Markup:
    """Return a ``section`` element with a heading. ``name`` is its id."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def side_by_side(tiles: Mapping[str, Iterable[Markup | None]]) -> Markup:
    """Return a column of tiles for each capture, with its label if there are several."""
    several = len(tiles) > 1
    columns = (
        element("div", element("h3", label) if several else None, *column) for label, column in tiles.items()
    )
    return element("div", *columns, class_="tiles several" if several else "tiles")


def in_parts(steady: object, whole: object) -> Markup:
    """Return what a page shows of the steady part and of the whole capture; a switch chooses one."""
    of = (("of-whole", whole), ("of-steady", steady))
    return joined(element("div", shown, class_=name) for name, shown in of)


def both_parts(subject: Subject, make: Callable[[Subject], Iterable[Markup | None]]) -> Markup:
    """Return what ``make`` yields of the whole captures, and of their steady parts if there are any."""
    whole = joined(make(subject))
    return whole if subject.steady is None else in_parts(joined(make(subject.steady)), whole)


def note(text: str) -> Markup | None:
    """Return a note, or None for an empty text."""
    return element("p", text, class_="note") if text else None


def patch(css_class: str) -> Markup:
    """Return a small patch for a legend."""
    rectangle = element("rect", class_=css_class, width="14", height="14")
    return element("svg", rectangle, class_="swatch", aria_hidden="true")


def missing(reasons: Iterable[str]) -> Markup:
    """Return a note for each distinct reason why a report is missing."""
    return joined(note(f"Not available: {reason}.") for reason in dict.fromkeys(reasons))


def empty(subject: Subject, report: str) -> Markup:
    """Return why a report has no rows, for each capture whose table is empty."""
    tables = subject.tables(report)
    reasons = {label: subject.why_empty(report, label) for label, table in tables.items() if not len(table)}
    return joined(
        element("p", element("b", f"'{label}': ") if subject.several else None, f"{why[0].upper()}{why[1:]}.")
        for label, why in reasons.items()
    )


def verdict_paragraphs(tables: Mapping[str, Table]) -> Markup:
    """Return the verdict of each table, with the capture's label if there are several.

    No percentage is broken at the end of a line.
    """
    verdicts = {label: table.verdict.replace(" %", "\N{NO-BREAK SPACE}%") for label, table in tables.items()}
    return joined(
        element("p", element("b", f"'{label}': ") if len(tables) > 1 else None, verdict, class_="lead")
        for label, verdict in verdicts.items()
        if verdict
    )


ROWS = 400  # the most rows of a table, unless a section asks for others
_ON_PAPER = 15  # rows, as in page.css
_FILTERED = 9  # the fewest rows that get a filter
NAME_WIDTH = 70  # characters of a kernel's short name
_LONGEST_TEXT = 4_000  # characters of a cell
_DETAIL = 4  # columns of a higher drop order are hidden first


def folded_table(
    table: Table, title: str | None = None, *, top: int = ROWS, whole: str | None = None
) -> Markup:
    """Return a table of at most ``top`` rows that is hidden until a click opens it; see ``open_table``."""
    name = title or table.schema.title
    return element(
        "details",
        element("summary", "Table: ", name),
        open_table(table, name, top=top, whole=whole),
        class_="numbers",
    )


def open_table(
    table: Table, title: str | None = None, *, top: int = ROWS, whole: str | None = None
) -> Markup:
    """Return a table of at most ``top`` rows with its filter, its CSV button and its notes.

    ``whole`` is the option that gives all rows; by default the report is named.
    """
    name = title or table.schema.title
    # Text columns first: a phone shows only the first columns.
    texts = [i for i, column in enumerate(table.columns) if column.unit is Unit.TEXT]
    order = [*texts, *(i for i in range(len(table.columns)) if i not in texts)]
    columns = [table.columns[i] for i in order]
    rows = [tuple(row[i] for i in order) for row in table.rows(top)]
    cells = (
        element(
            "th",
            element("button", heading(column), type="button", title=column.help),
            scope="col",
            class_=_classes(column),
            data_name=column.name,
        )
        for column in columns
    )
    head, body = element("thead", element("tr", *cells)), _body(columns, rows)
    caption = element("caption", name, class_="unseen")
    grid = element("table", caption, head, body, data_report=table.label)
    scroller = element(
        "div", grid, class_="scroller", tabindex="0", role="region", aria_label=f"Table: {name}"
    )
    on_paper = element("p", f"On paper: {_ON_PAPER} of {len(rows):,} rows.", class_="note paper")
    return element(
        "div",
        _tools(table, name, len(rows)),
        scroller,
        on_paper if len(rows) > _ON_PAPER else None,
        *map(note, _note_texts(table, top, whole or f"-r {table.schema.name}")),
        class_="table",
    )


def _tools(table: Table, name: str, rows: int) -> Markup:
    every = len(table) + table.left_out
    field = element(
        "label", "Filter ", element("input", type="search", aria_label=f"Filter {name}", autocomplete="off")
    )
    count = element("output", counted(rows, "rows"), class_="count")
    save = element(
        "button",
        "Save CSV",
        element("span", f" of {name}", class_="unseen"),
        element("span", f" ({rows:,} of {every:,} rows)" if rows < every else "", class_="part"),
        type="button",
        class_="save",
        data_file=f"{table.label}.page.csv",
        data_rows=every,
    )
    return element("div", field if rows >= _FILTERED else None, count, save, class_="tools")


def _body(columns: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> Markup:
    names = [i for i, column in enumerate(columns) if column.kernels]
    readable = distinct_names({str(row[i]) for row in rows for i in names if row[i] is not None})
    shortened = dict(zip(readable, shorten_all(list(readable.values()), NAME_WIDTH), strict=True))
    cells = ([_cell(*pair, shortened) for pair in zip(columns, row, strict=True)] for row in rows)
    return element("tbody", *(element("tr", *row) for row in cells))


def _cell(column: Column, value: object, shortened: Mapping[str, str]) -> Markup:
    kind = _classes(column)
    if column.unit is not Unit.TEXT:
        text = moment(value) if column.is_timestamp else human(value, column.unit)
        is_more = column.signed and isinstance(value, (int, float)) and value > 0 and text.strip("0.")
        text = f"+{text}" if is_more else text
        return element("td", text, class_=kind, data_value="" if value is None else repr(value))
    if value is None:
        return element("td", "-", class_=kind, data_value="")
    if column.kernels:
        return element("td", kernel_name(str(value), shortened[str(value)]), class_=kind)
    return element("td", clipped(str(value), _LONGEST_TEXT), class_=kind)


def kernel_name(name: str, short_name: str) -> Markup:
    """Return the short name of a kernel, which a click opens to the full name."""
    copy = element("button", "Copy", type="button", class_="copy", aria_label="Copy the full name")
    whole = element("code", clipped(name, _LONGEST_TEXT))
    return element("details", element("summary", element("bdi", short_name)), whole, " ", copy, class_="name")


def clipped(text: str, length: int) -> str:
    """Return the first ``length`` characters of a text, with an ellipsis if it is longer."""
    return text if len(text) <= length else f"{text[:length]}…"


def _classes(column: Column) -> str:
    kind = "text" if column.unit is Unit.TEXT else "figure"
    if column.drop_order > _DETAIL:
        return f"{kind} detail"
    return f"{kind} aside" if column.drop_order else kind


def _note_texts(table: Table, top: int, whole: str) -> Iterator[str]:
    if not len(table) and not table.notes:
        yield "No rows: none found."
    if (more := len(table) + table.left_out - top) > 0:
        yield f"{counted(more, 'more rows')}: {whole}"
    if table.selection:
        yield f"Selected: {table.selection}"
    yield from table.notes


# Draw charts as SVG: the styles of `render.colors`, bars, and columns side by side.
#
# Widths are percentages, so that a chart fits any screen. Axes are linear and begin at 0.


def hue_rules() -> str:
    """Return the CSS of the hues on a light and on a dark ground. Paper is light."""
    light, dark = (
        "".join(f"--hue-{number}:{hue[ground]};" for number, hue in enumerate(HUES)) for ground in (0, 1)
    )
    fills = "".join(f".hue-{number}{{fill:var(--hue-{number})}}" for number in range(len(HUES)))
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root:not(.printed){{{dark}}}}}\n{fills}\n"


def swatch(style: Style | None) -> Markup:
    """Return a small patch in this style, for a legend; None is pale."""
    return element("svg", *filled(style, x="0", width="14", height="14"), class_="swatch", aria_hidden="true")


def filled(style: Style | None, **attributes: str) -> list[Markup]:
    """Return SVG rectangles in this style: the hue, and the texture over it. None is pale.

    ``attributes`` has the attributes of the rectangle: x, y, width and height.
    """
    if style is None:
        return [element("rect", class_="pale", **attributes)]
    parts = [element("rect", class_=f"hue-{style.hue}", **attributes)]
    if style.texture:
        parts.append(element("rect", fill=f"url(#texture-{style.texture})", **attributes))
    return parts


def textures() -> Markup:
    """Return the SVG patterns that filled rectangles refer to. A page needs them once."""
    stripes = element("path", d="M-1,5 L5,-1 M-1,1 L1,-1 M3,5 L5,3", class_="ink")
    dots = element("circle", cx="2", cy="2", r="1.1", class_="inked")
    lines = element("path", d="M0,1 H4", class_="ink")
    grid = element("path", d="M0,1 H4 M1,0 V4", class_="ink")
    cross = element("path", d="M-1,5 L5,-1 M-1,-1 L5,5", class_="ink")
    sizes = {"width": "4", "height": "4", "patternUnits": "userSpaceOnUse"}
    patterns = (
        element("pattern", shape, id=f"texture-{number}", **sizes)
        for number, shape in ((STRIPES, stripes), (DOTS, dots), (LINES, lines), (GRID, grid), (CROSS, cross))
    )
    return element("svg", element("defs", *patterns), class_="unseen", aria_hidden="true")


class BarPart(NamedTuple):
    """One part of a bar: its size, the size as text, and its style; None is pale."""

    name: str
    size: float
    text: str
    style: Style | None


def stacked_bar(title: str, parts: Sequence[BarPart], longest: float) -> Markup:
    """Return a bar with a legend below it. A bar of size ``longest`` is as wide as the page."""
    left, drawn = 0.0, []
    for part in parts:
        width = 100 * part.size / longest if longest else 0.0
        place = {"x": f"{left:.3f}%", "width": f"{width:.3f}%", "height": _BAR_HEIGHT}
        drawn.append(
            element("g", element("title", f"{part.name}: {part.text}"), *filled(part.style, **place))
        )
        left += width
    listed = ", ".join(f"{part.name} {part.text}" for part in parts)
    svg = element("svg", *drawn, class_="bar", role="img", aria_label=f"{title}: {listed}".lstrip(": "))
    heading = element("h3", title) if title else None
    return element("div", heading, svg, _legend(parts), class_="stacked")


def _legend(parts: Sequence[BarPart]) -> Markup:
    return element(
        "ul",
        *(element("li", swatch(part.style), part.name, " ", element("b", part.text)) for part in parts),
        class_="legend",
    )


def single_bar(share: float, style: Style) -> Markup:
    """Return a bar of one part. ``share`` is the filled part of its width, from 0 to 1."""
    place = {"width": f"{100 * share:.3f}%", "height": _BAR_HEIGHT}
    return element("svg", *filled(style, **place), class_="bar", aria_hidden="true")


class ChartColumn(NamedTuple):
    """A column of a strip: what it says, its length and that of its layers in ns, and its mark if it is odd.

    ``data`` are attributes for scripts. ``before`` names what begins before it; empty for nothing.
    """

    text: str
    length_ns: float
    layers_ns: Sequence[float]
    mark: str
    data: Mapping[str, str]
    before: str = ""


class Layer(NamedTuple):
    """A layer of all columns of a strip: its name, and its style; None is pale."""

    name: str
    style: Style | None


def ticks(most: float) -> list[float]:
    """Return the round values of a linear axis from 0 to ``most``, at most five, without 0."""
    step = 10.0 ** math.floor(math.log10(max(most, 1.0)))
    step *= next((part for part in (0.2, 0.5, 1.0) if most / (part * step) < _MOST_TICKS), 2.0)
    return [number * step for number in range(1, int(most / step * (1 + 1e-9)) + 1)]


def strip(
    title: str, columns: Sequence[ChartColumn], layers: Sequence[Layer], most_ns: float, height: int = _HEIGHT
) -> Markup:
    """Return columns side by side on a linear axis from 0 to ``most_ns``, this many pixels high.

    A longer column is cut, and its length stands over it. Odd ones are outlined. What begins before a column
    is a dashed line.
    """
    lengths = _cut(columns, most_ns)
    top = _LABEL_HEIGHT if lengths else 0
    height -= top
    width, scale = _WIDTH / max(len(columns), 1), height / max(most_ns, 1)
    gap = min(width * _GAP, 3.0)
    outlines: dict[str, list[str]] = {}
    for number, column in enumerate(columns):
        left, ground = number * width, float(height)
        for layer, part in enumerate(column.layers_ns):
            high = min(part * scale, ground)
            box = f"M{left:.1f} {ground - high:.1f}h{width - gap:.1f}V{ground:.1f}H{left:.1f}z"
            ground -= high
            if high > 0:
                outlines.setdefault(f"{layer}", []).append(box)
        if column.mark:
            ground = height - min(column.length_ns * scale, height)
            box = f"M{left:.1f} {ground:.1f}h{width - gap:.1f}V{height}H{left:.1f}z"
            outlines.setdefault(mark_class(column.mark), []).append(box)
    drawn = [part for number, layer in enumerate(layers) for part in _layer(layer, outlines.get(f"{number}"))]
    marks = dict.fromkeys(mark_class(column.mark) for column in columns if column.mark)
    drawn += [element("path", d="".join(outlines[mark]), class_=mark) for mark in marks]
    lines = "".join(f"M{n * width:.1f} 0V{height}" for n, one in enumerate(columns) if one.before)
    drawn += [element("path", d=lines, class_="before")] if lines else []
    places = (
        {"x": f"{n * width:.1f}", "width": f"{width:.1f}", "height": str(height)} for n in range(len(columns))
    )
    drawn += [
        element("g", element("title", one.text), element("rect", **place), **one.data)
        for one, place in zip(columns, places, strict=True)
    ]
    frame = {"viewBox": f"0 0 {_WIDTH} {height}", "preserveAspectRatio": "none"}
    inner = element("svg", *drawn, width="100%", height=str(height), y=str(top), **frame)
    size = {"height": str(top + height), "role": "img"}
    svg = element("svg", inner, *lengths, class_="columns", aria_label=title, **size)
    return element("div", _axis(most_ns, height, top), svg, class_="plot")


def mark_class(mark: str) -> str:
    """Return the CSS classes of an outline with this mark."""
    return f"odd {mark}"


def _layer(layer: Layer, outlines: Sequence[str] | None) -> list[Markup]:
    if not outlines:
        return []
    path = "".join(outlines)
    if layer.style is None:
        return [element("path", d=path, class_="pale")]
    parts = [element("path", d=path, class_=f"hue-{layer.style.hue}")]
    if layer.style.texture:
        parts.append(element("path", d=path, fill=f"url(#texture-{layer.style.texture})"))
    return parts


def _axis(most_ns: float, height: int, top: int) -> Markup:
    places = ((time, max(height * (1 - time / most_ns) + top + 4, 9)) for time in ticks(most_ns))
    texts = (element("text", f"{time / _MS:g} ms", x="100%", y=f"{y:.1f}") for time, y in places)
    return element("svg", *texts, class_="y-axis", height=str(top + height), aria_hidden="true")


def _cut(columns: Sequence[ChartColumn], most_ns: float) -> list[Markup]:
    """Return an arrow over each column that is cut, and its length beside the arrow, where it has room."""
    places = {
        100 * (number + 0.5) / len(columns): column.length_ns
        for number, column in enumerate(columns)
        if column.length_ns > most_ns
    }
    texts, free = [], 0.0
    for (x, length), following in zip(places.items(), [*places, 200.0][1:], strict=True):
        before = x > 100 - _LABEL  # at the right end the length stands before the arrow
        room = x - free if before else following - x
        text = f"{duration(length)} ↑" if before else f"↑ {duration(length)}"
        shown = {"x": f"{x:.2f}%", "y": "10", "text_anchor": "end" if before else "start"}
        texts.append(element("text", text if room >= _LABEL else "↑", class_="cut", **shown))
        free = x if before or room < _LABEL else x + _LABEL
    return texts


def strip_legend(layers: Sequence[Layer], marks: Mapping[str, str], notes: Sequence[str]) -> Markup:
    """Return the legend of a strip: its layers, what is said of each mark, and notes."""
    items = [element("li", swatch(layer.style), layer.name) for layer in layers]
    for mark, text in marks.items():
        outline = element("rect", x="1", y="1", width="12", height="12", class_=mark_class(mark))
        items.append(element("li", element("svg", outline, class_="swatch", aria_hidden="true"), text))
    more = (element("li", note, class_="note") for note in notes)
    return element("ul", *items, *more, class_="legend")
