"""The options of recording, in one table, and the values that ``trace``, ``steps`` and ``step_at`` take.

An option is a field of ``RecordingOptions``. Its row makes the option of the command line with its help, the
key in a plan, the entry in spec.json and run.json, and the advice for the option of nsys. The signature of
``nsyswrap.profile`` and the keys in docs/batch.md are tested against it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, fields, replace
from typing import Any, Literal

from nsyswrap.base.errors import Unavailable, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import did_you_mean, quoted

with lazy_imports():  # used for a trace that is not in our list
    import subprocess

    from nsyswrap.base import run_tool
    from nsyswrap.base.nsys import find

PROGRAM, RECORDING, FOLDER, BATCH = "Program", "Recording", "Run folder", "Batch"  # headings of the help
NVTX_RANGE = "nvtx:"
RANGES = ("cudaProfilerApi", "hotkey", "none")  # values of --capture-range beside it
_CLOCKS_S = 0.01  # tolerance: --duration and the recorded duration are measured by different clocks
_TERMINATED = 143  # exit code of nsys if its SIGTERM ended the program
_RANGE_ENDED = "Capture range ended in the application"
GARBAGE = "python-gc"  # ours: the hook in the program marks garbage collections
_WITH_VERBOSE = ("cublas", "cusparse", "cusolver", "cutensor", "cudla")
_WITH_ANNOTATIONS = ("opengl", "vulkan", "dx11", "dx12", "openxr")
KNOWN = (
    *("cuda", "cuda-hw", "cuda-sw", "nvtx", "osrt", "cudnn", "mpi", "ucx", "oshmem", "openacc", "openmp"),
    *(
        "python-gil",
        GARBAGE,
        "syscall",
        "gds",
        "nvvideo",
        "nvmedia",
        "tegra-accelerators",
        "wddm",
        "fastrpc",
        "none",
    ),
    *_WITH_VERBOSE,
    *(f"{api}-verbose" for api in _WITH_VERBOSE),
    *_WITH_ANNOTATIONS,
    *(f"{api}-annotations" for api in _WITH_ANNOTATIONS),
)
NCCL = "nccl"  # only a newer nsys has it
ADVICE_FOR_NCCL = "--trace cuda,nvtx records NCCL's kernels and ranges; for more use a newer nsys"
_HELP = r"(?s)-t, --trace=\s+Possible values are (.*?)\."
_TIMEOUT_S = 10
# The first version of the Python package nvtx that records no range under an older nsys, and those nsys.
SILENT_NVTX = (0, 2, 12)
LAST_SILENT_NSYS, FIRST_GOOD_NSYS = (2024, 2, 3), (2025,)
STEPS_DOMAIN = "nsyswrap"  # NVTX domain of the steps that the hook in the program marks
_RANGE = r"(\d{1,9})(?:-(\d{1,9}))?"
_STEP_AT = r"(?s)module|nvtx:.+|call:[\w.]+:[\w.]+"


@dataclass(frozen=True)
class OptionSpec:
    """One option of recording: its flag, its help and its valid values.

    Command line: the ``flag`` (``--no-X`` sets the option to False), its ``help`` under the heading
    ``group``, and ``rare`` for --help-all. ``values``: texts can be repeated, seconds are above 0, a delay
    can be 0. ``left_out`` counts if no number follows. ``show_default``: the help shows the default, or this
    text. ``nsys``: the options of nsys that say the same.

    ``key`` is the name in the table [nsys] of a plan, ``python`` that in ``nsyswrap.profile``. Both are that
    of the field if empty.

    Files: ``stored`` says where spec.json has it, at its head (``run``) or in its table ``nsys``, which
    run.json has, too. ``later``: earlier versions lack it, so spec.json has it only if it is set.
    """

    flag: str
    help: str
    group: str
    values: Literal["text", "texts", "flag", "count", "seconds", "delay"] = "text"
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    completions: tuple[str, ...] = ()
    rare: bool = False
    left_out: int | None = None
    show_default: bool | str = False
    key: str = ""
    python: str = ""
    stored: Literal["run", "nsys", ""] = "nsys"
    later: bool = False
    nsys: tuple[str, ...] = ()


def option(usage: str, help_: str, group: str = RECORDING, *, default: Any = None, **more: Any) -> Any:  # noqa: ANN401 - as `field`
    """Return a field with its row of the table. ``values`` follows from the default unless it is given."""
    flag, _, metavar = usage.partition(" ")
    if "values" not in more:
        more["values"] = "flag" if isinstance(default, bool) else "texts" if default in ((), {}) else "text"
    stored = "nsys" if group is RECORDING else "run"
    spec = OptionSpec(flag, help_, group, **{"stored": stored, "metavar": metavar or None, **more})
    return field(
        **({"default_factory": dict} if default == {} else {"default": default}), metadata={"spec": spec}
    )


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """How a program is recorded: one field for each option. Raises UsageError if they do not fit.

    ``env`` is added to the environment of the program. ``nvcc`` has options of nvcc, and ``arch`` the
    architecture, for a .cu file. ``timeout_s`` limits the run. ``delay`` and ``duration`` are in seconds.
    ``follow_forks`` also records processes that were forked without an exec. ``steps`` records these steps of
    a training alone, such as ``10-13``; ``step_at`` says what ends a step. After them ``then_stop`` ends the
    program. ``modules`` marks PyTorch's modules down to this depth of their names. ``memory`` records
    allocations, ``gpu_metrics`` samples counters of the GPUs, ``python_lines`` records the
    Python call stacks of CUDA calls. ``stats``: nsys also prints its own tables.
    ``extra``: further arguments for nsys.
    ``keep_environment`` leaves the environment in the export. ``discard_rep`` deletes the .nsys-rep.
    ``share``: who else may read the folder.
    """

    env: Mapping[str, str] = option(
        "--env K=V", "Set an environment variable; repeatable.", PROGRAM, default={}
    )
    nvcc: tuple[str, ...] = option(
        "--nvcc OPTIONS",
        "Compile a .cu PROGRAM with these options of nvcc.",
        PROGRAM,
        default=(),
        values="text",
        rare=True,
        later=True,
    )
    arch: str | None = option("--arch SM", "Compile a .cu PROGRAM for this GPU: sm_90.", PROGRAM, rare=True)
    timeout_s: float | None = option(
        "--timeout S",
        "End the run after S seconds (exit code 75).",
        PROGRAM,
        values="seconds",
        python="timeout",
    )
    trace: str = option(
        "--trace APIS", "Trace these APIs.", default="cuda,nvtx", show_default=True, nsys=("trace",)
    )
    um_faults: bool = option(
        "--um-faults",
        "Record unified-memory page faults (slow).",
        default=False,
        rare=True,  # the reports that need it name it
        nsys=("cuda-um-cpu-page-faults", "cuda-um-gpu-page-faults"),
    )
    memory: bool = option(
        "--memory",
        "Record allocations of memory.",
        default=False,
        rare=True,  # the report that needs it names it
        later=True,
        nsys=("cuda-memory-usage",),
    )
    gpu_metrics: bool = option(
        "--gpu-metrics",
        "Sample the counters of the GPUs (needs rights).",
        default=False,
        rare=True,  # the report that needs it names it
        later=True,
        nsys=("gpu-metrics-devices", "gpu-metrics-device"),
    )
    python_lines: bool = option(
        "--python-lines",
        "Record the Python lines that call CUDA (takes time).",
        default=False,
        rare=True,  # the report that needs it names it
        later=True,
        nsys=("python-backtrace",),
    )
    follow_forks: bool = option(
        "--follow-forks",
        "Record forked workers, too (may deadlock them).",
        default=False,
        rare=True,
        later=True,
        nsys=("trace-fork-before-exec",),
    )
    graphs: str | None = option(
        "--graphs",
        "Record CUDA graphs whole or by node.",
        choices=("graph", "node"),
        nsys=("cuda-graph-trace",),
    )
    capture_range: str | None = option(
        "--capture-range RANGE",
        "Record only inside cudaProfilerApi or nvtx:NAME.",
        completions=("cudaProfilerApi", NVTX_RANGE),
        nsys=("capture-range",),
    )
    capture_range_end: str | None = option(
        "--capture-range-end END",
        "Record each of N ranges: repeat:N; or repeat.",
        completions=("repeat",),
        rare=True,
        later=True,
        nsys=("capture-range-end",),
    )
    delay: float | None = option(
        "--delay S", "Start recording after S seconds.", values="delay", nsys=("delay",)
    )
    duration: float | None = option(
        "--duration S", "Record S seconds, then end the program.", values="delay", nsys=("duration",)
    )
    steps: str | None = option("--steps N-N", "Record training steps 10-13, counted from 0.", later=True)
    step_at: str | None = option(
        "--step-at WHERE",
        "End steps at module, nvtx:NAME, call:MOD:FUNC.",
        completions=("module", NVTX_RANGE, "call:"),
        later=True,
    )
    then_stop: bool = option("--then-stop", "End the program after --steps.", default=False, later=True)
    modules: int | None = option(
        "--modules [DEPTH]",
        "Label GPU work by PyTorch module (4 levels).",
        values="count",
        left_out=4,
        later=True,
    )
    stats: bool = option(
        "--no-stats", "Skip the tables of nsys; faster for large runs.", default=True, nsys=("stats",)
    )
    nsys_path: str | None = option(
        "--nsys PATH",
        "Use this nsys.",
        rare=True,
        show_default="$NSYSWRAP_NSYS, PATH",
        key="path",
        stored="run",
    )
    extra: tuple[str, ...] = option(
        "--nsys-arg ARG",
        "Pass ARG to nsys unchanged; repeatable.",
        default=(),
        key="args",
        python="nsys_args",
    )
    keep_environment: bool = option(
        "--keep-environment", "Keep environment variables in the export.", FOLDER, default=False, rare=True
    )
    discard_rep: bool = option(
        "--discard-rep", "Delete the .nsys-rep, which cannot be redacted.", FOLDER, default=False, rare=True
    )
    share: Literal["group"] | None = option(
        "--share", "Let your group read all but the .nsys-rep.", FOLDER, choices=("group",), stored=""
    )

    def __post_init__(self) -> None:
        if self.capture_range in ("nvtx", NVTX_RANGE):
            raise UsageError(
                f"invalid --capture-range {self.capture_range!r}: the name of the range is missing",
                "use nvtx:NAME, for example --capture-range nvtx:step",
            )
        if (
            self.capture_range
            and self.capture_range not in RANGES
            and not self.capture_range.startswith(NVTX_RANGE)
        ):
            raise UsageError(
                f"invalid --capture-range {self.capture_range!r}: expected cudaProfilerApi or nvtx:NAME",
                f"for the NVTX range of this name: --capture-range {NVTX_RANGE}{quoted(self.capture_range)}",
            )
        self._check_steps()
        self._check_range_end()
        if self.share and self.keep_environment:
            raise UsageError(
                "--share cannot be used with --keep-environment: others could read the environment",
                "omit one of them",
            )

    def _check_range_end(self) -> None:
        if self.capture_range_end is None:
            return
        if not re.fullmatch(r"repeat(:[1-9]\d{0,5})?", self.capture_range_end):
            what = f"invalid --capture-range-end {self.capture_range_end!r}"
            if self.capture_range_end.startswith("repeat-shutdown"):
                raise UsageError(
                    f"{what}: nsys kills the program after it", "use repeat:N: the program goes on"
                )
            passed_on = quoted(f"--nsys-arg=--capture-range-end={self.capture_range_end}")
            raise UsageError(f"{what}: expected repeat or repeat:N", f"to pass it to nsys: {passed_on}")
        if self.capture_range is None:
            raise UsageError(
                "--capture-range-end needs the range to record",
                "add it, for example --capture-range nvtx:step",
            )

    def _check_steps(self) -> None:
        if self.step_at is not None:
            check_step_at(self.step_at)
        if self.steps is None:
            if self.then_stop or self.step_at is not None:
                lonely = "--then-stop" if self.then_stop else "--step-at"
                raise UsageError(
                    f"{lonely} needs the steps to record", "add --steps, for example --steps 10-13"
                )
            return
        range_name(self.steps)
        others = {"--capture-range": self.capture_range, "--delay": self.delay, "--duration": self.duration}
        if given := [name for name, value in others.items() if value is not None]:
            raise UsageError(
                f"--steps cannot be used with {given[0]}: both say what to record", "omit one of them"
            )

    @property
    def marks(self) -> bool:
        """True if a hook in the program marks steps, modules or garbage collections."""
        return self.steps is not None or self.modules is not None or self.marks_garbage

    @property
    def hooked(self) -> bool:
        """True if a hook in the program marks something, or notes the memory of PyTorch's allocator."""
        return self.marks or self.memory

    @property
    def marks_garbage(self) -> bool:
        """True if only the hook in the program can tell what is traced: garbage collections."""
        return GARBAGE in self.trace.split(",")

    @property
    def recorded_range(self) -> str | None:
        """The capture range, also that around the steps; None if all is recorded."""
        return self.capture_range if self.steps is None else f"{NVTX_RANGE}{range_name(self.steps)}"

    def without_values(self) -> RecordingOptions:
        """Return these options without values of environment variables, which can be secrets."""
        extra, before = [], ""
        for argument in self.extra:
            option, equals, values = argument.partition("=")
            if option == "--env-var" and equals:
                extra.append(f"{option}={_names(values)}")
            else:
                extra.append(_names(argument) if before in ("-e", "--env-var") else argument)
            before = argument
        return replace(self, extra=tuple(extra))

    @property
    def may_end_program(self) -> bool:
        """True if an option can make nsys end the program early."""
        one_range = self.capture_range is not None and self.capture_range_end is None
        limited = self.duration is not None or one_range or self.then_stop
        return limited or any(re.match(r"--(duration|capture-range)\b|-[dc]$", arg) for arg in self.extra)

    def ended_program(self, code: int, log: str, recorded: float) -> bool:
        """Return True if nsys ended the program because an option told it to.

        ``code`` is the exit code of nsys, ``log`` its output, ``recorded`` the recorded time in seconds. The
        code alone does not tell: a program that catches the signal ends with its own code.
        """
        if self.duration is not None and recorded >= self.duration - _CLOCKS_S:
            return True
        runs_on = bool(self.capture_range_end) or any(
            arg.startswith("--capture-range-end") for arg in self.extra
        )
        if (self.capture_range is not None or self.then_stop) and _RANGE_ENDED in log and not runs_on:
            return True
        return code == _TERMINATED and self.may_end_program

    @property
    def program_outlives_nsys(self) -> bool:
        """True if an option makes nsys leave the program running."""
        joined = " ".join(self.extra)
        return bool(re.search(r"--kill[= ]none|--wait[= ]primary", joined))

    @classmethod
    def of_python(cls, arguments: Mapping[str, Any]) -> RecordingOptions:
        """Return the options among arguments, which have the names of ``nsyswrap.profile``."""
        return cls(
            **{name: arguments[row.python] for name, row in OPTIONS.items() if row.python in arguments}
        )

    @property
    def of_nsys(self) -> dict[str, Any]:
        """The options that say what nsys records, for run.json."""
        return {name: getattr(self, name) for name, row in OPTIONS.items() if row.stored == "nsys"}

    def as_json(self) -> dict[str, Any]:
        """Return the entries of spec.json. Options that earlier versions lack are omitted unless set."""
        values = {name: one for name, one in vars(self).items() if one or not OPTIONS[name].later}
        at_head = {name: one for name, one in values.items() if OPTIONS[name].stored == "run"}
        return {**at_head, "nsys": {name: one for name, one in self.of_nsys.items() if name in values}}


