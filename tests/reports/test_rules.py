"""nsys' expert rules on tiny exports, against rows worked out on paper."""

from pathlib import Path

import pytest
from nsys_says import RULES, said_by
from report_tables import notes_text, rows_of
from tiny_export import Row, call, enums, memcpy, memset, opened

from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports import parse


def copied(start: int, end: int, correlation: int = 1, **more: object) -> Row:
    """A copy of 2.5 MB from pageable memory to a device, by call 1 if not said otherwise."""
    kinds = {"srcKind": 0, "dstKind": 2, "greenContextId": 0, "correlationId": correlation}
    return memcpy(1, start, end, 2_500_000, **{**kinds, **more})


ASYNC, SYNC = call("cudaMemcpyAsync_v3020", 0, 5, 1), call("cudaMemcpy_v3020", 0, 5, 1)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("cudaMemcpyAsync", "cuda_memcpy_async"),
        ("cudaMemcpy2DFromArrayAsync_ptsz", "cuda_memcpy_async"),
        ("CUDAMEMCPYPEERASYNC", "cuda_memcpy_async"),
        ("cudaMemcpy", "cuda_memcpy_sync"),
        ("cudaMemcpyToSymbol_v3020", "cuda_memcpy_sync"),
        ("cuMemcpyHtoDAsync_v2", ""),
        ("my_cudaMemcpyAsync", ""),
        ("cudaLaunchKernel", ""),
    ],
)
def test_which_calls_copy_and_how(name: str, rule: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call(name, 0, 5, 1), copied(10, 20), *enums())
    found = [asked for asked in RULES[:2] if rows_of(capture, asked)]
    assert found == [rule] * bool(rule)


@pytest.mark.parametrize("rule", RULES[:4])
def test_a_capture_without_calls_cannot_answer(rule: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, copied(10, 20), memset(0, 5, 1, greenContextId=0), *enums())
    with pytest.raises(NotInCapture, match=f"{rule}: .* holds no CUDA API calls"):
        parse(rule).make(capture)


def test_an_export_that_does_not_say_what_memory_it_was(tmp_path: Path) -> None:
    done = memset(0, 5, 1, correlationId=1)
    capture = opened(
        tmp_path, ASYNC, copied(10, 20), done, *enums(), without=["srcKind", "dstKind", "memKind"]
    )
    for rule in ("cuda_memcpy_async", "cuda_memset_sync"):
        assert rows_of(capture, rule) == []
        assert "memory kinds are unknown" in notes_text(capture, rule)


def old(folder: Path) -> CaptureReader:
    """An export of the time before green contexts and labels."""
    rows = [
        SYNC,
        ASYNC,
        call("cudaMemset", 0, 5, 1),
        copied(10, 20),
        memset(0, 5, 1, memKind=1, correlationId=1),
    ]
    return opened(folder, *rows, without=["greenContextId"])


@pytest.mark.parametrize("rule", RULES[:3])
def test_old_exports_are_answered_and_what_they_lack_is_said(rule: str, tmp_path: Path) -> None:
    capture = old(tmp_path)
    [line] = rows_of(capture, rule)
    assert ",0,1,,7," in line
    assert "Pageable,Device" in line or "Pinned" in line
    notes = notes_text(capture, rule)
    assert "no greenContextId" in notes
    assert "the export has no ENUM_CUDA_MEM_KIND" in notes


def test_nsys_refuses_them(tmp_path: Path, nsys: str) -> None:
    assert set(said_by(nsys, old(tmp_path).path, RULES[:3]).values()) == {""}
