"""The clock, power and throttling of a GPU while it worked, from the samples of its run."""

from dataclasses import replace
from pathlib import Path

import pytest
from conditioned import H200, MS, POWER, STARTED, around, csv_of, idle, recorded, run_folder, sample
from tiny_export import Row, everything, global_id, kernel, opened, row

from nsyswrap.analysis import conditions as conditions_module
from nsyswrap.analysis.conditions import RunConditions, Spread, WorkingGpu, run_conditions_of
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.run_facts import Conditions, Gpu
from nsyswrap.base.run_folder import EXPORT

# A kernel from 1.05 s to 2.95 s. Samples every 100 ms: those from 1.1 s to 3.0 s follow work, the first of
# them does not count, so 19 do.
WORK = kernel("k", 1050 * MS, 2950 * MS)


def conditions(capture: CaptureReader) -> RunConditions:
    made = run_conditions_of(capture)
    assert made is not None
    return made


def gpu_of(capture: CaptureReader) -> WorkingGpu:
    made = conditions(capture)
    assert made.unknown == ""
    [gpu] = made.gpus
    return gpu


def test_figures_are_those_of_the_samples_while_the_gpu_worked(tmp_path: Path) -> None:
    # 1.2 s to 3.0 s: 1201, 1202, ... 1219 MHz, 600 to 618 W; throttled in the first 10 of 19
    work = [sample(1100 + 100 * i, 1200 + i, 599 + i, POWER if i <= 10 else 0) for i in range(20)]
    gpu = gpu_of(recorded(tmp_path / "run", [WORK], around(work)))
    assert gpu.count == 19
    assert gpu.sm_mhz == pytest.approx(Spread(1201, 1201.9, 1210, 1218.1, 1219))
    assert gpu.power_w == pytest.approx(Spread(600, 600.9, 609, 617.1, 618))
    assert gpu.memory_mhz == Spread(*[3201] * 5)
    assert gpu.temperature_c == Spread(*[50] * 5)
    assert gpu.throttled_percent == pytest.approx(100 * 10 / 19)
    assert gpu.throttled == pytest.approx({"power limit": 100 * 10 / 19})
    assert gpu.idle_percent == 0
    assert gpu.seconds[[0, -1]] == pytest.approx([0, 4])


def test_each_reason_has_its_share_and_the_largest_is_first(tmp_path: Path) -> None:
    reasons = [0, *[0x20] * 5, *[0x24] * 10, *[0] * 4]  # 15 of 19 by temperature, 10 by power
    work = [sample(1100 + 100 * i, reasons=bits) for i, bits in enumerate(reasons)]
    gpu = gpu_of(recorded(tmp_path / "run", [WORK], around(work)))
    assert list(gpu.throttled or ()) == ["temperature (software)", "power limit"]
    assert list((gpu.throttled or {}).values()) == pytest.approx([100 * 15 / 19, 100 * 10 / 19])
    assert gpu.throttled_percent == pytest.approx(100 * 15 / 19)


def test_a_chosen_clock_is_not_throttling(tmp_path: Path) -> None:
    work = [sample(1100 + 100 * i, 1000, reasons=0x2 | 0x10 | 0x100) for i in range(20)]
    assert gpu_of(recorded(tmp_path / "run", [WORK], around(work))).throttled == {}


def test_the_clock_on_its_way_up_does_not_count(tmp_path: Path) -> None:
    work = [sample(1100, 345), *(sample(1200 + 100 * i) for i in range(19))]
    assert gpu_of(recorded(tmp_path / "run", [WORK], around(work))).sm_mhz == Spread(*[1980] * 5)


def test_pauses_at_the_idle_clock_are_a_share_of_their_own(tmp_path: Path) -> None:
    # an operation of 1 us at 1.05 s, 1.15 s, ... 2.95 s: each of the 20 samples follows one
    rows = [kernel("k", ms * MS, ms * MS + 1000) for ms in range(1050, 2951, 100)]
    work = [sample(1100 + 100 * i) if i % 2 else idle(1100 + 100 * i) for i in range(20)]
    gpu = gpu_of(recorded(tmp_path / "run", rows, around(work)))
    assert gpu.idle_percent == pytest.approx(100 * 9 / 19)  # i = 2, 4, ... 18
    assert (gpu.count, gpu.sm_mhz) == (10, Spread(*[1980] * 5))


