"""Sections with a table each: GPU idle time, launch latency, copies, kernels, and ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.kernel_names import classify, distinct_names
from nsyswrap.analysis.kernel_names.arithmetic import PRODUCTS, arithmetic
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.range_tree.figures import autograd_outside
from nsyswrap.analysis.range_tree.tree import NO_MODULE, NO_RANGE
from nsyswrap.base.text import counted, shorten, shorten_all
from nsyswrap.base.units import Unit, duration, human, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.render import colors
from nsyswrap.render.page.html import (
    LAUNCH_ROWS,
    NAME_WIDTH,
    Markup,
    Subject,
    both_parts,
    element,
    empty,
    filled,
    folded_table,
    joined,
    kernel_name,
    missing,
    patch,
    section,
    single_bar,
    swatch,
    verdict_paragraphs,
)
from nsyswrap.reports.table import Column, Schema, Table, table_of

_MOST_GAPS = 50  # in the table of the longest gaps
_ROWS = 100  # of devices
_BINS_PER_DECADE = 6
_HEIGHT = 90  # of each half, in pixels
HISTOGRAM = Schema(
    "launch_latency",
    "Launch latency",
    Column("from_ns", "From", "lower end of the latency range"),
    Column("to_ns", "To", "upper end of the latency range, not part of it"),
    Column.count("repeat", "Repeat Launches", "repeat launches into an idle stream"),
    Column.count("first", "First Launches", "first launches of a kernel in its process, into an idle stream"),
)
_MOST_BARS = 30  # the table has all classes


def idle(subject: Subject) -> Markup:
    """Return the table of the longest gaps."""
    return section("idle", "GPU idle time", both_parts(subject, _gaps))


def _gaps(subject: Subject) -> Iterator[Markup | None]:
    yield verdict_paragraphs(subject.tables("gpu_idle", _MOST_GAPS))
    yield empty(subject, "gpu_idle")
    gaps = subject.table("gpu_idle")
    if gaps is not None and len(gaps):
        yield folded_table(gaps, f"{min(_MOST_GAPS, len(gaps))} longest gaps", top=_MOST_GAPS)
    yield missing(subject.missing("gpu_idle"))
    times = subject.table("gpu_time")
    yield folded_table(times, top=_ROWS) if times is not None else None


def latency(subject: Subject) -> Markup:
    """Return a histogram for each capture, all on one axis, and their numbers."""
    by_label = {label: latencies(subject.captures[label]) for label in subject.tables("launch_overhead")}
    every = np.concatenate([np.empty(0, np.int64), *(part for pair in by_label.values() for part in pair)])
    if not len(every):
        text = f"No launch into an idle stream was recorded{subject.within}. "
        text += "In a busy stream, latency cannot be separated from waiting."
        reasons = subject.missing("launch_overhead")
        return section("latency", "Launch latency", missing(reasons) if reasons else element("p", text))
    edges = _edges(every)
    tables = {label: _table(edges, *pair) for label, pair in by_label.items() if any(map(len, pair))}
    all_tables, launches = subject.as_one(tables), subject.table("launch_overhead")
    return section(
        "latency",
        "Launch latency",
        element(
            "p",
            "From the start of the launch call to the start on the GPU, for launches into an idle stream.",
        ),
        element("div", *(_histogram(subject, *pair) for pair in tables.items()), class_="histograms"),
        folded_table(all_tables) if all_tables is not None else None,
        folded_table(launches, top=LAUNCH_ROWS) if launches is not None else None,
    )


def latencies(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the latencies in ns of repeated and of first launches into idle streams.

    The definition is that of ``launch_overhead``. Launches that seem to start before their call are left out.
    A stream that has not run anything counts as idle if the launch is a first one.
    """
    launches = launches_of(capture)
    measurable = launches.uncontended & (launches.latency_ns >= 0)
    return launches.latency_ns[measurable & ~launches.first], launches.latency_ns[measurable & launches.first]


