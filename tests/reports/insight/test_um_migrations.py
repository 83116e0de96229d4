"""um_migrations: migrations of unified memory, on paper and against pages counted one by one."""

from collections import defaultdict
from pathlib import Path
from typing import cast

import pytest
from recorded import DOZEN, ROOT, capture_names, run_folder
from report_tables import csv_of, values_of
from sampled import sampled
from tiny_export import Row, enums, global_id, graph, kernel, memcpy, opened, row, um_cpu_fault, um_gpu_fault

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.capture.schema import ENUMS, UNIFIED_MEMORY_KINDS

PUBLIC = sorted((ROOT.parent / "shared" / "exports").glob("*.sqlite"))
REPORT = "um_migrations"
HEADER = (
    "event,cause,count,total_bytes,total_ns,bandwidth_bytes_per_s,overlap_ns,pages,returned_pages,"
    "bounced_pages,med_bytes,device_id,process_id\n"
)
TO_DEVICE, TO_HOST, BETWEEN = 11, 12, 13
PREFETCHED, FAULT, SPECULATIVE = 1, 2, 3
PAGE = 4096
OTHER = global_id(200)  # another process
PLACE = ("process_id", "device_id", "event", "cause")
PAGES = ("pages", "returned_pages", "bounced_pages")
NO_FAULTS = "{} are not in this capture: none occurred, or they were not traced ({})"
COLLECT = "nsyswrap profile --trace cuda,nvtx --um-faults"
NEITHER = NO_FAULTS.format("GPU page faults and CPU page faults", COLLECT)


def moved(kind: int, start: int, end: int, pages: tuple[int, int], cause: int = FAULT, **more: object) -> Row:
    """The migration of pages, from the first of them to before the last, by number."""
    first, last = (number * PAGE for number in pages)
    cells = {"srcKind": 7, "dstKind": 7, "virtualAddress": first, "migrationCause": cause, **more}
    return memcpy(kind, start, end, last - first, **cells)


def found(capture: CaptureReader, *columns: str) -> list[tuple[object, ...]]:
    """The values of these columns, row by row."""
    return values_of(capture.report(REPORT), *columns)


def said(capture: CaptureReader) -> list[str]:
    """What is noted beside the names that are built in."""
    return [note for note in capture.report(REPORT).notes if not note.startswith("the export has no ENUM_")]


def test_two_migrations_and_their_faults(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(moved(TO_DEVICE, 0, 16, (0, 2)), moved(TO_HOST, 20, 24, (1, 2))),
        *(um_gpu_fault(0, 0, 8, faults=5), um_cpu_fault(PAGE, 30), kernel("k", 10, 22)),
    )
    # 8192 bytes in 16 ns, 4096 in 4; the kernel runs in 6 ns of the first and in 2 of the second
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "Unified Host-to-Device,Page fault,1,8192,16,512000000000.0,6,2,1,0,8192.0,0,100\n"
        "GPU page fault,,5,,8,,0,,,,,0,100\n"
        "Unified Device-to-Host,Page fault,1,4096,4,1024000000000.0,2,1,1,0,4096.0,0,100\n"
        "CPU page fault,,1,,,,,1,,,,,100\n"
    )


