"""Tiny exports from plain rows: small enough that what a report says of them can be worked out on paper.

``write(path, kernel("add", 0, 50), call("cudaLaunchKernel", 0, 10))`` makes an SQLite file with the tables
its rows need and the columns its rows name, typed as nsys 2025 types them. Where nsys keeps the id of a
string a row may give the text itself (bytes: text that is no UTF-8), or an id from ``strings``.
"""

import sqlite3
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from nsyswrap.api import CaptureReader
from nsyswrap.capture import schema
from nsyswrap.capture.selection import KernelNames

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
API = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"
DIAGNOSTIC = "DIAGNOSTIC_EVENT"
UM_CPU_FAULT = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
UM_GPU_FAULT = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
OSRT = "OSRT_API"
OPENMP = "OPENMP_EVENT_KIND_PARALLEL"
OPENACC = "CUPTI_ACTIVITY_KIND_OPENACC_DATA"
MPI_P2P = "MPI_P2P_EVENTS"
MPI_START_WAIT = "MPI_START_WAIT_EVENTS"
MPI_OTHER = "MPI_OTHER_EVENTS"
MPI_COLLECTIVE = "MPI_COLLECTIVES_EVENTS"
MEMORY_USE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
GPU_METRICS, GPU_METRIC_NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_SM, _MOVED = ("SMs Active", "SM Issue", "Tensor Active"), ("DRAM Read Bandwidth", "DRAM Write Bandwidth")
METRICS = tuple(
    f"{name} [Throughput %]" for name in (*_SM, *_MOVED, "PCIe RX Throughput", "PCIe TX Throughput")
)
COPY_KINDS = "ENUM_CUDA_MEMCPY_OPER"
MEM_KINDS = "ENUM_CUDA_MEM_KIND"

# Kinds that only options of nsys record.
ON_REQUEST = ("plugin_sample", "plugin_value", "plugin_field")

PID = 100  # of every row that names no other
_FIRST_ID = 1000  # of the texts that rows give themselves

_NAMES = ("demangledName", "shortName", "mangledName", "nameId")
_STRING_COLUMNS = (
    *(*_NAMES, "textId", "contentId", "filenameId", "module"),
    *("CpuInstruction", "sourceFile", "srcFile", "funcName", "varName", "fieldNameId"),
)
_TEXT_COLUMNS = ("value", "text", "name", "label", "utcTime", "filename", "metricName")
_EVENT = ("start", "end")
_ON_GPU = (*_EVENT, "deviceId", "contextId", "streamId", "correlationId", "globalPid", "greenContextId")
_CALL = (*_EVENT, "globalTid", "nameId")
_MPI_CALL = (*_EVENT, "globalTid", "textId")
# What an empty table holds: the columns every nsys writes.
_COLUMNS = {
    KERNEL: (*_ON_GPU, "demangledName", "shortName", "mangledName"),
    MEMCPY: (*_ON_GPU, "bytes", "copyKind"),
    MEMSET: (*_ON_GPU, "bytes", "memKind"),
    GRAPH: (*_ON_GPU, "graphId", "graphExecId"),
    API: (*_EVENT, "eventClass", "globalTid", "correlationId", "nameId", "returnValue"),
    NVTX: (*_EVENT, "eventType", "text", "globalTid", "textId", "domainId"),
    DIAGNOSTIC: ("timestamp", "severity", "text", "globalPid"),
    UM_CPU_FAULT: ("start", "globalPid", "address", "CpuInstruction"),
    UM_GPU_FAULT: (*_EVENT, "globalPid", "deviceId", "address", "numberOfPageFaults"),
    MEMORY_USE: ("start", "address", "bytes", "memKind", "memoryOperationType", "globalPid", "deviceId"),
    GPU_METRICS: ("timestamp", "typeId", "metricId", "value"),
    GPU_METRIC_NAMES: ("typeId", "metricId", "metricName"),
    OSRT: (*_CALL, "eventClass"),
    OPENMP: _CALL,
    OPENACC: _CALL,
    MPI_P2P: (*_MPI_CALL, "size", "tag", "remoteRank"),
    MPI_START_WAIT: _MPI_CALL,
    MPI_OTHER: _MPI_CALL,
    MPI_COLLECTIVE: (*_MPI_CALL, "size", "recvSize", "rootRank"),
}


class Row(NamedTuple):
    """One row of one table."""

    table: str
    cells: dict[str, object]


def changed(one: Row, **cells: object) -> Row:
    """Return a row with other values in these cells."""
    return Row(one.table, {**one.cells, **cells})


