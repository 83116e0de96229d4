"""Check every nsys on this machine: which one is used, and does it work."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.check import Check
from nsyswrap.base.errors import NsyswrapError
from nsyswrap.base.nsys import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.base.nsys.find import Nsys
from nsyswrap.base.run_tool import run_tool

# Release -> what it does wrong.
KNOWN_FAULTS: dict[tuple[int, ...], str] = {
    (2022, 4, 2): "it hangs if it samples the CPU, which nsyswrap switches off",
    (2023, 4, 4): "its tables during a run omit NVTX and OS runtime events; `nsyswrap report` has them",
    (2024, 2, 3): "its tables during a run omit NVTX and OS runtime events; `nsyswrap report` has them",
}
_RENAMED = (2023, 1)  # nsys 2022 calls nvtx_sum nvtxsum
_DEBIAN_PYTHON = Path("/usr/lib/python3/dist-packages")  # Debian has the modules of the reports here
_MODULES = ("nsysstats.py", "gpustats.py")
_TIMEOUT_S = 20
_INSTALL = "apt-cache search nsight-systems  # install one, or: export NSYSWRAP_NSYS=/path/to/nsys"


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


def gather() -> Installations:
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
            done = run_tool(command, _TIMEOUT_S)
    except (OSError, sqlite3.Error, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def checks(found: Installations) -> Iterator[Check]:
    """Yield the checks of the nsys that is used, then one for every other nsys."""
    if found.used is None:
        yield Check("problem", "nsys", found.fault, found.cure if found.named or found.others else _INSTALL)
    else:
        reason = f"named by {found.named}" if found.named else "the first that works"
        yield Check("ok", "nsys", f"{found.used.version} at {found.used.path}, {reason}")
        yield _importer(found.used)
        yield _stats(found.used, found.stats_output)
        if fault := KNOWN_FAULTS.get(found.used.release):
            yield Check("note", "known fault", f"nsys {found.used.version}: {fault}")
    for nsys in found.others:
        if found.fault != f"{nsys.path}: {nsys.fault}":
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
