"""How much earlier a part would end if some kernels took no time. Times are in ns."""

from pathlib import Path

import numpy as np
import pytest
from advised import context_of, new
from tiny_export import Row, call, kernel

from nsyswrap.analysis.advice.replay import decisive_ns

LONG = 1_000_000


def decisive(folder: Path, *rows: Row, first: int = 1) -> int:
    """Return the time that counts of the first kernels."""
    return decisive_ns(context_of(new(folder, *rows)), np.arange(first))


# CPU  |L|                       L [call .. returned)
# GPU    a [10 .. LONG)                              b [LONG + 1000 .. LONG + 2000)
@pytest.mark.parametrize(
    ("begun", "returned", "expected"),
    [
        (LONG + 500, LONG + 600, 0),  # the host comes late: b would not start earlier
        (20, 30, LONG - 10),  # b was launched before
        (20, LONG + 600, LONG - 10),  # the launch waited for a
    ],
)
def test_a_late_launch_takes_what_is_saved(begun: int, returned: int, expected: int, tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 5, 1), kernel("a", 10, LONG, 1)),
        *(call("cudaLaunchKernel", begun, returned, 2), kernel("b", LONG + 1000, LONG + 2000, 2)),
    ]
    assert decisive(tmp_path, *rows) == expected


def test_what_the_host_waited_for_is_saved(tmp_path: Path) -> None:
    # The wait ends with a, and what is launched after it comes earlier, too.
    rows = [
        *(call("cudaLaunchKernel", 0, 5, 1), kernel("a", 10, LONG, 1)),
        call("cudaDeviceSynchronize", 20, LONG + 10),
        *(call("cudaLaunchKernel", LONG + 500, LONG + 600, 2), kernel("b", LONG + 1000, LONG + 2000, 2)),
    ]
    assert decisive(tmp_path, *rows) == LONG - 10


def test_a_wait_after_the_work_waits_for_nothing(tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 5, 1), kernel("a", 10, LONG, 1)),
        call("cudaDeviceSynchronize", LONG + 10, LONG + 20),
        *(call("cudaLaunchKernel", LONG + 500, LONG + 600, 2), kernel("b", LONG + 1000, LONG + 2000, 2)),
    ]
    assert decisive(tmp_path, *rows) == 0


def test_time_beside_other_kernels_counts_for_nothing(tmp_path: Path) -> None:
    rows = [kernel("a", 0, 1000), kernel("b", 400, 1000, streamId=8)]
    assert decisive(tmp_path, *rows) == 400


def test_the_least_of_several_gpus_counts(tmp_path: Path) -> None:
    # The second GPU works for 900 of 1000 ns in any case.
    rows = [kernel("a", 0, 600), kernel("b", 100, 1000, deviceId=1)]
    assert decisive(tmp_path, *rows) == 100
    both = [kernel("a", 0, 600), kernel("a", 0, 500, deviceId=1), kernel("b", 900, 1000, deviceId=1)]
    assert decisive(tmp_path, *both, first=2) == 500


def test_without_calls_nothing_is_known_to_wait_for_the_host(tmp_path: Path) -> None:
    assert decisive(tmp_path, kernel("a", 0, 600), kernel("b", 800, 1000)) == 600
