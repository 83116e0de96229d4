"""Numbers are exact, or the file is refused with the table and the column: never a wrong number."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from conftest import Cli
from tiny_export import KERNEL, MEMCPY, NVTX, call, enums, everything, kernel, memcpy, nvtx, row, write

from nsyswrap.analysis.arrays.groups import grouped
from nsyswrap.analysis.arrays.spans import Spans, one_axis
from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import DamagedCapture, NotInCapture
from nsyswrap.capture import sqlite_pages
from nsyswrap.capture.export import Export
from nsyswrap.capture.schema import FieldKind

GPUS, THREADS = "TARGET_INFO_GPU", "ThreadNames"
DAYS_104 = 2**53  # ns
START = 1_795_359_521_000_000_000  # 2026-11-22 in ns since 1970, as `nsys export --ts-normalize=true` writes


def changed(folder: Path, sql: str) -> Path:
    """An export with every kind of event, on which a statement was run."""
    folder.mkdir(exist_ok=True)
    path = write(folder / "x.sqlite", *everything())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(sql)
    return path


def refused(path: Path, report: str) -> str:
    with pytest.raises(DamagedCapture) as caught:
        CaptureReader(path).report(report)
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.hint == "export the .nsys-rep again with `nsys export`"
    return caught.value.message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("start + 10.9", "REAL 30.9"),
        ("'1_000'", "TEXT '1_000'"),
        ("'9223372036854775808'", "REAL 9.223372036854776e+18"),  # SQLite stores it so
        ("x'00ff'", "BLOB"),
    ],
)
def test_no_number_is_made_of_another_kind_of_value(tmp_path: Path, value: str, shown: str) -> None:
    path = changed(tmp_path, f"UPDATE {KERNEL} SET end = {value} WHERE start = 20")  # noqa: S608
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(f"SELECT typeof(end) FROM {KERNEL}").fetchone()[0] != "integer"  # noqa: S608
    said = f"{KERNEL}.end contains a value that is not an integer ({shown})"
    assert refused(path, "cuda_gpu_kern_sum") == said


def test_a_float_that_is_a_whole_number_is_that_number(tmp_path: Path) -> None:
    # No affinity: SQLite keeps 5.0 as a float.
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 3), kernel("k", 0, 4))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"CREATE TABLE other AS SELECT * FROM {KERNEL}")  # noqa: S608
        db.execute(f"DROP TABLE {KERNEL}")
        db.execute(f'CREATE TABLE "{KERNEL}" AS SELECT *, end + 2.0 AS "e" FROM other')  # noqa: S608
        db.execute(f'ALTER TABLE "{KERNEL}" DROP COLUMN end')
        db.execute(f'ALTER TABLE "{KERNEL}" RENAME COLUMN e TO end')
        assert db.execute(f"SELECT typeof(end) FROM {KERNEL}").fetchall() == [("real",), ("real",)]  # noqa: S608
    [total] = CaptureReader(path).report("cuda_gpu_kern_sum").data["total_ns"]
    assert total == (3 + 2) + (4 + 2)


def test_the_number_that_stands_for_null_is_no_number(tmp_path: Path) -> None:
    path = changed(tmp_path, f"UPDATE {KERNEL} SET deviceId = {-(2**63)} WHERE start = 20")  # noqa: S608
    assert refused(path, "gpu_time") == f"{KERNEL}.deviceId has {-(2**63)}, which stands for no number"


@pytest.mark.parametrize("rows", [5000, 3])
def test_it_is_found_in_tables_of_any_size(tmp_path: Path, rows: int) -> None:
    path = write(tmp_path / "x.sqlite", *(nvtx("a", i, i + 1) for i in range(rows)))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {NVTX} SET globalTid = {-(2**63)} WHERE start = 2")  # noqa: S608
    assert refused(path, "nvtx_sum") == f"{NVTX}.globalTid has {-(2**63)}, which stands for no number"


def test_times_that_nsys_always_writes_are_not_empty(tmp_path: Path) -> None:
    path = changed(tmp_path, f"UPDATE {KERNEL} SET start = NULL WHERE correlationId = 2")  # noqa: S608
    assert refused(path, "cuda_gpu_kern_sum") == f"{KERNEL}.start is empty in row 2"
    path = changed(tmp_path / "sizes", f"UPDATE {MEMCPY} SET bytes = NULL WHERE correlationId = 4")  # noqa: S608
    assert refused(path, "cuda_gpu_mem_size_sum") == f"{MEMCPY}.bytes is empty in row 2"


def test_times_years_apart(tmp_path: Path) -> None:
    path = changed(tmp_path, f"UPDATE {KERNEL} SET end = start + 6000000000000000000 WHERE start = 20")  # noqa: S608
    assert refused(path, "cuda_gpu_kern_sum") == (
        f"{KERNEL}.end has 6,000,000,000,000,000,020 ns: no recording has such a time"
    )


@pytest.mark.parametrize(("last", "exact"), [(DAYS_104 - 1, True), (DAYS_104, False)])
def test_how_far_apart_times_can_be(tmp_path: Path, last: int, *, exact: bool) -> None:
    path = write(tmp_path / "x.sqlite", kernel("k", 0, 1), kernel("k", last, last))
    if exact:
        assert list(CaptureReader(path).report("cuda_gpu_kern_sum").data["total_ns"]) == [1]
    else:
        assert "9,007,199,254,740,992 ns" in refused(path, "cuda_gpu_kern_sum")


def test_numbers_that_are_no_times_have_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_pages, "FEW_LEAVES", 0)
    rows = (kernel("k", i, i + 1, correlationId=2**62 - i) for i in range(3))
    with closing(Export(write(tmp_path / "x.sqlite", *rows))) as export:
        wanted: list[tuple[str, FieldKind]] = [("start", "time"), ("correlationId", "int")]
        made = export.stream(KERNEL, wanted, lambda block: {"id": block["correlationId"] + block["start"]})
    assert made["id"].tolist() == [2**62] * 3


def test_times_since_1970_are_exact(tmp_path: Path) -> None:
    rows = (kernel("k", START + 20, START + 30, 1), call("cudaLaunchKernel", START + 1, START + 4, 1))
    made = CaptureReader(write(tmp_path / "x.sqlite", *rows)).report("cuda_kern_exec_trace").data
    # the call 1 to 4, the queue 4 to 20, the kernel 20 to 30
    assert (list(made["queue_ns"]), list(made["total_ns"])) == ([16], [29])


@pytest.mark.parametrize("few_leaves", [sqlite_pages.FEW_LEAVES, 1], ids=["by SQLite", "in blocks of pages"])
def test_many_long_durations_exceed_64_bits_in_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_leaves: int
) -> None:
    monkeypatch.setattr(sqlite_pages, "FEW_LEAVES", few_leaves)
    # 130 kernels of 2**53 - 1 ns: 2**60 is exceeded at the 129th.
    most = DAYS_104 - 1
    fits = write(tmp_path / "fits.sqlite", *(kernel("k", 0, most) for _ in range(128)))
    assert list(CaptureReader(fits).report("cuda_gpu_kern_sum").data["total_ns"]) == [128 * most]
    path = write(tmp_path / "x.sqlite", *(kernel("k", 0, most) for _ in range(130)))
    assert refused(path, "cuda_gpu_kern_sum") == (
        f"a report needs numbers beyond 64 bits: times from 0 ns ({KERNEL}.start) to {most:,} ns "
        f"({KERNEL}.end)"
    )


def test_a_throughput_beyond_64_bits(tmp_path: Path) -> None:
    # 4 GB in 1 ns are 4 * 10**18 bytes/s; 5 GB are more than 2**62.
    fits = write(tmp_path / "fits.sqlite", memcpy(1, 0, 1, 4 * 10**9))
    assert list(CaptureReader(fits).report("cuda_gpu_trace").data["throughput_bytes_per_s"]) == [4 * 10**18]
    path = write(tmp_path / "x.sqlite", memcpy(1, 0, 1, 5 * 10**9))
    assert refused(path, "cuda_gpu_trace").startswith("a report needs numbers beyond 64 bits: ")


def test_a_sum_over_nested_ranges_exceeds_64_bits(tmp_path: Path) -> None:
    # One kernel of 2**52 ns in 1025 ranges of one name: 2**62 + 2**52 ns.
    ranges = [nvtx("a", i, 10**4 - i) for i in range(1025)]
    rows = (kernel("k", 5000, 5000 + 2**52, 1), call("cudaLaunchKernel", 4000, 4001, 1))
    capture = CaptureReader(write(tmp_path / "fits.sqlite", *rows, *ranges[:1024]))
    assert list(capture.report("nvtx_kern_sum").data["total_ns"]) == [2**62]
    path = write(tmp_path / "x.sqlite", *rows, *ranges)
    assert refused(path, "nvtx_kern_sum").startswith("a report needs numbers beyond 64 bits: ")


@pytest.mark.parametrize("size", [2**53 + 1, -(2**62)])
def test_sizes_that_floats_cannot_hold(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "x.sqlite", *enums(), memcpy(1, 0, 5, 8), memcpy(1, 0, 5, size))
    said = f"{MEMCPY}.bytes has {size:,}, with which no sum is exact"
    assert refused(path, "cuda_gpu_mem_size_sum") == said


def test_sizes_at_the_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *enums(), *(memcpy(1, 0, 5, 2**53) for _ in range(128)))
    assert list(CaptureReader(path).report("cuda_gpu_mem_size_sum").data["total_bytes"]) == [2**60]
    path = write(tmp_path / "more.sqlite", *enums(), *(memcpy(1, 0, 5, 2**53) for _ in range(129)))
    assert f"{MEMCPY}.bytes has 9,007,199,254,740,992" in refused(path, "cuda_gpu_mem_size_sum")


def test_a_sum_that_would_wrap_is_no_statistic() -> None:
    codes = np.zeros(3, np.int64)
    assert grouped(codes, np.array([2**61, -(2**60), 2**60]), 1).total.tolist() == [2**61]
    with pytest.raises(OverflowError):
        grouped(codes, np.array([2**62, -(2**62), 5]), 1)


def test_threads_that_do_not_fit_on_one_axis() -> None:
    times = np.array([0, 2**52]), np.array([1, 2**53])
    many = Spans(np.arange(600).repeat(2), *(np.tile(part, 600) for part in times))
    with pytest.raises(OverflowError):
        one_axis(many)
    few = Spans(np.array([7, 9]), *times)
    [(starts, _)] = one_axis(few)
    assert starts.tolist() == [0, 2**53 + 1 + 2**52]


def test_the_answer_has_one_line_and_a_cure(tmp_path: Path, cli: Cli) -> None:
    path = changed(tmp_path, f"UPDATE {KERNEL} SET end = start + 0.5")  # noqa: S608
    done = cli("report", path)
    assert (done.returncode, done.stdout) == (65, "")
    message, cure = done.stderr.splitlines()
    assert message.startswith(f"nsyswrap: {path}: {KERNEL}.end contains a value that is not an integer")
    assert cure == "  export the .nsys-rep again with `nsys export`"


@pytest.mark.parametrize(
    ("sql", "report", "said"),
    [
        ("UPDATE TARGET_INFO_GPU SET id = 'a'", "cuda_gpu_trace", "TARGET_INFO_GPU.id"),
        ("UPDATE ThreadNames SET priority = 'high'", "cuda_api_trace", "ThreadNames.priority"),
        ("UPDATE ThreadNames SET globalTid = 0.5", "cuda_api_trace", "ThreadNames.globalTid"),
        ("UPDATE DIAGNOSTIC_EVENT SET severity = x'01'", "diagnostics", "DIAGNOSTIC_EVENT.severity"),
    ],
)
def test_small_tables_have_integers_too(tmp_path: Path, sql: str, report: str, said: str) -> None:
    assert refused(changed(tmp_path, sql), report).startswith(f"{said} contains a value that is not an")


@pytest.mark.parametrize(
    ("sql", "report", "said"),
    [
        ("ALTER TABLE StringIds RENAME id TO number", "cuda_gpu_kern_sum", "StringIds has no column id"),
        (
            "ALTER TABLE TARGET_INFO_GPU RENAME name TO n",
            "cuda_gpu_trace",
            "TARGET_INFO_GPU has no column name",
        ),
        (
            "ALTER TABLE ThreadNames DROP COLUMN priority",
            "cuda_api_trace",
            "ThreadNames has no column priority",
        ),
        (f"ALTER TABLE {KERNEL} RENAME end TO stop", "cuda_gpu_kern_sum", f"{KERNEL} has no column end"),
    ],
)
def test_a_trimmed_file_is_named_so(tmp_path: Path, sql: str, report: str, said: str) -> None:
    with pytest.raises(NotInCapture) as caught:
        CaptureReader(changed(tmp_path, sql)).report(report)
    assert caught.value.message.endswith(f"{said}; the file was trimmed or is not a complete export")
    assert caught.value.hint == "export the .nsys-rep again with `nsys export`"


def test_a_label_that_is_null_is_its_number(tmp_path: Path) -> None:
    path = changed(tmp_path, "UPDATE ENUM_CUDA_MEMCPY_OPER SET label = NULL WHERE id = 1")
    names = CaptureReader(path).report("cuda_gpu_mem_time_sum").data["operation"]
    assert "[CUDA memcpy kind 1]" in names


@pytest.mark.parametrize("version", ["²", "१२०२०", "1" * 5000, "12020"])
def test_versions_with_odd_digits(tmp_path: Path, version: str) -> None:
    rows = [row("TARGET_INFO_SYSTEM_ENV", name=name, value=version) for name in ("CudaDriverVersion", "X")]
    odd = row("META_DATA_CAPTURE", name=f"PROCESS_0:ARGUMENT_{version}", value="x")
    schema = row("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value=f"3.{version}")
    capture = CaptureReader(write(tmp_path / "x.sqlite", kernel("k", 0, 5), *rows, odd, schema))
    assert capture.info.cuda_version == ("12.2" if version == "12020" else "")
    assert capture.remarks is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"CREATE TABLE", b"CREATE T\xff\xfeLE"),
        (b"StringIds (", b"StringI\xff\xfe ("),
        (b'"start"', b'"st\xffrt"'),
    ],
)
def test_a_name_in_the_list_of_tables_that_is_no_utf8(
    tmp_path: Path, cli: Cli, old: bytes, new: bytes
) -> None:
    path = write(tmp_path / "x.sqlite", *everything())
    path.write_bytes(path.read_bytes().replace(old, new))
    done = cli("report", path)
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith(f"nsyswrap: {path}")
    assert len(done.stderr.splitlines()) == 2