def _edges(every: NDArray[Any]) -> NDArray[Any]:
    """Return bin edges in whole ns, equally spaced on a logarithmic axis. 0 ns counts as 1 ns."""
    steps = np.log10(np.maximum(every, 1)) * _BINS_PER_DECADE
    first, last = int(np.floor(steps.min())), int(np.floor(steps.max())) + 1
    edges = ascending(np.round(10.0 ** (np.arange(first, last + 1) / _BINS_PER_DECADE)).astype(np.int64))
    outer = min(edges[0], int(every.min())), max(edges[-1], int(every.max()) + 1)
    return np.array([outer[0], *edges[1:-1], outer[1]])


def _table(edges: NDArray[Any], repeat: NDArray[Any], first: NDArray[Any]) -> Table:
    counts = [np.histogram(part, np.append(edges, edges[-1] + 1))[0][:-1] for part in (repeat, first)]
    columns = (edges[:-1], edges[1:], *counts)
    return table_of(HISTOGRAM, list(zip(*(column.tolist() for column in columns), strict=True)))


def _histogram(subject: Subject, label: str, table: Table) -> Markup:
    parts = {kind: np.asarray(table.data[kind]) for kind in colors.LAUNCHES}
    counts = ", ".join(_launches(kind, int(part.sum())) for kind, part in parts.items())
    halves = (_half(kind, part, table) for kind, part in parts.items() if part.any())
    drawing = element("div", *halves, _axis(table), class_="histogram")
    return element("div", element("h3", subject.heading(label, counts)), drawing)


def _launches(kind: str, count: int) -> str:
    return counted(count, f"{kind} launches")


def _half(kind: str, counts: NDArray[Any], table: Table) -> Markup:
    width, most = 100 / len(counts), int(counts.max())
    drawn: list[Markup] = []
    ends = zip(
        np.asarray(table.data["from_ns"]).tolist(), np.asarray(table.data["to_ns"]).tolist(), strict=True
    )
    for i, (count, (low, high)) in enumerate(zip(counts.tolist(), ends, strict=True)):
        height = max(_HEIGHT * count / most, 1.5 if count else 0)
        place = {"x": f"{i * width:.3f}%", "width": f"{width * 0.94:.3f}%"}
        place |= {"y": f"{_HEIGHT - height:.1f}", "height": f"{height:.1f}"}
        if count:
            text = f"{duration(low)} to {duration(high)}: {_launches(kind, count)}"
            drawn.append(element("g", element("title", text), *filled(colors.LAUNCHES[kind], **place)))
    text = f"{kind} launches, tallest bar: {most:,}"
    svg = element("svg", *drawn, class_="columns", height=str(_HEIGHT), role="img", aria_label=text)
    caption = element("figcaption", swatch(colors.LAUNCHES[kind]), text)
    return element("figure", caption, svg)


def _axis(table: Table) -> Markup:
    marks = (
        element("text", text, x=f"{place:.2f}%", y="14", text_anchor=anchor)
        for place, text, anchor in _ticks([*table.data["from_ns"], table.data["to_ns"][-1]])
    )
    return element("svg", *marks, class_="axis", height="18", aria_hidden="true")


def _ticks(edges: Sequence[Any]) -> Iterator[tuple[float, str, str]]:
    """Yield position in percent, text and anchor of at most five labels, the outer edges among them."""
    last = len(edges) - 1
    for i in dict.fromkeys(round(part * last / 4) for part in range(5)):
        anchor = "start" if i == 0 else "end" if i == last else "middle"
        yield 100 * i / last, duration(int(edges[i])), anchor


def copies(subject: Subject) -> Markup:
    """Return a bar for each class of copies, as long as its bandwidth."""
    return section("copies", "Copies", both_parts(subject, _copies))


