"""Build PyTorch extensions for scenarios before anything is measured, and load them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from nsyswrap.base import paths
from nsyswrap.base.errors import Unavailable
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.base.version import pip_install


def import_torch(*, needs_gpu: bool = True) -> ModuleType:
    """Return the module torch. Raises Unavailable if it cannot be imported, or finds no GPU but needs one."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise Unavailable(f"PyTorch cannot be imported ({error})", pip_install("scenarios")) from error
    if needs_gpu and not torch.cuda.is_available():
        raise Unavailable(f"PyTorch {torch.__version__} found no CUDA GPU")
    return torch


def build(torch: ModuleType, folder: Path) -> ModuleType:
    """Build the .cpp and .cu files of a folder into an extension with the folder's name, and return it.

    It is built for the current GPU in the user's cache, unless it is there already. Raises Unavailable
    without ninja or nvcc.
    """
    cpp_extension = _import_builder()
    files = {path.name: path.read_bytes() for path in paths.matching(folder, "*") if paths.is_file(path)}
    directory = _build_directory(torch, folder.name, files)
    extension: ModuleType = cpp_extension.load(
        name=folder.name,
        sources=[str(folder / name) for name in sorted(files) if name.endswith((".cpp", ".cu"))],
        build_directory=str(directory),
        extra_cflags=["-O3"],
        extra_cuda_cflags=["-O3"],
    )
    return extension


def build_inline(torch: ModuleType, name: str, cpp: str, cuda: str, functions: Sequence[str]) -> ModuleType:
    """Build source texts into an extension by PyTorch's ``load_inline``, in the same way as ``build``.

    ``cpp`` declares the ``functions`` that ``cuda`` defines.
    """
    cpp_extension = _import_builder()
    directory = _build_directory(torch, name, {"cpp": cpp.encode(), "cuda": cuda.encode()})
    extension: ModuleType = cpp_extension.load_inline(
        name=name,
        cpp_sources=cpp,
        cuda_sources=cuda,
        functions=list(functions),
        build_directory=str(directory),
        extra_cuda_cflags=["-O3"],
    )
    return extension


def load(name: str, library: str) -> ModuleType:
    """Load the extension ``name`` from a library that ``build`` made. Raises Unavailable if that fails."""
    spec = importlib.util.spec_from_file_location(name, library)
    if spec is None or spec.loader is None:
        raise Unavailable(f"{library} is not an extension module")
    try:
        extension = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(extension)
    except ImportError as error:
        raise Unavailable(
            f"the extension {library} cannot be loaded: {error}", "omit --built to build it"
        ) from None
    return extension


def build_name(
    name: str,
    torch_version: str,
    python_version: str,
    capability: tuple[int, int],
    files: Mapping[str, bytes],
) -> str:
    """Return a folder name that is different for builds that must not share a folder.

    ``capability`` is the GPU's compute capability (major, minor). ``files`` are contents by name.
    """
    digest = hashlib.sha256()
    for file, content in sorted(files.items()):
        # The length makes different sets of files different streams of bytes.
        digest.update(f"{file}\0{len(content)}\0".encode() + content)
    major, minor = capability
    return f"{name}-torch{torch_version}-python{python_version}-sm{major}{minor}-{digest.hexdigest()[:12]}"


def _build_directory(torch: ModuleType, name: str, files: Mapping[str, bytes]) -> Path:
    """Return the folder for a build for the current GPU, and make PyTorch build for this GPU only."""
    capability: tuple[int, int] = torch.cuda.get_device_capability()
    # Otherwise PyTorch builds for all GPUs that it sees, and prints a long warning.
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "{}.{}".format(*capability))
    python_version = f"{sys.version_info.major}.{sys.version_info.minor}"
    directory = cache_dir(build_name(name, torch.__version__, python_version, capability, files))
    print(f"{name}: the extension is built in {directory}", file=sys.stderr)
    return directory


def _import_builder() -> ModuleType:
    cpp_extension = importlib.import_module("torch.utils.cpp_extension")
    # ninja of a virtual environment that is not activated is beside its Python.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])
    if not cpp_extension.is_ninja_available():
        raise Unavailable("ninja not found", pip_install("scenarios"))
    if cpp_extension.CUDA_HOME is None:
        raise Unavailable("nvcc not found", "install the CUDA toolkit, or set CUDA_HOME")
    return cpp_extension
