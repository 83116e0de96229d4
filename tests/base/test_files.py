"""Writing files: whole or not at all, through links and pipes, and never over a capture."""

import json
import os
import re
import resource
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import Cli
from tiny_export import call, kernel, write
from waiting import PATIENCE_S

from nsyswrap.base import files as output
from nsyswrap.base import run_facts
from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import parse_toml, read_json, read_toml, typed


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write(tmp_path / "x.sqlite", call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 30, 1))


def test_a_file_in_a_new_folder(tmp_path: Path) -> None:
    output.write(tmp_path / "a" / "b.txt", "é\udcff")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"\xc3\xa9\xff"
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["b.txt"]


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("first")
    with pytest.raises(OutputError, match=r"cannot write .*a\.txt: No space left on device"):
        write_half(path)
    assert path.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def write_half(path: Path) -> None:
    with output.replacing(path) as part:
        part.write_text("half")
        raise OSError(28, os.strerror(28))


def test_a_link_stays_and_so_do_permissions(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "a.txt"
    path.write_text("first")
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    output.write(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink()
    assert path.read_text() == "second"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_itself(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    output.write(tmp_path / "pipe", "through")
    reader.join()
    assert read == [b"through"]
    assert (tmp_path / "pipe").is_fifo()


def test_blocks_are_written_in_their_order(tmp_path: Path) -> None:
    blocks = [bytes([number]) * (5000 * number) for number in range(12)]
    output.write(tmp_path / "a.txt", iter(blocks))
    assert (tmp_path / "a.txt").read_bytes() == b"".join(blocks)


def test_a_disk_that_is_full_after_some_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"cannot write .*a\.txt: File too large"):
            output.write(tmp_path / "a.txt", iter([bytes(20_000)] * 12))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "a.txt").read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_signal_ends_the_wait_for_the_reader_of_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # reads nothing
    late = threading.Timer(PATIENCE_S, os.close, [reader])  # ends a wait that no signal ends
    late.start()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def blocks() -> Iterator[bytes]:
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # not before somebody expects it
        yield from [bytes(1 << 20)] * 12

    try:
        with pytest.raises(KeyboardInterrupt):
            output.write(tmp_path / "pipe", blocks())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert late.is_alive()
    late.cancel()
    os.close(reader)


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path, tmp_path / "file" / "a.txt"):
        with pytest.raises(OutputError, match=f"cannot write {path}: "):
            output.write(path, "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "command",
    [
        ["report", "x.sqlite", "-o", "x.sqlite"],
        ["report", "x.sqlite", "-o", "link"],
        ["report", "-o", "x.sqlite", "other.sqlite"],
        ["report", "x.sqlite", "-r", "cuda_gpu_kern_sum", "--format", "csv", "-o", "run.nsys-rep"],
        ["report", "x.sqlite", "-r", "cuda_gpu_kern_sum", "--csv", "folder"],
        ["view", "x.sqlite", "-o", "x.sqlite", "--force"],
    ],
)
@pytest.mark.slow
def test_a_capture_is_never_replaced(cli: Cli, export: Path, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "other.sqlite").write_bytes(export.read_bytes())
    (tmp_path / "link").symlink_to(export)
    (tmp_path / "run.nsys-rep").write_bytes(b"recorded")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "cuda_gpu_kern_sum.csv").write_bytes(export.read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = cli(*command)
    assert done.returncode == 73
    assert "is a capture or another database; it is not replaced" in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_report_is_replaced_by_the_next(cli: Cli, export: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("an older one")
    assert cli("report", export, "-o", "a.txt").returncode == 0
    assert "1 kernel" in (tmp_path / "a.txt").read_text()


@dataclass(frozen=True)
class Part:
    count: int
    share: float = 0.5


@dataclass(frozen=True)
class Whole:
    kind: Literal["a", "b"]
    note: str | None
    parts: tuple[Part, ...] = ()
    pair: tuple[str, int] = ("", 0)
    by_name: dict[str, list[int]] = field(default_factory=dict)


def test_values_are_read_as_the_declared_types() -> None:
    content = {
        "kind": "a",
        "note": None,
        "parts": [{"count": 1}, {"count": 2, "share": 3, "of a later version": 1}],
        "pair": ["x", -(2**63)],
        "by_name": {"n": [1, 2]},
    }
    assert typed(Whole, content) == Whole("a", None, (Part(1), Part(2, 3)), ("x", -(2**63)), {"n": [1, 2]})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kind", "c", "kind is 'c': expected one of a, b"),
        ("kind", ["a"], "kind is ['a']: expected one of a, b"),
        ("note", 1, "note is 1: expected text or null"),
        ("parts", {}, "parts is {}: expected a list"),
        ("parts", [[]], r"parts[0] is []: expected an object"),
        ("parts", [{}], "parts[0] has no 'count'"),
        ("parts", [{"count": True}], "parts[0].count is True: expected a whole number"),
        ("parts", [{"count": 1.0}], "parts[0].count is 1.0: expected a whole number"),
        ("parts", [{"count": 2**63}], "parts[0].count is 9223372036854775808: expected a whole number"),
        ("parts", [{"count": 1, "share": float("inf")}], "parts[0].share is inf: expected a number"),
        ("pair", ["x"], "pair has 1 values: expected 2"),
        ("by_name", {"n": [1, "2"]}, "by_name.n[1] is '2': expected a whole number"),
    ],
)
def test_another_type_is_refused_with_its_place(key: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        typed(Whole, {"kind": "a", "note": "", key: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 10_000, "4300"),
    ],
)
def test_json_with_two_meanings_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(tmp_path / "x.json")


