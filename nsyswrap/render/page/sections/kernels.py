"""The kernels with most time in one line each: share of the step, what they are, and their module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nsyswrap.analysis.kernel_names import classify, distinct_names
from nsyswrap.analysis.kernel_names.arithmetic import PRODUCTS, arithmetic
from nsyswrap.analysis.range_tree.figures import autograd_outside
from nsyswrap.analysis.range_tree.tree import NO_MODULE, NO_RANGE
from nsyswrap.base.text import shorten, shorten_all
from nsyswrap.base.units import duration, percent
from nsyswrap.render.colors import kernel_color
from nsyswrap.render.page.charts import single_bar, swatch
from nsyswrap.render.page.html import Markup, Section, both_parts, element, empty, joined, missing, section
from nsyswrap.render.page.subject import Subject
from nsyswrap.render.page.tables import NAME_WIDTH, folded_table, kernel_name
from nsyswrap.reports.table import Table

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
    """Return the kernels with most time. A bar as wide as its cell is all of the time."""
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
        style = kernel_color(kind)
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
    """Return the class of a kernel; of products the type of the factors, and their units."""
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
    """Return the header of the modules: where they are not known, how to record them."""
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


KERNELS = Section("kernels", "Kernels", kernels, of_gpu=True)
