"""Note the conditions of one run, in threads beside it: nothing here delays its program."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from nsyswrap.base import git
from nsyswrap.base.run_facts import Conditions
from nsyswrap.base.version import version, version_at_once
from nsyswrap.record.conditions import LIMIT_S, describe_host, is_python, load_average, versions
from nsyswrap.record.conditions.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from nsyswrap.record.program import Program
    from nsyswrap.record.spec import RunSpec

T = TypeVar("T")
HANG_S = 0.5  # after a run, a thread that hangs in the driver or on a disk is waited for this long


class Observer:
    """Notes the conditions of the run in its ``with`` block; GPU samples go into the file ``samples``.

    ``token`` marks the run's processes.
    """

    def __init__(self, spec: RunSpec, token: str, samples: Path) -> None:
        environment = {**os.environ, **spec.env}
        argv, folder = spec.program.argv, folder_of(spec.program)
        self._load = load_average()
        self._sampler = Sampler(environment, token, samples)
        self._sampling = _Background(self._sampler.run, None)
        self._git = _Background(lambda: git.state(folder, environment), None)
        self._versions = _Background[dict[str, str]](lambda: versions(argv, environment), {})
        self._version = _Background(version, version_at_once())

    def __enter__(self) -> Self:
        """Start sampling, and begin to read the commit, while nsys starts."""
        self._sampling.start()
        self._git.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sampling, if nsys has not said before that the program has ended."""
        self.stop()

    def program_started(self) -> None:
        """Note that the program has started."""
        self._sampler.program_started()

    def stop(self) -> None:
        """Stop sampling: the program has ended. Query the versions, which would have disturbed it."""
        self._sampler.stop()
        self._versions.start()
        self._version.start()

    def version(self) -> str:
        """Return the version of nsyswrap after the run."""
        return self._version.result(git.LIMIT_S)

    def conditions(self) -> Conditions:
        """Return the conditions after the run."""
        self._sampling.result(HANG_S)
        return Conditions(
            self._sampler.gpus(),
            describe_host(self._load),
            self._versions.result(LIMIT_S),
            self._git.result(HANG_S),
        )


def folder_of(program: Program) -> Path:
    """Return the folder of a program's script or .cu file; the current folder for any other program."""
    if program.folder:
        return program.folder
    words = [word for word in program.argv[1:] if not word.startswith("-")]
    if is_python(program.argv[0]) and words and words[0].endswith(".py"):
        return Path(words[0]).parent
    return Path()


class _Background(Generic[T]):
    """Calls a function in a thread that the end of this process does not wait for."""

    def __init__(self, call: Callable[[], T], default: T) -> None:
        self._call, self._result = call, default
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        with suppress(RuntimeError):  # the limit of threads is reached, or it was started before
            self._thread.start()

    def result(self, patience_s: float) -> T:
        """Return the result; the default if the function does not return within ``patience_s`` seconds."""
        if self._thread.is_alive():
            self._thread.join(patience_s)
        return self._result

    def _work(self) -> None:
        self._result = self._call()
