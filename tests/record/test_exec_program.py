"""The launcher that gives a program its streams back, run as nsys runs it but without nsys."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from nsyswrap.record import exec_program

LAUNCHER = [sys.executable, "-I", "-S", exec_program.__file__]
STDIN, STDOUT, STDERR = range(3)


def launch(
    *program: str,
    stdin: bytes = b"",
    umask: int = 0o022,
    ignored: str = "",
    blocked: str = "",
    variables: Mapping[str, str] | None = None,
) -> tuple[int, bytes, bytes, bytes]:
    """Start a program as nsyswrap does: code, stdout, stderr, and what the launcher reported."""
    pipes = [os.pipe() for _ in range(4)]
    given = [pipes[0][0], *(writer for _, writer in pipes[1:])]
    os.write(pipes[0][1], stdin)
    os.close(pipes[0][1])
    done = subprocess.run(
        [*LAUNCHER, f"{','.join(map(str, given))}/{umask:o}/{ignored}/{blocked}", *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # nsys' own, which nothing may reach
        stderr=subprocess.STDOUT,
        pass_fds=given,
        env={**os.environ, **(variables or {})},
        umask=0,  # as nsys sets it
        check=False,
    )
    for descriptor in given:
        os.close(descriptor)
    stdout, stderr, report = (Path(f"/proc/self/fd/{reader}").read_bytes() for reader, _ in pipes[1:])
    for reader, _ in pipes[1:]:
        os.close(reader)
    assert done.stdout == b""
    return done.returncode, stdout, stderr, report


def test_the_program_gets_the_streams_that_were_handed_over() -> None:
    code, stdout, stderr, report = launch("sh", "-c", "cat; echo complaint >&2; exit 7", stdin=b"a\xff\n")
    assert (code, stdout, stderr) == (7, b"a\xff\n", b"complaint\n")
    assert re.fullmatch(rb"%s\d+ \d+\n" % exec_program.STARTED, report)


def test_the_program_gets_no_other_descriptor() -> None:
    look = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
    _, stdout, _, _ = launch(sys.executable, "-c", look)
    assert stdout == b"[0, 1, 2, 3]\n"  # the fourth is the listing itself


def test_arguments_arrive_as_they_are() -> None:
    arguments = ["", "a b", "--help", "$HOME", "\udcff"]
    _, stdout, _, _ = launch("printf", "<%s>", *arguments)
    assert stdout == b"<><a b><--help><$HOME><\xff>"


def test_the_streams_can_stay_where_they_are() -> None:
    done = subprocess.run([*LAUNCHER, "0,1,2/022//", "cat"], input=b"x", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"x", b"")


@pytest.mark.parametrize(
    ("mode", "content", "code", "error"),
    [
        (None, "", 127, b"2"),
        (0o644, "no permission", 126, b"13"),
        (0o755, "no format", 126, b"8"),
        (0o755, "#!/no/such/interpreter\n", 127, b"2"),
    ],
)
def test_a_program_that_cannot_be_executed(
    tmp_path: Path, mode: int | None, content: str, code: int, error: bytes
) -> None:
    program = tmp_path / "program"
    if mode is not None:
        program.write_text(content)
        program.chmod(mode)
    *ending, report = launch(str(program))
    assert ending == [code, b"", b""]
    assert report.partition(b"\n")[2] == error


def test_signals_are_as_a_shell_would_leave_them() -> None:
    _, stdout, _, _ = launch("grep", "SigIgn", "/proc/self/status")
    ignored = int(stdout.split()[1], 16)
    for number in (13, 25):  # SIGPIPE, SIGXFSZ: Python ignores both
        assert not ignored & 1 << (number - 1)


def test_what_the_caller_ignores_stays_ignored() -> None:
    _, stdout, _, _ = launch("grep", "SigIgn", "/proc/self/status", ignored="1,3")
    assert int(stdout.split()[1], 16) & 0b111 == 0b101


def test_signals_that_nsys_blocks_reach_the_program() -> None:
    """Its caller blocks SIGUSR1 alone."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    try:
        _, stdout, _, _ = launch("grep", "SigBlk", "/proc/self/status", blocked=str(int(signal.SIGUSR1)))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert int(stdout.split()[1], 16) == 1 << signal.SIGUSR1 - 1


def test_a_broken_pipe_ends_the_program() -> None:
    _, stdout, stderr, _ = launch("sh", "-c", "yes | head -n 1; echo done")
    assert (stdout, stderr) == (b"y\ndone\n", b"")


def test_the_umask_is_that_of_who_started_it() -> None:
    assert launch("sh", "-c", "umask", umask=0o027)[1] == b"0027\n"


def test_variables_are_as_they_were_before() -> None:
    show = 'echo "${TMPDIR-unset} ${LD_LIBRARY_PATH-unset}"; env | grep -c NSYSWRAP_CALLER'
    before = {"NSYSWRAP_CALLER_TMPDIR": "=/a=b", "NSYSWRAP_CALLER_LD_LIBRARY_PATH": ""}
    nsys = {"TMPDIR": "/of/nsys", "LD_LIBRARY_PATH": "/of/nsys"}
    assert launch("sh", "-c", show, variables={**before, **nsys})[1] == b"/a=b unset\n0\n"
    assert (
        launch("sh", "-c", show, variables=nsys)[1] == b"/of/nsys /of/nsys\n0\n"
    )  # of a line that was typed
