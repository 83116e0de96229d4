"""Read the origin of a capture (program, GPUs, versions) and the warnings of nsys."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.files import small_file, why
from nsyswrap.base.nsys.options import STEPS_DOMAIN
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import COLUMNS
from nsyswrap.base.run_folder import CONDITIONS, LAUNCHERS
from nsyswrap.capture import schema
from nsyswrap.capture.schema import FieldKind

if TYPE_CHECKING:
    from nsyswrap.capture.export import Export

Samples = dict[str, NDArray[Any]]  # by the names of COLUMNS, all of one length
_CUDA_TRACE = ":COLLECT_CUDA_TRACE"  # end of a name in the capture's metadata, for one process
_FORKS = "TRACE_AFTER_FORK_BEFORE_EXEC"
_FLAGS = {"true": True, "false": False}
_DIGITS = re.compile("[0-9]{1,18}")
_NUMBERS = re.compile("[0-9]{1,9}")
_PROCESS, _SIDES = "PROCESS_0:", ("CPU", "GPU")
_EVENT_TYPE = "CAPTURE_EVENT_TYPE"  # a row for each kind of event
_TRACES = {"Cuda": "cuda", "NvtxEvents": "nvtx", "OSRuntime": "osrt", "OpenMP": "openmp"}
_CUDA_SCOPE = "CUDA_TRACE_SCOPE"  # if nsys 2026 wrote this, the value above is always false


@dataclass(frozen=True)
class Info:
    """The origin of a capture; an empty string or None means that it is not recorded.

    ``duration_ns`` is also when recording ended, as times of events are from its beginning on.
    ``cuda_traced`` is True if nsys was to record CUDA in at least one process, ``forks_followed`` if it
    was to record processes without an exec of their own. ``kernel`` is the release of the operating
    system's kernel. ``trace`` names what was recorded as nsys' option does, ``graphs`` is graph or node,
    ``um_faults`` is True if page faults were recorded, ``delay_ms`` is how long nsys waited before it
    recorded.
    """

    command: tuple[str, ...]
    exporter_version: str
    schema_version: str
    gpus: tuple[str, ...]
    driver_version: str
    cuda_version: str
    started_utc: str
    duration_ns: int | None
    cuda_traced: bool | None
    forks_followed: bool | None
    kernel: str
    trace: tuple[str, ...]
    graphs: str
    um_faults: bool | None
    delay_ms: int | None


@dataclass(frozen=True)
class Diagnostic:
    """One warning of nsys in the export; ``loss`` means that CUDA events are missing, or may be."""

    text: str
    loss: bool


def read_info(export: Export) -> Info:
    """Read the origin of an export; fields that the export lacks stay empty."""
    metadata = {**_pairs(export, schema.EXPORT_METADATA[1]), **_pairs(export, schema.EXPORT_METADATA[0])}
    system = _pairs(export, schema.SYSTEM_ENV)
    version = system.get("CudaDriverVersion", "")
    cuda = int(version) if _DIGITS.fullmatch(version) else 0
    started = export.select(schema.SESSION_START, ("utcTime", "text"), required=False)
    duration = export.select(schema.ANALYSIS, ("duration", "optional amount"), required=False)
    gpus = export.select(schema.GPUS, ("id", "int"), ("name", "text"), required=False)
    rows = export.select(schema.CAPTURE_METADATA, ("name", "text"), ("value", "text"), required=False)
    kinds = {value for name, value in rows if name == _EVENT_TYPE and value}
    return Info(
        command=_command(export),
        exporter_version=metadata.get("EXPORT_PRODUCT_VERSION", ""),
        schema_version=metadata.get("EXPORT_SCHEMA_VERSION", ""),
        gpus=tuple(name for _, name in sorted((i, name) for i, name in gpus if None not in (i, name))),
        driver_version=_driver_version(system.get("NvDriverVersion", "")),
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        started_utc=started[0][0] or "" if started else "",
        duration_ns=duration[0][0] if duration else None,
        cuda_traced=_cuda_traced(export),
        forks_followed=_FLAGS.get(_pairs(export, schema.CAPTURE_METADATA).get(_FORKS, "")),
        kernel=system.get("SoftwareReleaseVersion", ""),
        trace=tuple(sorted(_TRACES.get(kind, kind.lower()) for kind in kinds)),
        **_options(_pairs(export, schema.CAPTURE_METADATA)),
    )


def unread_tables(export: Export) -> dict[str, int]:
    """Return the number of rows of each table with events that no report reads, by the table's name."""
    tables = export.tables
    known = {table for events in schema.EVENTS.values() for table in events.tables(tables)}
    timed = {name for name, columns in tables.items() if set(columns) & set(schema.TIME_COLUMNS)}
    cupti = {name for name in tables if name.startswith(schema.CAPTURE_MARKS[0])}  # not all have times
    counts = {name: export.count(name) for name in sorted((timed | cupti) - known)}
    return {name: count for name, count in counts.items() if count}


