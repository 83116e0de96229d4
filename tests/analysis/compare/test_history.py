"""Rows over points in time: a change is placed where it is, noise changes nothing, setups break the line."""

from dataclasses import replace

from made_history import made_points
from made_runs import SETUP, MadeKernel, made_run

from nsyswrap.analysis.compare.history import LIMITS, History, history_of, stretches
from nsyswrap.analysis.compare.model import Key, Side
from nsyswrap.reports.wording.comparisons import worded_obstacle
from nsyswrap.reports.wording.notes import note_texts

GEMM, ADD = MadeKernel("gemm", 400.0), MadeKernel("add", 12.0)
KERNELS = (GEMM, ADD, *(MadeKernel(f"other{i}", 20.0, 100) for i in range(4)))
NOISY = tuple(MadeKernel(f"k{i}", 50.0, 20, spread=0.03) for i in range(4))


def changes(history: History) -> dict[str, list[tuple[int, str]]]:
    """The points at which kernels changed, and how."""
    return {
        one.key.name: [(change.since, change.judgement.outcome) for change in one.reported_changes]
        for one in history.of("kernel")
        if one.reported_changes
    }


def test_a_step_of_8_percent_is_placed_at_its_point() -> None:
    for seed in range(2):
        sides = made_points(10, lambda i: {"gemm": 1.08 if i >= 5 else 1}, seed=seed, kernels=KERNELS)
        history = history_of(sides)
        assert changes(history) == {"gemm": [(5, "slower")]}, seed
        assert history.of("kernel")[0].key.name == "gemm"  # the most changed first


def test_noise_alone_marks_nothing() -> None:
    """Limits without tolerance: nothing but the error rate, 1 %, keeps noise from being a change."""
    for seed in range(6):
        sides = made_points(4, seed=seed, kernels=NOISY, spread=0.03, runs=4)
        history = history_of(sides, replace(LIMITS, max_slower=0.0, min_time_ns=0.0))
        assert not any(one.reported_changes for one in history.series), seed


def test_it_goes_up_and_down() -> None:
    def factor(point: int) -> dict[str, float]:
        return {"gemm": 1.2 if 2 <= point < 4 else 1.0}

    assert changes(history_of(made_points(6, factor, kernels=KERNELS))) == {
        "gemm": [(2, "slower"), (4, "faster")]
    }


def test_small_changes_that_add_up_are_a_drift() -> None:
    history = history_of(made_points(8, lambda i: {"gemm": 1.01**i}, kernels=KERNELS))
    [gemm] = (one for one in history.series if one.key.name == "gemm")
    assert gemm.changes == ()
    assert gemm.drift is not None
    assert (gemm.drift.before, gemm.drift.since, gemm.drift.judgement.outcome) == (0, 7, "slower")


def test_another_driver_breaks_the_line() -> None:
    newer = replace(SETUP, driver="575.51.03")
    sides = made_points(
        6, lambda i: {"gemm": 1.3 if i >= 3 else 1.0}, lambda i: newer if i >= 3 else SETUP, kernels=KERNELS
    )
    history = history_of(sides)
    assert changes(history) == {}
    assert stretches(history.points) == [range(3), range(3, 6)]
    [broken] = (point for point in history.points if point.breaks)
    assert [(one.about, one.base, one.new) for one in map(worded_obstacle, broken.breaks)] == [
        ("driver", SETUP.driver, newer.driver)
    ]


def test_a_point_of_few_runs_is_skipped_and_named() -> None:
    sides = made_points(5, lambda i: {"gemm": 1.1 if i >= 2 else 1.0}, kernels=KERNELS)
    sides[2] = replace(sides[2], runs=sides[2].runs[:2])
    history = history_of(sides)
    [change] = next(one for one in history.series if one.key.name == "gemm").changes
    assert (change.before, change.since) == (1, 3)
    assert note_texts(history.remarks) == ("Fewer than 3 runs, drawn without a verdict: c000002.",)


def test_points_are_in_the_order_of_time() -> None:
    sides = made_points(3, kernels=KERNELS)
    history = history_of([sides[2], sides[0], sides[1]])
    assert [point.label for point in history.points] == ["c000000", "c000001", "c000002"]
    unknown = replace(sides[0], runs=(made_run("x", setup=replace(SETUP, started="")),))
    history = history_of([sides[2], unknown])
    assert [point.side for point in history.points][1].name == unknown.name
    assert any("in the order given" in remark for remark in note_texts(history.remarks))


def test_points_of_one_commit_have_names() -> None:
    sides = [
        replace(side, runs=tuple(replace(r, setup=replace(r.setup, commit="abc")) for r in side.runs))
        for side in made_points(2, kernels=KERNELS)
    ]
    assert [point.label for point in history_of(sides).points] == ["abc (p0)", "abc (p1)"]


def test_modes_that_runs_do_not_agree_on_are_one_row() -> None:
    modes = (MadeKernel("gemm", 100.0, mode=1), MadeKernel("gemm", 200.0, mode=2))
    sides = [*made_points(2, kernels=modes), *made_points(3, kernels=(MadeKernel("gemm", 150.0),))[2:]]
    kernels = [one.key for one in history_of(sides).of("kernel")]
    assert kernels == [Key("kernel", "gemm", GEMM.grid)]


def test_a_row_that_appears_has_no_times_before() -> None:
    sides = made_points(3, kernels=(GEMM,))
    sides[1:] = made_points(3, kernels=KERNELS)[1:]
    [add] = (one for one in history_of(sides).series if one.key.name == "add")
    assert [len(values) for values in add.values_ns] == [0, 5, 5]
    assert add.medians_ns[0] is None
    assert add.total_ns[0] == 0


def test_one_point_is_a_history_without_changes() -> None:
    [side] = made_points(1, kernels=KERNELS)
    history = history_of([side])
    assert isinstance(history.points[0].side, Side)
    assert changes(history) == {}
