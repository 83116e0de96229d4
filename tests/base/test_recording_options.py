"""The table of options: what is written out elsewhere for people and type checkers agrees with it."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import nsyswrap
from nsyswrap.api.gpu_profile import Profiler
from nsyswrap.base.nsys.command import profile_argv
from nsyswrap.base.nsys.find import Nsys
from nsyswrap.base.nsys.options import IN_PLANS, OPTIONS, RecordingOptions
from nsyswrap.record.batch.plan.toml_table import NSYS
from nsyswrap.record.batch.task import TaskSpec

# Parameters that are no options of recording
OF_THE_RUN = {"command", "output", "module", "force"}
OF_THE_FIXTURE = {"self", "program", "arguments", "runs", "module"}
# Python takes other types than the table for these
LOOSER = {"env", "nvcc", "extra"}
OTHER_DEFAULTS = {"discard_rep"}  # the fixture keeps no .nsys-rep


def parameters(function: Callable[..., Any], others: set[str]) -> dict[str, inspect.Parameter]:
    """The parameters for options, by the name of their option."""
    options = {row.python: name for name, row in OPTIONS.items()}
    given = inspect.signature(function).parameters
    assert others <= given.keys()
    return {options[name]: one for name, one in given.items() if name not in others}


def test_profile_has_a_parameter_for_each_option() -> None:
    own = parameters(nsyswrap.profile, OF_THE_RUN)
    assert own.keys() == OPTIONS.keys()
    hints, table = get_type_hints(nsyswrap.profile), get_type_hints(RecordingOptions)
    for name, parameter in own.items():
        default = getattr(RecordingOptions(), name)
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert (parameter.default or None) == (default or None)
        assert name in LOOSER or hints[parameter.name] == table[name]


def test_the_options_of_the_fixture_have_the_same_names_and_defaults() -> None:
    for name, parameter in parameters(Profiler.__call__, OF_THE_FIXTURE).items():
        default = getattr(RecordingOptions(), name)
        assert name in OTHER_DEFAULTS or (parameter.default or None) == (default or None)


def test_no_two_options_share_a_name() -> None:
    for names in ("flag", "key", "python"):
        assert len({getattr(row, names) for row in OPTIONS.values()}) == len(OPTIONS)
    assert len(set(IN_PLANS)) == len(NSYS) == len(IN_PLANS)


def without_and_with(name: str) -> tuple[RecordingOptions, RecordingOptions]:
    """Options that differ in this one alone; both have what it needs."""
    values: dict[str, Any] = {"flag": not getattr(RecordingOptions(), name), "texts": ("x",)}
    values |= {"text": "cuda", "count": 1, "seconds": 1.5, "delay": 0.5}
    special = {"env": {"K": "v"}, "nvcc": ("-O3",), "steps": "1-2", "share": "group"}
    special |= {"capture_range": "cudaProfilerApi", "capture_range_end": "repeat"}
    value = special.get(name, values[OPTIONS[name].values])
    needed: dict[str, Any] = {"steps": "3"} if name in ("then_stop", "step_at") else {}
    if name == "capture_range_end":
        needed = {"capture_range": "cudaProfilerApi"}
    value = "module" if name == "step_at" else value
    return RecordingOptions(**needed), RecordingOptions(**{**needed, name: value})


@pytest.mark.parametrize("name", OPTIONS)
def test_spec_json_has_each_option_but_the_share(name: str) -> None:
    plain, given = (TaskSpec("x", {}, 1, "/", options=one).as_json() for one in without_and_with(name))
    assert (given != plain) is bool(OPTIONS[name].stored)


@pytest.mark.parametrize("name", [name for name, row in OPTIONS.items() if row.nsys])
def test_nsys_is_told_each_option_that_it_has(name: str) -> None:
    plain, given = (
        profile_argv(Nsys("nsys", ""), one, Path("report"), ["true"]) for one in without_and_with(name)
    )
    assert given != plain, f"profile_argv in nsyswrap/base/nsys/command.py passes no {name} to nsys"
