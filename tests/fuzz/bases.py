"""Small well-formed exports as bytes, made once: what the mutations start from."""

import lzma
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import tiny_export as tiny
from tiny_export import Row, row

PROCESSES = (100, 4242)
# Exporter, its schema, its table of metadata, and the columns and tables that it did not write.
_ENUMS = ("ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND", "ENUM_CUDA_UNIF_MEM_MIGRATION")
_GREEN = ("greenContextId", "copyCount")
ERAS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "2021": (
        "",
        "",
        ("mangledName", "virtualAddress", "migrationCause", *_GREEN),
        (*_ENUMS, "DIAGNOSTIC_EVENT", "ANALYSIS_DETAILS"),
    ),
    "2022.4.2.1": ("EXPORT_META_DATA", "3.0.0", _GREEN, ("DIAGNOSTIC_EVENT",)),
    "2023.3.1.92": ("META_DATA_EXPORT", "3.4.0", _GREEN, ("DIAGNOSTIC_EVENT",)),
    "2025.3.2.0": ("META_DATA_EXPORT", "3.20.3", (), ()),
    "2026.2.1.0": ("META_DATA_EXPORT", "3.25.0", (), ()),
}
_KERNELS = (
    "void gemm<float, 128>(float const*, float*, int)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "elementwise(int, é*)",
    "cudnn::fprop, v2",
    "a",
    "B",
)
_SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_RECORDED = ("graphs/nodes", "copies/faults", "ddp/even")
_KEPT_ROWS = 40  # of each table of a recorded export
_SMALL_PAGE = 512
_LONG = 0.15


@cache
def bases() -> dict[str, bytes]:
    """Return the exports by name. Those that begin with ``long`` have at least 40 leaf pages a main table."""
    with tempfile.TemporaryDirectory(prefix="nsyswrap-fuzz-") as folder:
        path = Path(folder, "base.sqlite")
        made = {"everything": _written(path, tiny.everything(), 1024)}
        for era in ERAS:
            made[f"era {era}"] = _written(path, program(36, era), 1024, ERAS[era][2])
        made["long 2025"] = _written(path, program(400, "2025.3.2.0"), _SMALL_PAGE)
        made["long 2022"] = _written(path, program(330, "2022.4.2.1"), _SMALL_PAGE, _GREEN)
        made["default page size"] = _written(path, program(60, "2025.3.2.0"), 4096)
        for name in _RECORDED:
            made[f"recorded {name}"] = _trimmed(path, name)
    return made


def any_base(random: random.Random) -> tuple[str, bytes]:
    """Return an export and its name; seldom a long one, which takes longer."""
    is_long = random.random() < _LONG
    name = random.choice([name for name in bases() if name.startswith("long") == is_long])
    return name, bases()[name]


def program(launches: int, era: str) -> list[Row]:
    """Return the rows of a program of two processes, GPUs and streams that does everything nsys traces."""
    table, schema, _, absent = ERAS[era]
    rows = [*_surroundings(), *tiny.enums()]
    for number in range(launches):
        rows += _launch(number)
    if table:
        versions = {"EXPORT_PRODUCT_VERSION": era, "EXPORT_SCHEMA_VERSION": schema}
        rows += [row(table, name=name, value=value) for name, value in versions.items()]
    return [one for one in rows if one.table not in absent]


