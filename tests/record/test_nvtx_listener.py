"""What is made of the files that the NVTX listener writes, and its compilation."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from nsyswrap.base.bare_run import RangeTimes
from nsyswrap.base.errors import CompileFailed, Unavailable
from nsyswrap.record import nvtx_listener
from nsyswrap.record.nvtx_listener import compiled, repeated_ranges

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def written(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_the_median_is_from_start_to_start(tmp_path: Path) -> None:
    """Starts at 0, 10, 30 and 70: 10, 20 and 40 from one to the next."""
    file = written(tmp_path, "a", "7 0 9 step", "7 10 12 step", "7 30 31 step", "7 70 75 step", "7 1 2 in 0")
    assert repeated_ranges([file]) == {"step": RangeTimes(4, 20)}


def test_a_range_inside_one_of_its_name_does_not_count(tmp_path: Path) -> None:
    file = written(tmp_path, "a", "7 3 4 s", "7 0 9 s", "7 10 19 s", "7 12 13 s", "7 30 31 s")
    assert repeated_ranges([file]) == {"s": RangeTimes(3, 15)}


def test_the_thread_with_most_occurrences_counts(tmp_path: Path) -> None:
    first = written(tmp_path, "a", *(f"7 {n * 10} {n * 10 + 1} s" for n in range(3)))
    second = written(
        tmp_path,
        "b",
        *(f"7 {n * 50} {n * 50 + 1} s" for n in range(4)),
        *(f"8 {n * 90} {n * 90 + 1} s" for n in range(3)),
    )
    assert repeated_ranges([first, second]) == {"s": RangeTimes(4, 50)}


def test_two_occurrences_are_no_steps(tmp_path: Path) -> None:
    assert repeated_ranges([written(tmp_path, "a", "7 0 1 s", "7 2 3 s")]) == {}


@pytest.mark.parametrize("cut_off", ["7", "7 60", "7 60 6"])
def test_a_last_line_that_a_full_disk_cut_off(tmp_path: Path, cut_off: str) -> None:
    file = written(tmp_path, "a", *(f"7 {n * 20} {n * 20 + 1} s" for n in range(3)), cut_off)
    assert repeated_ranges([file]) == {"s": RangeTimes(3, 20)}


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\u2029"])
def test_a_name_with_a_line_end_of_unicode(tmp_path: Path, character: str) -> None:
    name = f"a{character}b"
    file = written(tmp_path, "a", *(f"7 {n * 20} {n * 20 + 1} {name}" for n in range(3)))
    assert repeated_ranges([file]) == {name: RangeTimes(3, 20)}


def test_it_is_compiled_once(cache: Path) -> None:
    library = compiled()
    assert library.is_relative_to(cache)
    changed = library.stat().st_mtime_ns
    assert compiled() == library
    assert library.stat().st_mtime_ns == changed


def test_a_compiler_that_fails(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / "wrong.c"
    wrong.write_text("int main(", encoding="utf-8")
    monkeypatch.setattr(nvtx_listener, "SOURCE", wrong)
    with pytest.raises(CompileFailed, match=r"cc could not compile .*wrong\.c: .*wrong\.c:1"):
        compiled()
    assert not list(cache.rglob("*.so"))


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="no C compiler"):
        compiled()
