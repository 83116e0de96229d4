"""Files of a terabyte, in which nothing stands, in place of each file that nsyswrap reads."""

import os
from pathlib import Path

from conftest import Cli
from sampled import sampled

from fuzz.file_template import ENVIRONMENT, PROJECT, lay
from fuzz.files import Subject, subjects
from nsyswrap.base.errors import CaptureError, OutputError, PlanError, UsageError

TERABYTE = 1 << 40
CODES = {0, *(error.exit_code for error in (CaptureError, OutputError, PlanError, UsageError))}
# Others are left out without a word, or made again, where they are damaged in any way.
NAMED = {"plan", "rules", "settings", "status", "batch", "index"}
LISTS = ("runs list", "runs prune")  # of batches they say only that one is damaged


def name_of(subject: Subject) -> str:
    return f"{subject.file.name}: {' '.join(subject.argv[:2])}"


@sampled("subject", {name_of(one): one for one in subjects()}.values(), fast=6, ids=name_of)
def test_a_terabyte(tmp_path: Path, cli: Cli, subject: Subject) -> None:
    lay(tmp_path)
    places = {name: str(tmp_path / place) for name, place in ENVIRONMENT.items()}
    os.truncate(tmp_path / subject.file, TERABYTE)
    done = cli(*subject.argv, **places)
    (tmp_path / subject.file).unlink()  # not read for the report of a test that fails
    assert "Traceback" not in done.stderr
    assert done.returncode in CODES
    said = " ".join((done.stdout + done.stderr).split())
    is_listed = " ".join(subject.argv[:2]) in LISTS and subject.kind != "index"
    if subject.kind in NAMED and not is_listed:
        assert subject.file.name in said
        assert "larger than" in said


def test_a_project_of_another_tool(tmp_path: Path, cli: Cli) -> None:
    lay(tmp_path)
    os.truncate(tmp_path / PROJECT, TERABYTE)
    done = cli("report", "tiny.sqlite", XDG_CONFIG_HOME=str(tmp_path))
    assert done.returncode == 0
    said = " ".join(done.stderr.split())
    assert f"{PROJECT} cannot be read, so [tool.nsyswrap] is ignored: larger than 4 MiB" in said
