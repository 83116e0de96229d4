"""Facts on the machine, its file systems, the Python that runs a program and what is installed for it."""

import os
import platform
import socket
import sys
import time
import venv
from pathlib import Path

import pytest

from nsyswrap.base.run_facts import Host
from nsyswrap.record import conditions
from nsyswrap.record.conditions import file_system_of, interpreter, is_network, mounts, versions

INTEL = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.10GHz \nprocessor\t: 1\nmodel name\t: other\n"
GRACE = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"


def governors(folder: Path, *names: str) -> None:
    for core, name in zip(sorted(os.sched_getaffinity(0)), names, strict=False):
        file = folder / f"cpu{core}" / "cpufreq" / "scaling_governor"
        file.parent.mkdir(parents=True)
        file.write_text(f"{name}\n")


def test_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    monkeypatch.setattr(conditions, "CPUS", tmp_path)
    monkeypatch.setattr(conditions, "CPU_INFO", tmp_path / "missing")
    made = conditions.describe_host((0.5,))
    cores = len(os.sched_getaffinity(0))
    assert made == Host(socket.gethostname(), "", cores, "", made.load, os.sysconf("SC_NPROCESSORS_ONLN"))
    assert made.load[0] == 0.5
    assert len(made.load) == 2


def test_a_node_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "gpu07")
    assert conditions.describe_host(()).node == "gpu07"


def test_the_model_of_the_cpu() -> None:
    assert conditions.cpu_model(INTEL) == "Intel(R) Xeon(R) CPU @ 2.10GHz"
    assert conditions.cpu_model(GRACE) == ""


def test_the_governor_of_the_usable_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conditions, "CPUS", tmp_path)
    governors(tmp_path, *["performance"] * len(os.sched_getaffinity(0)))
    assert conditions.describe_host(()).governor == "performance"


def test_the_numa_nodes_of_the_usable_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conditions, "CPUS", tmp_path)
    for place, core in enumerate(sorted(os.sched_getaffinity(0))):
        (tmp_path / f"cpu{core}" / f"node{1 if place else 10}").mkdir(parents=True)
        (tmp_path / f"cpu{core}" / "node_of_something").mkdir()
    nodes = conditions.describe_host(()).numa_nodes
    assert nodes == ((1, 10) if len(os.sched_getaffinity(0)) > 1 else (10,))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_different_governors_are_all_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conditions, "CPUS", tmp_path)
    governors(tmp_path, "powersave", "performance")
    assert conditions.describe_host(()).governor == "performance, powersave"


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/a\\040b xfs rw 0 0
tmpfs /home/me/scratch tmpfs rw 0 0
beegfs_nodev /data beegfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind", "shared"),
    [
        ("/scratch/x", "ext4", False),
        ("/home/me", "nfs4", True),
        ("/home/a b/x", "xfs", False),
        ("/homes", "ext4", False),
        ("/home/me/scratch/x", "tmpfs", False),
        ("/data/a", "beegfs", True),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str, *, shared: bool) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind
    assert file_system_of(Path(path), "") == ""
    assert is_network(kind) is shared


@pytest.mark.parametrize(
    ("kind", "shared"), [("fuse.sshfs", True), ("fuse.fuse-overlayfs", False), ("", False)]
)
def test_which_fuse_is_on_the_network(kind: str, *, shared: bool) -> None:
    assert is_network(kind) is shared


def test_the_root_of_this_machine_is_mounted() -> None:
    assert file_system_of(Path("/"), mounts())


PYTHON = {"python": platform.python_version()}
PATIENT_S = 120.0  # of a busy machine


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with distributions that have metadata and no code."""
    folder = tmp_path_factory.mktemp("environment") / "of a project"
    venv.create(folder, symlinks=True)
    installed = {"torch": "2.9.0+cu130", "nvidia_cudnn_cu13": "9.13.0.50", "triton": "3.5.0", "numpy": "2.3"}
    installed |= {"nvidia_nccl_cu12": "2.27.3", "nvidia_nccl_cu13": "2.28.1"}  # which is used is not known
    [site] = folder.glob("lib/python*/site-packages")
    for name, version in installed.items():
        metadata = site / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    (site / "torch.py").write_text("raise SystemExit('imported')")
    return folder


def script(folder: Path, first_line: str) -> Path:
    path = folder / "launch"
    path.write_text(f"{first_line}\nimport sys\n")
    path.chmod(0o755)
    return path


def test_versions_of_a_virtual_environment(environment: Path) -> None:
    certain = {"torch": "2.9.0+cu130", "cudnn": "9.13.0.50", "triton": "3.5.0"}
    assert versions([str(environment / "bin/python"), "train.py"], os.environ, PATIENT_S) == {
        **PYTHON,
        **certain,
    }


def test_the_python_of_a_script(environment: Path, tmp_path: Path) -> None:
    python = environment.with_name("linked") / "bin" / "python3"
    python.parent.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        python.symlink_to(environment / "bin" / "python3")
    assert interpreter([str(script(tmp_path, f"#!{python}"))], {}) == str(python)
    assert interpreter([str(script(tmp_path, f"#!{python} -u"))], {}) == str(python)
    assert interpreter(
        [str(script(tmp_path, "#!/usr/bin/env python3"))], {"PATH": str(python.parent)}
    ) == str(python)


@pytest.mark.parametrize("first_line", ["#!/bin/sh", "#!", "", "#!/usr/bin/env", "#!/opt/missing/python3"])
def test_what_is_not_known_to_be_python(tmp_path: Path, first_line: str) -> None:
    assert interpreter([str(script(tmp_path, first_line))], {}) is None
    assert versions([str(script(tmp_path, first_line))], {}) == {}


def test_a_program_that_is_missing_or_binary() -> None:
    assert interpreter(["no-such-program"], os.environ) is None
    assert interpreter(["true"], os.environ) is None


def test_the_environment_of_the_program_decides(environment: Path) -> None:
    [site] = environment.glob("lib/python*/site-packages")
    with_path = {**os.environ, "PYTHONPATH": str(site)}
    assert versions([sys.executable], with_path, PATIENT_S)["torch"] == "2.9.0+cu130"


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", "2.9.0+cpu"),
        ("cuda = None\n", "2.9.0+cpu"),
        ("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", "2.9.0"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n", "2.9.0"),
        ("", "2.9.0"),
        ("#" * 20_000 + "\ncuda = None\n", "2.9.0"),  # its beginning is read
    ],
)
def test_a_pytorch_without_cuda_is_a_cpu_build(tmp_path: Path, lines: str, version: str) -> None:
    """Such a build of PyPI has no ending. PyTorch is not imported."""
    package, metadata = tmp_path / "torch", tmp_path / "torch-2.9.0.dist-info" / "METADATA"
    for folder in (package, metadata.parent):
        folder.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0\n")
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "version.py").write_text(f"from typing import Optional\n__version__ = '2.9.0'\n{lines}")
    here = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert versions([sys.executable], here, PATIENT_S)["torch"] == version


def test_nothing_in_the_current_folder_is_imported(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    assert "torch" in versions([str(environment / "bin/python")], os.environ, PATIENT_S)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("program", ["exit 1", "echo hello", "echo '[1, {}]'", "true", "exec sleep 60"])
def test_a_python_that_does_not_answer(tmp_path: Path, program: str) -> None:
    python = script(tmp_path, f"#!/bin/sh\n{program}").rename(tmp_path / "python3")
    began = time.monotonic()
    assert versions([str(python)], os.environ, limit_s=0.5) == {}
    assert time.monotonic() < began + 10
