"""Peak rates equal those of data sheets, which NVIDIA rounds, and gives at the clocks that nsys records."""

from pathlib import Path

import pytest
from tiny_export import Row, kernel, row, write

from nsyswrap.analysis import peaks
from nsyswrap.analysis.peaks import peak_bandwidth, peak_flops, tf32_over_fp64, tf32_speedup
from nsyswrap.api import CaptureReader, open_capture


def gpu(name: str, version: str, multiprocessors: int | None, mhz: int | None, **more: object) -> Row:
    major, minor = map(int, version.split("."))
    sized = {"smCount": multiprocessors, "clockRate": None if mhz is None else mhz * 1_000_000}
    return row(
        "TARGET_INFO_GPU",
        **{"id": 0, "name": name, "computeMajor": major, "computeMinor": minor, **sized, **more},
    )


def capture(folder: Path, *gpus: Row) -> CaptureReader:
    path = folder / "one.sqlite"
    path.unlink(missing_ok=True)
    write(path, kernel("k", 0, 1), *gpus)
    return open_capture(path)


# Name, capability, multiprocessors, MHz; then TFLOP/s of the data sheet: FP32 and FP64 on CUDA cores, the
# rest on tensor cores, dense. From the sheets of these products, or the architecture paper (GeForce).
SHEETS = [
    ("Tesla V100-SXM2-16GB", "7.0", 80, 1530, {"FP32": 15.7, "FP64": 7.8, "f16": 125}),
    ("Tesla T4", "7.5", 40, 1590, {"FP32": 8.1, "f16": 65, "i8": 130}),
    ("NVIDIA TITAN RTX", "7.5", 72, 1770, {"FP32": 16.3, "f16": 130.5, "i8": 261}),
    ("NVIDIA GeForce RTX 2080 Ti", "7.5", 68, 1545, {"FP32": 13.4, "f16": 53.8, "i8": 215.2}),
    (
        *("NVIDIA A100-SXM4-80GB", "8.0", 108, 1410),
        {"FP32": 19.5, "FP64": 9.7, "tf32": 156, "f16": 312, "bf16": 312, "i8": 624, "f64": 19.5},
    ),
    ("NVIDIA A10", "8.6", 72, 1695, {"FP32": 31.2, "tf32": 62.5, "f16": 125, "bf16": 125, "i8": 250}),
    ("NVIDIA A40", "8.6", 84, 1740, {"FP32": 37.4, "tf32": 74.8, "f16": 149.7, "bf16": 149.7, "i8": 299.3}),
    (
        *("NVIDIA GeForce RTX 3090", "8.6", 82, 1695),
        {"FP32": 35.6, "FP64": 0.556, "tf32": 35.6, "f16": 71, "bf16": 71, "i8": 284},
    ),
    ("Orin", "8.7", 16, 1300, {"FP32": 5.3, "f16": 42.5, "i8": 85}),
    ("NVIDIA L4", "8.9", 58, 2040, {"FP32": 30.3, "tf32": 60.5, "bf16": 121, "f8": 242.5, "i8": 242.5}),
    ("NVIDIA L40S", "8.9", 142, 2520, {"FP32": 91.6, "tf32": 183, "f16": 366, "bf16": 366, "f8": 733}),
    (
        *("NVIDIA GeForce RTX 4090", "8.9", 128, 2520),
        {"FP32": 82.6, "tf32": 82.6, "f16": 165.2, "bf16": 165.2, "f8": 330.3, "i8": 660.6},
    ),
    (
        *("NVIDIA H100 80GB HBM3", "9.0", 132, 1980),
        {"FP32": 66.9, "FP64": 33.5, "tf32": 494.7, "bf16": 989.4, "f8": 1978.9, "i8": 1978.9, "f64": 66.9},
    ),
    (
        *("NVIDIA H100 PCIe", "9.0", 114, 1755),
        {"FP32": 51.2, "FP64": 25.6, "tf32": 378, "f16": 756, "f8": 1513, "i8": 1513, "f64": 51.2},
    ),
    (
        "NVIDIA H100 NVL",
        "9.0",
        132,
        1785,
        {"FP32": 60, "tf32": 417.5, "bf16": 835.5, "f8": 1670.5, "f64": 60},
    ),
    ("NVIDIA H200", "9.0", 132, 1980, {"FP32": 67, "bf16": 989, "f8": 1979, "f64": 67}),
    (
        "NVIDIA B200",
        "10.0",
        148,
        1965,
        {"FP32": 75, "FP64": 37, "tf32": 1125, "bf16": 2250, "f8": 4500, "f4": 9000},
    ),
    (
        *("NVIDIA GeForce RTX 5090", "12.0", 170, 2407),
        {"FP32": 104.8, "tf32": 104.8, "bf16": 209.5, "f8": 419, "i8": 838, "f4": 1676},
    ),
    (
        *("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0", 188, 2617),
        {"FP32": 126, "tf32": 251.9, "bf16": 503.8, "f8": 1007.6, "f4": 2015.2},
    ),
]


