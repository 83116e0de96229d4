"""An nsys that does not come to start the program: a script stands for it, for it seldom does so."""

import json
import re
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.base.run_folder import RUN

# Says WORDS and gives up, TIMES times; then it is the real nsys.
GIVES_UP = """#!/bin/sh
if [ "$1" = profile ] && [ "$2" != --help ]; then
    echo start >>"$0.starts"
    if [ "$(wc -l <"$0.starts")" -le {times} ]; then echo "{words}"; exit 1; fi
fi
exec {nsys} "$@"
"""
MOST_STARTS = 5
EXCEPTION = """/x/ClientProxy.cpp(389): Throw in function Endpoint ClientProxy::GetLocalEndpoint() const
Dynamic exception type: boost::wrapexcept<QuadDCommon::RuntimeException>
std::exception::what: RuntimeException
[QuadDCommon::tag_message*] = Local Endpoint is not available."""
SEMAPHORE = """std::exception::what: SystemException
[QuadDCommon::tag_errno_text*] = Permission denied
[boost::errinfo_errno_*] = 13, \\"Permission denied\\"
[boost::errinfo_api_function_*] = sem_open"""
LOST = [
    "End of file",
    EXCEPTION,
    SEMAPHORE,
    "Connection to Agent lost. This is most likely a bug. Internal reason: 'End of file'.",
]


def giving_up(folder: Path, nsys: str, words: str, times: int) -> Path:
    path = folder / "nsys"
    path.write_text(GIVES_UP.format(nsys=nsys, words=words, times=times), encoding="utf-8")
    path.chmod(0o755)
    return path


def starts(path: Path) -> int:
    return len(path.with_name("nsys.starts").read_text().splitlines())


@pytest.mark.parametrize("words", LOST, ids=["end of file", "local endpoint", "semaphore", "agent lost"])
def test_it_is_started_again(tmp_path: Path, nsys: str, cli: Cli, words: str) -> None:
    path = giving_up(tmp_path, nsys, words, times=2)
    done = cli(
        "profile", "--no-stats", "--nsys", path, "-o", "run", "sh", "-c", "echo ran; cat", stdin="read"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ran\nread")  # once, and nobody read its stdin before
    # On a busy machine the real nsys, too, may give up.
    assert 3 <= starts(path) <= MOST_STARTS
    assert json.loads((tmp_path / "run" / RUN).read_text(encoding="utf-8"))["nsys_starts"] == starts(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (LOST[0], "nsys says: End of file"),
        (EXCEPTION, "nsys lost the connection to its agent"),
        (SEMAPHORE, "nsys may not open a semaphore in /dev/shm: another user's nsys left one of its name"),
    ],
    ids=["end of file", "local endpoint", "semaphore"],
)
def test_but_not_for_ever(tmp_path: Path, nsys: str, cli: Cli, words: str, message: str) -> None:
    path = giving_up(tmp_path, nsys, words, times=99)
    done = cli("profile", "--no-stats", "--nsys", path, "-o", "run", "echo", "ran")
    assert done.returncode == 70
    assert message in done.stderr
    assert starts(path) == MOST_STARTS


def test_what_would_fail_again_is_not_tried_again(tmp_path: Path, nsys: str, cli: Cli) -> None:
    path = giving_up(tmp_path, nsys, "Illegal --trace argument 'bogus'", times=1)
    done = cli("profile", "--no-stats", "--nsys", path, "-o", "run", "echo", "ran")
    assert done.returncode == 70
    assert starts(path) == 1


@pytest.mark.parametrize(
    ("does", "ending"),
    [
        ("exec sleep 600", (75, "stopped after --timeout 1 s; nsys had not started the program")),
        ("kill -BUS $$", (70, "nsys itself was killed by signal 7")),
    ],
    ids=["waits", "dies"],
)
def test_it_may_lack_room_for_temporary_files(
    tmp_path: Path, nsys: str, cli: Cli, does: str, ending: tuple[int, str]
) -> None:
    """With 300 kB free nsys 2023.4 waits for ever, and with nothing free it dies of SIGBUS."""
    path = giving_up(tmp_path, nsys, f'"; {does}; "', times=99)
    options = ["--no-stats", "--timeout", "1", "--nsys", str(path), "-o", "run"]
    done = cli("profile", *options, "echo", "ran", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (ending[0], "")
    assert ending[1] in done.stderr
    assert re.search(f"nsys needs space in TMPDIR: [0-9,.]+ MB free at {tmp_path}", done.stderr)