def newer_than_known(info: Info) -> str:
    """Return a note if an export is newer than all releases in ERAS; empty otherwise."""
    release, newest = schema.ERAS[-1]
    if tuple(map(int, _NUMBERS.findall(info.schema_version)[:2])) <= newest:
        return ""
    return (
        f"written by nsys {info.exporter_version} (schema {info.schema_version}), "
        f"newer than the last tested release ({release}); read as that release"
    )


def message_level(severity: int | None, text: str) -> Literal["loss", "warning", "info"]:
    """Return the level of a message of nsys; ``loss`` means that events are missing.

    The message that a process had no events of a kind is ``info``: it comes for each child without CUDA.
    """
    if severity not in schema.SEVERITY_WARNINGS or re.fullmatch(schema.ABSENCE_WARNING, text.strip()):
        return "info"
    return "loss" if re.search(schema.LOSS_WARNING, text) else "warning"


def read_diagnostics(export: Export) -> list[Diagnostic]:
    """Read the warnings of nsys, each once, those about lost events first.

    If nsys stops before the program ends, it warns that events might be missing. None are if the hook of
    ``profile --steps`` stopped it: it waits for all work of the GPU before. None are either if CUPTI has
    handed over all, as at the end of a recording of a server. Other events than CUDA's are missed by no
    figure, unless the export has fewer CUDA events than nsys counted.
    """
    table = schema.EVENTS["diagnostic"].table
    columns: tuple[tuple[str, FieldKind], ...] = (("timestamp", "int"), ("text", "text"), ("severity", "int"))
    rows = export.select(table, *columns, required=False)
    levels: dict[str, str] = {}
    for _, text, severity in sorted(rows, key=lambda row: (row[0] or 0, row[1] or "")):
        level = message_level(severity, text or "")
        if level != "info":
            levels.setdefault((text or "").strip().partition("\n")[0].strip(), level)
    stopped = {text for text in levels if re.match(schema.STOPPED_WARNING, text)}
    messages = [text or "" for _, text, _ in rows]
    whole = stopped and (_stopped_by_hook(export, messages) or _all_handed_over(export, messages))
    harmless = stopped if whole else set()
    others = {text for text in levels if re.search(schema.OTHER_LOSS, text)}
    if others and all_cuda_events(export) != 0:
        harmless |= others
    diagnostics = [
        Diagnostic(text, level == "loss" and text not in harmless) for text, level in levels.items()
    ]
    return sorted(diagnostics, key=lambda diagnostic: not diagnostic.loss)


def all_cuda_events(export: Export) -> int | None:
    """Return nsys' own count of CUDA events if the export has as many, else 0; None without a count."""
    export = getattr(export, "complete", export)  # of which a part can be here
    rows = export.select(schema.EVENTS["diagnostic"].table, ("text", "text"), required=False)
    counts = [match[1] for (text,) in rows if (match := re.match(schema.CUDA_COUNT, text or ""))]
    if not counts:
        return None
    counted = sum(int(count.replace(",", "")) for count in counts)
    exported = sum(export.count(schema.EVENTS[kind].table) for kind in schema.COUNTED)
    return counted if counted == exported else 0


def each_handed_over(messages: Iterable[tuple[int | None, str]]) -> bool:
    """Return True if CUPTI gave events of each process with CUDA, and nsys could import what it gave.

    Messages are process ids and texts.
    """
    messages = list(messages)
    if any(text.startswith(schema.IMPORT_ERROR) for _, text in messages):
        return False
    having, given = (
        Counter(process for process, text in messages if re.match(pattern, text))
        for pattern in (schema.CUDA_COUNT, schema.HANDED_OVER)
    )
    return bool(having) and having <= given


def _all_handed_over(export: Export, messages: Sequence[str]) -> bool:
    """Return True if CUPTI gave all events of each process with CUDA, and the export has them."""
    if any(re.search(schema.NOT_HANDED_OVER, text) for text in messages):
        return False
    table = schema.EVENTS["diagnostic"].table
    processes = export.select(table, ("globalPid", "int"), required=False) or [(None,)] * len(messages)
    of_each = ((process, text) for (process,), text in zip(processes, messages, strict=True))
    return each_handed_over(of_each) and bool(all_cuda_events(export))


