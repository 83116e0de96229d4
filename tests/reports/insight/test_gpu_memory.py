"""gpu_memory: what ranges allocated, on paper and against bytes counted moment by moment."""

import lzma
import random
from collections import defaultdict
from pathlib import Path

import pytest
from copy_examples import gpu
from report_tables import csv_of, values_of
from tiny_export import PID, Row, allocation, call, diagnostic, global_id, kernel, nvtx, opened

from nsyswrap import open_capture
from nsyswrap.analysis.usage import GPU_MEMORY, unknown_frees
from nsyswrap.api import CaptureReader
from nsyswrap.base.run_folder import EXPORT, RUN, RunFolder
from nsyswrap.capture.schema import FREED

REPORT = "gpu_memory"
RECORDED = Path(__file__).parents[2] / "data" / "memory"
LIBRARIES = 134481920  # bytes that CUDA's libraries allocated in the recorded programs
MIB = 1 << 20
HEADER = (
    "range,kind,at_peak_bytes,held_bytes,peak_bytes,peak_start_ns,allocations,allocated_bytes,largest_bytes,"
    "device_id,process_id\n"
)
GPU_BYTES = 1000
LEFT_OUT = "allocations of a negative number of bytes are left out: 1"


def allocated(address: int, start: int, size: int, number: int, **more: object) -> tuple[Row, Row]:
    """Memory and the call that allocates it."""
    return (
        allocation(address, start, size, correlationId=number, **more),
        call("cudaMalloc", start - 1, start + 1, number),
    )


def freed(address: int, start: int, **more: object) -> Row:
    return allocation(address, start, 0, memoryOperationType=FREED, **more)


def found(capture: CaptureReader, *columns: str) -> list[tuple[object, ...]]:
    return values_of(capture.report(REPORT), *columns)


# load [0, 20)          100 B at 5, freed at 55
# step [30 ........ 80)  40 B at 35; inside [50, 70): 30 B at 52, freed at 60, 80 B at 62
# none                    7 B at 90
def example() -> list[Row]:
    return [
        *(nvtx("load", 0, 20), nvtx("step", 30, 80), nvtx("forward", 50, 70), kernel("k", 95, 100)),
        *allocated(1, 5, 100, 1),
        *allocated(2, 35, 40, 2),
        *allocated(3, 52, 30, 3),
        *(freed(1, 55), freed(3, 60)),
        *allocated(1, 62, 80, 4),
        *allocated(4, 90, 7, 5),
        *allocated(5, 91, 9, 6, memKind=1),
        gpu(totalMemory=GPU_BYTES),
    ]


def test_the_peak_is_that_of_all_and_each_range_has_its_part(tmp_path: Path) -> None:
    capture = opened(tmp_path, *example())
    # 100 from 5 on, 140 from 35, 170 from 52, 70 from 55, 40 from 60, 120 from 62, 127 from 90
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "load,GPU memory,100,0,100,5,1,100,100,0,100\n"
        "step,GPU memory,40,40,40,35,1,40,40,0,100\n"
        "step/forward,GPU memory,30,80,80,62,2,110,80,0,100\n"
        "(no range),pinned host memory,9,9,9,91,1,9,9,0,100\n"
        "(no range),GPU memory,0,7,7,90,1,7,7,0,100\n"
    )
    assert capture.report(REPORT).verdict == "GPU 0: at most 170 B of 1.00 kB (17.0 %), from 52 ns on."


def test_in_a_selected_time_what_was_allocated_before_is_held(tmp_path: Path) -> None:
    capture = opened(tmp_path, *example()).select(time="54ns/61ns")
    columns = ("range", "at_peak_bytes", "held_bytes", "peak_start_ns", "allocations")
    assert found(capture, *columns) == [
        ("load", 100, 0, 54, 0),
        ("step", 40, 40, 54, 0),
        ("step/forward", 30, 0, 54, 0),
    ]


def test_memory_is_not_held_at_the_time_of_its_free(tmp_path: Path) -> None:
    rows = (nvtx("first", 8, 12), nvtx("then", 18, 22), kernel("k", 30, 31), freed(1, 20))
    capture = opened(tmp_path, *rows, *allocated(1, 10, 5, 1), *allocated(2, 20, 8, 2))
    assert found(capture, "range", "at_peak_bytes") == [("then", 8), ("first", 0)]
    assert found(capture.select(time="20ns/25ns"), "range", "at_peak_bytes") == [("then", 8)]


@pytest.mark.parametrize("time", ["81ns/85ns", "96ns/99ns"])
def test_a_selected_time_without_any_event_still_holds_memory(tmp_path: Path, time: str) -> None:
    rows = [row for row in example() if row.table != "CUPTI_ACTIVITY_KIND_KERNEL"]
    table = opened(tmp_path, *rows, kernel("k", 200, 210)).select(time=time).report(REPORT)
    held = 120 if time == "81ns/85ns" else 127
    assert table.verdict.startswith(f"GPU 0: at most {held} B of 1.00 kB")
    assert "no events in the selection" not in table.notes


