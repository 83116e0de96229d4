"""Writing files: whole or not at all, through links and pipes, and never over a capture."""

import os
import threading
from pathlib import Path

import pytest
from conftest import Cli
from tiny_export import call, kernel, write

from nsyswrap.base import files as output
from nsyswrap.base.errors import OutputError


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