OPTIONS: Mapping[str, OptionSpec] = {
    one.name: replace(row, key=row.key or one.name, python=row.python or one.name)
    for one in fields(RecordingOptions)
    for row in [one.metadata["spec"]]
}

# Those with a key in the table [nsys] of a plan, in their order there.
IN_PLANS = (
    "trace",
    "stats",
    "um_faults",
    "follow_forks",
    "graphs",
    "capture_range",
    "steps",
    "step_at",
    "then_stop",
    "modules",
    "delay",
    "duration",
    "extra",
    "nsys_path",
    "keep_environment",
    "discard_rep",
    "memory",
    "gpu_metrics",
    "python_lines",
)


def _names(assignments: str) -> str:
    """Return ``A,B`` for ``A=1,B=2``."""
    return ",".join(part.partition("=")[0] for part in assignments.split(","))


def parse_steps(text: str) -> tuple[int, int]:
    """Return the first and the last step of ``10-13`` or ``10``. Raises UsageError."""
    match = re.fullmatch(_RANGE, text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if last < first:
        raise UsageError(
            f"invalid --steps {text!r}: expected steps, for example 10-13",
            "steps are numbered from 0; 10-13 is four steps",
        )
    return first, last


def check_step_at(text: str) -> None:
    """Raise UsageError unless ``text`` says what ends a step."""
    if not re.fullmatch(_STEP_AT, text):
        raise UsageError(
            f"invalid --step-at {text!r}",
            "use module, nvtx:NAME or call:package.module:function; without it optimizers end the steps",
        )
    if text.startswith("call:__main__:"):
        raise UsageError(
            f"invalid --step-at {text!r}: it cannot name a function of the script itself",
            "move the function into a module that the script imports, or use nvtx:NAME or module",
        )


def range_name(steps: str) -> str:
    """Return the NVTX range around the recorded steps, as nsys takes it."""
    first, last = parse_steps(steps)
    return f"steps {first}-{last}@{STEPS_DOMAIN}"


def check_trace(text: str, nsys_path: str | None = None) -> None:
    """Raise UsageError for a value that no version of nsys knows, nor the nsys of this machine."""
    unknown = [word for word in text.split(",") if word not in KNOWN]
    known_here = _known_here(nsys_path) if unknown else set()
    wrong = [word for word in unknown if word not in known_here]
    if not wrong:
        return
    if " " in text:
        cure = "separate values with commas alone"
    elif wrong[0] == "all":
        cure = "name what to trace, such as cuda,nvtx,osrt,cudnn,cublas"
    else:
        cure = ADVICE_FOR_NCCL if wrong[0] == NCCL else did_you_mean(wrong[0], KNOWN)
    raise UsageError(
        f"invalid trace {text!r}: no value {wrong[0]!r}", cure or f"values: {', '.join(sorted(KNOWN))}"
    )


def _known_here(nsys_path: str | None) -> set[str]:
    """Return the values that the help text of the nsys of this machine names: it can be newer than KNOWN."""
    with suppress(Unavailable, OSError, subprocess.SubprocessError):
        nsys, _ = find.find_nsys(nsys_path)
        command = [nsys.path, "profile", "--help"]
        done = run_tool.run_tool(command, _TIMEOUT_S)
        if values := re.search(_HELP, done.stdout + done.stderr):
            return set(re.findall(r"'([\w-]+)'", values[1]))
    return set()
