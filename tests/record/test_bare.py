"""A run without nsys: real programs, with the real package nvtx and a real C compiler where these are."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nsyswrap.record.bare import run_bare
from nsyswrap.record.program import Program
from nsyswrap.record.spec import RunSpec

RANGES = """
import os, threading, time
import nvtx

def steps(name, count):
    for n in range(count):
        with nvtx.annotate(name):
            with nvtx.annotate(f"part {n}"), nvtx.annotate("of a library", domain="library"):
                time.sleep(0.01)

if os.fork() == 0:
    steps("in a child", 3)
    raise SystemExit
os.wait()
threading.Thread(target=steps, args=("in a thread", 5)).start()
steps("step", 4)
for n in range(3):
    nvtx.end_range(nvtx.start_range("started and ended\\nä"))
nvtx.push_range("never popped")
"""

NAMES = r"""
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static char name[10001];
    char line[256];
    long most_kb;
    memset(name, 'x', sizeof name - 1);
    for (int i = 0; i < 300; i++)
        nvtxRangePushA(name);
    for (int i = 0; i < 20000; i++)
        nvtxRangePushA(name), nvtxRangePop();
    /* not getrusage: ru_maxrss survives exec, and so counts the process that started this one */
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &most_kb) == 1)
            printf("%ld\n", most_kb);
}
"""
MOST_KB = 100_000  # the names that are not kept have 200 MB


def spec(folder: Path, *argv: str, timeout_s: float | None = None, **env: str) -> RunSpec:
    return RunSpec(Program(argv, "program"), folder / "run", env=env, timeout_s=timeout_s)


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    pytest.importorskip("nvtx")
    monkeypatch.delenv("NVTX_INJECTION64_PATH", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("listener")
def test_the_ranges_that_repeat_are_timed(tmp_path: Path) -> None:
    status, times = run_bare(spec(tmp_path, *python(RANGES)))
    assert (status.outcome, times.exit_code, times.no_ranges) == ("done", 0, "")
    counts = {name: one.count for name, one in times.ranges.items()}
    assert counts == {"step": 4, "in a thread": 5, "in a child": 3, "started and ended ä": 3}
    assert 10e6 <= times.ranges["step"].median_ns < 100e6
    assert times.program_s is not None
    assert times.program_s > 0.08
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("listener")
def test_ranges_that_are_not_kept_use_no_memory(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], nsys: str
) -> None:
    folders = Path(nsys).resolve().parent.parent.glob("target-*/nvtx/include")
    if not (headers := next(folders, None)):
        pytest.skip("needs the NVTX headers of nsys")
    (tmp_path / "names.c").write_text(NAMES)
    program = str(tmp_path / "names")
    subprocess.run(["cc", f"-I{headers}", "-o", program, f"{program}.c", "-ldl"], check=True)
    _, times = run_bare(spec(tmp_path, program))
    assert not times.no_ranges
    assert 1_000 < int(capfd.readouterr().out) < MOST_KB


def test_a_program_that_ends_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look of a busy machine comes late: it waits for the end."""
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: process.wait(30))
    _, times = run_bare(spec(tmp_path, "true"))
    assert times.program_s is not None


def test_the_program_runs_as_under_nsys(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os; print(os.environ['MORE'], oct(os.umask(0)), os.getpgid(0) == os.getpid())"
    before = os.umask(0o027)
    try:
        status, times = run_bare(spec(tmp_path, *python(code), MORE="more"))
    finally:
        os.umask(before)
    assert capfd.readouterr().out == "more 0o27 True\n"
    assert status.exit_code == times.exit_code == 0


def test_without_a_compiler_the_program_is_timed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NVTX_INJECTION64_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    _, times = run_bare(spec(tmp_path, *python("pass")))
    assert times.program_s
    assert (times.ranges, times.no_ranges) == ({}, "no C compiler")


def test_another_tool_that_listens_is_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os; print(os.environ['NVTX_INJECTION64_PATH'])"
    _, times = run_bare(spec(tmp_path, *python(code), NVTX_INJECTION64_PATH="/no/tool.so"))
    assert capfd.readouterr().out == "/no/tool.so\n"
    assert times.no_ranges == "NVTX_INJECTION64_PATH is set"


@pytest.mark.parametrize(
    ("code", "exit_code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_a_program_that_fails(tmp_path: Path, code: str, exit_code: int) -> None:
    status, times = run_bare(spec(tmp_path, *python(code)))
    assert (status.outcome, times.exit_code) == ("program_failed", exit_code)
    assert status.message == f"program ended with exit code {exit_code} without nsys"


def test_a_time_limit_ends_all_processes(tmp_path: Path) -> None:
    code = f"import subprocess; p = subprocess.Popen(['sleep', '600']); open({str(tmp_path / 'pid')!r}, 'w')"
    code += ".write(str(p.pid)); p.wait()"
    status, _ = run_bare(spec(tmp_path, *python(code), timeout_s=1))
    assert (status.outcome, status.exit_code) == ("timed_out", 75)
    pid = (tmp_path / "pid").read_text()
    assert not Path(f"/proc/{pid}").exists() or b") Z " in Path(f"/proc/{pid}/stat").read_bytes()


def test_a_signal_reaches_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "ready"
    code = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(print('told')))\n"
    code += f"open({str(ready)!r}, 'w').close()\ntime.sleep(600)"

    def interrupt() -> None:
        while not ready.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    status, _ = run_bare(spec(tmp_path, *python(code)))
    thread.join()
    assert (status.outcome, status.exit_code) == ("interrupted", 130)
    assert capfd.readouterr().out == "told\n"


def test_what_the_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    """As after a run under nsys: it would disturb the next run."""
    mark = f"{time.time_ns() % 10**6 + 10**6}"
    run_bare(spec(tmp_path, *python(f"import subprocess; subprocess.Popen(['sleep', '{mark}'])")))
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert f"sleep\0{mark}\0".encode() not in lines
