"""Lanes and curves besides CUDA's own: MPI, OS calls and others, memory, clocks and GPU metrics."""

import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conditioned import MS, around, recorded, sample
from recorded import run_folder
from tiny_export import (
    MPI_COLLECTIVE,
    MPI_P2P,
    OPENMP,
    OSRT,
    Row,
    allocation,
    call,
    changed,
    kernel,
    metric,
    nvml_samples,
    nvtx,
    on_cpu,
    opened,
    row,
)
from traced import traced

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.render.timeline import lanes as module
from nsyswrap.render.timeline.lanes import Curve, curves, steps, threads
from nsyswrap.render.timeline.names import OTHERS

OPTIONS = Path(__file__).resolve().parents[3] / "shared" / "exports" / "options"
WORK = (call("cudaLaunchKernel", 0, 10, 1), kernel("k", 1000, 2000, 1))


def others(capture: CaptureReader) -> dict[tuple[str, str], list[tuple[int, int, str]]]:
    return {
        (lane.group, lane.title): [
            (int(start), int(end), lane.names[name])
            for start, end, name in zip(lane.start_ns, lane.end_ns, lane.name, strict=True)
        ]
        for lane in threads(capture)
        if lane.family == OTHERS
    }


def points(curve: Curve) -> list[tuple[int, float]]:
    return list(zip(curve.times_ns.tolist(), curve.values.tolist(), strict=True))


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_each_kind_of_call_has_a_lane_with_its_outermost_calls(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *WORK,
        *(on_cpu(OSRT, "poll", 0, 90), on_cpu(OSRT, "read", 10, 20), on_cpu(OSRT, "read", 5, 9, tid=101)),
        *(on_cpu(MPI_P2P, "MPI_Send", 20, 30), on_cpu(MPI_COLLECTIVE, "MPI_Reduce", 40, 50)),
        changed(on_cpu(MPI_COLLECTIVE, "MPI_Barrier", 60, 70), end=None),  # it never ended
        on_cpu(OPENMP, "Parallel", 20, 80),
    )
    assert others(capture) == {
        ("thread 100", "MPI collectives"): [(40, 50, "MPI_Reduce")],
        ("thread 100", "MPI sends and receives"): [(20, 30, "MPI_Send")],
        ("thread 100", "OpenMP"): [(20, 80, "Parallel")],
        ("thread 100", "OS calls"): [(0, 90, "poll")],
        ("thread 101", "OS calls"): [(5, 9, "read")],
    }


def test_mpi_and_os_calls_of_a_recorded_run(tmp_path: Path) -> None:
    """Where no call is inside another one, a lane holds all that were recorded."""
    capture = open_capture(run_folder("hybrid/gpu", tmp_path))
    found = Counter[str]()
    for lane in threads(capture):
        assert (lane.start_ns[1:] >= lane.end_ns[:-1]).all() or lane.family != OTHERS
        found[lane.title] += len(lane) if lane.family == OTHERS else 0
    for kind, title in (("mpi_collective", "MPI collectives"), ("mpi_p2p", "MPI sends and receives")):
        assert 0 < found[title] == capture.count(kind)
    assert 0 < found["OS calls"] <= capture.count("osrt")


def test_memory_is_drawn_to_the_end_in_bytes(tmp_path: Path) -> None:
    rows = allocation(1, 10, 1 << 30), allocation(2, 500, 1 << 20), allocation(3, 20, 8, memKind=1)
    freed = allocation(3, 30, 8, memKind=1, memoryOperationType=1)
    memory, pinned = curves(opened(tmp_path, *WORK, *rows, freed))
    assert memory[:3] == ("allocated memory", "GPU 0 memory", "bytes")
    assert points(memory) == [(10, 1 << 30), (500, (1 << 30) + (1 << 20)), (2000, (1 << 30) + (1 << 20))]
    assert (pinned.title, points(pinned)) == ("pinned host memory", [(20, 8), (30, 0), (2000, 0)])


