"""What doctor says of the system: made-up facts, and faults that this machine can be given."""

import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nsyswrap.base.check import Check
from nsyswrap.record.doctor import system
from nsyswrap.record.doctor.system import Folder, System, checks, gather

SHM = str(system.SHARED_MEMORY)
GOOD = System(
    Folder("/scratch", "", int(50e9), "ext4"),
    Folder(SHM, "", int(8e9), "tmpfs"),
    capabilities=0,
    paranoid=2,
    kernel="Linux version 6.18.44",
)


def check(subject: str, found: System) -> Check:
    [one] = [check for check in checks(found) if check.subject == subject]
    return one


def test_a_good_machine() -> None:
    assert {check.level for check in checks(GOOD)} == {"ok"}
    assert check("TMPDIR", GOOD).text == "50.0 GB free at /scratch"


def test_this_machine_can_be_read() -> None:
    assert {"TMPDIR", "loopback", "container", "CPU sampling"} <= {
        check.subject for check in checks(gather())
    }


@pytest.mark.parametrize(
    ("folder", "level", "words"),
    [
        (Folder("/scratch", "", int(1e9), "ext4"), "note", "long recordings need more"),
        (Folder("/scratch", "", int(1e6), "ext4"), "problem", "only 0.0 GB free"),
        (Folder("/scratch", "Read-only file system"), "problem", "cannot be written: Read-only file system"),
        (Folder("/scratch", "", int(50e9), "nfs4"), "note", "network file system (nfs4)"),
        (Folder("/scratch", "", int(50e9), "lustre"), "note", "network file system (lustre)"),
        (Folder("/scratch", "", int(50e9), "fuse.sshfs"), "note", "network file system (fuse.sshfs)"),
        (Folder("/scratch", "", int(50e9), "overlay"), "ok", "50.0 GB"),
    ],
)
def test_the_folder_for_temporary_files(folder: Folder, level: str, words: str) -> None:
    one = check("TMPDIR", replace(GOOD, temporary=folder, elsewhere="/other"))
    assert one.level == level
    assert words in one.text
    assert (one.cure == "export TMPDIR=/other") == (level == "problem")


def test_a_folder_that_is_missing_and_one_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    found = gather()
    assert found.temporary == Folder(str(tmp_path / "none"), "No such file or directory")
    assert found.elsewhere
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert gather().temporary.error == ""
    assert list(tmp_path.iterdir()) == []


def no_such_user(_: int) -> None:
    raise KeyError


@pytest.mark.parametrize("has_home", [True, False])
def test_other_folders_from_a_deleted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_home: bool
) -> None:
    """No folder has room, and a user without a home is made up."""
    monkeypatch.setattr(system, "_has_room", lambda _: False)
    if not has_home:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert system._elsewhere() == ""  # noqa: SLF001


PROBLEMS = "print([(c.subject, c.text) for c in checks(gather()) if c.level == 'problem'])"


def unshared(tmp_path: Path, setup: str, *options: str, code: str = PROBLEMS) -> str:
    """Return what ``code`` prints, such as the problems, after ``setup`` in namespaces of its own."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, *options, "true"], check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    code = f"from nsyswrap.record.doctor.system import *\n{code}"
    script = f'{setup}\nexec "{sys.executable}" -c "{code}"'
    done = subprocess.run(
        [unshare, *options, "sh", "-ec", script],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_full_disk(tmp_path: Path) -> None:
    fill = f'mount -t tmpfs -o size=64k tmpfs "{tmp_path}"; head -c 64k /dev/zero > "{tmp_path}/x" || true'
    assert unshared(tmp_path, fill, "-m") == str(
        [("TMPDIR", f"{tmp_path} cannot be written: No space left on device")]
    )


def test_no_loopback(tmp_path: Path) -> None:
    assert unshared(tmp_path, "", "-n") == str([("loopback", "127.0.0.1: Network is unreachable")])


def test_shared_memory_that_cannot_be_written(tmp_path: Path) -> None:
    said = unshared(tmp_path, "mount -t tmpfs -o ro tmpfs /dev/shm", "-m")
    assert said == str([(SHM, "cannot be written: Read-only file system")])
    shm = replace(GOOD, shared_memory=Folder(SHM, "No such file or directory"))
    assert check(SHM, shm).cure.startswith("sudo mount -t tmpfs")
    assert check(SHM, replace(shm, container="Docker")).cure == "docker run --shm-size=1g IMAGE"


@pytest.mark.parametrize(
    ("container", "capabilities", "level"),
    [("", 0, "ok"), ("Docker", 0, "note"), ("Docker", 1 << 21, "ok"), ("Podman", None, "note")],
)
def test_rights_in_a_container(container: str, capabilities: int | None, level: str) -> None:
    found = replace(GOOD, container=container, capabilities=capabilities)
    one = check("container", found)
    assert (one.level, "seccomp" in one.text) == (level, False)
    assert ("seccomp" in check("container", replace(found, filtered=True)).text) == bool(container)


ALL_RIGHTS = "Name:\tpython\nCapEff:\t000001ffffffffff\n"


@pytest.mark.parametrize(
    ("status", "uid_map", "capabilities"),
    [
        (ALL_RIGHTS, "         0          0 4294967295\n", (1 << 41) - 1),
        (ALL_RIGHTS, "", (1 << 41) - 1),  # a kernel without user namespaces
        (ALL_RIGHTS, "         0       1000          1\n", 0),
        (ALL_RIGHTS, "0 1000 1\n1 100000 65536\n", 0),
        ("", "0 0 4294967295\n", None),
    ],
)
def test_capabilities_of_a_user_namespace_do_not_count(
    status: str, uid_map: str, capabilities: int | None
) -> None:
    assert system.host_capabilities(status, uid_map) == capabilities


def test_a_user_namespace_has_no_rights(tmp_path: Path) -> None:
    assert unshared(tmp_path, "", "-r", code="print(gather().may_profile_system)") == "False"


@pytest.mark.parametrize(
    ("environment", "container"),
    [
        ({"APPTAINER_CONTAINER": "/x.sif"}, "Apptainer"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes"),
    ],
)
def test_the_kind_of_container(environment: dict[str, str], container: str) -> None:
    assert system.container_kind(environment) == container


@pytest.mark.parametrize(
    ("paranoid", "capabilities", "level"),
    [(-1, 0, "ok"), (2, 0, "ok"), (4, 0, "note"), (4, 1 << 38, "ok"), (None, 0, "note")],
)
def test_cpu_sampling_is_never_a_problem(paranoid: int | None, capabilities: int, level: str) -> None:
    one = check("CPU sampling", replace(GOOD, paranoid=paranoid, capabilities=capabilities))
    assert one.level == level
    assert (one.cure == "sudo sysctl kernel.perf_event_paranoid=2") == (paranoid == 4 and level == "note")


@pytest.mark.parametrize(
    ("capabilities", "paranoid", "words"),
    [
        (0, 2, "possibly blocked by the seccomp filter"),
        (0, 4, "not allowed (perf_event_paranoid is 4)"),
        (1 << 38, 2, "allowed (perf_event_paranoid is 2)"),
    ],
)
def test_cpu_sampling_behind_a_seccomp_filter(capabilities: int, paranoid: int, words: str) -> None:
    found = replace(GOOD, capabilities=capabilities, paranoid=paranoid, filtered=True)
    assert check("CPU sampling", found).text.startswith(words)


def test_wsl2() -> None:
    kernel = "Linux version 5.15.90.1-microsoft-standard-WSL2"
    assert check("WSL2", replace(GOOD, kernel=kernel)).level == "note"