def test_rows_by_process_device_direction_and_cause(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        moved(TO_DEVICE, 0, 10, (0, 1)),
        moved(TO_DEVICE, 10, 40, (1, 4)),
        moved(TO_DEVICE, 40, 60, (4, 20), SPECULATIVE),
        moved(TO_HOST, 60, 65, (0, 1)),
        moved(TO_DEVICE, 0, 4, (0, 1), deviceId=1),
        moved(TO_DEVICE, 0, 3, (0, 1), globalPid=OTHER),
        moved(TO_HOST, 70, 72, (0, 1), 4),
        memcpy(1, 0, 1000, 1000, virtualAddress=0, migrationCause=None),  # no migration
        *enums(),
    )
    values = ("count", "total_bytes", "total_ns", "med_bytes", "bandwidth_bytes_per_s")
    to_device, to_host = (f"Unified {way}" for way in ("Host-to-Device", "Device-to-Host"))
    assert found(capture, *PLACE, *values) == [
        (100, 0, to_device, "Page fault", 2, 4 * PAGE, 40, 2.0 * PAGE, PAGE / 10 * 1e9),
        (100, 0, to_device, "Speculative prefetch", 1, 16 * PAGE, 20, 16.0 * PAGE, PAGE * 16 / 20 * 1e9),
        (100, 0, to_host, "Page fault", 1, PAGE, 5, PAGE, PAGE / 5 * 1e9),
        (100, 1, to_device, "Page fault", 1, PAGE, 4, PAGE, PAGE / 4 * 1e9),
        (200, 0, to_device, "Page fault", 1, PAGE, 3, PAGE, PAGE / 3 * 1e9),
        (100, 0, to_host, "Eviction", 1, PAGE, 2, PAGE, PAGE / 2 * 1e9),
    ]


def test_a_label_that_exports_misspell_and_one_that_nobody_knows(tmp_path: Path) -> None:
    causes = {1: "User prefetch", 3: "Speculative prefecth", 6: "Boredom"}
    labels = [row("ENUM_CUDA_UNIF_MEM_MIGRATION", id=i, name="", label=text) for i, text in causes.items()]
    moves = [moved(TO_DEVICE, 0, 10 - cause, (0, 1), cause) for cause in (1, 2, 3, 6, 7)]
    unsaid = moved(TO_DEVICE, 0, 1, (0, 1), migrationCause=None)
    assert found(opened(tmp_path, *moves, unsaid, *labels), "cause") == [
        *(("User prefetch",), ("Page fault",), ("Speculative prefetch",)),
        *(("Boredom",), ("cause 7",), (None,)),
    ]


def test_pages_that_came_back_and_did_so_again(tmp_path: Path) -> None:
    #  pages         0    2    4    6    8
    #  to device 1   |--------------|           0 to 5
    #  to host            |---------|           2 to 5
    #  to device 2             |---------|      4 to 7
    #  to host                                  100 to 102, which never went to the device
    capture = opened(
        tmp_path,
        moved(TO_DEVICE, 0, 40, (0, 6)),
        moved(TO_HOST, 50, 70, (2, 6)),
        moved(TO_DEVICE, 80, 110, (4, 8)),
        moved(TO_HOST, 120, 125, (100, 103)),
    )
    assert found(capture, *PAGES) == [(8, 4, 2), (7, 4, 0)]  # to the device: 0 to 7; 2 to 5; 4 and 5
    assert capture.report(REPORT).verdict == (
        "2 pages of 4 KiB bounced between CPU and GPU, up to 3 migrations each: 8.19 kB of 69.6 kB "
        "migrated were pages that had moved there and back before."
    )


def test_pages_that_went_there_and_back_once_are_no_ping_pong(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        moved(TO_DEVICE, 0, 9, (0, 4)),
        moved(TO_HOST, 10, 15, (0, 4)),
        moved(TO_HOST, 20, 21, (9, 10)),
    )
    assert found(capture, *PAGES) == [(4, 4, 0), (5, 4, 0)]
    assert capture.report(REPORT).verdict == ""


def test_a_page_that_migrates_for_two_causes_stands_in_both_rows(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        moved(TO_DEVICE, 0, 9, (0, 4), PREFETCHED),
        moved(TO_HOST, 10, 15, (0, 1)),
        moved(TO_DEVICE, 20, 24, (0, 2), FAULT),
    )
    assert found(capture, "cause", *PAGES) == [
        ("User prefetch", 4, 1, 1),
        ("Page fault", 1, 1, 0),
        ("Page fault", 2, 1, 1),
    ]


