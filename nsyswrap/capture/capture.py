"""Open an nsys export, and read its events as columns in one view of it.

Views of a file share its ``Export``, which reads each column once. ``viewed`` and ``select`` make one view
of another. All columns of a kind in a view have one entry per event, in the order of rows. A view that leaves
something out keeps, each made on first use from the one before:

1. ``_rows``: which rows of a kind are selected
2. ``_clipped``: their start and end, cut at the window, where the view clips
3. ``_selected``: the columns of these rows, by kind and field
4. ``results``: what functions with ``@per_capture`` computed; every view has these

``release`` frees these, and ``release_columns`` what the export read, for all views. Both can be called at
any time: what is asked for again is made again. A view holds the views that were made of it, and refers to
its ``whole`` weakly, so that all are freed together.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import RunFolder, ending, run_of
from nsyswrap.capture import schema
from nsyswrap.capture.export import lacks_column
from nsyswrap.capture.info import (
    all_cuda_events,
    newer_than_known,
    read_diagnostics,
    read_info,
    unread_tables,
)
from nsyswrap.capture.open import beside_note, export_of, open_export
from nsyswrap.capture.partial import OWNERS, part_of, selected_rows
from nsyswrap.capture.selection import EVERYTHING, NAME_FIELDS, ViewOptions, parse_selection, resolve, select
from nsyswrap.capture.stream import Columns, in_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    from nsyswrap.capture.export import Export
    from nsyswrap.capture.info import Diagnostic, Info
    from nsyswrap.capture.intervals import Window
    from nsyswrap.capture.schema import FieldKind, Wanted
    from nsyswrap.capture.selection import KernelNames

    Source = tuple[str, FieldKind] | None

with lazy_imports():
    from nsyswrap.capture import nearby, shared


_MADE = ("table", "row")  # fields that are no column
_SELECTED_BY = (*schema.SPANS, *OWNERS, "event_type")  # what clipping compares


class Capture:
    """One export, read-only, in one view. ``viewed`` and ``select`` return other views of the same file.

    Users hold ``nsyswrap.api.Capture``, which also makes reports, plots and DataFrames.
    """

    _recorded: Self | None = None  # the whole, where only what lies near a window is here

    def __init__(
        self,
        path: Path,
        names: KernelNames = "full",
        source: Path | None = None,
        view: ViewOptions | None = None,
    ) -> None:
        """Open the export at ``path``. ``source`` is the file or folder that messages name.

        Raises CaptureError if the file is not a readable export.
        """
        self.path = path
        self.source = source or path
        self._open(open_export(path), view or ViewOptions(names))

    def _open(self, export: Export, view: ViewOptions) -> None:
        self._export = shared.shared_export(export) if view.shared else export
        self.view = view
        self._narrows, self._is_whole = view.selection.narrows, view.selection == EVERYTHING
        self._selected: dict[tuple[str, str], NDArray[Any]] = {}
        self._rows: dict[str, NDArray[Any]] = {}
        self._expected: dict[str, set[str]] = {}
        self._has: dict[str, bool] = {}
        self._known: dict[tuple[str, tuple[str, ...]], tuple[str, Wanted]] = {}  # tables with all fields
        self._clipped: dict[str, Columns] = {}
        self._views: dict[ViewOptions, Self] = {}  # none refers back, so all are freed with this one
        self.results: dict[Callable[..., Any], dict[Hashable, Any]] = {}  # see ``per_capture``
        self.released: set[tuple[str, str]] = set()
        self._labels: dict[str, Mapping[int, str]] = {}
        self._whole: weakref.ref[Self] | None = None

    def viewed(self, **changes: Any) -> Self:
        """Return this capture in another view. ``changes`` are fields of ViewOptions."""
        if all(getattr(self.view, name) == value for name, value in changes.items()):
            return self
        view = replace(self.view, **changes)
        if view not in self._views:
            other = object.__new__(type(self))
            other.path, other.source = self.path, self.source
            other._open(self._export, view)
            other._recorded = self._recorded
            if view.selection != EVERYTHING and replace(view, selection=self.view.selection) == self.view:
                other._whole = weakref.ref(self.whole)  # what was computed from it counts for all its parts
            self._views[view] = other
        return self._views[view]

    def release(self, *functions: Callable[..., object], but: Callable[..., object] | None = None) -> None:
        """Free what these functions computed once for this view, until it is asked for again.

        Without functions, free all that was selected and computed for the view, but what ``but`` returned.
        """
        if not functions:
            for kept in (self._selected, self._rows, self._clipped):
                kept.clear()
        for function in functions or self.results.keys() - {but}:
            self.results.pop(function, None)

    def release_columns(self, columns: Mapping[str, Iterable[str]]) -> None:
        """Free columns of all events, by kind, that no report needs any more: ``read_ahead`` leaves them out.

        What was computed from them stays. They are read again if they are asked for again.
        """
        for kind, fields in columns.items():
            events = schema.events(kind)
            self.whole.released.update((kind, field) for field in fields)
            known = [events.fields[field] for field in fields if field in events.fields]
            for table in events.tables(self._export.tables):
                self._export.release(table, [name for field in known for name in field.columns])

    def select(  # noqa: PLR0913 - what can be selected
        self,
        *,
        time: str = "",
        nvtx: str = "",
        device: int | None = None,
        process: int | None = None,
        clip: bool | None = None,
        steps: str | None = None,
    ) -> Self:
        """Return a part of this capture: ``time`` as ``START/END`` in nsys' grammar, or NVTX ranges.

        ``nvtx`` is ``NAME[@DOMAIN]`` for all ranges of that name, ``NAME/N`` for one, N from 0, or
        ``NAME/N-M``. Their times are united. ``clip`` cuts rows off at their ends. By default nsys' own
        reports take the first range and whole rows, the others cut rows. ``steps`` says which steps are
        judged, as ``NAME``, ``10-13`` or ``NAME/10-13``. Raises UsageError for an invalid time or range.
        A name that no NVTX range has raises NotInCapture when the first report is made.
        """
        devices, processes = (() if number is None else (number,) for number in (device, process))
        return self.viewed(
            selection=parse_selection(time, nvtx, devices=devices, processes=processes, clip=clip),
            steps=self.view.steps if steps is None else steps,
        )

    def decided(self, *, as_nsys: bool = False) -> Self:
        """Return this view with what its selection left to the reports decided, so that all tables agree."""
        return self.viewed(selection=self.view.selection.decided(as_nsys=as_nsys))

    def nearby(self, rows: Mapping[str, NDArray[Any]], times: tuple[int, int]) -> Self:
        """Return this view of an export that has only these rows of some tables, see ``nearby``."""
        other = object.__new__(type(self))
        other.path, other.source = self.path, self.source
        other._open(cast("Export", nearby.NearbyExport(self.original, rows, times)), self.view)
        other._recorded = self.whole
        return other

    @property
    def recorded(self) -> Self:
        """The whole with all that was recorded: another one where only what lies near a window is here."""
        return self.whole if self._recorded is None else self._recorded

    def beyond(self, kind: str, *fields: str, later: bool = False) -> Iterator[Columns]:
        """Yield fields of the events of ``recorded`` before the time that is here, the last of them first.

        If ``later``, of those after it, the first of them first. Events that are here are left out.
        """
        near = cast("nearby.NearbyExport", self._export)
        [table] = schema.events(kind).tables(self._export.tables)
        for rows in near.rows_beyond(table, later=later):
            columns, time_ns = self.recorded.at(kind, rows, "start_ns", *fields), near.times[later]
            marks = columns["start_ns"] > time_ns if later else columns["start_ns"] < time_ns
            yield {field: columns[field][marks] for field in fields}

    @property
    def is_near(self) -> bool:
        """Whether only what lies near a window is here."""
        return self._recorded is not None

    @contextmanager
    def exact(self) -> Iterator[None]:
        """Raise DamagedCapture where a computation raises OverflowError: 64 bits do not suffice."""
        try:
            yield
        except OverflowError:
            raise self._export.too_large() from None

    @property
    def whole(self) -> Self:
        """This capture with nothing left out."""
        if self._is_whole:
            return self
        whole = self._whole() if self._whole else None
        return self.viewed(selection=EVERYTHING) if whole is None else whole

    def has(self, kind: str) -> bool:
        """Return True if there is at least one event of this kind."""
        if kind not in self._has:
            tables = schema.events(kind).tables(self._export.tables)
            here = any(map(self._export.has_rows, tables))
            self._has[kind] = here and (not self._narrows or len(self._kept(kind)) > 0)
        return self._has[kind]

    def holds(self, kind: str) -> bool:
        """Return True if the export contains a table for this event kind, even if the table is empty."""
        return bool(schema.events(kind).tables(self._export.tables))

    def count(self, kind: str) -> int:
        """Return the number of events. It is 0 for an empty table and for a missing one."""
        if self._narrows:
            return len(self._kept(kind)) if self.whole.has(kind) else 0
        return sum(map(self._export.count, schema.events(kind).tables(self._export.tables)))

    def columns(self, kind: str, *fields: str) -> Columns:
        """Return fields as read-only int64 arrays in row order; ``MISSING`` marks what was not recorded.

        Texts are object arrays. Names are StringIds ids. ``row`` is the row's number in its table, from 1.
        Raises NotInCapture with the command that collects the events.
        """
        if not self._narrows:
            return self._all_columns(kind, fields)
        missing = [field for field in fields if (kind, field) not in self._selected]
        for field, unclipped in self._unclipped(kind, missing).items():
            values = self._clipped_times(kind)[field] if self._clips and field in schema.SPANS else unclipped
            values.flags.writeable = False
            self._selected[kind, field] = values
        return {field: self._selected[kind, field] for field in fields}

    def stream(
        self,
        kind: str,
        fields: Sequence[str],
        work: Callable[[Columns], Columns],
    ) -> Columns:
        """Return the arrays that ``work`` makes of blocks of ``columns``, each joined in row order.

        The columns are not kept in memory. ``work`` can be called by several threads at the same time.
        """
        events = schema.events(kind)
        present, tables = self._export.tables, events.tables(self._export.tables)
        read = len(tables) == 1 and not self._narrows
        sources = {f: self._column(events, tables[0], f, present[tables[0]]) for f in fields if read}
        kinds = [(name, events.fields[field].kind) for field, name in sources.items() if name]
        if not kinds:  # the export may have none of the fields
            return in_blocks(self.columns(kind, *fields), work)

        def named(block: Columns) -> Columns:
            empty = np.full(len(next(iter(block.values()))), MISSING)
            return work({field: block[name] if name else empty for field, name in sources.items()})

        return self._export.stream(tables[0], kinds, named)

    def expect(self, kind: str, fields: Iterable[str]) -> None:
        """Note fields that reports will ask for, so that the first of them has all read in one pass."""
        self._expected.setdefault(kind, set()).update(fields)

    def expects(self, kind: str, *fields: str) -> bool:
        """Return True if reports will ask for all of these fields."""
        return self._expected.get(kind, set()).issuperset(fields)

    def durations(self, kind: str) -> NDArray[Any]:
        """Return end - start of each event in ns.

        Rows that are clipped to several NVTX ranges count without the time between the ranges.
        """
        span = self.columns(kind, *schema.SPANS)
        if self._clips and self.window.several:
            return self.window.clipped_durations({**self._kept_events(kind), **span})
        return span["end_ns"] - span["start_ns"]

    def notes_on_fields(self, kind: str, *fields: str) -> tuple[str, ...]:
        """Return a note for each of these fields that the nsys of this export did not write.

        ``columns`` leaves such a field empty. nsys' own reports refuse the export.
        """
        events = schema.events(kind)
        newer = [spec for field, spec in events.fields.items() if field in fields and spec.since]
        return tuple(
            f"{table} has no {spec.columns[0]} (nsys {spec.since} or newer writes it); cells left empty"
            for table in events.tables(self._export.tables)
            for spec in newer
            if not set(spec.columns) & set(self._export.tables[table])
        )

    def _kept(self, kind: str) -> NDArray[Any]:
        if kind not in self._rows:
            self._rows[kind] = self._selected_rows(kind)
        return self._rows[kind]

    def _selected_rows(self, kind: str) -> NDArray[Any]:
        events, selection, window = schema.events(kind), self.view.selection, self.window
        fields = [field for field in selection.compares if field in events.fields]
        tables = events.tables(self._export.tables)
        if len(tables) == 1 and fields:
            present = self._export.tables[tables[0]]
            names = {field: self._column(events, tables[0], field, present) for field in fields}
            sources = {f: (name, events.fields[f].kind) if name else None for f, name in names.items()}
            rows = selected_rows(self._export, tables[0], sources, selection, window)
            if rows is not None:
                return rows
        columns = self._all_columns(kind, (*fields,)) if fields else {"": np.zeros(self.whole.count(kind))}
        return np.flatnonzero(select(columns, selection, window))

    def _kept_events(self, kind: str) -> Columns:
        """Return times and owners of the selected rows, before they are clipped."""
        return self._unclipped(kind, [field for field in _SELECTED_BY if field in schema.events(kind).fields])

    def _unclipped(self, kind: str, fields: Sequence[str]) -> Columns:
        """Return fields of the selected rows, before they are clipped."""
        return self.at(kind, self._kept(kind), *fields)

    def at(self, kind: str, rows: NDArray[Any], *fields: str) -> Columns:
        """Return fields at ascending positions among all events of a kind; few are read by themselves."""
        events = schema.events(kind)
        tables = events.tables(self._export.tables)
        if len(tables) == 1:
            wanted = self._wanted(events, tables[0], fields)
            return self._table_columns(tables[0], wanted, 0, fields, rows)
        return {field: values[rows] for field, values in self._all_columns(kind, fields).items()}

    def _clipped_times(self, kind: str) -> Columns:
        if kind not in self._clipped:
            self._clipped[kind] = self.window.clip(self._kept_events(kind))
        return self._clipped[kind]

    @property
    def _clips(self) -> bool:
        return bool(self.view.selection.clip) and self.view.selection.windowed

    @cached_property
    def window(self) -> Window:
        """Return the selected times. Raises NotInCapture if there is no such NVTX range."""
        return resolve(self.view.selection, self.whole)

    @property
    def selected(self) -> str:
        """The selection as text, with the number of NVTX ranges; empty if everything is selected."""
        return self.view.selection.text(self.window) if self.view.selection.narrows else ""

    def _all_columns(self, kind: str, fields: tuple[str, ...]) -> Columns:
        if known := self._known.get((kind, fields)):
            return dict(zip(fields, self._export.columns(*known), strict=True))
        events = schema.events(kind)
        tables = events.tables(self._export.tables)
        if not tables:
            raise NotInCapture(
                f"no {events.title} in this capture",
                f"collect with {schema.collecting(events)}",
                source=self.source,
            )
        if len(tables) == 1:
            wanted = self._wanted(events, tables[0], fields)
            if len(wanted) == len(fields):
                self._known[kind, fields] = tables[0], [*wanted.values()]
            return self._table_columns(tables[0], wanted, 0, fields)
        parts = [
            self._table_columns(table, self._wanted(events, table, fields), number, fields)
            for number, table in enumerate(tables)
            if self._export.count(table)
        ] or [self._table_columns(tables[0], self._wanted(events, tables[0], fields), 0, fields)]
        return {field: np.concatenate([part[field] for part in parts]) for field in fields}

    def _wanted(
        self, events: schema.EventKind, table: str, fields: Iterable[str]
    ) -> dict[str, tuple[str, FieldKind]]:
        """Return the column of each field that the table has, and its kind."""
        present = self._export.tables[table]
        return {
            field: (name, events.fields[field].kind)
            for field in fields
            if field not in _MADE and (name := self._column(events, table, field, present))
        }

    def _table_columns(
        self,
        table: str,
        wanted: Mapping[str, tuple[str, FieldKind]],
        number: int,
        fields: Sequence[str],
        kept: NDArray[Any] | None = None,
    ) -> Columns:
        """Return fields of all rows of a table, or of those with the numbers ``kept``."""
        columns = [*wanted.values()]
        if kept is None:
            read = dict(zip(wanted, self._export.columns(table, columns), strict=True))
        else:
            read = dict(zip(wanted, part_of(self._export, table, columns, kept), strict=True))
        if len(read) == len(fields):
            return read
        rows = self._export.count(table) if kept is None else len(kept)  # reading has counted them
        if "row" in fields:
            read["row"] = np.arange(1, rows + 1) if kept is None else kept + 1
        if "table" in fields:
            read["table"] = np.full(rows, number)
        return {field: read[field] if field in read else np.full(rows, MISSING) for field in fields}

    def name_ids(self, kind: str) -> NDArray[Any]:
        """Return the StringIds ids of the events' names, for kernels in the form that the view asks for.

        As in nsys, a missing base or mangled name falls back to the demangled one.
        """
        ids = self.columns(kind, "name")["name"]
        field = NAME_FIELDS[self.view.names]
        if kind != "kernel" or field == "name":
            return ids
        chosen = self.columns(kind, field)[field]
        return np.where(chosen == MISSING, ids, chosen)

    def text(self, string_id: int) -> str | None:
        """Return the text of a StringIds id, or None if the export lacks it."""
        return self._export.texts([string_id]).get(string_id)

    def texts(self, string_ids: NDArray[Any]) -> list[str | None]:
        """Return the text of each StringIds id, as ``text`` does."""
        ids = string_ids.tolist()
        return list(map(self._export.texts(ids).get, ids))

    def labels(self, enum: str) -> Mapping[int, str]:
        """Return the labels of the numbers in an enum of ``schema.ENUMS``: the export's, or built-in ones.

        A number whose label is NULL in the export is labeled with itself.
        """
        if enum not in self._labels:
            table, labels = schema.ENUMS[enum]
            if self._export.has_rows(table):
                rows = self._export.select(table, ("id", "int"), ("label", "text"))
                labels = {i: f"kind {i}" if label is None else label for i, label in rows if i is not None}
            self._labels[enum] = labels
        return self._labels[enum]

    def notes_on_labels(self, *enums: str) -> tuple[str, ...]:
        """Return a note for each of these enums whose labels are built in: the export has none."""
        tables = (schema.ENUMS[enum][0] for enum in enums)
        return tuple(
            f"the export has no {table} (nsys 2022.4 or newer writes it); built-in labels used"
            for table in tables
            if not self._export.count(table)
        )

    @cached_property
    def gpu_names(self) -> dict[int, str]:
        """Return the GPU name of each device id."""
        rows = self._export.select(schema.GPUS, ("id", "int"), ("name", "text"))
        return {i: name for i, name in rows if i is not None and name is not None}

    @cached_property
    def gpu_uuids(self) -> dict[tuple[int, int], str]:
        """Return the UUID of a GPU by process id and device id: a process numbers the GPUs that it sees.

        It is empty for nsys before 2025.1, whose exports do not tell which GPU a device id stands for.
        """
        gpus = dict(self._export.select(schema.GPUS, ("id", "int"), ("uuid", "text"), required=False))
        return {pair: gpus[gpu] for pair, gpu in self.gpu_ids.items() if gpus.get(gpu)}

    @cached_property
    def gpu_ids(self) -> dict[tuple[int, int], int]:
        """Return nsys' id of a GPU by process id and device id; empty for nsys before 2025.1."""
        wanted = (("pid", "int"), ("cudaId", "int"), ("gpuId", "int"))
        rows = self._export.select(schema.CUDA_DEVICES, *wanted, required=False)  # type: ignore[arg-type]
        return {(pid, device): gpu for pid, device, gpu in rows if gpu is not None}

    @cached_property
    def contexts(self) -> set[tuple[int, int]]:
        """Return the process id and the device id of each CUDA context; empty if nsys did not store them."""
        wanted = (("processId", "int"), ("deviceId", "int"))
        return {*self._export.select(schema.CUDA_CONTEXTS, *wanted, required=False)}  # type: ignore[arg-type]

    @cached_property
    def process_names(self) -> dict[int, str]:
        """Return the name of each process by its global id, without its folder; empty before nsys 2022."""
        rows = self._export.select(schema.PROCESSES, ("globalPid", "int"), ("name", "text"), required=False)
        return {process: name.rpartition("/")[2] for process, name in rows if name}

    @cached_property
    def started_ns(self) -> int | None:
        """Return time 0 of the capture in ns since 1970 UTC; None if the export does not have it."""
        rows = self._export.select(schema.SESSION_START, ("utcEpochNs", "int"), required=False)
        return rows[0][0] if rows else None

    @cached_property
    def threads(self) -> dict[int, tuple[int | None, str | None]]:
        """Return the priority and the name of each thread, by global thread id."""
        rows = self._export.select(
            schema.THREAD_NAMES, ("globalTid", "int"), ("priority", "int"), ("nameId", "string")
        )
        return {t: (priority, self.text(name)) for t, priority, name in reversed(rows) if t is not None}

    @cached_property
    def info(self) -> Info:
        """Return which nsys recorded this capture, when, and on which GPUs."""
        return read_info(self._export)

    @cached_property
    def unread(self) -> dict[str, int]:
        """Return the number of rows of each table with events that no report reads, by the table's name."""
        return unread_tables(self._export)

    @property
    def original(self) -> Export:
        """The export, with its texts as they are where this view reads them as others may see them."""
        return getattr(self._export, "original", self._export)

    @property
    def replaced(self) -> frozenset[str]:
        """The names that are read as others may see them, and not as they are."""
        return getattr(self._export, "replaced", frozenset())

    def damage(self, patience_s: float) -> str | None:
        """Return the first finding of SQLite's quick check, empty if it has none; None if it takes longer."""
        return self._export.damage(patience_s)

    @cached_property
    def run_facts(self) -> dict[str, Any]:
        """Return the content of run.json for a run folder or one of its files; empty for another capture."""
        folder = run_of(self.source)
        return RunFolder(folder).read_run() if folder else {}

    @cached_property
    def ending(self) -> str:
        """Return how the recording run ended if it failed; empty otherwise, and for any other file."""
        return ending(self.source)

    @property
    def remarks(self) -> list[str]:
        """Return what readers must know about the file. How its run ended comes first."""
        beside = beside_note(self.source, self.path)
        return [
            text for text in (self.ending, beside, self._export.note, newer_than_known(self.info)) if text
        ]

    @cached_property
    def diagnostics(self) -> list[Diagnostic]:
        """Return the warnings of nsys 2024.2 or newer, lost events first, without absent event kinds."""
        return read_diagnostics(self._export)

    @cached_property
    def last_error_output(self) -> str:
        """Return the last line that the program wrote to stderr; empty if nsys did not store it."""
        rows = self._export.select(schema.OUTPUT, ("filenameId", "int"), ("contentId", "int"), required=False)
        texts = [self.text(content) for name, content in rows if "stderr" in (self.text(name) or "")]
        lines = [line for text in texts for line in (text or "").splitlines() if line.strip()]
        return " ".join(lines[-1].split()) if lines else ""

    @cached_property
    def all_cuda_events(self) -> int | None:
        """Return nsys' own count of CUDA events if the export has as many, else 0; None without a count."""
        return all_cuda_events(self._export)

    def _column(self, events: schema.EventKind, table: str, field: str, present: list[str]) -> str | None:
        spec = events.fields[field]
        for name in spec.columns:
            if name in present:
                return name
        if spec.required:
            raise lacks_column(self.source, table, spec.columns[0])
        return None


