"""Compiling .cu files, before and outside any measured run, cached by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from nsyswrap.device import query
from nsyswrap.errors import NsyswrapError, Unavailable, UsageError
from nsyswrap.folder import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FLAGS = ("-O3", "-lineinfo")

# Compute capability -> first and last CUDA release whose nvcc compiles for it (None: none has dropped it).
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


class CompileFailed(NsyswrapError):
    """nvcc refused the source; its own words have gone to stderr."""


def compile_cuda(source: Path, *, arch: str | None = None, include: Sequence[Path] = ()) -> Path:
    """Return an executable of ``source`` for the GPU that is there, or for ``arch`` (``sm_90``).

    Built once per content of the source and of the ``include`` folders, nvcc and architecture, in the
    user's cache folder. Raises Unavailable without nvcc, without a GPU to ask, or for a capability this
    nvcc does not compile for.
    """
    nvcc = find_nvcc()
    version = nvcc_version(nvcc)
    arch = arch or architecture(nvcc, version)
    target = cache_dir("builds", _digest(source, include, version, arch)) / source.stem
    if not target.exists():
        _build(nvcc, source, arch, include, target)
    return target


def find_nvcc() -> str:
    """Return nvcc from PATH, ``$CUDA_HOME`` or /usr/local/cuda."""
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    for place in ["nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]:
        if found := shutil.which(place):
            return found
    raise Unavailable(
        "nvcc was not found on PATH, in $CUDA_HOME or in /usr/local/cuda", "install the CUDA toolkit"
    )


def nvcc_version(nvcc: str) -> str:
    """Return the CUDA release of this nvcc, ``13.0``."""
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release (\d+\.\d+)", said)
    if found is None:
        raise Unavailable(f"{nvcc} --version does not answer", "install the CUDA toolkit again")
    return found.group(1)


def architecture(nvcc: str, version: str) -> str:
    """Return ``sm_XY`` of the first GPU; raises Unavailable where this nvcc cannot compile for it."""
    devices = query()
    if not devices.capabilities:
        raise Unavailable(
            f"there is no GPU to compile for: {devices.error}",
            "name its kind with --arch, as in --arch sm_90",
        )
    capability = devices.capabilities[0]
    number = capability.replace(".", "")
    said = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=False).stdout
    if said and f"compute_{number}" not in said.split():
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


def _digest(source: Path, include: Sequence[Path], version: str, arch: str) -> str:
    digest = hashlib.sha256(f"{version} {arch} {FLAGS}".encode())
    files = [source, *(path for folder in include for path in sorted(folder.rglob("*")) if path.is_file())]
    for path in files:
        try:
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
    return digest.hexdigest()[:24]


def _build(nvcc: str, source: Path, arch: str, include: Sequence[Path], target: Path) -> None:
    part = target.with_name(f"{target.name}.{os.getpid()}")
    # the source's own folder is searched first, as any compiler does; -I is for the rest
    command = [
        nvcc,
        *FLAGS,
        f"-arch={arch}",
        *(f"-I{folder}" for folder in include),
        "-o",
        str(part),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileFailed(
            f"nvcc could not compile {source}:\n{(done.stderr or done.stdout).rstrip()}", " ".join(command)
        )
    part.replace(target)
