"""Find an nsys that works; for one that does not, say what is missing and how to repair it.

Some installations can record but make no report. nsys needs its importer in a ``host-linux-*`` folder beside
the real ``target-linux-*`` folder, and the importer's libraries. So the files of each candidate are checked.
The result for an nsys that works is cached until its files change.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nsyswrap.base import paths, settings
from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.files import read_json, write
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.base.run_tool import fault_of, run_tool

VARIABLE = "NSYSWRAP_NSYS"
_SITE = "https://developer.nvidia.com/nsight-systems"
DISCARD_ENVIRONMENT = "--discard-environment"
PLACES = (
    "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems*/bin/nsys",
    "/usr/local/cuda*/nsight-systems-*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/lib/*-linux-gnu/nsight-systems/target-linux-*/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
)
DEBIAN_HOST = Path("/usr/lib/nsight-systems")  # Debian has the importer here
_ELF = b"\x7fELF"
_TIMEOUT_S = 20
_MOST_BYTES = 4 << 20  # of an answer; the longest help has 60 kB


@dataclass(frozen=True)
class Nsys:
    """One nsys: ``path`` as found, its version, its fault and the cure (both empty: it is usable).

    ``discards_environment``: it can leave the environment out of a recording. ``gpu_metrics`` samples the
    counters of the GPUs that the program sees, in older versions of all.
    """

    path: str
    version: str
    fault: str = ""
    cure: str = ""
    discards_environment: bool = False
    gpu_metrics: str = "--gpu-metrics-device=all"

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers that can be compared: (2025, 3, 1)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])


def find_nsys(explicit: str | None = None) -> tuple[Nsys, list[Nsys]]:
    """Return the nsys to use, and the broken ones that were passed over.

    An nsys named by ``explicit``, ``$NSYSWRAP_NSYS`` or the user's settings must work. Without one, the first
    usable nsys on PATH and in the usual places is taken. Raises Unavailable with the cure.
    """
    nsys_named, source = named(explicit)
    if nsys_named:
        executable = shutil.which(nsys_named)
        if executable is None:
            raise Unavailable(
                f"{source} names {nsys_named}, which is not an executable",
                "give the path of an nsys executable",
            )
        nsys = judge(Path(executable))
        if nsys.fault:
            raise Unavailable(f"{nsys.path}: {nsys.fault}", nsys.cure)
        return nsys, []
    broken: list[Nsys] = []
    for path in candidates():
        nsys = judge(path)
        if not nsys.fault:
            return nsys, broken
        broken.append(nsys)
    if broken:
        raise Unavailable(f"{broken[0].path}: {broken[0].fault}", broken[0].cure)
    raise Unavailable(
        "nsys was not found on PATH or in the usual places",
        f"install NVIDIA Nsight Systems ({_SITE}), or name its nsys in ${VARIABLE}; nsyswrap demo needs none",
    )


def named(explicit: str | None = None) -> tuple[str, str]:
    """Return the nsys that the user named, and where; empty texts if there is none. Raises UsageError."""
    if explicit:
        return explicit, "--nsys"
    if variable := os.environ.get(VARIABLE):
        return variable, f"${VARIABLE}"
    return settings.nsys_path() or ("", "")


def newest(explicit: str | None = None) -> Nsys:
    """Return the newest usable nsys: an older one cannot read the report of a newer one.

    Raises Unavailable if there is none.
    """
    if named(explicit)[0]:
        return find_nsys(explicit)[0]
    usable = [nsys for nsys in map(judge, candidates()) if not nsys.fault]
    return max(usable, key=lambda nsys: nsys.release) if usable else find_nsys()[0]


def candidates() -> Iterator[Path]:
    """Yield every nsys on PATH, then those in the usual places, newest folder first; each real file once."""
    seen: set[Path] = set()
    on_path = [Path(folder) / "nsys" for folder in os.get_exec_path()]
    placed = [
        path for place in PLACES for path in sorted(_matching("/", place[1:]), key=_by_version, reverse=True)
    ]
    for path in on_path + placed:
        if os.access(path, os.X_OK) and paths.is_file(path) and (real := paths.real(path)) not in seen:
            seen.add(real)
            yield path


def _matching(folder: Path | str, pattern: str) -> Iterator[Path]:
    """Yield what matches where one may look: nsys cannot be run from anywhere else."""
    return paths.matching(folder, pattern, skip=paths.ignore)


def judge(path: Path) -> Nsys:
    """Check the files of an nsys; the result for a usable one is cached until one of them changes."""
    real = paths.real(path)
    key = f"{real} {' '.join(map(_changed, (real, *_parts(real))))}"
    store = _cache_file()
    verdicts = _read_verdicts(store)
    if key in verdicts:
        return Nsys(**{**verdicts[key], "path": str(path)})
    nsys = _examine(path, real)
    if not nsys.fault:
        usage, _ = _output([str(path), "profile", "--help"], dict(os.environ))
        nsys = replace(nsys, discards_environment=DISCARD_ENVIRONMENT in usage)
        # How it is spelled depends on the version.
        if option := re.search(r"--gpu-metrics-devices?\b", usage):
            devices = "cuda-visible" if "cuda-visible" in usage else "all"
            nsys = replace(nsys, gpu_metrics=f"{option[0]}={devices}")
        # A fault is not cached: its cure, such as installing a library, may change none of these files.
        _write_verdicts(store, {**verdicts, key: asdict(nsys)})
    return nsys


def _examine(path: Path, real: Path) -> Nsys:
    try:
        with real.open("rb") as file:
            is_script = file.read(4) != _ELF
    except OSError as error:
        return Nsys(
            str(path), "", f"it cannot be read: {error.strerror}", shlex.join(["ls", "-l", str(real)])
        )
    answer, fault = _output([str(path), "--version"], dict(os.environ))
    found = re.search(r"\d{4}\.\d+\.\d+(\.\d+)?", answer)
    if not found:
        again = "install NVIDIA Nsight Systems again"
        return Nsys(str(path), "", f"`nsys --version` {fault or 'does not answer'}", again)
    version = found.group()
    if is_script:  # CUDA's bin/nsys is a wrapper that selects a version: its files are unknown
        return Nsys(str(path), version)
    target, host = real.parent, _host(real)
    if host is None:
        return Nsys(str(path), version, *_missing_host(target))
    missing = _missing_libraries(host)
    if missing:
        return Nsys(
            str(path),
            version,
            f"its importer lacks {', '.join(missing)}",
            "sudo apt-get install libdw1 libssh-4 libpfm4 libelf1  # Debian, Ubuntu",
        )
    return Nsys(str(path), version)


def importer(nsys_path: str) -> Path | None:
    """Return the importer of an nsys; None if it is not beside it, as with CUDA's wrapper script."""
    host = host_folder(nsys_path)
    return host / "QdstrmImporter" if host else None


