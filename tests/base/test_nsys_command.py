"""What nsys is told, what it says, and what makes an export complete."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.nsys.find import Nsys, find_nsys
from nsyswrap.base.nsys.options import RecordingOptions

COMPLETE = Path(__file__).resolve().parents[2] / "nsyswrap" / "recorded" / "add" / "grid" / "report.sqlite"
ALWAYS = ["--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none"]


def argv(options: RecordingOptions) -> list[str]:
    """What options make of the command line, without what is always there."""
    whole = nsys.profile_argv(Nsys("/nsys", "2025.3.1"), options, Path("run/report"), ["program", "-x"])
    assert whole[:2] == ["/nsys", "profile"]
    assert whole[-3:] == ["--output=run/report", "program", "-x"]
    return whole[2:-3]


def test_by_default_nsys_makes_its_own_tables() -> None:
    assert argv(RecordingOptions()) == ["--stats=true", *ALWAYS]


@pytest.mark.parametrize(
    ("options", "added"),
    [
        (
            RecordingOptions(um_faults=True),
            ["--cuda-um-cpu-page-faults=true", "--cuda-um-gpu-page-faults=true"],
        ),
        (RecordingOptions(memory=True), ["--cuda-memory-usage=true"]),
        (RecordingOptions(gpu_metrics=True), ["--gpu-metrics-device=all"]),
        (RecordingOptions(graphs="node"), ["--cuda-graph-trace=node"]),
        (RecordingOptions(follow_forks=True), ["--trace-fork-before-exec=true"]),
        (RecordingOptions(capture_range="cudaProfilerApi"), ["--capture-range=cudaProfilerApi"]),
        (
            RecordingOptions(capture_range="nvtx:a step@domain"),
            [
                "--capture-range=nvtx",
                "--nvtx-capture=a step@domain",
                "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
            ],
        ),
        (RecordingOptions(delay=0.5, duration=60.0), ["--delay=0.5", "--duration=60"]),
        (RecordingOptions(extra=("--kill=none", "-x", "true")), ["--kill=none", "-x", "true"]),
    ],
)
def test_an_option_adds(options: RecordingOptions, added: list[str]) -> None:
    assert argv(options) == ["--stats=true", *ALWAYS, *added]


def test_without_tables_the_export_is_still_asked_for() -> None:
    assert argv(RecordingOptions(stats=False)) == ["--export=sqlite", *ALWAYS]


def test_what_to_trace() -> None:
    assert argv(RecordingOptions(trace="cuda,cublas")) == ["--stats=true", "--trace=cuda,cublas", *ALWAYS[1:]]


def test_stacks_of_python_need_those_of_calls_and_samples_of_the_cpu() -> None:
    assert argv(RecordingOptions(python_lines=True)) == [
        *("--stats=true", ALWAYS[0], "--sample=process-tree", ALWAYS[2]),
        *("--cudabacktrace=all:0", "--python-backtrace=cuda"),
    ]


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_nsys_takes_the_stacks_of_all_calls(tmp_path: Path) -> None:
    options, program = RecordingOptions(python_lines=True, stats=False), [sys.executable, "-c", "pass"]
    command = nsys.profile_argv(find_nsys()[0], options, tmp_path / "report", program)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    printed = done.stdout + done.stderr
    if done.returncode and "sampl" in printed.lower():
        pytest.skip(f"this machine does not let nsys sample the CPU: {printed}")
    assert done.returncode == 0, printed
    with closing(sqlite3.connect(tmp_path / "report.sqlite")) as export:
        told = dict(export.execute("SELECT name, value FROM META_DATA_CAPTURE"))
    taken = {name.rpartition(":COLLECT_")[2]: value for name, value in told.items()}
    kinds = ("KERNEL", "MEMORY", "SYNCHRONOIZATION", "PYTHON")  # as nsys spells them
    assert [taken[f"{kind}_BACKTRACES"] for kind in kinds] == ["true"] * len(kinds)


@pytest.mark.parametrize(
    ("options", "may"),
    [
        (RecordingOptions(), False),
        (RecordingOptions(delay=1), False),
        (RecordingOptions(duration=1), True),
        (RecordingOptions(capture_range="nvtx:x"), True),
        (RecordingOptions(extra=("--duration=3",)), True),
        (RecordingOptions(extra=("-d", "3")), True),
        (RecordingOptions(extra=("-c", "nvtx")), True),
        (RecordingOptions(extra=("--duration-frames=60",)), True),
        (RecordingOptions(extra=("--delay=3",)), False),
    ],
)
def test_whether_nsys_may_end_the_program(options: RecordingOptions, *, may: bool) -> None:
    assert options.may_end_program is may


@pytest.mark.parametrize(
    ("options", "code", "log", "recorded_s", "ended"),
    [
        (RecordingOptions(), 143, "", 5, False),  # somebody else's SIGTERM
        (RecordingOptions(duration=2), 143, "", 2.01, True),
        (RecordingOptions(duration=2), 5, "", 2.01, True),  # the program caught the signal
        (RecordingOptions(duration=2), 5, "", 1.5, False),  # it failed before
        (RecordingOptions(duration=2), 5, "", 1.995, True),
        (RecordingOptions(capture_range="nvtx:x"), 5, "Capture range ended in the application.", 1, True),
        (RecordingOptions(capture_range="nvtx:x"), 5, "Capture range started in the application.", 1, False),
        (
            RecordingOptions(capture_range="nvtx:x", extra=("--capture-range-end=stop",)),
            5,
            "Capture range ended in the application.",
            1,
            False,
        ),
        (RecordingOptions(extra=("--duration=2",)), 143, "", 2.01, True),
    ],
)
def test_whether_nsys_ended_the_program(
    options: RecordingOptions, code: int, log: str, recorded_s: float, *, ended: bool
) -> None:
    assert options.ended_program(code, log, recorded_s) is ended


@pytest.mark.parametrize(
    ("extra", "outlives"),
    [((), False), (("--kill=none",), True), (("--kill", "none"), True), (("--wait=primary",), True)],
)
def test_whether_the_program_outlives_nsys(extra: tuple[str, ...], *, outlives: bool) -> None:
    assert RecordingOptions(extra=extra).program_outlives_nsys is outlives


# As 2023.4.4 writes it into a file: progress bars with carriage returns, the tables before "Generated:".
SAID = (
    "Generating '/tmp/nsys-report-05f5.qdstrm'\n"
    "\r[1/3] [0%                          ] report.nsys-rep"
    "\r[1/3] [===========50%              ] report.nsys-rep"
    "\r[1/3] [========================100%] report.nsys-rep\n"
    "\r[2/3] [0%                          ] report.sqlite"
    "\r[2/3] [========================100%] report.sqlite\n"
    "[3/3] Executing 'cuda_api_sum' stats report\n"
    "\n"
    " Time (%)  Name\n"
    " --------  ----\n"
    "    100.0  cudaFree\n"
    "\n"
    "Generated:\n    /r/report.nsys-rep\n    /r/report.sqlite\n"
)


def test_what_nsys_said_is_split_into_log_and_tables() -> None:
    log, tables = nsys.split_log(SAID)
    assert log == (
        "Generating '/tmp/nsys-report-05f5.qdstrm'\n"
        "[1/3] [========================100%] report.nsys-rep\n"
        "[2/3] [========================100%] report.sqlite\n"
        "Generated:\n    /r/report.nsys-rep\n    /r/report.sqlite\n"
    )
    assert tables.startswith("[3/3] Executing 'cuda_api_sum' stats report\n")
    assert "100.0  cudaFree" in tables
    assert "Generated" not in tables


def test_without_tables_all_is_log() -> None:
    assert nsys.split_log("a\nb\n") == ("a\nb\n", "")
    assert nsys.split_log("") == ("", "")


@pytest.mark.parametrize(
    ("tail", "shown"),
    [
        ("", ""),
        ("Generating '/tmp/nsys-report-05f5.qdstrm'\n", ""),
        (SAID[: SAID.index("50%") + 40], "nsys: importing the recording 50 %"),
        (SAID[: SAID.index("report.sqlite") + 13], "nsys: exporting to SQLite 0 %"),
    ],
)
def test_progress(tail: str, shown: str) -> None:
    assert nsys.progress(tail) == shown


@pytest.mark.parametrize(
    ("log", "meaning"),
    [
        ("", ""),
        ("Generated:\n    /r/report.nsys-rep\n", ""),
        (
            "Importation failed.\nFailed to create '/r/report.qdstrm': No space left on device.",
            "the disk is full",
        ),
        (
            "Importer error status: The importer binary and its dependencies were not found.",
            "nsys cannot find its importer",
        ),
        ("Failed to get number of the device CPUs.", "nsys cannot read /sys"),
        ("Failed to probe the process (sync)", "nsys could not start the program"),
        (
            'boost::filesystem::temp_directory_path: Not a directory [system:20]: "/nonexistent"',
            "nsys cannot find a folder for its temporary files",
        ),
        (
            'Failed to create directory "/proc/nvidia": No such file or directory',
            'nsys says: Failed to create directory "/proc/nvidia": No such file or directory',
        ),
        (
            "unrecognised option '--bogus=1'\n\nusage: nsys profile",
            "this nsys says: unrecognised option '--bogus=1'",
        ),
        ("Export failed: [QuadDCommon::tag_message*] = database or disk is full", "the disk is full"),
        ("unrecognized option '--x'", "this nsys says: unrecognized option '--x'"),
        (
            "Illegal --trace argument 'bogus'\nPossible --trace values are one or more of",
            "nsys says: Illegal --trace argument 'bogus'",
        ),
        (
            "Illegal --gpu-metrics-device arguments.\nNone of the installed GPUs are supported.",
            "nsys cannot sample the counters of this machine's GPUs",
        ),
        (
            "Failed to create '/r/report.nsys-rep': No such file or directory.\n",
            "nsys says: Failed to create '/r/report.nsys-rep': No such file or directory.",
        ),
        (
            "Importer error status: Importation failed.",
            "nsys says: Importer error status: Importation failed.",
        ),
    ],
)
def test_what_nsys_says_has_a_meaning(log: str, meaning: str) -> None:
    assert nsys.fault(log)[0] == meaning


def test_a_fault_is_found_behind_a_progress_bar_and_cut() -> None:
    bar = "\r[1/2] [0%   ] report.nsys-rep\r[1/2] [==50%  ] report.nsys-rep"
    meaning, _ = nsys.fault(f"{bar}\rImportation failed: {'x' * 300}\n")
    assert meaning.startswith("nsys says: Importation failed: xxx")
    assert (len(meaning), meaning[-2:]) == (len("nsys says: ") + 202, " …")


def test_an_agent_that_was_killed_is_named() -> None:
    said = "Connection to Agent lost. This is most likely a bug. Internal reason: 'End of file'.\n"
    assert nsys.fault(said)[0] == "nsys lost the connection to its agent, as if that was killed"


def test_messages_are_quoted_once_with_their_count() -> None:
    said = SAID + 1200 * "Buffer lost.\n" + "Other.\n" + "Other.\n".join(f"{n}\n" for n in range(5))
    assert nsys.quoted(said) == "Buffer lost. (1,200 times); Other. (5 times); 0; and 4 other lines"
    assert nsys.quoted("Generating '/tmp/nsys-report-05f5.qdstrm'\nGenerated:\n    /r/x.nsys-rep\n") == ""


@pytest.mark.parametrize("payloads", [True, False])
def test_an_export_with_the_payloads_of_events(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, payloads: bool
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], *_: object, **__: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        output = next(word for word in command if word.startswith("--output=")).removeprefix("--output=")
        shutil.copy(COMPLETE, output)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(nsys, "run_tool", run)
    target = tmp_path / "report.sqlite"
    target.write_bytes(b"that of nsys")
    nsys.export("nsys", tmp_path / "report.nsys-rep", target, payloads=payloads)
    assert target.read_bytes() == COMPLETE.read_bytes()
    assert ("--include-blobs=true" in commands[0]) is payloads


def test_a_complete_export() -> None:
    assert nsys.check_export(COMPLETE) == ""
    assert nsys.recorded_s(COMPLETE) > 0


@pytest.mark.parametrize(
    ("counted", "recorded_s"), [("1000", 1.0), ("0", 0.059), ("soon", 0.059), (None, 0.059)]
)
def test_nsys_says_how_long_it_counted(tmp_path: Path, counted: str | None, recorded_s: float) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as db:
        db.execute("CREATE TABLE ANALYSIS_DETAILS (duration)")
        db.execute("INSERT INTO ANALYSIS_DETAILS VALUES (59000000)")
        if counted:
            db.execute("CREATE TABLE META_DATA_CAPTURE (name, value)")
            db.execute("INSERT INTO META_DATA_CAPTURE VALUES ('RUN_DURATION_MS', ?)", [counted])
        db.commit()
    assert nsys.recorded_s(tmp_path / "x.sqlite") == recorded_s


def test_no_export(tmp_path: Path) -> None:
    assert nsys.check_export(tmp_path / "absent.sqlite") == "the export is missing"
    assert nsys.recorded_s(tmp_path / "absent.sqlite") == 0


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.999])
def test_a_cut_off_export(tmp_path: Path, kept: float) -> None:
    content = COMPLETE.read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(content[: int(len(content) * kept)])
    assert nsys.check_export(tmp_path / "cut.sqlite") != ""


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(4080)])
def test_what_is_no_export(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.sqlite").write_bytes(content)
    assert nsys.check_export(tmp_path / "file.sqlite") != ""
    assert nsys.recorded_s(tmp_path / "file.sqlite") == 0


def test_a_stub(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "stub.sqlite")) as db:
        db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    assert "nsys did not finish writing it" in nsys.check_export(tmp_path / "stub.sqlite")


def test_checking_writes_nothing(tmp_path: Path) -> None:
    export = tmp_path / "a#b?c%20.sqlite"
    export.write_bytes(COMPLETE.read_bytes())
    assert nsys.check_export(export) == ""
    assert list(tmp_path.iterdir()) == [export]


@pytest.mark.parametrize("name", ["a%pb", "R&D", 'a "b"', "two\nlines"])
def test_folders_nsys_cannot_write_into(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nsys.cannot_write_into(tmp_path / name / "run")
    assert not nsys.cannot_write_into(tmp_path / "it's fine" / "run")
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    assert nsys.cannot_write_into(Path("run"))