def test_addresses_are_those_of_a_process_and_devices_share_them(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        moved(TO_DEVICE, 0, 9, (0, 2)),
        moved(TO_HOST, 10, 18, (0, 2), globalPid=OTHER),
        moved(TO_HOST, 20, 27, (0, 1), deviceId=1),
        moved(BETWEEN, 30, 36, (0, 2)),
    )
    assert found(capture, *PLACE[:2], *PAGES) == [
        (100, 0, 2, 1, 0),
        (200, 0, 2, 0, 0),
        (100, 1, 1, 1, 0),
        (100, 0, 2, None, None),  # between devices: of another way back nothing is known
    ]


def test_kernels_that_ran_while_pages_migrated(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        moved(TO_DEVICE, 0, 20, (0, 1)),
        moved(TO_DEVICE, 30, 40, (1, 2)),
        *(kernel("k", 5, 15), kernel("k", 10, 18, streamId=9), graph(35, 90, 1)),
        *(kernel("k", 0, 90, deviceId=1), kernel("k", 0, 90, pid=200)),
        um_gpu_fault(0, 0, 12),
    )
    assert found(capture, "event", "total_ns", "overlap_ns") == [
        ("Unified Host-to-Device", 30, 13 + 5),
        ("GPU page fault", 12, 7),
    ]


def test_page_faults_have_rows_beside(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        moved(TO_DEVICE, 0, 10, (0, 1)),
        *(um_gpu_fault(0, 0, 30, faults=5), um_gpu_fault(PAGE, 10, 20), um_gpu_fault(0, 0, 3, deviceId=1)),
        *(um_cpu_fault(0, 5), um_cpu_fault(100, 6), um_cpu_fault(PAGE, 6), um_cpu_fault(PAGE, 7)),
    )
    assert found(capture, *PLACE[:3], "count", "total_ns", "pages", "total_bytes") == [
        (100, 0, "GPU page fault", 6, 40, None, None),
        (100, 0, "Unified Host-to-Device", 1, 10, 1, PAGE),
        (100, 1, "GPU page fault", 1, 3, None, None),
        (100, None, "CPU page fault", 4, None, 2, None),
    ]
    assert said(capture) == []


@pytest.mark.parametrize(
    ("faults", "note"),
    [
        ([], NEITHER),
        ([um_gpu_fault(0, 0, 1)], NO_FAULTS.format("CPU page faults", COLLECT)),
        ([um_cpu_fault(0, 0)], NO_FAULTS.format("GPU page faults", COLLECT)),
    ],
)
def test_faults_that_may_not_have_been_traced(tmp_path: Path, faults: list[Row], note: str) -> None:
    assert said(opened(tmp_path, moved(TO_DEVICE, 0, 10, (0, 1)), *faults)) == [note]


def test_without_migrations_there_is_no_row_and_a_word(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(1, 0, 10, 100))
    assert found(capture, "event") == []
    assert said(capture) == ["no migrations: unified memory was not used, or its pages did not move"]


def test_faults_alone_make_rows(tmp_path: Path) -> None:
    capture = opened(tmp_path, um_cpu_fault(0, 5), kernel("k", 0, 5))
    assert found(capture, "event", "count") == [("CPU page fault", 1)]


def test_what_older_exports_do_not_say_is_missing(tmp_path: Path) -> None:
    moves = [moved(TO_DEVICE, 0, 10, (0, 1)), moved(TO_HOST, 10, 15, (0, 1))]
    capture = opened(tmp_path, *moves, without=["virtualAddress", "migrationCause"])
    assert found(capture, "cause", "count", *PAGES) == [(None, 1, None, None, None)] * 2
    assert said(capture) == [
        "CUPTI_ACTIVITY_KIND_MEMCPY has no virtualAddress (nsys 2022.1 or newer writes it); cells left empty",
        "CUPTI_ACTIVITY_KIND_MEMCPY has no migrationCause (nsys 2021 or newer writes it); cells left empty",
        NEITHER,
    ]


def test_a_migration_without_an_address_is_in_no_page(tmp_path: Path) -> None:
    lost = moved(TO_DEVICE, 0, 10, (0, 1), virtualAddress=None)
    capture = opened(tmp_path, moved(TO_DEVICE, 10, 15, (4, 6)), lost)
    assert found(capture, "count", "total_bytes", "pages") == [(2, 3 * PAGE, 2)]


