"""`nsyswrap profile` with the real nsys: who can read what a run leaves, and whose capture it is."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Cli
from endurance import Endured, broken_promises, readable_by_others
from ran import ran
from timed import timed_out

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import CONDITIONS, EXPORT, FILES, PROGRAM_OUTPUT, REPORT, RUN, RunFolder
from nsyswrap.capture import redact

pytestmark = [pytest.mark.nsys, pytest.mark.usefixtures("nsys")]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine can enter; the tests' own cannot be."""
    with tempfile.TemporaryDirectory(prefix="nsyswrap-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def modes(folder: Path) -> dict[str, str]:
    """The permissions of a folder and of all in it."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return {str(path.relative_to(folder)): f"{path.stat().st_mode & 0o777:o}" for path in paths}


# Once as we are, which imports all that is needed; then as a user who is nobody to us but for a group.
AS_ANOTHER = """
import os, sys
from nsyswrap.cli import cli

group, batch, scratch = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for place in ("ours", "theirs"):
    for words in (["batch", "status", batch], ["collect", batch, "-o", f"{scratch}/{place}"]):
        try:
            cli.main(words, standalone_mode=False)
        except SystemExit as end:
            print("exit", end.code)
        except Exception as error:
            print(type(error).__name__, error)
    print("---", flush=True)
    if place == "ours":
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(65534, 65534, 65534)
for name in ("report.sqlite", "report.nsys-rep"):
    run = next(os.scandir(f"{batch}/runs")).path
    print(name, os.access(f"{run}/{name}", os.R_OK))
"""


root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


def test_a_run_is_private_from_its_first_byte(tmp_path: Path, environment: dict[str, str]) -> None:
    run = Endured(tmp_path / "one", environment)
    seen: set[Path] = set()
    with run.start("--no-stats") as process:
        while process.poll() is None:
            for folder, _, names in os.walk(run.folder):
                for path in (Path(folder, name) for name in names):
                    try:
                        assert not readable_by_others(path, run.folder), path
                        seen.add(path)
                    except FileNotFoundError:
                        continue
    assert {path.name for path in seen} >= {RUN, EXPORT, REPORT}
    sampled = {CONDITIONS: "600"} if (run.run / CONDITIONS).exists() else {}  # with a GPU
    assert modes(run.run) == {
        **sampled,
        ".": "700",
        "nsys.log": "600",
        "report.nsys-rep": "600",
        "report.sqlite": "600",
        "run.json": "600",
        "status.json": "600",
    }
    assert broken_promises(run, 4) == []
    assert list((run.folder / "tmp").iterdir()) == []


WORLD = """
import json, os, resource, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
world = {name: status[name].split() for name in ("Umask", "SigBlk", "NoNewPrivs", "Cpus_allowed_list")}
world["ignored signals"] = int(status["SigIgn"], 16) & 0x7FFFFFFF
world |= {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")}
world |= {"cwd": os.getcwd(), "nice": os.nice(0), "arguments": sys.argv, "environment": dict(os.environ)}
with open(sys.argv[1], "w") as file:
    json.dump(world, file)
"""
OF_NSYS = (
    *("NSYS", "QUADD_", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD", "CUPTI_"),
    *("TRACE_START_IMMEDIATELY", "USE_AGENT_API", "__GL_CONSTANT_FRAME_RATE_HINT"),
)


@pytest.mark.parametrize("umask", [0o002])
def test_the_program_finds_the_world_of_its_caller(
    tmp_path: Path, environment: dict[str, str], umask: int
) -> None:
    (tmp_path / "world.py").write_text(WORLD)
    (tmp_path / "tmp").mkdir()
    found = []
    ours = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run"]
    for name, command in (("bare", []), ("profiled", ours)):
        subprocess.run(
            [*command, sys.executable, "world.py", f"{name}.json"],
            cwd=tmp_path,
            env={**environment, "TMPDIR": str(tmp_path / "tmp")},
            umask=umask,
            preexec_fn=lambda: signal.signal(signal.SIGQUIT, signal.SIG_IGN),
            check=True,
            capture_output=True,
        )
        world = json.loads((tmp_path / f"{name}.json").read_text())
        assert (tmp_path / f"{name}.json").stat().st_mode & 0o777 == 0o666 & ~umask
        world["arguments"].remove(f"{name}.json")
        world["environment"] = {
            key: value for key, value in world["environment"].items() if not key.startswith(OF_NSYS)
        }
        found.append(world)
    assert found[0] == found[1]


def test_output_that_is_kept_is_private_too(tmp_path: Path, cli: Cli) -> None:
    done = cli("batch", "sweep", "-o", "batch", "--no-stats", "--", "sh", "-c", "echo out")
    assert done.returncode == 0, done.stderr
    batch = tmp_path / "batch"
    [run] = (batch / "runs").iterdir()
    assert {modes(folder)["."] for folder in (batch, batch / "runs", run)} == {"700"}
    assert (run / PROGRAM_OUTPUT).read_text() == "out\n"
    assert set(modes(run).values()) == {"700", "600"}


@root_only
def test_a_shared_batch_is_read_by_the_group_and_nobody_else(
    open_folder: Path, environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "nsyswrap", "batch", "sweep", "-o", "batch", "--share", "group"]
    subprocess.run(
        [*command, "--no-stats", "--", "sh", "-c", "echo out"],
        cwd=open_folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    batch, group = open_folder / "batch", 54321
    [run] = (batch / "runs").iterdir()
    shown = modes(run)
    assert (shown.pop("."), shown.pop(REPORT)) == ("750", "600")  # the report holds the environment
    assert set(shown.values()) == {"640"}
    assert {modes(folder)["."] for folder in (batch, batch / "runs")} == {"750"}
    for path in (batch, *batch.rglob("*")):
        os.chown(path, os.getuid(), group)
    for theirs in (group, group + 1):
        scratch = open_folder / f"scratch-{theirs}"
        scratch.mkdir()
        scratch.chmod(0o777)
        done = ran(
            [sys.executable, "-c", AS_ANOTHER, str(theirs), str(batch), str(scratch)],
            env={**environment, "TMPDIR": str(scratch)},
        )
        ours, of_them, access = done.stdout.split("---\n")
        assert "1 done" in ours, done.stderr
        if theirs == group:
            assert of_them == ours.replace("/ours", "/theirs")
            assert access == "report.sqlite True\nreport.nsys-rep False\n"
        else:
            assert "done" not in of_them


@pytest.mark.parametrize("discard", [True, False])
def test_no_secret_is_left(tmp_path: Path, environment: dict[str, str], *, discard: bool) -> None:
    """Neither of the program's environment, nor of a process beside it that has one odd variable alone."""
    run = Endured(tmp_path / "one", environment)
    odd = subprocess.Popen(["sleep", "60"], env={"odd name!": run.secret, "NÄME": run.secret})
    alone = subprocess.Popen(["sleep", "60"], env={"another odd one?": run.secret})
    with run.start(*(["--discard-rep"] if discard else [])) as process:
        assert process.wait() == 4
    for other in (odd, alone):
        other.kill()
        other.wait()
    assert [path.name for path in run.holding_secret()] == ([] if discard else [REPORT])
    assert (run.run / REPORT).exists() is not discard
    assert redact.secrets_in(run.run / EXPORT)[0].kind != "environment"


def test_a_capture_that_the_program_writes_is_not_taken_for_ours(tmp_path: Path, cli: Cli) -> None:
    writes = "for f in report.sqlite report.nsys-rep status.json nsys.log; do echo mine >run/$f; done"
    done = cli("profile", "--no-stats", "-o", "run", "sh", "-c", writes)
    assert done.returncode == 0
    assert "the program wrote its own report.sqlite into the run folder; renamed to" in done.stderr
    run = tmp_path / "run"
    assert check_export(run / EXPORT) == ""
    for name in ("report.sqlite", "report.nsys-rep", "status.json", "nsys.log"):
        assert (run / f"{name}.from-program").read_text() == "mine\n"
    assert RunFolder(run).read_status().outcome == "done"


def test_without_an_export_of_its_own_a_run_has_none(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "--delay", "99", "-o", "run", "sh", "-c", "echo x >run/report.sqlite")
    assert done.returncode == 70
    assert not (tmp_path / "run" / EXPORT).exists()
    shown = cli("report", "run")
    assert (shown.returncode, shown.stdout) == (65, "")
    assert "nsys failed" in shown.stderr


def test_of_four_runs_by_force_one_gets_the_folder(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "--force", "-o", "run", "true"]
    started = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**environment, "TMPDIR": str(tmp_path / "tmp")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [process.communicate()[1] for process in started]
    codes = sorted(process.returncode for process in started)
    assert codes.count(0) >= 1
    assert set(codes) <= {0, 73}
    refused = [text for text in said if "is in use by another run" in text]
    assert len(refused) == codes.count(73) >= 1
    assert list((tmp_path / "tmp").iterdir()) == []
    assert {path.name for path in (tmp_path / "run").iterdir()} <= set(FILES)
    assert check_export(tmp_path / "run" / EXPORT) == ""


def test_a_run_folder_that_the_program_removes_is_made_again(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "-o", "run", "sh", "-c", "rm -rf run; exit 3")
    assert done.returncode == 3, done.stderr
    status = RunFolder(tmp_path / "run").read_status()
    assert (status.outcome, check_export(tmp_path / "run" / EXPORT)) == ("program_failed", "")
    assert json.loads((tmp_path / "run" / RUN).read_text())["command"][0] == "sh"
    assert set(modes(tmp_path / "run").values()) == {"700", "600"}


def test_a_run_folder_that_the_program_replaces_gets_the_report(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "-o", "run", "sh", "-c", "rm -rf run; mkdir run; echo x >run/mine")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "mine").read_text() == "x\n"
    assert check_export(tmp_path / "run" / EXPORT) == ""


def test_a_file_in_the_place_of_the_run_folder(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "tmp").mkdir()
    command = ("profile", "--no-stats", "-o", "run", "sh", "-c", "rm -rf run; echo x >run")
    done = cli(*command, TMPDIR=str(tmp_path / "tmp"))
    assert done.returncode == 73
    assert f"cannot write {tmp_path / 'run'}: File exists" in done.stderr
    recording = Path(done.stderr.partition("recording kept in ")[2].split()[0].strip(",;"))
    assert recording.is_file()
    assert recording.parent.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "run").read_text() == "x\n"