def global_id(pid: int, tid: int = 0, hardware: int = 1) -> int:
    """A process or thread as nsys numbers it; SQLite keeps what is above 2^63 as a negative number."""
    number = hardware << 56 | pid << 24 | tid
    return number - (1 << 64) if number >= 1 << 63 else number


def row(table: str, **cells: object) -> Row:
    return Row(table, cells)


def kernel(
    name: str | bytes | int,
    start: int,
    end: int,
    correlation: int | None = 0,
    *,
    pid: int = PID,
    **more: object,
) -> Row:
    names = {"demangledName": name, "shortName": name, "mangledName": name}
    shape = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1)
    return Row(KERNEL, {**_gpu_operation(start, end, correlation, pid), **names, **shape, **more})


def call(  # noqa: PLR0913 - what a call is known by
    name: str | bytes | int,
    start: int,
    end: int,
    correlation: int | None = 0,
    *,
    pid: int = PID,
    tid: int = 0,
    **more: object,
) -> Row:
    thread = global_id(pid, tid or pid)
    cells = {"eventClass": 0, "globalTid": thread, "correlationId": correlation, "nameId": name}
    return Row(API, {"start": start, "end": end, **cells, "returnValue": 0, **more})


def graph(start: int, end: int, correlation: int, **more: object) -> Row:
    return Row(
        GRAPH, {**_gpu_operation(start, end, correlation, PID), "graphId": 1, "graphExecId": 2, **more}
    )


def memcpy(kind: int, start: int, end: int, size: int, **more: object) -> Row:
    cells = {**_gpu_operation(start, end, 0, PID), "bytes": size, "copyKind": kind}
    return Row(MEMCPY, {**cells, "srcDeviceId": None, "dstDeviceId": None, **more})


def memset(start: int, end: int, size: int, **more: object) -> Row:
    cells = {**_gpu_operation(start, end, 0, PID), "bytes": size, "memKind": 2, "value": 0}
    return Row(MEMSET, {**cells, **more})


def nvtx(text: str | None, start: int, end: int | None, tid: int = PID, **more: object) -> Row:
    cells = {"text": text, "textId": None, "eventType": 59, "domainId": 0, "endGlobalTid": None}
    return Row(NVTX, {"start": start, "end": end, "globalTid": global_id(PID, tid), **cells, **more})


def diagnostic(text: str, severity: int = 2) -> Row:
    return Row(DIAGNOSTIC, {"timestamp": 0, "severity": severity, "text": text, "globalPid": global_id(PID)})


def domain(name: str | None, number: int | None, *, pid: int = PID, tid: int = 0, **more: object) -> Row:
    """The creation of an NVTX domain: its ranges carry the number."""
    cells = {"start": 0, "end": None, "eventType": 75, "text": name, "textId": None, "domainId": number}
    return Row(NVTX, {**cells, "globalTid": global_id(pid, tid or pid), **more})


def on_cpu(table: str, name: str | int, start: int, end: int, tid: int = PID, **more: object) -> Row:
    """A call traced on the CPU: of the OS runtime, OpenMP, OpenACC, MPI."""
    names = "textId" if table.startswith("MPI_") else "nameId"
    more = {"eventClass": 27, **more} if table == OSRT else more
    return Row(table, {"start": start, "end": end, "globalTid": global_id(PID, tid), names: name, **more})


def um_cpu_fault(address: int, start: int, **more: object) -> Row:
    cells = {"start": start, "globalPid": global_id(PID), "address": address, "CpuInstruction": "main"}
    return Row(UM_CPU_FAULT, {**cells, "sourceFile": "add.cu", "sourceLine": 7, **more})


def um_gpu_fault(address: int, start: int, end: int, faults: int = 1, **more: object) -> Row:
    cells = {"globalPid": global_id(PID), "deviceId": 0, "address": address, "numberOfPageFaults": faults}
    return Row(UM_GPU_FAULT, {"start": start, "end": end, **cells, **more})


def allocation(address: int, start: int, size: int, **more: object) -> Row:
    """Memory that is allocated on a GPU, or freed with ``memoryOperationType=1``."""
    cells = {"globalPid": global_id(PID), "deviceId": 0, "memKind": 2, "memoryOperationType": 0}
    return Row(MEMORY_USE, {"start": start, "address": address, "bytes": size, **cells, **more})


