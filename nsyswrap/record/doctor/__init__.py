"""Check what recording needs on this machine: nsys, the GPU, the system, Python and compilers.

The facts of a subject are gathered first, and a pure function turns them into checks. Those on the GPU and
the system have a module each. Here every nsys is checked (which one is used, and does it work), and Python,
NVTX, PyTorch, Triton and nvcc: found, and able to add two vectors on the GPU.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from importlib import metadata
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.check import CUDA_BUILD, Check, Level
from nsyswrap.base.errors import CommandHint, NsyswrapError, Unavailable
from nsyswrap.base.nsys import find
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.base.nsys.options import FIRST_GOOD_NSYS, LAST_SILENT_NSYS, SILENT_NVTX
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_tool import fault_of, run_tool
from nsyswrap.base.text import clip
from nsyswrap.record import conditions, nvcc, pythons, scenarios
from nsyswrap.record.doctor import system

# Release -> what it does wrong.
KNOWN_FAULTS: dict[tuple[int, ...], str] = {
    (2022, 4, 2): "it hangs if it samples the CPU, which nsyswrap switches off",
    (2023, 4, 4): "its tables during a run omit NVTX and OS runtime events; `nsyswrap report` has them",
    (2024, 2, 3): "its tables during a run omit NVTX and OS runtime events; `nsyswrap report` has them",
}
_RENAMED = (2023, 1)  # nsys 2022 calls nvtx_sum nvtxsum
_DEBIAN_PYTHON = Path("/usr/lib/python3/dist-packages")  # Debian has the modules of the reports here
_MODULES = ("nsysstats.py", "gpustats.py")
_STATS_TIMEOUT_S = 20
_INSTALL = "apt-cache search nsight-systems  # install one, or: export NSYSWRAP_NSYS=/path/to/nsys"
PROGRAMS = Path(__file__).parent / "programs"
_VERSION = "from importlib import metadata; print(metadata.version(sys.argv[1]))"
_TIMEOUT_S = 120
_FAULT_WIDTH = 200  # characters of a program's last line
_UNTRIED = "not tried: no GPU"
_ADDED = "adds two vectors on the GPU"


def check_machine() -> dict[str, list[Check]]:
    """Return the checks of this machine by subject. Independent facts are gathered at the same time."""
    with ThreadPoolExecutor() as pool:
        finding, querying = pool.submit(gather_installations), pool.submit(system.gather_gpus)
        machine, nsys, devices = system.gather(), finding.result(), querying.result()
        in_software = _begin(pool, has_gpu=not devices.devices.error, nsys=nsys.used)
        return {
            "nsys": list(installation_checks(nsys)),
            "GPU and driver": list(system.gpu_checks(devices, machine, nsys.used)),
            "machine": list(system.checks(machine)),
            "Python and compilers": [future.result() for future in in_software],
        }


@dataclass(frozen=True)
class Installations:
    """The nsys that is used, and all others. Without one to use, ``fault`` and ``cure`` say why.

    ``named`` says where the user named the nsys to use, or is empty. ``stats_output`` is what `nsys stats`
    printed about an empty export; None: it was not run.
    """

    used: Nsys | None = None
    named: str = ""
    fault: str = ""
    cure: str = ""
    others: tuple[Nsys, ...] = ()
    stats_output: str | None = None


def gather_installations() -> Installations:
    """Find every nsys, and run `nsys stats` of the one that is used."""
    named = ""
    try:
        _, named = find.named()
        used, _ = find.find_nsys()
    except NsyswrapError as error:
        return Installations(None, named, error.message, error.hint, _others(None))
    return Installations(used, named, others=_others(used), stats_output=_stats_output(used))


def _others(used: Nsys | None) -> tuple[Nsys, ...]:
    real = paths.real(used.path) if used else None
    return tuple(find.judge(path) for path in find.candidates() if paths.real(path) != real)


def _stats_output(nsys: Nsys) -> str | None:
    """Run `nsys stats` on an export without events; return its output, or None if it cannot be run."""
    report = "nvtx_sum" if nsys.release >= _RENAMED else "nvtxsum"
    try:
        with tempfile.TemporaryDirectory() as work:
            export = Path(work) / "empty.sqlite"
            with closing(sqlite3.connect(export)) as db:
                db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            command = [nsys.path, "stats", "--report", report, str(export)]
            done = run_tool(command, _STATS_TIMEOUT_S)
    except (OSError, sqlite3.Error, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def installation_checks(installations: Installations) -> Iterator[Check]:
    """Yield the checks of the nsys that is used, then one for every other nsys."""
    if installations.used is None:
        yield Check(
            "problem",
            "nsys",
            installations.fault,
            installations.cure if installations.named or installations.others else _INSTALL,
        )
    else:
        reason = f"named by {installations.named}" if installations.named else "the first that works"
        yield Check("ok", "nsys", f"{installations.used.version} at {installations.used.path}, {reason}")
        yield _importer(installations.used)
        yield _stats(installations.used, installations.stats_output)
        if fault := KNOWN_FAULTS.get(installations.used.release):
            yield Check("note", "known fault", f"nsys {installations.used.version}: {fault}")
    for nsys in installations.others:
        if installations.fault != f"{nsys.path}: {nsys.fault}":
            yield _other(nsys)


def _other(nsys: Nsys) -> Check:
    if nsys.fault:
        return Check("note", "another nsys", f"not usable: {nsys.path}: {nsys.fault}", nsys.cure)
    return Check("note", "another nsys", f"{nsys.version} at {nsys.path}, not used")


def _importer(nsys: Nsys) -> Check:
    if find.importer(nsys.path) is None:
        return Check("unknown", "importer", f"{nsys.path} is a script that starts another nsys")
    return Check("ok", "importer", "beside this nsys, with its libraries")


def _stats(nsys: Nsys, output: str | None) -> Check:
    """Return the check of nsys' own reports, which `profile` prints and nsyswrap's reports do not need."""
    subject = "nsys stats"
    if output is None:
        return Check("unknown", subject, "it could not be run")
    if "SKIPPED" in output:
        return Check("ok", subject, "its reports run")
    fault = next((line.strip() for line in output.splitlines() if "ERROR" in line), "unexpected output")
    return Check(
        "note", subject, f"{fault} (nsyswrap's own reports do not need it)", _stats_cure(nsys, output)
    )


def _stats_cure(nsys: Nsys, output: str) -> str:
    """Return the command that puts Debian's modules where nsys looks; empty if they are not the cause."""
    host, modules = find.host_folder(nsys.path), [_DEBIAN_PYTHON / name for name in _MODULES]
    are_there = all(os.access(path, os.F_OK) for path in modules)
    if "No module named" not in output or host is None or not are_there:
        return ""
    return shlex.join(["sudo", "cp", *map(str, modules), str(host / "python" / "lib")])