def _stopped_by_hook(export: Export, messages: Sequence[str]) -> bool:
    if schema.STOPPED not in messages:
        return False
    columns: tuple[tuple[str, FieldKind], ...] = (("eventType", "int"), ("text", "text"))
    return (schema.NVTX_DOMAIN, STEPS_DOMAIN) in export.select(
        schema.EVENTS["nvtx"].table, *columns, required=False
    )


def _command(export: Export) -> tuple[str, ...]:
    """Return the program's command line, without the launcher that `nsyswrap profile` puts before it."""
    metadata = _pairs(export, schema.CAPTURE_METADATA)
    prefix = schema.ARGUMENT_PREFIX
    numbers = sorted(int(end) for name in metadata if _DIGITS.fullmatch(end := name.removeprefix(prefix)))
    argv = [
        metadata[name] for name in (schema.COMMAND, *(f"{prefix}{n}" for n in numbers)) if name in metadata
    ]
    launcher = next((i for i, argument in enumerate(argv) if Path(argument).name in LAUNCHERS), None)
    return tuple(argv if launcher is None else argv[launcher + 2 :])


def _cuda_traced(export: Export) -> bool | None:
    metadata = _pairs(export, schema.CAPTURE_METADATA)
    values = {value for name, value in metadata.items() if name.endswith(_CUDA_TRACE)}
    return "true" in values if values and _CUDA_SCOPE not in metadata else None


def _options(metadata: Mapping[str, str]) -> dict[str, Any]:
    faults = [_FLAGS.get(metadata.get(f"{_PROCESS}COLLECT_UVM_{side}_PAGE_FAULTS", "")) for side in _SIDES]
    delay = metadata.get("START_DELAY_MS", "")
    return {
        "graphs": metadata.get(f"{_PROCESS}CUDA_GRAPH_TRACE_OPTIONS:MODE", "").lower(),
        "um_faults": None if None in faults else any(faults),
        "delay_ms": int(delay) if _DIGITS.fullmatch(delay) else None,
    }


def _pairs(export: Export, table: str) -> dict[str, str]:
    rows = export.select(table, ("name", "text"), ("value", "text"), required=False)
    return {name: value for name, value in rows if None not in (name, value)}


def _driver_version(text: str) -> str:
    """Return 525.105.17 for 52510517, the form of exports before 2023; 0 stands for no driver."""
    if not _DIGITS.fullmatch(text):
        return text
    parts = re.fullmatch(r"(...)(.+)(..)", text)
    return ".".join(parts.groups()) if parts else ""


MOST_BYTES = 64 * 2**20  # five hours of eight GPUs
_EXACT = 2**53  # below it floats hold each integer


def read_samples(folder: Path, gpus: int) -> Samples:
    """Return the samples of a run folder by column, in order of time. NaN: not reported.

    ``gpus`` is the number of GPUs in the run's conditions. Times are in ns since 1970 UTC, exact to 1 us.
    Raises CaptureError with the reason if the file is missing, too large or damaged.
    """
    try:
        content = small_file(folder / CONDITIONS, MOST_BYTES)
        rows = _rows(content[: content.rfind(b"\n") + 1])  # a run that was killed can leave a part of a line
        _check(rows, gpus)
    except (OSError, ValueError) as error:
        raise CaptureError(f"{CONDITIONS} cannot be read: {why(error)}") from None
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return dict(zip(COLUMNS, rows.T, strict=True))


def _rows(content: bytes) -> NDArray[Any]:
    """Return the columns of COLUMNS, a row for each sample. Raises ValueError."""
    head, _, body = content.decode("ascii").partition("\n")
    names = head.strip().split(",")
    if missing := [name for name in COLUMNS if name not in names]:
        raise ValueError(f"no column {missing[0]}")
    body = body.replace("\r", "").replace(",,", ",nan,").replace(",,", ",nan,").replace(",\n", ",nan\n")
    if not body.strip():
        return np.empty((0, len(COLUMNS)))
    columns = [names.index(name) for name in COLUMNS]
    try:
        return np.loadtxt(io.StringIO(body), delimiter=",", comments=None, usecols=columns, ndmin=2)
    except ValueError:  # numpy quotes the cell
        raise ValueError("not a table of numbers") from None


def _check(rows: NDArray[Any], gpus: int) -> None:
    """Raise ValueError for what no GPU reports: negative and infinite values, and an unknown GPU."""
    time, gpu, reasons = rows[:, 0], rows[:, 1], rows[:, -1]
    known = rows[~np.isnan(rows)]
    if not (np.isfinite(known) & (known >= 0)).all() or (reasons >= _EXACT).any():
        raise ValueError("a value is out of range")
    if np.isnan(time).any() or not np.isin(gpu, np.arange(gpus)).all():
        raise ValueError("a sample has no time, or no GPU of this run")
