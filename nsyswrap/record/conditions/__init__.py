"""Note the conditions of a run: its GPUs while it runs, the machine, the program's versions and commit.

This file has the facts on the machine (node, CPU, usable cores, frequency governor, load, file systems), the
Python that runs a program, and the versions of the libraries installed for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.files import head, typed
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import is_python
from nsyswrap.base.run_tool import run_tool
from nsyswrap.record import proc

with lazy_imports():  # used when the program has ended
    from nsyswrap.base import run_facts

CPUS = Path("/sys/devices/system/cpu")
CPU_INFO = Path("/proc/cpuinfo")
_NETWORK = (
    r"nfs\d?|(?:lustre|gpfs|beegfs|ceph|cifs|smb|afs|panfs|wekafs)\w*|glusterfs|orangefs|pvfs2|9p|"
    r"fuse\.(?:sshfs|glusterfs|ceph|ceph-fuse|juicefs|s3fs|rclone|gcsfuse)"
)
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
import importlib.util
import json
import pathlib
import re
from importlib import metadata
versions = {}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
try:
    folder = pathlib.Path(importlib.util.find_spec("torch").origin).parent
    with open(folder / "version.py", encoding="utf-8") as file:
        built = file.read(10000)
except (AttributeError, OSError, TypeError, ValueError):
    built = ""
lacks_cuda = re.search("(?m)^cuda *(:.*)?= *None", built) and not re.search("(?m)^hip *(:.*)?= *[^N ]", built)
print(json.dumps([sys.version.split()[0], versions, bool(lacks_cuda)]))
"""


def load_average() -> tuple[float, ...]:
    """Return the 1-minute load average; empty if it is not known."""
    with suppress(OSError):
        return (round(os.getloadavg()[0], 2),)
    return ()


def describe_host(load_before: tuple[float, ...]) -> run_facts.Host:
    """Return the facts on this machine after a run."""
    cores = os.sched_getaffinity(0)
    nodes = set()
    for core in cores:
        found = paths.matching(CPUS / f"cpu{core}", "node[0-9]*", paths.ignore)
        nodes |= {int(number) for path in found if (number := path.name.removeprefix("node")).isdecimal()}
    governors = {proc.text(f"{CPUS}/cpu{core}/cpufreq/scaling_governor").strip() for core in cores}
    return run_facts.Host(
        node=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        cpu=cpu_model(proc.text(str(CPU_INFO))),
        cores=len(cores),
        governor=", ".join(sorted(governors - {""})),
        load=(*load_before, *load_average()),
        machine_cores=os.cpu_count(),
        numa_nodes=tuple(sorted(nodes)),
    )


def cpu_model(cpu_info: str) -> str:
    """Return the model in the text of ``/proc/cpuinfo``; empty if it is missing, for example on ARM."""
    model = re.search(r"(?m)^model name\s*:\s*(.+?)\s*$", cpu_info)
    return model[1] if model else ""


def mounts() -> str:
    """Return the text of /proc/mounts; empty if it is not readable."""
    return proc.text("/proc/mounts")


def file_system_of(path: Path, mounted: str) -> str:
    """Return the type of the file system of a path, by the text of ``mounts``; empty if not known."""
    types = {}
    for line in mounted.splitlines():
        _, point, kind, *_ = (*line.split(" "), "", "", "")
        types[re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point)] = kind
    real = paths.real(path)
    return next((types[str(parent)] for parent in (real, *real.parents) if str(parent) in types), "")


def is_network(file_system: str) -> bool:
    """Return True if a file system of this type is on the network, so that several machines can share it."""
    return bool(re.fullmatch(_NETWORK, file_system))


def interpreter(argv: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the path of the Python that runs a command line; None if it is not known to be one.

    For a script with ``#!``, for example torchrun, it is the Python of that line.
    """
    search = environment.get("PATH")
    path = shutil.which(argv[0], path=search)
    return path if path is None or is_python(path) else shebang(Path(path), search)


def shebang(script: Path, search: str | None) -> str | None:
    """Return the path of the Python in the first line of a script; None if it names none that is there."""
    try:
        words = head(script, _FIRST_LINE_BYTES).partition(b"\n")[0].decode(errors="replace").split()
    except OSError:
        return None
    if not words or not words[0].startswith("#!"):
        return None
    named = words[1] if words[0].endswith("/env") and len(words) > 1 else words[0].removeprefix("#!")
    return shutil.which(named, path=search) if is_python(named) else None


def versions(argv: Sequence[str], environment: Mapping[str, str], limit_s: float = LIMIT_S) -> dict[str, str]:
    """Return the versions of Python and of the libraries installed for the Python that runs ``argv``.

    What is not known is absent: libraries of other programs, and a library that is installed in two versions.
    A PyTorch without CUDA and ROCm has the ending ``+cpu``, as most of these builds write it themselves.
    """
    python = interpreter(argv, environment)
    if python is None:
        return {}
    try:
        names = (name for names in LIBRARIES.values() for name in names)
        done = run_tool([python, "-c", _QUERY, *names], limit_s, env=environment)
        done.check_returncode()
        answer = json.loads(done.stdout.splitlines()[-1])
        language, found, lacks_cuda = typed(tuple[str, dict[str, str], bool], answer)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}
    candidates = {
        library: {found[name] for name in names if name in found} for library, names in LIBRARIES.items()
    }
    certain = {library: one.pop() for library, one in candidates.items() if len(one) == 1}
    if lacks_cuda and "+" not in certain.get("torch", "+"):
        certain["torch"] += "+cpu"
    return {"python": language, **certain}
