"""What diagnostics and the trust line say of the conditions of a run."""

import lzma
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from conditioned import FULL, H200, MS, OWN, POWER, Sample, around, idle, recorded, sample
from diagnostics_found import found
from tiny_export import call, diagnostic, kernel, opened, row

from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.run_facts import Conditions, GpuProcess, Host
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.reports.summary import trust

DATA = Path(__file__).resolve().parents[1] / "data"
# As in test_conditions: 19 samples, from 1.2 s to 3.0 s.
ROWS = [
    call("cudaLaunchKernel", 1000 * MS, 1001 * MS, 1),
    kernel("k", 1050 * MS, 2950 * MS, 1),
    diagnostic("Profiling has started.", severity=1),
]
SAME = "compare with runs at the same clock, or lock a lower clock with `nvidia-smi -lgc`"
SHARED = "this may have delayed the work of this program; run again on a GPU of your own"
COMPLETE = "1 kernel; trace complete"
MORE = "(-r diagnostics)"


def run(
    folder: Path, *processes: GpuProcess, work: Iterable[Sample] | None = None, host: Host | None = None
) -> CaptureReader:
    """A run whose GPU has a steady clock, unless ``work`` says otherwise."""
    samples = [sample(1100 + 100 * i) for i in range(20)] if work is None else work
    gpu = replace(H200, processes=processes or (OWN,))
    return recorded(folder / "run", ROWS, around(samples), Conditions((gpu,), host or Host()))


def test_a_sound_run(tmp_path: Path) -> None:
    capture = run(tmp_path)
    steady = "GPU 0: steady SM clock of 1980 MHz (maximum 1980), median of 19 samples"
    assert found(capture, "GPU clocks") == [("ok", 0, None, steady)]
    assert found(capture, "GPU throttling") == [("ok", 0, None, "GPU 0: throttled in 0.0 % of 19 samples")]
    alone = "no other process found on the GPUs of the run"
    assert found(capture, "other processes") == [("ok", 0, None, alone)]
    assert found(capture, "host load") == []
    assert trust(capture).lines == [COMPLETE]


def test_a_throttled_gpu(tmp_path: Path) -> None:
    # 1215 MHz and 1545 MHz by turns, throttled in 18 of 19
    work = [sample(1100 + 100 * i, 1215 if i % 2 else 1545, 690, POWER if i > 1 else FULL) for i in range(20)]
    capture = run(tmp_path, work=work)
    throttled = "GPU 0 throttled (power limit) in 94.7 % of samples: SM clock 1215 to 1545 MHz"
    [(level, count, time_ns, meaning)] = found(capture, "GPU throttling")
    assert (level, count, time_ns) == ("warning", 19, None)
    assert meaning == f"{throttled}; kernels may have been slower than at full clock (maximum 1980); {SAME}"
    varied = "GPU 0: SM clock varied from 1215 to 1545 MHz (5th to 95th percentile)"
    effect = f"equal kernels may differ by 27 %; {SAME}"  # 330 of the median, 1215
    assert found(capture, "GPU clocks") == [("warning", 19, None, f"{varied}; {effect}")]
    assert trust(capture).lines == [f"{COMPLETE} {MORE}", f"  {throttled}"]
    assert capture.brief()["conditions"] == [throttled]


def test_a_throttled_sample_of_twenty_one_is_no_warning(tmp_path: Path) -> None:
    for number, (reasons, level) in enumerate(
        [([0, 0, *[FULL] * 17, POWER], "warning"), ([0] * 20, "ok"), ([POWER, *[0] * 19], "ok")]
    ):
        work = [sample(1100 + 100 * i, 1900, reasons=bits) for i, bits in enumerate(reasons)]
        [(found_level, *_)] = found(run(tmp_path / str(number), work=work), "GPU throttling")
        assert found_level == level


