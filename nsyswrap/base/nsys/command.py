"""The command line of nsys, its export, and the messages that it prints."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import DamagedCapture, OutputError, Unavailable
from nsyswrap.base.files import temporary_folder
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys import find
from nsyswrap.base.nsys.options import ADVICE_FOR_NCCL, GARBAGE, NVTX_RANGE, RecordingOptions
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT, free_space_note
from nsyswrap.base.run_tool import fault_of, run_tool

with lazy_imports():
    from nsyswrap.base import sqlite

EXPORT_DEADLINE_S = 1800
# In the path of a report nsys replaces the first character and fails for the others.
_UNUSABLE = '%&"\n'
RANGE_STARTED = "Capture range started in the application"

# A semaphore is named after a process: a killed nsys of another user can have left one of this name.
_FOREIGN_SEMAPHORE = r"\"Permission denied\"\n\S+ = sem_open"
# On a busy machine nsys sometimes loses the connection to its agent before the program starts.
_LOST_AGENT = re.compile(
    r"^End of file$|Local Endpoint is not available|Connection to Agent lost|The proxy is not started|"
    + _FOREIGN_SEMAPHORE,
    re.MULTILINE,
)
_FULL = r"No space left on device|disk is full"  # messages of nsys and of its SQLite
NO_COUNTERS = (
    "nsys cannot sample the counters of this machine's GPUs",
    "nsyswrap doctor says if you may; omit --gpu-metrics to record without them",
)
DISK_FULL = ("the disk is full", "free some disk space, or use an --output on another disk")
# Pattern of a message of nsys, its meaning, and the cure. The first match counts. {} is the matched text.
_FAULTS = (
    (_FULL, *DISK_FULL),
    (
        r"importer binary and its dependencies",
        "nsys cannot find its importer",
        "use --nsys to name another nsys",
    ),
    (r"number of the device CPUs", "nsys cannot read /sys", "mount /sys in the chroot or container"),
    (
        r"Failed to connect to Agent",
        "nsys could not connect to its agent",
        "do not run nsys inside another nsys",
    ),
    (
        r"Connection to Agent lost",
        "nsys lost the connection to its agent, as if that was killed",
        "profile again",
    ),
    (
        r"Local Endpoint is not available|The proxy is not started",
        "nsys lost the connection to its agent",
        "profile again, when the machine is less busy",
    ),
    (
        _FOREIGN_SEMAPHORE,
        "nsys may not open a semaphore in /dev/shm: another user's nsys left one of its name",
        "remove /dev/shm/sem.NSys-*, as their owners or as root; /dev/shm needs mode 1777",
    ),
    (
        r"sem_open",
        "nsys cannot create a semaphore: /dev/shm is missing or not writable",
        "in the chroot or container: mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
    ),
    (
        r"(?m)^Network is unreachable",
        "nsys needs the loopback network interface, which is missing or down",
        "in the container or network namespace: ip link set lo up",
    ),
    (
        r"Failed to probe the process",
        "nsys could not start the program",
        "check that TMPDIR is writable and has free space",
    ),
    (
        r"temp_directory_path",
        "nsys cannot find a folder for its temporary files",
        "check that TMPDIR is a writable folder",
    ),
    (r"Failed to create directory .*", "nsys says: {}", "check that TMPDIR is a writable folder"),
    (
        r"(?m)^(?:unrecogni[sz]ed )?option '.*",
        "this nsys says: {}",
        "see `nsys profile --help` and --nsys-arg",
    ),
    (r"Illegal --trace argument 'nccl'", "this nsys cannot trace nccl", ADVICE_FOR_NCCL),
    (r"Illegal --gpu-metrics-device", *NO_COUNTERS),
    (r"Illegal --.*", "nsys says: {}", "see `nsys profile --help`"),
    (r"Failed to create '.*", "nsys says: {}", "check that the output folder is writable"),
    (r".*(?:Importation|Exportation) (?:failed|error).*", "nsys says: {}", ""),
)
_NO_SAMPLES = ("--sample=none", "--cpuctxsw=none")
# nsys takes Python stacks only with those of CUDA calls, and these only while it samples the CPU. Of kinds in
# a list, such as kernel:0,sync:0, it heeds the last one alone.
_CALLS = "--cudabacktrace=all:0"  # those that take at least 0 ns
_PYTHON_LINES = ("--sample=process-tree", "--cpuctxsw=none", _CALLS, "--python-backtrace=cuda")
_PROGRESS = re.compile(r"\[\d+/\d+\] \[[^\]]*?(\d+)%\s*\] \S*?\.(nsys-rep|sqlite)")
_WITHOUT_MEANING = re.compile(r"Generat(ing '|ed:)|\[\d+/\d+\] |Collecting data|\s|Please refer to|https://")
_MOST_QUOTED, _LONGEST_QUOTED = 3, 200  # lines, characters
_STEPS = {"nsys-rep": "importing the recording", "sqlite": "exporting to SQLite"}
_STATS_START = re.compile(r"^\[\d+/\d+\] Executing '|^SKIPPED: |^ *\*\* .*:$")
_STATS_END = re.compile(r"^Generated:")


def profile_argv(
    nsys: find.Nsys, options: RecordingOptions, output: Path, program: Sequence[str]
) -> list[str]:
    """Return the command line that records ``program`` into ``output``.nsys-rep and .sqlite."""
    argv = [nsys.path, "profile", "--stats=true" if options.stats else "--export=sqlite"]
    trace, *more = _tracing_argv(options)
    argv += [trace, *(_PYTHON_LINES if options.python_lines else _NO_SAMPLES), *more]
    if options.gpu_metrics:
        argv.append(nsys.gpu_metrics)
    argv += _range_argv(options.recorded_range)
    if options.steps is not None:
        argv.append(f"--capture-range-end={'stop-shutdown' if options.then_stop else 'stop'}")
    if options.capture_range_end is not None:
        argv.append(f"--capture-range-end={options.capture_range_end}")
    if options.delay is not None:
        argv.append(f"--delay={options.delay:g}")
    if options.duration is not None:
        argv.append(f"--duration={options.duration:g}")
    if (
        nsys.discards_environment
        and not options.keep_environment
        and not any(find.DISCARD_ENVIRONMENT in arg for arg in options.extra)
    ):
        argv.append(f"{find.DISCARD_ENVIRONMENT}=true")
    return [*argv, *options.extra, f"--output={output}", *program]


def launch_argv(nsys: str, options: RecordingOptions, session: str, program: Sequence[str]) -> list[str]:
    """Return the command line that starts ``program`` in a session of nsys, which records nothing yet."""
    argv = [nsys, "launch", f"--session-new={session}", *_tracing_argv(options)]
    return [*argv, *options.extra, *program]


def start_argv(nsys: str, session: str, output: Path) -> list[str]:
    """Return the command line that begins a recording in a session; ``nsys stop`` ends it."""
    argv = [nsys, "start", f"--session={session}", *_NO_SAMPLES]
    return [*argv, "--export=sqlite", f"--output={output}"]


def _tracing_argv(options: RecordingOptions) -> list[str]:
    """Return nsys' options that say what is traced in a program; the first is --trace."""
    apis = [api for api in options.trace.split(",") if api != GARBAGE]
    needed = ["nvtx"] if options.marks and "nvtx" not in apis else []
    argv = [f"--trace={','.join([*apis, *needed])}"]
    if options.um_faults:
        argv += ["--cuda-um-cpu-page-faults=true", "--cuda-um-gpu-page-faults=true"]
    if options.memory:
        argv.append("--cuda-memory-usage=true")
    if options.graphs:
        argv.append(f"--cuda-graph-trace={options.graphs}")
    if options.follow_forks:
        argv.append("--trace-fork-before-exec=true")
    return argv


