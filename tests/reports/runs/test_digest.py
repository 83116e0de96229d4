"""What is stored of a capture: its totals, its kernels' durations, and the reports that sum up."""

import hashlib
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from conditioned import H200, MS, OWN, POWER, STARTED, around, run_folder, sample
from fake_nvml import FakeGpu, FakeNvml, use
from recorded import SHIPPED
from tiny_export import Row, call, everything, graph, kernel, memcpy, opened, row, write

from nsyswrap.api import open_capture, runs
from nsyswrap.base.errors import CaptureError, NotACapture
from nsyswrap.base.run_facts import Conditions, GpuProcess
from nsyswrap.base.run_folder import DIGEST, EXPORT
from nsyswrap.record.program import Callbacks, RunSpec, resolve
from nsyswrap.reports import NAMES, SUMMARIES, find_report
from nsyswrap.reports.runs.digest import (
    CONDITIONS,
    TOTALS,
    digest,
    read_digest,
    read_kept,
    reread,
    stored,
    write_digest,
    write_lines,
)
from nsyswrap.reports.runs.digest import write as write_to

_LATER = 3_000_000_000  # ns: behind the last event of a capture with everything
_TIMES = ("start", "end", "timestamp")


def again(rows: list[Row], times: int) -> list[Row]:
    """The same happening several times, one after another; what is no event stays as it is."""
    moved = list(rows)
    for number in range(1, times):
        for table, cells in rows:
            if "start" in cells and table != "DIAGNOSTIC_EVENT":
                shift = number * _LATER
                cells = {k: v + shift if k in _TIMES and isinstance(v, int) else v for k, v in cells.items()}  # noqa: PLW2901
                if cells.get("correlationId"):
                    cells["correlationId"] += number * 100  # type: ignore[operator]
                if "virtualAddress" in cells:
                    cells["virtualAddress"] += number * 4096  # type: ignore[operator]
                if "address" in cells:
                    cells["address"] += number * 4096  # type: ignore[operator]
                moved.append(Row(table, cells))
    return moved


def lengths(folder: Path, rows: list[Row]) -> dict[str, int]:
    capture = opened(folder, *rows)
    return {name: len(capture.report(name)) for name in NAMES if not find_report(name).lacks(capture)}


def test_summaries_are_the_reports_that_do_not_grow_with_the_run(tmp_path: Path) -> None:
    for folder in ("few", "many"):
        (tmp_path / folder).mkdir()
    few = lengths(tmp_path / "few", again(everything(), 3))
    many = lengths(tmp_path / "many", again(everything(), 40))
    assert set(few) == set(NAMES)
    growing = {name for name in NAMES if many[name] > 2 * few[name]}
    of_sampled_steps = {"gpu_metrics"}  # the steps of this recording have too few samples for rows
    assert growing | of_sampled_steps == set(NAMES) - set(SUMMARIES)


def test_totals_on_paper(tmp_path: Path) -> None:
    rows = (
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("k", 100, 150, 1)),
        *(call("cudaLaunchKernel", 20, 25, 2), kernel("k", 140, 200, 2, streamId=8)),
        *(call("cudaGraphLaunch", 30, 33, 3), graph(300, 400, 3, deviceId=1)),
        memcpy(1, 500, 600, 4096, deviceId=1),
        row("ANALYSIS_DETAILS", duration=2000),
    )
    made = digest(write(tmp_path / "a.sqlite", *rows))
    found = made.totals
    assert found == {
        "kernels": 2,
        "kernel_ns": 110,
        "graphs": 1,
        "graph_ns": 100,
        "launch_ns": 18,
        "copies": 1,
        "copied_bytes": 4096,
        "copy_ns": 100,
        "busy_ns": 100 + 200,  # device 0: 100 to 200, two kernels at once; device 1: a graph and a copy
        "busy_percent": 100 * 300 / (100 + 300),
        "recorded_ns": 2000,
        "loss_warnings": 0,
        **dict.fromkeys(column.name for column in CONDITIONS),
        "step_count": None,
        "step_ns": None,
        "judged_busy_percent": 75,
        "idle_cause_percent": 25,
        "finding_percent": 20,
        "step_joules": None,
        "run_joules": None,
    }
    assert list(found) == [column.name for column in TOTALS]
    assert made.facts["judged"] == "whole capture"
    assert (made.facts["idle_cause"], made.facts["finding"]) == ("unexplained", "idle_unknown")