def test_toml_begins_with_a_byte_order_mark_or_not() -> None:
    assert parse_toml(b"\xef\xbb\xbfa = 1") == parse_toml(b"a = 1") == {"a": 1}


def test_dots_that_are_no_key() -> None:
    path = "../" * 60 + "x"
    content = f"# {'.' * 118}\nargument = '{path}'\n'{'.' * 118}' = 1\n"
    assert parse_toml(content.encode()) == {"argument": path, "." * 118: 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a." * 100_000 + b"a = 1", "a key has more than 100 parts"),
        (b'x = {"a b"' + b'."a b"' * 100_000 + b" = 1}", "a key has more than 100 parts"),
        (b"#" * (4 << 20) + b"\n", "larger than 4 MiB"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"x = '\xff'", "can't decode byte 0xff"),
    ],
)
def test_toml_that_would_take_hours_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_toml(content)


def test_a_pipe_is_read_if_it_has_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_toml(tmp_path / "pipe") == {}
    held = os.open(tmp_path / "pipe", os.O_RDWR)  # a pipe without a reader cannot be opened for writing
    reader, writer = os.pipe()
    os.write(writer, b"a = 1")
    os.close(writer)
    assert read_toml(tmp_path.__class__(f"/dev/fd/{reader}")) == {"a": 1}
    os.close(reader)
    os.close(held)


def batch(**changes: Any) -> dict[str, Any]:
    run = {"number": 1, "folder": "00001-n=1", "key": "k", "active": True}
    return {
        "name": "sweep",
        "id": "x",
        "runs": [run, {**run, "number": 2, "folder": "b", "key": "l", **changes}],
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 1},
        {"number": 0},
        {"number": 2.0},
        {"folder": "00001-n=1"},
        {"folder": ".."},
        {"folder": "../../etc"},
        {"folder": "/etc"},
        {"folder": "x" * 300},
        {"folder": "\0"},
        {"key": "k"},
        {"active": 1},
    ],
)
def test_a_batch_of_impossible_runs_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "batch.json"
    path.write_text(json.dumps(batch()))
    assert [run.folder for run in run_facts.read_batch(tmp_path).runs] == ["00001-n=1", "b"]
    path.write_text(json.dumps(batch(**changes)))
    with pytest.raises(ValueError, match=r"number|folder|key|active"):
        run_facts.read_batch(tmp_path)
