"""A throw-away Slurm cluster on loopback: real daemons, three nodes, two GPUs each that are none.

Everything lies in one folder, without systemd, a database or cgroups, and as whatever user runs the tests.
Several can be up at once.
"""

import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import slurm_database
from waiting import PATIENCE_S, wait_until

NODES = ("n1", "n2", "n3")
MARK = "NSYSWRAP_TEST_CLUSTER"  # in the environment of every daemon and, through sbatch, of every job
BATCH = (sys.executable, "-m", "nsyswrap", "batch")
_COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
_SBIN = os.pathsep.join(filter(None, (os.environ.get("PATH"), "/usr/sbin:/sbin")))
# Tests that are killed leave no daemon: the kernel ends it.
_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
_DEVICES = ("/dev/null", "/dev/zero")  # a GPU of Slurm's is a file that exists, each a different one
_PORTS = range(20_000, 32_000)  # below those that the system hands out itself
_CONFIG = {
    "ClusterName": "throwaway",
    "SlurmctldHost": "localhost(127.0.0.1)",
    "AuthType": "auth/munge",
    "CredType": "cred/munge",
    "MpiDefault": "none",
    "SwitchType": "switch/none",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "AccountingStorageType": "accounting_storage/none",
    "SlurmdParameters": "config_overrides",  # a node may claim CPUs that the machine lacks
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "sched_interval=1,bf_interval=1,sched_min_interval=100000,purge_job_interval=1",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "ReturnToService": "2",
    "InactiveLimit": "0",
    "KillWait": "30",  # Slurm's own default: what a cancelled run has to write its report
    # By default a step that lives a minute after its SIGKILL, as on a busy machine, drains its node for good.
    "UnkillableStepTimeout": "600",
    "MinJobAge": "300",
    "JobRequeue": "1",
    "PropagateResourceLimits": "NONE",
    "GresTypes": "gpu",
}


