"""The one place that knows the nsys command line: its switches, its export, its words and its faults."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import DamagedCapture, OutputError, Unavailable
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.run_folder import free_space_note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXPORT_DEADLINE_S = 1800
NVTX_RANGE = "nvtx:"
# In the path of a report nsys replaces the first (more than once) and trips over the others.
_UNUSABLE = '%&"\n'
_CLOCKS_S = 0.01  # nsys ends a program by one clock; for how long it recorded may be by another
_TERMINATED = 143  # what nsys returns when it ended the program and that died of it
RANGE_STARTED = "Capture range started in the application"
_RANGE_ENDED = "Capture range ended in the application"

# On a busy machine nsys and its agent now and then lose each other before the program is started.
_LOST_AGENT = re.compile(
    r"^End of file$|Local Endpoint is not available|Connection to Agent lost", re.MULTILINE
)
_FULL = r"No space left on device|disk is full"  # of nsys, and of the SQLite in it
DISK_FULL = ("the disk is full", "free some room, or give an --output on another disk")
# What nsys says, what that means, and what to do: the first that matches is told. {} is what nsys said.
_FAULTS = (
    (_FULL, *DISK_FULL),
    (
        r"importer binary and its dependencies",
        "nsys does not find its importer",
        "name another nsys with --nsys",
    ),
    (r"number of the device CPUs", "nsys cannot read /sys", "mount /sys (in a chroot or container)"),
    (
        r"Failed to connect to Agent",
        "nsys did not reach its agent",
        "does this run inside another nsys? One cannot run in the other",
    ),
    (
        r"sem_open",
        "nsys cannot make a semaphore: /dev/shm is missing, or cannot be written",
        "mount it: mount -t tmpfs -o mode=1777 tmpfs /dev/shm (in a chroot or container)",
    ),
    (
        r"(?m)^Network is unreachable",
        "nsys needs the loopback network interface, and it is missing or down",
        "bring it up: ip link set lo up (in a container or network namespace)",
    ),
    (
        r"Failed to probe the process",
        "nsys could not start the program",
        "is TMPDIR writable, with room left?",
    ),
    (
        r"temp_directory_path",
        "nsys finds no folder for its temporary files",
        "is TMPDIR a folder that can be written?",
    ),
    (r"Failed to create directory .*", "nsys says: {}", "is TMPDIR a folder that can be written?"),
    (
        r"(?m)^(?:unrecogni[sz]ed )?option '.*",
        "this nsys says: {}",
        "see `nsys profile --help` and --nsys-arg",
    ),
    (r"Illegal --.*", "nsys says: {}", "see `nsys profile --help`"),
    (r"Failed to create '.*", "nsys says: {}", "is the output folder writable?"),
    (r".*(?:Importation|Exportation) (?:failed|error).*", "nsys says: {}", ""),
)
_PROGRESS = re.compile(r"\[\d+/\d+\] \[[^\]]*?(\d+)%\s*\] \S*?\.(nsys-rep|sqlite)")
_STEPS = {"nsys-rep": "importing the recording", "sqlite": "exporting to SQLite"}
_STATS_START = re.compile(r"^\[\d+/\d+\] Executing '|^SKIPPED: |^ *\*\* .*:$")
_STATS_END = re.compile(r"^Generated:")


@dataclass(frozen=True)
class Options:
    """What to record. ``stats``: nsys' own tables too. ``extra``: arguments handed to nsys as they are."""

    trace: str = "cuda,nvtx"
    stats: bool = True
    um_faults: bool = False
    graphs: str | None = None
    capture_range: str | None = None
    delay: float | None = None
    duration: float | None = None
    extra: tuple[str, ...] = ()

    def without_values(self) -> Options:
        """Return the same without the values of environment variables: they can be secrets."""
        extra, before = [], ""
        for argument in self.extra:
            option, equals, values = argument.partition("=")
            if option == "--env-var" and equals:
                argument = f"{option}={_names(values)}"  # noqa: PLW2901
            elif before in ("-e", "--env-var"):
                argument = _names(argument)  # noqa: PLW2901
            extra.append(argument)
            before = argument
        return replace(self, extra=tuple(extra))

    @property
    def may_end_program(self) -> bool:
        """Whether nsys was asked for something that ends the program before its own end."""
        asked = self.duration is not None or self.capture_range is not None
        return asked or any(re.match(r"--(duration|capture-range)\b|-[dc]$", arg) for arg in self.extra)

    def ended_program(self, code: int, log: str, recorded: float) -> bool:
        """Whether nsys ended the program because it was asked to.

        It returned ``code``, said ``log`` and recorded for ``recorded`` seconds. A program that catches the
        signal ends with a code of its own, so ``code`` alone does not tell.
        """
        if self.duration is not None and recorded >= self.duration - _CLOCKS_S:
            return True
        runs_on = any(arg.startswith("--capture-range-end") for arg in self.extra)
        if self.capture_range is not None and _RANGE_ENDED in log and not runs_on:
            return True
        return code == _TERMINATED and self.may_end_program

    @property
    def program_outlives_nsys(self) -> bool:
        """Whether nsys was told to leave the program running."""
        joined = " ".join(self.extra)
        return bool(re.search(r"--kill[= ]none|--wait[= ]primary", joined))


