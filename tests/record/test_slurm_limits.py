"""Batches that one job array cannot hold, and runs that their time limit ends, on a real Slurm cluster."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_folders import rows_of
from slurm_cluster import BATCH, Cluster, has_database, running_cluster
from slurm_database import PACKAGES
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RunFolder
from nsyswrap.record.batch.executors.slurm.script import FOLDER
from nsyswrap.record.batch.folder import open_batch

pytestmark = pytest.mark.usefixtures("nsys")

# Its file holds when it began and ended, in seconds of one clock.
PROGRAM = """
import sys, time
from pathlib import Path
began = time.monotonic()
time.sleep(0.3)
Path(__file__).with_name(sys.argv[1]).write_text(f"{began} {time.monotonic()}")
"""
WAITS = "import time; time.sleep(600)"
GOES_ON_LATER = """
import time
from pathlib import Path
while not Path(__file__).with_name("go on").exists():
    time.sleep(0.1)
"""
PLAN = """
[slurm]
time = 2
[node]
setup = ["export TIMES=two", 'echo "set up in $PWD"']
wrapper = ["nice", "-n", "5"]
[[runs]]
command = ["{python}", "-c", "{program}"]
[[runs]]
command = ["{python}", "-c", "{program}"]
launcher = "srun"
ntasks = 2
"""
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"began-{os.environ['SLURM_PROCID']}", "w").close()
time.sleep(600)
"""
KILLED_RANKS = """
[nsys]
trace = "nvtx"
stats = false
[[runs]]
command = "eats.py"
launcher = "srun"
ntasks = 2
slurm = { mem = 250, acctg-freq = 1 }
[[runs]]
command = "deaf.py"
launcher = "srun"
ntasks = 2
"""
_EXCEEDED = r"[Ee]xceeded (job )?memory limit"  # slurmstepd says both, in any order
EATS = "a = bytearray(300_000_000); import time; time.sleep(200)"
LOST = """
slurm = { no-requeue = true, time = 1 }
node = { setup = ["trap '' TERM", "test $SLURMD_NODENAME != n2 || {python} -c '{program}'", "sleep 200"] }
[[runs]]
command = "true 1"
slurm = { nodelist = "n1" }
[[runs]]
command = "true 2"
slurm = { nodelist = "n3", exclusive = true }
[[runs]]
command = "true 3"
slurm = { nodelist = "n2", mem = 100, acctg-freq = 1 }
"""
# Memory is only looked at for a job that asks for it.
MEMORY = {
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerCPU": "100",
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobAcctGatherFrequency": "0",
    "JobAcctGatherParams": "OverMemoryKill",
}


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Iterator[Cluster]:
    limits = {"MaxArraySize": "4", "MaxJobCount": "12", "MinJobAge": "2", "KillWait": "5"}
    preemption = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    with running_cluster(environment, accounting=True, **limits, **MEMORY, **preemption) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def limited(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Runs that take longer than they may, by a limit that leaves nsys a minute.

    Slurm looks twice a minute. The other tests go on meanwhile; the one of these runs comes last.
    """
    folder = tmp_path_factory.mktemp("limited")
    (folder / "plan.toml").write_text(PLAN.replace("{python}", sys.executable).replace("{program}", WAITS))
    batch = [*BATCH, "run", "plan.toml", "-o", "out", "--executor", "slurm"]
    with subprocess.Popen(batch, cwd=folder, env=cluster.environment) as process:
        yield folder / "out", process
        process.kill()


@pytest.fixture(scope="module", autouse=True)
def forgotten(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs without an outcome: one reaches its time limit, one node fails, one run takes too much memory."""
    folder = tmp_path_factory.mktemp("forgotten")
    if not has_database():
        return folder
    (folder / "plan.toml").write_text(LOST.replace("{python}", sys.executable).replace("{program}", EATS))
    done = cluster.batch(folder, "run", "plan.toml", "-o", "out", "--executor", "slurm", "--no-wait")
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.split()
    wait_until(lambda: len(list((folder / "out/slurm").glob("*.log"))) == 3)
    cluster.run("scontrol", "update", f"jobid={first}", "EndTime=now+1")
    cluster.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
    wait_until(lambda: {second, third}.isdisjoint(job.partition("_")[0] for job in cluster.jobs()))
    return folder


def sweep(
    cluster: Cluster, folder: Path, *options: str, runs: int = 5, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    numbers = ",".join(map(str, range(1, runs + 1)))
    begin = ["sweep", "-o", "out", "--no-stats", "--executor", "slurm", "-p", f"n={numbers}"]
    return cluster.batch(folder, *begin, *options, "--", str(folder / "program.py"), "{n}", **variables)


def jobs_of(batch: Path) -> list[tuple[str, int]]:
    rows = json.loads((batch / FOLDER / "jobs.json").read_text())["jobs"]
    return [(row["job"], row["offset"]) for row in rows]


def arrays(batch: Path) -> list[tuple[int, str]]:
    rows = json.loads((batch / FOLDER / "jobs.json").read_text())["jobs"]
    return [(row["offset"], row["tasks"]) for row in rows]


def test_what_the_queue_cannot_hold_is_left_and_taken_up_by_wait(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path, "--no-wait", runs=7)
    # Indexes up to 3; and in the queue at most half of what it holds: six.
    assert arrays(tmp_path / "out") == [(0, "1-3"), (4, "0-2")]
    assert done.returncode == 69, done.stderr
    assert "no job yet for 1 run: Slurm's queue has room for 6 runs" in done.stderr
    assert "no job yet for 1 run;" in cluster.batch(tmp_path, "status", "out").stdout
    waited = cluster.batch(tmp_path, "wait", "out")
    assert waited.returncode == 0, waited.stderr
    assert arrays(tmp_path / "out")[2:] == [(4, "3")]
    assert {state.state for state in open_batch(tmp_path / "out").survey().values()} == {"done"}
    assert sorted(path.name for path in tmp_path.glob("[0-9]")) == [*"1234567"]


def test_runs_are_left_with_a_job_that_collects(cluster: Cluster, tmp_path: Path) -> None:
    """No more run at a time than asked for, also without a process that submits."""
    done = sweep(cluster, tmp_path, "--max-running", "2", "--collect-after")
    assert done.returncode == 0, done.stderr
    *ids, collects = done.stdout.split()
    assert f"submitted jobs {', '.join(ids)}; job {collects} collects" in done.stderr
    again = sweep(cluster, tmp_path, "--max-running", "2", "--no-wait")
    assert re.search(r"nsyswrap: jobs? [\d, ]+ (was|were) submitted before\n", again.stderr), again.stderr
    assert set(again.stdout.split()) <= set(ids)
    assert arrays(tmp_path / "out") == [(0, "1-3"), (4, "0-1")]
    log = tmp_path / f"out/slurm/collect-{collects}.log"
    wait_until(lambda: log.exists() and "wrote " in log.read_text())
    assert len(rows_of(tmp_path / "out/results.csv")) == 5
    times = [[float(time) for time in (tmp_path / f"{n}").read_text().split()] for n in range(1, 6)]
    at_once = [sum(began <= start < ended for began, ended in times) for start, _ in times]
    assert max(at_once) <= 2


def test_written_scripts_are_submitted_by_hand(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path, "--write-only", runs=1)
    assert done.stdout == "bash out/slurm/submit.sh\n"
    status = cluster.batch(tmp_path, "status", "out").stdout
    assert status.splitlines()[1] == "  `bash out/slurm/submit.sh` submits the runs"
    (tmp_path / "program.py").write_text(GOES_ON_LATER)  # a job that has ended is not in the queue
    command = ["bash", str(tmp_path / "out/slurm/submit.sh")]
    [job] = cluster.run(*command).split()
    waits = [*BATCH, "wait", "out"]
    messages = tmp_path / "messages"
    with (
        messages.open("w") as stderr,
        subprocess.Popen(waits, cwd=tmp_path, env=cluster.environment, stderr=stderr) as process,
    ):
        wait_until(lambda: f"job {job}" in messages.read_text() or process.poll() is not None)
        (tmp_path / "go on").touch()
        assert process.wait(PATIENCE_S) == 0, messages.read_text()
    assert f"job {job}" in messages.read_text()


def test_ranks_that_slurm_kills(cluster: Cluster, tmp_path: Path) -> None:
    """One takes too much memory. Two ignore a cancellation for longer than the KillWait of this cluster."""
    (tmp_path / "deaf.py").write_text(DEAF)
    (tmp_path / "eats.py").write_text(f"import os\nif os.environ['SLURM_PROCID'] == '1': {EATS}")
    (tmp_path / "plan.toml").write_text(KILLED_RANKS)
    batch = [*BATCH, "run", "plan.toml", "-o", "out", "--executor", "slurm"]
    with subprocess.Popen(batch, cwd=tmp_path, env=cluster.environment) as process:
        wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2)
        wait_until(lambda: list((tmp_path / "out/runs").glob("*-eats/status.json")))
        assert cluster.batch(tmp_path, "cancel", "out").returncode == 0
        assert process.wait(PATIENCE_S) == 1
    eats, deaf = (state.status for state in open_batch(tmp_path / "out").survey().values())
    assert eats is not None
    assert deaf is not None
    assert (eats.outcome, eats.hint) == ("nsys_failed", "request more with mem in [slurm]")
    assert re.search(_EXCEEDED, eats.message)
    assert deaf.outcome == "interrupted"
    # Slurm kills its step and its supervisor, in any order.
    killed = "stopped by SIGTERM, and killed before its report was complete"
    assert deaf.message in ("stopped by SIGTERM", killed)
    rows = rows_of(tmp_path / "out/results.csv")
    assert [row["outcome"] for row in rows] == ["nsys_failed"] * 2 + ["interrupted"] * 2


def test_a_preemption_is_named(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("open('began', 'w').close(); import time; time.sleep(600)")
    options = ("--executor", "slurm", "--slurm", "nodelist=n3", "--slurm", "exclusive", "--no-wait")
    done = cluster.batch(tmp_path, "sweep", "-o", "out", "--no-stats", *options, "--", "waits.py")
    assert done.returncode == 0, done.stderr
    wait_until((tmp_path / "began").exists)
    [job] = done.stdout.split()
    urgent = ("--partition=urgent", "--exclusive", "--output=/dev/null", "--wrap=true")
    cluster.run("sbatch", *urgent)
    wait_until(lambda: not any(one.startswith(job) for one in cluster.jobs()))
    [state] = open_batch(tmp_path / "out").survey().values()
    assert state.state == "interrupted"
    assert (
        "interrupted: preempted by Slurm; stopped by SIGTERM"
        in cluster.batch(tmp_path, "status", "out").stdout
    )


def test_a_run_that_never_began_is_lost_with_what_its_log_says(cluster: Cluster, tmp_path: Path) -> None:
    setup = "[node]\nsetup = ['echo no such module >&2; kill -9 $$']\n"
    (tmp_path / "plan.toml").write_text(f"{setup}[[runs]]\ncommand = ['{sys.executable}', '-V']\n")
    done = cluster.batch(tmp_path, "run", "plan.toml", "-o", "out", "--executor", "slurm")
    assert done.returncode == 1
    assert re.search(
        r"lost: job \d+_1 ended \(FAILED.*end of its log: no such module \(1 of 1\)", done.stderr
    )
    [row] = rows_of(tmp_path / "out/results.csv")
    assert row["outcome"] == "lost"
    assert row["message"].endswith("end of its log: no such module")
    [state] = open_batch(tmp_path / "out").survey().values()
    assert state.claim is None
    said = cluster.batch(tmp_path, "status", "out").stdout
    assert "1 lost" in said
    assert "end of its log: no such module" in said


def test_without_slurm_it_is_said(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path, PATH=str(tmp_path))
    assert done.returncode == 69
    assert "not found on PATH" in done.stderr
    assert "--executor local" in done.stderr


def test_a_folder_that_slurm_cannot_log_to_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    done = sweep(cluster, tmp_path, "-o", "back\\slash")
    assert done.returncode == 73
    assert "to a path with a backslash" in done.stderr
    assert not (tmp_path / "back\\slash" / FOLDER).exists()


@pytest.mark.skipif(not has_database(), reason=f"needs accounting of Slurm (Debian: {PACKAGES})")
def test_accounting_alone_knows_how_jobs_ended(cluster: Cluster, forgotten: Path) -> None:
    cluster.run("scontrol", "update", "nodename=n3", "state=resume", check=False)
    [first, second, third] = [job for job, _ in jobs_of(forgotten / "out")]
    # Without -j a cluster's first job may be hidden.
    asked = ("sacct", "-nXP", "-o", "State", "-j", f"{first},{second},{third}")
    # A killed job is OUT_OF_MEMORY with cgroups; then, too, the log says it.
    wait_until(lambda: sorted(cluster.run(*asked).split()) == ["FAILED", "NODE_FAIL", "TIMEOUT"])
    kept = [("scontrol", "-o", "show", "job", job) for job in (first, second, third)]
    wait_until(lambda: not any(cluster.run(*asked, check=False) for asked in kept))  # slurmctld forgets them
    waited = cluster.batch(forgotten, "wait", "out")
    assert waited.returncode == 1
    assert f"lost: job {first}_1 ended (TIMEOUT)" in waited.stderr
    assert re.search(rf"lost: job {second}_2 ended \(NODE_FAIL\)", waited.stderr)
    memory = rf"end of its log: [^\n]*{_EXCEEDED}[^\n]*; request more with mem in \[slurm\]"
    assert re.search(rf"nsys failed: job {third}_3 ran out of memory \(FAILED\); {memory}", waited.stderr)
    assert "nsyswrap batch run` starts 2 more runs; --retry-failed repeats 1 failed run" in waited.stderr


def test_the_time_limit_is_reached(limited: tuple[Path, subprocess.Popen[bytes]]) -> None:
    folder, process = limited
    assert process.wait(PATIENCE_S) == 1
    run, with_ranks = (state.folder for state in open_batch(folder).survey().values())
    own = [run, *(with_ranks / f"rank-{rank}" for rank in range(2))]
    statuses = [RunFolder(path).read_status() for path in (*own, with_ranks)]
    assert [(status.outcome, status.exit_code) for status in statuses] == [("timed_out", 75)] * 4
    assert {status.message for status in statuses} == {"stopped before Slurm's time limit"}
    assert [check_export(path / EXPORT) for path in own] == [""] * 3
    entered = f"set up in {folder.parent}\n"
    assert all(log.read_text().startswith(entered) for log in (folder / FOLDER).glob("*.log"))
    assert "exec nice -n 5 " in (folder / FOLDER / "job-1.sh").read_text()
