"""The conditions of a run: samples of fake GPUs, of real ones where there are some, and run.json."""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Cli
from fake_nvml import FakeGpu, FakeNvml, sample_rows, use
from gpus_here import needs_gpu
from waiting import PATIENCE_S

from nsyswrap.base.run_facts import COLUMNS, Conditions, Gpu, Host, conditions_of
from nsyswrap.base.run_folder import CONDITIONS, REPORT, RunFolder
from nsyswrap.record import conditions
from nsyswrap.record.conditions import (
    file_system_of,
    interpreter,
    is_network,
    mounts,
    nvml,
    observer,
    versions,
)
from nsyswrap.record.conditions.nvml import GpuSample, Nvml, visible
from nsyswrap.record.conditions.observer import Observer, folder_of
from nsyswrap.record.program import Program, RunSpec, resolve
from nsyswrap.record.run import execute

TOKEN = uuid.uuid4().hex
# It keeps its CUDA context for two seconds, as the processes are queried once a second.
MATMUL = """
import time, torch
a = torch.randn(2048, 2048, device="cuda")
end = time.monotonic() + 2
while time.monotonic() < end:
    a @ a
    torch.cuda.synchronize()
"""


def observing(folder: Path) -> Observer:
    """An observer of a run; no program runs."""
    spec = RunSpec(Program((sys.executable, "train.py"), "train"), folder)
    return Observer(spec, TOKEN, folder / CONDITIONS)


def observed(folder: Path) -> Conditions:
    """The conditions of a run that ends at once."""
    with observing(folder) as made:
        pass
    return made.conditions()


def test_a_hanging_driver_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = FakeNvml(FakeGpu())
    use(monkeypatch, library)
    monkeypatch.setattr(observer, "versions", lambda *_: {})
    samples = tmp_path / CONDITIONS
    with observing(tmp_path) as made:
        while not samples.exists() or samples.read_text().count("\n") <= 1:  # only the header
            time.sleep(0.01)
        library.answers.clear()
        library.hangs.wait()
    conditions = made.conditions()  # while the driver hangs
    assert conditions.gpus[0].samples == len(sample_rows(samples)) > 0
    library.answers.set()  # the driver answers too late
    while library.is_open:
        time.sleep(0.01)
    assert made.conditions().gpus == conditions.gpus


def test_a_driver_that_hangs_from_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(nvml, "load", lambda: hangs.wait() and None)
    assert observed(tmp_path).gpus == ()
    hangs.set()


def test_without_threads_there_are_no_conditions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    made = observed(tmp_path)
    assert made == Conditions(host=made.host)
    assert made.host.node


@pytest.mark.usefixtures("nsys")
def test_a_run_has_its_machine_commit_and_versions(tmp_path: Path, cli: Cli) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    (tmp_path / "train.py").write_text("pass")
    git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", str(tmp_path))
    for arguments in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True)
    done = cli("profile", "--no-stats", "-o", "run", "train.py")
    assert done.returncode == 0, done.stderr
    made = conditions_of(json.loads((tmp_path / "run/run.json").read_text()))
    assert made is not None
    assert made.git is not None
    assert (len(made.git.commit), made.git.dirty) == (40, False)
    assert made.host.cores == len(os.sched_getaffinity(0))
    assert len(made.host.load) == 2
    assert made.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    if nvml.load() is None:
        assert made.gpus == ()
        assert not (tmp_path / "run" / CONDITIONS).exists()