@pytest.mark.parametrize(
    ("clock", "level", "meaning"),
    [
        (1980, "ok", "GPU 0: SM clock at its maximum in each of 19 samples"),
        (1965, "warning", "GPU 0 throttled (power limit) in 100.0 % of samples: SM clock 1965 MHz; "),
    ],
)
def test_a_reason_without_a_lower_clock_is_no_throttling(
    tmp_path: Path, clock: int, level: str, meaning: str
) -> None:
    capture = run(tmp_path, work=[sample(1100 + 100 * i, clock, 690, POWER) for i in range(20)])
    [(found_level, *_, found_meaning)] = found(capture, "GPU throttling")
    assert found_level == level
    assert str(found_meaning).startswith(meaning)
    assert len(trust(capture).lines) == (1 if level == "ok" else 2)
    assert len(capture.brief()["conditions"]) == (0 if level == "ok" else 1)


@pytest.mark.parametrize(("lower", "level"), [(1885, "ok"), (1875, "warning")])
def test_a_clock_that_varied_by_more_than_5_percent(tmp_path: Path, lower: int, level: str) -> None:
    # the median is 1980; 95 MHz are 4.8 % of it, 105 MHz are 5.3 %
    work = [sample(1100 + 100 * i, lower if i % 3 == 1 else 1980) for i in range(20)]
    capture = run(tmp_path, work=work)
    assert [row[0] for row in found(capture, "GPU clocks")] == [level]
    lines = (
        []
        if level == "ok"
        else [f"  GPU 0: SM clock varied from {lower} to 1980 MHz (5th to 95th percentile)"]
    )
    assert trust(capture).lines[1:] == lines
    assert capture.brief()["conditions"] == [line.strip() for line in lines]


def test_idle_clocks_before_and_after_the_work_do_not_count(tmp_path: Path) -> None:
    work = [*(idle(100 * i) for i in range(11)), *(sample(1100 + 100 * i) for i in range(20))]
    assert trust(run(tmp_path, work=work)).lines == [COMPLETE]


def test_a_gpu_that_is_mostly_idle(tmp_path: Path) -> None:
    rows = [kernel("k", ms * MS, ms * MS + 1000) for ms in range(1050, 2951, 100)]
    work = [idle(1100 + 100 * i) if i % 4 else sample(1100 + 100 * i) for i in range(20)]  # 15 of 19
    capture = recorded(tmp_path / "run", rows, around(work))
    share = "GPU 0 had its idle clock in 78.9 % of the samples around its work"
    idle_clock = ("info", 41, None, f"{share}: kernels may begin at a low clock")
    assert found(capture, "GPU clocks") == [idle_clock]


def test_work_that_is_too_short(tmp_path: Path) -> None:
    rows = [kernel("k", 1050 * MS, 1054 * MS)]
    capture = recorded(tmp_path / "run", rows, around([sample(1100, 700, reasons=POWER)]))
    short = "0 samples while GPU 0 worked, one every 100 ms: too few to judge its clock (at least 5)"
    assert found(capture, "GPU clocks") == [("info", None, None, short)]
    assert found(capture, "GPU throttling") == []
    assert trust(capture).lines[1:] == []


OTHER = GpuProcess(4242, "python", in_run=False)


@pytest.mark.parametrize(
    ("processes", "finding"),
    [
        ([OTHER, OWN], "another process on GPU 0: python, pid 4242"),
        ([replace(OTHER, name="")], "another process on GPU 0: pid 4242"),
        ([OTHER, replace(OTHER, pid=2), OWN], "2 other processes on GPU 0: python, pid 4242 and 1 more"),
        ([GpuProcess(7, "", in_run=None, began_before=True)], "possibly another process on GPU 0: pid 7"),
    ],
)
def test_another_process(tmp_path: Path, processes: list[GpuProcess], finding: str) -> None:
    capture = run(tmp_path, *processes)
    [(level, _, _, meaning)] = found(capture, "other processes")
    assert (level, meaning) == ("warning", f"{finding}; {SHARED}")
    assert trust(capture).lines == [f"{COMPLETE} {MORE}", f"  {finding}"]


