"""Compile .cu files before the measured run, with a cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from nsyswrap.base.errors import CompileFailed, Unavailable
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.record.gpus import query

FLAGS = ("-O3", "-lineinfo")

# Compute capability -> first and last CUDA release whose nvcc compiles for it (None: no release dropped it).
_SUPPORT: dict[str, tuple[str, str | None]] = {
    "3.5": ("5.0", "11.8"),
    "3.7": ("6.5", "11.8"),
    "5.0": ("6.0", "12.9"),
    "5.2": ("6.5", "12.9"),
    "5.3": ("7.0", "12.9"),
    "6.0": ("8.0", "12.9"),
    "6.1": ("8.0", "12.9"),
    "6.2": ("8.0", "12.9"),
    "7.0": ("9.0", "12.9"),
    "7.2": ("9.2", "12.9"),
    "7.5": ("10.0", None),
    "8.0": ("11.0", None),
    "8.6": ("11.1", None),
    "8.7": ("11.4", None),
    "8.8": ("13.0", None),
    "8.9": ("11.8", None),
    "9.0": ("11.8", None),
    "10.0": ("12.8", None),
    "10.3": ("12.9", None),
    "11.0": ("13.0", None),
    "12.0": ("12.8", None),
    "12.1": ("12.9", None),
}


def compile_cuda(source: Path, *, arch: str | None = None, flags: tuple[str, ...] = ()) -> Path:
    """Return an executable of ``source`` for the first GPU, or for ``arch`` (``sm_90``).

    The executable is in the user's cache. It is built again if the source, an included file, nvcc's release,
    the architecture or ``flags`` (further options for nvcc) change. Raises Unavailable if there is no nvcc or
    no GPU to query, or if this nvcc does not support the GPU. Raises CompileFailed with the output of nvcc.
    """
    nvcc = find_nvcc()
    version = nvcc_version(nvcc)
    arch = arch or architecture(nvcc, version)
    flags = (*FLAGS, *flags)
    key = hashlib.sha256(f"{source.resolve()} {version} {arch} {flags}".encode()).hexdigest()[:24]
    target = cache_dir("builds", key) / source.stem
    if not (target.exists() and _is_current(target)):
        _build([nvcc, *flags, f"-arch={arch}"], source, target)
    return target


def find_nvcc() -> str:
    """Return the path of nvcc from PATH, ``$CUDA_HOME``, ``$CUDA_PATH`` or /usr/local/cuda.

    Raises Unavailable if there is none.
    """
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    for place in ["nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]:
        if path := shutil.which(place):
            return path
    raise Unavailable(
        "nvcc not found on PATH, in $CUDA_HOME or in /usr/local/cuda", "install the CUDA toolkit"
    )


def nvcc_version(nvcc: str) -> str:
    """Return the CUDA release of this nvcc, such as ``13.0``. Raises Unavailable if it does not answer."""
    output = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release (\d+\.\d+)", output)
    if release is None:
        raise Unavailable(f"{nvcc} --version printed no release", "install the CUDA toolkit again")
    return release.group(1)


def architecture(nvcc: str, version: str) -> str:
    """Return ``sm_XY`` of the first GPU. Raises Unavailable if this nvcc cannot compile for it."""
    devices = query()
    if not devices.capabilities:
        raise Unavailable(
            f"no GPU to compile for: {devices.error}",
            "name the architecture, for example --arch sm_90",
        )
    capability = devices.capabilities[0]
    number = capability.replace(".", "")
    output = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=False).stdout
    if output and f"compute_{number}" not in output.split():
        raise Unavailable(
            f"nvcc of CUDA {version} does not compile for {devices.names[0]} (capability {capability})",
            _release_advice(capability),
        )
    return f"sm_{number}"


def _release_advice(capability: str) -> str:
    if capability not in _SUPPORT:
        return "use a newer CUDA toolkit, or name an older architecture with --arch"
    first, last = _SUPPORT[capability]
    return f"use CUDA {first} to {last}" if last else f"use CUDA {first} or newer"


def _build(compiler: list[str], source: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        part, makefile = Path(work) / target.name, Path(work) / "makefile"
        command = [*compiler, "-MD", "-MF", str(makefile), "-o", str(part), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            output = (done.stderr or done.stdout).rstrip()
            raise CompileFailed(f"nvcc could not compile {source}:\n{output}", " ".join(command))
        contents = {str(path): _digest(path) for path in _dependencies(makefile)}
        part.replace(target)
    _contents_file(target).write_text(json.dumps(contents), encoding="utf-8")


def _is_current(target: Path) -> bool:
    """Return True if the source and all included files are unchanged since ``target`` was built."""
    try:
        contents: dict[str, str] = json.loads(_contents_file(target).read_text(encoding="utf-8"))
        return all(_digest(Path(path)) == digest for path, digest in contents.items())
    except (OSError, ValueError):
        return False


def _contents_file(target: Path) -> Path:
    return target.with_name("contents.json")


def _dependencies(makefile: Path) -> list[Path]:
    """Return the files in a make rule of nvcc."""
    files = makefile.read_text(encoding="utf-8").partition(" : ")[2].replace("\\\n", " ")
    return [Path(file.replace("\\ ", " ")).resolve() for file in re.split(r"(?<!\\)\s+", files) if file]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