def _range_argv(capture_range: str | None) -> list[str]:
    """Return nsys' options for a capture range. By default nsys compares registered strings only."""
    if capture_range is None:
        return []
    if capture_range.startswith(NVTX_RANGE):
        name = capture_range.removeprefix(NVTX_RANGE)
        unregistered = "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0"
        return ["--capture-range=nvtx", f"--nvtx-capture={name}", unregistered]
    return [f"--capture-range={capture_range}"]


def cannot_write_into(folder: Path) -> bool:
    """Return True if nsys would record but then fail to write a report into a folder of this path."""
    return any(character in str(folder.absolute()) for character in _UNUSABLE)


def progress(log_tail: str) -> str:
    """Return what nsys does after the program has ended, as one line for a terminal; empty: nothing."""
    steps = _PROGRESS.findall(log_tail)
    if steps:
        percent, step = steps[-1]
        return f"nsys: {_STEPS[step]} {percent} %"
    return "nsys: writing its tables" if "Executing '" in log_tail else ""


def split_log(text: str) -> tuple[str, str]:
    """Split the output of nsys into its messages and its own tables. A progress bar is reduced to its end."""
    lines = _lines(text)
    start = next((i for i, line in enumerate(lines) if _STATS_START.match(line)), None)
    if start is None:
        return "\n".join(lines), ""
    end = next((i for i in range(start, len(lines)) if _STATS_END.match(lines[i])), len(lines))
    return "\n".join(lines[:start] + lines[end:]), "\n".join(lines[start:end]) + "\n"


