"""`nsyswrap profile` with the real nsys: values of the environment that the program puts into range names."""

import json
import sys
import uuid
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap import open_capture
from nsyswrap.base.run_folder import DIGEST, EXPORT, PROGRAM_OUTPUT, REPORT, RUN, STATS
from nsyswrap.capture.redact import check, redact

pytestmark = [pytest.mark.nsys, pytest.mark.usefixtures("nsys")]
PROGRAM = """
import os
import nvtx

token, poet = os.environ["VOGON_TOKEN"], os.environ["POET"]
for i in range(3):
    with nvtx.annotate(f"login {token}"), nvtx.annotate(f"{poet} {i}"):
        pass
with nvtx.annotate("login redacted"), nvtx.annotate(f"mode {os.environ['MODE']}"):
    pass
"""
RANGES = {"login redacted (2)": 3, "redacted 0": 1, "redacted 1": 1, "redacted 2": 1, "login redacted": 1}
RANGES |= {"mode fast": 1}


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    return {"VOGON_TOKEN": uuid.uuid4().hex, "POET": f"Paula {uuid.uuid4().hex}", "MODE": "fast"}


def holding(folder: Path, secrets: dict[str, str]) -> set[str]:
    """Return the names of the files with a secret in them."""
    values = [secrets[name].encode() for name in ("VOGON_TOKEN", "POET")]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name for path in files if any(value in path.read_bytes() for value in values)}


def ranges(path: Path) -> dict[str, int]:
    """Return the names of all ranges and how often each was there."""
    rows = open_capture(path).report("nvtx_sum")
    names, counts = ([column.name for column in rows.columns].index(name) for name in ("range", "instances"))
    return {str(cells[names]).removeprefix(":"): int(str(cells[counts])) for cells in rows.rows()}


@pytest.mark.parametrize("given", ["inherited", "--env"])
def test_only_the_nsys_rep_holds_it(tmp_path: Path, cli: Cli, secrets: dict[str, str], given: str) -> None:
    options = [word for name, value in secrets.items() for word in ("--env", f"{name}={value}")]
    variables = secrets if given == "inherited" else {}
    command = [sys.executable, "program.py", "--key", secrets["VOGON_TOKEN"]]
    done = cli("profile", *([] if variables else options), "-o", "run", *command, **variables)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    assert holding(run, secrets) == {REPORT}
    assert ranges(run) == RANGES
    assert "shown without values of environment variables: 4 names of ranges" in done.stderr
    assert not any(secrets[name] in done.stdout + done.stderr for name in ("VOGON_TOKEN", "POET"))
    assert json.loads((run / RUN).read_text())["command"][-1] == "redacted"
    assert (run / STATS).exists()
    assert check(run / EXPORT).values_known


def test_with_the_environment_kept_redact_finds_it(tmp_path: Path, cli: Cli, secrets: dict[str, str]) -> None:
    command = ("profile", "--keep-environment", "--discard-rep", "-o", "run", sys.executable, "program.py")
    done = cli(*command, **secrets)
    assert done.returncode == 0, done.stderr
    assert "shown without" not in done.stderr
    assert EXPORT in holding(tmp_path / "run", secrets)
    redact(tmp_path / "run" / EXPORT, tmp_path / "copy.sqlite")
    assert ranges(tmp_path / "copy.sqlite") == RANGES
    assert check(tmp_path / "copy.sqlite").values_known


def test_a_run_of_a_batch_has_a_digest_without_it(tmp_path: Path, cli: Cli, secrets: dict[str, str]) -> None:
    command = ("batch", "sweep", "-o", "batch", "--no-stats", "--", sys.executable, "program.py")
    done = cli(*command, **secrets)
    assert done.returncode == 0, done.stderr
    [run] = (tmp_path / "batch" / "runs").iterdir()
    assert (run / DIGEST).exists()
    assert (run / PROGRAM_OUTPUT).exists()
    assert holding(tmp_path / "batch", secrets) == {REPORT}


def test_an_export_in_the_cache_lacks_it(
    tmp_path: Path, cli: Cli, secrets: dict[str, str], environment: dict[str, str]
) -> None:
    done = cli("profile", "--no-stats", "-o", "run", sys.executable, "program.py", **secrets)
    assert done.returncode == 0, done.stderr
    (tmp_path / "run" / REPORT).rename(tmp_path / "alone.nsys-rep")
    cache = tmp_path / "cache"
    shown = cli("report", "alone.nsys-rep", "-r", "nvtx_sum", "--format", "csv", XDG_CACHE_HOME=str(cache))
    assert shown.returncode == 0, shown.stderr
    assert "login redacted (2)" in shown.stdout
    assert holding(cache, secrets) == set()
    assert len(list(cache.rglob("*.sqlite"))) == 1
    assert environment["XDG_CACHE_HOME"] != str(cache)
