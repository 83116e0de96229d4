"""`nsyswrap session` with the real nsys: a server goes on while parts of its run are recorded."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from a_session import a_session
from foreign import SOMEBODY
from ran import ran
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_folder import EXPORT, RUN, STATUS
from nsyswrap.record import proc, readiness, session
from nsyswrap.record.program import Callbacks, Program, RunSpec

pytestmark = pytest.mark.usefixtures("nsys")

# An application of ASGI, which uvicorn serves; each answer has the number of answers and is an NVTX range.
SERVER = r"""
import os, sys
import nvtx
import uvicorn

count = 0

async def application(scope, receive, send):
    global count
    if scope["type"] != "http":
        return
    with nvtx.annotate("request"):
        count += 1
        body = b"%d" % count
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"process {os.getpid()} serves on {port}", flush=True)

Server(uvicorn.Config(application, port=int(sys.argv[1]), log_level="error")).run()
"""


@dataclass
class Served:
    """A server that runs in a session of nsys."""

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[str]
    pid: int
    port: int
    answers: list[int] = field(default_factory=list)

    def ask(self) -> int:
        """Return the number of the answer to one request."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=PATIENCE_S) as answer:
            return int(answer.read())

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of `nsyswrap session`."""
        return started(self.folder, self.environment, *words)

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command of `nsyswrap session`; return its exit code and all that it printed."""
        with self.start(*words) as process:
            printed = process.communicate(timeout=PATIENCE_S)[0]
        return process.returncode, printed

    def recording(self, name: str) -> tuple[dict[str, object], dict[str, object]]:
        """Return status.json and run.json of a recording."""
        status, run = ((self.folder / "served" / name / file).read_text() for file in (STATUS, RUN))
        return json.loads(status), json.loads(run)

    def ranges(self, name: str) -> int:
        """Return the number of ranges `request` that a recording has."""
        return requests_in(self.folder / "served" / name / EXPORT)


def requests_in(export: Path) -> int:
    """Return the number of ranges `request`."""
    sql = "SELECT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId"
    with closing(sqlite3.connect(export)) as db:
        return sum(text == "request" for (text,) in db.execute(sql))


def started(folder: Path, environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", "session", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def served(tmp_path: Path, environment: dict[str, str]) -> Iterator[Served]:
    pytest.importorskip("nvtx", reason="needs the package nvtx before 0.2.12")
    (tmp_path / "server.py").write_text(SERVER)
    variables = {**environment, "XDG_STATE_HOME": str(tmp_path / "state"), "MY_TOKEN": "not-to-be-recorded"}
    launch = ("launch", "-o", "served", "--trace", "nvtx", "--", "server.py", "0")
    process = started(tmp_path, variables, *launch)
    assert process.stdout
    lines: list[str] = []
    while not (match := re.search(r"process (\d+) serves on (\d+)", "".join(lines))):
        line = process.stdout.readline()
        assert line, "".join(lines)
        lines.append(line)
    try:
        yield Served(tmp_path, variables, process, int(match[1]), int(match[2]))
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(match[1]), signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)


def test_a_server_answers_all_requests_while_it_is_recorded(served: Served) -> None:
    ended = threading.Event()

    def ask_often() -> None:
        while not (ended.is_set() and len(served.answers) >= 1000):
            served.answers.append(served.ask())

    asking = threading.Thread(target=ask_often)
    asking.start()
    try:
        printed = [served.run("record", "--for", "1s", *name) for name in ((), ("warm",), ())]
        assert [code for code, _ in printed] == [0, 0, 0], printed
    finally:
        ended.set()
        asking.join(PATIENCE_S)
    assert served.answers == list(range(1, len(served.answers) + 1))  # by one process, and none is lost
    names = ("recording-1", "warm", "recording-2")
    assert f"nsyswrap report served/{names[1]}" in printed[1][1]
    counts = [served.ranges(name) for name in names]
    assert min(counts) > 0
    assert sum(counts) < len(served.answers)
    for name in names:
        status, run = served.recording(name)
        assert (status["outcome"], status["exit_code"]) == ("done", 0)
        assert isinstance(run["recorded_s"], float)
        assert 1 <= run["recorded_s"] < PATIENCE_S
        assert b"not-to-be-recorded" not in (served.folder / "served" / name / EXPORT).read_bytes()
    code, listed = served.run("list")
    assert (code, str(served.pid) in listed, "waiting" in listed) == (0, True, True)
    assert served.run("stop")[0] == 0
    last = served.process.communicate(timeout=PATIENCE_S)[0].splitlines()[-1]
    assert last == "nsyswrap: server was stopped by SIGTERM; the exit code is 143"
    assert served.process.returncode == 128 + signal.SIGTERM
    assert "no session is running" in served.run("list")[1]
    code, printed_now = served.run("record")
    assert (code, "nsyswrap session launch -- PROGRAM" in printed_now) == (2, True)