def test_a_selected_time_before_all_allocations_holds_none(tmp_path: Path) -> None:
    table = opened(tmp_path, *example()).select(time="0ns/3ns").report(REPORT)
    assert (table.rows(), list(table.notes)) == ([], ["no events in the selection"])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (freed(99, 40), "1 free of such memory"),
        (
            diagnostic("Profiling started due to a start range.", severity=1),
            "the recording began with a capture range",
        ),
    ],
)
def test_memory_from_before_the_recording_is_named(tmp_path: Path, row: Row, reason: str) -> None:
    notes = opened(tmp_path, *example(), row).report(REPORT).notes
    assert list(notes) == [f"memory from before the recording is not counted: {reason}"]


def test_a_negative_number_of_bytes_is_left_out(tmp_path: Path) -> None:
    capture = opened(tmp_path, *example())
    (tmp_path / "negative").mkdir()
    negative = opened(tmp_path / "negative", *example(), *allocated(9, 40, -(1 << 40), 9))
    assert negative.report(REPORT).rows() == capture.report(REPORT).rows()
    assert list(negative.report(REPORT).notes) == [LEFT_OUT, *capture.report(REPORT).notes]


def test_a_second_free_of_an_address_is_of_unknown_memory(tmp_path: Path) -> None:
    other = freed(3, 70, globalPid=global_id(PID + 1))
    rows = (allocation(1, 10, 5), freed(1, 20), freed(1, 30), allocation(3, 10, 5), other)
    assert unknown_frees(opened(tmp_path, kernel("k", 0, 1), *rows)) == 2


def test_peaks_on_a_gpu_of_several_processes_name_the_process(tmp_path: Path) -> None:
    other = {"globalPid": global_id(PID + 1)}
    capture = opened(tmp_path, kernel("k", 0, 1), allocation(1, 10, 5), allocation(1, 12, 6, **other))
    assert capture.report(REPORT).verdict == (
        "GPU 0, process 100: at most 5 B, from 10 ns on. GPU 0, process 101: at most 6 B, from 12 ns on."
    )


def test_a_gpu_without_a_number_is_not_given_one(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 1), allocation(1, 10, 5, deviceId=None))
    assert capture.report(REPORT).verdict == "GPU: at most 5 B, from 10 ns on."


def test_the_verdict_names_a_few_of_many_gpus(tmp_path: Path) -> None:
    rows = [allocation(number + 1, 10, 5, deviceId=number) for number in range(1000)]
    verdict = opened(tmp_path, kernel("k", 0, 1), *rows).report(REPORT).verdict
    assert verdict.endswith("GPU 7: at most 5 B, from 10 ns on. 992 more in the rows.")


def test_without_ranges_it_is_said(tmp_path: Path) -> None:
    table = opened(tmp_path, allocation(1, 10, 5), kernel("k", 0, 1)).report(REPORT)
    assert values_of(table, "range", "at_peak_bytes") == [("(no range)", 5)]
    assert list(table.notes) == ["ranges are not known without NVTX ranges and CUDA calls in the capture"]
    assert table.verdict == "GPU 0: at most 5 B, from 10 ns on."


def test_processes_and_devices_have_peaks_of_their_own(tmp_path: Path) -> None:
    other = {"globalPid": global_id(PID + 1)}
    capture = opened(
        tmp_path,
        *(
            kernel("k", 0, 1),
            allocation(1, 10, 5),
            allocation(2, 10, 3, deviceId=1),
            freed(2, 20, deviceId=1),
        ),
        *(allocation(1, 30, 8, **other), freed(1, 40), allocation(9, 50, 1)),
    )
    columns = ("process_id", "device_id", "at_peak_bytes", "held_bytes")
    assert sorted(found(capture, *columns)) == [(100, 0, 5, 1), (100, 1, 3, 0), (101, 0, 8, 8)]