def _names(assignments: str) -> str:
    """Return ``A,B`` of ``A=1,B=2``."""
    return ",".join(part.partition("=")[0] for part in assignments.split(","))


def profile_argv(
    nsys: str, options: Options, output: Path, program: Sequence[str], *, discard_environment: bool = False
) -> list[str]:
    """Return the command line that records ``program`` into ``output``.nsys-rep and .sqlite.

    ``discard_environment``: keep the environment out of both, which nsys 2026 can do.
    """
    argv = [nsys, "profile", "--stats=true" if options.stats else "--export=sqlite"]
    argv += [f"--trace={options.trace}", "--sample=none", "--cpuctxsw=none"]
    if options.um_faults:
        argv += ["--cuda-um-cpu-page-faults=true", "--cuda-um-gpu-page-faults=true"]
    if options.graphs:
        argv.append(f"--cuda-graph-trace={options.graphs}")
    argv += _range_argv(options.capture_range)
    if options.delay is not None:
        argv.append(f"--delay={options.delay:g}")
    if options.duration is not None:
        argv.append(f"--duration={options.duration:g}")
    if discard_environment and not any(nsys_install.DISCARD_ENVIRONMENT in arg for arg in options.extra):
        argv.append(f"{nsys_install.DISCARD_ENVIRONMENT}=true")
    return [*argv, *options.extra, f"--output={output}", *program]


def _range_argv(capture_range: str | None) -> list[str]:
    """``nvtx:NAME`` takes nsys three switches: it only looks at registered strings unless told otherwise."""
    if capture_range is None:
        return []
    if capture_range.startswith(NVTX_RANGE):
        name = capture_range.removeprefix(NVTX_RANGE)
        unregistered = "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0"
        return ["--capture-range=nvtx", f"--nvtx-capture={name}", unregistered]
    return [f"--capture-range={capture_range}"]


def trips_over(folder: Path) -> bool:
    """Whether nsys would record into a folder of this path, and then fail to write the report."""
    return any(character in str(folder.absolute()) for character in _UNUSABLE)


def progress(log_tail: str) -> str:
    """Return what nsys is doing after the program has ended, for one line on a terminal; empty: nothing."""
    found = _PROGRESS.findall(log_tail)
    if found:
        percent, step = found[-1]
        return f"nsys: {_STEPS[step]} {percent} %"
    return "nsys: writing its own tables" if "Executing '" in log_tail else ""


