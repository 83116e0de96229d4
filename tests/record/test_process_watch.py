"""How a run is waited for: signals that come late, on a machine that is busy."""

import signal
import subprocess
import time
import uuid
from itertools import count
from types import SimpleNamespace

import pytest
from waiting import PATIENCE_S, wait_until

from nsyswrap.record import guard, process_watch
from nsyswrap.record.process_watch import ProcessWatch

REPEAT_S = 0.2


def test_a_second_signal_that_a_busy_machine_delays_kills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It came at once, in a round that took longer than a repeated signal may."""
    monkeypatch.setattr(process_watch, "REPEAT_S", REPEAT_S)
    received = [signal.SIGINT]
    killed: list[bool] = []

    with subprocess.Popen(["sleep", str(PATIENCE_S)]) as process:
        watch = ProcessWatch(process, guard.RunProcesses("of no process"), received, None)

        def pause(_seconds: float) -> None:
            killed.append(watch.killed)
            if len(killed) in (1, 4):  # with the second, and at last a later one
                received.append(signal.SIGINT)
            time.sleep(2 * REPEAT_S)

        watch.pause = pause
        watch.wait()
    assert killed[:4] == [False] * 4
    assert watch.killed


def test_a_process_that_ended_in_time_did_not_reach_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """We get no turn before the limit has passed."""
    turns = count(0, 3600)

    def monotonic() -> float:
        if turn := next(turns):
            process.communicate()  # it ends with its stdin
        return turn

    monkeypatch.setattr(process_watch, "time", SimpleNamespace(monotonic=monotonic))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        watch = ProcessWatch(process, guard.RunProcesses("of no process"), [], 5)
        watch.pause = lambda _: None
        watch.wait()
    assert (watch.timed_out, process.returncode) == (False, 0)


@pytest.mark.parametrize("busy", [False, True])
def test_what_is_busy_after_the_end_is_killed_only_when_it_is_no_more(*, busy: bool) -> None:
    """As nsys' agent, which completes its recording without nsys and waits for a busy CPU."""
    mark = uuid.uuid4().hex  # another test run on this machine would kill ours
    members, begun = guard.RunProcesses(mark), time.monotonic()

    def is_busy(left: list[int]) -> bool:
        if busy and process.pid in left and time.monotonic() > begun + 3 * REPEAT_S:
            process.communicate()  # it ends with its stdin
        return busy

    environment = {guard.MARK: mark, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environment) as process:
        wait_until(members.living)  # Linux says late which environment a new program has
        ProcessWatch(process, members, [], None).drain(REPEAT_S, is_busy)
    assert process.returncode == (0 if busy else -signal.SIGKILL)
