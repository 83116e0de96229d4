"""What NVML's answers become: facts, samples and process ids. Which GPUs a program sees."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake_nvml import FakeGpu, FakeNvml

from nsyswrap.base.run_facts import COLUMNS, Gpu
from nsyswrap.record.conditions import nvml
from nsyswrap.record.conditions.nvml import GpuSample, Nvml, visible

UUID = "GPU-11111111-2222"


def test_the_facts_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvml, "PCI_DEVICES", tmp_path)
    [(index, device)] = Nvml(FakeNvml(FakeGpu())).devices().items()
    expected = Gpu(UUID, "Fake H200", 0, False, True, True, 2000, 700.0)  # noqa: FBT003 - MIG, persistence, ECC
    assert device.describe(index) == replace(expected, pcie_generation=5, pcie_lanes=16)


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("?", None)])
def test_the_numa_node_of_a_gpu(
    text: str, node: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nvml, "PCI_DEVICES", tmp_path)
    (tmp_path / "0000:1b:00.0").mkdir()
    (tmp_path / "0000:1b:00.0" / "numa_node").write_text(text)
    assert Nvml(FakeNvml(FakeGpu())).devices()[0].describe(0).numa_node == node
    lacking = FakeNvml(FakeGpu(), lacking=("nvmlDeviceGetPciInfo_v3",))
    assert Nvml(lacking).devices()[0].describe(0).numa_node is None


def test_the_version_of_the_driver() -> None:
    assert Nvml(FakeNvml(FakeGpu())).driver == "580.1"
    assert not Nvml(FakeNvml(FakeGpu(), lacking=("nvmlSystemGetDriverVersion",))).driver


def test_a_sample_has_the_columns_of_the_file() -> None:
    device = Nvml(FakeNvml(FakeGpu())).devices()[0]
    assert device.sample() == GpuSample(1980, 3201, 80_500, 30, 4)
    assert GpuSample._fields == COLUMNS[2:]


def test_what_a_gpu_does_not_report_is_none() -> None:
    gpu = FakeGpu(sm_mhz=None, memory_mhz=None, power_mw=None, temperature_c=None, reasons=None, mig=None)
    device = Nvml(FakeNvml(gpu)).devices()[0]
    assert set(device.sample()) == {None}
    assert device.describe(0).mig is None


def test_zero_is_a_value() -> None:
    device = Nvml(FakeNvml(FakeGpu(reasons=0))).devices()[0]
    assert device.sample().reasons == 0


def test_an_older_driver_has_older_functions() -> None:
    newer = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses_v3")
    device = Nvml(FakeNvml(FakeGpu(processes=[7]), lacking=(*newer, "nvmlDeviceGetMigMode"))).devices()[0]
    assert device.sample().reasons == 4
    assert device.process_ids() == [7]
    assert device.describe(0).mig is None


@pytest.mark.parametrize("count", [0, 1, 64, 65, 1000])
def test_all_processes_are_listed(count: int) -> None:
    pids = list(range(1, count + 1))
    assert Nvml(FakeNvml(FakeGpu(processes=pids))).devices()[0].process_ids() == pids


def test_a_gpu_that_may_not_be_used_is_left_out_and_the_others_keep_their_numbers() -> None:
    library = FakeNvml(FakeGpu("GPU-a", forbidden=True), FakeGpu("GPU-b"))
    assert {index: device.uuid for index, device in Nvml(library).devices().items()} == {1: "GPU-b"}


def test_the_gpu_of_a_mig_device() -> None:
    library = FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b", migs=("MIG-c",)))
    assert Nvml(library).parent_of_mig("MIG-c") == "GPU-b"
    assert Nvml(library).parent_of_mig("MIG-d") == ""


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libnvidia-ml-not-installed.so.1")
    assert nvml.load() is None


ALIKE = [Gpu("GPU-aa11", "H200"), Gpu("GPU-aa22", "H200"), Gpu("GPU-bb33", "H200")]
MIXED = [Gpu("GPU-aa11", "T4"), Gpu("GPU-bb22", "H200")]
SPLIT = [Gpu("GPU-aa11", "H200", mig=True), Gpu("GPU-bb22", "H200", mig=True)]


MIGS = {"MIG-1": "GPU-bb22"}


def seen(gpus: list[Gpu], value: str, order: str = "") -> list[int]:
    environment = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": order}
    return visible(environment, gpus, lambda uuid: MIGS.get(uuid, ""))


@pytest.mark.parametrize("gpus", [[], ALIKE, MIXED, SPLIT])
def test_without_the_variable_all(gpus: list[Gpu]) -> None:
    assert visible({}, gpus, str) == list(range(len(gpus)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", []),
        ("-1", []),
        ("none", []),
        ("NoDevFiles", []),
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("1,1", [1]),
        ("0,-1,2", [0]),
        ("0,3,1", [0]),
        ("9" * 5000, []),
        ("\u0662", []),
        ("GPU-bb", [2]),
        ("GPU-aa2,GPU-bb33", [1, 2]),
        ("GPU-aa", []),  # means two
        ("GPU-zz,GPU-bb", []),
        ("MIG-2", [0, 1, 2]),  # of an unknown GPU
    ],
)
def test_gpus_of_one_kind_are_numbered_as_cuda_does(value: str, expected: list[int]) -> None:
    assert seen(ALIKE, value) == expected


def test_gpus_of_two_kinds_are_told_apart_by_uuid_or_bus_order_only() -> None:
    assert seen(MIXED, "0") == [0, 1]
    assert seen(MIXED, "0", "FASTEST_FIRST") == [0, 1]
    assert seen(MIXED, "1", "PCI_BUS_ID") == [1]
    assert seen(MIXED, "GPU-bb") == [1]
    assert seen(MIXED, "") == []


def test_mig_devices_are_those_of_their_gpu() -> None:
    assert seen(SPLIT, "MIG-1") == [1]
    assert seen(SPLIT, "1", "PCI_BUS_ID") == [0, 1]  # of which GPU it is is not known
    assert seen(SPLIT[:1], "0") == [0]
