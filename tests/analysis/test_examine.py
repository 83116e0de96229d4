"""What `nsyswrap doctor` says of a capture and of a run folder."""

import json
import lzma
import os
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from diagnostics_found import found
from tiny_export import DIAGNOSTIC, Row, call, domain, kernel, nvtx, opened, row, write

from nsyswrap.analysis.diagnostics import examine as examining
from nsyswrap.analysis.diagnostics import launch_checks
from nsyswrap.analysis.diagnostics.examine import examine
from nsyswrap.api import open_capture
from nsyswrap.base.check import Check
from nsyswrap.base.errors import NotACapture, NotInCapture
from nsyswrap.base.run_folder import EXPORT, LOG, RUN, STATUS
from nsyswrap.capture.export import Export
from nsyswrap.reports.summary import trust
from nsyswrap.reports.wording.checks import examined

SILENT = Path(__file__).resolve().parents[1] / "data" / "silent"
WORK = (call("cudaLaunchKernel", 1, 5, 1), kernel("k", 6, 9, 1))
DONE: dict[str, Any] = {"outcome": "done", "program_code": 0, "nsys_code": 0, "exit_code": 0}
FAILED: dict[str, Any] = {
    "outcome": "nsys_failed",
    "program_code": 0,
    "nsys_code": 0,
    "exit_code": 70,
    "message": "the capture range nvtx:x never started",
    "hint": "open the NVTX range in the program",
}


def checks(path: Path) -> dict[str, Check]:
    """Return the checks by subject; each subject occurs once."""
    made = examined(path)
    by_subject = {check.subject: check for check in made}
    assert len(by_subject) == len(made)
    return by_subject


def run_folder(folder: Path, status: dict[str, Any] | None, *rows: Row) -> Path:
    (folder / RUN).write_text(json.dumps({"command": ["x"]}))
    if status is not None:
        (folder / STATUS).write_text(json.dumps(status))
    if rows:
        write(folder / EXPORT, *rows)
    return folder


def test_a_sound_run(tmp_path: Path) -> None:
    version = row("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.20.3")
    found = checks(run_folder(tmp_path, DONE, *WORK, version))
    well = ["run", "file", "format", "GPU work", "figures", "contents", "size"]
    assert [subject for subject, check in found.items() if check.level == "ok"] == well
    # This capture has no messages of nsys, and its run no samples of the GPU.
    others = {subject: check.level for subject, check in found.items() if subject not in well}
    assert others == {"messages": "unknown", "GPU clocks": "unknown"}
    assert found["GPU work"].text == "1 kernel"
    assert found["figures"].text == "no problem found in times, launches, API results"
    assert found["size"].text == "0.0 MB, 2 CUDA and NVTX events; the screen takes roughly 0.3 s"


def test_a_file_alone_has_no_run(tmp_path: Path) -> None:
    assert "run" not in checks(write(tmp_path / "x.sqlite", *WORK))


def test_tables_that_no_report_reads_are_counted(tmp_path: Path) -> None:
    switches = [row("SCHED_EVENTS", start=time, cpu=1) for time in range(1200)]
    new = row("EVENTS_OF_2031", start=1, end=2)
    others = row("TARGET_INFO_OF_2031", name="x")  # it has no events
    found = checks(write(tmp_path / "x.sqlite", *WORK, *switches, new, others))["contents"]
    assert found.level == "note"
    text = "no report reads EVENTS_OF_2031 (1 row), SCHED_EVENTS: thread switches on the CPU (1,200 rows)"
    assert found.text == text


def test_a_table_of_cupti_without_times_is_counted(tmp_path: Path) -> None:
    events = row("CUPTI_ACTIVITY_KIND_OF_2031", eventId=1, correlationId=2)
    found = checks(write(tmp_path / "x.sqlite", *WORK, events))["contents"]
    assert found.text == "no report reads CUPTI_ACTIVITY_KIND_OF_2031 (1 row)"


def test_the_time_of_the_screen_follows_the_rows_that_it_reads(tmp_path: Path) -> None:
    metrics = [row("GPU_METRICS", timestamp=time, value=time) for time in range(200_000)]
    found = checks(write(tmp_path / "x.sqlite", *WORK, *metrics))["size"]
    assert found.text.endswith("2 CUDA and NVTX events; the screen takes roughly 0.3 s")


def test_a_check_that_could_not_be_made_is_not_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: object) -> Iterator[Check]:
        raise NotInCapture("x.sqlite has no column start")

    monkeypatch.setattr(launch_checks, "check_times", lacking)
    found = checks(write(tmp_path / "x.sqlite", *WORK))
    assert (found["times"].level, found["times"].text) == ("unknown", "x.sqlite has no column start")
    assert found["figures"].text == "no problem found in launches, API results"


