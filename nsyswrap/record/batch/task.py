"""One run as it was planned: the program and its parameters. Its run folder holds it as spec.json."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeAlias

from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import read_json, typed, why
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import SOURCES, SPEC, existing, program_word

with lazy_imports():  # a run of a batch needs it not
    from nsyswrap.base import run_facts


Scalar: TypeAlias = str | int | float | bool
RUN_DIR = "{run_dir}"
NAMED_PYTHON_VARIABLE = "NSYSWRAP_NAMED_PYTHON"  # set if the plan names Python or container
# Fields that earlier versions lack, with their defaults.
_LATER = {
    "launcher": "",
    "launcher_options": (),
    "require": {},
    "ntasks": 1,
    "profiled_ranks": None,
    "profiled": True,
    "gpus": None,
    "settings": {},
}


@dataclass(frozen=True)
class TaskSpec:
    """A planned run: a ``command``, or a ``variant`` of a ``scenario`` with ``arguments``.

    ``label`` names its combination of parameters. ``repeat`` counts from 1. Relative paths count from
    ``cwd``. ``module``: the command is a module of Python. A ``launcher`` with its own options starts
    ``ntasks`` ranks, of which ``profiled_ranks`` are profiled (None: all). ``profiled`` is False if the
    command brings its own nsys. ``gpus`` counts the GPUs that the run needs (None: not said). ``require`` is
    what its machine must have. ``settings`` has the run's own settings of each executor, by its name. In
    texts ``RUN_DIR`` stands for the run folder.
    """

    label: str
    parameters: Mapping[str, Scalar]
    repeat: int
    cwd: str
    command: tuple[str, ...] = ()
    module: bool = False
    options: RecordingOptions = field(default_factory=RecordingOptions)
    scenario: str = ""
    variant: str = ""
    arguments: tuple[str, ...] = ()
    launcher: str = ""
    launcher_options: tuple[str, ...] = ()
    ntasks: int = 1
    profiled_ranks: tuple[int, ...] | None = None
    profiled: bool = True
    gpus: int | None = None
    settings: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    require: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The label, and the repeat unless it is the first. The run folder is named after it."""
        return f"{self.label} repeat={self.repeat}" if self.repeat > 1 else self.label

    @property
    def key(self) -> str:
        """A hash of all but label and timeout. Two plans that have the same key have the same run."""
        return run_facts.spec_key(self.as_json())

    @property
    def program(self) -> str:
        """The scenario, or the path or name of the program."""
        word = self.scenario or program_word(self.command)
        return str(Path(self.cwd, word)) if "/" in word or Path(word).suffix in SOURCES else word

    @property
    def is_python(self) -> bool:
        """True if the program is a script or a module, for which a Python is chosen."""
        return bool(self.command) and (self.module or self.command[0].endswith(".py"))

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments, as typed after ``nsyswrap profile`` or ``scenarios run``."""
        if self.scenario:
            return (self.scenario, self.variant, *self.arguments)
        options = [
            *(["-m"] if self.module else []),
            *(["--nvcc", shlex.join(self.options.nvcc)] if self.options.nvcc else []),
        ]
        return (*options, *self.command)

    def as_json(self) -> dict[str, Any]:
        """Return the content of spec.json.

        Options that earlier versions lack are omitted unless set, so that earlier runs keep their key.
        """
        facts = {**vars(self), **self.options.as_json()}
        del facts["options"]
        for name, default in _LATER.items():
            if facts[name] == default:
                del facts[name]
        return facts

    def is_in(self, folder: Path, key: str) -> bool:
        """Return True if spec.json of a run folder has this run. ``key`` is that of this TaskSpec."""
        try:
            facts = read_json(folder / SPEC)
            alike = facts["label"] == self.label and facts["timeout_s"] == self.options.timeout_s
            return alike and run_facts.spec_key(facts) == key
        except (OSError, ValueError, LookupError, TypeError, AttributeError):  # none, or a damaged one
            return False

    def write(self, folder: Path) -> None:
        """Write spec.json into a run folder."""
        existing(folder).write(SPEC, self.as_json())


def read_spec(folder: Path) -> TaskSpec:
    """Read spec.json of a planned run. Raises OutputError if the folder holds none."""
    try:
        return _spec(read_json(folder / SPEC))
    except FileNotFoundError:
        raise OutputError(
            f"{folder} is not a planned run: {SPEC} is missing", "give a folder in runs/ of a batch"
        ) from None
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{folder / SPEC} cannot be read: {why(error)}", "start the batch again to write it again"
        ) from None


def _spec(facts: Any) -> TaskSpec:  # noqa: ANN401 - any JSON
    """Raise ValueError unless every key is there, and no other: a default would be another run."""
    spec = typed(TaskSpec, facts)
    nsys = typed(RecordingOptions, facts.get("nsys", {}), "nsys")
    spec = replace(spec, options=replace(typed(RecordingOptions, facts), **nsys.of_nsys))
    known = spec.as_json()
    if facts.keys() != known.keys() or facts["nsys"].keys() != known["nsys"].keys():
        raise ValueError("it does not have the keys of this version")
    return spec
