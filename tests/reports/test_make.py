"""Reports of several captures: the tables, and why a capture cannot answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import ref

import pytest
from tiny_export import call, kernel, opened

from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import UsageError
from nsyswrap.cli.output import tables_in_turn
from nsyswrap.reports import NAMES, parse, parse_all
from nsyswrap.reports.make import make_reports
from nsyswrap.reports.table import Table

KERNELS, CALLS = "cuda_gpu_kern_sum", "cuda_api_sum"


@pytest.fixture
def captures(tmp_path: Path) -> dict[str, CaptureReader]:
    """One capture with a kernel and its launch, and one with the kernel alone."""
    for name in "ab":
        (tmp_path / name).mkdir()
    with_calls = opened(tmp_path / "a", kernel("k", 20, 30, 1), call("launch", 0, 10, 1))
    return {"a": with_calls, "b": opened(tmp_path / "b", kernel("k", 20, 50, 1))}


def test_each_report_is_made_of_each_capture_that_can_answer(captures: dict[str, CaptureReader]) -> None:
    made = make_reports(captures, parse_all([f"{KERNELS},{CALLS}"]))
    assert {name: list(tables) for name, tables in made.tables.items()} == {KERNELS: ["a", "b"], CALLS: ["a"]}
    [missing] = made.missing
    assert (missing.label, missing.capture) == (CALLS, "b")
    assert missing.reason.startswith(f"{CALLS}: {captures['b'].source} holds no CUDA API calls; ")
    assert "--trace cuda,nvtx" in missing.reason


def test_several_captures_have_a_column_of_labels_even_if_one_alone_answers(
    captures: dict[str, CaptureReader],
) -> None:
    kernels, calls = make_reports(captures, parse_all([KERNELS, CALLS])).combined()
    assert list(kernels.data["capture"]) == ["a", "b"]
    assert list(calls.data["capture"]) == ["a"]
    [alone] = make_reports({"a": captures["a"]}, [parse(KERNELS)]).combined()
    assert "capture" not in alone.data


def test_made_in_turn_a_table_is_gone_before_the_next_is_made(captures: dict[str, CaptureReader]) -> None:
    tables = tables_in_turn(captures, parse_all([KERNELS, CALLS, "osrt_sum", "cuda_gpu_trace"]))
    made: list[tuple[str, ref[Table]]] = []
    while (table := next(tables, None)) is not None:
        assert all(earlier() is None for _, earlier in made)
        made.append((table.label, ref(table)))
        del table
    assert [label for label, _ in made] == [KERNELS, CALLS, "cuda_gpu_trace"]


def test_options_of_a_request_are_in_the_label_of_a_missing_report(
    captures: dict[str, CaptureReader],
) -> None:
    made = make_reports({"b": captures["b"]}, [parse(f"{KERNELS}:base"), parse("osrt_sum")])
    assert list(made.tables) == [f"{KERNELS}_base"]
    assert [missing.label for missing in made.missing] == ["osrt_sum"]


def test_every_piece_of_work_is_a_step(captures: dict[str, CaptureReader]) -> None:
    entered = []

    @contextmanager
    def step(message: str) -> Iterator[None]:
        entered.append(message)
        yield

    make_reports(captures, [parse(KERNELS)], step)
    reading = [f"reading {capture.source} …" for capture in captures.values()]
    assert entered == [*reading, *[f"making {KERNELS} …"] * 2]


def test_all_and_nothing_mean_every_report_once() -> None:
    everything = [request.report.name for request in parse_all([])]
    assert everything == list(NAMES)
    assert [
        request.report.name + request.suffix for request in parse_all(["all", f"{KERNELS}:base,{KERNELS}"])
    ] == [*NAMES, f"{KERNELS}_base"]
    with pytest.raises(UsageError, match="no report named 'nope'"):
        parse_all([f"{KERNELS},nope"])