def metric(name: str, number: int, *values: int, gpu: int = 0, every: int = 10) -> list[Row]:
    """A metric of a GPU, sampled at these distances from time 0 on."""
    key = {"typeId": 1 << 40 | gpu, "metricId": number}
    samples = [row(GPU_METRICS, timestamp=i * every, value=value, **key) for i, value in enumerate(values)]
    return [row(GPU_METRIC_NAMES, metricName=name, **key), *samples]


def nvml_samples(*samples: tuple[int, int], type_id: int = 7, every: int = 10) -> list[Row]:
    """Power in W and temperature in \N{DEGREE SIGN}C as nsys' NVML plugin samples them, from time 0 on."""
    names = [
        row("GENERIC_EVENT_TYPE_FIELDS", typeId=type_id, fieldIdx=field, fieldNameId=name)
        for field, name in enumerate(("Power", "Temperature"))
    ]
    events, values = [], []
    for i, sample in enumerate(samples):
        key = {"genericEventId": 1000 * type_id + i}
        events.append(row("GENERIC_EVENTS", timestamp=i * every, typeId=type_id, **key))
        values += [
            row("GENERIC_EVENT_DATA", fieldIdx=field, intVal=None, uintVal=value, **key)
            for field, value in enumerate(sample)
        ]
    return [*names, *events, *values]


def python_stack(start: int) -> Row:
    """The call stack of Python that nsys takes as a call begins; without a text, its frame has no name."""
    data = struct.pack("<4Q Q2I 2QI4x", 1, 5, 40, 32, 1, 1, 1, 2**40, 2**40, 3)
    return nvtx(None, start, None, eventType=34, domainId=1, binaryData=data)


def enums() -> list[Row]:
    """What nsys' numbers mean, as exports from 2022.4 on say."""
    return [
        row(table, id=i, name=label, label=label)
        for table, labels in schema.ENUMS.values()
        for i, label in labels.items()
    ]


def everything() -> list[Row]:
    """Rows of every kind but ON_REQUEST, in which each report finds something and each rule has something."""
    thread = global_id(PID, PID)
    return [
        *(*_launches(), *_copies(), *enums()),
        *(nvtx("step", 0, 100), nvtx("part", 0, 20, domainId=1), domain("library", 1)),
        nvtx("job", 10, 90, eventType=60),
        python_stack(40),
        nvtx('nsyswrap.measure {"name":"step","host_ns":95,"cuda_ns":60}', 101, None, eventType=34),
        *(um_cpu_fault(4096, 5), um_gpu_fault(4096, 15, 18)),
        *(line for number, name in enumerate(METRICS) for line in metric(name, number, *[50] * 40)),
        *(allocation(1, 3, 64, correlationId=3), allocation(1, 90, 64, memoryOperationType=1)),
        on_cpu(OSRT, "poll", 0, 90, tid=101),
        on_cpu(OPENMP, "Parallel", 20, 80),
        on_cpu(OPENACC, "Enter Data", 20, 80, eventKind=1, srcFile="add.c", lineNo=3),
        on_cpu(MPI_P2P, "MPI_Send", 20, 30, size=8, tag=1, remoteRank=1),
        on_cpu(MPI_START_WAIT, "MPI_Wait", 30, 40),
        on_cpu(MPI_OTHER, "MPI_Init", 0, 10),
        on_cpu(MPI_COLLECTIVE, "MPI_Reduce", 40, 50, size=8, recvSize=16, rootRank=0),
        row("MPI_RANKS", globalTid=thread, rank=0),
        row("ThreadNames", nameId="python", priority=20, globalTid=thread),
        row("TARGET_INFO_GPU", id=0, name="GPU", smCount=10, memoryBandwidth=10**12, l2CacheSize=10**6),
        row("PROFILER_OVERHEAD", start=0, end=1, globalTid=thread, nameId="CUDA profiling"),
        *(diagnostic("the clock was adjusted"), diagnostic("Not all CUDA events might have been collected.")),
    ]


def _launches() -> list[Row]:
    """Three kernels and a graph; between the kernels the GPU idles for so long that rules say so."""
    late = 600_000_000
    uses = {"registersPerThread": 16, "staticSharedMemory": 0, "dynamicSharedMemory": 64, "greenContextId": 2}
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("k", 20, 30, 1, **uses)),
        *(call("cudaLaunchKernel", 40, 50, 2), kernel("k", late, late + 20, 2, **uses)),
        *(
            call("cudaLaunchKernel", 2 * late, 2 * late + 10, 8),
            kernel("k", 2 * late + 20, 2 * late + 40, 8, **uses),
        ),
        *(call("cudaGraphLaunch", 50, 60, 6), graph(65, 70, 6, streamId=8)),
        *(call("cudaLaunchKernel", 51, 55, 9), kernel("ncclDevKernel_AllReduce()", 68, 80, 9, **uses)),
        call("cudaDeviceSynchronize", 60, 90, 7),
    ]


