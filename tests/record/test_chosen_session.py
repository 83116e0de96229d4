"""Which session a command is about."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from a_session import a_session

from nsyswrap.base.errors import Unavailable, UsageError
from nsyswrap.base.nsys.command import DISK_FULL
from nsyswrap.record import proc, session


def running(program: int, folder: Path, **given: str) -> session.Session:
    return a_session(folder, program, pid=program + 1000, label=f"serve{program}", **given)


def test_the_only_session_here_or_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a, b = running(1, tmp_path / "a"), running(2, tmp_path / "b")
    away = running(3, tmp_path / "c", host="elsewhere")
    alive = [a, away]
    monkeypatch.setattr(session, "sessions", lambda: list(alive))
    assert session.choose(None) is a
    alive.insert(0, b)
    with pytest.raises(UsageError, match=r"2 sessions are running: 2 \(serve2\), 1 \(serve1\)"):
        session.choose(None)
    monkeypatch.chdir(tmp_path)
    assert [session.choose(name) for name in ("1", "1002", "b", str(tmp_path / "a"))] == [a, b, b, a]
    with pytest.raises(Unavailable, match="the session runs on elsewhere"):
        session.choose("3")
    with pytest.raises(UsageError, match="no session 4 is running"):
        session.choose("4")
    alive.clear()
    with pytest.raises(UsageError, match="no session is running"):
        session.choose(None)


def test_a_session_is_alive_while_its_process_is_the_one_that_began_it(tmp_path: Path) -> None:
    began = int(proc.stat(os.getpid())[19])
    for is_alive, given in ((True, {}), (False, {"began": began + 1}), (True, {"host": "elsewhere"})):
        assert a_session(tmp_path, os.getpid(), **{"began": began, **given}).is_alive == is_alive


def test_an_export_that_nsys_never_writes_is_not_awaited_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "_WRITE_S", 0)
    monkeypatch.setattr(session, "has_ended", lambda _: True)
    monkeypatch.setattr("nsyswrap.record.guard.RunProcesses.living", lambda _: [1])
    own: Any = SimpleNamespace(work=tmp_path, output=tmp_path, nsys_output=str)
    recording: Any = SimpleNamespace(
        session=running(1, tmp_path, temporary=str(tmp_path)), private=own, spec=own
    )
    lack = session._Recording._wait_for_export(recording)  # noqa: SLF001
    assert lack == "the export is missing"
    failed = [session._Recording._failure(recording, one) for one in (lack, DISK_FULL[0])]  # noqa: SLF001
    assert [one.outcome for one in failed] == ["nsys_failed", "disk_full"]
