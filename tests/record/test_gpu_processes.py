"""Which processes on a GPU belong to the run, with real processes and ids as NVML lists them."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import wait_until

from nsyswrap.base.run_facts import GpuProcess
from nsyswrap.record import guard, proc
from nsyswrap.record.conditions import observer
from nsyswrap.record.conditions.observer import Processes

TOKEN = uuid.uuid4().hex
MISSING = 2**22 + 7  # above the greatest process id of Linux
PARENT = "import subprocess; child = subprocess.Popen(['sleep', '600'], env={}); print(child.pid, flush=True)"


@pytest.fixture(autouse=True)
def in_the_first_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As outside of containers, wherever the tests run."""
    monkeypatch.setattr(observer, "_FIRST_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)


@contextmanager
def sleeping(token: str = "") -> Iterator[int]:
    marked = {**os.environ, guard.MARK: token} if token else None
    with subprocess.Popen(["sleep", "600"], env=marked) as process:
        try:
            # The new program runs, and Linux has not yet said where its environment is.
            wait_until(lambda: proc.environment(process.pid))
            yield process.pid
        finally:
            process.kill()


def test_processes_of_the_run_and_others() -> None:
    noted = Processes(TOKEN)
    with sleeping() as other, sleeping(TOKEN) as ours, sleeping(uuid.uuid4().hex) as of_another_run:
        noted.note([[other]], before_program=True)
        noted.note([[other, ours, of_another_run]], before_program=False)
    assert noted.of_gpu(0) == (
        GpuProcess(other, "sleep", in_run=False, began_before=True),
        GpuProcess(ours, "sleep", in_run=True),
        GpuProcess(of_another_run, "sleep", in_run=False),
    )


def test_a_child_without_the_mark_belongs_to_the_run() -> None:
    noted = Processes(TOKEN)
    command = [sys.executable, "-c", f"{PARENT}; child.wait()"]
    marked = {**os.environ, guard.MARK: TOKEN}
    with subprocess.Popen(command, env=marked, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        wait_until(lambda: proc.name(child) == "sleep")
        noted.note([[child]], before_program=False)
        os.kill(child, signal.SIGKILL)
    assert noted.of_gpu(0) == (GpuProcess(child, "sleep", in_run=True),)


def test_a_process_on_two_gpus_is_one_process() -> None:
    noted = Processes(TOKEN)
    with sleeping(TOKEN) as ours, sleeping() as other:
        noted.note([[], [ours]], before_program=False)
        noted.note([[ours, other], [ours]], before_program=False)
    assert noted.of_gpu(0) == (
        GpuProcess(ours, "sleep", in_run=True),
        GpuProcess(other, "sleep", in_run=False),
    )
    assert noted.of_gpu(1) == (GpuProcess(ours, "sleep", in_run=True),)


def test_a_process_that_is_not_visible_here_is_not_judged() -> None:
    noted = Processes(TOKEN)
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        noted.note([[MISSING, ended.pid]], before_program=True)
    assert set(noted.of_gpu(0)) == {
        GpuProcess(MISSING, began_before=True),
        GpuProcess(ended.pid, began_before=True),
    }


def test_in_a_container_a_process_without_a_gpu_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id of the machine can be that of another process here."""
    monkeypatch.setattr(observer, "_FIRST_NAMESPACE", 0)
    noted = Processes(TOKEN)
    with sleeping() as unrelated:
        noted.note([[unrelated]], before_program=False)
    assert noted.of_gpu(0) == (GpuProcess(unrelated),)


def test_a_process_that_is_known_is_not_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Processes(TOKEN)
    with sleeping() as other:
        noted.note([[other]], before_program=False)
        monkeypatch.setattr(proc, "name", lambda _: pytest.fail("it was looked up"))
        noted.note([[other, MISSING]], before_program=False)
    assert [process.pid for process in noted.of_gpu(0)] == [other, MISSING]