def _copies() -> list[Row]:
    """Copies and a memset as the rules do not want them, and the migrations of one address."""
    kinds = {"srcKind": 0, "dstKind": 2, "greenContextId": 2}
    return [
        *(call("cudaMemcpyAsync", 2, 4, 3), memcpy(1, 5, 10, 1000, correlationId=3, **kinds)),
        *(call("cudaMemcpy", 11, 18, 4), memcpy(1, 12, 17, 100_000, correlationId=4, **kinds)),
        *(call("cudaMemset", 25, 29, 5), memset(26, 28, 10, memKind=4, correlationId=5, greenContextId=2)),
        memset(28, 29, 10),
        memcpy(11, 20, 25, 4096, virtualAddress=4096, migrationCause=2),
        memcpy(12, 30, 35, 4096, virtualAddress=4096, migrationCause=2),
    ]


_written: dict[str, bytes] = {}  # exports by what was asked for, the last ones
_KEPT, _LONG = 100, 200_000


def write(
    path: Path,
    *rows: Row,
    strings: Mapping[int, str | bytes] | None = None,
    empty: Iterable[str] = (),
    without: Iterable[str] = (),
) -> Path:
    """Write an export: ``empty`` tables hold no row; the columns in ``without`` are in none."""
    empty, without = [*empty], sorted(without)
    asked = repr((rows, strings, empty, without))
    if asked in _written and not path.exists():
        path.write_bytes(_written[asked])
        return path
    ids = {text: i for i, text in (strings or {}).items()}
    tables: dict[str, list[dict[str, object]]] = {table: [] for table in empty}
    for table, cells in rows:
        tables.setdefault(table, []).append(_interned(cells, ids))
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous=OFF")  # nothing waits for the disk
    db.execute("BEGIN")
    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    for i, text in {**(strings or {}), **{i: text for text, i in ids.items()}}.items():
        raw = text if isinstance(text, bytes) else text.encode()
        db.execute("INSERT INTO StringIds VALUES (?, CAST(? AS TEXT))", (i, raw))
    for table, contents in tables.items():
        _fill(db, table, contents, set(without))
    db.execute("COMMIT")
    db.close()
    if len(asked) < _LONG:  # many tests write the same one
        _written[asked] = path.read_bytes()
        if len(_written) > _KEPT:
            del _written[next(iter(_written))]
    return path


def opened(folder: Path, *rows: Row, names: KernelNames = "full", **options: object) -> CaptureReader:
    """Write an export into ``folder`` and open it."""
    return CaptureReader(write(folder / "tiny.sqlite", *rows, **options), names)  # type: ignore[arg-type]


def _gpu_operation(start: int, end: int, correlation: int | None, pid: int) -> dict[str, object]:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7}
    return {"start": start, "end": end, **place, "correlationId": correlation, "globalPid": global_id(pid)}


def _interned(cells: Mapping[str, object], ids: dict[str | bytes, int]) -> dict[str, object]:
    """Replace the texts of string columns by their ids, new ones in order of appearance."""
    return {
        column: ids.setdefault(cell, _FIRST_ID + len(ids))
        if column in _STRING_COLUMNS and isinstance(cell, (str, bytes))
        else cell
        for column, cell in cells.items()
    }


def _fill(
    db: sqlite3.Connection, table: str, rows: Iterable[Mapping[str, object]], without: set[str]
) -> None:
    rows = list(rows)
    named = [column for cells in rows for column in cells] or _COLUMNS[table]
    columns = [column for column in dict.fromkeys(named) if column not in without]
    typed = (f'"{column}" {_type(table, column)}' for column in columns)
    db.execute(f'CREATE TABLE "{table}" ({", ".join(typed)})')
    marks = ", ".join("?" * len(columns))
    values = [tuple(cells.get(column) for column in columns) for cells in rows]
    db.executemany(f'INSERT INTO "{table}" VALUES ({marks})', values)  # noqa: S608 - names of this file


def _type(table: str, column: str) -> str:
    """Keys as in real exports: where there is none, SQLite goes through the rows in another order."""
    if table.startswith("ENUM_") and column == "id":
        return "INTEGER PRIMARY KEY"
    if column == "value" and table in (MEMSET, GPU_METRICS):
        return "INTEGER"
    return "TEXT" if column in _TEXT_COLUMNS else "INTEGER"