def split_log(text: str) -> tuple[str, str]:
    """Split what nsys printed into its chatter (progress bars reduced to their end) and its own tables."""
    lines = [line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
    start = next((i for i, line in enumerate(lines) if _STATS_START.match(line)), None)
    if start is None:
        return "\n".join(lines), ""
    end = next((i for i in range(start, len(lines)) if _STATS_END.match(lines[i])), len(lines))
    return "\n".join(lines[:start] + lines[end:]), "\n".join(lines[start:end]) + "\n"


def fault(log: str) -> tuple[str, str]:
    """Return what went wrong, in nsys' own words where they help, and what to do; empty: nothing known."""
    for pattern, meaning, cure in _FAULTS:
        if found := re.search(pattern, log):
            return meaning.format(found.group().strip()), cure
    return "", ""


def lost_its_agent(log: str) -> bool:
    """Whether nsys gave up before it started the program, and may well succeed the next time."""
    return bool(_LOST_AGENT.search(log))


def check_export(path: Path) -> str:
    """Return why ``path`` is no complete export; empty: it is one.

    nsys writes its export metadata last; a stub of a failed export has none.
    """
    if not path.exists():
        return "there is none"
    size = path.stat().st_size
    try:
        with _open(path) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            pages = (
                db.execute("PRAGMA page_count").fetchone()[0] * db.execute("PRAGMA page_size").fetchone()[0]
            )
    except sqlite3.DatabaseError as error:
        return f"SQLite cannot read it: {error}"
    if size < pages:
        return f"it is cut off: {size:,} of {pages:,} bytes"
    if "StringIds" not in tables or not tables & {"META_DATA_EXPORT", "EXPORT_META_DATA"}:
        return "it is a stub: the export did not come to its end"
    return ""


def recorded_s(path: Path) -> float:
    """Return for how many seconds a complete export was recorded; 0 where it does not say.

    As nsys itself counted them, where it says so (2023.4 does, 2023.1 did not): on a busy machine its
    --duration begins before the program does, and is over before as much was recorded.
    """
    sources = (
        ("SELECT value FROM META_DATA_CAPTURE WHERE name = 'RUN_DURATION_MS'", 1e3),
        ("SELECT max(duration) FROM ANALYSIS_DETAILS", 1e9),
    )
    for sql, per_second in sources:
        with suppress(sqlite3.DatabaseError, ValueError), _open(path) as db:
            if found := float((db.execute(sql).fetchone() or [0])[0] or 0):
                return found / per_second
    return 0


def _open(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True))


def import_recording(
    nsys: str, recording: Path, report: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Make the .nsys-rep ``report`` of a .qdstrm, where that works: it is there afterwards, or not."""
    if importer := nsys_install.importer(nsys):
        paths = ["--input-file", str(recording), "--output-file", str(report)]
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [importer, *paths, "--force-overwrite"],
                capture_output=True,
                env=environment,
                timeout=EXPORT_DEADLINE_S,
                check=False,
            )


def export(
    nsys: str,
    report: Path,
    target: Path,
    deadline_s: float = EXPORT_DEADLINE_S,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run ``nsys export`` into ``target``; a stub, a failure or an overrun raises DamagedCapture.

    Where the disk is full, or ``target`` cannot be written, that is an OutputError.
    """
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            part = Path(work) / "export.sqlite"
            command = [nsys, "export", "--type=sqlite", f"--output={part}", str(report)]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=deadline_s, check=False, env=environment
            )
            reason = check_export(part)
            if reason:
                words = done.stdout + done.stderr
                if re.search(_FULL, words):
                    room = free_space_note(target.parent)
                    raise OutputError(
                        f"{report} cannot be exported: {DISK_FULL[0]}", f"free some room ({room})"
                    )
                said = re.findall(r"(?m)^.*(?:[Ee]rror|newer than).*$", words)
                is_newer = re.search(r"newer than|protobuf", words)
                raise DamagedCapture(
                    f"{report} cannot be exported: {said[-1].strip() if said else reason}",
                    f"read it with an nsys as new as the one that recorded it: see ${nsys_install.VARIABLE}"
                    if is_newer
                    else "copy it again, or profile again",
                )
            part.replace(target)
    except subprocess.TimeoutExpired:
        raise DamagedCapture(f"{report}: `nsys export` did not end within {deadline_s:g} s") from None
    except PermissionError as error:
        raise Unavailable(f"{nsys} cannot be executed: {error.strerror}") from None
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}") from None
