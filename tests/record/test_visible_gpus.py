"""Which GPUs a program sees: a wrong one is never claimed."""

from __future__ import annotations

import pytest

from nsyswrap.base.run_facts import Gpu
from nsyswrap.record.conditions.nvml import visible

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
