"""Whether launching is what the GPU waits for, on exports small enough to draw, and on recorded ones."""

from pathlib import Path

import pytest
import recorded
from launch_rows import launch
from tiny_export import Row, call, graph, kernel, memcpy, opened

from nsyswrap.analysis.launch_bound import launch_cost_of
from nsyswrap.api import open_capture

SYNC = "cudaDeviceSynchronize"


def verdict(folder: Path, *rows: Row) -> str:
    return opened(folder, *rows).report("launch_overhead").verdict


# CPU  F[0,10)          L2[100,110)         S[115,118) L3[120,130)  L4[130,140)
# GPU          f[12,14)            [112,114)                     [132,136)  [142,144)
FOUR = [
    *launch(1, 0, 10, 12, 14),
    *launch(2, 100, 110, 112, 114),
    call(SYNC, 115, 118),
    *launch(3, 120, 130, 132, 136),
    *launch(4, 130, 140, 142, 144),
]


def test_the_stakes_of_launching(tmp_path: Path) -> None:
    found = launch_cost_of(opened(tmp_path, *FOUR))
    assert found.busy_ns == 2 + 2 + 4 + 2
    assert {cause: time for cause, time in found.idle_ns.items() if time} == {
        "host": 86 + 3,  # from 14 to 100, and around the synchronise
        "synchronise": 3,
        "launch": 12 + 12 + 6,
    }
    assert (found.exposed_ns, found.first_exposed_ns) == (30, 0)
    assert (found.saved_ns, found.between_ns) == (12 + 6, 86)  # L3 comes after a wait, and would still come
    assert (found.weight, found.is_large) == (30 / 132, True)


def test_launch_bound_in_a_sentence(tmp_path: Path) -> None:
    # The three launches after the first repeat; the steady part is [100, 144).
    assert verdict(tmp_path, *FOUR) == (
        "Launch latency left the GPU idle for 30 ns (68.2 % of the steady part); the GPU was busy for 8 ns. "
        "Median launch call 10 ns for 2 ns of GPU work. CUDA graphs or fusion could save at most 18 ns."
    )


def test_what_runs_while_the_next_is_launched_is_not_launch_bound(tmp_path: Path) -> None:
    # CPU  F[0,10) L2[10,20) L3[20,30)
    # GPU         f[12 ........... 60) [61 ... 110) [111 ... 160)
    rows = [*launch(1, 0, 10, 12, 60), *launch(2, 10, 20, 61, 110), *launch(3, 20, 30, 111, 160)]
    assert verdict(tmp_path, *rows) == (
        "Launch latency left the GPU idle for 0 ns (0.0 % of the whole capture); the GPU was busy "
        "for 146 ns. Median launch call 10 ns for 49 ns of GPU work. CUDA graphs or fusion could save "
        "nothing. Excluded: 1 first launch, 10 ns of CPU time. GPU idle for 2 ns in total, mostly between "
        "queued operations: dependency or GPU latency (2 ns; -r gpu_idle)."
    )


@pytest.mark.parametrize(
    ("host", "bound", "says"),
    [
        (300, True, "for 20 ns (6.2 % of the whole capture);"),
        (376, True, "for 20 ns (5.0 % of the whole capture);"),  # 20 of 400
        (377, False, "for 20 ns (5.0 % of the whole capture);"),
        (9999, False, "for 20 ns (0.2 % of the whole capture);"),
    ],
)
def test_launches_that_are_next_to_nothing_of_the_time_bind_nothing(
    tmp_path: Path,
    host: int,
    bound: bool,  # noqa: FBT001 - a parameter of the test
    says: str,
) -> None:
    # f runs for 2 ns, ``host`` ns nothing happens, and the launch of the second takes 20 until it runs for 2
    rows = [*launch(1, 0, 10, 12, 14), *launch(2, 14 + host, 30 + host, 34 + host, 36 + host)]
    capture = opened(tmp_path, *rows)
    assert launch_cost_of(capture).is_large == bound
    assert says in capture.report("launch_overhead").verdict


def test_a_launch_behind_a_first_one_that_loads_is_left_out(tmp_path: Path) -> None:
    rows = [memcpy(1, 0, 10, 8), *launch(1, 20, 500, 510, 520), *launch(2, 600, 610, 615, 620)]
    capture = opened(tmp_path, *rows)
    found = launch_cost_of(capture)
    assert (found.exposed_ns, found.first_exposed_ns) == (15, 490)
    said = capture.report("launch_overhead").verdict
    assert (
        "Excluded: 1 first launch, 480 ns of CPU time. GPU idle for 595 ns in total, mostly first launches "
        in said
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (launch(1, 0, 10, 12, 14), "1 first launch, 10 ns of CPU time"),
        (
            [*launch(1, 0, 10, 12, 14), call("cudaGraphLaunch", 20, 1020, 2), graph(22, 30, 2)],
            "2 first launches, 1.01 µs of CPU time",
        ),
    ],
)
def test_where_nothing_is_repeated_there_is_nothing_to_judge(
    tmp_path: Path, rows: list[Row], said: str
) -> None:
    assert verdict(tmp_path, *rows) == (
        f"Every kernel was launched once; launch overhead not assessed ({said})."
    )


