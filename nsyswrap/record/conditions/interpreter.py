"""The Python that ran a program, and the versions of the libraries installed for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.files import typed
from nsyswrap.base.run_tool import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT_S = 5.0
# Library -> the distributions that contain it.
LIBRARIES = {
    "torch": ("torch",),
    "triton": ("triton",),
    "jax": ("jax",),
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11"),
    "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"),
}
_FIRST_LINE_BYTES = 256
# The libraries are not imported. Without a script Python would search the current folder, too.
_QUERY = """
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import json
from importlib import metadata
versions = {}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps([sys.version.split()[0], versions]))
"""


def is_python(executable: str) -> bool:
    """Return True if a path or name is that of a Python interpreter."""
    return re.fullmatch(r"python[\d.]*t?", Path(executable).name) is not None


def interpreter(argv: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the path of the Python that runs a command line; None if it is not known to be one.

    For a script with ``#!``, for example torchrun, it is the Python of that line.
    """
    search = environment.get("PATH")
    path = shutil.which(argv[0], path=search)
    if path is None or is_python(path):
        return path
    try:
        with Path(path).open("rb") as file:
            words = file.read(_FIRST_LINE_BYTES).partition(b"\n")[0].decode(errors="replace").split()
    except OSError:
        return None
    if not words or not words[0].startswith("#!"):
        return None
    named = words[1] if words[0].endswith("/env") and len(words) > 1 else words[0].removeprefix("#!")
    return shutil.which(named, path=search) if is_python(named) else None


def versions(argv: Sequence[str], environment: Mapping[str, str], limit_s: float = LIMIT_S) -> dict[str, str]:
    """Return the versions of Python and of the libraries installed for the Python that runs ``argv``.

    What is not known is absent: libraries of other programs, and a library that is installed in two versions.
    """
    python = interpreter(argv, environment)
    if python is None:
        return {}
    try:
        names = (name for names in LIBRARIES.values() for name in names)
        done = run_tool([python, "-c", _QUERY, *names], limit_s, env=environment)
        done.check_returncode()
        language, found = typed(tuple[str, dict[str, str]], json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}
    candidates = {
        library: {found[name] for name in names if name in found} for library, names in LIBRARIES.items()
    }
    certain = {library: one.pop() for library, one in candidates.items() if len(one) == 1}
    return {"python": language, **certain}
