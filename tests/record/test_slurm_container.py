"""A container whose image has nsys and not nsyswrap: a stand-in, made of a mount namespace and chroot.

Its root holds copies of a few programs, the system's Python without nsyswrap, and nsys in a folder of its
own. The host's Python with nsyswrap is bound into it, as by ``apptainer exec --bind``. Other than an image it
has the libraries of the host.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from batch_folders import rows_of
from ran import ran
from slurm_cluster import Cluster

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RUN

pytestmark = pytest.mark.usefixtures("nsys")

PYTHON = Path("/usr/bin/python3")  # the image's, not the one of the tests
PROGRAMS = ("sh", "env", "cat")  # no bash, stat or squeue
# Enters the root that its first argument names, with the mounts that stand in ROOT.mounts: source, target.
CONTAINER = """#!/bin/sh
exec unshare --mount --propagation private sh -c '
set -e
root=$1; shift
while read -r source target; do
    mkdir -p "$root$target"
    mount --rbind "$source" "$root$target"
done <"$root.mounts"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
while read -r folder; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done <"$root.shared"
PATH=$PATH:/usr/sbin
exec chroot "$root" env -u NSYSWRAP_NSYS -u PYTHONPATH PATH=/opt/nsys/bin:/usr/bin \\
    sh -c "cd \\"\\$0\\" && exec \\"\\$@\\"" "$PWD" "$@"
' container {root} "$@"
"""
PROGRAM = """
import json, sys, time
from pathlib import Path
time.sleep(0.1)
has_nsyswrap = True
try:
    import nsyswrap
except ImportError:
    has_nsyswrap = False
facts = {"prefix": sys.prefix, "has_nsyswrap": has_nsyswrap, "host": Path("/etc/passwd").exists()}
Path(sys.argv[1]).write_text(json.dumps(facts))
"""
PLAN = """
[nsys]
trace = "osrt"
stats = false
[node]
wrapper = ["{container}"]
python = "{python}"
[[runs]]
command = ["python3", "program.py", "{{n}}.json"]
grid = {{ n = [1, 2] }}
"""


def _can_mount() -> bool:
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def _outermost(folders: set[Path]) -> list[Path]:
    return sorted(one for one in folders if not any(other in one.parents for other in folders))


@pytest.fixture
def container(tmp_path: Path, nsys: str) -> Path:
    """Make the root of the stand-in; return the command that runs in it."""
    if not shutil.which("unshare") or not _can_mount():
        pytest.skip("needs a mount namespace: root, or CAP_SYS_ADMIN")
    if not PYTHON.exists():
        pytest.skip(f"needs a Python for the image: no {PYTHON}")
    root = tmp_path / "root"
    for name in ("tmp", "usr/bin", "opt/nsys"):
        (root / name).mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy(shutil.which(name) or name, root / "usr/bin")
    shutil.copy(PYTHON, root / "usr/bin")
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    home = Path(nsys).resolve().parents[1]
    image = [("/usr/lib", "/usr/lib"), ("/usr/lib64", "/usr/lib64"), (home, "/opt/nsys")]
    image += [(name, name) for name in ("/dev", "/proc", "/sys")]
    # The Python of a virtual environment is a link: its base has to be bound, too.
    python = {Path(sys.prefix), Path(sys.base_prefix), *filter(Path.is_dir, map(Path, sys.path))}
    shared = _outermost({*python, tmp_path / "work"})
    (tmp_path / "root.mounts").write_text("".join(f"{source} {target}\n" for source, target in image))
    (tmp_path / "root.shared").write_text("".join(f"{folder}\n" for folder in shared))
    command = tmp_path / "container"
    command.write_text(CONTAINER.format(root=root))
    command.chmod(0o755)
    return command


def test_python_of_the_host_in_an_image_with_nsys(cluster: Cluster, container: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "program.py").write_text(PROGRAM)
    (work / "plan.toml").write_text(PLAN.format(container=container, python=sys.executable))
    done = cluster.batch(work, "run", "plan.toml", "-o", "out", "--executor", "slurm")
    assert done.returncode == 0, done.stderr
    runs = sorted((work / "out/runs").iterdir())
    assert [check_export(run / EXPORT) for run in runs] == [""] * 2
    assert {json.loads((run / RUN).read_text())["nsys"]["path"] for run in runs} == {"/opt/nsys/bin/nsys"}
    # The program ran on the Python of the image, and saw nothing of the host.
    facts = {"prefix": "/usr", "has_nsyswrap": False, "host": False}
    assert [json.loads((work / f"{n}.json").read_text()) for n in (1, 2)] == [facts] * 2
    assert [row["outcome"] for row in rows_of(work / "out/results.csv")] == ["done"] * 2
    shown = ran([sys.executable, "-m", "nsyswrap", "report", runs[0], "-r", "osrt_sum"], env=os.environ)
    assert "clock_nanosleep" in shown.stdout, shown.stderr
