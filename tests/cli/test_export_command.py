"""``nsyswrap export``: what it writes, what it says of it, and what it refuses."""

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from conftest import Cli
from pyarrow import parquet as arrow
from recorded import run_folder
from tiny_export import ON_REQUEST, call, everything, kernel, nvtx, opened, row, write
from trace_event_rules import read
from traced import read as read_perfetto
from traced import traced

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.version import pip_install
from nsyswrap.capture.schema import EVENTS
from nsyswrap.render.formats import parquet as event_files
from nsyswrap.render.perfetto import FORMATS, Trace, compose
from nsyswrap.render.perfetto import write as write_trace

pytestmark = pytest.mark.slow
IDLE = "no recorded call launched the next operation"  # in the name of idle time


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "a.sqlite", *everything())


def test_both_are_written_and_said(cli: Cli, capture: Path, tmp_path: Path) -> None:
    done = cli("export", capture, "--perfetto", "new/out.json.gz", "--parquet", "events")
    assert (done.returncode, done.stdout) == (0, "")
    said = done.stderr.splitlines()
    assert said[0].startswith("wrote new/out.json.gz: 4 kernels, ")
    assert "arrows" not in said[0]
    assert "8 arrows from call to GPU work (JSON has none)" in said[1]
    assert said[1].startswith("left out: 1 NVTX event (names of domains")
    assert said[-1].startswith("wrote 22 Parquet files to events/: 4 kernels, 4 copies, ")
    trace = read(tmp_path / "new" / "out.json.gz")
    assert sum(part.name in ("k", "ncclDevKernel_AllReduce()") for part in trace.slices) == 4
    assert (tmp_path / "new" / "out.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert set(names(tmp_path / "events")) == {
        f"{kind}.parquet"
        for kind in set(EVENTS) - {"synchronization", "cuda_event", "cuda_overhead", *ON_REQUEST}
    }
    assert names(tmp_path) == ["a.sqlite", "events", "new"]


def test_neither_is_a_usage_error_that_names_both(cli: Cli, capture: Path) -> None:
    done = cli("export", capture)
    assert done.returncode == 2
    assert "--perfetto FILE, --flamegraph FILE, --parquet DIR or --metrics FORMAT" in done.stderr


def test_what_is_there_stays_without_force(cli: Cli, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("mine")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "mine.txt").write_text("mine")
    for output in (("--perfetto", "out.json"), ("--parquet", "dir"), ("--parquet", "out.json")):
        done = cli("export", capture, *output)
        assert done.returncode == 73
        assert f"{output[1]} already exists" in done.stderr
        assert "--force" in done.stderr
    assert (tmp_path / "out.json").read_text() == "mine"
    assert names(tmp_path / "dir") == ["mine.txt"]


