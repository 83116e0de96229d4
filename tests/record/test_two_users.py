"""Two Unix users and one batch, here and on Slurm: its owner runs it, and a colleague of the group reads it.

Slurm starts jobs for users with an entry in passwd only; daemon and bin stand for the two.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from batch_folders import rows_of
from conftest import ROOT
from ran import ran
from slurm_cluster import Cluster, running_cluster
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.files import LOCK
from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT

pytestmark = [
    pytest.mark.usefixtures("nsys"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (util-linux)"),
]

OWNER, COLLEAGUE, GROUP = 1, 2, 100
PLAN = """
share = "group"
[nsys]
trace = "osrt"
stats = false
[[runs]]
command = ["sh", "-c", "sleep 0.1; exit {n}"]
grid = { n = [0, 3] }
[[runs]]
command = ["sh", "-c", "echo > began; sleep 600"]
"""
COUNTS = "1 done, 1 program failed, 1 running"
STOPPED = "1 done, 1 program failed, 1 interrupted"


@dataclass
class Users:
    """The folder of the owner, which the group may read, and that of the colleague."""

    folder: Path
    own: Path
    environment: dict[str, str]

    def command(self, user: int, *words: str) -> list[str]:
        """Return the command line of ``nsyswrap batch WORDS`` as a user."""
        home = self.own if user == COLLEAGUE else self.folder
        rights = ["setpriv", f"--reuid={user}", f"--regid={GROUP}", "--clear-groups"]
        return [*rights, "env", f"HOME={home}", _python(), "-m", "nsyswrap", *words]

    def run(self, user: int, *words: str) -> subprocess.CompletedProcess[str]:
        done = ran(self.command(user, *words), cwd=self.folder, env=self.environment, timeout=PATIENCE_S)
        assert "Traceback" not in done.stderr
        return done

    def ask(self, *words: str) -> tuple[int, str]:
        """Return the exit code of the colleague's command, and what it says. It changes nothing."""
        before = self.contents()
        done = self.run(COLLEAGUE, *words)
        assert before.items() <= self.contents().items()
        return done.returncode, done.stdout + done.stderr

    def contents(self) -> dict[str, bytes]:
        """Return what every file holds that changes no more: of runs that are complete and not locked."""
        runs = [run for run in (self.folder / "out/runs").iterdir() if (run / "digest.json").exists()]
        ended = [run for run in runs if not (run / LOCK).exists()]
        paths = [self.folder / "out/batch.json", *(path for run in ended for path in run.rglob("*"))]
        return {str(path): path.read_bytes() for path in paths if path.is_file()}


def _python() -> str:
    """Return a Python that other users can run: that of the tests may lie in the home of root."""
    return sys.executable if _runs(sys.executable) else "/usr/bin/python3"


def _runs(python: str, **variables: str) -> bool:
    version = f"import sys, numpy; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    rights = ["setpriv", f"--reuid={COLLEAGUE}", f"--regid={GROUP}", "--clear-groups", "env"]
    done = subprocess.run(
        [*rights, python, "-c", version],
        env={**os.environ, **variables},
        cwd="/",
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.fixture
def users(environment: dict[str, str], tmp_path: Path) -> Users:
    packages = os.pathsep.join([str(ROOT), *(path for path in sys.path if path.endswith("-packages"))])
    if not _runs(_python(), PYTHONPATH=packages):
        pytest.skip("needs a Python that other users may run")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    users = Users(tmp_path / "project", tmp_path / "own", {**environment, "PYTHONPATH": packages})
    users.environment["TMPDIR"] = str(tmp_path / "temporary")
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary").chmod(0o1777)
    del users.environment["XDG_CACHE_HOME"]
    for folder, user in ((users.folder, OWNER), (users.own, COLLEAGUE)):
        folder.mkdir()
        os.chown(folder, user, GROUP)
        folder.chmod(0o750)
    (users.folder / "plan.toml").write_text(PLAN)
    return users


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Iterator[Cluster]:
    with running_cluster(environment) as cluster:
        cluster.folder.chmod(0o755)
        (cluster.folder / "temporary").chmod(0o1777)
        yield cluster


def what_the_colleague_reads(users: Users) -> None:
    """A batch at work: its states, and a table of one's own."""
    wait_until(lambda: COUNTS in users.ask("batch", "status", "out")[1])
    code, text = users.ask("collect", "out")
    assert (code, text) == (
        73,
        "nsyswrap: cannot write into out: Permission denied\n  use another --output\n",
    )
    code, text = users.ask("collect", "out", "-o", str(users.own / "table"))
    assert code == 0, text
    rows = rows_of(users.own / "table/results.csv")
    assert [row["outcome"] for row in rows[:2]] == ["done", "program_failed"]
    assert not (users.folder / "out/results.csv").exists()


def what_the_colleague_may_not(users: Users, *options: str) -> None:
    """Runs of the owner are not repeated, and no batch is continued in his folder."""
    code, text = users.ask("batch", "run", "plan.toml", "-o", "out", "--retry-failed", *options)
    assert (code, text) == (
        73,
        "nsyswrap: cannot write out: Operation not permitted\n  use another --output\n",
    )


def test_a_batch_here(users: Users) -> None:
    owner = users.command(OWNER, "batch", "run", "plan.toml", "-o", "out")
    with subprocess.Popen(
        owner, cwd=users.folder, env=users.environment, stderr=subprocess.DEVNULL
    ) as process:
        wait_until((users.folder / "began").exists)
        what_the_colleague_reads(users)
        what_the_colleague_may_not(users)
        code, text = users.ask("batch", "cancel", "out")
        assert code == 73
        assert "is that of another user\n  ask its owner to end it" in text
        assert process.poll() is None
        assert users.run(OWNER, "batch", "cancel", "out").returncode == 0
        process.wait(PATIENCE_S)
    assert STOPPED in users.ask("batch", "status", "out")[1]
    assert "no run of out is running or waiting" in users.ask("batch", "cancel", "out")[1]
    code, text = users.ask("batch", "wait", "out")
    assert code == 73
    assert "cannot write out/lock: Permission denied\n  out belongs to another user: ask its owner" in text


def test_a_batch_on_slurm(users: Users, cluster: Cluster) -> None:
    of_slurm: Mapping[str, str] = cluster.environment
    users.environment |= {name: of_slurm[name] for name in of_slurm.keys() - users.environment.keys()}
    options = ("--executor", "slurm", "--no-wait")
    done = users.run(OWNER, "batch", "run", "plan.toml", "-o", "out", *options)
    assert done.returncode == 0, done.stderr
    wait_until((users.folder / "began").exists)
    what_the_colleague_reads(users)
    assert "in Slurm's queue as job" in users.ask("batch", "status", "out")[1]
    what_the_colleague_may_not(users, *options)
    code, text = users.ask("batch", "cancel", "out")
    assert code == 69
    assert "scancel failed" in text
    assert "ask the owner of the jobs to cancel them" in text
    assert len(cluster.jobs()) == 1
    assert users.run(OWNER, "batch", "cancel", "out").returncode == 0
    wait_until(lambda: not cluster.jobs())
    assert STOPPED in users.ask("batch", "status", "out")[1]
    [stopped] = (users.folder / "out/runs").glob("*-sh")
    assert check_export(stopped / EXPORT) == ""
    code, text = users.ask("batch", "cancel", "out")
    assert code == 73
    assert "no run of the batch is in Slurm's queue; cannot write out/slurm/cancelled" in text