def _begin(pool: Executor, *, has_gpu: bool, nsys: Nsys | None) -> list[Future[Check]]:
    tried = (
        python,
        partial(nvtx_of, version("nvtx"), nsys),
        partial(package, "torch", "PyTorch", has_gpu=has_gpu),
        partial(package, "triton", "Triton", has_gpu=has_gpu),
        partial(compiler, has_gpu=has_gpu),
    )
    return [pool.submit(check) for check in tried]


def version(name: str) -> str:
    """Return the version of a package in the Python of scripts, without importing it; empty: none."""
    python = pythons.choose()
    if python.source:
        try:
            done = run_tool([python.path, "-c", pythons.NOT_HERE + _VERSION, name], _TIMEOUT_S)
        except (OSError, subprocess.SubprocessError):
            return ""
        return "" if done.returncode else done.stdout.strip()
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of unknown version" if importlib.util.find_spec(name) else ""


def python() -> Check:
    """Return the check of the Python that `nsyswrap profile script.py` uses."""
    chosen = pythons.choose()
    if chosen.source:
        return Check("ok", "Python", f"{chosen.path} ({chosen.source}) runs your scripts")
    text = f"{sys.version.split()[0]} at {sys.executable} runs your scripts"
    other = shutil.which("python") or shutil.which("python3")
    if other is None or Path(other).parent == Path(sys.executable).parent:
        return Check("ok", "Python", text)
    cure = CommandHint.of(["nsyswrap", "profile", other, "SCRIPT"])
    return Check("note", "Python", f"{text}; {other} is first on PATH", cure)


def nvtx_of(installed: str, nsys: Nsys | None) -> Check:
    """Return the check of the package nvtx, whose newer versions record nothing under an older nsys."""
    if not installed:
        return Check("note", "nvtx", "not installed; only Python programs that import it need it")
    numbers = tuple(int(part) for part in installed.split(".") if part.isdigit())
    if nsys is None or numbers < SILENT_NVTX or nsys.release >= FIRST_GOOD_NSYS:
        return Check("ok", "nvtx", installed)
    if nsys.release > LAST_SILENT_NSYS:
        return Check("unknown", "nvtx", f"{installed} possibly records no ranges under nsys {nsys.version}")
    cure = shlex.join([pythons.choose().path, "-m", "pip", "install", "nvtx<0.2.12"])
    return Check("problem", "nvtx", f"{installed} records no ranges under nsys {nsys.version}", cure)


def package(name: str, title: str, *, has_gpu: bool) -> Check:
    """Return the check of a package in the Python of scripts: found, and its vector addition on the GPU."""
    python = pythons.choose()
    installed = version(name)
    if not installed:
        return Check("note", title, f"not installed in {python.path if python.source else 'this Python'}")
    if name == "torch" and "+cpu" in conditions.versions([python.path], os.environ).get(name, ""):
        level: Level = "problem" if has_gpu else "note"
        return Check(level, title, f"{installed}: this build of PyTorch is for the CPU only", CUDA_BUILD)
    if not has_gpu:
        return Check("unknown", title, f"{installed}, {_UNTRIED}")
    command = [python.path, str(PROGRAMS / f"{name}_sum.py")]
    if fault := failure(command):
        return Check("problem", title, f"{installed}: {fault}", shlex.join(command))
    return Check("ok", title, f"{installed} {_ADDED}")


def compiler(*, has_gpu: bool) -> Check:
    """Return the check of nvcc: found, and the vector addition that it compiles."""
    try:
        path = nvcc.find_nvcc()
    except Unavailable as error:
        return Check("note", "nvcc", f"{error.message}; only .cu programs need it")
    try:
        text = f"{nvcc.nvcc_version(path)} at {path}"
        if not has_gpu:
            return Check("unknown", "nvcc", f"{text}, {_UNTRIED}")
        program = nvcc.compile_cuda(scenarios.kernels_dir() / "add.cu")
    except NsyswrapError as error:
        return Check("problem", "nvcc", error.message.strip().splitlines()[-1], error.hint)
    if fault := failure([str(program), "grid"]):
        return Check("problem", "nvcc", f"{text}: {fault}", shlex.join([str(program), "grid"]))
    return Check("ok", "nvcc", f"{text}; its program {_ADDED}")


def failure(command: list[str]) -> str:
    """Run a program; return the last line of its errors if it fails, or empty."""
    try:
        done = run_tool(command, _TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        return f"it {fault_of(error)}"
    lines = done.stderr.strip().splitlines()
    last = clip(lines[-1].strip(), _FAULT_WIDTH) if lines else f"exit code {done.returncode}"
    return last if done.returncode else ""
