"""Accounting for a throw-away Slurm cluster: slurmdbd over a MariaDB that only listens on a socket file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from waiting import wait_until

if TYPE_CHECKING:
    from slurm_cluster import Cluster

COMMANDS = ("mariadbd", "slurmdbd", "sacct", "sacctmgr")
PACKAGES = "slurmdbd slurm-wlm-mysql-plugin mariadb-server-core"
_TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")


def accounting(folder: Path, port: int) -> dict[str, str]:
    """Return the lines of slurm.conf. ``port`` is that of slurmdbd."""
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(port),
        "AccountingStoragePass": f"{folder}/munge.sock",  # with munge the name of its socket
    }


def start(cluster: Cluster, port: int, user: str) -> None:
    """Start both daemons, and make the cluster known."""
    folder = cluster.folder
    (folder / "database").mkdir()
    daemon = shutil.which("mariadbd", path="/usr/sbin:/usr/bin") or "mariadbd"
    options = [
        *("--no-defaults", f"--datadir={folder}/database", f"--user={user}", "--skip-grant-tables"),
        *("--skip-networking", f"--socket={folder}/database.sock", f"--pid-file={folder}/database.pid"),
        *("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M", "--innodb-flush-method=nosync"),
        *("--innodb-flush-log-at-trx-commit=0", "--innodb-use-native-aio=0", "--aria-log-file-size=8M"),
    ]
    content = f"CREATE DATABASE mysql;\nUSE mysql;\n{_TABLES.read_text()}"
    made = [daemon, *options, "--bootstrap"]
    subprocess.run(made, input=content, text=True, capture_output=True, check=True)
    cluster.start(daemon, *options)
    wait_until((folder / "database.sock").exists)
    facts = {
        "DbdHost": "localhost",
        "DbdAddr": "127.0.0.1",
        "DbdPort": str(port),
        "SlurmUser": user,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge.sock",
        "PidFile": f"{folder}/slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": user,
        "StorageLoc": "slurm",
        "CommitDelay": "1",
    }
    path = folder / "slurmdbd.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))
    path.chmod(0o600)
    cluster.environment["MYSQL_UNIX_PORT"] = f"{folder}/database.sock"
    cluster.start("slurmdbd", "-D")
    wait_until(lambda: _answers(cluster))
    cluster.run("sacctmgr", "-i", "add", "cluster", "throwaway")


def _answers(cluster: Cluster) -> bool:
    done = subprocess.run(
        ["sacctmgr", "-n", "show", "cluster"], env=cluster.environment, capture_output=True, check=False
    )
    return done.returncode == 0