UNSEEN = GpuProcess(7, "", in_run=None)


@pytest.mark.parametrize("processes", [(UNSEEN,), (OWN, UNSEEN), (UNSEEN, replace(UNSEEN, pid=8))])
def test_a_process_that_cannot_be_seen_may_be_the_program(
    tmp_path: Path, processes: tuple[GpuProcess, ...]
) -> None:
    capture = run(tmp_path, *processes)
    not_known = "the processes on the GPUs of the run are not known"
    assert found(capture, "other processes") == [("info", None, None, not_known)]
    assert trust(capture).lines == [COMPLETE]


def test_a_gpu_without_any_process_did_not_report_them(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "run", ROWS, around([]), Conditions((replace(H200, processes=()),)))
    [(level, count, _, meaning)] = found(capture, "other processes")
    assert (level, count, meaning) == ("info", None, "the processes on the GPUs of the run are not known")


@pytest.mark.parametrize(("load", "rows"), [((31.9, 40.0), 0), ((32.0, 0.5), 1), ((), 0)])
def test_the_load_before_the_run(tmp_path: Path, load: tuple[float, ...], rows: int) -> None:
    capture = run(tmp_path, host=Host(cores=8, load=load, machine_cores=32))
    effect = "unless an earlier run caused it, other programs may have delayed the host"
    text = f"load of 32.0 before the run on 32 cores: {effect}"
    assert found(capture, "host load") == [("info", 1, None, text)] * rows


@pytest.mark.parametrize(("node", "nodes"), [(1, (0, 1)), (None, (0,)), (1, ())])
def test_a_gpu_near_the_cores(tmp_path: Path, node: int | None, nodes: tuple[int, ...]) -> None:
    facts = Conditions((replace(H200, numa_node=node),), Host(numa_nodes=nodes))
    assert found(recorded(tmp_path / "run", ROWS, around([]), facts), "NUMA") == []


def test_a_gpu_on_another_numa_node_than_the_cores(tmp_path: Path) -> None:
    facts = Conditions((replace(H200, numa_node=1),), Host(numa_nodes=(0,)))
    capture = recorded(tmp_path / "run", ROWS, around([]), facts)
    [(level, _, _, text)] = found(capture, "NUMA")
    far = "GPU 0 is on NUMA node 1, the cores of the program on node 0"
    bind = "numactl --cpunodebind=1 --membind=1"
    assert (level, text) == ("warning", f"{far}; copies and launches take longer; run it with {bind}")
    assert f"  {far}" in trust(capture).lines


def test_a_load_of_an_unknown_number_of_cores(tmp_path: Path) -> None:
    assert found(run(tmp_path, host=Host(cores=8, load=(60.0,))), "host load") == []


def test_several_gpus_have_one_line_for_each_subject(tmp_path: Path) -> None:
    # which of the two GPUs worked is not known: both are listed
    gpus = tuple(replace(H200, uuid=f"GPU-{i}", index=i, processes=(OTHER,)) for i in range(2))
    capture = recorded(tmp_path / "run", ROWS, around([]), Conditions(gpus))
    assert trust(capture).lines[1:] == ["  another process on GPU 0: python, pid 4242; also on 1 other GPU"]
    assert [row[1] for row in found(capture, "other processes")] == [1, 1]
    [(level, count, _, meaning)] = found(capture, "GPU clocks")
    assert (level, count) == ("info", None)
    assert str(meaning).startswith("clocks and throttling unknown: the export does not tell which GPU")