def test_without_gpu_work_only_the_messages_are_sound(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(lzma.decompress((SILENT / "client.sqlite.xz").read_bytes()))
    made = examined(path)
    assert {check.text for check in made if check.subject == "figures"} == {"no problem found in messages"}
    assert {check.subject for check in made if check.level == "unknown"} >= {
        "launches without work",
        "API results",
    }


def test_lost_events_and_failed_calls(tmp_path: Path) -> None:
    lost = row(DIAGNOSTIC, timestamp=0, severity=2, text="Dropped 5 events", globalPid=0)
    failed = call("cudaMalloc", 9, 10, 2, returnValue=2)
    found = checks(write(tmp_path / "x.sqlite", *WORK, lost, failed))
    assert found["messages"].level == "problem"
    assert found["messages"].text.startswith("nsys: Dropped 5 events.")
    assert found["API results"] == Check(
        "note",
        "API results",
        "cudaMalloc returned 2 (out of memory): the call had no effect; its time still counts",
        count=1,
    )


def test_the_cause_of_silence_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(lzma.decompress((SILENT / "sub1.sqlite.xz").read_bytes()))
    found = [check for check in examined(path) if check.subject == "GPU work"]
    assert found[0].level == "problem"
    assert found[0].text.startswith("no GPU work: another profiler used CUPTI in process 1225")
    assert found[0].cure.startswith("turn off the other profiler")


def test_what_is_possible_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(lzma.decompress((SILENT / "fork0.sqlite.xz").read_bytes()))
    _, *others = [check for check in examined(path) if check.subject == "GPU work"]
    assert {check.level for check in others} == {"note"}
    assert all(check.text.startswith("possibly ") for check in others)


def test_a_damaged_page_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *WORK, *(call("cudaFree", 9 + i, 10 + i, 2 + i) for i in range(500)))
    content = bytearray(path.read_bytes())
    assert content[-4096:].strip(b"\0")
    content[-4096 + 8 : -4000] = b"\xff" * 88  # the cell pointers of the last page
    path.write_bytes(content)
    capture = open_capture(path)
    assert capture.damage(10)
    assert next(check for check in examine(capture) if check.subject == "file").level == "problem"


def test_damage_that_ends_the_check_is_told_after_a_stall_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def malformed() -> None:
        raise sqlite3.DatabaseError("malformed")

    db = SimpleNamespace(set_progress_handler=lambda *_: None, cursor=malformed)
    monkeypatch.setattr("nsyswrap.capture.export.monotonic", count(0, 3600).__next__)
    export: Any = SimpleNamespace(_db=db)
    assert Export.damage(export, 10) == "malformed"


def test_a_check_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "_PATIENCE_S", -1)
    path = write(tmp_path / "x.sqlite", *(call("cudaFree", i, i + 1, i) for i in range(5000)))
    found = checks(path)["file"]
    assert found.level == "unknown"
    assert checks(path)["size"].level == "ok"  # the file can still be read


def test_a_run_without_a_capture_says_why(tmp_path: Path) -> None:
    run_folder(tmp_path, FAILED)
    (tmp_path / LOG).write_text("Processing events...\nGenerated:\n\tNo reports were generated\n")
    [found] = examined(tmp_path)
    assert found == Check("problem", "run", f"nsys failed: {FAILED['message']}", FAILED["hint"])


def test_a_run_that_was_killed_and_what_nsys_said(tmp_path: Path) -> None:
    run_folder(tmp_path, None)
    (tmp_path / LOG).write_text("No space left on device\n")
    run, log = examined(tmp_path)
    assert run.text == "this run never finished: nsyswrap was killed; it left no recording"
    assert (log.subject, log.text) == ("nsys log", "the disk is full")


def test_a_run_without_a_log(tmp_path: Path) -> None:
    _, log = examined(run_folder(tmp_path, DONE))
    assert (log.level, log.text) == ("unknown", "nsys.log cannot be read: No such file or directory")


def test_only_the_end_of_a_log_is_read_and_never_a_pipe(tmp_path: Path) -> None:
    run_folder(tmp_path, None)
    log = tmp_path / LOG
    log.write_text(f"unrecognised option 'x'\n{'-' * examining.LOG_BYTES}\nNo space left on device\n")
    assert [check.text for check in examined(tmp_path)][1:] == ["the disk is full"]
    log.unlink()
    os.mkfifo(log)
    _, unread = examined(tmp_path)
    assert (unread.level, unread.text) == ("unknown", "nsys.log cannot be read: not a regular file")


def test_a_program_that_failed_was_recorded_to_its_end(tmp_path: Path) -> None:
    status = {**DONE, "outcome": "program_failed", "program_code": 3, "nsys_code": 3, "exit_code": 3}
    found = checks(run_folder(tmp_path, {**status, "message": "x ended with exit code 3"}, *WORK))["run"]
    assert found == Check("note", "run", "the program failed: x ended with exit code 3")


def test_the_capture_of_a_run_that_failed(tmp_path: Path) -> None:
    assert checks(run_folder(tmp_path, FAILED, *WORK))["run"].level == "problem"


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotACapture):
        examined(tmp_path)


TEXT = (
    "no NVTX ranges, only domains: possibly the package nvtx 0.2.12 or newer, which is silent under nsys 2024"
)
DOMAIN = domain("train", 1)


@pytest.mark.parametrize(
    ("nsys", "program", "events", "is_silent"),
    [
        ("2023.4.4.54", "python3", [DOMAIN], True),
        ("2024.2.3.38", "/opt/conda/bin/python", [DOMAIN, domain("train", 1, eventType=76)], True),
        ("2025.1.1.0", "python3", [DOMAIN], False),
        ("", "python3", [DOMAIN], False),
        ("2023.4.4.54", "./a.out", [DOMAIN], False),
        ("2023.4.4.54", "python3", [], False),
        ("2023.4.4.54", "python3", [DOMAIN, nvtx("step", 0, 50, domainId=1)], False),
    ],
)
def test_domains_without_ranges(
    tmp_path: Path, nsys: str, program: str, events: list[Row], *, is_silent: bool
) -> None:
    capture = opened(
        tmp_path,
        row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=nsys),
        row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value=program),
        *(call("cudaLaunchKernel", 1, 5, 1), kernel("k", 10, 30, 1), *events),
    )
    assert (f"  {TEXT}" in trust(capture).remarks) is is_silent
    (level, _, _, meaning), *_ = found(capture, "NVTX ranges")
    assert (level == "warning") is is_silent
    assert str(meaning).startswith(TEXT) is is_silent
    assert str(meaning).endswith("pip install 'nvtx<0.2.12'") is is_silent