def begun(served: Served, name: str, *words: str) -> subprocess.Popen[str]:
    """Start a recording, and wait until it records a request."""
    process = served.start("record", name, *words)
    wait_until(lambda: "recording" in served.run("list")[1])
    wait_until(lambda: is_collecting(served))
    return process


def is_collecting(served: Served) -> bool:
    (entry,) = (served.folder / "state" / "nsyswrap" / "sessions").glob("*.json")
    session = json.loads(entry.read_text())
    listed = ran(
        [session["nsys"], "sessions", "list"], env={**served.environment, "TMPDIR": session["temporary"]}
    ).stdout
    return "Collection" in listed


def test_two_recordings_at_once(served: Served) -> None:
    first = begun(served, "first")
    code, printed = served.run("record", "--for", "1s", "second")
    assert (code, "is in use by another recording" in printed) == (73, True)
    assert not (served.folder / "served" / "second").exists()
    first.send_signal(signal.SIGINT)  # without --for this is how it ends
    first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 0
    assert served.recording("first")[0]["outcome"] == "interrupted"
    assert served.ask() == 1


def test_a_killed_recorder_leaves_its_recording_and_the_session(served: Served) -> None:
    process = begun(served, "killed")
    process.kill()
    process.communicate()
    left = served.folder / "served" / "killed"
    wait_until(lambda: any(not check_export(path) for path in left.glob(f".recording-*/{EXPORT}")))
    wait_until(lambda: "waiting" in served.run("list")[1])
    assert served.run("record", "--for", "0.2s", "next")[0] == 0
    assert served.ask() == 1


def test_a_server_that_crashes_while_it_is_recorded(served: Served) -> None:
    process = begun(served, "crashed")
    os.kill(served.pid, signal.SIGKILL)
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "server ended" in printed) == (0, True)
    assert served.recording("crashed")[0]["outcome"] == "done"
    assert not check_export(served.folder / "served" / "crashed" / EXPORT)
    assert served.process.wait(PATIENCE_S) == 128 + signal.SIGKILL


def test_nsys_killed_while_nothing_is_recorded(served: Served) -> None:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if b"--start-agent" in words and b"nsyswrap_session_launch" not in words:
                environment = path.with_name("environ").read_bytes()
                if str(served.folder / "state").encode() in environment:
                    os.kill(int(path.parent.name), signal.SIGKILL)
    code, printed = served.run("record", "--for", "0.2s", "lost")
    assert (code, "nsys" in printed) == (70, True), printed
    assert served.recording("lost")[0]["outcome"] == "nsys_failed"
    assert served.ask() == 1
    assert served.run("stop")[0] == 0
    printed, _ = served.process.communicate(timeout=PATIENCE_S)
    assert (served.process.returncode, "server goes on" in printed) == (128 + signal.SIGTERM, True)


def test_nsys_that_does_not_end_a_recording(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", served.environment["XDG_STATE_HOME"])
    monkeypatch.setattr(session, "_WRITE_S", 1)
    (running,) = session.sessions()
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = stop ] && exec sleep 300\nexec {shlex.quote(running.nsys)} "$@"\n')
    slow.chmod(0o755)
    _, status = session.record(
        replace(running, nsys=str(slow)), "slow", lambda passed: passed > 0, Callbacks(progress=print)
    )
    assert (status.outcome, "has not ended in 1 s" in str(status.message)) == ("nsys_failed", True)
    assert served.ask() == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (util-linux)")
def test_a_session_of_another_user(served: Served, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, SOMEBODY, SOMEBODY)
    other = {**served.environment, "HOME": str(home), "XDG_STATE_HOME": str(home)}
    words = ["setpriv", f"--reuid={SOMEBODY}", "--clear-groups", sys.executable, "-m", "nsyswrap"]
    done = ran([*words, "session", "record", "--session", str(served.pid)], cwd="/", env=other)
    assert (done.returncode, f"no session {served.pid} is running" in done.stderr) == (2, True)