def two_gpus(folder: Path, *work: list[Sample], others: tuple[GpuProcess, ...] = ()) -> CaptureReader:
    """A run of two GPUs that worked at the same time, each with samples of its own."""
    rows = list(ROWS)
    for i in range(2):
        rows += [kernel("k", 1050 * MS, 2950 * MS, 1, deviceId=i)]
        rows += [row("TARGET_INFO_GPU", id=i, name="GPU", uuid=str(i))]
        rows += [row("TARGET_INFO_CUDA_DEVICE", pid=100, cudaId=i, gpuId=i)]
    gpus = tuple(replace(H200, uuid=str(i), index=i, processes=(OWN, *others)) for i in range(2))
    samples = [one for i in range(2) for one in around(work[i], gpu=i)]
    return recorded(folder / "run", rows, samples, Conditions(gpus))


def test_a_throttled_gpu_does_not_hide_the_clock_of_another(tmp_path: Path) -> None:
    throttled = [sample(1100 + 100 * i, 1900, reasons=POWER) for i in range(20)]
    varied = [sample(1100 + 100 * i, 1200 if i % 3 == 1 else 1900, gpu=1) for i in range(20)]
    assert trust(two_gpus(tmp_path, throttled, varied)).lines[1:] == [
        "  GPU 0 throttled (power limit) in 100.0 % of samples: SM clock 1900 MHz",
        "  GPU 1: SM clock varied from 1200 to 1900 MHz (5th to 95th percentile)",
    ]


def test_long_lines_are_wrapped(tmp_path: Path) -> None:
    reasons = 0x4 | 0x8 | 0x20
    work = [
        [sample(1100 + 100 * i, 1200 + i, reasons=reasons, gpu=gpu) for i in range(20)] for gpu in range(2)
    ]
    others = (replace(OTHER, name="x" * 60), replace(OTHER, pid=2))
    assert trust(two_gpus(tmp_path, *work, others=others)).lines[1:] == [
        "  GPU 0 throttled (power limit, hardware slowdown, temperature (software)) in",
        "    100.0 % of samples: SM clock 1201 to 1219 MHz; also on 1 other GPU",
        f"  2 other processes on GPU 0: {'x' * 26}…{'x' * 13}, pid 4242",
        "    and 1 more; also on 1 other GPU",
    ]


def test_samples_that_are_damaged(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "run", ROWS, "text\x1b[2J\n")
    [(level, count, _, meaning)] = found(capture, "GPU clocks")
    assert (level, count) == ("info", None)
    assert meaning == "clocks and throttling unknown: conditions.csv cannot be read: no column time_ns"
    assert trust(capture).lines == [COMPLETE]


def test_a_run_without_nvml(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "run", ROWS, None, Conditions(host=Host("gpu07")))
    reason = "clocks and throttling unknown: the driver's NVML reported no GPU"
    assert found(capture, "GPU clocks") == [("info", None, None, reason)]
    assert found(capture, "other processes") == []
    assert trust(capture).lines == [COMPLETE]


def test_a_capture_of_no_run(tmp_path: Path) -> None:
    capture = opened(tmp_path, *ROWS)
    not_recorded = "clocks, throttling and other processes not recorded; record with `nsyswrap profile`"
    assert found(capture, "GPU clocks") == [("info", None, None, not_recorded)]
    assert trust(capture).lines == [COMPLETE]


def test_a_real_gpu_at_its_power_limit(tmp_path: Path) -> None:
    """Recorded: see tests/data/throttled."""
    for file in (DATA / "throttled").iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / EXPORT).write_bytes(lzma.decompress((tmp_path / f"{EXPORT}.xz").read_bytes()))
    capture = open_capture(tmp_path)
    throttled = "GPU 0 throttled (power limit) in 100.0 % of samples: SM clock 1230 to 1845 MHz"
    assert trust(capture).lines[0].endswith("trace complete (-r diagnostics)")
    assert trust(capture).lines[1:] == [f"  {throttled}"]
    conditions = run_conditions_of(capture)
    assert conditions is not None
    [gpu] = conditions.gpus
    assert gpu.count == 60  # of 114: six seconds of work
    assert gpu.power_w is not None
    assert 680 < gpu.power_w.median < 700
