"""The reports by name, one module each.

A new report is a module of its name, and its line in ``NAMES`` of its folder.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import UsageError
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import did_you_mean, unknown
from nsyswrap.reports import insight, nsys, ranks

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Report, Table

# In the order of `-r all`.
NSYS = nsys.NAMES
INSIGHT = insight.NAMES
NAMES: tuple[str, ...] = NSYS + INSIGHT
# Reports with a row for each event, gap or address: they grow with the length of a run.
_ROW_PER_EVENT = (
    *("cuda_kern_exec_trace", "cuda_gpu_trace", "cuda_api_trace", "nvtx_pushpop_trace"),
    *("nvtx_gpu_proj_trace", "mpi_event_trace", "um_sum"),
    *("cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync"),
    *("gpu_gaps", "gpu_idle", "step_budget", "gpu_metrics"),
)
SUMMARIES = tuple(name for name in NAMES if name not in _ROW_PER_EVENT)
# What people call them, where the spelling is nearer to another report.
_MEANT = {
    **dict.fromkeys(("kernel", "kernels"), "cuda_gpu_kern_sum"),
    **dict.fromkeys(("api", "calls"), "cuda_api_sum"),
    **dict.fromkeys(("copies", "memcpy"), "cuda_gpu_mem_time_sum"),
    **dict.fromkeys(("nvtx", "ranges"), "nvtx_sum"),
}
_QUALIFIERS: dict[str, dict[str, Any]] = {
    "base": {"names": "base"},
    "mangled": {"names": "mangled"},
    "nvtx-name": {"nvtx_names": True},
}


def find_report(name: str) -> Report:
    """Return the report with this name. Raises UsageError that suggests similar names."""
    if name not in NAMES:
        message, hint = unknown("report", name, (*NAMES, *ranks.NAMES), "nsyswrap report --list lists them")
        meant = _MEANT.get(name.casefold())
        raise UsageError(message, f"did you mean {meant!r}?" if meant else hint)
    report: Report = module(name).REPORT
    return report


@cache
def module(name: str) -> ModuleType:
    """Return the module of the report with this name."""
    return importlib.import_module(f"nsyswrap.reports.{'nsys' if name in NSYS else 'insight'}.{name}")


@dataclass(frozen=True)
class ReportRequest:
    """A report with its options and the view that its qualifiers ask for.

    ``suffix`` is how nsys names the files of a report with options, as in ``gpu_gaps_gap=1``.
    """

    report: Report
    options: Mapping[str, int] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)
    suffix: str = ""

    def make(self, capture: Capture) -> Table:
        """Make the table of a capture. Raises NotInCapture."""
        return replace(self.report.make(capture.viewed(**self.view), **self.options), suffix=self.suffix)


def parse(text: str) -> ReportRequest:
    """Read ``NAME[:base|:mangled][:nvtx-name][:OPTION=N]...``, as nsys does. Raises UsageError."""
    name, *parts = text.split(":")
    report = find_report(name)
    options: dict[str, int] = {}
    view: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if part in report.qualifiers:
            view |= _QUALIFIERS[part]
        elif option := next((one for one in report.options if equals and one.name == key), None):
            options[key] = option.check(name, _integer(text, value))
        else:
            takes = [*report.qualifiers, *(f"{option.name}=N" for option in report.options)]
            raise UsageError(
                f"invalid report {text!r}: {name} has no option {part!r}",
                did_you_mean(part, takes)
                or (f"options: {', '.join(takes)}" if takes else "it has no options"),
            )
    return ReportRequest(report, options, view, "".join(f"_{part.removesuffix('%')}" for part in parts))


def parse_all(texts: Sequence[str]) -> list[ReportRequest]:
    """Read the values of ``-r``, each one or several requests separated by commas.

    Return each request once. No text and ``all`` mean every report, ``*_sum`` all with such a name. Raises
    UsageError.
    """
    wanted = [request for text in texts for request in text.split(",")]
    if not wanted or "all" in wanted:
        wanted = [*NAMES, *(request for request in wanted if request != "all")]
    return [parse(one) for one in dict.fromkeys(name for request in wanted for name in matching(request))]


def matching(request: str, names: Sequence[str] = NAMES) -> list[str]:
    """Return the reports that a pattern matches, with its options, or the request if it is no pattern."""
    pattern, colon, options = request.partition(":")
    if not set(pattern) & set("*?["):
        return [request]
    matches = [f"{name}{colon}{options}" for name in names if fnmatchcase(name, pattern)]
    if not matches:
        raise UsageError(f"no report matches {pattern!r}", "nsyswrap report --list lists them")
    return matches


def _integer(text: str, value: str) -> int:
    try:
        return int(value.removesuffix("%"))
    except ValueError:
        raise UsageError(f"invalid report {text!r}: {value!r} is not a whole number") from None