def test_force_replaces_what_an_earlier_export_wrote(cli: Cli, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    for name in ("mine.txt", "synchronization.parquet", "kernel.parquet"):
        (tmp_path / "dir" / name).write_text("old")
    (tmp_path / "out.json").write_text("old")
    done = cli("export", capture, "--perfetto", "out.json", "--parquet", "dir", "--force")
    assert done.returncode == 0
    assert read(tmp_path / "out.json").slices
    assert (tmp_path / "dir" / "mine.txt").read_text() == "old"
    assert not (tmp_path / "dir" / "synchronization.parquet").exists()
    assert arrow.read_table(tmp_path / "dir" / "kernel.parquet").num_rows == 4


def test_a_link_stays_and_what_it_names_is_written(cli: Cli, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "target.json").write_text("old")
    (tmp_path / "link.json").symlink_to("there/target.json")
    (tmp_path / "loose.json").symlink_to("there/new.json")
    for link, target in (("link.json", "target.json"), ("loose.json", "new.json")):
        assert cli("export", capture, "--perfetto", link, "--force").returncode == 0
        assert (tmp_path / link).is_symlink()
        assert read(tmp_path / "there" / target).slices
    assert names(tmp_path / "there") == ["new.json", "target.json"]


def test_a_pipe_is_written_to_and_stays_one(cli: Cli, capture: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = cli("export", capture, "--perfetto", pipe, "--format", "json", "--force")
        content = os.read(reader, 1 << 16)
    finally:
        os.close(reader)
    assert done.returncode == 0
    assert pipe.is_fifo()
    assert json.loads(content)["traceEvents"]
    assert names(tmp_path) == ["a.sqlite", "pipe"]


def test_a_dash_is_stdout(cli: Cli, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "-").write_text("mine")
    done = cli("export", capture, "--perfetto", "-", "--format", "json")
    assert done.returncode == 0
    assert done.stderr.startswith("wrote stdout: ")
    assert cli("export", capture, "--perfetto", "file.json").returncode == 0
    assert done.stdout == (tmp_path / "file.json").read_text()
    assert (tmp_path / "-").read_text() == "mine"
    shown, plain = (cli("report", capture, "-r", "cuda_gpu_sum", *to) for to in (("-o", "-"), ()))
    assert (shown.returncode, shown.stdout) == (0, plain.stdout)
    assert (tmp_path / "-").read_text() == "mine"
    refused = cli("report", capture, "-r", "cuda_gpu_sum", "--format", "parquet", "-o", "-")
    assert refused.returncode == 2


def test_the_name_of_the_file_or_an_option_decides_the_format(
    cli: Cli, capture: Path, tmp_path: Path
) -> None:
    for name, *option in (("a.pftrace",), ("b.gz",), ("c.json", "--format", "perfetto")):
        assert cli("export", capture, "--perfetto", name, *option).returncode == 0
        assert len(read_perfetto(tmp_path / name).of("kernel")) == 4
    assert cli("export", capture, "--perfetto", "d.gz", "--format", "json").returncode == 0
    assert read(tmp_path / "d.gz").slices
    assert cli("export", capture, "--parquet", "p", "--format", "json").returncode == 2


def test_two_ranks_give_one_trace(cli: Cli, tmp_path: Path) -> None:
    for rank in range(2):
        session = row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_000 * rank)
        write(tmp_path / f"rank-{rank}.sqlite", session, kernel("k", 5, 9))
    done = cli("export", "rank-1.sqlite", "rank-0.sqlite", "--perfetto", "job.pftrace")
    assert done.returncode == 0, done.stderr
    trace = read_perfetto(tmp_path / "job.pftrace")
    assert [part.start for part in trace.slices] == [5, 1_005]
    assert len(trace.roots) == 2


def test_a_part_is_cut_out(cli: Cli, tmp_path: Path) -> None:
    rows = [nvtx("step", 15, 45), kernel("a", 0, 10), kernel("b", 20, 30), kernel("c", 40, 50, deviceId=1)]
    source = write(tmp_path / "a.sqlite", *rows)
    done = cli("export", source, "--perfetto", "o.json", "--parquet", "p", "--nvtx", "step", "--device", "0")
    assert "selected: NVTX range 'step': its only instance" in done.stderr
    assert [part.name for part in read(tmp_path / "o.json").slices if IDLE not in part.name] == ["b", "step"]
    assert arrow.read_table(tmp_path / "p" / "kernel.parquet").column("name").to_pylist() == ["b"]
    done = cli("export", source, "--perfetto", "c.json", "--time", "45ns/", "--clip", "yes")
    assert [(part.start, part.end) for part in read(tmp_path / "c.json").slices] == [(45, 50)]
    missing = cli("export", source, "--perfetto", "d.json", "--nvtx", "nowhere")
    assert missing.returncode == 65
    assert "no NVTX range named 'nowhere'" in missing.stderr


def test_nothing_to_write_is_said(cli: Cli, capture: Path, tmp_path: Path) -> None:
    brief = write(tmp_path / "b.sqlite", kernel("k", 0, 5))
    for argv, said in (
        ((capture, "--process", "7"), "no process 7"),
        ((brief, "--time", "1s/2s"), "no event of this capture can be drawn (time 1s/2s"),
    ):
        done = cli("export", *argv, "--perfetto", "o.json")
        assert done.returncode == 65
        assert said in done.stderr
    assert names(tmp_path) == ["a.sqlite", "b.sqlite"]


def test_where_nothing_can_be_written(cli: Cli, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (("--perfetto", "file/o.json"), ("--parquet", "file/dir")):
        done = cli("export", capture, *output)
        assert done.returncode == 73
        assert f"cannot write {output[1]}: " in done.stderr
        assert "Traceback" not in done.stderr


class Interrupted(Exception):
    pass


def test_what_is_interrupted_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(tmp_path, *everything())
    (tmp_path / "o.json").write_text("old")

    def half(_trace: Trace) -> Iterator[Callable[[], bytes]]:
        yield lambda: b"{"
        raise Interrupted

    monkeypatch.setitem(FORMATS, "json", half)
    with pytest.raises(Interrupted):
        write_trace(compose(source), tmp_path / "o.json")
    assert (tmp_path / "o.json").read_text() == "old"

    def fail(*_: object) -> None:
        raise Interrupted

    monkeypatch.setattr(event_files, "_write_kind", fail)
    with pytest.raises(Interrupted):
        event_files.write(source, tmp_path / "events")
    assert names(tmp_path) == ["o.json", "tiny.sqlite"]


def test_a_full_disk_is_an_output_error(tmp_path: Path) -> None:
    trace = compose(opened(tmp_path, kernel("k", 0, 5)))
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
    try:
        with pytest.raises(OutputError, match=r"o\.json\.gz: File too large"):
            write_trace(trace, tmp_path / "o.json.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert names(tmp_path) == ["tiny.sqlite"]


def test_traces_are_written_without_more_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    trace = compose(opened(tmp_path, *everything()))
    write_trace(trace, tmp_path / "a.pftrace.gz")
    monkeypatch.setattr(threading.Thread, "start", none_left)
    write_trace(trace, tmp_path / "b.pftrace.gz")
    assert (tmp_path / "a.pftrace.gz").read_bytes() == (tmp_path / "b.pftrace.gz").read_bytes()


def test_traces_are_the_same_bytes_again(tmp_path: Path) -> None:
    source = opened(tmp_path, *everything())
    for ending in ("json.gz", "pftrace"):
        for name in "ab":
            write_trace(compose(source), tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_blocks_and_row_groups_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_CHROME_ROWS", "packets.BLOCK_ROWS"):
        monkeypatch.setattr(f"nsyswrap.render.perfetto.{name}", 3)
    monkeypatch.setattr(event_files, "GROUP_ROWS", 3)
    source = opened(tmp_path, *(kernel(f"k{i}", 10 * i, 10 * i + 5) for i in range(7)))
    write_trace(compose(source), tmp_path / "o.json")
    for trace in (read(tmp_path / "o.json"), traced(source, tmp_path)):
        assert [part.name for part in trace.slices if IDLE not in part.name] == [f"k{i}" for i in range(7)]
    event_files.write(source, tmp_path / "p")
    assert arrow.ParquetFile(tmp_path / "p" / "kernel.parquet").num_row_groups == 3
    _assert_equal(source, tmp_path / "p")


@pytest.mark.parametrize("name", ["hybrid/gpu", "copies/faults", "graphs/nodes", "nvtx/kernels", "ddp/even"])
def test_parquet_holds_the_events_of_recorded_captures(name: str, tmp_path: Path) -> None:
    source = open_capture(run_folder(name, tmp_path))
    rows = event_files.write(source, tmp_path / "p")
    assert rows == {kind: source.count(kind) for kind in EVENTS if source.has(kind)}
    _assert_equal(source, tmp_path / "p")


def test_parquet_holds_every_kind_in_the_fields_terms(tmp_path: Path) -> None:
    registered = nvtx(None, 3, 4, textId="registered")
    source = opened(tmp_path, *everything(), registered, nvtx(None, 5, 6), kernel(9, 0, 1))
    event_files.write(source, tmp_path / "p")
    _assert_equal(source, tmp_path / "p")
    table = arrow.read_table(tmp_path / "p" / "kernel.parquet")
    units = {field.name: field.metadata[b"unit"].decode() for field in table.schema}
    assert {units[name] for name in ("start_ns", "end_ns", "duration_ns")} == {"ns"}
    assert (units["device_id"], units["process_id"], units["global_pid"]) == ("id", "id", "id")
    assert (units["dynamic_shared_bytes"], units["name"], units["grid_x"]) == ("bytes", "text", "number")
    said = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert (said["nsyswrap.kind"], said["nsyswrap.title"]) == ("kernel", "kernels")
    assert json.loads(said["nsyswrap.capture"])["path"] == str(source.source)
    assert str(table.schema.field("name").type).startswith("dictionary<values=string")


def _assert_equal(source: CaptureReader, folder: Path) -> None:
    for kind in EVENTS:
        path = folder / f"{kind}.parquet"
        assert path.exists() == source.has(kind)
        if path.exists():
            expected = source.events(kind)
            found = arrow.read_table(path)
            assert found.column_names == list(expected.columns)
            assert found.to_pylist() == [
                {key: None if pd.isna(value) else value for key, value in record.items()}
                for record in expected.to_dict("records")
            ]


def test_parquet_of_a_selection_says_so(tmp_path: Path) -> None:
    source = opened(tmp_path, kernel("a", 0, 5), call("c", 10, 20)).select(time="0/9")
    assert event_files.write(source, tmp_path / "p") == {"kernel": 1}
    said = arrow.read_schema(tmp_path / "p" / "kernel.parquet").metadata
    assert said[b"nsyswrap.selection"].startswith(b"time 0s/")


def test_parquet_says_how_to_get_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(tmp_path, kernel("k", 0, 5))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unavailable, match="Parquet needs pyarrow") as caught:
        event_files.write(source, tmp_path / "p")
    assert caught.value.hint == pip_install("parquet")
    assert names(tmp_path) == ["tiny.sqlite"]


def test_without_pyarrow_it_is_asked_for(tmp_path: Path) -> None:
    capture = write(tmp_path / "a.sqlite", kernel("k", 0, 5))
    program = "import sys; sys.modules['pyarrow'] = None; from nsyswrap.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "export", str(capture), "--parquet", str(tmp_path / "p")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 69
    assert done.stderr.startswith("nsyswrap: Parquet needs pyarrow\n")
