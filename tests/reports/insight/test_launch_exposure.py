from pathlib import Path

import pytest
from launch_rows import launch
from report_tables import csv_of
from tiny_export import PID, Row, call, kernel, memcpy, opened

REPORT = "launch_exposure"
HEADER = (
    "process_id,device_id,stream_id,launches,first_launches,idle_ns,exposed_ns,exposed_percent,host_ns,"
    "first_exposed_ns\n"
)


def exposure(folder: Path, *rows: Row) -> list[tuple[object, ...]]:
    return opened(folder, *rows).report(REPORT).rows()


# CPU  F[0,10)             L2[20 ... 30)
# GPU         f[12,14)                  [34,44)
def test_a_launch_that_the_gpu_waits_for(tmp_path: Path) -> None:
    rows = [*launch(1, 0, 10, 12, 14), *launch(2, 20, 30, 34, 44)]
    # idle from 14 to 34: the host is outside of calls until 20, then the launch is on its way
    assert csv_of(opened(tmp_path, *rows), REPORT) == f"{HEADER}100,0,7,2,1,20,14,70.0,6,0\n"


def test_exposure_by_stream(tmp_path: Path) -> None:
    # CPU  F[0,10)           L2[20,30)          L3[50,60)
    # 7           f[12,14)                              [62,64)
    # 8                               [32,36)
    rows = [*launch(1, 0, 10, 12, 14), *launch(2, 20, 30, 32, 36, streamId=8), *launch(3, 50, 60, 62, 64)]
    # process, device, stream, launches, first ones, idle, exposed, in percent, host, exposed by first ones
    assert exposure(tmp_path, *rows) == [
        (PID, 0, 7, 2, 1, 18 + 26, 12, pytest.approx(1200 / 44), 14, 0),
        (PID, 0, 8, 1, 0, 18 + 26, 12, pytest.approx(1200 / 44), 6, 0),
    ]


def test_exposure_of_first_launches_stands_apart(tmp_path: Path) -> None:
    rows = [memcpy(1, 0, 10, 8), *launch(1, 20, 500, 510, 520, streamId=9), *launch(2, 600, 610, 615, 620)]
    assert exposure(tmp_path, *rows) == [
        (PID, 0, 7, 1, 0, 500 + 95, 15, pytest.approx(1500 / 595), 80, 0),
        (PID, 0, 9, 1, 1, 500 + 95, 0, 0.0, 0, 490),
    ]


def test_devices_and_processes_idle_for_themselves(tmp_path: Path) -> None:
    rows = [*launch(1, 0, 10, 12, 14), *launch(2, 20, 30, 32, 34, deviceId=1)]
    rows += [*launch(1, 0, 10, 12, 14, pid=200), *launch(2, 40, 50, 54, 58, pid=200)]
    assert [row[:7] for row in exposure(tmp_path, *rows)] == [
        (200, 0, 7, 2, 1, 40, 14),
        (PID, 0, 7, 1, 1, 0, 0),
        (PID, 1, 7, 1, 0, 0, 0),
    ]


def test_what_never_idles_has_no_share(tmp_path: Path) -> None:
    assert exposure(tmp_path, *launch(1, 0, 10, 12, 14)) == [(PID, 0, 7, 1, 1, 0, 0, None, 0, 0)]


def test_kernels_without_their_call_expose_nothing(tmp_path: Path) -> None:
    assert exposure(tmp_path, kernel("k", 0, 5, 1), kernel("k", 9, 10, 1), call("x", 0, 1, 2)) == []