def test_memory_is_drawn_to_the_end_of_the_recording(tmp_path: Path) -> None:
    """nsys also writes when it began, since the machine started: that is no time of an event."""
    ended = row("ANALYSIS_DETAILS", duration=3000, startTime=10**15, stopTime=10**15 + 3000)
    [memory] = curves(opened(tmp_path, *WORK, allocation(1, 10, 100), allocation(2, 20, 1), ended))
    assert points(memory) == [(10, 100), (20, 101), (3000, 101)]


def test_clocks_and_power_are_those_of_the_samples(tmp_path: Path) -> None:
    samples = around([sample(1100 + 100 * i, 1200 + i, 680) for i in range(20)])
    capture = recorded(tmp_path / "run", [kernel("k", 1050 * MS, 2950 * MS)], samples)
    found = {curve.title: curve for curve in curves(capture)}
    assert {curve.group for curve in found.values()} == {"clocks and power"}
    assert {title: curve.unit for title, curve in found.items()} == {
        "GPU 0 SM clock": "MHz",  # the clock of the memory does not change
        "GPU 0 power": "W",
        "GPU 0 temperature": "\N{DEGREE SIGN}C",
    }
    clock = points(found["GPU 0 SM clock"])
    assert clock[10:13] == [(1000 * MS, 345), (1100 * MS, 1200), (1200 * MS, 1201)]
    assert found["GPU 0 power"].values[11] == 680


def test_a_selected_time_has_the_part_of_the_curves_in_it(tmp_path: Path) -> None:
    capture = opened(tmp_path, *WORK, *metric("SMs Active [Throughput %]", 3, *range(100), every=50))
    [curve] = curves(capture.select(time="1010ns/1120ns"))
    assert curve[:3] == ("GPU 0 metrics", "SMs Active", "%")
    assert points(curve) == [(1010, 20), (1050, 21), (1100, 22), (1120, 22)]


def test_what_does_not_change_has_no_curve(tmp_path: Path) -> None:
    assert not list(curves(opened(tmp_path, *WORK, *metric("PCIe TX Throughput [Throughput %]", 3, 1, 1))))


def test_many_samples_are_means_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    rows: list[Row] = [*metric("SMs Active [Throughput %]", 3, 0, 100, 50, 60, 10, 20)]
    rows += [allocation(i, 10 * i, 5) for i in range(6)]
    rows += [allocation(5, 60, 5, memoryOperationType=1)]
    memory, active = curves(opened(tmp_path, *WORK, *rows))
    assert (points(active), active.joined) == ([(0, 50), (20, 55), (40, 15)], "mean of 17 ns")
    assert (points(memory), memory.joined) == ([(0, 30), (667, 25), (2000, 25)], "highest of 667 ns")


def test_power_and_temperature_of_the_plugin_are_drawn(tmp_path: Path) -> None:
    one = nvml_samples((74, 36), (310, 36), (300, 41))
    power, temperature = curves(opened(made(tmp_path / "one"), *WORK, *one))
    assert power[:3] == ("nsys' NVML plugin", "power", "W")
    assert (points(power), temperature.title) == ([(0, 74), (10, 310), (20, 300)], "temperature")
    two = opened(made(tmp_path / "two"), *WORK, *one, *nvml_samples((80, 36), (90, 36), type_id=9))
    assert [curve.title for curve in curves(two)] == [
        *("power, source 0", "temperature, source 0"),
        "power, source 1",  # its temperature does not change
    ]
    trace = traced(opened(made(tmp_path / "trace"), *WORK, *one), tmp_path)
    assert trace.counters["nsys' NVML plugin", "power"] == points(power)


def test_perfetto_has_a_counter_for_each_curve(tmp_path: Path) -> None:
    rows = (*metric("SMs Active [Throughput %]", 3, 5, 97), allocation(1, 10, 100), allocation(2, 20, 1))
    trace = traced(opened(tmp_path, *WORK, *rows), tmp_path)
    assert trace.counters["GPU 0 metrics", "SMs Active"] == [(0, 5), (10, 97)]
    assert trace.counters["allocated memory", "GPU 0 memory"] == [(10, 100), (20, 101), (2000, 101)]


