"""Merged statistics are those of all executions together: of none of them is a mean taken of means."""

import statistics as reference
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_export import Row, kernel, write

from nsyswrap.api import CaptureReader
from nsyswrap.reports.runs import merge
from nsyswrap.reports.runs.digest import Kernel, digest
from nsyswrap.reports.runs.merge import Pool, PooledStatistics, shares

_NAMES = st.sampled_from(["k", "k(int)", "K", "", None, 'a "b", c\n=d'])
_CAPTURES = st.lists(
    st.dictionaries(_NAMES, st.lists(st.integers(-5, 2**62), min_size=1, max_size=20), max_size=3), max_size=6
)


def counted(durations: dict[str | None, list[int]]) -> list[Kernel]:
    return [(name, list(Counter(many)), list(Counter(many).values())) for name, many in durations.items()]


def pooled(tmp_path: Path, captures: list[list[Kernel]]) -> list[PooledStatistics]:
    file = tmp_path / "pool.sqlite"
    file.unlink(missing_ok=True)
    with closing(Pool(file)) as pool:
        for kernels in captures:
            pool.add(0, kernels)
        return [row for _, rows in pool.groups() for row in rows]


@settings(deadline=None)
@given(_CAPTURES)
def test_any_captures_merge_to_what_all_their_executions_give(
    tmp_path_factory: pytest.TempPathFactory, captures: list[dict[str | None, list[int]]]
) -> None:
    together: dict[str | None, list[int]] = {}
    for capture in captures:
        for name, durations in capture.items():
            together.setdefault(name, []).extend(durations)
    found = pooled(tmp_path_factory.mktemp("pool"), [counted(capture) for capture in captures])
    assert {row.name for row in found} == set(together)
    for row in found:
        many = together[row.name]
        assert (row.executions, row.total_ns, row.min_ns, row.max_ns) == (
            len(many),
            sum(many),
            min(many),
            max(many),
        )
        assert row.avg_ns == sum(many) / len(many)
        assert row.med_ns == float(reference.median(many))
        exact = reference.variance(map(Fraction, many)) if len(many) > 1 else Fraction(0)
        assert row.std_ns == pytest.approx(float(exact) ** 0.5, rel=1e-15)


def test_merged_digests_equal_the_report_of_one_capture_with_everything(tmp_path: Path) -> None:
    rows: list[list[Row]] = [
        [kernel(f"k{(i * part) % 3}", 100 * i, 100 * i + (i * i * part) % 97 + 1) for i in range(1, 200)]
        for part in range(1, 6)
    ]
    captures = [write(tmp_path / f"{part}.sqlite", *some) for part, some in enumerate(rows)]
    found = pooled(tmp_path, [list(digest(capture).kernels) for capture in captures])
    table = CaptureReader(write(tmp_path / "all.sqlite", *(one for some in rows for one in some))).report(
        "cuda_gpu_kern_sum"
    )
    for (percent, total, count, *middle, std, name), row, share in zip(
        table.rows(), found, shares(found), strict=True
    ):
        assert (name, count, total, *middle) == row[:-1]
        assert std == pytest.approx(row.std_ns, rel=1e-12)
        assert percent == share


def test_parts_are_kept_apart_and_in_order(tmp_path: Path) -> None:
    with closing(Pool(tmp_path / "pool.sqlite")) as pool:
        pool.add(7, [("k", [10], [1])])
        pool.add(2, [("k", [1, 3], [1, 1]), ("long", [100], [2])])
        pool.add(7, [("k", [10, 30], [2, 1])])
        found = {
            group: [(row.name, row.executions, row.med_ns) for row in rows] for group, rows in pool.groups()
        }
    assert list(found.items()) == [(2, [("long", 2, 100.0), ("k", 2, 2.0)]), (7, [("k", 4, 10.0)])]


def test_equal_durations_are_merged_before_all_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_AT_ONCE", 10)
    [row] = pooled(tmp_path, [[("k", [5, 1, 3], [1, 2, 3])] for _ in range(10)])
    assert (row.executions, row.total_ns, row.med_ns, row.min_ns) == (60, 160, 3.0, 1)


def test_kernels_with_equal_time_come_by_executions_and_name(tmp_path: Path) -> None:
    kernels: list[Kernel] = [("b", [10], [2]), ("c", [20], [1]), ("a", [10], [2]), (None, [10], [2])]
    assert [row.name for row in pooled(tmp_path, [kernels])] == ["c", None, "a", "b"]


def test_shares_of_no_time_at_all_are_missing(tmp_path: Path) -> None:
    assert shares(pooled(tmp_path, [[("k", [0], [3])]])) == [None]


def test_a_pool_lies_on_disk(tmp_path: Path) -> None:
    many = 200_000
    with closing(Pool(tmp_path / "pool.sqlite")) as pool:
        pool.add(0, [("k", list(range(many)), [1] * many)])
        assert (tmp_path / "pool.sqlite").stat().st_size > 8 * many
        [(_, [row])] = pool.groups()
    assert (row.executions, row.med_ns) == (many, (many - 1) / 2)