def test_a_page_that_is_touched_in_part_counts(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(TO_DEVICE, 0, 1, PAGE, virtualAddress=100, migrationCause=FAULT))
    assert found(capture, "pages") == [(2,)]


def test_a_migration_that_took_no_time_is_in_no_bandwidth(tmp_path: Path) -> None:
    capture = opened(tmp_path, moved(TO_DEVICE, 0, 10, (0, 1)), moved(TO_DEVICE, 10, 10, (1, 9)))
    values = ("total_bytes", "bandwidth_bytes_per_s")
    assert found(capture, *values) == [(9 * PAGE, PAGE / 10 * 1e9)]


def test_a_window_cuts_times_and_no_bandwidth(tmp_path: Path) -> None:
    capture = opened(
        tmp_path, moved(TO_DEVICE, 0, 100, (0, 1)), moved(TO_DEVICE, 200, 300, (0, 1)), um_cpu_fault(0, 90)
    ).select(time="40/60")
    values = ("event", "count", "total_ns", "bandwidth_bytes_per_s", "pages", "bounced_pages")
    assert found(capture, *values) == [("Unified Host-to-Device", 1, 20, PAGE * 1e7, 1, 0)]


def counted(capture: CaptureReader) -> dict[tuple[object, ...], list[object]]:
    """How often each page migrated, page by page, by row: how many did, came back, and did so again."""
    fields = ("global_pid", "device_id", "copy_kind", "migration_cause", "address", "bytes")
    columns = (values.tolist() for values in capture.columns("memcpy", *fields).values())
    times: dict[tuple[int, int, int], int] = defaultdict(int)
    pages: dict[tuple[int, int, int, int], set[int]] = defaultdict(set)
    for process, device, kind, cause, address, size in zip(*columns, strict=True):
        for page in range(address // PAGE, (address + size) // PAGE) if kind in UNIFIED_MEMORY_KINDS else ():
            pages[process, device, kind, cause].add(page)
            times[process, kind, page] += 1
    found: dict[tuple[object, ...], list[object]] = {}
    for (process, device, kind, cause), here in pages.items():
        other = TO_DEVICE + TO_HOST - kind
        back = [page for page in here if times[process, other, page]]
        again = sum(times[process, kind, page] > 1 for page in back)
        labels = (ENUMS["copy_kind"][1][kind], ENUMS["migration_cause"][1][cause])
        found[(process >> 24 & 0xFFFFFF, device, *labels)] = [len(here), len(back), again]
    return found


REAL = sampled("name", [*capture_names(), *map(str, PUBLIC)], fast=DOZEN)


def real(name: str, scratch: Path) -> CaptureReader:
    capture = open_capture(name if name.startswith("/") else run_folder(name, scratch))
    if not capture.has("memcpy"):
        pytest.skip("no copies in it")
    return capture


@REAL
def test_pages_are_those_that_are_counted_one_by_one(name: str, tmp_path: Path) -> None:
    capture = real(name, tmp_path)
    rows = {values[:4]: [*values[4:]] for values in found(capture, *PLACE, *PAGES) if values[3] is not None}
    assert rows == counted(capture)


@REAL
def test_every_byte_and_every_ns_is_that_of_nsys(name: str, tmp_path: Path) -> None:
    capture = real(name, tmp_path)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for event, cause, *values in found(capture, "event", "cause", "count", "total_bytes", "total_ns"):
        before = sums[f"[CUDA memcpy {event}]"] if cause else []
        before[:] = [a + cast("int", b) for a, b in zip(before, values, strict=bool(cause))]
    time, size = (capture.report(f"cuda_gpu_mem_{what}_sum").data for what in ("time", "size"))
    bytes_of = dict(zip(size["operation"], size["total_bytes"], strict=True))
    assert sums == {
        operation: [count, bytes_of[operation], total]
        for operation, count, total in zip(time["operation"], time["count"], time["total_ns"], strict=True)
        if "Unified" in str(operation)
    }