@pytest.mark.parametrize("seed", range(20))
def test_bytes_counted_moment_by_moment(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    names, rows = ["a", "b", "c"], list[Row]()
    held, owner = dict[int, int](), dict[int, str]()
    over_time: dict[int, dict[str, int]] = {}
    for number in range(1, 60):
        moment = number * 10
        if held and chance.random() < 0.4:
            address = chance.choice(list(held))
            del held[address]
            rows.append(freed(address, moment))
        else:
            address = chance.choice([at for at in range(1, 40) if at not in held])
            held[address], owner[address] = chance.randrange(1, 9), chance.choice(names)
            rows += [
                *allocated(address, moment, held[address], number),
                nvtx(owner[address], moment - 2, moment + 2),
            ]
        now: dict[str, int] = defaultdict(int)
        for at, size in held.items():
            now[owner[at]] += size
        over_time[moment] = now
    capture = opened(tmp_path, *rows, kernel("k", 0, 1))
    most = max(over_time, key=lambda moment: (sum(over_time[moment].values()), -moment))
    last = over_time[590]
    rows_found = found(capture, "range", "kind", "at_peak_bytes", "held_bytes", "peak_bytes")
    assert {row[0]: row[2:] for row in rows_found} == {
        name: (over_time[most][name], last[name], max(now[name] for now in over_time.values()))
        for name in {*owner.values()}
    }
    assert {row[1] for row in rows_found} == {GPU_MEMORY}


MOST = "; PyTorch's tensors took at most 150 B of 160 B reserved"
NOTED = {"process_id": PID, "device": 0, "allocated_bytes": 150, "reserved_bytes": 160, "retries": 2}


@pytest.mark.parametrize(
    ("noted", "text"),
    [
        ([{"process_id": 1}, NOTED], f"{MOST}, with 2 retries"),
        ([{**NOTED, "retries": 0}], MOST),
        ([{**NOTED, "device": 1}], ""),
        ([{**NOTED, "retries": 1 << 70}], ""),
        ([{**NOTED, "allocated_bytes": "150"}], ""),
        (["text"], ""),
        ({"process_id": 1}, ""),
    ],
)
def test_what_pytorch_noted_stands_beside_what_the_driver_gave(
    tmp_path: Path, noted: object, text: str
) -> None:
    opened(tmp_path, *example()).path.rename(tmp_path / EXPORT)
    RunFolder(tmp_path).write(RUN, {"pytorch_memory": noted})
    verdict = open_capture(tmp_path).report(REPORT).verdict
    assert verdict == f"GPU 0: at most 170 B of 1.00 kB (17.0 %), from 52 ns on{text}."


def test_more_memory_than_the_gpu_has(tmp_path: Path) -> None:
    rows = [allocation(address, 10 * address, 600) for address in (1, 2)]
    verdict = opened(tmp_path, *rows, gpu(totalMemory=1000), kernel("k", 0, 1)).report(REPORT).verdict
    assert verdict == "GPU 0: at most 1.20 kB, from 20 ns on: more than its 1.00 kB, as frees are missing."


def test_what_pytorch_noted_is_of_the_whole_run(tmp_path: Path) -> None:
    opened(tmp_path, *example()).path.rename(tmp_path / EXPORT)
    RunFolder(tmp_path).write(RUN, {"pytorch_memory": [{**NOTED, "retries": 0}]})
    verdict = open_capture(tmp_path).select(time="0ns/20ns").report(REPORT).verdict
    assert verdict.endswith(f"{MOST} in the whole run.")


def recorded(folder: Path, name: str) -> CaptureReader:
    """A recorded program: see the README beside the capture."""
    (folder / "report.sqlite").write_bytes(lzma.decompress((RECORDED / f"{name}.sqlite.xz").read_bytes()))
    return open_capture(folder / "report.sqlite")


@pytest.mark.parametrize(
    ("name", "reserved", "driver"),
    [("leak", 1595932672, 1734344704), ("retries", 148157497344, 148293812224)],
)
def test_the_peak_is_what_pytorch_reserved_and_libraries_took(
    tmp_path: Path, name: str, reserved: int, driver: int
) -> None:
    first, static = 2 * MIB, 227395  # of the program's code
    frame = recorded(tmp_path, name).report(REPORT).frame
    assert frame["at_peak_bytes"].sum() == reserved + LIBRARIES + static
    assert frame["at_peak_bytes"].sum() == frame["held_bytes"].sum()
    small = 4  # segments that take more than their bytes
    assert 0 <= driver - (reserved + LIBRARIES - first) <= small * 2 * MIB


def test_a_program_that_knows_its_memory(tmp_path: Path) -> None:
    """Against what it said: see the README beside the capture."""
    frame = recorded(tmp_path, "report").report(REPORT).frame
    first, segments = 2 * MIB, 63
    peak, held = int(frame["at_peak_bytes"].sum()) - first, int(frame["held_bytes"].sum()) - first
    static = 228099  # of the program's code
    assert peak + first - static == 11649679360 + LIBRARIES
    assert held + first - static == 1918894080 + LIBRARIES
    for found, driver in ((peak, 11788091392), (held, 2057306112)):
        assert 0 <= driver - found <= segments * 2 * MIB
    activation = 2 * 8192 * 4096 * 4  # of one layer: the input, and eight outputs
    assert frame.set_index("range")["at_peak_bytes"]["step 1/forward"] == 9 * activation
