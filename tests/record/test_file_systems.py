"""Which folders are on a network file system, by /proc/mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsyswrap.record.conditions import file_system_of, is_network, mounts

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/a\\040b xfs rw 0 0
tmpfs /home/me/scratch tmpfs rw 0 0
beegfs_nodev /data beegfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind", "shared"),
    [
        ("/scratch/x", "ext4", False),
        ("/home/me", "nfs4", True),
        ("/home/a b/x", "xfs", False),
        ("/homes", "ext4", False),
        ("/home/me/scratch/x", "tmpfs", False),
        ("/data/a", "beegfs", True),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str, *, shared: bool) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind
    assert file_system_of(Path(path), "") == ""
    assert is_network(kind) is shared


@pytest.mark.parametrize(
    ("kind", "shared"), [("fuse.sshfs", True), ("fuse.fuse-overlayfs", False), ("", False)]
)
def test_which_fuse_is_on_the_network(kind: str, *, shared: bool) -> None:
    assert is_network(kind) is shared


def test_the_root_of_this_machine_is_mounted() -> None:
    assert file_system_of(Path("/"), mounts())
