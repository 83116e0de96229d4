"""Which OS calls count as waiting, and in which gaps."""

from pathlib import Path

import pytest
from advised import context_of, launched, looped, new
from tiny_export import OSRT, Row, on_cpu

from nsyswrap.analysis.advice.host import waits_in_host_code


def waits(folder: Path, *rows: Row) -> list[int] | None:
    """The waits in the gaps of the three steady steps, each [0, 400) of 1000 ns."""
    found = waits_in_host_code(context_of(new(folder, *looped(*launched(400, host=390), *rows))))
    return None if found is None else found.tolist()


WAITS = (
    *("poll", "ppoll", "select", "epoll_wait", "pthread_cond_timedwait", "sem_wait", "futex", "read"),
    *("recvmsg", "nanosleep", "waitpid", "sched_yield", "pthread_mutex_lock", "pthread_join", "fread"),
)


@pytest.mark.parametrize("name", WAITS)
def test_calls_that_wait(name: str, tmp_path: Path) -> None:
    assert waits(tmp_path, on_cpu(OSRT, name, 100, 150)) == [50] * 3


@pytest.mark.parametrize("name", ["write", "mmap", "pthread_create", "ioctl", "poll_something", "open64"])
def test_calls_that_work(name: str, tmp_path: Path) -> None:
    assert waits(tmp_path, on_cpu(OSRT, name, 100, 150)) == [0] * 3


def test_waits_count_once_and_inside_the_gap(tmp_path: Path) -> None:
    nested = [on_cpu(OSRT, "poll", 300, 500), on_cpu(OSRT, "futex", 350, 380)]
    assert waits(tmp_path, *nested) == [100] * 3


def test_another_thread_waits_for_itself(tmp_path: Path) -> None:
    assert waits(tmp_path, on_cpu(OSRT, "poll", 100, 150, tid=101)) == [0] * 3


def test_os_calls_that_are_not_traced_are_not_known(tmp_path: Path) -> None:
    assert waits(tmp_path) is None