def _lines(text: str) -> list[str]:
    return [line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]


def fault(log: str) -> tuple[str, str]:
    """Return the fault that the output of nsys names, and the cure; both are empty if it names none."""
    messages = "\n".join(_lines(log))
    for pattern, meaning, cure in _FAULTS:
        if message := re.search(pattern, messages):
            return meaning.format(_cut(message.group())), cure
    return "", ""


def quoted(log: str) -> str:
    """Return the first distinct messages in the output of nsys, each with its count; empty if it has none."""
    messages = Counter(_cut(line) for line in _lines(log) if line and not _WITHOUT_MEANING.match(line))
    first = [
        f"{message} ({count:,} times)" if count > 1 else message
        for message, count in islice(messages.items(), _MOST_QUOTED)
    ]
    more = len(messages) - len(first)
    return "; ".join([*first, *([f"and {more:,} other lines"] if more else [])])


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LONGEST_QUOTED else f"{line[:_LONGEST_QUOTED]} …"


def lost_its_agent(log: str) -> bool:
    """Return True if nsys gave up before it started the program, so that another attempt may succeed."""
    return bool(_LOST_AGENT.search(log))


def check_export(path: Path) -> str:
    """Return why ``path`` is not a complete export; empty if it is one.

    nsys writes the metadata of an export last, so the stub of a failed export has none.
    """
    if not paths.is_file(path):
        return "the export is missing"
    try:
        with closing(sqlite.read_only(path)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            pages = (
                db.execute("PRAGMA page_count").fetchone()[0] * db.execute("PRAGMA page_size").fetchone()[0]
            )
    except sqlite3.DatabaseError as error:
        return f"SQLite cannot read the export: {error}"
    size = paths.size(path)
    if size < pages:
        return f"the export is cut off: {size:,} of {pages:,} bytes"
    if "StringIds" not in tables or not tables & {"META_DATA_EXPORT", "EXPORT_META_DATA"}:
        return "the export is incomplete: nsys did not finish writing it"
    return ""


def recorded_s(path: Path) -> float:
    """Return the recorded time of a complete export in seconds; 0 if the export does not have it.

    nsys' own count is preferred, which 2023.4 writes and 2023.1 did not. On a busy machine --duration starts
    before the program, so less than that is recorded.
    """
    sources = (
        ("SELECT value FROM META_DATA_CAPTURE WHERE name = 'RUN_DURATION_MS'", 1e3),
        ("SELECT max(duration) FROM ANALYSIS_DETAILS", 1e9),
    )
    for sql, per_second in sources:
        with suppress(sqlite3.DatabaseError, ValueError), closing(sqlite.read_only(path)) as db:
            if recorded := float((db.execute(sql).fetchone() or [0])[0] or 0):
                return recorded / per_second
    return 0


def import_recording(
    nsys: str, recording: Path, report: Path, environment: Mapping[str, str] | None = None
) -> str:
    """Try to import a .qdstrm into the .nsys-rep ``report``, which exists afterwards if that worked.

    Return why it did not work: the last line that nsys' importer printed, or how it ended.
    """
    importer = find.importer(nsys)
    if not importer:
        return f"{nsys} has no importer beside it"
    files = ["--input-file", str(recording), "--output-file", str(report)]
    try:
        done = run_tool([importer, *files, "--force-overwrite"], EXPORT_DEADLINE_S, env=environment)
    except (OSError, subprocess.SubprocessError) as error:
        return f"nsys' importer {fault_of(error)}"
    if paths.exists(report):
        return ""
    printed = map(str.strip, (done.stdout + done.stderr).splitlines())
    *_, said = ["", *(line for line in printed if line and not line.startswith("["))]  # [...]: a detail
    return f"nsys says: {_cut(said)}" if said else f"nsys' importer ended with exit code {done.returncode}"


def export(
    nsys: str,
    report: Path,
    target: Path,
    environment: Mapping[str, str] | None = None,
    *,
    payloads: bool = False,
) -> None:
    """Run ``nsys export`` into ``target``, for at most ``EXPORT_DEADLINE_S`` seconds.

    ``payloads``: with the payloads of NVTX events, which nsys 2025 and newer can export.
    Raises DamagedCapture if nsys fails, leaves a stub or takes longer; OutputError if the disk is full or
    ``target`` cannot be written; Unavailable if nsys cannot be executed.
    """
    try:
        with temporary_folder(target.parent) as work:
            part = work / "export.sqlite"
            more = ["--include-blobs=true"] if payloads else []
            command = [nsys, "export", "--type=sqlite", *more, f"--output={part}", str(report)]
            done = run_tool(command, EXPORT_DEADLINE_S, env=environment)
            if reason := check_export(part):
                raise _export_error(report, target, reason, done.stdout + done.stderr)
            part.replace(target)
    except subprocess.SubprocessError as error:
        raise DamagedCapture(f"{report}: `nsys export` {fault_of(error)}") from None
    except PermissionError as error:
        raise Unavailable(f"cannot execute {nsys}: {error.strerror}") from None
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}") from None