@pytest.mark.parametrize(
    ("between", "saved"),
    [
        ([], 10),
        ([call("cudaStreamIsCapturing", 50, 55)], 10),
        ([call("cudaMemcpyAsync_v3020", 50, 55)], 10),
        ([call("cudaMemcpy_v3020", 50, 55)], 0),
        ([call("cuMemcpyDtoH_v2", 50, 55)], 0),
        ([call("cudaStreamSynchronize_v3020", 50, 55)], 0),
        ([call("cudaStreamSynchronize_v3020", 50, 55, tid=101)], 10),  # another thread waits
    ],
)
def test_what_waits_between_two_launches(tmp_path: Path, between: list[Row], saved: int) -> None:
    rows = [*launch(1, 0, 10, 12, 14), *between, *launch(2, 100, 108, 110, 114)]
    assert launch_cost_of(opened(tmp_path, *rows)).saved_ns == saved


def test_where_each_launch_follows_a_wait_nothing_can_be_saved(tmp_path: Path) -> None:
    rows = [*launch(1, 0, 10, 12, 14), call(SYNC, 20, 30), *launch(2, 40, 50, 52, 54)]
    assert "graphs or fusion could save nothing: the delayed launches follow a wait." in verdict(
        tmp_path, *rows
    )


def test_first_launches_and_copies_are_not_what_could_be_saved(tmp_path: Path) -> None:
    # CPU  F[0,10)          C[20,25)                L2[40,50)            l[60,70)
    # GPU         f[12,14)            copy[26,30)               k[52,54)           l[72,74)
    rows = [*launch(1, 0, 10, 12, 14), call("cudaMemcpyAsync", 20, 25, 2)]
    rows += [memcpy(1, 26, 30, 8, correlationId=2), *launch(3, 40, 50, 52, 54)]
    rows += [call("cudaLaunchKernel", 60, 70, 4), kernel("l", 72, 74, 4)]
    found = launch_cost_of(opened(tmp_path, *rows))
    assert (found.exposed_ns, found.saved_ns, found.first_exposed_ns) == (12, 12, 12)
    assert (found.between_ns, found.idle_ns["host"]) == (10, 6 + 10 + 6)


def test_threads_that_launch_in_turn_follow_themselves(tmp_path: Path) -> None:
    rows = [*launch(1, 0, 10, 12, 14), *launch(2, 20, 30, 32, 34, tid=101), *launch(3, 40, 50, 52, 54)]
    found = launch_cost_of(opened(tmp_path, *rows))
    assert (found.exposed_ns, found.saved_ns, found.between_ns) == (24, 12, 6)


def test_a_thread_s_first_launch_follows_none(tmp_path: Path) -> None:
    rows = [*launch(1, 0, 10, 12, 14), *launch(2, 40, 50, 52, 54, tid=101)]
    found = launch_cost_of(opened(tmp_path, *rows))
    assert (found.exposed_ns, found.saved_ns, found.between_ns) == (12, 0, 0)


def test_processes_that_use_the_same_correlation_ids(tmp_path: Path) -> None:
    # Each of both is idle for its own launches, whatever the other runs meanwhile.
    rows = [*launch(1, 0, 10, 12, 14), *launch(2, 40, 50, 52, 54)]
    rows += [*launch(1, 5, 15, 17, 19, pid=200), *launch(2, 25, 55, 57, 67, pid=200)]
    found = launch_cost_of(opened(tmp_path, *rows))
    assert (found.exposed_ns, found.busy_ns) == (12 + 32, 4 + 12)
    assert found.idle_ns["host"] == 26 + 6


def test_a_part_of_a_capture(tmp_path: Path) -> None:
    found = launch_cost_of(opened(tmp_path, *FOUR).select(time="114/144", clip=True))
    assert (found.exposed_ns, found.saved_ns, found.busy_ns) == (12 + 6, 6, 6)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("storm/empty", True),
        ("storm/busy", False),
        ("graphs/eager", True),
        ("graphs/graph", False),
        ("gelu/torch", False),
        ("cdist/direct", False),
        ("rules/wasteful", False),
    ],
)
def test_recorded_programs(name: str, bound: bool, tmp_path: Path) -> None:  # noqa: FBT001
    capture = open_capture(recorded.run_folder(name, tmp_path))
    assert launch_cost_of(capture).is_large == bound
    said = capture.report("launch_overhead").verdict
    assert said.startswith("Launch latency left the GPU idle for ")
    assert ("in total, mostly " in said) == (name not in {"storm/empty", "graphs/eager"})
