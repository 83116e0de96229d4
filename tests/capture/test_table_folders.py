"""parquetdir and arrowdir exports of nsys: the same reports as of the SQLite export, or a clear error."""

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from all_reports import all_reports, screen
from click.testing import CliRunner
from conftest import Cli
from pyarrow import parquet
from recorded import run_folder
from sampled import sampled
from table_folders import as_arrow, as_parquet
from tiny_export import KERNEL, changed, everything, kernel, write
from waiting import PATIENCE_S

from nsyswrap import open_capture
from nsyswrap.base.errors import CaptureError, DamagedCapture, NotACapture, Unavailable, UsageError
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.capture import arrow_export
from nsyswrap.capture.arrow_export import ArrowExport
from nsyswrap.capture.export import Export
from nsyswrap.capture.open import open_export
from nsyswrap.capture.schema import FieldKind
from nsyswrap.capture.sqlite_pages import Leaves
from nsyswrap.cli import cli

FORMATS = {"parquetdir": as_parquet, "arrowdir": as_arrow}
each_format = pytest.mark.parametrize("write_tables", FORMATS.values(), ids=FORMATS)
# Graphs, and threads that only compute.
CAPTURES = ("graphs/nodes", "hybrid/threads")


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A small SQLite export with all kinds of events."""
    return write(tmp_path / "c.sqlite", *everything())


@sampled("name", CAPTURES, fast=1)
def test_each_report_is_that_of_the_sqlite_export(name: str, tmp_path: Path) -> None:
    original = run_folder(name, tmp_path / "unpacked") / EXPORT
    expected, seen = all_reports(original), screen(original)
    for kind, write_tables in FORMATS.items():
        folder = write_tables(original, tmp_path / kind)
        assert all_reports(folder) == expected
        assert screen(folder) == seen


@each_format
def test_each_report_of_each_kind_of_event(
    write_tables: Callable[[Path, Path], Path], export: Path, tmp_path: Path
) -> None:
    assert all_reports(write_tables(export, tmp_path / "tables")) == all_reports(export)


@sampled(("column", "values"), product(("value", "id"), ([["a"], []], [{"a": 1}, None])), fast=2)
def test_nested_values_are_refused(
    column: str, values: list[object], export: Path, tmp_path: Path, cli: Cli
) -> None:
    good = {"id": pa.array([1, 2]), "value": pa.array(["a", "b"])}
    for kind, write_tables in FORMATS.items():
        folder = write_tables(export, tmp_path / kind)
        _replace(folder, pa.table({**good, column: pa.array(values)}))
        done = cli("report", folder)
        assert done.returncode == 65
        assert f"StringIds.{column} contains values that are not " in done.stderr


@each_format
def test_a_column_that_is_there_twice_is_refused(
    write_tables: Callable[[Path, Path], Path], export: Path, tmp_path: Path, cli: Cli
) -> None:
    folder = write_tables(export, tmp_path / "tables")
    _replace(folder, pa.table([[1, 2], ["a", "b"], [2, 3]], ["id", "value", "id"]))
    [file] = folder.glob("StringIds.*")
    done = cli("report", folder)
    again = "export the .nsys-rep again with `nsys export`"
    said = f"nsyswrap: {file} has the column id twice\n  {again}\n"
    assert (done.returncode, done.stdout, done.stderr) == (65, "", said)


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.date32(), pa.time64("ns")], ids=str)
def test_a_start_that_is_no_time_is_refused_in_one_line(
    kind: pa.DataType, export: Path, tmp_path: Path, cli: Cli
) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    table = parquet.read_table(folder / "NVTX_EVENTS.parquet")
    start = pa.array([None] * table.num_rows, kind)
    at = table.column_names.index("start")
    parquet.write_table(table.set_column(at, "start", start), folder / "NVTX_EVENTS.parquet")
    done = cli("report", folder, "-r", "nvtx_sum", "-r", "cuda_gpu_kern_sum", "--format", "csv")
    assert (done.returncode, done.stdout) == (65, "")
    note, *error = done.stderr.splitlines()
    assert "has no META_DATA_CAPTURE" in note
    said = f"nsyswrap: {folder}: NVTX_EVENTS.start contains values that are not integers ({kind})"
    assert error == [said, "  export the .nsys-rep again with `nsys export`"]


def _replace(folder: Path, table: pa.Table) -> None:
    """Write the table StringIds anew, in the format of the folder."""
    [file] = folder.glob("StringIds.*")
    if file.suffix == ".parquet":
        parquet.write_table(table, file)
        return
    with pa.OSFile(str(file), "wb") as content, pa.ipc.new_stream(content, table.schema) as stream:
        stream.write_table(table)


def test_rows_that_no_file_of_this_size_holds(tmp_path: Path, export: Path, cli: Cli) -> None:
    folder = as_arrow(export, tmp_path / "tables")
    nothing = pa.Array.from_buffers(pa.null(), 2 * 10**9, [None])  # takes no room
    _replace(folder, pa.table({"id": nothing, "value": nothing}))
    done = cli("report", folder)
    assert done.returncode == 65
    assert "StringIds.arrow claims 2,000,000,000 rows, too many for its size" in done.stderr


def test_a_text_that_is_repeated_takes_memory_once(tmp_path: Path, export: Path) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    count, long = 100_000, "x" * 100_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([long]))
    _replace(folder, pa.table({"id": pa.array(range(count)), "value": texts}))
    values = ArrowExport(folder).columns("StringIds", [("value", "text")])[0]
    assert values[0] == long
    assert values[0] is values[-1]


@each_format
@sampled("selected", [{"time": "15us/15500ns"}, {"time": "9s/"}, {"process": 100}], fast=1)
def test_a_part_is_that_of_the_sqlite_export(
    selected: dict[str, str],
    write_tables: Callable[[Path, Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = [kernel(f"k{n % 7}", 10 * n + 3, 10 * n + 9, n) for n in range(4000)]
    kernels[7] = kernel("ends last", 73, 10**9, 7)  # in the group of the first thousand
    file = write(tmp_path / "c.sqlite", *kernels)
    folder = write_tables(file, tmp_path / "tables")
    monkeypatch.setattr(arrow_export, "_BLOCK_ROWS", 1000)
    fields = ("start_ns", "end_ns", "name", "global_pid", "row")
    part, expected = (open_capture(one).select(**selected) for one in (folder, file))  # type: ignore[arg-type]
    assert part.durations("kernel").tolist() == expected.durations("kernel").tolist()
    for values, those in zip(
        part.columns("kernel", *fields).values(), expected.columns("kernel", *fields).values(), strict=True
    ):
        assert values.tolist() == those.tolist()


def test_only_groups_with_a_row_in_the_window_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = as_parquet(
        write(tmp_path / "c.sqlite", *(kernel("k", 10 * n, 10 * n + 6, n) for n in range(4000))),
        tmp_path / "tables",
    )
    monkeypatch.setattr(arrow_export, "_BLOCK_ROWS", 1000)
    read: list[tuple[str, ...]] = []
    numbers = arrow_export.ArrowExport.from_leaves

    def noted(export: ArrowExport, table: str, wanted: Any, leaves: Leaves) -> object:  # noqa: ANN401
        read.append((table, *map(str, leaves.numbers)))
        return numbers(export, table, wanted, leaves)

    monkeypatch.setattr(arrow_export.ArrowExport, "from_leaves", noted)
    part = open_capture(folder).select(time="25us/25500ns")
    assert len(part.columns("kernel", "start_ns", "device_id")["start_ns"]) == 50
    assert set(read) == {("CUPTI_ACTIVITY_KIND_KERNEL", "2")}
    assert not part._export._columns  # noqa: SLF001


@each_format
def test_it_is_collected_and_examined_as_the_file_is(
    write_tables: Callable[[Path, Path], Path], export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tables(export, tmp_path / "tables")
    rows = []
    for capture in (export, folder):
        into = tmp_path / f"{capture.name} collected"
        done = CliRunner().invoke(cli, ["collect", str(capture), "-o", str(into)])
        assert done.exit_code == 0, done.output
        [row] = csv.DictReader((into / "results.csv").read_text("utf-8").splitlines())
        rows.append({key: value for key, value in row.items() if key not in ("run", "label")})
    assert rows[0] == rows[1]
    assert rows[1]["kernels"] != ""
    monkeypatch.setattr("nsyswrap.analysis.diagnostics.examine._PATIENCE_S", PATIENCE_S)
    said = CliRunner().invoke(cli, ["doctor", str(folder)]).output
    assert "all tables can be read" in said
    assert "SQLite" not in said


@each_format
def test_a_part_of_the_capture(
    write_tables: Callable[[Path, Path], Path], export: Path, tmp_path: Path
) -> None:
    folder = write_tables(export, tmp_path / "tables")
    assert all_reports(folder, time="5/50") == all_reports(export, time="5/50")


def test_ids_beyond_63_bits_and_texts_that_are_not_utf_8(tmp_path: Path) -> None:
    other = changed(kernel("k", 7, 9), globalPid=-(2**62), demangledName=b"bad \xff name")
    export = write(tmp_path / "c.sqlite", kernel("k", 0, 5), other)
    for kind, write_tables in FORMATS.items():
        capture = open_capture(write_tables(export, tmp_path / kind))
        assert capture.columns("kernel", "global_pid")["global_pid"].tolist()[1] == -(2**62)
        assert capture.report("cuda_gpu_kern_sum").data["name"] == ["k", "bad \\xff name"]


@each_format
def test_a_cut_file_is_damage(
    write_tables: Callable[[Path, Path], Path], export: Path, tmp_path: Path
) -> None:
    folder = write_tables(export, tmp_path / "tables")
    [file] = folder.glob(f"{KERNEL}.*")
    content = file.read_bytes()
    for size in (len(content) - 1, len(content) - 8, len(content) // 2, 9, 1):
        file.write_bytes(content[:size])
        with pytest.raises(DamagedCapture, match=file.name) as raised:
            open_capture(folder)
        assert raised.value.exit_code == 65
    file.write_bytes(b"")
    with pytest.raises(NotACapture, match=rf"is not complete.*{file.name}"):
        open_capture(folder)


@each_format
def test_changed_bytes_are_damage_or_other_numbers_but_no_traceback(
    write_tables: Callable[[Path, Path], Path], export: Path, tmp_path: Path
) -> None:
    folder = write_tables(export, tmp_path / "tables")
    [file] = folder.glob(f"{KERNEL}.*")
    content = file.read_bytes()
    for place in range(0, len(content) - 8, max(1, len(content) // 50)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        with suppress(CaptureError):
            capture = open_capture(folder)
            capture.damage(60)
            capture.report("cuda_gpu_kern_sum")


@each_format
def test_a_folder_without_strings_is_not_complete(
    write_tables: Callable[[Path, Path], Path], export: Path, tmp_path: Path
) -> None:
    folder = write_tables(export, tmp_path / "tables")
    next(folder.glob("StringIds.*")).unlink()
    with pytest.raises(NotACapture, match="not complete: the table StringIds is missing"):
        open_capture(folder)


@pytest.mark.parametrize("name", ["r_pqtdir", "r_arwdir"])
def test_an_empty_folder_of_nsys_is_not_complete(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    with pytest.raises(NotACapture, match="not complete"):
        open_capture(folder)


def test_two_exports_in_one_folder_are_refused(export: Path, tmp_path: Path) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    for file in as_arrow(export, tmp_path / "others").iterdir():
        shutil.copy(file, folder)
    with pytest.raises(NotACapture, match="a parquetdir and an arrowdir export"):
        open_capture(folder)


def test_text_in_a_column_of_numbers_is_damage(export: Path, tmp_path: Path) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    table = parquet.read_table(folder / f"{KERNEL}.parquet")
    table = table.set_column(0, table.column_names[0], pa.array(["x"] * len(table)))
    parquet.write_table(table, folder / f"{KERNEL}.parquet")
    with pytest.raises(DamagedCapture, match=r"KERNEL\.start contains values that are not integers"):
        open_capture(folder).report("cuda_gpu_kern_sum")


def test_one_table_of_it_names_the_folder(export: Path, tmp_path: Path) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    with pytest.raises(NotACapture, match="is one table of a capture") as raised:
        open_capture(folder / f"{KERNEL}.parquet")
    assert str(folder) in raised.value.hint


def test_without_pyarrow_the_error_names_the_extra(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unavailable, match="needs pyarrow") as raised:
        open_capture(folder)
    assert "pyarrow" in raised.value.hint
    assert "--type=sqlite" in raised.value.hint


def test_a_missing_capture_metadata_is_told(export: Path, tmp_path: Path) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    assert "META_DATA_CAPTURE" in " ".join(open_capture(folder).remarks)


def test_damage_is_looked_for_in_all_tables(export: Path, tmp_path: Path) -> None:
    folder = as_parquet(export, tmp_path / "tables")
    assert open_capture(folder).damage(60) == ""
    assert open_capture(folder).damage(-1) is None
    capture = open_capture(folder)
    (folder / f"{KERNEL}.parquet").write_bytes(b"x")
    assert KERNEL in str(capture.damage(60))


def test_commands_find_it_in_a_folder(export: Path, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    as_parquet(export, tmp_path / "all" / "a_pqtdir")
    as_arrow(export, tmp_path / "all" / "b_arwdir")
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "all"), "-r", "cuda_gpu_kern_sum"])
    assert done.exit_code == 0
    assert "a_pqtdir" in done.output
    assert "b_arwdir" in done.output


def test_redact_says_what_it_cannot_do(export: Path, tmp_path: Path) -> None:
    folder = as_parquet(export, tmp_path / "c_pqtdir")
    for arguments in ([str(folder), "-o", str(tmp_path / "out.sqlite")], [str(folder), "--check"]):
        done = CliRunner().invoke(cli, ["redact", *arguments])
        assert isinstance(done.exception, UsageError)
        assert "cannot be redacted" in str(done.exception)
    done = CliRunner().invoke(cli, ["redact", "--check", str(tmp_path)])  # with a clean export beside it
    assert "parquetdir" in str(done.exception)


def test_real_ones(nsys: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "print(1)"]
    options = ["--trace=osrt,nvtx", "--sample=none", "--cpuctxsw=none", f"--output={tmp_path / 'r'}"]
    subprocess.run([nsys, "profile", *options, *program], check=True, capture_output=True, timeout=PATIENCE_S)
    for kind in ("sqlite", *FORMATS):
        command = [nsys, "export", "-q", "true", f"--type={kind}", f"-o{tmp_path / kind}"]
        subprocess.run(
            [*command, tmp_path / "r.nsys-rep"], check=True, capture_output=True, timeout=PATIENCE_S
        )
    expected = Export(tmp_path / "sqlite")
    names = [name for name in expected.tables if name.startswith(("OSRT", "Thread", "String", "TARGET"))]
    for kind in FORMATS:
        export = open_export(tmp_path / kind)
        for table in names:
            types = expected.rows(f'PRAGMA table_info("{table}")')
            wanted: list[tuple[str, FieldKind]] = [
                (name, "text" if kind == "TEXT" else "int") for _, name, kind, *_ in types
            ]
            assert export.select(table, *wanted) == expected.select(table, *wanted)
        assert all_reports(tmp_path / kind)["osrt_sum"] == all_reports(tmp_path / "sqlite")["osrt_sum"]
