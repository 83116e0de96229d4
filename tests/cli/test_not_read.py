"""What cannot be read is named with its reason, the rest is shown, and the exit code tells."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from compared_runs import make_repeats
from conftest import MAIN, Cli
from ran import ran
from rank_exports import FAST, run_folder, steps
from report_tables import read_csv
from table_folders import as_parquet
from tiny_export import call, kernel, nvtx, row, write
from waiting import PATIENCE_S

pytestmark = pytest.mark.slow

KERNELS = "cuda_gpu_kern_sum"
NO_NSYS = {"NSYSWRAP_NSYS": "/nowhere/nsys"}
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


def small(path: Path, ns: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    started = row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=5)
    launch = call("cudaLaunchKernel", 0, 5, 1)
    return write(path, started, nvtx("step", 0, 40), launch, kernel("k", 20, 20 + ns, 1))


def cut_off(path: Path) -> None:
    content = small(path).read_bytes()
    path.write_bytes(content[: len(content) // 2])


def recording(path: Path) -> None:
    path.with_suffix(".nsys-rep").write_bytes(b"what no nsys wrote")


# What is the matter with a capture -> how it is made, the reason, and the exit code without an nsys.
BAD: dict[str, tuple[Callable[[Path], object], str, int]] = {
    "needs nsys": (recording, "/nowhere/nsys", 69),
    "cut off": (cut_off, "bad.sqlite is cut off", 65),
    "empty": (lambda path: path.touch(), "bad.sqlite is not complete", 65),
    "no capture": (lambda path: path.write_text("hello"), "bad.sqlite is not a capture", 65),
    "broken link": (lambda path: path.symlink_to("nowhere"), "bad.sqlite ", 65),
}


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, int]:
    """A folder of two good captures and a bad one: the reason of that one, and the exit code."""
    make, reason, code = BAD[request.param]
    small(tmp_path / "in" / "good1.sqlite")
    small(tmp_path / "in" / "good2.sqlite", 20)
    make(tmp_path / "in" / "bad.sqlite")
    return reason, code


@pytest.mark.parametrize("form", ["csv", "tsv", "text", "markdown", "json", "parquet", "files"])
def test_a_report_of_the_others(cli: Cli, tmp_path: Path, bad: tuple[str, int], form: str) -> None:
    reason, code = bad
    words = ("--csv", "out") if form == "files" else ("--format", form, "-o", "out/x")
    done = cli("report", "in", "-r", KERNELS, *words, **NO_NSYS)
    assert done.returncode == code, done.stderr
    assert reason in done.stderr
    assert "in/bad." in done.stderr
    [file] = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    content = file.read_bytes()
    assert b"good1" in content
    assert b"good2" in content
    if form in ("text", "markdown", "json"):
        assert b"in/bad." in content
    if form == "json":
        document = json.loads(content)
        [lacking] = document["not_read"]
        assert list(document)[-1] == "not_read"
        assert (lacking["label"], lacking["exit_code"]) == ("bad", code)
        assert lacking["path"].startswith("in/bad.")
        assert reason in lacking["reason"]


def test_the_columns_do_not_depend_on_how_many_can_be_read(cli: Cli, tmp_path: Path) -> None:
    small(tmp_path / "in" / "good.sqlite")
    cut_off(tmp_path / "in" / "bad.sqlite")
    for words in (("-r", KERNELS), ("-r", "gpu_time", "--csv", "out"), ("-r", f"{KERNELS},osrt_sum")):
        done = cli("report", "in", *words, "--format", "json", **NO_NSYS)
        reports = json.loads(done.stdout)["reports"]
        assert {report["columns"][0]["name"] for report in reports} == {"capture"}
    [line] = read_csv(cli("report", "in", "-r", KERNELS, "--format", "csv").stdout)
    assert line["Capture"] == "good"


def test_the_screens_and_the_list_of_the_others(cli: Cli, bad: tuple[str, int]) -> None:
    reason, code = bad
    for words in ((), ("--list",), ("--by", "rank", "-r", "rank_skew")):
        done = cli("report", "in", *words, **NO_NSYS)
        assert done.returncode == code, done.stderr
        assert reason in done.stderr
        assert "good1" in done.stdout
        assert "good2" in done.stdout


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (("view", "in", "-o", "out"), "out"),
        (("plot", "in", "-o", "out", "--kind", "top-kernels", "--format", "svg"), "out/top-kernels.svg"),
        (("export", "in/good1.sqlite", "in/good2.sqlite", "{}", "--perfetto", "out"), "out"),
        (("export", "in/good1.sqlite", "in/good2.sqlite", "{}", "--flamegraph", "out"), "out"),
        (("export", "in", "--metrics", "openmetrics", "-o", "out"), "out"),
        (("export", "in", "--metrics", "openmetrics", "--device", "0", "-o", "out"), "out"),
        (("baseline", "save", "out.json", "in"), "out.json"),
        (("collect", "in", "-o", "out"), "out/results.csv"),
        (("compare", "in", "--anyway", "--", "in/../copy", "-o", "out"), "out"),
    ],
)
def test_what_other_commands_make_of_the_others(
    cli: Cli, tmp_path: Path, bad: tuple[str, int], command: tuple[str, ...], output: str
) -> None:
    reason, code = bad
    shutil.copytree(tmp_path / "in", tmp_path / "copy", symlinks=True)
    [name] = [path.name for path in (tmp_path / "in").iterdir() if path.name.startswith("bad")]
    words = [word.replace("{}", f"in/{name}") for word in command]
    done = cli(*words, **NO_NSYS)
    assert done.returncode == code, done.stderr
    assert reason in done.stderr
    assert (tmp_path / output).stat().st_size
    if command[0] in ("view", "compare"):
        assert name in (tmp_path / output).read_text(encoding="utf-8")


def test_secrets_of_the_others(cli: Cli, tmp_path: Path) -> None:
    small(tmp_path / "in" / "good.sqlite")
    cut_off(tmp_path / "in" / "bad.sqlite")
    done = cli("redact", "--check", "in")
    assert done.returncode == 65
    assert done.stdout == "in is a folder of captures: 1 export checked; other files not checked\n"
    assert "in/bad.sqlite is cut off" in done.stderr
    assert "in: not all exports can be checked" in done.stderr
    secret = row("TARGET_INFO_SYSTEM_ENV", name="Hostname", nameEnum=1, value="planted-host")
    write(tmp_path / "in" / "leaks.sqlite", kernel("k", 0, 5), secret)
    done = cli("redact", "--check", "in")
    assert done.returncode == 1
    assert "in/leaks.sqlite: user, host and paths" in done.stdout
    assert "in/bad.sqlite is cut off" in done.stderr


def test_ranks_without_the_one_that_cannot_be_read(cli: Cli, tmp_path: Path) -> None:
    for rank in range(3):
        run_folder(tmp_path / "job", rank, 3, *steps(FAST))
    (tmp_path / "job" / "rank-1" / "report.sqlite").rename(tmp_path / "job" / "rank-1" / "report.nsys-rep")
    done = cli("report", "job", "-r", "rank_waiting", "--format", "json", **NO_NSYS)
    assert done.returncode == 69
    assert "nsyswrap: rank 1: job/rank-1/report.nsys-rep: " in done.stderr
    [lacking] = json.loads(done.stdout)["not_read"]
    assert lacking["label"] == "rank 1"
    assert cli("view", "job", "-o", "job.html", **NO_NSYS).returncode == 69
    assert "rank-1/report.nsys-rep" in (tmp_path / "job.html").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "job" / "rank-2")
    done = cli("report", "job", "--by", "rank", **NO_NSYS)
    assert (done.returncode, done.stdout) == (69, "")


def test_equal_runs_without_the_one_that_cannot_be_read(cli: Cli, tmp_path: Path) -> None:
    make_repeats(tmp_path / "runs", (40, 50, 60))
    bad = tmp_path / "runs" / "run-2" / "report.sqlite"
    bad.write_bytes(bad.read_bytes()[:9000])
    done = cli("report", "runs")
    assert done.returncode == 65
    assert "2 runs" in done.stdout
    assert "runs/run-2/report.sqlite is cut off" in done.stderr


def test_several_reasons_are_65_and_one_of_nsys_alone_is_69(cli: Cli, tmp_path: Path) -> None:
    small(tmp_path / "in" / "good.sqlite")
    recording(tmp_path / "in" / "a")
    recording(tmp_path / "in" / "b")
    done = cli("report", "in", "-r", KERNELS, "--format", "csv", **NO_NSYS)
    assert done.returncode == 69
    lines = done.stderr.splitlines()
    assert all(f"in/{name}.nsys-rep: " in line for name, line in zip("ab", lines, strict=False))
    assert sum(line.startswith("  ") for line in lines) == 1  # what to do, said once
    cut_off(tmp_path / "in" / "c.sqlite")
    assert cli("report", "in", "-r", KERNELS, "--format", "csv", **NO_NSYS).returncode == 65


def test_without_one_that_can_be_read_each_is_named(cli: Cli, tmp_path: Path) -> None:
    recording(tmp_path / "a")
    done = cli("report", "a.nsys-rep", **NO_NSYS)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("nsyswrap: a.nsys-rep: ")
    recording(tmp_path / "b")
    for command in (("report",), ("view",), ("collect",), ("export", "--perfetto", "x")):
        done = cli(*command, "a.nsys-rep", "b.nsys-rep", **NO_NSYS)
        assert (done.returncode, done.stdout) == (69, "")
        assert "a.nsys-rep: " in done.stderr
        assert "b.nsys-rep: " in done.stderr


def test_a_folder_of_tables_without_pyarrow_is_one_of_them(cli: Cli, tmp_path: Path) -> None:
    good = small(tmp_path / "good.sqlite")
    small(tmp_path / "better.sqlite")
    as_parquet(good, tmp_path / "tables")
    (tmp_path / "hidden" / "pyarrow").mkdir(parents=True)
    (tmp_path / "hidden" / "pyarrow" / "__init__.py").write_text("raise ImportError('hidden')")
    path = os.pathsep.join([str(tmp_path / "hidden"), os.environ.get("PYTHONPATH", "")])
    done = cli(
        "report", "good.sqlite", "better.sqlite", "tables", "-r", KERNELS, "--format", "csv", PYTHONPATH=path
    )
    assert done.returncode == 69
    assert [line["Capture"] for line in read_csv(done.stdout)] == ["good", "better"]
    assert "tables: reading a " in done.stderr


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder with a good capture, one that may not be read, and a folder that may not be searched."""
    if WITHOUT_RIGHTS and not shutil.which("setpriv"):
        pytest.skip("needs setpriv (util-linux): root reads everything")
    small(tmp_path / "in" / "good.sqlite")
    small(tmp_path / "in" / "secret.sqlite").chmod(0)
    small(tmp_path / "in" / "locked" / "x.sqlite").parent.chmod(0)
    return tmp_path / "in"


@pytest.mark.parametrize(
    "command",
    [
        ("report", "in", "-r", KERNELS, "--format", "csv"),
        ("collect", "in", "-o", "out"),
        ("compare", "in", "in", "--anyway"),
        ("redact", "--check", "in"),
        ("view", "in", "-o", "out"),
    ],
)
@pytest.mark.usefixtures("closed")
def test_what_may_not_be_read_is_named(
    tmp_path: Path, environment: dict[str, str], command: tuple[str, ...]
) -> None:
    if command[0] == "compare":
        shutil.copytree(tmp_path / "in", tmp_path / "copy")
        command = ("compare", "in", "copy", "--anyway")
    done = ran(
        [*WITHOUT_RIGHTS, sys.executable, "-c", MAIN, *command],
        cwd=tmp_path,
        env=environment,
        timeout=PATIENCE_S,
    )
    (tmp_path / "in" / "locked").chmod(0o700)
    assert done.returncode == 65, done.stderr
    assert "Traceback" not in done.stderr
    assert "in/secret.sqlite cannot be read: Permission denied" in done.stderr
    assert "in/locked" in done.stderr
