"""Batches on a real Slurm cluster of this machine: every run is a real `nsys profile`."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from batch_folders import batch_of, captured, planned, rows_of
from slurm_cluster import BATCH, Cluster
from tiny_export import kernel, write
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import DIGEST, EXPORT
from nsyswrap.record.batch.executors.slurm.script import FOLDER
from nsyswrap.record.batch.folder import RunState, open_batch, read_claim

pytestmark = pytest.mark.usefixtures("nsys")

ODD = "a b'c\"d\ne%j*[x]$HOME`id`"  # what a folder can be called
# Says that it runs, waits until it may end, says that it has.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import nvtx
here, number = Path(__file__).parent, sys.argv[1]
def say(what):
    with (here / what).open("a") as file:
        file.write(number + "\\n")
def end_slowly(*_):
    time.sleep(0.6)
    sys.exit(1)
signal.signal(signal.SIGTERM, end_slowly)
with nvtx.annotate("all of it"):
    say("began")
    while not (here / "go").exists():
        time.sleep(0.02)
    time.sleep(0.1)
say("ended")
sys.exit(3 if number == os.environ.get("FAILS") else 0)
"""


EMPTY = """
max_running = 1
stop_after_empty = 2
[nsys]
stats = false
[slurm]
gres = "gpu:1"
[[runs]]
command = "{program} {{n}}"
grid = {{ n = [1, 2, 3, 4, 5, 6] }}
"""


