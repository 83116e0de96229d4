"""What the scripts in scenarios/ share: command line, build, result and what is said when it fails."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import pytest

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, summarize, under_nsys

VARIANTS = ("fast", "slow")
COUNTS = {"n": (1, 8, "elements"), "warmup": (0, 2, "untimed iterations")}


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    return make_parser("What it shows.", VARIANTS, counts=COUNTS)


def nothing(_: argparse.Namespace) -> Mapping[str, Any]:
    return {}


def test_the_defaults(parser: argparse.ArgumentParser) -> None:
    options = parser.parse_args([])
    assert vars(options) == {"variants": None, "n": 8, "warmup": 2, "build": False, "built": None}
    assert chosen(options, VARIANTS) == VARIANTS
    assert counted(options, COUNTS) == {"n": 8, "warmup": 2}


def test_variants_are_taken_once_and_in_the_order_given(parser: argparse.ArgumentParser) -> None:
    options = parser.parse_args(["--variant", "slow", "--variant", "fast", "--variant", "slow"])
    assert chosen(options, VARIANTS) == ("slow", "fast")


def test_a_script_that_runs_one_variant_has_a_default() -> None:
    parser = make_parser("", VARIANTS, only="slow", option="--how", builds=False)
    assert vars(parser.parse_args([])) == {"variant": "slow"}
    assert parser.parse_args(["--how", "fast"]).variant == "fast"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--n", "0"], "argument --n: must be at least 1"),
        (["--warmup", "-1"], "argument --warmup: must be at least 0"),
        (["--n", "1e6"], "argument --n: invalid whole number value: '1e6'"),
        (["--variant", "none"], "invalid choice: 'none'"),
    ],
)
def test_what_measures_nothing_is_refused(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_it_is_built_measured_and_reported(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main("x", parser.parse_args([]), lambda options: {"with": options.built}, lambda _: "/lib")
    assert code == 0
    assert capsys.readouterr() == ('{"scenario": "x", "with": "/lib"}\n', "")


def test_build_builds_and_measures_nothing(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(_: argparse.Namespace) -> dict[str, Any]:
        raise AssertionError("measured")

    assert main("x", parser.parse_args(["--build"]), measure, lambda _: "/lib") == 0
    assert capsys.readouterr() == ("/lib\n", "")


def test_what_was_built_is_not_built_again(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(_: argparse.Namespace) -> str:
        raise AssertionError("built")

    assert main("x", parser.parse_args(["--built", "/old"]), lambda o: {"with": o.built}, build) == 0
    assert json.loads(capsys.readouterr().out)["with"] == "/old"


def test_what_is_missing_is_one_line(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(_: argparse.Namespace) -> str:
        raise Unavailable("nvcc not found", "install the CUDA toolkit")

    assert main("x", parser.parse_args([]), nothing, build) == 69
    assert capsys.readouterr() == ("", "x: nvcc not found; install the CUDA toolkit\n")


def test_a_wrong_result_is_no_measurement(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(_: argparse.Namespace) -> dict[str, Any]:
        raise AssertionError("2 + 2 gave 5")

    assert main("x", parser.parse_args([]), measure) == 1
    assert capsys.readouterr() == ("", "x: the result is wrong: 2 + 2 gave 5\n")


def test_an_error_of_pytorchs_is_its_first_line(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(_: argparse.Namespace) -> dict[str, Any]:
        raise RuntimeError("CUDA out of memory.\nException raised from ...")

    assert main("x", parser.parse_args(["--built", "/lib"]), measure) == 1
    assert capsys.readouterr() == ("", "x: CUDA out of memory.\n")


def test_summary_of_samples() -> None:
    samples = [3e-6, 1e-6, 2e-6, 10e-6]
    assert summarize("both", "torch", samples, span="both/torch", launches=5) == {
        "variant": "both",
        "operator": "torch",
        "range": "both/torch",
        "launches": 5,
        "median_us": 2.5,
        "mean_us": 4.0,
        "min_us": 1.0,
        "max_us": 10.0,
        "samples_us": [3.0, 1.0, 2.0, 10.0],
    }


def test_whether_nsys_records_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
    monkeypatch.delenv("QUADD_INJECTION_PROXY", raising=False)
    assert not under_nsys()
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    assert under_nsys()
