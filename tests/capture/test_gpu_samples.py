"""The samples of a run folder, read exactly or refused with one reason."""

import os
from pathlib import Path

import numpy as np
import pytest

from nsyswrap.base.errors import CaptureError
from nsyswrap.base.run_facts import COLUMNS
from nsyswrap.base.run_folder import CONDITIONS
from nsyswrap.capture import info
from nsyswrap.capture.info import read_samples

HEAD = ",".join(COLUMNS)
ROW = "1700000000000000000,0,1980,3201,300000,50,4"


def written(folder: Path, *lines: str, end: str = "\n") -> Path:
    (folder / CONDITIONS).write_text("".join(f"{line}\n" for line in lines[:-1]) + lines[-1] + end)
    return folder


def test_rows_are_columns_in_order_of_time(tmp_path: Path) -> None:
    later = "1700000000100000000,1,,,,,"
    samples = read_samples(written(tmp_path, HEAD, later, ROW), gpus=2)
    assert list(samples) == list(COLUMNS)
    assert (samples["time_ns"] - 1_700_000_000_000_000_000).tolist() == pytest.approx([0, 1e8], abs=1000)
    assert samples["gpu"].tolist() == [0, 1]
    assert [values[0] for values in samples.values()][2:] == [1980, 3201, 300_000, 50, 4]
    assert all(np.isnan(values[1]) for values in list(samples.values())[2:])


def test_columns_of_a_newer_version_do_not_matter(tmp_path: Path) -> None:
    samples = read_samples(written(tmp_path, f"fan,{HEAD}", f"9,{ROW}"), gpus=1)
    assert samples["sm_mhz"].tolist() == [1980]


@pytest.mark.parametrize("rest", ["1700000000100000000,0,19", "170", "text"])
def test_a_line_without_an_end_is_left_out(tmp_path: Path, rest: str) -> None:
    assert len(read_samples(written(tmp_path, HEAD, ROW, rest, end=""), gpus=1)["time_ns"]) == 1


def test_lines_that_end_as_on_windows(tmp_path: Path) -> None:
    last = ROW.rpartition(",")[0] + ","
    samples = read_samples(written(tmp_path, f"{HEAD}\r", f"{ROW}\r", f"{last}\r"), gpus=1)
    assert samples["reasons"][0] == 4
    assert np.isnan(samples["reasons"][1])


def test_a_header_is_no_samples(tmp_path: Path) -> None:
    for lines in ((HEAD,), (HEAD, ""), (HEAD, " ", "")):
        assert len(read_samples(written(tmp_path, *lines), gpus=1)["time_ns"]) == 0


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("",), "no column time_ns"),
        ((HEAD.replace("sm_mhz", "sm"), ROW), "no column sm_mhz"),
        ((HEAD, ROW.replace("1980", "text")), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "0x7bc")), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "#")), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "\x00")), "not a table of numbers"),
        ((HEAD, ROW, "1,0"), "not a table of numbers"),
        ((HEAD, ROW.replace("1980", "-1")), "a value is out of range"),
        ((HEAD, ROW.replace("1980", "inf")), "a value is out of range"),
        ((HEAD, ROW.replace("1980", "1e999")), "a value is out of range"),
        ((HEAD, f"{ROW}{'0' * 30}"), "a value is out of range"),
        ((HEAD, ROW.replace(",0,", ",1,")), "a sample has no time, or no GPU of this run"),
        ((HEAD, ROW.replace(",0,", ",0.5,")), "a sample has no time, or no GPU of this run"),
        ((HEAD, ROW.replace(",0,", ",nan,")), "a sample has no time, or no GPU of this run"),
        ((HEAD, f"nan{ROW[19:]}"), "a sample has no time, or no GPU of this run"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, lines: tuple[str, ...], reason: str) -> None:
    written(tmp_path, *lines)
    with pytest.raises(CaptureError) as refused:
        read_samples(tmp_path, gpus=1)
    assert refused.value.message == f"conditions.csv cannot be read: {reason}"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / CONDITIONS).write_bytes(f"{HEAD}\n".encode() + bytes(range(128, 256)) + b"\n")
    with pytest.raises(CaptureError, match=r"cannot be read: .*codec can't decode"):
        read_samples(tmp_path, gpus=1)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"cannot be read: No such file"):
        read_samples(tmp_path, gpus=1)
    for make in (os.mkfifo, os.mkdir):  # reading a pipe without a writer would wait
        (tmp_path / make.__name__).mkdir()
        make(tmp_path / make.__name__ / CONDITIONS)
        with pytest.raises(CaptureError, match=r"cannot be read: not a regular file"):
            read_samples(tmp_path / make.__name__, gpus=1)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / CONDITIONS
    path.touch()
    os.truncate(path, info.MOST_BYTES + 1)  # without using the disk
    with pytest.raises(CaptureError, match=r"cannot be read: larger than 64 MiB"):
        read_samples(tmp_path, gpus=1)