@dataclass
class Work:
    """A program that waits for ``go()``, to be run many times on the cluster, and the batch of it."""

    folder: Path
    cluster: Cluster

    @property
    def output(self) -> Path:
        return self.folder / ODD

    def go(self) -> None:
        (self.folder / "go").touch()

    def said(self, what: str) -> list[str]:
        """Which runs said that they ``began`` or ``ended``, each as often as it did."""
        try:
            return sorted((self.folder / what).read_text().split())
        except FileNotFoundError:
            return []

    def words(self, numbers: str, *options: str) -> list[str]:
        # Slurm's GPUs are none here: no kernels are asked for.
        begin = ["sweep", "--no-stats", "--trace", "nvtx", "--executor", "slurm"]
        begin += ["-p", f"n={numbers}", "-o", ODD]
        return [*begin, *options, "--", str(self.folder / "program.py"), "{n}"]

    def run(self, numbers: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.batch(self.folder, *self.words(numbers, *options), **variables)

    @contextmanager
    def running(self, numbers: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a batch; killed at the end of the block if it has not ended by itself."""
        command = [*BATCH, *self.words(numbers, *options)]
        process = subprocess.Popen(command, cwd=self.folder, env=self.cluster.environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def ask(self, word: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.batch(self.folder, word, ODD, *options)

    def states(self) -> dict[int, RunState]:
        return open_batch(self.output).survey()

    def outcomes(self) -> list[str]:
        return [state.state for state in self.states().values()]


def has_report(state: RunState) -> bool:
    return check_export(state.folder / EXPORT) == ""


@pytest.fixture
def work(tmp_path: Path, cluster: Cluster) -> Iterator[Work]:
    (tmp_path / "program.py").write_text(PROGRAM)
    yield Work(tmp_path, cluster)
    cluster.run("scancel", f"--user={os.getuid()}")
    wait_until(lambda: not cluster.jobs())  # no test leaves a job to the next


def test_four_runs_of_which_one_fails(work: Work) -> None:
    """Three at a time: each asks for all GPUs of a node."""
    work.go()
    done = work.run("1,2,3,4", "--slurm", "partition=debug", "--slurm", "gres=gpu:2", FAILS="3")
    assert done.returncode == 1, done.stderr
    states = work.states()
    assert [state.state for state in states.values()] == [*["done"] * 2, "program_failed", "done"]
    assert states[3].status is not None
    assert states[3].status.exit_code == 3
    assert all(map(has_report, states.values()))
    claims = [read_claim(state.folder) for state in states.values()]
    assert {claim.host for claim in claims if claim} == {"n1", "n2", "n3"}
    rows = (work.output / "results.csv").read_text().splitlines()
    assert len(rows) == 5
    assert sum("program_failed" in row for row in rows) == 1

    again = work.run("1,2,3,4", "--slurm", "partition=debug", "--retry-failed")
    assert again.returncode == 0, again.stderr
    assert work.said("ended") == ["1", "2", "3", "3", "4"]


def test_the_submitter_is_killed(work: Work, cluster: Cluster) -> None:
    """Between sbatch and its own notes: its jobs are found by their mark, and nothing runs twice."""
    with work.running("1,2,3,4", "--slurm", "cpus-per-task=2") as submitter:
        wait_until(lambda: len(work.said("began")) == 3)
        submitter.send_signal(signal.SIGKILL)
        submitter.wait()
    (work.output / FOLDER / "jobs.json").unlink()
    assert sorted(job.split()[1] for job in cluster.jobs()) == ["PENDING", *["RUNNING"] * 3]
    assert work.ask("status").stdout.splitlines()[0].endswith("4 runs: 3 running, 1 planned")
    with work.running("1,2,3,4,5", "--slurm", "cpus-per-task=2") as second:
        wait_until(lambda: len(cluster.jobs()) == 5)
        third = work.run("1,2")
        assert third.returncode == 73
        assert f"process {second.pid}" in third.stderr
        work.go()
        assert second.wait(PATIENCE_S) == 0
    assert work.said("began") == ["1", "2", "3", "4", "5"]
    assert work.outcomes() == ["done"] * 5


def test_what_waits_without_its_submitter_is_watched(work: Work, cluster: Cluster) -> None:
    work.go()
    with work.running("1", "--slurm", "hold") as submitter:
        wait_until(cluster.jobs)
        submitter.terminate()
        assert submitter.wait(PATIENCE_S) == 143
    assert not (work.output / "results.csv").exists()  # no run has ended
    assert re.search(r"1 planned\n  in Slurm's queue as job \d+: 1 waiting", work.ask("status").stdout)
    held = [line.split()[0] for line in cluster.jobs()]
    release = threading.Timer(2, cluster.run, ["scontrol", "release", *held])
    release.start()
    watched = work.ask("status", "--watch").stdout
    release.join()
    assert watched.splitlines()[-1].endswith("1 run: 1 done")


def test_many_runs_in_one_allocation(work: Work, cluster: Cluster) -> None:
    work.go()
    sweep = ["sweep", "--no-stats", "-p", "n=1,2,3", "--gpus", "0,1", "-o", ODD, "--", "program.py", "{n}"]
    command = shlex.join([*BATCH, *sweep])
    cluster.run(
        "sbatch",
        "--wait",
        f"--chdir={work.folder}",
        "--output=/dev/null",
        "--gpus=2",
        f"--wrap={command}",
        check=False,
    )
    assert work.outcomes() == ["done"] * 3
    jobs = {claim.job for state in work.states().values() if (claim := read_claim(state.folder))}
    assert len(jobs) == 1
    assert not (work.output / FOLDER).exists()


def test_the_first_runs_without_gpu_work_end_the_batch(work: Work, cluster: Cluster) -> None:
    work.go()
    (work.folder / "plan.toml").write_text(EMPTY.format(program=work.folder / "program.py"))
    done = cluster.batch(work.folder, "run", "plan.toml", "-o", ODD, "--executor", "slurm")
    assert done.returncode == 69, done.stderr
    assert "nsyswrap: the first 2 runs recorded no GPU work\n" in done.stderr
    assert work.outcomes()[-1] == "planned"
    assert not cluster.jobs()


def test_jobs_are_told_of_and_cancelled_where_slurm_or_the_disk_fails(work: Work, cluster: Cluster) -> None:
    with work.running("1,2", "--slurm", "hold") as submitter:
        wait_until(cluster.jobs)
        submitter.terminate()
        assert submitter.wait(PATIENCE_S) == 143
    unasked = cluster.batch(work.folder, "status", ODD, PATH="/nowhere").stdout
    assert unasked.splitlines()[1:] == [
        "  Slurm was not asked (squeue not found on PATH): planned runs may have jobs in its queue"
    ]
    (work.output / FOLDER / "cancelled").mkdir()  # so that the file of this name cannot be written
    refused = work.ask("cancel")
    assert refused.returncode == 73
    assert re.match("nsyswrap: the jobs of 2 runs were cancelled, but ", refused.stderr)
    wait_until(lambda: not cluster.jobs())


def test_a_batch_is_cancelled(work: Work) -> None:
    with work.running("1,2,3", "--max-running", "2") as batch:
        wait_until(lambda: len(work.said("began")) == 2)
        assert "ending the runs of" in work.ask("cancel").stderr
        assert batch.wait(PATIENCE_S) == 1
    told = sorted(row["outcome"] for row in rows_of(work.output / "results.csv"))
    assert told == [*["interrupted"] * 2, "planned"]
    assert work.outcomes().count("interrupted") == 2
    states = work.states()
    ended = [state for state in states.values() if state.state == "interrupted"]
    assert [has_report(state) for state in ended] == [True] * 2
    assert work.outcomes().count("planned") == 1
    assert work.said("ended") == []
    work.go()
    assert work.run("1,2,3").returncode == 0
    assert work.said("ended") == ["1", "2", "3"]


def test_a_node_goes_down(work: Work, cluster: Cluster) -> None:
    with work.running("1") as batch:
        wait_until(lambda: work.said("began"))
        [state] = work.states().values()
        assert state.claim is not None
        host = state.claim.host
        cluster.run("scontrol", "update", f"nodename={host}", "state=down", "reason=test")
        # There the first copy may still be ending: Slurm drains a node that is to run a job twice.
        wait_until(lambda: any("PENDING" in job for job in cluster.jobs()))
        [job] = (line.split()[0] for line in cluster.jobs())
        cluster.run("scontrol", "update", f"jobid={job}", f"excnodelist={host}")
        work.go()
        code = batch.wait(PATIENCE_S)
        cluster.wait_for("idle")
    assert code == 0
    [state] = work.states().values()
    assert state.state == "done"
    claim = read_claim(state.folder)
    assert claim is not None
    assert claim.restarts == 1
    assert work.said("began") == ["1", "1"]


REFUSED = """
[slurm]
partition = "debug"
[[runs]]
command = "true {gpus}"
grid = { gpus = [1, 3] }
slurm = { gres = "gpu:{gpus}" }
[[runs]]
command = "true"
launcher = "srun"
ntasks = 99
slurm = { partiton = "debug", time = "bogus" }
"""


def test_all_options_are_tried_before_anything_is_written(work: Work, cluster: Cluster) -> None:
    plan = work.folder / "plan.toml"
    plan.write_text(REFUSED)
    command = ("run", "plan.toml", "--executor", "slurm", "-o", "out")
    done = cluster.batch(work.folder, *command)
    assert done.returncode == 69
    impossible = "Requested node configuration is not available"
    assert done.stderr.splitlines() == [
        "nsyswrap: Slurm refuses these options; nothing was submitted:",
        f'  [runs.slurm] gres = "gpu:3": {impossible} (run gpus=3)',
        "  [runs.slurm] partiton = \"debug\": unrecognized option '--partiton=debug' (run true)",
        '  [runs.slurm] time = "bogus": Invalid --time specification (run true)',
        f"  [[runs]] ntasks = 99: {impossible} (run true)",
        "  change them, and use the same command",
    ]
    assert not (work.folder / "out").exists()


def test_nodes_that_are_drained_refuse_nothing(work: Work, cluster: Cluster) -> None:
    """sbatch --test-only then calls any options impossible."""
    nodes = "nodename=n1,n2,n3"
    cluster.run("scontrol", "update", nodes, "state=drain", "reason=test")
    try:
        done = work.run("1", "--no-wait")
        assert done.returncode == 0, done.stderr
        assert len(cluster.jobs()) == 1
    finally:
        cluster.run("scontrol", "update", nodes, "state=resume")


NO_TRIAL = """#!/bin/sh
case "$*" in *--test-only*) echo "sbatch: unrecognized option '--test-only'" >&2; exit 1; esac
exec {sbatch} "$@"
"""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["gres=gpu:3"], "refused the jobs: .*Requested node configuration is not available"),
        (["cpus-per-task=99"], r"can never start: .*\(PartitionConfig\)"),
        (["partition=short", "nodes=2"], r"can never start: .*\(PartitionNodeLimit\)"),
    ],
)
def test_what_cannot_be_had_is_said(work: Work, cluster: Cluster, settings: list[str], words: str) -> None:
    """Also where sbatch cannot try options."""
    (work.folder / "sbatch").write_text(NO_TRIAL.format(sbatch=shutil.which("sbatch")))
    (work.folder / "sbatch").chmod(0o755)
    path = f"{work.folder}{os.pathsep}{os.environ['PATH']}"
    done = work.run("1,2", *(word for setting in settings for word in ("--slurm", setting)), PATH=path)
    assert done.returncode == 69, done.stderr
    assert re.search(words, done.stderr)
    assert work.outcomes() == ["planned"] * 2
    assert cluster.jobs() == []


def test_a_task_is_killed(work: Work) -> None:
    with work.running("1,2") as batch:
        wait_until(lambda: len(work.said("began")) == 2)
        victim = work.states()[1].claim
        assert victim is not None
        os.kill(victim.pid, signal.SIGKILL)
        work.go()
        assert batch.wait(PATIENCE_S) == 1
    lost, _ = rows_of(work.output / "results.csv")
    assert lost["outcome"] == "lost"
    assert re.match(r"job \d+_1 ended", lost["message"])
    assert work.outcomes() == ["lost", "done"]
    assert "lost: job" in work.ask("status").stdout
    assert work.run("1,2").returncode == 0
    assert work.outcomes() == ["done", "done"]
    assert work.said("began") == ["1", "1", "2"]


def collecting(folder: Path, cluster: Cluster, *words: str) -> subprocess.Popen[bytes]:
    """Begin to collect; what it says is in the file ``said``."""
    command = [sys.executable, "-m", "nsyswrap", "collect", "b", "loose", "-o", "out", *words]
    with (folder / "said").open("w") as said:
        return subprocess.Popen(
            command, cwd=folder, env=cluster.environment, stdout=subprocess.DEVNULL, stderr=said
        )


def test_collect_reads_captures_in_a_job_array(tmp_path: Path, cluster: Cluster) -> None:
    """Its tables are those of a machine that reads them itself."""
    for number in (1, 2):
        captured(planned(tmp_path / "b", number, {"n": number}), 10 * number)
    batch_of(tmp_path / "b")
    (tmp_path / "loose").mkdir()
    for rank in range(2):
        write(tmp_path / f"loose/job.rank{rank}.sqlite", kernel("k", 0, 12 + rank))
    (tmp_path / "loose/bad.sqlite").write_text("no capture")
    said = tmp_path / "said"
    with collecting(tmp_path, cluster) as process:
        process.wait(PATIENCE_S)
    assert said.read_text()
    tables = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.csv")}
    assert len(tables) == 3
    for path in (tmp_path / "loose").iterdir():
        path.touch()  # on a busy machine these had settled, and the user's cache has their digests
    with collecting(tmp_path, cluster, "--executor", "slurm", "--slurm", "hold") as process:
        job = tmp_path / "out/.digests/job"
        wait_until(lambda: job.exists() and cluster.jobs())
        first = job.read_text()
        wait_until(lambda: f"job {first} reads 5 captures" in said.read_text())
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    assert f"job {first} continues; the same command waits for it, and collects" in said.read_text()
    cluster.run("scontrol", "release", first)
    with collecting(tmp_path, cluster, "--executor", "slurm", "--jobs", "3") as process:
        assert process.wait(PATIENCE_S) == 65, said.read_text()  # bad.sqlite
    assert "reads the ranks of 1 run" in said.read_text()
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.csv")} == tables
    assert len(list((tmp_path / "b").rglob(DIGEST))) == 2
    assert not job.exists()


def test_captures_that_no_job_has_read_are_named(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "loose").mkdir()
    captured(planned(tmp_path / "b", 1, {"n": 1}), 10)
    with collecting(tmp_path, cluster, "--executor", "slurm", "--slurm", "hold") as process:
        wait_until(lambda: len(cluster.jobs()) == 1)
        cluster.run("scancel", cluster.jobs()[0].partition("_")[0])
        assert process.wait(PATIENCE_S) == 69
    said = (tmp_path / "said").read_text()
    assert re.search(r"job \d+ ended without digests of 1 capture, such as b/runs/00001;", said)
    assert "without --executor this machine makes them" in said
    assert not (tmp_path / "out/results.csv").exists()
