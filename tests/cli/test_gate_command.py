"""The gate takes its limits from options and the project, and ends with a code, words and annotations."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import made_side, side_of

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.gate import GateLimits
from nsyswrap.analysis.compare.model import Key
from nsyswrap.base.errors import CaptureError, UnreadCapture, UsageError
from nsyswrap.cli.gate import annotation, check_gate, errors_annotated, finish, gate_limits
from nsyswrap.render import comparison as comparisons

NONE = {"gate": True, "max_slower": None, "min_time": None, "kernels": (), "metrics": (), "strict": False}
STEP = Key("step", "step")
QUIET = [100_000.0, 100_100.0, 99_900.0, 100_050.0, 99_950.0]
SLOW = [1.2 * value for value in QUIET]
NOISY = [100_000.0, 80_000.0, 120_000.0, 70_000.0, 130_000.0]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "pyproject.toml"


def limits_of(**options: Any) -> GateLimits:
    limits = gate_limits({**NONE, **options})
    assert limits is not None
    return limits


@pytest.mark.usefixtures("project")
def test_without_options_the_limits_are_the_built_in_ones() -> None:
    assert limits_of() == GateLimits(0.05, 10_000.0)
    assert gate_limits({**NONE, "gate": False}) is None


@pytest.mark.usefixtures("project")
def test_options_are_read() -> None:
    limits = limits_of(
        max_slower="7.5%", min_time="2 ms", kernels=("*gemm*",), metrics=("step", "kernels"), strict=True
    )
    assert limits == GateLimits(0.075, 2e6, ("*gemm*",), ("step", "kernels"), is_strict=True)


def test_the_project_has_defaults_that_options_outrank(project: Path) -> None:
    project.write_text(
        '[tool.nsyswrap.gate]\nmax-slower = "3%"\nmin-time = "1ms"\n'
        'metric = "total"\nkernel = ["a", "b"]\nstrict = true\n'
    )
    assert limits_of() == GateLimits(0.03, 1e6, ("a", "b"), ("total",), is_strict=True)
    assert limits_of(max_slower="9%", kernels=("c",)) == GateLimits(0.09, 1e6, ("c",), (), is_strict=True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('max-slower = "x"', "invalid max-slower 'x': expected a percentage, for example 5%"),
        ("max-slower = 0.05", "invalid max-slower 0.05: expected a percentage"),
        ('min-time = "10"', "invalid min-time '10': expected a time with its unit"),
        ('metric = "kernel"', "invalid metric 'kernel': expected total, step"),
        ("kernel = [1]", r"invalid kernel \[1\]: expected names or patterns"),
        ("strict = 1", "invalid strict 1: expected true or false"),
        ('max_slower = "5%"', "no key of the gate named 'max_slower'"),
    ],
)
def test_a_wrong_value_of_the_project_is_named_with_its_file(project: Path, line: str, message: str) -> None:
    project.write_text(f"[tool.nsyswrap.gate]\n{line}\n")
    with pytest.raises(UsageError, match=message) as error:
        limits_of()
    assert str(project) in error.value.message


@pytest.mark.parametrize("text", ["[tool.nsyswrap]\ngate = 5\n", '[tool]\nnsyswrap = {gate = "x"}\n'])
def test_a_gate_that_is_no_table_is_refused(project: Path, text: str) -> None:
    project.write_text(text)
    with pytest.raises(UsageError, match="is not a table"):
        limits_of()


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_slower": "0.05"}, "invalid --max-slower '0.05': expected a percentage"),
        ({"max_slower": "x"}, "invalid --max-slower 'x': expected a percentage"),
        ({"metrics": ("speed",)}, "invalid --metric 'speed': expected total"),
        ({"gate": False, "strict": True}, "--strict belongs to --gate"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        limits_of(**options)


def end_of(base: list[float], new: list[float], limits: GateLimits | None = None) -> int:
    limits = limits or GateLimits()
    result = check_gate(compare(side_of("base", {STEP: base}), side_of("new", {STEP: new})), limits)
    return finish(result, limits, lambda: "| table |")


@pytest.mark.usefixtures("project")
def test_the_code_says_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(QUIET, QUIET) == 0
    assert "gate: PASS: none of 1 row (steps) is slower by more than 5 %" in capsys.readouterr().err
    assert end_of(QUIET, SLOW) == 1
    shown = capsys.readouterr()
    assert "gate: FAIL: 1 of 1 row slower by more than 5 %\n  step: 100 µs -> 120 µs, +20.0 % (" in shown.err
    assert "+2.00 ms a run\n  (means of all of a run; the bounds hold for 99 % " in shown.err
    assert not shown.out
    assert end_of(NOISY, NOISY) == 0
    assert "gate: NOT JUDGED: 1 of 1 row could be slower by more than 5 %" in capsys.readouterr().err
    assert end_of(NOISY, NOISY, GateLimits(is_strict=True)) == 3


def test_rows_with_too_little_time_pass_by_the_time_that_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert end_of(QUIET, SLOW, GateLimits(min_time_ns=1e9)) == 0
    assert "none of 1 row (steps) is slower by more than 5 % and 1.00 s a run" in capsys.readouterr().err


def test_rows_without_a_verdict_do_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    sides = (side_of("base", {STEP: QUIET}), side_of("new", {STEP: [*SLOW[:-1], None]}))
    assert finish(check_gate(compare(*sides), GateLimits()), GateLimits(is_strict=True), str) == 3
    err = capsys.readouterr().err
    assert "gate: NOT JUDGED: too little is in both sides: 1 row (steps)\n  steps cover 0 / 0 % of " in err
    assert "not compared: 1 row: step (absent from 1 of 5 new runs)" in err


def test_rows_of_one_run_a_side_have_no_reason_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(QUIET[:1], SLOW[:1]) == 0
    assert (
        "one run a side cannot tell noise from change\n  not compared: 1 row: step\n"
        in capsys.readouterr().err
    )


def test_what_cannot_be_compared_is_an_error() -> None:
    base = made_side("base")
    for new, limits, message in (
        (made_side("new", setup=base.runs[0].setup.__class__(gpus=("NVIDIA A100",))), GateLimits(), "GPU"),
        (made_side("new"), GateLimits(kernels=("nothing",)), "no kernel matches 'nothing'"),
    ):
        with pytest.raises(CaptureError, match=message) as error:
            check_gate(compare(base, new), limits)
        assert error.value.exit_code == 65


def test_github_gets_annotations_and_a_summary(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = project.with_name("summary.md")
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    end_of(QUIET, SLOW)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("::error title=nsyswrap gate::step: 100 µs -> 120 µs, +20.0 %25 (")
    assert lines[1].startswith(
        "::error title=nsyswrap gate::FAIL: 1 of 1 row slower by more than 5 %25; steps cover"
    )
    assert summary.read_text() == "before\n**Gate: FAIL: 1 of 1 row slower by more than 5 %**\n\n| table |\n"
    end_of(NOISY, NOISY)
    end_of(QUIET, QUIET)
    levels = [
        line.partition(" ")[0] for line in capsys.readouterr().err.splitlines() if line.startswith("::")
    ]
    assert levels == ["::warning", "::notice"]
    end_of(NOISY, NOISY)
    assert "::warning title=nsyswrap gate::NOT JUDGED: " in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_a_summary_that_cannot_be_written_does_not_change_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert end_of(QUIET, QUIET) == 0
    assert "summary of the job was not written" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_an_error_is_an_annotation_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for setting, shown in (("true", "::error title=nsyswrap gate::x.json not found\n"), ("", "")):
        monkeypatch.setenv("GITHUB_ACTIONS", setting)
        with pytest.raises(CaptureError), errors_annotated():
            raise CaptureError("x.json not found")
        assert capsys.readouterr().err == shown


def test_annotations_are_escaped_as_github_reads_them() -> None:
    assert annotation("error", "5 %\nx: a,b\r", "a:b,c%") == "::error title=a%3Ab%2Cc%25::5 %25%0Ax: a,b%0D"


@pytest.mark.usefixtures("project")
def test_github_gets_no_command_of_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    step = Key("step", "a%0A\n::set-env name=A::b ##[add-mask]1\x1b[2J")
    base, new = side_of("base", {step: QUIET}), side_of("new", {step: SLOW})
    lost = UnreadCapture("x\n::stop-commands::y", "x", "z\r::error::w")
    comparison = compare(replace(base, left_out=(lost,)), new)
    result = check_gate(comparison, GateLimits())
    finish(result, GateLimits(), lambda: comparisons.markdown(comparison), comparison.left_out)
    err = capsys.readouterr().err
    commands = [line for line in re.split("[\r\n]", err) if line.lstrip().startswith("::") or "##[" in line]
    ours = [line for line in commands if line.startswith("::error title=nsyswrap gate::")]
    assert len(ours) == 2
    assert "a%250A\\n::set-env name=A::b" in ours[0]
    assert [line for line in commands if line not in ours] == []
    assert "\x1b" not in err
    text = summary.read_text()
    assert not any(line.lstrip().startswith("::") for line in re.split("[\r\n]", text))
    assert "\x1b" not in text
    assert text.index("::stop-commands::y") < text.index("Slower")