def _copies(subject: Subject) -> Iterator[Markup | None]:
    table = subject.table("memcpy_bandwidth")
    if table is not None:
        rows = table.records(_MOST_BARS)
        most = max((row["bandwidth_bytes_per_s"] or 0.0 for row in rows), default=0.0)
        yield verdict_paragraphs(subject.tables("memcpy_bandwidth"))
        yield empty(subject, "memcpy_bandwidth")
        yield element("div", *(_bar(row, most) for row in rows), class_="bars")
        yield folded_table(table)
    yield missing(subject.missing("memcpy_bandwidth"))


def _bar(row: Mapping[str, Any], most: float) -> Markup:
    bandwidth = row["bandwidth_bytes_per_s"]
    label = str(row["operation"]).removeprefix("[CUDA ").removesuffix("]").removeprefix("memcpy ")
    kinds = " → ".join(kind for kind in (row["src_kind"], row["dst_kind"]) if kind)
    up_to = f"≤ {row['up_to']}".replace(" ", "\N{NO-BREAK SPACE}") if row["up_to"] else None
    parts = (row.get("capture"), label, kinds, up_to)
    one, more = ("memset", "memsets") if label == "memset" else ("copy", "copies")
    number = f"{row['count']:,} {one if row['count'] == 1 else more}"
    size = f"{human(row['total_bytes'], Unit.BYTES)} in {number}"
    style = colors.copy_color(label)
    return element(
        "div",
        element("span", swatch(style), " · ".join(filter(None, parts)), class_="label"),
        single_bar(bandwidth / most, style) if bandwidth else element("span"),
        element("span", element("b", human(bandwidth, Unit.BYTES_PER_S)), f" · {size}", class_="value"),
    )


_MOST = 5
_MOST_KERNELS = 300_000  # for a table of their efficiency, which takes 100 bytes a kernel
_MANY = 100  # executions that are given without decimals
_TABLES = ("kernel_class_sum", "kernel_efficiency")
_UNITS = {True: "tensor cores", False: "CUDA cores", None: ""}
_CLASSES = (None, None, "detail", "aside", None)  # what a narrow screen hides
_MODULE_WIDTH, _BOTH_WIDTH = 32, 40  # characters of a module, and of two with their shares
_AUTOGRAD = "backward (autograd)"  # the name of the thread tells that, and not the module
_SAME_MODULE = 0.995  # of a kernel's time: the others are not worth a word


def kernels(subject: Subject) -> Markup:
    """Return the first kernels of each capture, and the tables of all kernels; or why there are none."""
    return section("kernels", "Kernels", both_parts(subject, _parts))


def _parts(subject: Subject) -> Iterator[Markup | None]:
    for label, table in subject.tables("cuda_gpu_kern_sum").items():
        if len(table):
            yield element("h3", label) if subject.several else None
            yield _first(subject, label, table)
    every = subject.table("cuda_gpu_kern_sum")
    if every is not None:
        yield folded_table(every, f"all {len(every) + every.left_out:,} kernels")
    yield missing(subject.missing("cuda_gpu_kern_sum"))
    yield empty(subject, "cuda_gpu_kern_sum")
    many = max((capture.count("kernel") for capture in subject.captures.values()), default=0) > _MOST_KERNELS
    for name in _TABLES[:1] if many else _TABLES:
        more = subject.table(name)
        yield folded_table(more) if more is not None and len(more) else None


def _first(subject: Subject, label: str, table: Table) -> Markup:
    rows = table.records(_MOST)
    readable = distinct_names(subject.kernel_names(label))  # of all, as equal forms are numbered
    first = [str(row["name"]) for row in rows]
    names = dict(zip(first, shorten_all([readable[name] for name in first], NAME_WIDTH), strict=True))
    modules, window_ns = _modules(subject, label), max(subject.time_ns(label), 1)
    steps = subject.steps_shown(label)
    of = "a step" if steps else "the time"
    lines = [_line(("Kernel", f"Share of {of}", "Time", "What", _module_header(modules)), "th")]
    for row in rows:
        name, share = str(row["name"]), row["total_ns"] / window_ns
        kind = classify(name, subject.captures[label].view.classes)
        style = colors.kernel_color(kind)
        texts = (
            kernel_name(name, names[name]),
            element("div", single_bar(min(share, 1.0), style), element("span", percent(100 * share))),
            f"{_count(row['instances'] / (steps or 1))} x {duration(row['avg_ns'])}",
            joined((swatch(style), _what(name, kind))),
            modules.get(name, "-"),
        )
        lines.append(_line(texts))
    title = subject.heading(label, "kernels with most time")
    parts = (element("thead", lines[0]), element("tbody", *lines[1:]))
    grid = element("table", element("caption", title, class_="unseen"), *parts, class_="first-kernels")
    return element("div", grid, class_="wide-picture", tabindex="0", role="region", aria_label=title)