def _launch(number: int) -> Iterator[Row]:
    """One launch and what belongs to it; the numbers vary so that no two reports have the same sums."""
    start, pid, device = 1_000_000 + 10_000 * number, PROCESSES[number % 2], number % 2
    place: dict[str, Any] = {"deviceId": device, "contextId": 1 + device, "streamId": (7, 13)[number % 3 % 2]}
    place["greenContextId"] = 2 * (number % 5 == 0)
    name = _KERNELS[number * number % len(_KERNELS)]
    yield tiny.call("cudaLaunchKernel_v7000", start, start + 3000 + number % 7, number, pid=pid)
    more = {**place, **dict.fromkeys(_SHAPE, 1 + number % 4), "shortName": name.partition("(")[0]}
    more |= {"mangledName": f"_Z{number % 6}", "registersPerThread": 16 + number % 3, "graphNodeId": None}
    more |= {"staticSharedMemory": 0, "dynamicSharedMemory": 1024 * (number % 2)}
    yield tiny.kernel(name, start + 4000, start + 5000 + number * 37 % 3001, number, pid=pid, **more)
    kinds: dict[str, Any] = {
        "srcKind": number % 2,
        "dstKind": 2,
        "srcDeviceId": device,
        "dstDeviceId": 1 - device,
    }
    kinds |= {"virtualAddress": None, "migrationCause": None, "graphNodeId": None, "copyCount": 1}
    process = tiny.global_id(pid)
    if number % 3 == 0:
        kind, correlation = (1, 2, 8, 10)[number % 4], 100_000 + number
        yield tiny.call("cudaMemcpyAsync_v3020", start + 3100, start + 3900, correlation, pid=pid)
        where = {**place, **kinds, "globalPid": process, "correlationId": correlation}
        yield tiny.memcpy(kind, start + 6000, start + 7000 + number, 4096 * number + 3, **where)
    if number % 5 == 0:
        correlation = 200_000 + number
        yield tiny.call("cudaMemsetAsync_v3020", start + 3920, start + 3950, correlation, pid=pid)
        where = {**place, "globalPid": process, "correlationId": correlation, "graphNodeId": None}
        yield tiny.memset(start + 8000, start + 8100 + number, 512 * number, **where)
    if number % 7 == 0:
        where = {**kinds, "srcKind": 7, "dstKind": 7, "contextId": 0, "streamId": 0, "greenContextId": None}
        where |= {"virtualAddress": 0x7F00_0000 + 65536 * number, "migrationCause": 1 + number % 4}
        yield tiny.memcpy(11 + number % 2, start + 8200, start + 8300 + number, 65536, **where)
    if number % 11 == 0:
        yield tiny.call("cudaGraphLaunch_v10000", start + 8500, start + 8600, 300_000 + number, pid=pid)
        yield tiny.graph(start + 8700, start + 9000, 300_000 + number, **place, globalPid=process)
    yield from _host(number, start, pid)


