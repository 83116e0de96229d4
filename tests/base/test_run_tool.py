"""Tools that print without end, that do not end, and whose children keep their pipes open."""

import os
import selectors
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import PATIENCE_S, wait_until

from nsyswrap.base import run_tool as tools
from nsyswrap.base.run_tool import PrintedTooMuch, run_tool

MIB = 1 << 20


def shell(script: str, timeout_s: float = PATIENCE_S, **options: object) -> subprocess.CompletedProcess[str]:
    return run_tool(["sh", "-c", script], timeout_s, **options)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    except OSError:
        return False


def test_what_it_prints_and_how_it_ends() -> None:
    done = shell("cat; echo out; echo error >&2; exit 3", text="in é\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "in é\nout\n", "error\n")
    assert shell("echo out; echo error >&2", merged=True).stdout == "out\nerror\n"
    assert shell("echo $X", env={"X": "set"}).stdout == "set\n"


def test_bytes_that_are_no_text() -> None:
    assert shell(r"printf '\377\000a'").stdout == "\ufffd\0a"
    assert shell(r"printf '\377'", errors="surrogateescape").stdout == "\udcff"


def test_much_text_on_both_streams() -> None:
    code = "import sys; sys.stdout.write('o' * 3_000_000); sys.stderr.write('e' * 3_000_000)"
    done = run_tool([sys.executable, "-c", code], PATIENCE_S)
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_one_that_prints_without_end(stream: str) -> None:
    with pytest.raises(PrintedTooMuch, match=r"^printed more than 1 MiB$"):
        shell(f"yes {stream}", most=MIB)


def test_one_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time has passed at the third look after its child has begun: with the second, its text is read."""
    pid, looks = tmp_path / "pid", count()

    def monotonic() -> float:
        return 3600 * (pid.exists() and next(looks) > 1)

    monkeypatch.setattr(tools, "time", SimpleNamespace(monotonic=monotonic))
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        shell(f"echo begun; sleep 600 & echo $! > '{pid}.new'; mv '{pid}.new' '{pid}'; wait", 5)
    assert caught.value.output == b"begun\n"
    wait_until(lambda: not is_alive(int(pid.read_text())))


class Started(subprocess.Popen[bytes]):
    """The last process that was started."""

    last: int

    def __init__(self, *words: object, **settings: object) -> None:
        super().__init__(*words, **settings)  # type: ignore[call-overload]
        Started.last = self.pid


def until_it_has_ended() -> None:
    """Wait as a machine can let us wait: somebody else gets the turn."""
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, Started.last, os.WEXITED | os.WNOWAIT)


def test_one_that_has_ended_before_we_get_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time has passed, too, at the first look."""
    turns = count(0, 3600)

    def monotonic() -> float:
        until_it_has_ended()
        return next(turns)

    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(tools, "time", SimpleNamespace(monotonic=monotonic))
    done = shell("echo out; echo error >&2; exit 3", 5)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "error\n")


def test_what_it_prints_and_how_it_ends_after_a_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Late(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            ready = super().select(timeout)
            (tmp_path / "go").touch()
            until_it_has_ended()
            return ready

    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(selectors, "DefaultSelector", Late)
    assert shell(f"until [ -e '{tmp_path}/go' ]; do sleep 0.01; done; echo out").stdout == "out\n"


def test_one_that_closes_its_streams_and_does_not_end() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        shell("exec >&- 2>&-; sleep 600", 1)


def test_a_child_that_keeps_the_pipe_open(tmp_path: Path) -> None:
    """As the server of a compiler cache does, which is to go on."""
    began = time.monotonic()
    assert shell(f"sleep 600 & echo $! > {tmp_path}/pid; echo done").stdout == "done\n"
    assert time.monotonic() - began < PATIENCE_S
    child = int((tmp_path / "pid").read_text())
    assert is_alive(child)
    os.kill(child, 9)


def test_one_that_cannot_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        run_tool(["/nonexistent/tool"], 1)