def host_folder(nsys_path: str) -> Path | None:
    """Return the folder of an nsys that has its importer; None if it is not beside it."""
    return _host(paths.real(nsys_path))


def _missing_host(target: Path) -> tuple[str, str]:
    """Return fault and cure of an nsys without importer, which Debian and Nsight Compute have elsewhere."""
    name = target.name.replace("target-", "host-")
    fault = f"it records but cannot make a report: no {name} folder with QdstrmImporter beside {target}"
    elsewhere = [*_matching(DEBIAN_HOST, "host-linux-*"), *_matching(target.parent, "linux-desktop-*")]
    if not elsewhere:
        return fault, "install the whole Nsight Systems package (the importer is in its host part)"
    if target.parent.name == "nsight-systems":  # Debian
        return fault, f"ln -s {elsewhere[0]} {target.parent / name}"
    return fault, (
        f"mkdir -p ~/nsight-systems && cp -a {target} ~/nsight-systems/ && "
        f"cp -a {elsewhere[0]} ~/nsight-systems/{name} && "
        f"export {VARIABLE}=~/nsight-systems/{target.name}/nsys"
    )


def _host(real: Path) -> Path | None:
    host = real.parent.parent / real.parent.name.replace("target-", "host-")
    return host if os.access(host / "QdstrmImporter", os.F_OK) and host != real.parent else None


def _parts(real: Path) -> list[Path]:
    host = _host(real)
    return [host, host / "QdstrmImporter"] if host else []


def _changed(path: Path) -> str:
    facts = paths.status(path)
    return str(facts.st_mtime_ns) if facts else "missing"


def _missing_libraries(host: Path) -> list[str]:
    ldd = shutil.which("ldd")
    if ldd is None:
        return []
    environment = {**os.environ, "LD_LIBRARY_PATH": str(host)}
    libraries, _ = _output([ldd, str(host / "QdstrmImporter")], environment)
    return re.findall(r"^\s*(\S+) => not found", libraries, re.MULTILINE)


def _output(command: list[str], environment: dict[str, str]) -> tuple[str, str]:
    """Return what a tool prints on stdout, and why it gave no answer."""
    try:
        return run_tool(command, _TIMEOUT_S, env=environment, most=_MOST_BYTES).stdout, ""
    except (OSError, subprocess.SubprocessError) as error:
        return "", fault_of(error)


def _by_version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(path)))


def _cache_file() -> Path | None:
    try:
        return cache_dir() / "nsys-3.json"  # the number changes with the format
    except OutputError:  # no cache folder: check again each time
        return None


def _read_verdicts(store: Path | None) -> dict[str, dict[str, Any]]:
    try:
        verdicts = read_json(store) if store else {}
    except (OSError, ValueError):
        return {}
    return verdicts if isinstance(verdicts, dict) else {}


def _write_verdicts(store: Path | None, verdicts: dict[str, dict[str, Any]]) -> None:
    if store is None:
        return
    with suppress(OutputError):
        write(store, json.dumps(verdicts, indent=1))