LOAD = "import sys, urllib.request as u; [u.urlopen(sys.argv[1]).read() for _ in range(20)]"


@pytest.mark.parametrize("ready", ["http://127.0.0.1:{port}/", "{port}", "serves on {port}"])
def test_load_is_recorded_when_the_server_is_ready(
    tmp_path: Path, environment: dict[str, str], ready: str
) -> None:
    pytest.importorskip("nvtx", reason="needs the package nvtx before 0.2.12")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "load.py").write_text(LOAD)
    load = f"{sys.executable} load.py http://127.0.0.1:{port}/; exit 3"
    options = ("--when-ready", ready.format(port=port), "--load", load, "--trace", "nvtx", "-o", "served")
    variables = {**environment, "XDG_STATE_HOME": str(tmp_path / "state")}
    with started(tmp_path, variables, "launch", *options, "--", "server.py", str(port)) as process:
        printed = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 3, printed
    assert f"serves on {port}" in printed
    assert "the command of --load ended with exit code 3 after " in printed
    assert "nsyswrap report served/recording-1" in printed
    # The request that looked if the server is ready came before.
    assert requests_in(tmp_path / "served" / "recording-1" / EXPORT) == 20


def test_a_server_that_ends_before_it_is_ready(tmp_path: Path, environment: dict[str, str]) -> None:
    variables = {**environment, "XDG_STATE_HOME": str(tmp_path / "state")}
    options = ("--when-ready", "never printed", "--load", "touch loaded", "--trace", "none")
    with started(tmp_path, variables, "launch", *options, "--", "sh", "-c", "exit 4") as process:
        printed = process.communicate(timeout=PATIENCE_S)[0]
    assert (process.returncode, "before it was ready" in printed) == (4, True), printed
    assert not (tmp_path / "loaded").exists()


def test_a_program_that_ends_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look of a busy machine comes late: it waits for the end."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: process.wait(PATIENCE_S))
    spec = RunSpec(Program(("true",), "true"), tmp_path / "served", RecordingOptions(trace="none"))
    assert session.launch(spec, Callbacks(), session.Hooks(lambda _: None)) == 0


@pytest.mark.parametrize("small_disk", ["400k"], indirect=True)
def test_a_full_disk(small_disk: Path, served: Served) -> None:
    shutil.rmtree(served.folder / "served")
    (served.folder / "served").symlink_to(small_disk)
    code, printed = served.run("record", "--for", "0.5s", "large")
    assert (code, "the disk is full" in printed) == (73, True), printed
    assert served.recording("large")[0]["outcome"] == "disk_full"
    assert served.ask() == 1


def test_a_killed_nsyswrap_ends_its_server(served: Served) -> None:
    served.process.kill()
    wait_until(lambda: not Path(f"/proc/{served.pid}").exists())
    assert "no session is running" in served.run("list")[1]


@pytest.mark.parametrize(
    "where",
    ["99999", "0", "a..b:80", "http://[::1", "http://x:99999/", "http:///", "a{99999999999}", b"\xff("],
)
def test_a_wrong_place_to_wait_for_is_refused(
    tmp_path: Path, environment: dict[str, str], where: str | bytes
) -> None:
    words = ("launch", "-o", "served", "--load", "true", "--when-ready", os.fsdecode(where), "--", "true")
    with started(tmp_path, environment, *words) as process:
        printed = process.communicate(timeout=PATIENCE_S)[0]
    assert (process.returncode, "invalid --when-ready" in printed) == (2, True), printed
    assert not (tmp_path / "served").exists()


