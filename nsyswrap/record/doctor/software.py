"""Check Python, NVTX, PyTorch, Triton and nvcc: found, and able to add two vectors on the GPU."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.check import Check
from nsyswrap.base.errors import NsyswrapError, Unavailable
from nsyswrap.base.run_tool import fault_of, run_tool
from nsyswrap.base.text import clip
from nsyswrap.record import nvcc, scenarios
from nsyswrap.record.doctor import programs

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from nsyswrap.base.nsys.find import Nsys

PROGRAMS = Path(programs.__file__).parent
_TIMEOUT_S = 120
_FAULT_WIDTH = 200  # characters of a program's last line
_UNTRIED = "not tried: no GPU"
_ADDED = "adds two vectors on the GPU"
_SILENT_NVTX = (0, 2, 12)  # the first that records nothing under an older nsys
_LAST_SILENT_NSYS, _FIRST_GOOD_NSYS = (2024, 2, 3), (2025,)


def begin(pool: Executor, *, has_gpu: bool, nsys: Nsys | None) -> list[Future[Check]]:
    """Begin all checks in the pool, each of which may start a process."""
    tried = (
        python,
        partial(nvtx_of, version("nvtx"), nsys),
        partial(package, "torch", "PyTorch", has_gpu=has_gpu),
        partial(package, "triton", "Triton", has_gpu=has_gpu),
        partial(compiler, has_gpu=has_gpu),
    )
    return [pool.submit(check) for check in tried]


def version(name: str) -> str:
    """Return the version of a package that this Python can import, without importing it; empty: none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of unknown version" if importlib.util.find_spec(name) else ""


def python() -> Check:
    """Return the check of the Python that `nsyswrap profile script.py` uses."""
    text = f"{sys.version.split()[0]} at {sys.executable} runs your scripts"
    other = shutil.which("python") or shutil.which("python3")
    if other is None or Path(other).parent == Path(sys.executable).parent:
        return Check("ok", "Python", text)
    cure = f"nsyswrap profile {shlex.quote(other)} SCRIPT"
    return Check("note", "Python", f"{text}; {other} is first on PATH", cure)


def nvtx_of(installed: str, nsys: Nsys | None) -> Check:
    """Return the check of the package nvtx, whose newer versions record nothing under an older nsys."""
    if not installed:
        return Check("note", "nvtx", "not installed; only Python programs that import it need it")
    numbers = tuple(int(part) for part in installed.split(".") if part.isdigit())
    if nsys is None or numbers < _SILENT_NVTX or nsys.release >= _FIRST_GOOD_NSYS:
        return Check("ok", "nvtx", installed)
    if nsys.release > _LAST_SILENT_NSYS:
        return Check("unknown", "nvtx", f"{installed} possibly records no ranges under nsys {nsys.version}")
    cure = shlex.join([sys.executable, "-m", "pip", "install", "nvtx<0.2.12"])
    return Check("problem", "nvtx", f"{installed} records no ranges under nsys {nsys.version}", cure)


def package(name: str, title: str, *, has_gpu: bool) -> Check:
    """Return the check of a Python package: found, and its vector addition on the GPU."""
    installed = version(name)
    if not installed:
        return Check("note", title, "not installed in this Python")
    if not has_gpu:
        return Check("unknown", title, f"{installed}, {_UNTRIED}")
    command = [sys.executable, str(PROGRAMS / f"{name}_sum.py")]
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
