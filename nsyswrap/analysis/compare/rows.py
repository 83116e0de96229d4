"""Make the rows of a group from its events: counts, totals, typical times and their errors.

The rows of API calls, copies and NVTX ranges are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, check_sum, group_keys, number_texts
from nsyswrap.analysis.arrays.spans import Spans, tree
from nsyswrap.analysis.compare.model import Key, RowFigures
from nsyswrap.analysis.judged_process import JudgedProcess
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import name_codes
from nsyswrap.analysis.nvtx_ranges import ALL, range_labels, texts_and_domains
from nsyswrap.analysis.range_texts import RANGE, read_text
from nsyswrap.analysis.transfers import MEMSET_KIND, transfers
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet
from nsyswrap.capture.schema import NVTX_PUSH_POP, PROCESS_MASK
from nsyswrap.capture.stream import one_of

Fields = dict[Key, dict[str, Any]]


UNNAMED = "[unnamed]"  # whose text the export lacks
MOST_ROWS = 1000  # of a group: those with the most time


class SteadyWindows(NamedTuple):
    """The steady part of each process that has one, by global process id, and the number of its steps."""

    of_process: Mapping[int, tuple[IntervalSet, int]]

    @classmethod
    def of(cls, processes: Sequence[JudgedProcess]) -> SteadyWindows:
        """Return the steady parts, which outlier steps belong to, and the time between steps does not."""
        found = [process.steps for process in processes if process.steps.has_steady]
        return cls(
            {
                steps.global_pid: (
                    IntervalSet(*np.array(steps.stretches, np.int64).T),
                    int(np.count_nonzero(steps.steady)),
                )
                for steps in found
            }
        )

    def per_step(
        self, owner: NDArray[Any], start_ns: NDArray[Any], end_ns: NDArray[Any]
    ) -> NDArray[Any] | None:
        """Return the time of each event in the steady part of its process, by step; None without steps.

        ``owner`` has global process or thread ids. Summed over processes, it is the time of all of them in a
        step of each.
        """
        if not self.of_process:
            return None
        process, per_step = owner & PROCESS_MASK, np.zeros(len(owner))
        for global_pid, (stretches, steps) in self.of_process.items():
            rows = process == global_pid
            per_step[rows] = stretches.within(start_ns[rows], end_ns[rows]) / steps
        return per_step


@dataclass(frozen=True)
class TimedEvents:
    """One entry per event, in order of time; times in ns.

    ``code`` is the position of its row's key in ``keys``. ``first`` marks first launches and first calls,
    which no typical time includes. ``per_step_ns`` is its time in the steady part by step, None without
    steps. ``ordered_ns`` are the times of all but the first by code, then by time, if they are known.
    """

    keys: Sequence[Key]
    code: NDArray[Any]
    ns: NDArray[Any]
    first: NDArray[Any] | None = None
    per_step_ns: NDArray[Any] | None = None
    size_bytes: NDArray[Any] | None = None
    ordered_ns: NDArray[Any] | None = None

    def rows(self) -> dict[Key, dict[str, Any]]:
        """Return the fields of the rows, the most time first."""
        groups = len(self.keys)
        count, total = np.bincount(self.code, minlength=groups), np.zeros(groups, np.int64)
        check_sum(self.ns)
        np.add.at(total, self.code, self.ns)
        kept = slice(None) if self.first is None else ~self.first
        code, ns = self.code[kept], self.ns[kept]
        typical, error, of_mean = GroupBy(code, groups).trimmed(ns, self.ordered_ns)
        # The noise of the total is that of what repeats: a first launch is part of each run.
        of_total = of_mean * np.bincount(code, minlength=groups)
        fields: dict[str, Sequence[Any]] = {
            "count": count.tolist(),
            "total_ns": total.tolist(),
            "typical_ns": [None if np.isnan(value) else value for value in typical.tolist()],
            "error": relative(error, typical),
            "mean_error": relative(of_total, total),
        }
        if self.per_step_ns is not None:
            fields["per_step_ns"] = np.bincount(self.code, self.per_step_ns, groups).tolist()
        if self.size_bytes is not None:
            fields["size_bytes"] = GroupBy(self.code, groups).totals(self.size_bytes).tolist()
        order = np.argsort(-total, kind="stable").tolist()
        return {
            self.keys[i]: {name: values[i] for name, values in fields.items()}
            for i in order
            if fields["count"][i]
        }


def relative(error: NDArray[Any], typical: NDArray[Any]) -> list[float]:
    """Return errors as a share of what they are of; 0.0 where that is 0 or not known."""
    known = np.nan_to_num(typical) > 0
    return np.where(known, error / np.where(known, typical, 1), 0.0).tolist()  # type: ignore[no-any-return]


def bounded(fields: Mapping[Key, Mapping[str, Any]]) -> tuple[dict[Key, RowFigures], int]:
    """Return at most MOST_ROWS rows, the first ones, and the number of those left out."""
    kept = list(fields.items())[:MOST_ROWS]
    return {key: RowFigures(**values) for key, values in kept}, len(fields) - len(kept)


MEMSET_NAME = "memset"
_BETWEEN = "/"  # two ranges of a path


def api_rows(capture: Capture, windows: SteadyWindows) -> Fields:
    """Return the calls by name, without its version. First calls are those of a name in its process.

    Calls of first launches count as first calls, too.
    """
    if not capture.has("api"):
        return {}
    api = capture.columns("api", "global_tid", "start_ns", "end_ns", "row")
    in_order = (api["start_ns"][1:] >= api["start_ns"][:-1]).all()  # as nsys mostly writes them
    order = slice(None) if in_order else np.argsort(api["start_ns"], kind="stable")
    codes, names = name_codes(capture, "api")
    owner, start, end, code = (
        values[order] for values in (api["global_tid"], api["start_ns"], api["end_ns"], codes)
    )
    first = np.zeros(len(code), bool)
    of_process, _ = group_keys(code, owner & PROCESS_MASK)
    earliest = np.empty(int(of_process.max(initial=-1)) + 1, np.intp)
    earliest[of_process[::-1]] = np.arange(len(code))[::-1]  # the last one that is written stays
    del of_process
    first[earliest] = True
    launches = launches_of(capture.whole)
    launching = np.zeros(capture.whole.count("api"), bool)
    launching[launches.call[launches.first]] = True
    first |= launching[api["row"][order] - 1]
    keys = [Key("api", UNNAMED if name is None else name) for name in names]
    ns = capture.durations("api")[order]
    return TimedEvents(keys, code, ns, first, windows.per_step(owner, start, end)).rows()


def copy_rows(capture: Capture, windows: SteadyWindows) -> Fields:
    """Return copies by kind, migrations of unified memory among them, and memsets."""
    moved = transfers(capture)
    if not len(moved):
        return {}
    labels = {**capture.labels("copy_kind"), MEMSET_KIND: MEMSET_NAME}
    kind, (kinds,) = group_keys(moved.kind)
    code, names = number_texts(kind, [labels.get(one, f"kind {one}") for one in kinds.tolist()])
    operations = moved.operations
    return TimedEvents(
        [Key("copy", name or "") for name in names],
        code,
        moved.selected_ns,
        per_step_ns=windows.per_step(operations.global_pid, operations.start_ns, operations.end_ns),
        size_bytes=np.rint(moved.selected_bytes).astype(np.int64),
    ).rows()


def range_rows(capture: Capture, windows: SteadyWindows) -> Fields:
    """Return the ranges that ended by their path: the names from the outermost range to the range itself.

    A range that began on another thread, or as a start/end range, has its name alone. Modules are not among
    them, which have rows of their own, nor operations of PyTorch: the text of each is another.
    """
    if not capture.has("nvtx"):
        return {}
    events = capture.columns("nvtx", "row", "start_ns", "end_ns", "event_type", "global_tid")
    # MISSING is less than every time.
    ended = one_of(events["event_type"], ALL) & (events["end_ns"] >= events["start_ns"])
    rows = np.flatnonzero(ended)
    codes, named = texts_and_domains(capture.whole, events["row"][rows] - 1)
    kept = np.array([read_text(*pair).kind == RANGE for pair in named] or [False])
    rows = rows[kept[codes] if len(codes) else np.empty(0, bool)]
    if not len(rows):
        return {}
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    names, texts = range_labels(capture.whole, events["row"][rows] - 1)
    spans = Spans(*(events[field][rows] for field in ("global_tid", "start_ns", "end_ns")))
    nests = one_of(events["event_type"][rows], NVTX_PUSH_POP)
    code, paths = _paths(spans, names, texts, nests)
    return TimedEvents(
        [Key("range", path or "") for path in paths],
        code,
        capture.durations("nvtx")[rows],
        per_step_ns=windows.per_step(*spans),
    ).rows()


def _paths(
    spans: Spans, names: NDArray[Any], texts: list[str | None], nests: NDArray[Any]
) -> tuple[NDArray[Any], list[str | None]]:
    """Return the position of each range's path, and the paths; of names alone if there are too many pairs."""
    inner = np.flatnonzero(nests)
    parent, depth = np.full(len(names), -1), np.zeros(len(names), np.int64)
    try:
        nesting = tree(Spans(*(field[inner] for field in spans)))
    except NotInCapture:
        inner = inner[:0]
    else:
        known = (nesting.depth != MISSING) & (nesting.parent >= 0)
        parent[inner[known]] = inner[nesting.parent[known]]
        depth[inner[known]] = nesting.depth[known]
    code = np.zeros(len(names), np.int64)
    labels = [UNNAMED if text is None else text for text in texts]
    paths: list[str] = []
    for level in range(int(depth.max()) + 1):
        rows = np.flatnonzero(depth == level)
        above = code[parent[rows]] if level else np.full(len(rows), -1)
        own, (outer, name) = group_keys(above, names[rows])
        code[rows] = own + len(paths)
        paths += [
            f"{paths[i]}{_BETWEEN}{labels[j]}" if i >= 0 else labels[j]
            for i, j in zip(outer.tolist(), name.tolist(), strict=True)
        ]
    return number_texts(code, paths)  # a name can look like a path
