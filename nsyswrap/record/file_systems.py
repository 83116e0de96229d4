"""Tell network file systems from local ones, where nsys' temporary files belong."""

from __future__ import annotations

import re
from pathlib import Path

from nsyswrap.base import paths

_NETWORK = re.compile(
    r"nfs\d?|(?:lustre|gpfs|beegfs|ceph|cifs|smb|afs|panfs|wekafs)\w*|glusterfs|orangefs|pvfs2|9p|"
    r"fuse\.(?:sshfs|glusterfs|ceph|ceph-fuse|juicefs|s3fs|rclone|gcsfuse)"
)


def mounts() -> str:
    """Return the text of /proc/mounts; empty if it is not readable."""
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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
    return bool(_NETWORK.fullmatch(file_system))