def _line(cells: Sequence[object], kind: str = "td") -> Markup:
    scope = "col" if kind == "th" else None
    every = zip(cells, _CLASSES, strict=True)
    return element("tr", *(element(kind, cell, class_=one, scope=scope) for cell, one in every))


def _count(number: float) -> str:
    return f"{number:.3g}" if number < _MANY else f"{number:,.0f}"


def _what(name: str, kind: str) -> str:
    if kind not in PRODUCTS:
        return kind
    known = arithmetic(name)
    return ", ".join(filter(None, (f"{kind} {known.input_type}".strip(), _UNITS[known.tensor_cores])))


def _modules(subject: Subject, label: str) -> Mapping[str, str]:
    """Return for each kernel the module, or NVTX range, that most of its time belongs to."""
    table = subject.tables("module_kern_sum").get(label)
    times: dict[str, dict[str, int]] = {}
    for row in table.records() if table is not None else ():
        of_kernel = times.setdefault(str(row["name"]), {})
        of_kernel[str(row["module"])] = of_kernel.get(str(row["module"]), 0) + row["total_ns"]
    for kernel, time in autograd_outside(subject.captures[label]).items() if times else ():
        of_kernel = times.get(str(kernel), {})
        for outside in (NO_RANGE, NO_MODULE):
            if of_kernel.get(outside, 0) >= time:
                of_kernel[_AUTOGRAD] = time
                of_kernel[outside] -= time
    return {name: _most(of_kernel) for name, of_kernel in times.items()}


def _module_header(modules: Mapping[str, str]) -> str:
    if not modules:
        return "Module (not recorded; profile --modules)"
    outside = any(text.startswith((NO_RANGE, _AUTOGRAD)) for text in modules.values())
    return "Module (of backward: profile --modules)" if outside else "Module"


def _most(times: Mapping[str, int]) -> str:
    """Return the module with most of the time; if it has not all of it, with its share and the next one."""
    every = sum(times.values())  # 0 if all of its executions began and ended in one nanosecond
    known = (item for item in times.items() if item[1] or not every)
    (module, most), *others = sorted(known, key=lambda item: -item[1])
    if most >= _SAME_MODULE * every:
        return shorten(module, _MODULE_WIDTH)
    share = f"{shorten(module, _MODULE_WIDTH)} {100 * most / every:.0f} %"
    (second, time), *_ = others
    text = f"{share}, {second} {100 * time / every:.0f} %"
    return text if len(others) == 1 and len(text) <= _BOTH_WIDTH else f"{share}, {len(others):,} more"


_MOST_LEVELS = 12
_LEVEL_HEIGHT, _BAND = 26, 5  # of a level and of its band of phases, in pixels
_NARROW = 0.02  # percent of the width: less is not drawn
_PHASES = {"forward": "shade-3", "backward": "shade-5"}  # dark and light are told apart by everybody


class _Node(NamedTuple):
    """One part of the picture: place in percent, level, and what it shows."""

    left: float
    width: float
    level: int
    row: dict[str, Any]


def ranges(subject: Subject) -> Markup | None:
    """Return a picture for each capture with GPU work in ranges; None if there is none."""
    if not any(map(_in_ranges, subject.tables("nvtx_tree").values())):
        return None
    return section("ranges", "Ranges and modules", both_parts(subject, _range_parts))