def test_while_it_is_recorded_a_run_says_so(tmp_path: Path, environment: dict[str, str], cli: Cli) -> None:
    command = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "sh", "-c"]
    with subprocess.Popen(
        [*command, "touch began; while [ -e began ]; do sleep 0.1; done"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not (tmp_path / "began").exists():
            time.sleep(0.05)
        shown = cli("report", "run")
        assert (shown.returncode, shown.stdout) == (65, "")
        assert "this run has not ended yet" in shown.stderr
        (tmp_path / "began").unlink()
        assert process.wait() == 0


def test_a_program_that_empties_tmpdir(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "tmp").mkdir()
    command = ("profile", "--no-stats", "-o", "run", "sh", "-c", "rm -rf $TMPDIR/*")
    done = cli(*command, TMPDIR=str(tmp_path / "tmp"))
    assert done.returncode == 70
    assert "its temporary folder was deleted while the program ran" in done.stderr
    assert RunFolder(tmp_path / "run").read_status().outcome == "nsys_failed"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_program_that_clears_its_environment_meets_the_time_limit(cli: Cli) -> None:
    done, _ = timed_out(cli, "--no-stats", "-o", "run", "env", "-i", "setsid", "sleep", "1000")
    assert done.returncode == 75


@pytest.mark.parametrize("force", [True, False])
def test_a_lock_of_somebody_else_is_left_alone(tmp_path: Path, cli: Cli, *, force: bool) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").write_text("mine")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "lock").symlink_to("../run/lock")
    for folder in ("run", "link"):
        done = cli("profile", *(["--force"] if force else []), "-o", folder, "echo", "this never runs")
        assert (done.returncode, done.stdout) == (73, "")
        assert (tmp_path / folder / "lock").read_text() == "mine"


def test_force_replaces_a_run_and_no_other_capture(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "run" / ".recording-mine").mkdir(parents=True)
    (tmp_path / "run" / EXPORT).write_text("mine")
    done = cli("profile", "--force", "-o", "run", "echo", "this never runs")
    assert (done.returncode, done.stdout) == (73, "")
    assert f"contains {EXPORT} but is not a run folder" in done.stderr
    assert {path.name for path in (tmp_path / "run").iterdir()} == {".recording-mine", EXPORT}


@pytest.mark.parametrize("umask", [0o777])
def test_an_umask_that_forbids_everything(tmp_path: Path, environment: dict[str, str], umask: int) -> None:
    command = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "sh", "-c", "umask"]
    done = ran(command, cwd=tmp_path, env=environment, umask=umask)
    assert (done.returncode, done.stdout.split()[0]) == (0, f"{umask:04o}")
    assert set(modes(tmp_path / "run").values()) == {"700", "600"}


def test_a_tmpdir_relative_to_the_current_folder(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "tmp").mkdir()
    done = cli("profile", "--no-stats", "-o", "run", "sh", "-c", "echo $TMPDIR", TMPDIR="tmp")
    assert (done.returncode, done.stdout.split()[0]) == (0, "tmp")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_whose_name_is_no_text_holds_no_secret(tmp_path: Path, environment: dict[str, str]) -> None:
    run = Endured(tmp_path / "one", environment)
    run.run = run.folder / os.fsdecode(b"run\xff")
    with run.start("--discard-rep") as process:
        assert process.wait() == 4
    assert list(run.holding_secret()) == []
    assert (run.run / EXPORT).exists()
    assert RunFolder(run.run).read_status().outcome == "program_failed"


def test_a_run_inside_another_says_so(tmp_path: Path, cli: Cli) -> None:
    inner = ("-m", "nsyswrap", "profile", "--no-stats", "-o", "inner", "touch", "ran")
    cli("profile", "--no-stats", "-o", "outer", sys.executable, *inner)
    expected = "done" if (tmp_path / "ran").exists() else "nsys_failed"
    assert RunFolder(tmp_path / "inner").read_status().outcome == expected


def test_values_of_variables_handed_to_nsys_are_not_written_down(tmp_path: Path, cli: Cli) -> None:
    argument = "--env-var=TOKEN=hunter2,B=hunter2"
    done = cli("profile", "--no-stats", "--nsys-arg", argument, "--discard-rep", "-o", "run", "true")
    assert done.returncode == 0, done.stderr
    assert [path for path in (tmp_path / "run").iterdir() if b"hunter2" in path.read_bytes()] == []
    assert "--env-var=TOKEN,B" in (tmp_path / "run" / RUN).read_text()
