"""What programs and agents get: small packets, and a skill whose commands exist."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from checkouts import ROOT
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cli

SCHEMA = json.loads((ROOT / "docs/brief.schema.json").read_text(encoding="utf-8"))
CAPTURE = ROOT / "nsyswrap/recorded/add2/none"


def test_a_packet_for_each_capture(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("no capture")
    done = cli("report", str(CAPTURE), str(tmp_path / "bad.sqlite"), "--format", "brief")
    assert done.returncode == 65
    packets = [json.loads(line) for line in done.stdout.splitlines()]
    for packet in packets:
        Draft202012Validator(SCHEMA).validate(packet)
    assert packets[0]["judged"]["part"] == "steady part"
    assert "error" in packets[1]


def test_its_next_commands_run(cli: Cli) -> None:
    [packet] = map(json.loads, cli("report", str(CAPTURE), "--format", "brief").stdout.splitlines())
    reports = [one["argv"] for one in packet["next"] if "NEW" not in one["argv"]]
    assert reports
    for argv in reports:
        assert argv[0] == "nsyswrap"
        assert cli(*argv[1:]).returncode == 0


def test_a_packet_has_no_reports(cli: Cli) -> None:
    done = cli("report", str(CAPTURE), "--format", "brief", "-r", "gpu_time")
    assert done.returncode == 2
    assert "--format brief is the answer alone" in done.stderr


def test_the_skill_file_is_printed(cli: Cli) -> None:
    assert cli("doctor", "--skill").stdout.startswith("---\nname: nsyswrap\n")


def test_the_packet_of_a_comparison(cli: Cli) -> None:
    sides = [str(ROOT / "nsyswrap/recorded/add2" / name) for name in ("none", "both")]
    done = cli("compare", *sides, "--anyway", "--format", "brief")
    assert len(done.stdout) <= 4097
    packet = json.loads(done.stdout)
    whole = json.loads(cli("compare", *sides, "--anyway", "--format", "json").stdout)
    assert packet["format"] == "nsyswrap-comparison-brief"
    assert packet["outcome"] == whole["outcome"] == "not judged"
    assert packet["headline"]["cost_ms"] * 1e6 == pytest.approx(whole["headline"]["cost_ns"], rel=1e-5)
    costs = [abs(change["cost_ms"]) for change in packet["changes"]]
    assert costs == sorted(costs, reverse=True)
    assert packet["no_verdicts_because"] == whole["no_verdicts_because"]


@pytest.mark.parametrize(
    ("words", "code", "kind", "what"),
    [
        (["report", "absent.sqlite", "--format", "brief"], 65, "NotACapture", "absent.sqlite"),
        (["report", "--format=json", "-r", "nonsense", str(CAPTURE)], 2, "UsageError", "nonsense"),
        (["compare", str(CAPTURE), "--format", "brief"], 2, "UsageError", "NEW"),
        (["doctor", "absent", "--json"], 65, "NotACapture", "absent"),
        (["report", "--no-such", "--format", "json"], 2, "UsageError", "--no-such"),
    ],
)
def test_an_error_is_an_object_where_json_is_asked_for(
    cli: Cli, words: list[str], code: int, kind: str, what: str
) -> None:
    done = cli(*words)
    error = json.loads(done.stdout)
    assert (done.returncode, error["code"], error["kind"]) == (code, code, kind)
    assert what in error["what"]
    assert error["what"] in done.stderr
    plain = cli(
        *(word for word in words if word not in ("--format", "json", "brief", "--json", "--format=json"))
    )
    assert plain.returncode == code
    assert plain.stdout == ""
