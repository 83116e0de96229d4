"""Copies for tiny exports, and what memcpy_bandwidth says of them, column by column."""

from tiny_export import Row, memcpy, row

from nsyswrap.api import CaptureReader
from nsyswrap.reports.table import Table

TO_DEVICE, TO_HOST, INSIDE, HOST, PEER = 1, 2, 8, 9, 10
PAGEABLE, PINNED, DEVICE, MANAGED = 0, 1, 2, 4
KIB, MIB = 2**10, 2**20
GB_PER_S = 10**9  # of bytes/s: as many as bytes/ns


def gpu(
    number: int = 0, bandwidth: int | None = 1000 * GB_PER_S, cache: int | None = 0, **more: object
) -> Row:
    known = {"memoryBandwidth": bandwidth, "l2CacheSize": cache}
    return row("TARGET_INFO_GPU", id=number, name="GPU", **known, **more)


def copy(
    kind: int, start: int, end: int, size: int, memory: tuple[int, int] = (PINNED, DEVICE), **more: object
) -> Row:
    return memcpy(kind, start, end, size, srcKind=memory[0], dstKind=memory[1], **more)


def report(capture: CaptureReader) -> Table:
    return capture.report("memcpy_bandwidth")


def found(capture: CaptureReader, *columns: str) -> list[tuple[object, ...]]:
    """The values of these columns, row by row."""
    table = report(capture)
    names = [column.name for column in table.columns]
    return [tuple(values[names.index(column)] for column in columns) for values in table.rows()]


def notes(capture: CaptureReader) -> list[str]:
    """What is noted beside the names that are built in, and that no calls are in the export."""
    said = report(capture).notes
    return [note for note in said if not note.startswith(("the export has no ENUM_", "no CUDA API calls"))]
