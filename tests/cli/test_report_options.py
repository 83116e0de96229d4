"""`nsyswrap report`: parts of captures, several of them, all formats, and what it says of reports."""

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from recorded import PICTURED
from report_tables import read_csv
from tiny_export import PID, call, kernel, memcpy, nvtx, row, write
from waiting import wait_until

from nsyswrap.analysis.kernel_names import readable
from nsyswrap.api import open_capture
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.cli import output as show
from nsyswrap.cli.explain import OUTSIDE
from nsyswrap.reports import NAMES, SUMMARIES, find_report
from nsyswrap.reports.table import arranged

pytestmark = pytest.mark.slow

KERNELS = "cuda_gpu_kern_sum"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Kernels from 10 to 30 ns in range a, and from 60 to 80 ns on GPU 1 of another process."""
    return write(
        tmp_path / "x.sqlite",
        nvtx("a", 0, 40),
        nvtx("b", 50, 90),
        call("cudaLaunchKernel", 0, 5, 1),
        call("cudaLaunchKernel", 55, 58, 2, pid=PID + 1),
        kernel("first", 10, 30, 1),
        kernel("second", 60, 80, 2, pid=PID + 1, deviceId=1),
    )


@pytest.mark.parametrize(
    ("options", "names", "total"),
    [
        (["--time", "50ns/"], ["second"], 20),
        (["--time", "20ns/65ns"], ["first", "second"], 40),
        (["--time", "20ns/65ns", "--clip", "yes"], ["first", "second"], 15),
        (["--time", "/0.000000040s"], ["first"], 20),
        (["--nvtx", "a"], ["first"], 20),
        (["--nvtx", "a/0"], ["first"], 20),
        (["--device", "1"], ["second"], 20),
        (["--device", "0", "--device", "1"], ["first", "second"], 40),
        (["--process", str(PID)], ["first"], 20),
    ],
)
def test_a_part_of_a_capture(
    cli: Cli, export: Path, options: list[str], names: list[str], total: int
) -> None:
    done = cli("report", export, "-r", KERNELS, "--format", "csv", *options)
    assert done.returncode == 0
    assert sorted(line["Name"] for line in read_csv(done.stdout)) == names
    assert sum(int(line["Total Time (ns)"]) for line in read_csv(done.stdout)) == total
    assert ("no events in the selection" in done.stderr) == (not names)
    assert "nsyswrap: selected: " in done.stderr


def test_the_mode_of_cutting_is_said_with_every_report(cli: Cli, export: Path) -> None:
    done = cli("report", export, "-r", f"{KERNELS},launch_overhead", "--time", "20ns/65ns")
    assert done.stdout.count("selected: time 0.00000002s/0.000000065s; whole rows (--clip no)") == 1
    assert (
        done.stdout.count("selected: time 0.00000002s/0.000000065s; rows cut at its ends (--clip yes)") == 1
    )
    as_csv = cli("report", export, "-r", f"{KERNELS},gpu_time", "--nvtx", "a", "--csv", "out")
    said = "NVTX range 'a': its only instance; "
    assert as_csv.stderr.splitlines()[:2] == [
        f"nsyswrap: selected in {KERNELS}: {said}whole rows (--clip no)",
        f"nsyswrap: selected in gpu_time: {said}rows cut at its ends (--clip yes)",
    ]
    told = cli("report", export, "-r", "all", "--time", "20ns/65ns", "--clip", "yes").stdout
    assert "--clip no" not in told


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--time", "1/2", "--nvtx", "a"], "--time cannot be used with --nvtx", 2),
        (["--nvtx", "c"], "no NVTX range named 'c'", 65),
        (["--nvtx", "a/1"], "no NVTX range 'a/1'; instances named 'a': 1", 65),
        (["-r", "gpu_gaps:gap=x"], "'x' is not a whole number", 2),
        (["-r", "gpu_gaps:gap=-1"], "gpu_gaps: gap=-1 is out of range", 2),
        (["--format", "parquet"], "--format parquet needs -o", 2),
    ],
)
def test_what_is_refused(cli: Cli, export: Path, options: list[str], message: str, code: int) -> None:
    done = cli("report", export, *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr.splitlines()[0]


def test_a_range_that_is_not_there_is_said_once_where_there_are_no_kernels(cli: Cli, tmp_path: Path) -> None:
    done = cli("report", write(tmp_path / "x.sqlite", nvtx("a", 0, 40)), "-r", "all", "--nvtx", "b")
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.splitlines()[1:] == ["  names: a"]


def test_options_of_a_report_stand_behind_its_name(cli: Cli, export: Path, tmp_path: Path) -> None:
    asked = ["-r", "gpu_time_util:threshold=100:chunks=2,cuda_gpu_kern_sum:nvtx-name", "-r", KERNELS]
    done = cli("report", export, *asked, "--csv", tmp_path / "out")
    assert done.returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "cuda_gpu_kern_sum.csv",
        "cuda_gpu_kern_sum_nvtx-name.csv",
        "gpu_time_util_threshold=100_chunks=2.csv",
    ]
    prefixed = (tmp_path / "out" / "cuda_gpu_kern_sum_nvtx-name.csv").read_text(encoding="utf-8")
    assert sorted(line["Name"] for line in read_csv(prefixed)) == [
        "a/first",
        "second",
    ]  # b is another process'


def test_rows_are_sorted_and_matched_in_every_format(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(PICTURED / EXPORT, tmp_path / "x.sqlite")
    frame = open_capture(tmp_path / "x.sqlite").report("cuda_api_sum").frame
    wanted = frame[frame.name.str.lower().str.contains("stream")].sort_values("med_ns", ascending=False)
    assert 1 < len(wanted) < len(frame)
    asked = ("report", "x.sqlite", "-r", "cuda_api_sum", "--match", "STREAM", "--sort")
    for form in ("csv", "json", "text", "markdown"):
        out = cli(*asked, "med_ns", "--format", form).stdout
        assert re.findall(r"\bcu\w*Stream\w*", out)[: len(wanted)] == list(wanted.name)
        up = cli(*asked, "-Med", "--format", form).stdout
        assert re.findall(r"\bcu\w*Stream\w*", up)[: len(wanted)] == list(wanted.name)[::-1]
    assert f"'STREAM' matches {len(wanted)} of {len(frame)} rows" in cli(*asked, "med_ns").stdout
    assert cli(*asked, "med_ns", "--csv", "out", "--top", "1").returncode == 0
    assert len(read_csv((tmp_path / "out" / "cuda_api_sum.csv").read_text())) == len(wanted)
    for column in ("Max", "StdDev"):
        assert (
            f" {column} "
            in cli("report", "x.sqlite", "-r", "cuda_api_sum", "--sort", column, COLUMNS="60").stdout
        )
    none = cli("report", "x.sqlite", "-r", "cuda_api_sum", "--match", "cu?z*", "--format", "csv")
    assert (none.returncode, len(none.stdout.splitlines())) == (0, 1)


def test_a_kernel_matches_by_its_readable_name(cli: Cli, tmp_path: Path) -> None:
    name = "ampere_sgemm_128x64_nn"
    write(
        tmp_path / "x.sqlite",
        *(call("cudaLaunchKernel", 100 * i, 100 * i + 5, i) for i in (1, 2)),
        kernel(name, 110, 120, 1),
        kernel("other", 210, 220, 2),
    )
    shown = readable(name)
    assert shown.casefold() not in name
    done = cli("report", "x.sqlite", "-r", KERNELS, "--match", shown, "--format", "csv")
    assert [line["Name"] for line in read_csv(done.stdout)] == [name]


def test_a_kernel_matches_by_the_number_of_its_readable_name(tmp_path: Path) -> None:
    add = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, X>(int)"
    names = [add, add.replace("(int)4", "4")]
    path = write(tmp_path / "x.sqlite", *(kernel(name, 10 * i, 10 * i + 5) for i, name in enumerate(names)))
    table = open_capture(path).report(KERNELS)
    for pattern, matched in (("#2", names[1:]), ("*add<float>* #1", names[:1]), ("add<float>", names)):
        assert sorted(arranged(table, match=pattern).data["name"]) == sorted(matched)


def test_a_name_with_brackets_matches_as_it_is_shown(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "x.sqlite", memcpy(1, 0, 10, 8), memcpy(2, 20, 30, 8))
    asked = ("report", "x.sqlite", "-r", "cuda_gpu_mem_time_sum", "--format", "csv", "--match")
    for pattern in ("[CUDA memcpy Host-to-Device]", "[cuda memcpy host", "*to-[d]evice]"):
        [line] = read_csv(cli(*asked, pattern).stdout)
        assert line["Operation"] == "[CUDA memcpy Host-to-Device]"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("-r", KERNELS, "--sort", "medns"), "no column named 'medns'\n  did you mean 'med_ns'?"),
        (("--sort", "med_ns"), "--sort needs the name of a report"),
        (("--match", "*k*"), "--match needs the name of a report"),
        (("--list", "--match", "*k*"), "--list cannot be used with --match"),
    ],
)
def test_a_sort_without_such_a_column_is_refused(
    cli: Cli, export: Path, options: tuple[str, ...], told: str
) -> None:
    done = cli("report", export, *options)
    assert (done.returncode, done.stdout, told in done.stderr) == (2, "", True), done.stderr


def test_files_without_a_name_are_those_of_the_summaries(cli: Cli, export: Path, tmp_path: Path) -> None:
    for folder, options in (("default", ()), ("all", ("-r", "all")), ("sums", ("-r", "*_sum,gpu_*"))):
        assert cli("report", export, "--csv", folder, *options).returncode == 0
    folders = ("default", "all", "sums")
    written = {name: {path.stem for path in (tmp_path / name).iterdir()} for name in folders}
    assert written["default"] == written["all"] & set(SUMMARIES)
    assert written["all"] - set(SUMMARIES) >= {"cuda_gpu_trace", "gpu_gaps"}
    assert written["sums"] == {name for name in written["all"] if re.match(r"gpu_|.*_sum$", name)}
    done = cli("report", export, "-r", "x*")
    assert (done.returncode, "no report matches 'x*'" in done.stderr) == (2, True)


def test_files_like_those_of_nsys(cli: Cli, export: Path, tmp_path: Path) -> None:
    asked = ("-r", f"{KERNELS}:base,mpi_event_sum", "--csv")
    done = cli("report", export, *asked, "out/x", "--like-nsys")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "wrote 2 CSV files out/x_*.csv")
    cli("report", export, *asked, "plain")
    names = {f"x_{KERNELS}_base.csv", "x_mpi_event_sum.csv"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    same = (tmp_path / "out" / f"x_{KERNELS}_base.csv").read_bytes()
    assert same == (tmp_path / "plain" / f"{KERNELS}_base.csv").read_bytes()
    assert (tmp_path / "out" / "x_mpi_event_sum.csv").read_bytes() == b""
    assert cli("report", export, "-r", "mpi_event_sum", "--csv", "y", "--like-nsys").returncode == 0
    assert (tmp_path / "y_mpi_event_sum.csv").read_bytes() == b""
    for folder in (".", "..", "/"):
        refused = cli("report", export, "-r", KERNELS, "--csv", folder, "--like-nsys")
        assert (refused.returncode, f"--csv {folder} is a folder" in refused.stderr) == (2, True)
    refused = cli("report", export, "-r", KERNELS, "--like-nsys")
    assert (refused.returncode, "--like-nsys needs --csv PREFIX" in refused.stderr) == (2, True)


def test_names_behind_the_first_report_are_reports(cli: Cli, export: Path, tmp_path: Path) -> None:
    asked = ("--format", "csv")
    both = cli("report", export, "-r", KERNELS, "-r", "gpu_gaps:gap=1", *asked).stdout
    assert cli("report", export, "-r", KERNELS, "gpu_gaps:gap=1", *asked).stdout == both
    (tmp_path / "gpu_time").mkdir()
    write(tmp_path / "gpu_time" / "a.sqlite", kernel("k", 0, 5))
    assert cli("report", "-r", KERNELS, "gpu_time", *asked).stdout.endswith("k\n")  # a file of that name
    typed = cli("report", export, "gpu_idle")  # no file of that name
    assert (typed.returncode, f"use nsyswrap report {export} -r gpu_idle" in typed.stderr) == (2, True)


def test_a_quoted_pattern_names_captures(cli: Cli, tmp_path: Path) -> None:
    for name in ("a1", "a2", "b1"):
        write(tmp_path / f"{name}.sqlite", kernel(name, 0, 5))
    done = cli("report", "a*.sqlite", "-r", KERNELS, "--format", "csv")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["Capture", "a1", "a2"]
    assert "no files match c*.sqlite" in cli("report", "c*.sqlite").stderr
    assert cli("view", "?1.sqlite", "-o", "x.html").returncode == 0


def test_a_time_without_events_says_where_the_gpu_works(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", kernel("k", 2_600_000_000, 2_700_000_000))
    for options in ((), ("-r", KERNELS), ("-r", KERNELS, "--format", "csv")):
        done = cli("report", "a.sqlite", "--time", "1/2", *options)
        assert "a.sqlite has GPU work from 2.60 s to 2.70 s; 1/2 is in ns, 1s/2s in s\n" in done.stderr


def test_a_time_with_other_events_does_not(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", kernel("k", 2_600_000_000, 2_700_000_000), memcpy(1, 0, 9, 4096))
    done = cli("report", "a.sqlite", "--time", "2650000000/2660000000", "-r", "memcpy_bandwidth")
    assert "no events in the selection" in done.stderr
    assert "has GPU work from" not in done.stderr


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "md", "parquet", "txt", "log"])
def test_the_ending_of_the_file_is_the_format(cli: Cli, export: Path, tmp_path: Path, ending: str) -> None:
    forms = {"md": "markdown", "txt": "text", "log": "text"}
    by_format = ("--format", forms.get(ending, ending), "-o", f"by_format.{ending}")
    for options in (by_format, ("-o", f"by_ending.{ending}")):
        done = cli("report", export, "-r", KERNELS, *options)
        assert done.returncode == 0, done.stderr
    contents = {path.stem: path.read_bytes() for path in tmp_path.glob(f"*.{ending}")}
    assert contents["by_ending"] == contents["by_format"]


def test_an_ending_of_another_command_is_refused(cli: Cli, export: Path, tmp_path: Path) -> None:
    done = cli("report", export, "-o", "page.html")
    assert done.stderr.splitlines() == [
        "nsyswrap: this command does not write .html files: page.html",
        f"  nsyswrap view {export} -o page.html writes one",
    ]
    assert done.returncode == 2
    done = cli("collect", export, "-o", "t.csv")
    assert done.stderr.splitlines() == [
        "nsyswrap: this command does not write .csv files: t.csv",
        "  -o t writes a folder; t/results.csv has a row for each run",
    ]
    assert done.returncode == 2
    below = cli("collect", export, "-o", "my runs/t.csv")
    assert "  -o 'my runs/t' writes a folder; 'my runs/t'/results.csv" in below.stderr
    assert not (tmp_path / "page.html").exists()
    assert not (tmp_path / "t.csv").exists()


@pytest.mark.parametrize("options", [[], ["--by", "rank"], ["-o", "all.csv"]])
@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_csv_is_of_named_reports(
    cli: Cli, export: Path, tmp_path: Path, form: str, options: list[str]
) -> None:
    done = cli("report", export, "--format", form, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"nsyswrap: --format {form} needs the name of a report\n"
        "  use -r NAME, or --csv DIR for a file of each report\n"
    )
    assert not (tmp_path / "all.csv").exists()
    done = cli("report", export, "--format", form, "--csv", "out")
    assert (done.returncode, done.stderr.splitlines()[1]) == (2, "  omit --format")


def test_two_reports_in_one_stream_are_as_nsys_writes_them(cli: Cli, nsys: str, tmp_path: Path) -> None:
    export = shutil.copy(PICTURED / EXPORT, tmp_path / "x.sqlite")
    names = ["cuda_gpu_kern_sum", "cuda_api_sum"]
    command = [
        nsys,
        "stats",
        "--format",
        "csv",
        "--force-overwrite=true",
        "--report",
        ",".join(names),
        export,
    ]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    theirs = "".join(line for line in said.splitlines(keepends=True) if not line.startswith("Processing "))
    options = ["--format", "csv", "--rounding", "legacy"]
    for named in (["-r", names[0], "-r", names[1]], ["-r", ",".join(names)]):
        assert cli("report", export, *named, *options).stdout.strip() == theirs.strip()


def test_csv_files_are_written_and_only_their_folder_is_printed(
    cli: Cli, export: Path, tmp_path: Path
) -> None:
    done = cli("report", export, "-r", KERNELS, "--csv", tmp_path / "out", "--process", "100")
    folder = tmp_path / "out"
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"nsyswrap: selected: process 100\nwrote 1 CSV file to {folder}/\n"
    as_json = cli("report", export, "-r", KERNELS, "--csv", folder, "--format", "json")
    assert json.loads(as_json.stdout)["reports"][0]["name"] == KERNELS
    cli("report", export, "-r", KERNELS, "--csv", folder, "-o", tmp_path / "text.txt")
    assert KERNELS in (tmp_path / "text.txt").read_text(encoding="utf-8")


def test_several_captures_make_one_table(cli: Cli, export: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.sqlite", kernel("other", 0, 5))
    done = cli("report", export, other, "-r", KERNELS, "--format", "csv")
    assert done.returncode == 0
    assert [(line["Capture"], line["Name"]) for line in read_csv(done.stdout)] == [
        ("x", "first"),
        ("x", "second"),
        ("other", "other"),
    ]
    shown = cli("report", export, other, "-r", KERNELS).stdout
    assert [line.split()[0] for line in shown.splitlines()[2:]] == ["x", "x", "other"]


def test_of_several_captures_one_that_is_bad_does_not_hide_the_others(cli: Cli, export: Path) -> None:
    done = cli("report", "gone.sqlite", export, "-r", KERNELS, "--format", "csv")
    assert done.returncode == 65
    assert len(read_csv(done.stdout)) == 2
    assert done.stderr.startswith("nsyswrap: gone.sqlite not found")


def test_a_report_that_one_of_several_captures_lacks(cli: Cli, export: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.sqlite", kernel("other", 0, 5))
    done = cli("report", export, other, "-r", "cuda_api_sum", "--format", "json")
    document = json.loads(done.stdout)
    assert [capture["label"] for capture in document["captures"]] == ["x", "other"]
    [report] = document["reports"]
    assert {line["capture"] for line in report["rows"]} == {"x"}
    assert "not collected" in str(report["notes"])
    assert "no cuda_api_sum: other holds no CUDA API calls" in done.stderr


def test_json_says_what_was_not_collected_instead_of_failing(cli: Cli, export: Path) -> None:
    done = cli("report", export, "-r", "osrt_sum", "--format", "json", "--device", "0")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert (document["format"], document["version"]) == ("nsyswrap-reports", 4)
    assert document["window"]["devices"] == [0]
    assert document["reports"][0]["rows"] == []
    assert document["reports"][0]["notes"][0].startswith("not collected: ")


def test_one_parquet_file_or_a_folder_of_them(cli: Cli, export: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    one = cli("report", export, "-r", KERNELS, "--format", "parquet", "-o", tmp_path / "one.parquet")
    assert (one.returncode, one.stdout) == (0, "")
    assert parquet.read_table(tmp_path / "one.parquet").num_rows == 2
    wanted = f"{KERNELS},cuda_api_sum"
    assert cli("report", export, "-r", wanted, "--format", "parquet", "-o", tmp_path / "many").returncode == 0
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == [
        "cuda_api_sum.parquet",
        f"{KERNELS}.parquet",
    ]


def test_formulas_are_guarded_when_asked(cli: Cli, tmp_path: Path) -> None:
    export = write(tmp_path / "x.sqlite", kernel("=1+1", 0, 5))
    plain = cli("report", export, "-r", KERNELS, "--format", "csv").stdout
    safe = cli("report", export, "-r", KERNELS, "--format", "csv", "--csv-safe").stdout
    assert (read_csv(plain)[0]["Name"], read_csv(safe)[0]["Name"]) == ("=1+1", "'=1+1")


def test_what_was_built_in_is_said_once(cli: Cli, tmp_path: Path) -> None:
    export = write(tmp_path / "x.sqlite", memcpy(1, 0, 5, 8))
    done = cli("report", export, "-r", "cuda_gpu_mem_time_sum,cuda_gpu_sum")
    [line] = done.stderr.splitlines()
    assert line.startswith(
        "nsyswrap: cuda_gpu_mem_time_sum, cuda_gpu_sum: the export has no ENUM_CUDA_MEMCPY_OPER"
    )


def test_an_export_newer_than_any_known_one(cli: Cli, tmp_path: Path) -> None:
    said = {"EXPORT_PRODUCT_VERSION": "2031.1.1", "EXPORT_SCHEMA_VERSION": "9.1.0"}
    lines = [row("META_DATA_EXPORT", name=name, value=value) for name, value in said.items()]
    done = cli("report", write(tmp_path / "x.sqlite", kernel("k", 0, 5), *lines), "-r", KERNELS)
    assert done.returncode == 0
    assert "written by nsys 2031.1.1 (schema 9.1.0), newer than the last tested release" in done.stderr


def test_a_long_step_is_said_on_a_terminal_and_wiped_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(show, "_PATIENCE_S", 0.01)
    with show.step("reading x.sqlite …"):
        wait_until(terminal.getvalue)
    assert terminal.getvalue() == f"\r{' ' * 79}\rreading x.sqlite …\r{' ' * 79}\r"
    monkeypatch.setattr(show, "_PATIENCE_S", 3600)
    with show.step("making cuda_api_sum …"):
        pass
    assert "cuda_api_sum" not in terminal.getvalue()


def test_the_list_of_what_a_capture_answers(cli: Cli, export: Path) -> None:
    done = cli("report", export, "--list")
    assert (done.returncode, done.stderr) == (0, "")
    here, rest, outside = done.stdout.split("\n\n")
    assert "".join(here.split()).startswith(f"Reportswithdatain{export}")  # a long path has lines of its own
    assert f"  {KERNELS} " in here
    assert "  osrt_sum " in rest
    assert "--trace cuda,nvtx,osrt" in rest
    assert all((name in here) != (name in rest) for name in ("um_sum", "nvtx_sum", "mpi_event_trace"))
    assert all(name in outside for names in OUTSIDE.values() for name in names.split())


@pytest.mark.parametrize(
    "words",
    [
        ("report", "--list"),
        ("report", "--explain", KERNELS),
        ("report", "--explain", "rank_skew"),
        ("scenarios", "list"),
    ],
)
def test_lists_and_explanations_fit_the_terminal(cli: Cli, words: tuple[str, ...]) -> None:
    assert max(map(len, cli(*words, COLUMNS="70").stdout.splitlines())) <= 70


def test_the_explanation_of_a_scenario_fits_the_terminal(cli: Cli) -> None:
    assert max(map(len, cli("scenarios", "explain", "add2", COLUMNS="80").stdout.splitlines())) <= 80


def test_the_list_without_a_capture(cli: Cli) -> None:
    done = cli("report", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"  {name} " in done.stdout for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_explained(cli: Cli, name: str) -> None:
    done = cli("report", "--explain", name)
    assert (done.returncode, done.stderr) == (0, "")
    flat = " ".join(done.stdout.split())
    for column in find_report(name).columns:
        assert " ".join(column.help.split()) in flat
        assert f"[{column.name}, " in flat
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_an_explanation_names_a_column_as_the_screen_and_as_programs_do(cli: Cli) -> None:
    own = cli("report", "--explain", "timing_audit").stdout
    assert re.search(r"^  Expected  .*?\[should_med_ns, ns, computed\]", own, re.MULTILINE | re.DOTALL)
    assert re.search(r"^  Error %  ", own, re.MULTILINE)
    assert "Columns of the screen; in brackets: name in CSV, JSON and Python" in own
    of_nsys = cli("report", "--explain", KERNELS).stdout
    assert re.search(r"^  Total Time \(ns\)  ", of_nsys, re.MULTILINE)
    assert "Columns of nsys' CSV" in of_nsys


@pytest.mark.parametrize("options", [["--list"], ["--explain", KERNELS]])
def test_what_is_told_of_reports_goes_into_a_file_too(
    cli: Cli, export: Path, tmp_path: Path, options: list[str]
) -> None:
    printed = cli("report", export, *options).stdout
    done = cli("report", export, *options, "-o", "told.txt")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "told.txt").read_text(encoding="utf-8") == printed != ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--list", "--explain", KERNELS], "--explain cannot be used with --list"),
        (["--list", "--format", "json"], "--list cannot be used with --format"),
        (["--list", "--csv", "new"], "--list cannot be used with --csv"),
        (["--explain", KERNELS, "-r", KERNELS], "--explain cannot be used with --report"),
        (["--csv", "new", "-o", "new.txt"], "-o cannot be used with --csv alone"),
    ],
)
def test_options_that_would_have_no_effect(
    cli: Cli, export: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    done = cli("report", export, *options)
    printed = json.loads(done.stdout)["what"] if "json" in options else done.stdout
    assert (done.returncode, printed) == (2, said if "json" in options else "")
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == [export]
