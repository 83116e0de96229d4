"""What programs and agents get: small packets, and a skill whose commands exist."""

from __future__ import annotations

import json
import lzma
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from checkouts import ROOT
from jsonschema import Draft202012Validator
from tiny_export import call, kernel, row, write

from nsyswrap.base.errors import CommandHint, OutputError
from nsyswrap.base.files import locked

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cli

SCHEMA = json.loads((ROOT / "docs/brief.schema.json").read_text(encoding="utf-8"))
ERROR = json.loads((ROOT / "docs/error.schema.json").read_text(encoding="utf-8"))
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


@pytest.mark.parametrize("name", ["", "ranks2", "item_each"])
def test_its_next_commands_run(cli: Cli, name: str, tmp_path: Path) -> None:
    """The rows behind the finding of ``ranks2`` are those of a report over ranks."""
    capture = tmp_path / f"{name}.sqlite" if name else CAPTURE
    if name:
        packed = ROOT / "tests/labelled/captures" / f"{name}.sqlite.xz"
        capture.write_bytes(lzma.decompress(packed.read_bytes()))
    [packet] = map(json.loads, cli("report", str(capture), "--format", "brief").stdout.splitlines())
    reports = [one["argv"] for one in packet["next"] if "NEW" not in one["argv"]]
    assert reports
    for argv in reports:
        assert argv[0] == "nsyswrap"
        assert cli(*argv[1:]).returncode == 0


def test_the_packet_of_a_part_names_it_and_so_do_its_commands(cli: Cli) -> None:
    part = ("--device", "0")
    packet = json.loads(cli("report", str(CAPTURE), *part, "--format", "brief").stdout)
    Draft202012Validator(SCHEMA).validate(packet)
    assert packet["judged"]["options"] == list(part)
    commands = [" ".join(one["argv"]) for one in packet["next"]]
    assert commands
    assert all(" --device 0 " in command for command in commands)


def test_an_empty_part_is_no_missing_gpu_work(cli: Cli) -> None:
    packet = json.loads(cli("report", str(CAPTURE), "--time", "5h/6h", "--format", "brief").stdout)
    assert packet["judged"]["options"] == ["--time", "18000s/21600s", "--clip", "yes"]
    assert not any("doctor" in one["argv"] for one in packet["unknown"])
    assert packet["unknown"][0]["what"] == "how busy the GPU was: all GPU work is outside of the selection"


@pytest.mark.parametrize(
    "text", ["\x1b[31m::error::<b>" + "a" * 10**5, "\u0301" * 10**4, "\U0001f600" * 10**4]
)
def test_no_text_of_a_capture_makes_a_packet_large(cli: Cli, tmp_path: Path, text: str) -> None:
    write(
        tmp_path / "x.sqlite",
        *(call("cudaLaunchKernel", 100 * i, 100 * i + 5, i) for i in range(1, 9)),
        *(kernel(text, 100 * i + 10, 100 * i + 90, i) for i in range(1, 9)),
        *(row("TARGET_INFO_GPU", id=i, name=f"{i}{text}") for i in range(16)),
        *(row("META_DATA_CAPTURE", name=f"PROCESS_0:ARGUMENT_{i}", value=text) for i in range(20)),
        row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value=text),
    )
    line = cli("report", "x.sqlite", "--format", "brief").stdout
    assert len(line) <= 4097
    packet = json.loads(line)
    Draft202012Validator(SCHEMA).validate(packet)
    assert packet["capture"]["gpu_count"] == 16
    assert all("…" not in word for one in (*packet["unknown"], *packet["next"]) for word in one["argv"])


def test_a_path_that_does_not_fit_leaves_no_cut_command(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / ("日" * 80)).mkdir()
    path = f"{'日' * 80}/../" * 4 + "x.sqlite"  # escaped, each has 480 bytes
    write(tmp_path / "x.sqlite", call("cudaLaunchKernel", 0, 5, 1), kernel("first", 10, 30, 1))
    line = cli("report", path, "--format", "brief").stdout
    assert len(line) <= 4097
    packet = json.loads(line)
    Draft202012Validator(SCHEMA).validate(packet)
    assert packet["busy_percent"] == 100
    assert packet["next"] == []


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
    Draft202012Validator(ERROR).validate(error)
    assert (done.returncode, error["code"], error["kind"]) == (code, code, kind)
    assert what in error["what"]
    assert error["what"] in done.stderr
    plain = cli(
        *(word for word in words if word not in ("--format", "json", "brief", "--json", "--format=json"))
    )
    assert plain.returncode == code
    assert plain.stdout == ""


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["redact", "x", "--json"], ["nsyswrap", "redact", "--help"]),
        (["--format", "json", "report", "a b"], ["nsyswrap", "report", "--format", "json", "a b"]),
        (["help", "report", "--format=json"], ["nsyswrap", "report", "--format=json", "--help"]),
        (["report", "x", "--ncu", "y z.sqlite", "--format", "json"], []),
    ],
)
def test_an_error_has_the_command_that_it_names(cli: Cli, words: list[str], remedy: list[str]) -> None:
    error = json.loads(cli(*words).stdout)
    Draft202012Validator(ERROR).validate(error)
    assert (error["remedy"], error["retryable"]) == (remedy, False)
    assert shlex.join(remedy) in error["do"]


def test_a_folder_in_use_can_be_tried_again(tmp_path: Path) -> None:
    hint = CommandHint.of(["nsyswrap", "batch", "wait", "a b"], "`{}` waits for its runs")
    assert hint == "`nsyswrap batch wait 'a b'` waits for its runs"
    code = "import sys; from pathlib import Path; from nsyswrap.base.files import locked"
    program = f"{code}\nwith locked(Path('.'), 'a test'): print('in', flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"in\n"
        with pytest.raises(OutputError) as raised, locked(tmp_path, "another test", hint):
            pass
        holder.communicate(b"")
    assert raised.value.retryable
    assert raised.value.remedy == ("nsyswrap", "batch", "wait", "a b")
    assert not OutputError("x", "y").retryable


@pytest.mark.parametrize("text", ["a" * 10**5, "\u0301" * 2000, "\U0001f600" * 2000])
def test_no_text_makes_an_error_large(cli: Cli, text: str) -> None:
    done = cli("report", str(CAPTURE), "-r", text, "--format", "json")
    assert len(done.stdout) <= 4097
    Draft202012Validator(ERROR).validate(json.loads(done.stdout))


def test_credentials_of_the_command_line_are_not_passed_on(cli: Cli, tmp_path: Path) -> None:
    arguments = ("python3", "train.py", "--token=hunter2hunter2")
    names = ("COMMAND", "ARGUMENT_0", "ARGUMENT_1")
    rows = [
        row("META_DATA_CAPTURE", name=f"PROCESS_0:{n}", value=v)
        for n, v in zip(names, arguments, strict=True)
    ]
    write(tmp_path / "a.sqlite", *rows, kernel("k", 0, 5))
    printed = cli("report", tmp_path / "a.sqlite", "--format", "brief").stdout
    packet = json.loads(printed)
    assert "hunter2" not in printed
    assert packet["capture"]["command"][:2] == ["python3", "train.py"]
    assert packet["unknown"][0]["argv"][-1] == "PROGRAM"
