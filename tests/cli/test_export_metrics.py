"""``nsyswrap export --metrics``: where metrics go, of which runs they are, and what is refused."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Cli
from prometheus_client.openmetrics import parser
from recorded import SHIPPED

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.base.version import version
from nsyswrap.cli import cli as commands
from nsyswrap.cli.export import METRICS
from nsyswrap.render.text_exports import FORMATS

BOTH = SHIPPED / "add2" / "both"


def parse(text: str) -> Iterable[Any]:
    read: Any = parser.text_string_to_metric_families  # the package has types, but not for this
    return list(read(text))


def refused(*arguments: str | Path) -> NsyswrapError:
    result = CliRunner().invoke(commands, ["export", *map(str, arguments)])
    assert isinstance(result.exception, NsyswrapError), result.output
    return result.exception


def test_the_option_has_every_format() -> None:
    assert tuple(FORMATS) == METRICS


def test_a_capture_goes_to_stdout(cli: Cli) -> None:
    done = cli("export", BOTH, "--metrics", "openmetrics")
    assert done.returncode == 0, done.stderr
    found = {family.name: family for family in parse(done.stdout)}
    kernels = {sample.labels["kernel"][:11]: sample.value for sample in found["nsyswrap_kernels"].samples}
    assert kernels == {"add2_kernel": 22, "void at::na": 22}
    assert "metrics of 1 run" in done.stderr


def test_a_folder_of_runs_goes_to_a_file(tmp_path: Path) -> None:
    for number in (1, 2):
        shutil.copytree(BOTH, tmp_path / "runs" / f"run-{number}")
    output = tmp_path / "metrics.json"
    arguments = ["export", str(tmp_path / "runs"), "--metrics", "github-benchmark", "-o", str(output)]
    done = CliRunner().invoke(commands, arguments)
    assert done.exit_code == 0, done.output
    found = {entry["name"]: entry for entry in json.loads(output.read_text())}
    assert found["copies: Host-to-Device"] == {
        "name": "copies: Host-to-Device",
        "unit": "count",
        "value": 3,
        "range": "± 0",
        "extra": f"median of 2 runs\nmin 3\nmax 3\nnsyswrap {version()}",
    }
    error = refused(*arguments[1:])
    assert (error.exit_code, f"{output} already exists" in error.message) == (73, True)


def test_a_part_of_a_capture(cli: Cli) -> None:
    whole, part = (
        cli("export", BOTH, "--metrics", "openmetrics", *more).stdout
        for more in ((), ("--nvtx", "add2 both cuda"))
    )
    kernels = [
        sum(s.value for family in parse(text) if family.name == "nsyswrap_kernels" for s in family.samples)
        for text in (whole, part)
    ]
    assert kernels[0] == 44
    assert 0 < kernels[1] < 44


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((BOTH, "-o", "x"), "--output is for --metrics"),
        ((BOTH, BOTH, "--parquet", "x"), "--parquet takes one capture, 2 given"),
        ((BOTH, BOTH, "--parquet", "x", "--metrics", "openmetrics"), "--parquet takes one capture, 2 given"),
        ((BOTH, "--perfetto", "-", "--metrics", "openmetrics"), "cannot both go to stdout"),
        ((BOTH, "--metrics", "prometheus"), "expected openmetrics, github-benchmark"),
        (("a.json", "--metrics", "openmetrics", "--time", "1s/"), "no part of a baseline can be selected"),
        ((BOTH, BOTH.parent / "second", "--metrics", "openmetrics"), "runs of different programs"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str | Path, ...], words: str) -> None:
    error = refused(*arguments)
    assert words in error.message
    assert error.exit_code == 2