def test_five_samples_are_enough_and_four_are_not(tmp_path: Path) -> None:
    # a kernel from 1.05 s to 1.55 s: samples at 1.1 s to 1.6 s, without the first 5
    work = [sample(1100 + 100 * i) for i in range(20)]
    for end_ms, count, clock in ((1550, 5, Spread(*[1980] * 5)), (1450, 4, None)):
        rows = [kernel("k", 1050 * MS, end_ms * MS)]
        gpu = gpu_of(recorded(tmp_path / str(count), rows, around(work)))
        assert (gpu.count, gpu.sm_mhz) == (count, clock)


def test_the_selection_chooses_the_samples(tmp_path: Path) -> None:
    # half of the kernel at 1980 MHz, the other half at 1200 MHz
    work = [sample(1100 + 100 * i, 1980 if i < 10 else 1200) for i in range(20)]
    capture = recorded(tmp_path / "run", [WORK], around(work)).select(time="2.05s/2.95s", clip=True)
    gpu = gpu_of(capture)
    assert (gpu.count, gpu.sm_mhz) == (9, Spread(*[1200] * 5))


def test_what_a_gpu_does_not_report_is_not_known(tmp_path: Path) -> None:
    work = [(1100 + 100 * i, 0, "", 3201, "", 50, "") for i in range(20)]
    gpu = gpu_of(recorded(tmp_path / "run", [WORK], around(work)))
    assert (gpu.count, gpu.sm_mhz, gpu.power_w, gpu.throttled_percent) == (19, None, None, None)
    assert gpu.temperature_c == Spread(*[50] * 5)


def devices(*rows: tuple[int, int, int]) -> list[Row]:
    """GPUs 0 and 1 with the UUIDs a and b; which device id of which process each is."""
    gpus = [row("TARGET_INFO_GPU", id=i, name="GPU", uuid=uuid) for i, uuid in enumerate("ab")]
    places = [row("TARGET_INFO_CUDA_DEVICE", pid=pid, cudaId=cuda, gpuId=gpu) for pid, cuda, gpu in rows]
    return gpus + places


TWO = Conditions((replace(H200, uuid="GPU-B", index=1), replace(H200, uuid="GPU-A", index=0)))


def test_each_gpu_is_found_by_its_uuid(tmp_path: Path) -> None:
    # process 100 calls GPU a its device 0, process 200 calls GPU b its device 0
    rows = [WORK, kernel("k", 1050 * MS, 1950 * MS, pid=200), *devices((100, 0, 0), (200, 0, 1))]
    of_b = around([sample(1100 + 100 * i, 1700, gpu=0) for i in range(20)])
    of_a = around([sample(1100 + 100 * i, 1500, gpu=1) for i in range(20)], gpu=1)
    made = conditions(recorded(tmp_path / "run", rows, [*of_b, *of_a], TWO))
    found = [(gpu.gpu.index, gpu.count, gpu.sm_mhz) for gpu in made.gpus]
    assert found == [(1, 9, Spread(*[1700] * 5)), (0, 19, Spread(*[1500] * 5))]


def test_a_gpu_that_did_not_work_is_left_out(tmp_path: Path) -> None:
    rows = [WORK, *devices((100, 0, 1))]
    made = conditions(recorded(tmp_path / "run", rows, around([], gpu=0), TWO))
    assert [gpu.gpu.index for gpu in made.gpus] == [1]


@pytest.mark.parametrize("known", [(), devices(), devices((200, 0, 0))])
def test_without_its_uuid_one_of_several_gpus_is_unknown(tmp_path: Path, known: list[Row]) -> None:
    made = conditions(recorded(tmp_path / "run", [WORK, *known], around([]), TWO))
    assert made.gpus == ()
    assert made.unknown.startswith("the export does not tell which GPU the work ran on")