def test_a_proxy_does_not_answer_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as proxy, closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert not readiness.parse(f"http://127.0.0.1:{free.getsockname()[1]}/").asks()
        proxy.settimeout(0)
        with pytest.raises(BlockingIOError):
            proxy.accept()


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_server_with_a_certificate_of_its_own_is_ready(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=elsewhere")
    subprocess.run(["openssl", *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        assert readiness.parse(f"https://127.0.0.1:{server.server_port}/nothing").asks()
        answering.join(PATIENCE_S)


LOADED = ("launch", "-o", "served", "--trace", "nvtx", "--when-ready", "hello", "--load")


def loaded(folder: Path, environment: dict[str, str], load: str, server: str) -> subprocess.Popen[str]:
    variables = {**environment, "XDG_STATE_HOME": str(folder / "state")}
    return started(folder, variables, *LOADED, load, "--", "sh", "-c", f"echo hello; {server}")


def check_loaded(folder: Path) -> None:
    """Check that the recording is complete, and that nothing runs or is left."""
    recording = folder / "served" / "recording-1"
    assert json.loads((recording / STATUS).read_text())["outcome"] == "done"
    assert not check_export(recording / EXPORT)
    assert not (folder / "ended").exists()
    pid = int((folder / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())  # init has to notice its end
    assert not [*(folder / "state" / "nsyswrap" / "sessions").iterdir()]


LOAD_OF_A_CHILD = "sleep 300 & echo $! > pid; wait; touch ended"


def test_a_server_that_ends_before_its_load(tmp_path: Path, environment: dict[str, str]) -> None:
    server = "while [ ! -s pid ]; do sleep 0.1; done; sleep 1; exit 3"
    with loaded(tmp_path, environment, LOAD_OF_A_CHILD, server) as process:
        printed = process.communicate(timeout=PATIENCE_S)[0]
    assert (process.returncode, "sh ended" in printed) == (3, True), printed
    assert "the command of --load ended with exit code 143" in printed
    check_loaded(tmp_path)


def test_launch_is_stopped_during_its_load(tmp_path: Path, environment: dict[str, str]) -> None:
    with loaded(tmp_path, environment, LOAD_OF_A_CHILD, "exec sleep 300") as process:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        process.terminate()
        printed = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 128 + signal.SIGTERM, printed
    check_loaded(tmp_path)


def test_launch_is_killed_during_its_load(tmp_path: Path, environment: dict[str, str]) -> None:
    with loaded(tmp_path, environment, LOAD_OF_A_CHILD, "exec sleep 300") as process:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_server_that_ignores_its_signal_is_killed(tmp_path: Path, environment: dict[str, str]) -> None:
    server = "trap '' TERM; while :; do sleep 1; done"
    with loaded(tmp_path, environment, "sleep 0.3", server) as process:
        printed = process.communicate(timeout=PATIENCE_S)[0]
    assert (process.returncode, bool(re.search(r"--load took [\d.]+ m?s", printed))) == (0, True), printed
    assert not check_export(tmp_path / "served" / "recording-1" / EXPORT)


VALUE = "not-to-be-recorded"
# A program that overwrites its environment, as one that sets its title does, and leaves its work to a child.
DAEMON = r"""
import ctypes, os, subprocess, sys, time
import nvtx

if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "daemon"], start_new_session=True)
    sys.exit()
secret = os.environ["MY_TOKEN"]
for name, value in list(os.environ.items()):
    os.environ[name] = value  # elsewhere: nsys reads it
begin, end = map(int, open("/proc/self/stat").read().rpartition(")")[2].split()[47:49])
ctypes.memset(begin, 0, end - begin - 1)
print(f"process {os.getpid()}", flush=True)
while True:
    with nvtx.annotate("request"), nvtx.annotate(f"key {secret}"):
        time.sleep(0.02)
"""


@pytest.mark.parametrize("words", [(), ("itself",)])
def test_a_daemon_that_overwrites_its_environment(
    tmp_path: Path, environment: dict[str, str], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvtx", reason="needs the package nvtx before 0.2.12")
    (tmp_path / "daemon.py").write_text(DAEMON)
    variables = {**environment, "XDG_STATE_HOME": str(tmp_path / "state")}
    launch = ("launch", "-o", "served", "--trace", "nvtx", "--follow-forks", "--env", f"MY_TOKEN={VALUE}")
    with started(tmp_path, variables, *launch, "--", "daemon.py", *words) as process:
        assert process.stdout
        lines: list[str] = []
        while not (line := process.stdout.readline()).startswith("process "):
            assert line, "".join(lines)
            lines.append(line)
        with started(tmp_path, variables, "record", "--for", "0.5s", "daemon") as recorder:
            printed = recorder.communicate(timeout=PATIENCE_S)[0]
        assert recorder.returncode == 0, printed
        monkeypatch.setenv("XDG_STATE_HOME", variables["XDG_STATE_HOME"])
        (running,) = session.sessions()
        assert VALUE.encode() not in proc.environment(int(line.split()[1]))
        assert running.environment()["MY_TOKEN"] == VALUE
        with started(tmp_path, variables, "stop") as stopper:
            stopper.communicate(timeout=PATIENCE_S)
        process.communicate(timeout=PATIENCE_S)
    assert not Path(f"/proc/{int(line.split()[1])}").exists()
    run = json.loads((tmp_path / "served" / "daemon" / RUN).read_text())
    assert run["recorded_s"] >= 0.5
    assert (run["env_set"], run["nsyswrap"].endswith("+unknown")) == (["MY_TOKEN"], False)
    export = tmp_path / "served" / "daemon" / EXPORT
    assert not words or requests_in(export) > 0
    assert VALUE.encode() not in export.read_bytes()


def session_of(folder: Path, pid: int) -> session.Session:
    return a_session(folder, pid, began=int(proc.stat(pid)[19]))


def test_the_file_of_a_session_stays_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(session, "_FRESH_S", 0.01)
    with session._registered(session_of(tmp_path, os.getpid())) as register:  # noqa: SLF001
        register(os.getpid())
        (entry,) = (tmp_path / "nsyswrap" / "sessions").glob("*.json")
        os.utime(entry, (0, 0))
        wait_until(lambda: entry.stat().st_mtime > 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": {"extra": 5}},
        {"options": {"trace": "nvtx", "delay": "x"}},
        {"folder": "/\0"},
        {"pid": "1"},
        {"pid": -1},
        {"began": 0},
        {"started": 1e999},
        {"command": None},
        "uid",
        "link",
    ],
)
def test_a_damaged_or_foreign_file_of_a_session(
    tmp_path: Path, environment: dict[str, str], wrong: dict[str, object] | str
) -> None:
    folder = tmp_path / "nsyswrap" / "sessions"
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "300"]) as decoy:
        pid = decoy.pid
        valid = session_of(tmp_path, pid)
        values = {**asdict(valid), **(wrong if isinstance(wrong, dict) else {})}
        path = folder / "none.json"
        path.write_text(json.dumps(values).replace("Infinity", "1e999"))
        if wrong == "uid":
            if os.geteuid():
                pytest.skip("only root can be two users")
            os.chown(path, SOMEBODY, SOMEBODY)
        elif wrong == "link":
            path.symlink_to(path.rename(tmp_path / "elsewhere"))
        for words in (["list"], ["record", "--for", "0.1s"], ["stop"], ["stop", "--session", str(pid)]):
            with started(tmp_path, {**environment, "XDG_STATE_HOME": str(tmp_path)}, *words) as process:
                printed = process.communicate(timeout=PATIENCE_S)[0]
            assert process.returncode == (0 if words == ["list"] else 2), printed
            assert "is running" in printed
        assert decoy.poll() is None
        decoy.kill()


def test_names_of_recordings(served: Served) -> None:
    (served.folder / "served" / "mine").mkdir()
    (served.folder / "served" / "mine" / "file").touch()
    for name, code in (("mine", 73), ("lock", 73), ("-x", 2), (".x", 2), ("a/b", 2), ("a b%\n", 0)):
        assert served.run("record", "--for", "0.1s", "--", name)[0] == code, name
    (entry,) = (served.folder / "state" / "nsyswrap" / "sessions").glob("*.json")
    assert entry.stat().st_mode & 0o777 == 0o600
    elsewhere = {**json.loads(entry.read_text()), "host": "elsewhere"}
    foreign = entry.with_name("elsewhere.json")
    foreign.write_text(json.dumps(elsewhere))
    assert served.run("record", "--for", "0.1s")[0] == 0  # the one that is here
    assert "on elsewhere" in served.run("list")[1]
    os.utime(foreign, (0, 0))
    assert "on elsewhere" not in served.run("list")[1]
    assert [*(served.folder / "served" / "mine").iterdir()] == [served.folder / "served" / "mine" / "file"]


@pytest.mark.parametrize("small_disk", ["8k"], indirect=True)
def test_a_full_disk_for_the_file_of_a_session(
    small_disk: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    (small_disk / "nsyswrap" / "sessions").mkdir(parents=True)
    with suppress(OSError):
        (small_disk / "full").write_bytes(bytes(1 << 20))
    variables = {**environment, "XDG_STATE_HOME": str(small_disk)}
    with started(tmp_path, variables, "launch", "-o", "served", "--", "sleep", "300") as process:
        printed = process.communicate(timeout=PATIENCE_S)[0]
    assert (process.returncode, f"cannot write {small_disk}" in printed) == (73, True), printed
