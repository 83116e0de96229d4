"""Packets for agents: what a capture cannot tell, and the packets of checks and of many runs."""

import json
from pathlib import Path

import pytest
from advised import STEP_NS, launched, looped
from checkouts import ROOT
from jsonschema import Draft202012Validator
from tiny_export import Row, call, kernel, opened

from nsyswrap.base.check import Check, Level
from nsyswrap.base.errors import CommandHint
from nsyswrap.capture.selection import Selection
from nsyswrap.cli.doctor import as_dict
from nsyswrap.reports.brief import as_text, brief_of_checks, brief_of_runs
from nsyswrap.reports.runs.find import RecordedRun
from nsyswrap.reports.runs.gather import RunResult

SCHEMA = Draft202012Validator(json.loads((ROOT / "docs/brief.schema.json").read_text(encoding="utf-8")))
HOSTILE = ["a" * 10**4, "\u0301" * 10**4, "\U0001f600" * 10**4, "\x1b[31m<b>\\\"'" * 10**3]
CLOCKS = "clocks, throttling, other processes"
LOOP = looped(*launched(300, host=290), steps=5)


@pytest.mark.parametrize(
    ("rows", "selection", "unknown"),
    [
        (LOOP, Selection(), [CLOCKS]),
        ([kernel("k", 0, 10)], Selection(), ["the time of a step", CLOCKS]),
        ([call("cudaMalloc", 0, 10)], Selection(), ["why the GPU had no work"]),
        (
            LOOP,
            Selection(start_ns=90 * STEP_NS, end_ns=99 * STEP_NS),
            ["how busy the GPU was: all GPU work is outside of the selection"],
        ),
    ],
    ids=["steps", "no steps", "no GPU work", "none in the selection"],
)
def test_what_a_capture_cannot_tell(
    rows: list[Row], selection: Selection, unknown: list[str], tmp_path: Path
) -> None:
    capture = opened(tmp_path, *rows).viewed(selection=selection)
    assert [one["what"] for one in capture.brief()["unknown"]] == unknown


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("count", [1, 7, 500])
def test_no_check_makes_a_packet_large(text: str, count: int) -> None:
    cures = (text, CommandHint.of(["nsyswrap", text]), f"sudo {text}", "sudo reboot")
    checks = [Check("problem", text, text, cures[i % 4]) for i in range(count)]
    packet = brief_of_checks(as_dict({"capture": [*checks, Check("ok", text, text)]}))
    assert len(as_text(packet)) <= 4096
    SCHEMA.validate(packet)
    assert packet["counts"] == {"problem": count, "note": 0, "unknown": 0, "ok": 1}
    assert len(packet["checks"]) + packet["checks_left_out"] == count
    assert all("…" not in word for check in packet["checks"] for word in check["remedy"])


def test_problems_are_first_and_what_is_ok_is_a_number() -> None:
    levels: tuple[Level, ...] = ("ok", "unknown", "note", "problem", "note")
    packet = brief_of_checks(as_dict({"nsys": [Check(one, f"{i}", "why") for i, one in enumerate(levels)]}))
    assert [(check["name"], check["state"]) for check in packet["checks"]] == [
        ("3", "problem"),
        ("2", "note"),
        ("4", "note"),
        ("1", "unknown"),
    ]
    assert packet["counts"]["ok"] == 1


@pytest.mark.parametrize(
    ("cure", "remedy"),
    [
        ("docker run --gpus all IMAGE", ["docker", "run", "--gpus", "all", "IMAGE"]),
        ("sudo apt-get install libdw1  # Debian", ["sudo", "apt-get", "install", "libdw1"]),
        ("/bin/pip install 'nvtx<0.2.12'", ["/bin/pip", "install", "nvtx<0.2.12"]),
        (CommandHint.of(["nsyswrap", "doctor", "a b"], "{} finds out"), ["nsyswrap", "doctor", "a b"]),
        ("nsyswrap report --list lists them", []),
        ("sudo mkdir /x && sudo reboot", []),
        ("sudo cp $HOME/a ~/b", []),
        ("export TMPDIR=/x", []),
        ("don't fork", []),
        ("", []),
    ],
)
def test_a_remedy_is_one_command_without_a_shell(cure: str, remedy: list[str]) -> None:
    [check] = brief_of_checks(as_dict({"nsys": [Check("problem", "x", "y", cure)]}))["checks"]
    assert (check["remedy"], check["do"]) == (remedy, cure or None)


def judged(name: str, busy: float | None, **facts: str) -> RunResult:
    totals = {"judged_busy_percent": busy, "idle_cause_percent": 1 / 3}
    return RunResult(RecordedRun(Path(name), name, "done"), totals, facts=facts)


def without_capture(name: str, outcome: str, message: str = "") -> RunResult:
    return RunResult(RecordedRun(Path(name), name, outcome, message=message))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("count", [1, 2000])
def test_no_runs_make_a_packet_large(text: str, count: int) -> None:
    names = ("gpus", "idle_cause", "finding", "first_finding")
    good = [judged(f"{i}{text}", i, **dict.fromkeys(names, f"{i}{text}")) for i in range(count)]
    bad = [without_capture(f"{i}{text}", "nsys_failed", text) for i in range(count)]
    for results in (good, bad, good + bad):
        packet = brief_of_runs(results, Path(text))
        assert len(as_text(packet)) <= 4096
        SCHEMA.validate(packet)
        assert packet["rows"] == len(packet["first"]) + packet["rows_left_out"] == len(results)
        assert (packet["table"], packet["next"]) == (None, [])


def test_runs_that_failed_are_first_then_the_least_busy() -> None:
    texts = {"idle_cause": "host code", "finding": "launch_bound", "first_finding": "Launch-bound"}
    results = [
        judged("busy", 90, gpus="A"),
        judged("unknown", None),
        without_capture("to come", "planned"),
        judged("idle", 10, gpus="A", **texts),
        without_capture("damaged", "damaged", "cut off"),
    ]
    packet = brief_of_runs(results, Path("out/results.csv"))
    SCHEMA.validate(packet)
    assert [run["name"] for run in packet["first"]] == ["damaged", "idle", "busy", "unknown"]
    assert packet["outcomes"] == {"done": 3, "planned": 1, "damaged": 1}
    assert (packet["gpus"], packet["rows_left_out"]) == ([{"names": "A", "rows": 2}], 1)
    assert packet["first"][0]["message"] == "cut off"
    assert packet["first"][1] == {
        "name": "idle",
        "rank": None,
        "outcome": "done",
        "busy_percent": 10,
        "idle_cause_percent": 0.333333,
        "idle_cause": "host code",
        "finding": "launch_bound",
        "what": "Launch-bound",
        "message": None,
    }
    assert [one["argv"][1:3] for one in packet["next"]] == [["doctor", "damaged"], ["report", "idle"]]