def conditions_of(path: Path) -> dict[str, object]:
    totals = digest(path).totals
    return {column.name: totals[column.name] for column in CONDITIONS}


def test_the_conditions_of_a_run_on_paper(tmp_path: Path) -> None:
    # a kernel from 1.05 s to 2.95 s; samples from 1.2 s to 3.0 s: 19, of them 9 throttled
    rows = [kernel("k", 1050 * MS, 2950 * MS), STARTED]
    work = [sample(1100 + 100 * i, 1200 + i, 600 + i, POWER if i % 2 == 0 else 0) for i in range(20)]
    gpu = replace(H200, processes=(OWN, GpuProcess(7, in_run=False)))
    assert conditions_of(run_folder(tmp_path / "run", rows, around(work), Conditions((gpu,)))) == {
        "sm_clock_mhz": 1210,
        "throttled_percent": pytest.approx(100 * 9 / 19),
        "power_w": 610,
        "temperature_c": 50,
        "other_processes": 1,
    }


def test_of_two_gpus_the_slower_one_counts_and_the_power_of_both(tmp_path: Path) -> None:
    # process 100 works on GPU a, process 200 on GPU b, both from 1.05 s to 2.95 s
    rows = [kernel("k", 1050 * MS, 2950 * MS), kernel("k", 1050 * MS, 2950 * MS, pid=200), STARTED]
    for number, (pid, uuid) in enumerate([(100, "a"), (200, "b")]):
        rows += [row("TARGET_INFO_GPU", id=number, name="GPU", uuid=uuid)]
        rows += [row("TARGET_INFO_CUDA_DEVICE", pid=pid, cudaId=0, gpuId=number)]
    gpus = Conditions((replace(H200, uuid="a"), replace(H200, uuid="b")))
    of_a = around([sample(1100 + 100 * i, 1980, 300) for i in range(20)])
    of_b = around([sample(1100 + 100 * i, 1400, 690, POWER, gpu=1) for i in range(20)], gpu=1)
    assert conditions_of(run_folder(tmp_path / "run", rows, [*of_a, *of_b], gpus)) == {
        "sm_clock_mhz": 1400,
        "throttled_percent": 100,
        "power_w": 990,
        "temperature_c": 50,
        "other_processes": 0,
    }