def _export_error(report: Path, target: Path, reason: str, output: str) -> OutputError | DamagedCapture:
    if re.search(_FULL, output):
        room = free_space_note(target.parent)
        return OutputError(f"{report} cannot be exported: {DISK_FULL[0]}", f"free some disk space ({room})")
    messages = re.findall(r"(?m)^.*(?:[Ee]rror|newer than).*$", output)
    hint = "copy the file again, or profile again"
    if re.search(r"newer than|protobuf", output):
        hint = f"set ${find.VARIABLE} to an nsys at least as new as the one that recorded it"
    return DamagedCapture(
        f"{report} cannot be exported: {messages[-1].strip() if messages else reason}", hint
    )


def complete_export(nsys: str, folder: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Make the export that ``folder`` lacks from the recording in it; return True if that was done.

    On a busy machine nsys' importer sometimes fails, and leaves the recording, which is then removed. nsys'
    own tables are not made again. ``nsys`` is a path; ``environment`` is that of the importer (default: that
    of this process). Raises NsyswrapError with the reason if there is a report and its export fails again.
    """
    recording, report = folder / RECORDING, folder / REPORT
    if not check_export(folder / EXPORT):
        if paths.exists(report):  # on a busy machine nsys sometimes leaves what it has imported
            recording.unlink(missing_ok=True)
        return False
    if paths.exists(recording):
        import_recording(nsys, recording, report, environment)
    if not paths.exists(report):
        return False
    export(nsys, report, folder / EXPORT, environment=environment)
    recording.unlink(missing_ok=True)
    return True