@pytest.mark.parametrize("product", SHEETS, ids=lambda product: product[0])
def test_data_sheets(product: tuple[str, str, int, int, dict[str, float]], tmp_path: Path) -> None:
    whole, sheet = capture(tmp_path, gpu(*product[:4])), product[4]
    for kind, tflops in sheet.items():
        cores = kind.islower()
        written = kind if cores else kind.lower().replace("fp", "f")
        peak = peak_flops(whole, written, tensor_cores=cores)
        assert peak == pytest.approx(tflops * 1e12, rel=0.012), kind


def test_each_type_has_the_rate_that_its_size_gives() -> None:
    for version, rates in peaks._RATES.items():  # noqa: SLF001 - few data sheets have all of them
        tensor, sizes = rates.tensor_cores, {"tf32": 0.5, "f16": 1, "bf16": 1, "i8": 2, "f8": 2, "f4": 4}
        for kind in sizes.keys() & tensor.keys():
            assert tensor[kind] == sizes[kind] * tensor["f16"], (version, kind)


@pytest.mark.parametrize(
    "gpus",
    [
        (),
        (gpu("NVIDIA H100 80GB HBM3", "9.0", None, 1980),),
        (gpu("NVIDIA H100 80GB HBM3", "9.0", 132, None),),
        (gpu("NVIDIA H100 80GB HBM3", "9.0", 132, -5),),
        (gpu("Tesla P100", "6.0", 56, 1328),),
        (gpu("NVIDIA H20", "9.0", 78, 1980),),  # an eighth of the products of its chip
        (gpu("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "8.0", 14, 1410),),
        (gpu("NVIDIA A100-SXM4-40GB", "8.0", 108, 1410), gpu("NVIDIA A10", "8.6", 72, 1695, id=1)),
    ],
)
def test_no_peak_is_guessed(gpus: tuple[Row, ...], tmp_path: Path) -> None:
    whole = capture(tmp_path, *gpus)
    assert peak_flops(whole, "f32", tensor_cores=False) is None
    assert peak_flops(whole, "bf16", tensor_cores=True) is None
    assert peak_bandwidth(whole) is None


def test_types_that_a_gpu_lacks_have_no_peak(tmp_path: Path) -> None:
    whole = capture(tmp_path, gpu("Tesla T4", "7.5", 40, 1590))
    assert peak_flops(whole, "tf32", tensor_cores=True) is None
    assert peak_flops(whole, "", tensor_cores=True) is None
    assert peak_flops(whole, "i8", tensor_cores=False) is None


def test_equal_gpus_have_one_peak_and_one_bandwidth(tmp_path: Path) -> None:
    gpus = [gpu("NVIDIA H200", "9.0", 132, 1980, id=i, memoryBandwidth=4_814_304_000_000) for i in range(2)]
    whole = capture(tmp_path, *gpus)
    assert peak_flops(whole, "f32", tensor_cores=False) == 132 * 256 * 1.98e9
    assert peak_bandwidth(whole) == 4.814304e12


def test_a_ratio_is_that_of_different_gpus_of_one_capability(tmp_path: Path) -> None:
    gpus = [gpu("NVIDIA A10", "8.6", 72, 1695), gpu("NVIDIA A40", "8.6", 84, 1740, id=1)]
    whole = capture(tmp_path, *gpus)
    assert tf32_speedup(whole) == 2
    assert peak_flops(whole, "f32", tensor_cores=False) is None
    assert (
        tf32_speedup(capture(tmp_path, *gpus, gpu("NVIDIA GeForce RTX 3090", "8.6", 82, 1695, id=2))) is None
    )


@pytest.mark.parametrize(
    ("version", "name", "speedup", "over_fp64"),
    [
        ("7.0", "Tesla V100-SXM2-16GB", 1, None),
        ("8.0", "NVIDIA A100-SXM4-80GB", 8, 8),
        ("8.6", "NVIDIA A10", 2, None),
        ("8.6", "NVIDIA GeForce RTX 3090", 1, None),
        ("9.0", "NVIDIA H200", 494.7 / 66.9, 494.7 / 66.9),
        ("12.0", "NVIDIA GeForce RTX 5090", 1, None),
        ("12.0", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 2, None),
        ("11.0", "Thor", None, None),
    ],
)
def test_tf32_against_other_types(
    version: str, name: str, speedup: float | None, over_fp64: float | None, tmp_path: Path
) -> None:
    whole = capture(tmp_path, gpu(name, version, None, None))
    near = pytest.approx
    assert tf32_speedup(whole) == (None if speedup is None else near(speedup, rel=1e-3))
    assert tf32_over_fp64(whole) == (None if over_fp64 is None else near(over_fp64, rel=1e-3))
