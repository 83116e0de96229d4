"""Finding an nsys that works: where it lies, whether its parts are there, and the cure where they are not.

An nsys can record and then leave no report: it needs its importer in a ``host-linux-*`` folder beside the
real ``target-linux-*`` one, and the importer's libraries. So candidates are judged by their files, not by
what they say; that one works is remembered until its files change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.run_folder import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "NSYSWRAP_NSYS"
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
DEBIAN_HOST = Path("/usr/lib/nsight-systems")  # where Debian puts the half that makes reports
_ELF = b"\x7fELF"
_TIMEOUT_S = 20


@dataclass(frozen=True)
class Nsys:
    """One nsys: ``path`` as found, its version, and what it lacks (``fault`` and ``cure``; empty: usable).

    ``discards_environment``: it can keep the environment out of what it records.
    """

    path: str
    version: str
    fault: str = ""
    cure: str = ""
    discards_environment: bool = False

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, for comparing: (2025, 3, 1)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])


def find(explicit: str | None = None) -> tuple[Nsys, list[Nsys]]:
    """Return the nsys to use and the broken ones that stood before it.

    One named by ``explicit`` or ``$NSYSWRAP_NSYS`` has to work; else the first usable one of PATH and the
    usual places is taken. Raises Unavailable with the cure.
    """
    named = explicit or os.environ.get(VARIABLE)
    if named:
        nsys = judge(_named(named, "--nsys" if explicit else f"${VARIABLE}"))
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
        f"install NVIDIA Nsight Systems, or name its nsys in ${VARIABLE}",
    )


def newest(explicit: str | None = None) -> Nsys:
    """Return the newest usable nsys: an older one cannot read a newer one's report."""
    if explicit or os.environ.get(VARIABLE):
        return find(explicit)[0]
    usable = [nsys for nsys in map(judge, candidates()) if not nsys.fault]
    return max(usable, key=lambda nsys: nsys.release) if usable else find()[0]


def candidates() -> Iterator[Path]:
    """Every nsys on PATH, then in the usual places with the newest folder first; each real file once."""
    seen: set[Path] = set()
    on_path = [Path(folder) / "nsys" for folder in os.get_exec_path()]
    placed = [
        path for place in PLACES for path in sorted(Path("/").glob(place[1:]), key=_by_version, reverse=True)
    ]
    for path in on_path + placed:
        if os.access(path, os.X_OK) and path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def judge(path: Path) -> Nsys:
    """Say whether this nsys can work, from its files; that it can is remembered until one of them changes."""
    real = path.resolve()
    key = f"{real} {' '.join(str(p.stat().st_mtime_ns) for p in (real, *_parts(real)))}"
    store = _cache_file()
    verdicts = _read_verdicts(store)
    if key in verdicts:
        return Nsys(**{**verdicts[key], "path": str(path)})
    nsys = _examine(path, real)
    if not nsys.fault:
        said = _output([str(path), "profile", "--help"], dict(os.environ))
        nsys = replace(nsys, discards_environment=DISCARD_ENVIRONMENT in said)
        # A fault is not kept: its cure (a library installed) need not change any of these files.
        _write_verdicts(store, {**verdicts, key: asdict(nsys)})
    return nsys


def _examine(path: Path, real: Path) -> Nsys:
    with real.open("rb") as file:
        is_script = file.read(4) != _ELF
    version = _version(path)
    if not version:
        return Nsys(str(path), "", "`nsys --version` does not answer", "install NVIDIA Nsight Systems again")
    if is_script:  # CUDA's bin/nsys is a wrapper that picks a version: its files cannot be judged from here
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
            "install the Debian/Ubuntu packages that hold them (libdw1, libssh-4, libpfm4, libelf1)",
        )
    return Nsys(str(path), version)


def importer(nsys_path: str) -> Path | None:
    """Return the importer of an nsys; None where it does not lie beside it, as for CUDA's wrapper script."""
    host = _host(Path(nsys_path).resolve())
    return host / "QdstrmImporter" if host else None


def _missing_host(target: Path) -> tuple[str, str]:
    """Name where Debian and Nsight Compute put the importer instead, and how to bring both together."""
    name = target.name.replace("target-", "host-")
    fault = f"it records but cannot make a report: no {name} folder with QdstrmImporter beside {target}"
    elsewhere = [
        *DEBIAN_HOST.glob("host-linux-*"),
        *target.parent.glob("linux-desktop-*"),
    ]
    if not elsewhere:
        return fault, "install the whole Nsight Systems package (the importer is in its host part)"
    if target.parent.name == "nsight-systems":  # Debian's split folders
        return fault, f"ln -s {elsewhere[0]} {target.parent / name}"
    return fault, (
        f"mkdir -p ~/nsight-systems && cp -a {target} ~/nsight-systems/ && "
        f"cp -a {elsewhere[0]} ~/nsight-systems/{name}, "
        f"then set {VARIABLE}=~/nsight-systems/{target.name}/nsys"
    )


def _host(real: Path) -> Path | None:
    host = real.parent.parent / real.parent.name.replace("target-", "host-")
    return host if (host / "QdstrmImporter").exists() and host != real.parent else None


def _parts(real: Path) -> list[Path]:
    host = _host(real)
    return [host, host / "QdstrmImporter"] if host else []


def _missing_libraries(host: Path) -> list[str]:
    ldd = shutil.which("ldd")
    if ldd is None:
        return []
    environment = {**os.environ, "LD_LIBRARY_PATH": str(host)}
    said = _output([ldd, str(host / "QdstrmImporter")], environment)
    return re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE)


def _version(path: Path) -> str:
    found = re.search(r"\d{4}\.\d+\.\d+(\.\d+)?", _output([str(path), "--version"], dict(os.environ)))
    return found.group() if found else ""


def _output(command: list[str], environment: dict[str, str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _named(value: str, source: str) -> Path:
    found = shutil.which(value)
    if found is None:
        raise Unavailable(
            f"{source} names {value}, which is no executable", "give the path of an nsys executable"
        )
    return Path(found)


def _by_version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(path)))


def _cache_file() -> Path | None:
    try:
        return cache_dir() / "nsys-2.json"  # the number goes up with what is kept of each
    except OutputError:  # no cache folder: judge again each time
        return None


def _read_verdicts(store: Path | None) -> dict[str, dict[str, Any]]:
    try:
        verdicts = json.loads(store.read_text(encoding="utf-8")) if store else {}
    except (OSError, ValueError):
        return {}
    return verdicts if isinstance(verdicts, dict) else {}


def _write_verdicts(store: Path | None, verdicts: dict[str, dict[str, Any]]) -> None:
    if store is None:
        return
    part = store.with_suffix(f".{os.getpid()}")
    try:
        part.write_text(json.dumps(verdicts, indent=1), encoding="utf-8")
        part.replace(store)
    except OSError:
        part.unlink(missing_ok=True)