def _host(number: int, start: int, pid: int) -> Iterator[Row]:
    """What the threads did around a launch: ranges, calls of other libraries, waits."""
    thread = {"globalTid": tiny.global_id(pid, pid + number % 2)}
    yield tiny.nvtx(None, start - 500, start + 9500, **thread, textId=("step", 'é,"quoted"')[number % 9 == 0])
    yield tiny.nvtx(f"part {number % 3}", start - 100, start + 3500, **thread, domainId=number % 2)
    if number % 4 == 0:
        end = None if number % 8 == 0 else start + 12_000
        other = tiny.global_id(pid, pid + 5) if number % 3 == 0 else None
        yield tiny.nvtx("phase", start, end, **thread, eventType=60, endGlobalTid=other)
        yield tiny.nvtx("mark", start + 1, None, **thread, eventType=34)
    if number % 6 == 0:
        yield tiny.call("cudaDeviceSynchronize", start + 9100, start + 9400, 400_000 + number, pid=pid)
        yield row(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            start=start + 9100,
            end=start + 9400,
            deviceId=number % 2,
            streamId=7,
            correlationId=400_000 + number,
            globalPid=tiny.global_id(pid),
            syncType=4,
        )
        yield tiny.on_cpu(tiny.OSRT, ("poll", "read")[number % 4 // 2], start, start + 800 + number, **thread)
    if number % 9 == 0:
        yield tiny.on_cpu(tiny.OPENMP, "Parallel", start, start + 900, **thread)
        yield tiny.on_cpu("OPENMP_EVENT_KIND_TASK", "Task", start, start + 70 + number, **thread)
        yield tiny.on_cpu(
            tiny.OPENACC, "Enter Data", start, start + 50, **thread, eventKind=1, srcFile="a.c", lineNo=3
        )
        yield tiny.on_cpu(tiny.MPI_P2P, "MPI_Send", start, start + 40, **thread, size=8, tag=1, remoteRank=1)
        yield tiny.on_cpu(tiny.MPI_START_WAIT, "MPI_Wait", start + 40, start + 60, **thread)
        yield tiny.on_cpu(
            tiny.MPI_COLLECTIVE, "MPI_Bcast", start, start + 90, **thread, size=8, recvSize=8, rootRank=0
        )
        yield tiny.um_cpu_fault(0x7F00_0000 + 65536 * number, start)
        yield tiny.um_gpu_fault(0x7F00_0000 + 65536 * number, start, start + 77, 1 + number % 4)
        yield row("PROFILER_OVERHEAD", start=start, end=start + 30, **thread, nameId="CUPTI Buffer flush")


def _surroundings() -> Iterator[Row]:
    """What nsys notes of the machine and the processes, with the secrets that redact removes."""
    for number, pid in enumerate(PROCESSES):
        thread = tiny.global_id(pid, pid)
        yield row("ThreadNames", nameId=f"python {number}", priority=20, globalTid=thread)
        yield row("MPI_RANKS", globalTid=thread, rank=number)
        yield tiny.domain("library", 1, pid=pid)
        yield row("PROCESSES", globalPid=tiny.global_id(pid), pid=pid, name="/home/somebody/train.py")
        gpu = {"memoryBandwidth": 10**12, "l2CacheSize": 10**6, "smCount": 132, "uuid": f"GPU-{number}"}
        yield row("TARGET_INFO_GPU", id=number, name=f"GPU {number}", **gpu)
        yield row("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=number, pid=pid)
        yield row(
            "ProcessStreams", globalPid=tiny.global_id(pid), filenameId="stdout", contentId="loss 0.1\n"
        )
    yield tiny.on_cpu(tiny.MPI_OTHER, "MPI_Init", 0, 10)
    yield row("ANALYSIS_DETAILS", globalVid=0, duration=10**9, startTime=500_000, stopTime=10**9)
    yield row(
        "TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000 * 10**9, utcTime="2023-11-14 22:13:20"
    )
    yield row("TARGET_INFO_SYSTEM_ENV", name="CudaDriverVersion", value="12040")
    yield row("TARGET_INFO_SYSTEM_ENV", name="NvDriverVersion", value="550.54.14")
    yield row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="python3")
    yield row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_0", value="train.py")
    yield row("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE_0", value="TOKEN=hf_0123456789abcdef")
    yield tiny.diagnostic("Not all CUDA events might have been collected.")


def _written(path: Path, rows: list[Row], page_bytes: int, without: tuple[str, ...] = ()) -> bytes:
    tiny.write(path, *rows, without=without)
    return _small_pages(path, page_bytes)


def _trimmed(path: Path, name: str) -> bytes:
    """Return a recorded export with the first rows of its tables, and without tables that no report reads."""
    recorded = Path(__file__).parents[1] / "data" / "recorded" / name / "report.sqlite.xz"
    with lzma.open(recorded) as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        tables = [table for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table.startswith("ENUM_") and table not in _ENUMS:
                db.execute(f'DROP TABLE "{table}"')
            elif table != "StringIds":
                db.execute(f'DELETE FROM "{table}" WHERE rowid > ?', (_KEPT_ROWS,))  # noqa: S608 - no input
    return _small_pages(path, 1024)


def _small_pages(path: Path, page_bytes: int) -> bytes:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {page_bytes}")
        db.execute("VACUUM")
    content = path.read_bytes()
    path.unlink()
    return content