@pytest.mark.usefixtures("nsys")
def test_a_digest_made_at_the_end_of_a_run_has_its_conditions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The GPU is a fake, with a process that is not of the run. nsys and the program are real."""
    use(monkeypatch, FakeNvml(FakeGpu(processes=[1])))
    program = resolve([sys.executable, "-c", "import time; time.sleep(0.3)"])
    runs.run(RunSpec(program, tmp_path / "run"), Callbacks(write_digest))
    made = stored(tmp_path / "run")
    assert made is not None
    assert (made.totals["other_processes"], made.totals["sm_clock_mhz"]) == (1, None)  # no GPU work


def test_conditions_that_are_not_known_are_missing(tmp_path: Path) -> None:
    rows = [kernel("k", 1050 * MS, 1054 * MS), STARTED]
    for number, (samples, processes, known) in enumerate(
        [
            (around([]), (OWN,), {"other_processes": 0}),  # too few samples
            (None, (OWN,), {"other_processes": 0}),
            ("text", (), {}),
            (around([]), (GpuProcess(7, began_before=True),), {}),  # possibly of another program
            (around([]), (GpuProcess(7), GpuProcess(8)), {}),  # not visible: possibly of another program
        ]
    ):
        facts = Conditions((replace(H200, processes=processes),))
        missing = dict.fromkeys(column.name for column in CONDITIONS)
        assert conditions_of(run_folder(tmp_path / str(number), rows, samples, facts)) == missing | known


def test_a_device_of_two_processes_is_busy_once(tmp_path: Path) -> None:
    rows = (kernel("k", 0, 100, 1), kernel("k", 50, 200, 1, pid=200))
    found = digest(write(tmp_path / "a.sqlite", *rows)).totals
    assert (found["busy_ns"], found["busy_percent"]) == (200, 100.0)


def test_without_gpu_work_busy_is_missing_and_kernels_are_none(tmp_path: Path) -> None:
    found = digest(write(tmp_path / "a.sqlite", call("cudaFree", 0, 10)))
    assert (found.totals["kernels"], found.totals["busy_ns"], found.totals["recorded_ns"]) == (0, None, None)
    assert {found.totals[name] for name in ("judged_busy_percent", "idle_cause_percent")} == {None}
    assert found.kernels == []
    assert "cuda_gpu_kern_sum" not in found.summaries


def test_work_that_took_no_time_is_busy_for_none_of_it(tmp_path: Path) -> None:
    found = digest(write(tmp_path / "a.sqlite", kernel("k", 5, 5))).totals
    assert (found["busy_ns"], found["busy_percent"]) == (0, None)


def test_durations_are_counted_by_full_name(tmp_path: Path) -> None:
    lengths_ns = {"b": [5, 5, 7], "a": [7, 5], "a(int)": [5]}
    rows = [
        kernel(name, 10 * i, 10 * i + ns) for name, many in lengths_ns.items() for i, ns in enumerate(many)
    ]
    found = digest(write(tmp_path / "a.sqlite", *rows))
    assert found.kernels == [("a", [5, 7], [1, 1]), ("a(int)", [5], [1]), ("b", [5, 7], [2, 1])]


def test_summaries_are_the_reports_values(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", *everything())
    found = digest(path).summaries
    assert set(found) == set(SUMMARIES)
    for name, summary in found.items():
        table = open_capture(path).report(name)
        assert summary.columns == [column.name for column in table.columns]
        assert list(zip(*summary.values, strict=True)) == table.rows()


def test_a_digest_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = digest(SHIPPED / "add2" / "both")
    write_to(made, tmp_path / "d.json")
    found = read_digest(tmp_path / "d.json")
    assert (found.source, found.totals, found.summaries) == (made.source, made.totals, made.summaries)
    assert [tuple(kernel) for kernel in found.kernels] == made.kernels


def test_what_a_second_collect_reads_is_what_the_digest_has(tmp_path: Path) -> None:
    made = digest(write(tmp_path / "a.sqlite", *everything(), kernel('a "b", c;\n\u2028d', 0, 10)))
    write_to(made, tmp_path / "d.json")
    write_lines(made, tmp_path / "scratch.json", tmp_path / "kept.json")
    assert (tmp_path / "scratch.json").read_bytes() == (tmp_path / "kept.json").read_bytes()
    assert read_kept(tmp_path / "kept.json") == (made.totals, list(made.summaries), made.facts)
    wanted = ["gpu_time", "no_report", *made.summaries]
    of_digest, of_kept = (reread(tmp_path / name, wanted) for name in ("d.json", "kept.json"))
    assert json.dumps(of_digest) == json.dumps(of_kept)
    assert list(of_kept[1]) == list(dict.fromkeys(name for name in wanted if name in made.summaries))
    (tmp_path / "kept.json").write_text(
        (tmp_path / "kept.json").read_text().replace('"kernels":', '"kernel":')
    )
    with pytest.raises(CaptureError, match="is damaged"):
        read_kept(tmp_path / "kept.json")


@pytest.mark.parametrize(
    ("durations", "counts"), [([5, 6], [1]), ([5], [-3]), ([5], [0]), ([5, 6], [2**62, 2**62])]
)
def test_counts_that_no_capture_has(durations: list[int], counts: list[int], tmp_path: Path) -> None:
    made = digest(write(tmp_path / "a.sqlite", kernel("k", 0, 10)))
    write_to(replace(made, kernels=[("k", durations, counts)]), tmp_path / "d.json")
    with pytest.raises(CaptureError, match="is damaged"):
        read_digest(tmp_path / "d.json")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    write(folder / EXPORT, kernel("k", 0, 10))
    write_digest(folder)
    return folder


def test_a_stored_digest_is_that_of_the_capture_beside_it(run: Path) -> None:
    found = stored(run)
    assert found is not None
    assert found.totals["kernel_ns"] == 10
    os.utime(run / EXPORT, (1, 1))  # a copy has another time
    assert stored(run) is not None
    (run / EXPORT).unlink()
    write(run / EXPORT, kernel("k", 0, 11))
    assert stored(run) is None


def test_a_digest_stands_for_a_capture_that_was_taken_away(run: Path) -> None:
    (run / EXPORT).unlink()
    assert stored(run) is not None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1}', "null"])
def test_what_is_no_digest_is_not_taken_for_one(run: Path, content: str) -> None:
    (run / DIGEST).write_text(content)
    assert stored(run) is None
    with pytest.raises(CaptureError):
        read_digest(run / DIGEST)


def test_a_digest_of_another_format_is_not_taken(run: Path) -> None:
    facts = json.loads((run / DIGEST).read_text())
    (run / DIGEST).write_text(json.dumps({**facts, "format": facts["format"] + 1}))
    assert stored(run) is None


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_an_older_digest_is_for_a_capture_that_is_gone(run: Path, version: int) -> None:
    written, stat = read_digest(run / DIGEST), (run / EXPORT).stat()
    names = {column.name for column in CONDITIONS}
    totals = {k: v for k, v in written.totals.items() if k not in names}
    older = replace(written, source=(stat.st_size, stat.st_mtime_ns), totals=totals, nsyswrap="")
    facts = {name: value for name, value in asdict(older).items() if value != ""}
    content = {"format": version, **facts}
    if version > 2:  # version 2 has no checksum
        content["sha256"] = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    (run / DIGEST).write_text(json.dumps(content))
    assert stored(run) is None
    (run / EXPORT).unlink()
    assert stored(run) == older


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"kernels":1,', '"kernels":2,'),
        ('"kernels":1,', '"kernels":1.5,'),
        ('"kernel_ns":10,', '"kernel_ns":"10",'),
        ('"kernel_ns":10,', '"kernel_ns":NaN,'),
        ('"kernel_ns":10,', '"kernel_ns":-10,'),
        ('["k",[10],[1]]', '["k",[10,20],[1]]'),
        ('"format":3', '"format":3.0'),
        ('"format":3', '"format":5'),  # that of a development version
        ('"nsyswrap":"', '"nsyswrap":"1.'),
        ('"sha256":"', '"sha256":"0'),
    ],
)
def test_an_altered_digest_is_made_again_or_refused(run: Path, before: str, after: str) -> None:
    text = (run / DIGEST).read_text()
    assert before in text
    (run / DIGEST).write_text(text.replace(before, after))
    assert stored(run) is None
    (run / EXPORT).unlink()
    with pytest.raises(CaptureError, match=r"digest\.json.*; its capture is gone"):
        stored(run)


def test_the_layout_of_a_digest_does_not_matter(run: Path) -> None:
    facts = json.loads((run / DIGEST).read_text())
    (run / DIGEST).write_text(json.dumps(dict(reversed(facts.items())), indent=3))
    assert stored(run) is not None


def test_types_are_checked_behind_a_right_checksum(run: Path) -> None:
    found = read_digest(run / DIGEST)
    write_to(replace(found, totals={**found.totals, "kernels": "1"}), run / DIGEST)  # type: ignore[dict-item]
    with pytest.raises(CaptureError, match=r"totals\.kernels is '1': expected a whole number or a number"):
        read_digest(run / DIGEST)


def test_a_run_without_a_capture_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(NotACapture):
        write_digest(tmp_path)
    assert list(tmp_path.iterdir()) == []