@pytest.mark.usefixtures("nsys")
def test_samples_are_a_file_of_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The GPU is a fake, nsys and the program are real. The program writes a file of the same name."""
    use(monkeypatch, FakeNvml(FakeGpu()))
    folder = tmp_path / "run"
    program = f"open({str(folder / CONDITIONS)!r}, 'w').write('mine'); import time; time.sleep(0.5)"
    status = execute(RunSpec(resolve([sys.executable, "-c", program]), folder))
    assert status.outcome == "done"
    assert f"own {CONDITIONS}" in status.message
    made = conditions_of(RunFolder(folder).read_run())
    assert made is not None
    samples = sample_rows(folder / CONDITIONS)
    assert made.gpus[0].samples == len(samples) >= 3
    assert (folder / CONDITIONS).stat().st_mode & 0o777 == 0o600
    assert int(samples[-1][0]) < (folder / REPORT).stat().st_mtime_ns  # not while nsys writes


@pytest.mark.gpu
@pytest.mark.usefixtures("nsys", "torch")
@needs_gpu
def test_a_real_gpu(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "-o", "run", "--", sys.executable, "-c", MATMUL)
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "run/run.json").read_text())
    made = conditions_of(run)
    assert made is not None
    gpu = made.gpus[0]
    assert gpu.uuid.startswith("GPU-")
    assert gpu.name in run["gpus"]
    assert any(process.in_run and not process.began_before for process in gpu.processes)
    samples = [row for row in sample_rows(tmp_path / "run" / CONDITIONS) if row[1] == "0"]
    assert gpu.samples == len(samples) >= 5
    for _, _, sm_mhz, memory_mhz, power_mw, temperature_c, reasons in samples:
        assert 0 < int(sm_mhz) <= (gpu.max_sm_mhz or 0)
        assert int(memory_mhz) > 0
        assert 0 < int(power_mw) < 2_000_000
        assert 0 < int(temperature_c) < 120
        assert int(reasons) >= 0


@pytest.mark.parametrize(
    ("argv", "folder"),
    [
        ((sys.executable, "src/train.py", "x.py"), "src"),
        (("/opt/python3.11", "-u", "/a/b/train.py"), "/a/b"),
        (("python", "train.py"), "."),
        (("python", "-m", "package.train", "src/x.py"), "."),
        (("python",), "."),
        (("build/app", "src/x.py"), "."),
    ],
)
def test_the_folder_of_a_program(argv: tuple[str, ...], folder: str) -> None:
    assert folder_of(Program(argv, "it")) == Path(folder)


def test_the_folder_of_a_cu_file() -> None:
    assert folder_of(Program(("/cache/add",), "add", folder=Path("kernels"))) == Path("kernels")


UUID = "GPU-11111111-2222"


def test_the_facts_on_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvml, "PCI_DEVICES", tmp_path)
    [(index, device)] = Nvml(FakeNvml(FakeGpu())).devices().items()
    expected = Gpu(UUID, "Fake H200", 0, False, True, True, 2000, 700.0)  # noqa: FBT003 - MIG, persistence, ECC
    assert device.describe(index) == replace(expected, pcie_generation=5, pcie_lanes=16)


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("?", None)])
def test_the_numa_node_of_a_gpu(
    text: str, node: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nvml, "PCI_DEVICES", tmp_path)
    (tmp_path / "0000:1b:00.0").mkdir()
    (tmp_path / "0000:1b:00.0" / "numa_node").write_text(text)
    assert Nvml(FakeNvml(FakeGpu())).devices()[0].describe(0).numa_node == node
    lacking = FakeNvml(FakeGpu(), lacking=("nvmlDeviceGetPciInfo_v3",))
    assert Nvml(lacking).devices()[0].describe(0).numa_node is None


def test_the_version_of_the_driver() -> None:
    assert Nvml(FakeNvml(FakeGpu())).driver == "580.1"
    assert not Nvml(FakeNvml(FakeGpu(), lacking=("nvmlSystemGetDriverVersion",))).driver


def test_a_sample_has_the_columns_of_the_file() -> None:
    device = Nvml(FakeNvml(FakeGpu())).devices()[0]
    assert device.sample() == GpuSample(1980, 3201, 80_500, 30, 4)
    assert GpuSample._fields == COLUMNS[2:]


def test_what_a_gpu_does_not_report_is_none() -> None:
    gpu = FakeGpu(sm_mhz=None, memory_mhz=None, power_mw=None, temperature_c=None, reasons=None, mig=None)
    device = Nvml(FakeNvml(gpu)).devices()[0]
    assert set(device.sample()) == {None}
    assert device.describe(0).mig is None


def test_zero_is_a_value() -> None:
    device = Nvml(FakeNvml(FakeGpu(reasons=0))).devices()[0]
    assert device.sample().reasons == 0


def test_an_older_driver_has_older_functions() -> None:
    newer = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses_v3")
    device = Nvml(FakeNvml(FakeGpu(processes=[7]), lacking=(*newer, "nvmlDeviceGetMigMode"))).devices()[0]
    assert device.sample().reasons == 4
    assert device.process_ids() == [7]
    assert device.describe(0).mig is None


@pytest.mark.parametrize("count", [0, 1, 64, 65, 1000])
def test_all_processes_are_listed(count: int) -> None:
    pids = list(range(1, count + 1))
    assert Nvml(FakeNvml(FakeGpu(processes=pids))).devices()[0].process_ids() == pids


def test_a_gpu_that_may_not_be_used_is_left_out_and_the_others_keep_their_numbers() -> None:
    library = FakeNvml(FakeGpu("GPU-a", forbidden=True), FakeGpu("GPU-b"))
    assert {index: device.uuid for index, device in Nvml(library).devices().items()} == {1: "GPU-b"}


def test_the_gpu_of_a_mig_device() -> None:
    library = FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b", migs=("MIG-c",)))
    assert Nvml(library).parent_of_mig("MIG-c") == "GPU-b"
    assert Nvml(library).parent_of_mig("MIG-d") == ""


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libnvidia-ml-not-installed.so.1")
    assert nvml.load() is None


ALIKE = [Gpu("GPU-aa11", "H200"), Gpu("GPU-aa22", "H200"), Gpu("GPU-bb33", "H200")]
MIXED = [Gpu("GPU-aa11", "T4"), Gpu("GPU-bb22", "H200")]
SPLIT = [Gpu("GPU-aa11", "H200", mig=True), Gpu("GPU-bb22", "H200", mig=True)]


MIGS = {"MIG-1": "GPU-bb22"}


def seen(gpus: list[Gpu], value: str, order: str = "") -> list[int]:
    environment = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": order}
    return visible(environment, gpus, lambda uuid: MIGS.get(uuid, ""))


@pytest.mark.parametrize("gpus", [[], ALIKE, MIXED, SPLIT])
def test_without_the_variable_all(gpus: list[Gpu]) -> None:
    assert visible({}, gpus, str) == list(range(len(gpus)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", []),
        ("-1", []),
        ("none", []),
        ("NoDevFiles", []),
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("1,1", [1]),
        ("0,-1,2", [0]),
        ("0,3,1", [0]),
        ("9" * 5000, []),
        ("\u0662", []),
        ("GPU-bb", [2]),
        ("GPU-aa2,GPU-bb33", [1, 2]),
        ("GPU-aa", []),  # means two
        ("GPU-zz,GPU-bb", []),
        ("MIG-2", [0, 1, 2]),  # of an unknown GPU
    ],
)
def test_gpus_of_one_kind_are_numbered_as_cuda_does(value: str, expected: list[int]) -> None:
    assert seen(ALIKE, value) == expected


def test_gpus_of_two_kinds_are_told_apart_by_uuid_or_bus_order_only() -> None:
    assert seen(MIXED, "0") == [0, 1]
    assert seen(MIXED, "0", "FASTEST_FIRST") == [0, 1]
    assert seen(MIXED, "1", "PCI_BUS_ID") == [1]
    assert seen(MIXED, "GPU-bb") == [1]
    assert seen(MIXED, "") == []


def test_mig_devices_are_those_of_their_gpu() -> None:
    assert seen(SPLIT, "MIG-1") == [1]
    assert seen(SPLIT, "1", "PCI_BUS_ID") == [0, 1]  # of which GPU it is is not known
    assert seen(SPLIT[:1], "0") == [0]


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


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_versions_of_a_virtual_environment(virtual: Path) -> None:
    certain = {"torch": "2.9.0+cu130", "cudnn": "9.13.0.50", "triton": "3.5.0"}
    assert versions([str(virtual / "bin/python"), "train.py"], os.environ, PATIENCE_S) == {
        **PYTHON,
        **certain,
    }


def test_the_python_of_a_script(virtual: Path, tmp_path: Path) -> None:
    python = virtual.with_name("linked") / "bin" / "python3"
    python.parent.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        python.symlink_to(virtual / "bin" / "python3")
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


def test_the_environment_of_the_program_decides(virtual: Path) -> None:
    [site] = virtual.glob("lib/python*/site-packages")
    with_path = {**os.environ, "PYTHONPATH": str(site)}
    assert versions([sys.executable], with_path, PATIENCE_S)["torch"] == "2.9.0+cu130"


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
    assert versions([sys.executable], here, PATIENCE_S)["torch"] == version


def test_nothing_in_the_current_folder_is_imported(
    virtual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    assert "torch" in versions([str(virtual / "bin/python")], os.environ, PATIENCE_S)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("program", ["exit 1", "echo hello", "echo '[1, {}]'", "true", "exec sleep 600"])
def test_a_python_that_does_not_answer(tmp_path: Path, program: str) -> None:
    python = script(tmp_path, f"#!/bin/sh\n{program}").rename(tmp_path / "python3")
    began = time.monotonic()
    assert versions([str(python)], os.environ, limit_s=0.5) == {}
    assert time.monotonic() < began + PATIENCE_S