def open_capture(path: str | Path, *, names: KernelNames = "full") -> Capture:
    """Open a ``.sqlite`` export, a ``.nsys-rep`` (exported into the cache first) or a run folder.

    The folder of a parquetdir or arrowdir export can be opened, too, with pyarrow.
    ``names`` picks the form of kernel names: full demangled, base or mangled.
    """
    return Capture(export_of(Path(path)), names, Path(path))


def check_owners(capture: Capture) -> None:
    """Raise NotInCapture if a selected GPU or process is not in the capture."""
    selection, whole = capture.view.selection, capture.whole
    gpus = set(whole.gpu_names)
    if not gpus.issuperset(selection.devices):
        gpus |= _owners(whole, "device_id")
    _check_owner(capture, "GPU", selection.devices, gpus)
    if selection.processes:
        threads = set[int]().union(*(_owners(whole, field) for field in OWNERS))
        processes = {thread >> schema.PID_SHIFT & schema.ID_MASK for thread in threads}
        _check_owner(capture, "process", selection.processes, processes - {0})  # no program


def _check_owner(capture: Capture, owner: str, wanted: tuple[int, ...], present: set[int]) -> None:
    missing = ", ".join(str(number) for number in wanted if number not in present)
    if missing:
        plural = "GPUs" if owner == "GPU" else "processes"
        names = ", ".join(map(str, sorted(present))) or "none"
        raise NotInCapture(f"no {owner} {missing}", f"{plural}: {names}", source=capture.source)


def _owners(whole: Capture, field: str) -> set[int]:
    """Return the numbers in a field over all kinds of events."""
    kinds = [kind for kind, events in schema.EVENTS.items() if field in events.fields and whole.has(kind)]
    numbers = (set(np.unique(whole.columns(kind, field)[field]).tolist()) for kind in kinds)
    return set[int]().union(*numbers) - {MISSING}
