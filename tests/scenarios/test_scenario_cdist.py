from types import ModuleType
from typing import Any

import pytest
from scenario_scripts import load, torch_on_cpu

from nsyswrap.record.in_program.script import make_parser


@pytest.fixture
def cdist() -> ModuleType:
    return load("cdist")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - torch is not installed for the type checker
    return torch_on_cpu(monkeypatch)


def measure(cdist: ModuleType, *arguments: str) -> dict[str, Any]:
    parser = make_parser(cdist.__doc__, cdist.VARIANTS, counts=cdist.COUNTS, builds=False)
    small = ("--rows", "40", "--columns", "8", "--warmup", "1", "--iterations", "3")
    result: dict[str, Any] = cdist.measure(parser.parse_args([*small, *arguments]))
    return result


def test_both_ways_are_checked_and_timed(cdist: ModuleType, torch: ModuleType) -> None:
    result = measure(cdist)
    assert {name: result[name] for name in (*cdist.COUNTS, "device", "torch")} == {
        "rows": 40,
        "columns": 8,
        "warmup": 1,
        "iterations": 3,
        "device": "CPU",
        "torch": torch.__version__,
    }
    assert [timing["range"] for timing in result["timings"]] == ["mm/cdist", "direct/cdist"]
    for timing in result["timings"]:
        assert (timing["launches"], len(timing["samples_us"])) == (4, 3)


@pytest.mark.usefixtures("torch")
def test_only_what_was_asked_for_is_timed(cdist: ModuleType) -> None:
    assert [timing["variant"] for timing in measure(cdist, "--variant", "direct")["timings"]] == ["direct"]


@pytest.mark.parametrize("variant", ["mm", "direct"])
def test_the_variant_decides_how_torch_computes(cdist: ModuleType, torch: ModuleType, variant: str) -> None:
    """Only in mm there is a matrix product."""
    points = cdist.make_points(torch, 40, 8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        cdist.distances(torch, variant, *points)
    operators = {event.name for event in profiler.events()}
    assert ("aten::matmul" in operators) == (variant == "mm")
    assert ("aten::_cdist_forward" in operators) == (variant == "direct")


@pytest.mark.parametrize("columns", [1, 64, 500])
@pytest.mark.parametrize("variant", ["mm", "direct"])
def test_results_are_within_the_tolerance(
    cdist: ModuleType, torch: ModuleType, variant: str, columns: int
) -> None:
    points = cdist.make_points(torch, 300, columns)
    expected = cdist.distances(torch, "direct", *(matrix.double() for matrix in points))
    cdist.check(torch, variant, cdist.distances(torch, variant, *points), expected, columns)


@pytest.mark.parametrize("variant", ["mm", "direct"])
def test_a_result_that_is_a_little_off_is_wrong(cdist: ModuleType, torch: ModuleType, variant: str) -> None:
    points = cdist.make_points(torch, 50, 64)
    expected = cdist.distances(torch, "direct", *(matrix.double() for matrix in points))
    off = cdist.distances(torch, variant, *points)
    off[20, 30] *= 1.001
    with pytest.raises(AssertionError, match="not close"):
        cdist.check(torch, variant, off, expected, 64)


def test_a_wrong_result_is_not_timed(
    cdist: ModuleType, torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = torch.cdist

    def wrong(a: Any, b: Any, **given: Any) -> Any:  # noqa: ANN401 - torch is not installed for the type checker
        return right(a, b, **given) + (a.dtype == torch.float32)

    monkeypatch.setattr(torch, "cdist", wrong)
    monkeypatch.delattr(cdist, "time_operation")
    with pytest.raises(AssertionError, match="not close"):
        measure(cdist)


def test_mm_loses_the_distance_of_near_points_and_direct_does_not(
    cdist: ModuleType, torch: ModuleType
) -> None:
    far_off = torch.full((1, 64), 0.9)
    near = far_off.clone()
    near[0, 0] += 1e-4
    distance = cdist.distances(torch, "direct", far_off, near).item()
    assert distance == pytest.approx(1e-4, rel=1e-2)
    assert abs(cdist.distances(torch, "mm", far_off, near).item() - distance) > 0.5 * distance
