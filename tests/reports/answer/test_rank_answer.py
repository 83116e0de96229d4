"""The answer over all ranks of a job: busy, exposed communication, waiting, and what to do about it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from advised import STEP_NS, looped
from checkouts import ROOT
from conftest import Cli
from copy_examples import gpu
from jsonschema import Draft202012Validator
from rank_exports import ALL_REDUCE, run_folder
from tiny_export import Row, allocation, call, changed, kernel

from nsyswrap.analysis.answer import Answer
from nsyswrap.analysis.ranks.answer import answer_of_ranks
from nsyswrap.analysis.ranks.members import RankCapture, processes
from nsyswrap.api import CaptureReader
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.reports.answer import answer_lines, as_dict
from nsyswrap.reports.brief import brief_of_ranks
from nsyswrap.reports.wording.advice import words

STEPS, STEADY = 8, 7


# CPU  |L 0-10|L 10-20|L 20-30|
# GPU        gemm[begins .. arrives) all-reduce[arrives .. 600) gemm[600 .. 1000)
def step(begins: int, arrives: int) -> list[Row]:
    calls = [call("cudaLaunchKernel", 10 * i, 10 * i + 10, i + 1) for i in range(3)]
    return [
        *calls,
        kernel("gemm", begins, arrives, 1),
        kernel(ALL_REDUCE, arrives, 600, 2),
        kernel("gemm", 600, STEP_NS, 3),
    ]


def check(document: object, path: str) -> None:
    Draft202012Validator(json.loads((ROOT / path).read_text(encoding="utf-8"))).validate(document)


def job(folder: Path, *ranks: tuple[int, int], held: Sequence[int] = ()) -> list[RankCapture]:
    """One rank for each begin and arrival, with the bytes that it holds of a GPU of 1000."""
    members = []
    for number, times in enumerate(ranks):
        rows = [allocation(1, 5, held[number]), gpu(totalMemory=1000)] if held else []
        path = run_folder(folder, number, len(ranks), *looped(*step(*times), steps=STEPS), *rows)
        members.append(RankCapture(f"rank {number}", number, CaptureReader(path / EXPORT)))
    return members


def answered(members: Sequence[RankCapture]) -> tuple[Answer, list[str]]:
    answer = answer_of_ranks(members)
    assert answer is not None
    return answer, [line.text for line in answer_lines(members[0].capture, answer)]


def test_a_rank_with_more_work_is_told_to_share_it(tmp_path: Path) -> None:
    answer, lines = answered(job(tmp_path, (10, 110), (10, 510)))
    fast, slow = answer.ranks
    assert (fast.window_ns, fast.exposed_ns, fast.waiting_ns, fast.last) == (
        STEADY * STEP_NS,
        STEADY * 490,
        STEADY * 400,
        0,
    )
    assert (slow.exposed_ns, slow.waiting_ns, slow.last, slow.collectives) == (STEADY * 90, 0, STEADY, STEADY)
    # 490 + 90 of 2,000 ns are exposed, 400 of them waiting.
    assert "exposed communication 29 % of the steady part, 20 % waiting for other ranks" in lines
    assert "waiting: rank 0 40 %, rank 1 0 %" in lines
    assert "Waiting for a rank: rank 0 waited 2.80 µs for rank 1" in lines
    assert "Equal work on all ranks would save at most 40 % of a step (400 ns of 1.00 µs)" in lines
    assert "Advice on each rank alone, with a line of code: --advice" in lines
    assert "Tables are of all steps and start-up, not of the steady part alone" in lines
    # What is left of the communication: 90 ns on both.
    assert [(one.kind, one.ceiling_ns) for one in answer.findings] == [
        ("waiting_for_rank", STEADY * 400),
        ("exposed_communication", STEADY * 90),
    ]


def test_a_late_rank_without_more_work_is_told_to_look_at_its_host(tmp_path: Path) -> None:
    answer, lines = answered(job(tmp_path, (10, 110), (410, 510)))
    # The cause on the late rank comes before the wait for it.
    assert [one.kind for one in answer.findings[:2]] == ["launch_bound", "waiting_for_rank"]
    assert "Waiting for a rank: rank 0 waited 2.80 µs for rank 1: costs at most 40 %" in lines
    wording = words(answer.findings[1])
    assert wording.remedy == "Removing the delay of that rank"
    assert "which points to its host code" in wording.evidence


def test_a_finding_of_one_rank_names_it(tmp_path: Path) -> None:
    _, lines = answered(job(tmp_path, (10, 110), (10, 510), (10, 510)))
    assert "on rank 0 only" not in lines  # its communication is waiting, and what is left is on all
    answer, _ = answered(job(tmp_path / "b", (10, 110), (410, 510)))
    late = next(
        one for one in answer.findings if one.kind not in ("waiting_for_rank", "exposed_communication")
    )
    assert late.kind in answer.ranks[1].cost_percent
    assert late.kind not in answer.ranks[0].cost_percent
    texts = [line.text for line in answer_lines(job(tmp_path / "c", (10, 110))[0].capture, answer)]
    assert "on rank 1 only" in texts


def test_a_finding_names_the_rank_of_its_figures(tmp_path: Path) -> None:
    """Rank 0 is idle for longer, but waits for rank 1 then: nothing is saved on it."""
    answer, lines = answered(job(tmp_path, (310, 410), (210, 510), (10, 110)))
    late = next(one for one in answer.findings if one.kind == "launch_bound")
    assert [rank.cost_percent.get("launch_bound", 0) for rank in answer.ranks] == [31, 21, 0]
    assert late.ceiling_percent == 21
    assert "on 2 of 3 ranks, most to save on rank 1" in lines


def test_without_matched_collectives_waiting_is_unknown(tmp_path: Path) -> None:
    members = job(tmp_path, (10, 110), (10, 510))
    members[1] = replace(members[1], capture=CaptureReader(_other(tmp_path)))
    answer, lines = answered(members)
    assert [rank.waiting_ns for rank in answer.ranks] == [None, None]
    assert any(line.endswith("waiting for other ranks unknown") for line in lines)


def test_doubtful_matches_count_nobody_as_last(tmp_path: Path) -> None:
    """Rank 1 has two all-reduces less, so that any of them may be another one."""
    members = job(tmp_path, (10, 110), (10, 510))
    path = run_folder(tmp_path / "fewer", 1, 2, *looped(*step(10, 510), steps=STEPS - 2))
    members[1] = replace(members[1], capture=CaptureReader(path / EXPORT))
    answer, _ = answered(members)
    assert [(rank.waiting_ns, rank.last, rank.collectives) for rank in answer.ranks] == [(None, 0, 0)] * 2


def _other(tmp_path: Path) -> Path:
    """A rank whose collectives have another name."""
    rows = [
        changed(one, shortName="ncclOther", demangledName="ncclDevKernel_AllGather_RING_LL()")
        if one.cells.get("demangledName") == ALL_REDUCE
        else one
        for one in looped(*step(10, 510), steps=STEPS)
    ]
    return run_folder(tmp_path / "other", 1, 2, *rows) / EXPORT


BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096>)"


def test_communication_that_is_not_matched_may_wait_too(tmp_path: Path) -> None:
    """A broadcast of 90 ns in each step, beside the all-reduce."""
    members = []
    for number, arrives in enumerate((110, 410)):
        rows = [
            *step(10, arrives)[:-1],
            kernel(BROADCAST, 600, 690, 3, streamId=9),
            kernel("gemm", 690, STEP_NS, 3),
        ]
        path = run_folder(tmp_path, number, 2, *looped(*rows, steps=STEPS))
        members.append(RankCapture(f"rank {number}", number, CaptureReader(path / EXPORT)))
    answer, lines = answered(members)
    assert [rank.unmatched_ns for rank in answer.ranks] == [STEADY * 90, STEADY * 90]
    assert any(line.endswith("at least 15 % waiting for other ranks") for line in lines)


def test_a_rank_without_gpu_work_is_listed(tmp_path: Path) -> None:
    members = job(tmp_path, (10, 110), (10, 110))
    idle = run_folder(tmp_path / "idle", 2, 3, call("cudaFree", 0, 10, 1))
    members.append(RankCapture("rank 2", 2, CaptureReader(idle / EXPORT)))
    answer, lines = answered(members)
    assert [rank.window_ns for rank in answer.ranks] == [STEADY * STEP_NS, STEADY * STEP_NS, 0]
    assert "busy: rank 0 99 %, rank 1 99 %, rank 2 0 %" in lines


def test_who_waits_is_unknown_if_a_capture_has_several_ranks(tmp_path: Path) -> None:
    """Two nodes with a capture each, and a process for each GPU in it."""
    members = []
    for node in range(2):
        rows = [
            changed(one, **{("globalPid" if "globalPid" in one.cells else "globalTid"): process << 24})
            for process in (5, 6)
            for one in looped(*step(10, (110, 510)[node]), steps=STEPS)
        ]
        path = run_folder(tmp_path, node, 2, *rows)
        members.append(RankCapture(f"rank {node}", node, CaptureReader(path / EXPORT)))
    answer, lines = answered(members)
    assert [rank.waiting_ns for rank in answer.ranks] == [None, None]
    assert any(line.endswith("waiting for other ranks unknown") for line in lines)
    assert "waiting_for_rank" not in {one.kind for one in answer.findings}


def test_a_gpu_that_ranks_share_is_busy_for_both(tmp_path: Path) -> None:
    """Process 5 works in 500 of 1,000 ns, process 6 in 300 others."""

    def rows(pid: int, begins: int, ends: int) -> list[Row]:
        one = [call("cudaLaunchKernel", 0, 10, 1, pid=pid), kernel("gemm", begins, ends, 1, pid=pid)]
        return looped(*one, steps=STEPS, pid=pid)

    path = run_folder(tmp_path, 0, 1, *rows(5, 10, 510), *rows(6, 600, 900))
    members = processes(CaptureReader(path / EXPORT))
    answer, lines = answered(members)
    assert [rank.busy_ns for rank in answer.ranks] == [STEADY * 500, STEADY * 300]
    assert lines[0].startswith("GPU busy 80 % of ")
    assert "GPU 0, shared by 2 processes: 80 %" in lines
    assert "busy: process 5 50 %, process 6 30 %" in lines


def test_a_rank_without_steps_leaves_steps_out_of_the_headline(tmp_path: Path) -> None:
    members = job(tmp_path, (10, 110), (10, 510))
    path = run_folder(tmp_path / "short", 1, 2, *looped(*step(10, 510), steps=1))
    members[1] = replace(members[1], capture=CaptureReader(path / EXPORT))
    answer, lines = answered(members)
    assert answer.scope == "judged part"
    assert not any("step" in line for line in lines if " would save " in line or line.startswith("GPUs busy"))


def test_one_rank_is_no_job(tmp_path: Path) -> None:
    assert answer_of_ranks(job(tmp_path, (10, 110))) is None


def test_a_fact_on_memory_names_the_rank_that_holds_most(tmp_path: Path, cli: Cli) -> None:
    members = job(tmp_path / "job", (10, 110), (10, 110), (10, 510), held=(100, 970, 950))
    text = "GPU memory nearly full on rank 1: allocations hold up to 970 B of 1.00 kB"
    answer, lines = answered(members)
    assert [line for line in lines if "memory" in line] == [f"{text} (-r gpu_memory)"]
    document = as_dict(answer)
    check(document, "docs/answer.schema.json")
    (fact,) = (one for one in document["facts"] if one["name"] == "memory_near_limit")
    assert (fact["what"], fact["rank"]) == (text, "rank 1")
    assert text in json.loads(cli("report", "job", "--format", "brief").stdout)["facts"]


def test_many_ranks_take_one_line(tmp_path: Path) -> None:
    _, lines = answered(job(tmp_path, *[(10, 110)] * 8, (10, 510)))
    assert "waiting: 9 ranks, from rank 8 0 % to rank 0 40 %" in lines


def test_a_brief_has_the_ranks_that_wait_most_then_the_least_busy(tmp_path: Path) -> None:
    members = job(tmp_path, (10, 510), (10, 110))
    answer, _ = answered(members)
    rank = replace(answer.ranks[0], window_ns=1000, exposed_ns=0)
    times = {"a": (0, 800), "b": (100, 900), "c": (None, 700), "d": (400, 600), "e": (100, 850)}
    ranks = [replace(rank, label=name, waiting_ns=ns, busy_ns=busy) for name, (ns, busy) in times.items()]
    ranks[-1] = replace(ranks[-1], window_ns=500)  # a fifth of its time
    ranks.append(replace(rank, label="f", window_ns=0, waiting_ns=None, busy_ns=0))
    packet = brief_of_ranks([one.capture for one in members], replace(answer, ranks=tuple(ranks)))
    assert [one["rank"] for one in packet["ranks"]] == ["d", "e", "b", "f", "c", "a"]
    assert [one["waiting_percent"] for one in packet["ranks"]] == [40.0, 20.0, 10.0, None, None, 0.0]
    assert packet["ranks_left_out"] == 0
    many = replace(answer, ranks=tuple(ranks) * 2)
    packet = brief_of_ranks([one.capture for one in members], many)
    assert (len(packet["ranks"]), packet["ranks_left_out"]) == (8, 4)


@pytest.mark.slow
def test_json_and_brief_have_the_answer_of_the_job(tmp_path: Path, cli: Cli) -> None:
    job(tmp_path / "job", (10, 110), (10, 510))
    done = cli("report", "job", "--by", "rank", "--format", "json")
    whole = json.loads(done.stdout)
    check(whole, "nsyswrap/render/formats/reports.schema.json")
    check(whole["job"], "docs/answer.schema.json")
    assert [rank["label"] for rank in whole["job"]["ranks"]] == ["rank 0", "rank 1"]
    assert "job" not in json.loads(cli("report", "job", "-r", "rank_waiting", "--format", "json").stdout)
    done = cli("report", "job", "--format", "brief")
    brief = json.loads(done.stdout)
    check(brief, "docs/brief.schema.json")
    assert len(done.stdout) < 4096
    assert brief["findings"][0]["kind"] == "waiting_for_rank"
    assert brief["ranks"][0] == {
        "rank": "rank 0",
        "busy_percent": brief["ranks"][0]["busy_percent"],
        "exposed_communication_percent": 49.0,
        "waiting_percent": 40.0,
        "last": 0,
        "of_collectives": STEADY,
    }


@pytest.mark.slow
def test_the_screen_and_markdown_begin_with_the_answer(tmp_path: Path, cli: Cli) -> None:
    job(tmp_path / "job", (10, 110), (10, 510))
    screen = cli("report", "job").stdout
    assert screen.startswith("GPUs busy ")
    assert "nsyswrap report job --by rank -r rank_steps" in screen
    assert screen.index("Equal work on all ranks") < screen.index("rank_waiting")
    assert cli("report", "job", "--format", "markdown").stdout.startswith("**Answer**\n\n- GPUs busy ")
    assert cli("report", "job", "-r", "rank_skew").stdout.startswith("Slowest and fastest")