def _range_parts(subject: Subject) -> Iterator[Markup | None]:
    tables = {label: table for label, table in subject.tables("nvtx_tree").items() if _in_ranges(table)}
    table = subject.as_one(tables)
    phases = [name for name in _PHASES if any(sum(part.data[f"{name}_ns"]) for part in tables.values())]
    yield verdict_paragraphs(tables)
    for label, part in tables.items():
        title = f"{duration(_whole(part))} of kernel time by range, those around others on top"
        autograd_ns = sum(autograd_outside(subject.captures[label]).values())
        yield _picture(subject.heading(label, title), part, autograd_ns)
    if phases:
        items = (element("li", patch(_PHASES[name]), name) for name in phases)
        yield element("ul", *items, class_="legend")
    yield folded_table(table) if table is not None else None


def _in_ranges(table: Table) -> bool:
    return any(not str(path).startswith("(") for path in table.data["path"])


def _whole(table: Table) -> int:
    roots = np.asarray(table.data["depth"]) == 0
    return int(np.asarray(table.data["total_ns"])[roots].sum())


def _picture(title: str, table: Table, autograd_ns: int) -> Markup:
    """Return the tree; ``autograd_ns`` is the time in no range that autograd's threads launched."""
    nodes = list(_nodes(table))
    height = str(_LEVEL_HEIGHT * (max((node.level for node in nodes), default=0) + 1))
    label = f"{title}; the table below has the same figures"
    drawn = element(
        "svg",
        *(_drawn(node, autograd_ns) for node in nodes),
        class_="icicle",
        height=height,
        role="img",
        aria_label=label,
    )
    return element("div", element("h3", title), drawn, class_="stacked")


def _nodes(table: Table) -> Iterator[_Node]:
    """Yield the parts from the left to the right; the rows of the report come parents first."""
    whole = max(_whole(table), 1)
    starts = [0.0]  # where the next part of each level begins
    for row in table.records():
        level, width = row["depth"], 100 * row["total_ns"] / whole
        del starts[level + 1 :]
        left = starts[level]
        starts[level] += width
        starts.append(left)
        if level < _MOST_LEVELS and width >= _NARROW:
            yield _Node(left, width, level, row)


def _drawn(node: _Node, autograd_ns: int) -> Markup:
    row = node.row
    label, ours = str(row["range"]).strip(), autograd_ns if row["path"] in {NO_RANGE, NO_MODULE} else 0
    figures = {name: row[f"{name}_ns"] for name in ("total", "own", "forward", "backward", "idle")}
    label += ": backward (autograd)" if 2 * ours > figures["total"] else ""
    text = ", ".join(
        [
            f"{row['path']}: {duration(figures['total'])}, {percent(row['time_percent'])}",
            *(
                f"{name} {duration(figures[name])}"
                for name in ("own", "forward", "backward")
                if figures[name]
            ),
            f"idle inside {duration(figures['idle'])}",
            *([f"launched by autograd threads, so of backward: {duration(ours)}"] if ours else []),
        ]
    )
    bands, left = [], 0.0
    for name, shade in _PHASES.items():
        width = 100 * figures[name] / max(figures["total"], 1)
        place = {"x": f"{left:.3f}%", "y": str(_LEVEL_HEIGHT - _BAND)}
        place |= {"width": f"{width:.3f}%", "height": str(_BAND)}
        bands += [element("rect", class_=shade, **place)] if width else []
        left += width
    return element(
        "svg",
        element("title", text),
        element("rect", width="100%", height=str(_LEVEL_HEIGHT - 1), class_="node"),
        *bands,
        element("text", label, x="5", y="15"),
        x=f"{node.left:.3f}%",
        y=str(node.level * _LEVEL_HEIGHT),
        width=f"{node.width:.3f}%",
        height=str(_LEVEL_HEIGHT),
        data_path=str(row["path"]),
    )