@dataclass
class Cluster:
    """A running cluster. ``environment`` is what its commands and their jobs need."""

    folder: Path
    environment: dict[str, str]
    _daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, *command: str, check: bool = True) -> str:
        """Run one of Slurm's commands; return what it prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self) -> list[str]:
        """Return a line for every job in the queue, each task of an array a line: id, state, reason."""
        return self.run("squeue", "-h", "-r", "-o", "%i %T %r").splitlines()

    def batch(self, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``nsyswrap batch WORDS`` in a folder; keywords are environment variables."""
        return subprocess.run(
            [*BATCH, *words],
            cwd=folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def start(self, *command: str) -> None:
        """Start a daemon in the foreground, as a child that can be waited for and ends with its parent."""
        name = f"{Path(command[0]).name}{len(self._daemons)}.log"
        with (self.folder / name).open("wb") as log:
            daemon = subprocess.Popen(
                [*_WITH_PARENT, shutil.which(command[0], path=_SBIN) or command[0], *command[1:]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append(daemon)

    def stop(self) -> None:
        """End the daemons, then whatever is left of the jobs."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        while left := self.processes():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def processes(self) -> list[int]:
        """Return every living process of this cluster, its jobs and what they started included."""
        mark = f"{MARK}={self.folder}".encode()
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if mark in _environment(path)]

    def wait_for(self, state: str) -> None:
        """Wait until all nodes are in ``state``."""
        deadline = time.monotonic() + PATIENCE_S
        asked = ("sinfo", "-h", "-N", "-p", "debug", "-o", "%T")
        while self.run(*asked, check=False).split() != [state] * len(NODES):
            assert time.monotonic() < deadline, self.state()
            time.sleep(0.1)

    def state(self) -> str:
        """Return what holds a job back: the queue, the nodes and why one is drained, the ends of all logs."""
        queue = self.run("squeue", "-r", "-o", "%i %j %T %N %r", check=False)
        nodes = self.run("sinfo", "-N", "-p", "debug", "-o", "%N %T %E", check=False)
        logs = [f"{log.name}:\n{log.read_text()[-1000:]}" for log in sorted(self.folder.glob("*.log"))]
        return "\n".join((queue, nodes, *logs))


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # gone, or somebody else's
        return b""


def _free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on."""
    ports: list[int] = []
    with ExitStack() as stack:  # held until all are found: no port twice
        while len(ports) < number:
            port = random.choice(_PORTS)  # noqa: S311 - no secret
            listener = stack.enter_context(socket.socket())
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
    return ports


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _write_config(folder: Path, changes: Mapping[str, str]) -> int:
    """Write slurm.conf, gres.conf and cgroup.conf; return the port of slurmctld."""
    port, *node_ports = _free_ports(1 + len(NODES))
    user = getpass.getuser()
    facts = {
        **_CONFIG,
        "SlurmctldPort": str(port),
        "SlurmUser": user,
        "SlurmdUser": user,
        # Without cred_expire a requeued job waits two minutes.
        "AuthInfo": f"socket={folder}/munge.sock,cred_expire=5",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool.%n",
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/slurmd.%n.pid",
        **changes,
    }
    host = socket.gethostname().partition(".")[0]
    nodes = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=2 RealMemory=1024"
        f" Gres=gpu:{len(_DEVICES)} State=UNKNOWN"
        for name, node_port in zip(NODES, node_ports, strict=True)
    ]
    partitions = [
        f"PartitionName=debug Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP",
        f"PartitionName=short Nodes={','.join(NODES)} MaxTime=5 MaxNodes=1 State=UP",
        f"PartitionName=urgent Nodes={NODES[-1]} PriorityTier=9 State=UP",
    ]
    lines = [*(f"{name}={value}" for name, value in facts.items()), *nodes, *partitions]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    gpus = [f"NodeName={name} Name=gpu File={device}\n" for name in NODES for device in _DEVICES]
    (folder / "gres.conf").write_text("".join(gpus))
    # Nothing here needs cgroups; looking for what kind there is fails where none is mounted.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
    return port


@contextmanager
def running_cluster(
    base_environment: Mapping[str, str], *, accounting: bool = False, **changes: str
) -> Iterator[Cluster]:
    """Run a cluster for the length of a ``with`` block. ``changes`` are lines of its slurm.conf.

    With ``accounting`` a database keeps its jobs, if the packages are there: ``has_database`` tells.
    """
    missing = [name for name in _COMMANDS if not shutil.which(name, path=_SBIN)]
    if missing:
        pytest.skip(f"needs Slurm: no {', '.join(missing)} (Debian: slurmctld slurmd slurm-client munge)")
    accounting = accounting and has_database()
    folder = Path(tempfile.mkdtemp(prefix="slurm.", dir="/tmp"))  # a socket's path is short
    own = {"SLURM_CONF": f"{folder}/slurm.conf", "TMPDIR": f"{folder}/temporary", MARK: str(folder)}
    cluster = Cluster(folder, {**base_environment, **own})
    try:
        for name in ("state", "temporary"):
            (folder / name).mkdir()
        [dbd_port] = _free_ports(1) if accounting else [0]
        facts = {**slurm_database.accounting(folder, dbd_port), **changes} if accounting else changes
        _start_daemons(cluster, _write_config(folder, facts), dbd_port)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)


def has_database() -> bool:
    """Return True if what the accounting of a cluster needs is installed."""
    return all(shutil.which(name, path=_SBIN) for name in slurm_database.COMMANDS)


def _start_daemons(cluster: Cluster, port: int, dbd_port: int) -> None:
    folder = cluster.folder
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    files = [f"--{name}={folder}/munged.{name}" for name in ("pid-file", "log-file", "seed-file")]
    # Its socket lies in a folder that others can write above: --force.
    cluster.start(
        "munged",
        "--foreground",
        "--force",
        f"--key-file={folder}/key",
        f"--socket={folder}/munge.sock",
        *files,
    )
    wait_until((folder / "munge.sock").exists)
    if dbd_port:
        slurm_database.start(cluster, dbd_port, getpass.getuser())
    cluster.start("slurmctld", "-D", "-c")
    wait_until(lambda: _listens(port))  # a slurmd that finds nobody tries again after a second
    for name in NODES:
        (folder / f"spool.{name}").mkdir()
        cluster.start("slurmd", "-D", "-N", name)
    cluster.wait_for("idle")
