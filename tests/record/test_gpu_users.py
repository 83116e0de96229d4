"""Which processes of a run use CUDA: real processes and forks.

A file stands in for the device.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from waiting import PATIENCE_S

from nsyswrap.base.run_facts import GpuUser, gpu_users_of
from nsyswrap.record.gpu_users import GpuUsers
from nsyswrap.record.guard import MARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    UsersOf = Callable[[str, int], tuple[list[GpuUser], list[int]]]

TOKEN = "mark-of-the-test"  # noqa: S105 - the mark of a run
# {device} is the path of the stand-in. Each program prints its process ids, when all of them exist, and ends
# with its stdin.
ONLY_OPENS = "device = open({device!r})"
OPENS = ONLY_OPENS + (
    "; import mmap; context = mmap.mmap(device.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)"
)
SAYS = "print(os.getpid(), flush=True)"
FORK = """
import os, sys
{before}
child = os.fork()
if child == 0:
    {inside}
    sys.stdin.read()
    os._exit(0)
{after}
print(os.getpid(), child, flush=True)
sys.stdin.read()
"""
EXECUTE = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {inside!r} + "; import sys; sys.stdin.read()"])
print(os.getpid(), child.pid, flush=True)
sys.stdin.read()
"""
ORPHAN = """
import os, sys, time
middle = os.fork()
if middle == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.01)
        {inside}
        print(os.getppid(), os.getpid(), flush=True)
        sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""
OUTLIVES_ITS_PARENT = """
import os, sys, time
middle = os.fork()
if middle == 0:
    {before}
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.01)
        another = open(os.devnull)
        sys.stdin.read()
        os._exit(0)
    print(parent, flush=True)
    while not os.path.exists({seen!r}):
        time.sleep(0.01)
    os._exit(0)
sys.stdin.read()
"""
BACK_TO_BACK_S = 0.02
A_WHILE_S = 2.5


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "nvidia-uvm"
    path.write_text("a page")
    return path


@pytest.fixture
def users_of(device: Path) -> UsersOf:
    """Run a program of a run until ``count`` users are known, or for a while if it is 0.

    A negative count: until as many are known, and then for a while, in which there are to be no more.
    """

    def watch(program: str, count: int) -> tuple[list[GpuUser], list[int]]:
        users = GpuUsers(TOKEN, os.fspath(device))
        with started(program) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            pids = list(map(int, process.stdout.readline().split()))
            _update(users, PATIENCE_S, abs(count))
            if count <= 0:
                seen_at(device).touch()
                _update(users, A_WHILE_S, sys.maxsize)
            process.stdin.close()
        return users.users, pids

    return watch


def started(program: str) -> subprocess.Popen[bytes]:
    """Start a program of the run, whose pipes have no buffers."""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: TOKEN},
        bufsize=0,
    )


def seen_at(device: Path) -> Path:
    return device.with_name("seen")


def _update(users: GpuUsers, limit_s: float, count: int) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and len(users.users) < count:
        users.update()
        time.sleep(BACK_TO_BACK_S)


def test_a_worker_that_was_forked_without_an_exec(users_of: UsersOf, device: Path) -> None:
    program = FORK.format(before="", inside=OPENS.format(device=str(device)), after="")
    [user], [parent, child] = users_of(program, 1)
    assert (user.pid, user.parent, user.forked) == (child, parent, True)
    assert user.name.startswith("python")


def test_a_worker_that_was_executed(users_of: UsersOf, device: Path) -> None:
    [user], [parent, child] = users_of(EXECUTE.format(inside=OPENS.format(device=str(device))), 1)
    assert (user.pid, user.parent, user.forked) == (child, parent, False)


def test_a_device_that_is_opened_as_other_files_are_closed(device: Path) -> None:
    """The number of open files stays the same: mapping takes a descriptor, too."""
    opens = OPENS.format(device=str(device))
    program = (
        f"import mmap, os, sys; others = [open(os.devnull), open(os.devnull)]; {SAYS}; sys.stdin.readline()"
    )
    program += f"\nfor other in others: other.close()\n{opens}; {SAYS}; sys.stdin.read()"
    users = GpuUsers(TOKEN, os.fspath(device))
    with started(program) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        users.update()
        process.stdin.write(b"\n")
        process.stdout.readline()
        _update(users, PATIENCE_S, 1)
        process.stdin.close()
    assert [user.pid for user in users.users] == [process.pid]


def test_a_file_that_was_open_before_the_fork_is_the_parents(users_of: UsersOf, device: Path) -> None:
    program = FORK.format(before=OPENS.format(device=str(device)), inside="pass", after="")
    users, [parent, _] = users_of(program, -1)
    assert [user.pid for user in users] == [parent]
    assert users[0].forked is None  # its own parent, this test, is not of the run


def test_a_file_that_was_open_before_the_fork_stays_the_parents_when_it_ends(
    users_of: UsersOf, device: Path
) -> None:
    program = OUTLIVES_ITS_PARENT.format(before=OPENS.format(device=str(device)), seen=str(seen_at(device)))
    users, [middle] = users_of(program, -1)
    assert [user.pid for user in users] == [middle]


def test_both_used_it(users_of: UsersOf, device: Path) -> None:
    opens = OPENS.format(device=str(device))
    more = f"spare = open('/dev/null'); {opens}"  # so that the descriptors differ
    users, [parent, child] = users_of(FORK.format(before="", inside=opens, after=more), 2)
    assert {user.pid: user.forked for user in users} == {parent: None, child: True}


def test_of_an_orphan_it_is_not_known(users_of: UsersOf, device: Path) -> None:
    [user], _ = users_of(ORPHAN.format(inside=OPENS.format(device=str(device))), 1)
    assert user.forked is None


def test_processes_without_the_device_and_of_others_are_left_out(users_of: UsersOf, device: Path) -> None:
    program = FORK.format(before="", inside="pass", after="")
    with device.open():  # this process is not of the run
        users, _ = users_of(program, 0)
    assert users == []


@pytest.mark.parametrize(
    "content", [None, 3, [3], [{"pid": "1"}], [{"pid": 1, "name": "x", "parent": 1, "forked": "yes"}]]
)
def test_what_is_invalid_in_run_json_counts_as_nothing(content: object) -> None:
    assert gpu_users_of({"gpu_processes": content}) is None


def test_what_is_read_is_what_was_written() -> None:
    user = {"pid": 2, "name": "worker", "parent": 1, "forked": None}
    assert gpu_users_of({"gpu_processes": [user]}) == [GpuUser(2, "worker", 1, None)]
    assert gpu_users_of({}) is None
    assert gpu_users_of({"gpu_processes": []}) == []


def test_a_program_that_uses_nvml_only(users_of: UsersOf, device: Path) -> None:
    """NVML opens the device, too, but does not map it."""
    program = FORK.format(before="", inside=ONLY_OPENS.format(device=str(device)), after="")
    assert users_of(program, 0)[0] == []


def test_a_context_that_is_made_after_the_device_was_opened(users_of: UsersOf, device: Path) -> None:
    opens, maps = OPENS.format(device=str(device)).split("; ", 1)
    inside = f"{opens}; import time; time.sleep(1.5); {maps}"
    [user], [_, child] = users_of(FORK.format(before="", inside=inside, after=""), 1)
    assert user.pid == child
