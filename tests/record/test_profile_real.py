"""`nsyswrap profile` with the real nsys: what it records, where to, and whose the streams are."""

import json
import shlex
import shutil
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Cli
from gpus_here import NO_GPU

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import CONDITIONS, EXPORT, LOG, REPORT, RUN, STATS, STATUS

pytestmark = pytest.mark.usefixtures("nsys")
without_gpu = pytest.mark.skipif(not NO_GPU, reason="there is a GPU here")

PROGRAM = r"""
import sys, time
import nvtx

with nvtx.annotate("outer"), nvtx.annotate("inner"):
    time.sleep(0.01)
said = sys.stdin.buffer.read()
sys.stdout.buffer.write(bytes(range(256)) + said + "|".join(sys.argv[1:]).encode() + b"\n")
sys.stderr.write("a complaint\n")
sys.exit(3)
"""
ARGUMENTS = ("-o", "elsewhere", "--help", "--", "--force", "-r", "", "%p %h")  # the program's, all of them
SAID = b"to the program\n\xff"


@dataclass(frozen=True)
class Recorded:
    """One run, the values in its environment that nobody may find, and what the command printed."""

    folder: Path
    secrets: tuple[str, str]
    done: subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="module")
def recorded(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    base = tmp_path_factory.mktemp("recorded")
    (base / "program.py").write_text(PROGRAM)
    inherited, given = f"inherited-{uuid.uuid4().hex}", f"given-{uuid.uuid4().hex}"
    options = ["-o", "run", "--env", f"GIVEN_TOKEN={given}", "--", "program.py", *ARGUMENTS]
    done = subprocess.run(
        [sys.executable, "-m", "nsyswrap", "profile", *options],
        cwd=base,
        env={**environment, "INHERITED_TOKEN": inherited},
        input=SAID,
        capture_output=True,
        check=False,
    )
    return Recorded(base / "run", (inherited, given), done)


def read(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def ranges(export: Path) -> set[str]:
    """The names of the NVTX ranges in an export; nsys makes no table for what did not happen."""
    query = "SELECT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId"
    with closing(sqlite3.connect(export)) as db, suppress(sqlite3.OperationalError):
        return {name for (name,) in db.execute(f"{query} WHERE eventType IN (59, 60)")}
    return set()


def test_a_run_leaves_its_six_files(recorded: Recorded) -> None:
    names = {path.name for path in recorded.folder.iterdir()}
    assert names - {CONDITIONS} == {RUN, STATUS, LOG, STATS, REPORT, EXPORT}
    assert check_export(recorded.folder / EXPORT) == ""


def test_the_ranges_are_recorded(recorded: Recorded) -> None:
    assert {"outer", "inner"} <= ranges(recorded.folder / EXPORT)


def test_the_code_of_the_program_passes_through(recorded: Recorded) -> None:
    assert recorded.done.returncode == 3
    assert read(recorded.folder / STATUS) == {
        "outcome": "program_failed",
        "program_code": 3,
        "nsys_code": 3,
        "exit_code": 3,
        "message": "program ended with exit code 3",
        "hint": "",
    }


def test_stdout_is_what_the_program_wrote_and_then_the_summary(recorded: Recorded, cli: Cli) -> None:
    written = bytes(range(256)) + SAID + "|".join(ARGUMENTS).encode() + b"\n"
    assert recorded.done.stdout.startswith(written)
    summary = recorded.done.stdout.removeprefix(written).decode()
    shown = cli("report", recorded.folder).stdout
    assert shown.startswith("the program failed: program ended with exit code 3\n")
    summary = summary.replace(
        f"{sys.executable} -m nsyswrap", "nsyswrap"
    )  # commands are named as they were typed
    assert summary == shown.replace(f"{recorded.folder}", "run")
    assert " program.py -o elsewhere --help" in summary


def test_stderr_begins_with_what_the_program_wrote(recorded: Recorded) -> None:
    assert recorded.done.stderr.startswith(b"a complaint\n")


def test_what_nsys_says_is_in_its_log_alone(recorded: Recorded) -> None:
    log = (recorded.folder / LOG).read_text()
    assert "Generat" in log
    assert "\r" not in log
    assert "nvtx_sum" in (recorded.folder / STATS).read_text()
    assert "nvtx_sum" not in log
    for stream in (recorded.done.stdout, recorded.done.stderr):
        assert b"Generat" not in stream
        assert b"nvtx_sum" not in stream


@without_gpu
def test_no_gpu_work_is_said_with_its_cause(recorded: Recorded) -> None:
    said = " ".join(recorded.done.stdout.decode(errors="replace").split())
    assert f"No GPU work: this machine has no usable GPU: {NO_GPU}" in said


def test_of_the_environment_only_names_are_written_down(recorded: Recorded) -> None:
    run = read(recorded.folder / RUN)
    assert run["env_set"] == ["GIVEN_TOKEN"]
    assert run["command"] == [sys.executable, "program.py", *ARGUMENTS]
    for secret in recorded.secrets:
        for name in (RUN, STATUS, LOG, STATS, EXPORT):
            assert secret.encode() not in (recorded.folder / name).read_bytes(), name


def test_keep_environment_keeps_it(tmp_path: Path, cli: Cli) -> None:
    secret = f"inherited-{uuid.uuid4().hex}"
    options = ["--keep-environment", "--no-stats", "--discard-rep", "-o", "run"]
    assert cli("profile", *options, "true", INHERITED_TOKEN=secret).returncode == 0
    assert secret.encode() in (tmp_path / "run" / EXPORT).read_bytes()
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names - {CONDITIONS} == {RUN, STATUS, LOG, EXPORT}


def test_a_second_run_leaves_the_first_alone(recorded: Recorded, cli: Cli) -> None:
    before = {path.name: path.read_bytes() for path in recorded.folder.iterdir()}
    done = cli("profile", "-o", recorded.folder, "echo", "this never runs")
    assert done.returncode == 73
    assert done.stdout == ""
    assert "--force" in done.stderr
    assert {path.name: path.read_bytes() for path in recorded.folder.iterdir()} == before


def test_force_replaces_the_run_and_nothing_else(recorded: Recorded, tmp_path: Path, cli: Cli) -> None:
    shutil.copytree(recorded.folder, tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert cli("profile", "-o", "run", "--force", "--no-stats", "true").returncode == 0
    assert read(tmp_path / "run" / RUN)["command"] == ["true"]
    assert not (tmp_path / "run" / STATS).exists()
    assert ranges(tmp_path / "run" / EXPORT) == set()
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_a_module(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tool.py").write_text("import sys; print(__name__, sys.argv[1:])")
    done = cli("profile", "--no-stats", "-o", "run", "-m", "package.tool", "-m", "x")
    assert done.returncode == 0
    assert done.stdout.startswith("__main__ ['-m', 'x']\n")


@without_gpu
def test_reports_of_a_run_without_gpu_work(tmp_path: Path, cli: Cli) -> None:
    options = [
        "--no-stats",
        "-o",
        "run",
        "-r",
        "cuda_gpu_kern_sum",
        "-r",
        "launch_overhead",
        "--csv",
        "tables",
    ]
    done = cli("profile", *options, "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "no cuda_gpu_kern_sum: " in done.stderr
    assert "no launch_overhead: " in done.stderr
    assert "this machine has no usable GPU" in done.stderr
    assert not (tmp_path / "tables").exists()


def test_dry_run_prints_what_a_shell_can_run(tmp_path: Path, cli: Cli) -> None:
    script = tmp_path / "a script.py"
    script.write_text("import os, sys; print(os.environ['GREETING'], sys.argv[1:])")
    options = ["--dry-run", "--no-stats", "-o", "a run", "--env", "GREETING=good 'day'"]
    shown = cli("profile", *options, script, "x y", "$HOME")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert not (tmp_path / "a run").exists()

    done = subprocess.run(
        ["sh", "-c", shown.stdout], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "good 'day' ['x y', '$HOME']\n" in done.stdout
    assert check_export(tmp_path / "a run" / EXPORT) == ""


def test_a_program_without_standard_streams(tmp_path: Path, cli: Cli, environment: dict[str, str]) -> None:
    program = "import os; os.write(1, b'x'); os.write(2, b'x'); print(os.read(0, 1), file=open('seen', 'w'))"
    (tmp_path / "program.py").write_text(program)
    command = shlex.join(
        [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "program.py"]
    )
    subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "seen").read_text() == "b''\n"
    assert "Generat" in (tmp_path / "run" / LOG).read_text()
    assert cli("report", "run").returncode == 0


TERMINAL = "import pty, signal, sys; signal.signal(2, signal.SIG_DFL); sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
ASKS = """
import os, sys
print([os.isatty(number) for number in range(3)])
print("you are", input("name? "))
"""


@pytest.mark.parametrize(
    ("typed", "code", "seen"),
    [(b"Ada\n", 0, "you are Ada"), (b"\x03", 130, "KeyboardInterrupt")],
    ids=["answer", "ctrl-c"],
)
def test_on_a_terminal(
    tmp_path: Path, environment: dict[str, str], typed: bytes, code: int, seen: str
) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    options = ["--no-stats", "-o", "run", "asks.py"]
    with subprocess.Popen(
        [sys.executable, "-c", TERMINAL, sys.executable, "-m", "nsyswrap", "profile", *options],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shown = b""
        while not shown.endswith(b"name? "):
            shown += process.stdout.read(1)
        process.stdin.write(typed)
        process.stdin.flush()
        shown += process.stdout.read()
    assert process.returncode == code
    assert b"[True, True, True]\r\n" in shown  # a slow start says on the terminal what is done
    assert shown.decode().count(seen) == 1
    assert check_export(tmp_path / "run" / EXPORT) == ""
