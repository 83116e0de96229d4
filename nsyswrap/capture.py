"""A capture: one nsys export, opened, in the field's terms."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nsyswrap import nsys, schema
from nsyswrap.errors import NotACapture, NotInCapture, UsageError
from nsyswrap.folder import EXPORT, LAUNCHER, REPORT, STATUS, RunFolder
from nsyswrap.reader import NULL, Export

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from nsyswrap.report import Table
    from nsyswrap.units import Rounding

KernelNames = Literal["full", "base", "mangled"]
_NAME_FIELDS = {"full": "name", "base": "base_name", "mangled": "mangled_name"}


@dataclass(frozen=True)
class Info:
    """Where a capture comes from; an empty string or None means that the export does not say."""

    command: tuple[str, ...]
    exporter_version: str
    schema_version: str
    gpus: tuple[str, ...]
    driver_version: str
    cuda_version: str
    started_utc: str
    duration_ns: int | None


@dataclass(frozen=True)
class Diagnostic:
    """One message nsys left in the export; ``loss`` says that events are missing from it."""

    text: str
    loss: bool


class Capture:
    """One export, read-only. ``names`` picks how kernels are called, as nsys' ``:base`` and ``:mangled``."""

    def __init__(self, path: Path, names: KernelNames = "full", source: Path | None = None) -> None:
        """Open the SQLite export at ``path``; ``source`` is what it came from, and what messages name.

        Raises CaptureError with what is wrong with it.
        """
        self.path = path
        self.source = source or path
        self.names: KernelNames = names
        self._export = Export(path)

    def has(self, kind: str) -> bool:
        """Whether there is at least one event of this kind."""
        return self.count(kind) > 0

    def count(self, kind: str) -> int:
        """Return the number of events; a table that is missing and one that is empty both count 0."""
        return self._export.count(_events(kind).table)

    def columns(self, kind: str, *fields: str) -> dict[str, NDArray[Any]]:
        """Return fields as read-only int64 arrays (``reader.NULL``: missing), in row order.

        Texts are object arrays; names are StringIds ids. Raises NotInCapture with what would collect it.
        """
        events = _events(kind)
        present = self._export.tables.get(events.table)
        if present is None:
            raise NotInCapture(
                f"{self.source}: no {events.title} in this capture", f"collect with {events.collect}"
            )
        found = {field: self._column(events, field, present) for field in fields}
        arrays = self._export.columns(
            events.table, [(name, events.fields[field].kind) for field, name in found.items() if name]
        )
        read = dict(zip((field for field, name in found.items() if name), arrays, strict=True))
        rows = self.count(kind)
        return {field: read[field] if field in read else np.full(rows, NULL) for field in fields}

    def name_ids(self, kind: str) -> NDArray[Any]:
        """Return the StringIds ids of the events' names; for kernels, in the chosen form.

        Like nsys: a missing base or mangled name falls back to the demangled one.
        """
        ids = self.columns(kind, "name")["name"]
        if kind != "kernel" or self.names == "full":
            return ids
        chosen = self.columns(kind, _NAME_FIELDS[self.names])[_NAME_FIELDS[self.names]]
        return np.where(chosen == NULL, ids, chosen)

    def text(self, string_id: int) -> str | None:
        """Return the text of a StringIds id, or None where the export lacks it."""
        return self._export.strings.get(string_id)

    def events(self, kind: str) -> pd.DataFrame:
        """Return all events of one kind as a DataFrame in the field's terms, in row order.

        Times are ns since the start of the capture, ids are integers, names are text.
        ``process_id`` and ``thread_id`` are taken out of nsys' global ids.
        """
        from nsyswrap.frames import events_frame  # noqa: PLC0415 - pandas costs more than a small report

        return events_frame(self, kind, _events(kind).fields)

    def report(self, name: str, *, rounding: Rounding = "2025") -> Table:
        """Make one report by name; ``.frame`` of the result is a DataFrame of unrounded values."""
        # Reports stand above captures: looked up by name, at call time.
        made: Table = importlib.import_module("nsyswrap.reports").find(name).make(self, rounding)
        return made

    @cached_property
    def copy_labels(self) -> dict[int, str]:
        """Labels by copyKind, from the export, or from the built-in map where it has none."""
        table = schema.COPY_KIND_TABLE
        if not self._export.count(table):
            return schema.COPY_KINDS
        return {int(i): str(label) for i, label in self._export.rows(f"SELECT id, label FROM {table}")}  # noqa: S608

    @cached_property
    def info(self) -> Info:
        """What recorded this capture and on which GPU."""
        export = {**self._pairs(schema.EXPORT_METADATA[1]), **self._pairs(schema.EXPORT_METADATA[0])}
        system = self._pairs(schema.SYSTEM_ENV)
        said = system.get("CudaDriverVersion", "")
        cuda = int(said) if said.isdigit() else 0
        start = self._first(schema.SESSION_START, "utcTime")
        return Info(
            command=self._command(),
            exporter_version=export.get("EXPORT_PRODUCT_VERSION", ""),
            schema_version=export.get("EXPORT_SCHEMA_VERSION", ""),
            gpus=tuple(str(name) for _, name in sorted(self._select(schema.GPUS, "id", "name"))),
            driver_version=_driver_version(system.get("NvDriverVersion", "")),
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
            started_utc=str(start or ""),
            duration_ns=self._first(schema.ANALYSIS, "duration"),
        )

    @cached_property
    def diagnostics(self) -> list[Diagnostic]:
        """Warnings nsys left (2024.2 and newer), those about lost events first; absences are left out."""
        if not self.has("diagnostic"):
            return []
        events = self.columns("diagnostic", "severity", "text")
        texts = [
            str(text).strip().partition("\n")[0].strip()
            for severity, text in zip(events["severity"], events["text"], strict=True)
            if severity >= schema.SEVERITY_WARNING
            and not re.fullmatch(schema.ABSENCE_WARNING, str(text).strip())
        ]
        found = [
            Diagnostic(text, bool(re.search(schema.LOSS_WARNING, text))) for text in dict.fromkeys(texts)
        ]
        return sorted(found, key=lambda diagnostic: not diagnostic.loss)

    def _command(self) -> tuple[str, ...]:
        """The program as it was started: without the launcher `nsyswrap profile` puts before it."""
        said = self._pairs(schema.CAPTURE_METADATA)
        prefix = schema.ARGUMENT_PREFIX
        numbers = sorted(int(end) for name in said if (end := name.removeprefix(prefix)).isdigit())
        argv = [said[name] for name in (schema.COMMAND, *(f"{prefix}{n}" for n in numbers)) if name in said]
        launcher = next((i for i, argument in enumerate(argv) if Path(argument).name == LAUNCHER), None)
        return tuple(argv if launcher is None else argv[launcher + 2 :])

    def _column(self, events: schema.Events, field: str, present: list[str]) -> str | None:
        spec = events.fields[field]
        name = next((column for column in spec.columns if column in present), None)
        if name is None and spec.required:
            raise NotInCapture(
                f"{self.source}: {events.table} has no column {spec.columns[0]}: the file was trimmed",
                "export the .nsys-rep again with `nsys export`",
            )
        return name

    def _pairs(self, table: str) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._select(table, "name", "value")}

    def _first(self, table: str, column: str) -> Any:  # noqa: ANN401 - a cell of SQLite
        rows = self._select(table, column)
        return rows[0][0] if rows else None

    def _select(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Rows of a small table; none where the table or a column is missing."""
        if not set(columns) <= set(self._export.tables.get(table, ())):
            return []
        return self._export.rows(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - names of schema.py


def open_capture(path: str | Path, *, names: KernelNames = "full") -> Capture:
    """Open a ``.sqlite`` export, a ``.nsys-rep`` (exported into the cache first) or a run folder."""
    path = Path(path)
    if path.is_dir():
        return Capture(_export_of(path), names, path)
    if path.suffix in (".nsys-rep", ".qdrep"):
        return Capture(nsys.cached_export(path), names, path)
    return Capture(path, names)


def _events(kind: str) -> schema.Events:
    if kind not in schema.EVENTS:
        raise UsageError(f"there is no kind of event {kind!r}", f"kinds: {' '.join(schema.EVENTS)}")
    return schema.EVENTS[kind]


def _driver_version(said: str) -> str:
    """Write 52510517, as exports before 2023 do, as 525.105.17; 0 stands for no driver."""
    if not said.isdigit():
        return said
    return f"{said[:3]}.{said[3:-2]}.{said[-2:]}" if len(said) > 5 else ""  # noqa: PLR2004


def _export_of(folder: Path) -> Path:
    export = folder / EXPORT
    if export.exists():
        return export
    if (folder / REPORT).exists():
        return nsys.cached_export(folder / REPORT)
    if (folder / STATUS).exists():
        status = RunFolder(folder).read_status()
        raise NotACapture(
            f"{folder} is a run without an export (outcome: {status.outcome})", f"see {folder}/nsys.log"
        )
    raise NotACapture(
        f"{folder} is no run folder: it has no {EXPORT}", "give a run folder, a .sqlite or a .nsys-rep"
    )