def test_perfetto_has_the_steps_and_the_idle_time_of_the_tables(tmp_path: Path) -> None:
    rows = [row for i in range(6) for row in step_of_two_kernels(100 * i)]
    capture = opened(tmp_path, *rows)
    trace = traced(capture, tmp_path)
    budget = capture.report("step_budget").frame
    each = budget[budget["row"] == "step"]
    drawn = trace.of("steps")
    ends = zip(each["start_ns"], each["start_ns"] + each["duration_ns"], strict=True)
    assert [(part.start, part.end) for part in drawn] == list(ends)
    assert [part.name for part in drawn] == [f"step {number}" for number in each["step"]]
    assert [part.group for part in drawn] == ["warm-up", *(["steady step"] * 5)]
    assert {(trace.owner(part), trace.lane(part)) for part in drawn} == {("steps", "'step'")}
    idle_ns = sum(part.end - part.start for part in trace.of("idle by cause"))
    assert idle_ns == budget[budget["row"] == "capture"]["idle_ns"].sum()
    assert trace.roots[:2] == ["GPU 0", "steps"]


def test_steps_are_cut_as_the_selection_says(tmp_path: Path) -> None:
    rows = [row for i in range(6) for row in step_of_two_kernels(100 * i)]
    capture = opened(tmp_path, *rows)
    for clip, ends in ((False, [(200, 300), (300, 400)]), (True, [(250, 300), (300, 350)])):
        trace = traced(capture.select(time="250/350", clip=clip), tmp_path)
        assert [(part.start, part.end) for part in trace.of("steps")] == ends


def step_of_two_kernels(start: int) -> list[Row]:
    number = start // 50
    return [
        nvtx("step", start, start + 90),
        *(call("cudaLaunchKernel", start + 20 * i, start + 20 * i + 5, number + i) for i in (0, 1)),
        *(kernel(f"k{i}", start + 30 * i + 10, start + 30 * i + 30, number + i) for i in (0, 1)),
    ]


@pytest.mark.skipif(not OPTIONS.is_dir(), reason=f"no {OPTIONS}")
def test_memory_and_metrics_of_a_real_training(tmp_path: Path) -> None:
    found: dict[str, Curve] = {}
    for name in ("mem", "gpu_metrics", "nvml"):
        path = tmp_path / f"{name}.sqlite"
        path.write_bytes(lzma.decompress((OPTIONS / f"{path.name}.xz").read_bytes()))
        found |= {curve.title: curve for curve in curves(open_capture(path))}
    assert found["GPU 0 memory"].values[-1] == 4_836_347_400 + 13_432  # in device and in static memory
    assert found["SMs Active"].values.max() == 100
    assert 1900 < np.median(found["GPC Clock Frequency"].values) < 2000
    power, temperature = found["power"], found["temperature"]
    assert (power.values.min(), len(power.values), temperature.unit) == (72, 108, "\N{DEGREE SIGN}C")
    assert "PCIe TX Throughput" not in found  # it never changes


def test_a_thread_has_one_name_everywhere(tmp_path: Path) -> None:
    work = [call("cudaFree", 0, 5, pid=pid, tid=tid) for pid, tid in ((100, 100), (100, 101), (200, 200))]
    capture = opened(tmp_path, *work)
    names = ["thread 100", "thread 101, process 100", "thread 200"]
    assert [lane.group for lane in threads(capture)] == names
    trace = traced(capture, tmp_path)
    assert {trace.lane(part) for part in trace.slices} == {"thread"}  # Perfetto adds the numbers


def test_steps_of_several_processes_begin_with_what_tells_them_apart(tmp_path: Path) -> None:
    rows = [
        row
        for pid in (100, 200)
        for i in range(1, 60)
        for row in (
            call("cudaLaunchKernel", 1000 * i - 500, 1000 * i - 400, i, pid=pid),
            kernel(f"k{i % 3}", 1000 * i, 1000 * i + 300, i, pid=pid),
        )
    ]
    titles = [lane.title for lane in steps(opened(tmp_path, *rows))]
    assert titles == ["process 100: 3 GPU operations", "process 200: 3 GPU operations"]