@pytest.mark.parametrize("sampled", [(H200,), TWO.gpus])
def test_work_on_a_gpu_that_was_not_sampled(tmp_path: Path, sampled: tuple[Gpu, ...]) -> None:
    other = row("TARGET_INFO_GPU", id=2, name="GPU", uuid="c")
    rows = [WORK, other, *devices((100, 0, 2))]
    made = conditions(recorded(tmp_path / "run", rows, around([]), Conditions(sampled)))
    assert made.gpus == ()
    assert made.unknown == "work ran on a GPU or MIG device that was not sampled"


@pytest.mark.parametrize(
    ("uuid", "only"),
    [
        ("c", replace(H200, mig=True)),
        ("c", replace(H200, uuid="")),
        ("00000000-0000-0000-0000-000000000001", H200),
        ("", H200),
    ],
)
def test_the_only_gpu_if_uuids_cannot_be_compared(tmp_path: Path, uuid: str, only: Gpu) -> None:
    rows = [WORK, row("TARGET_INFO_GPU", id=2, name="GPU", uuid=uuid), *devices((100, 0, 2))]
    made = conditions(recorded(tmp_path / "run", rows, around([]), Conditions((only,))))
    assert [gpu.gpu for gpu in made.gpus] == [only]


def test_reasons_why_it_is_not_known(tmp_path: Path) -> None:
    only = Conditions((H200,))
    for number, (rows, samples, reason) in enumerate(
        [
            ([WORK], around([]), "the export has no start time in UTC, so samples cannot be assigned"),
            ([STARTED], around([]), "no GPU work"),
            ([WORK, STARTED], [], "no samples of a GPU"),
            ([WORK, STARTED], None, "conditions.csv cannot be read: No such file or directory"),
            ([WORK, STARTED], "text", "conditions.csv cannot be read: no column time_ns"),
            (
                [WORK, STARTED],
                csv_of([idle(0, gpu=1)]),
                "conditions.csv cannot be read: a sample has no time",
            ),
        ]
    ):
        capture = open_capture(run_folder(tmp_path / str(number), rows, samples, only))
        made = conditions(capture)
        assert made.gpus == ()
        assert made.unknown.startswith(reason)


def test_a_capture_of_no_run_has_no_conditions(tmp_path: Path) -> None:
    assert run_conditions_of(opened(tmp_path, *everything())) is None
    folder = run_folder(tmp_path / "run", [WORK, STARTED], around([]), None)
    assert run_conditions_of(open_capture(folder)) is None


def test_the_export_of_a_run_has_those_of_the_run(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "run", [WORK], around([]))
    assert conditions(open_capture(capture.path)).facts == conditions(capture).facts
    (tmp_path / "run" / EXPORT).rename(tmp_path / "run" / "other.sqlite")
    assert run_conditions_of(open_capture(tmp_path / "run" / "other.sqlite")) is None


def test_an_operation_without_a_duration_is_no_work(tmp_path: Path) -> None:
    rows = [kernel("k", 1100 * MS, 1100 * MS, globalPid=global_id(100))]
    assert gpu_of(recorded(tmp_path / "run", rows, around([]))).count == 0


@pytest.mark.parametrize(
    ("generation", "gt_per_s", "coded"),
    [
        (1, 2.5, 0.8),
        (2, 5, 0.8),
        (3, 8, 128 / 130),
        (4, 16, 128 / 130),
        (5, 32, 128 / 130),
        (6, 64, 242 / 256),
    ],
)
def test_a_lane_of_pcie_gives_its_transfers_without_their_code(
    generation: int, gt_per_s: float, coded: float
) -> None:
    lane = conditions_module._LANE_BYTES_PER_NS[generation]  # noqa: SLF001 - most are in no other test
    assert lane == pytest.approx(gt_per_s * coded / 8, rel=1e-3)
