"""Which captures get a page of ranks, and what the page shows if they lack data or have odd names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import recorded
from conftest import Cli
from rank_exports import Step, member, run_folder, steps
from tiny_export import call, kernel, nvtx, write

from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.render.page import render_ranks

if TYPE_CHECKING:
    from browser import Visit


pytest_plugins = ("browser",)

pytestmark = pytest.mark.slow
FAST, SLOW = Step(100, 400), Step(300, 400)


def test_where_nothing_matches_waiting_is_not_known(tmp_path: Path) -> None:
    sent = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)"
    members = [member(tmp_path, rank, kernel("gemm", 0, 50, 1), kernel(sent, 60, 90, 2)) for rank in (0, 1)]
    page = render_ranks("job", members)
    cell = 'title="rank {}: none of its collectives could be matched" data-value="">unknown</td>'
    assert [page.count(cell.format(rank)) for rank in (0, 1)] == [2, 2]
    assert "waited" not in page


# Which captures are ranks


def has_ranks(page: Path) -> bool:
    return '<section id="ranks"' in page.read_text(encoding="utf-8")


def test_the_folder_of_a_launch_is_a_page_of_ranks(tmp_path: Path, cli: Cli) -> None:
    for rank, step in ((2, SLOW), (0, FAST)):
        run_folder(tmp_path / "job", rank, 4, *steps(*[step] * 6), profiled=[0, 1, 2])
    done = cli("view", "job")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "nsyswrap: 2 of 4 ranks are present: 1 missing, 3 not profiled (--ranks)",
        "wrote job.html",
    ]
    page = (tmp_path / "job.html").read_text(encoding="utf-8")
    assert "<title>job: 2 ranks · nsyswrap</title>" in page
    assert "rank 2 was last in 6 of 6 collectives" in page
    assert "2 of 4 ranks are present: 1 missing, 3 not profiled (--ranks)" in page
    assert re.findall(r'aria-label="Timeline of ([^"]*)"', page) == ["rank 0", "rank 2"]


def test_captures_whose_names_say_their_rank(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "job").mkdir()
    own = {10: steps(FAST), 9: steps(FAST, FAST)}
    paths = [write(tmp_path / "job" / f"x.rank{rank}.sqlite", *rows) for rank, rows in own.items()]
    assert cli("view", *paths).stderr == "wrote job.html\n"
    assert has_ranks(tmp_path / "job.html")
    assert cli("view", "job", "-o", "again.html").returncode == 0
    assert has_ranks(tmp_path / "again.html")


def test_ranks_of_two_launches_and_captures_without_a_rank_stand_side_by_side(
    tmp_path: Path, cli: Cli
) -> None:
    for job in ("one", "two"):
        run_folder(tmp_path / job, 0, 1, *steps(FAST))
    write(tmp_path / "left.sqlite", *steps(FAST))
    for given in (("one/rank-0", "two/rank-0"), ("one/rank-0", "left.sqlite"), ("left.sqlite",)):
        assert cli("view", *given, "-o", "page.html", "--force").returncode == 0
        assert not has_ranks(tmp_path / "page.html")


def test_a_capture_of_several_processes_is_taken_apart_where_that_is_asked_for(
    tmp_path: Path, cli: Cli
) -> None:
    run = recorded.run_folder("ddp/straggler", tmp_path)
    assert cli("view", run).returncode == 0
    assert not has_ranks(tmp_path / "straggler.html")
    done = cli("view", run, "--by", "rank", "--force")
    assert "each of its 2 processes is taken as one" in done.stderr
    assert done.stderr.endswith("wrote straggler.html\n")
    page = (tmp_path / "straggler.html").read_text(encoding="utf-8")
    assert has_ranks(tmp_path / "straggler.html")
    assert len(re.findall(r'aria-label="Timeline of process \d+"', page)) == 2


def test_one_program_is_compared_with_nothing(tmp_path: Path, cli: Cli) -> None:
    done = cli("view", write(tmp_path / "x.sqlite", *steps(FAST)), "--by", "rank")
    assert done.returncode == 2
    assert "only process 100 was found" in done.stderr
    assert list(tmp_path.glob("*.html")) == []


def test_of_two_ranks_one_is_damaged(tmp_path: Path, cli: Cli) -> None:
    for rank in (0, 1):
        run_folder(tmp_path / "job", rank, 2, *steps(FAST))
    (tmp_path / "job" / "rank-1" / EXPORT).write_bytes(b"SQLite format 3\0 and nothing more")
    done = cli("view", "job", "-o", "x.html")
    assert done.returncode == 65
    assert "nsyswrap: rank 1: " in done.stderr
    assert not has_ranks(tmp_path / "x.html")
    assert "<title>rank 0 · nsyswrap</title>" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_the_newest_launch_is_shown_unasked(tmp_path: Path, cli: Cli) -> None:
    for rank in (0, 1):
        run_folder(tmp_path / "nsyswrap-runs" / "job", rank, 2, *steps(FAST))
    newest = "nsyswrap: newest run: nsyswrap-runs/job (all ranks, just now)\n"
    assert cli("view", "--by", "rank").stderr == f"{newest}wrote job.html\n"
    assert has_ranks(tmp_path / "job.html")


# What is shown


def test_without_collectives_nothing_is_said_to_wait(tmp_path: Path, visit: Visit) -> None:
    alone = [call("cudaLaunchKernel", 1, 2, 1), kernel("gemm", 10, 110, 1)]
    page = visit(written(tmp_path, [member(tmp_path, rank, *alone) for rank in (0, 1)]))
    assert page.locator("#ranks .heat tbody tr").first.locator("td").all_inner_texts() == [
        *("100 ns", "0 ns", "-", "-")
    ]
    text = page.locator("#ranks").inner_text()
    assert "no communication kernels: waiting times are unknown" in text
    assert "No steps to compare" in text


def test_ranks_that_ran_nothing_on_a_gpu(tmp_path: Path, visit: Visit) -> None:
    members = [member(tmp_path, rank, nvtx("step", 0, 100 + rank)) for rank in (0, 1)]
    text = visit(written(tmp_path, members)).locator("#ranks").inner_text()
    assert "Not available: rank_waiting: no rank holds" in text


def test_a_range_that_is_not_on_every_rank(tmp_path: Path, visit: Visit) -> None:
    nothing = [kernel("gemm", 10, 110, 1), call("cudaLaunchKernel", 1, 2, 1)]
    members = [member(tmp_path, 0, *steps(*[FAST] * 6)), member(tmp_path, 1, *steps(*[SLOW] * 5))]
    members.append(member(tmp_path, 2, *nothing))
    text = visit(written(tmp_path, members)).locator("#ranks .steps").text_content() or ""
    assert "'step', 5 instances on 2 of 3 ranks" in text
    assert "range 'step': the number of instances differs between ranks; the first ones are matched" in text


def test_names_that_would_be_markup_are_names(tmp_path: Path, visit: Visit) -> None:
    hostile = "\"><img src=x onerror='window.pwned = 1'></script><script>window.pwned = 1</script>"
    rows = [
        row._replace(cells={**row.cells, "text": hostile}) if row.cells.get("text") == "step" else row
        for row in steps(*[FAST] * 20)
    ]
    page = visit(written(tmp_path, [member(tmp_path, rank, *rows) for rank in (0, 1)]))
    page.locator(".strips").focus()
    page.keyboard.press("ArrowRight")
    assert f", '{hostile}' 0: " in page.locator(".steps .readout").inner_text()
    assert page.locator("img").count() == 0
    assert page.evaluate("typeof window.pwned") == "undefined"


def written(folder: Path, members: Sequence[RankCapture]) -> Path:
    path = folder / "page.html"
    path.write_text(render_ranks("job", members), encoding="utf-8")
    return path
