"""What the pytest fixture ``gpu_profile`` is: it profiles a program, and counts what the GPU did."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nsyswrap.api import runs as api_runs
from nsyswrap.base import paths
from nsyswrap.base.errors import NsyswrapError, Unavailable, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.find import VARIABLE
from nsyswrap.base.nsys.options import RecordingOptions, check_trace
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import printable
from nsyswrap.record.in_program import call_function
from nsyswrap.record.program import Program, RunSpec

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.gate import Metric
    from nsyswrap.api.captures import CaptureReader, NotebookTable
    from nsyswrap.api.profiled import MatchedEvents, Verdict
    from nsyswrap.api.runs import Run

with lazy_imports():
    from nsyswrap.analysis.compare import gate
    from nsyswrap.api import profiled
    from nsyswrap.record import program as programs

_LONGEST = 200  # characters of the arguments in the command line
_USE = "define it with `def` at the top of a module, or use a script"


@dataclass(repr=False)
class Profiler:
    """The value of the fixture. ``folder`` gets the runs, ``beside`` is the folder of the test."""

    folder: Path
    beside: Path
    item: pytest.Item
    _calls: int = 0

    def __call__(  # noqa: PLR0913 - the options of a run
        self,
        program: str | Path | Callable[..., object],
        *arguments: Any,
        runs: int = 1,
        module: bool = False,
        trace: str = "cuda,nvtx",
        graphs: str | None = None,
        capture_range: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        nsys_args: Sequence[str] = (),
        discard_rep: bool = True,
    ) -> Profile:
        """Profile a script, an executable, a .cu file, a module (with ``module``) or a function.

        A relative path is looked up in the current folder, then beside the test. A function is one at the top
        of a module; ``arguments`` of a function are pickled. ``runs`` repeats the run. ``timeout`` is in
        seconds, for each run. The test fails if the program does, and is skipped where nsys or nvcc is
        missing; where NSYSWRAP_NSYS is set, it fails. Raises UsageError for a wrong use.
        """
        given = locals()  # a test compares the parameters with the table of options
        __tracebackhide__ = True
        if runs < 1:
            raise UsageError(f"invalid value for runs: {runs}", "use 1 or more")
        self._calls += 1
        folder = self.folder / f"gpu_profile-{self._calls}"
        folder.mkdir(mode=0o700)
        given |= {"stats": False, "env": env or {}, "nsys_args": tuple(nsys_args)}
        options = RecordingOptions.of_python(given)
        try:
            check_trace(trace)
            made, variables = self._program(program, arguments, folder, module=module)
            options = replace(options, env={**options.env, **variables})
            spec = RunSpec(made, folder, options, is_locked=True)  # so `nsyswrap runs` does not list it
            done = [_run(spec, folder / f"run-{number}", number, runs) for number in range(1, runs + 1)]
        except Unavailable as error:
            if VARIABLE in os.environ:
                raise error.with_traceback(None) from None
            pytest.skip(f"gpu_profile: {error}")
        except NsyswrapError as error:  # the traceback ends in the test
            raise error.with_traceback(None) from None
        except pytest.fail.Exception as failure:
            raise failure.with_traceback(None) from None
        return Profile(self, folder, tuple(done))

    def __repr__(self) -> str:
        return "<gpu_profile>"

    def _program(
        self,
        program: str | Path | Callable[..., object],
        arguments: tuple[Any, ...],
        folder: Path,
        *,
        module: bool,
    ) -> tuple[Program, dict[str, str]]:
        if callable(program):
            return program_of(program, arguments, folder / "call.pickle")
        name = str(program) if module else str(self.find(program))
        return programs.resolve([name, *map(str, arguments)], module=module, ours_first=True), {}

    def find(self, path: str | Path) -> Path:
        """Return a path that is beside the test as one from the current folder; any other as it is."""
        beside = self.beside / path
        if not paths.exists(path) and paths.exists(beside):
            return Path(os.path.relpath(beside))
        return Path(path)


def _run(spec: RunSpec, folder: Path, number: int, count: int) -> Run:
    run = api_runs.run(replace(spec, output=folder, repeat={"number": number, "count": count}))
    status = run.status
    if status.outcome == "interrupted":
        raise KeyboardInterrupt
    if status.outcome != "done":
        ending = f"{status.outcome.replace('_', ' ')} under nsys: {status.message}"
        rest = f"its output is below; the run folder is {run.folder}"
        pytest.fail(printable("\n".join(filter(None, (ending, status.hint, rest))), "\n"))
    return run


@dataclass(frozen=True, repr=False)
class Profile:
    """A profiled program: its runs, and what the GPU did in them.

    Times are medians of the runs. Counts raise UsageError if the runs do not agree.
    """

    profiler: Profiler
    folder: Path
    runs: tuple[Run, ...]

    @property
    def capture(self) -> CaptureReader:
        """The capture of the first run; raises CaptureError if nsys left none."""
        return self.captures[0]

    @cached_property
    def captures(self) -> tuple[CaptureReader, ...]:
        """The captures of all runs, in their order."""
        return tuple(run.capture for run in self.runs)

    def report(self, name: str, **options: Any) -> NotebookTable:
        """Make one report of the first run by name, such as ``cuda_gpu_kern_sum``."""
        return self.capture.report(name, **options)

    def kernels(self, pattern: str = "*") -> MatchedEvents:
        """Return the kernels whose full, readable or function name matches, as ``add*`` does."""
        return profiled.kernels(self.captures, pattern)

    def copies(self, pattern: str = "*") -> MatchedEvents:
        """Return the copies of a kind: ``H2D``, ``Host-to-Device``, ``*2D``; migrations are ``UM H2D``."""
        return profiled.copies(self.captures, pattern)

    def calls(self, pattern: str = "*") -> MatchedEvents:
        """Return the CUDA API calls whose name matches a pattern such as ``cudaMalloc*``."""
        return profiled.calls(self.captures, pattern)

    @property
    def launches(self) -> MatchedEvents:
        """The API calls that launched kernels or CUDA graphs, with the CPU time in them."""
        return profiled.launches(self.captures)

    def compare(  # noqa: PLR0913 - the options of a gate
        self,
        baseline: str | Path,
        *,
        max_slower: float = 0.05,
        min_time_ns: float = 10_000.0,
        kernels: Sequence[str] = (),
        metrics: Sequence[Metric] = (),
        strict: bool = False,
        anyway: bool = False,
    ) -> Verdict:
        """Compare the runs with a file of `nsyswrap baseline save`, as `nsyswrap compare --gate` does.

        The result is true unless something became slower by more than ``max_slower``, a share, and by more
        than ``min_time_ns``, or the runs cannot be compared. ``metrics`` are total, step, launch_overhead and
        kernels; ``kernels`` has patterns. Where noise hides the answer the result is true; with ``strict``
        false. ``anyway`` also compares other commands. Raises CaptureError if the baseline cannot be read.
        """
        __tracebackhide__ = True
        limits = gate.GateLimits(max_slower, min_time_ns, tuple(kernels), tuple(metrics), is_strict=strict)
        path = self.profiler.find(baseline)
        try:
            found = profiled.verdict(path, self.captures, self.folder, limits, anyway=anyway)
        except NsyswrapError as error:
            raise error.with_traceback(None) from None
        self.profiler.item.add_report_section("call", "gpu_profile", "\n".join([str(path), *found.lines]))
        return found

    def __repr__(self) -> str:
        ran = f"{len(self.runs)} run{'' if len(self.runs) == 1 else 's'}"
        return f"<Profile: {ran} in {self.folder}>"


def program_of(
    function: Callable[..., object], arguments: tuple[object, ...], file: Path
) -> tuple[Program, dict[str, str]]:
    """Write the call to ``file``; return the program that makes it, and its variables.

    The command line is the same in each session, so that runs can be compared with older ones. Raises
    UsageError for a function that another process cannot import, or arguments that cannot be pickled.
    """
    module, name, source = _source_location(function)
    try:
        pickled = pickle.dumps(arguments)
    # A ctypes pointer raises ValueError, a tensor without storage or a list in itself RuntimeError.
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"the arguments of {name} cannot be sent to another process: {error}",
            "give plain values, and create other objects in the function",
        ) from None
    call = {"module": module, "function": name, "file": source, "path": sys.path}
    file.write_bytes(pickle.dumps(call) + pickled)
    words = (f"{module}:{name}", *((_text(arguments, pickled),) if arguments else ()))
    command = (sys.executable, call_function.__file__, *words)
    return Program(command, f"{module}:{name}"), {call_function.VARIABLE: str(file)}


def _source_location(function: Callable[..., object]) -> tuple[str, str, str]:
    """Return the module, the name in it and the file of a function."""
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not name or module is None:
        raise UsageError(f"{function!r} is not a function of a module", _USE)
    if "<" in name:
        kind = "a lambda" if name.endswith("<lambda>") else "defined inside another function"
        raise UsageError(f"{name} is {kind}: another process cannot import it", _USE)
    target: object = module
    for part in name.split("."):
        target = getattr(target, part, None)
    if target is not function:
        raise UsageError(f"{name} of module {module.__name__} is another object than the one given", _USE)
    if module.__name__ == "__main__" or not getattr(module, "__file__", None):
        raise UsageError(f"{name} is in no module that another process can import", _USE)
    return module.__name__, name, str(module.__file__)


def _text(arguments: tuple[object, ...], pickled: bytes) -> str:
    """Return the arguments as JSON; a hash of them if they are long or not plain."""
    try:
        text = json.dumps(arguments)
    except (TypeError, ValueError):
        text = ""
    return text if 0 < len(text) <= _LONGEST else f"#{hashlib.sha256(pickled).hexdigest()[:12]}"
