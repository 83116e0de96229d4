"""The captures of a run by rank, as they lie in its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.base.run_folder import captures_by_rank, rank_folder_name, rank_folders, rank_in

if TYPE_CHECKING:
    from pathlib import Path


def touched(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_a_capture_for_each_rank_folder(tmp_path: Path) -> None:
    touched(tmp_path, "rank-10/report.sqlite", "rank-02/report.nsys-rep", "rank-02/report.sqlite")
    touched(tmp_path, "rank-03/report.nsys-rep", "rank-04/nsys.log", "rank-x/report.sqlite", "rank-05")
    assert list(rank_folders(tmp_path)) == [2, 3, 4, 10]
    names = {rank: str(path.relative_to(tmp_path)) for rank, path in captures_by_rank(tmp_path).items()}
    assert names == {2: "rank-02/report.sqlite", 3: "rank-03/report.nsys-rep", 10: "rank-10/report.sqlite"}


def test_a_command_s_own_captures_name_their_rank(tmp_path: Path) -> None:
    touched(tmp_path, "job.rank1.nsys-rep", "job.rank1.sqlite", "job.rank0.nsys-rep", "notes.txt")
    assert [path.name for path in captures_by_rank(tmp_path).values()] == [
        "job.rank0.nsys-rep",
        "job.rank1.sqlite",
    ]
    touched(tmp_path, "other_rank-1.sqlite")
    with pytest.raises(UsageError, match="both are rank 1"):
        captures_by_rank(tmp_path)


def test_a_run_without_ranks(tmp_path: Path) -> None:
    touched(tmp_path, "report.sqlite", "report.nsys-rep")
    assert captures_by_rank(tmp_path) == {}
    assert captures_by_rank(tmp_path / "absent") == {}


@pytest.mark.parametrize(
    ("name", "rank"), [("job.rank3.sqlite", 3), ("rank_12", 12), ("rank-007", 7), ("franks", None)]
)
def test_the_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_in(name) == rank


def test_names_sort_as_ranks_do() -> None:
    names = [rank_folder_name(3, size) for size in (1, 10, 11, 64)]
    assert names == ["rank-3", "rank-3", "rank-03", "rank-03"]
