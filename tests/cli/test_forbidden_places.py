"""Every command where its user may not look: one line, a documented exit code and no traceback."""

import importlib
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import foreign
import pytest
from command_cases import CASES, RECORDING, THINGS, UNWRITTEN, Case, make_own, make_things
from conftest import RunIn

from nsyswrap.cli.help import COMMANDS, HIDDEN

WITHOUT_PATHS = {
    "runs",
    "runs list",
    "runs prune",
    "scenarios list",
    "scenarios explain",
    "session list",
    "demo",
}

# Places where our own user may write: the folder is ours, and what is in it may be replaced.
WRITABLE = ("that may not be read", "that is a link to itself", "with a name that is too long")


def sub_commands(command: click.Command, name: str) -> Iterator[str]:
    commands = command.commands if isinstance(command, click.Group) else {}
    for sub, one in commands.items():
        yield from sub_commands(one, f"{name} {sub}")
    if not commands or (isinstance(command, click.Group) and command.invoke_without_command):
        yield name


def test_every_command_has_a_case() -> None:
    modules = {
        name: importlib.import_module(f"nsyswrap.cli.{name.replace('-', '_')}")
        for name in (*COMMANDS, *HIDDEN)
    }
    every = {one for name, module in modules.items() for one in sub_commands(module.command, name)}
    lacking = {
        one
        for one in every
        if not any(f"{case.words} ".startswith(f"{one} ") for case in (*CASES, *RECORDING))
    }
    assert lacking - WITHOUT_PATHS == set()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, ordinary: RunIn) -> Path:
    """A folder with captures of one's own, and with the same things at each kind of place."""
    folder, things = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("things")
    make_own(folder, partial(ordinary, folder))
    make_things(things, folder)
    foreign.make_places(folder, things)
    return folder


def wrong(ordinary: RunIn, here: Path, case: Case, place: str, **variables: str) -> str:
    """Run a case at a place; return what is wrong with its answer, or an empty text."""
    path_of = foreign.PLACES[place]
    things = {thing: path_of(name) for thing, name in THINGS.items()}
    done = ordinary(here, *case.words.format(**things).split(), **variables)
    for left in here.glob("out*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    errors = re.findall("^nsyswrap: (?!stdin is a pipe)", done.stderr, re.MULTILINE)
    codes = (*case.codes, 0) if case.codes == UNWRITTEN and place in WRITABLE else case.codes
    several = ("collect", "profile --csv", "redact --check", "baseline history")  # each is named
    has_several = case.words.startswith(several) or "{repeats}" in case.words
    is_short = len(errors) == 1 or done.returncode == 0 or has_several
    if "Traceback" not in done.stderr and done.returncode in codes and is_short:
        return ""
    return f"{case.words} {place}: exit code {done.returncode}, {done.stderr[-600:]}"


def test_a_sample_in_a_folder_that_may_not_be_entered(ordinary: RunIn, here: Path) -> None:
    sample = [case for case in CASES if case.words.partition(" ")[2] in ("{run}", "{batch}", "-o {file}")]
    assert list(filter(None, (wrong(ordinary, here, case, foreign.INSIDE) for case in sample))) == []


@pytest.mark.slow
@pytest.mark.parametrize("place", foreign.PLACES)
def test_every_command_at_every_place(ordinary: RunIn, here: Path, place: str) -> None:
    assert list(filter(None, (wrong(ordinary, here, case, place) for case in CASES))) == []


@pytest.mark.slow
@pytest.mark.parametrize("place", foreign.PLACES)
def test_recording_at_every_place(ordinary: RunIn, here: Path, place: str, nsys: str) -> None:
    assert (
        list(filter(None, (wrong(ordinary, here, case, place, NSYSWRAP_NSYS=nsys) for case in RECORDING)))
        == []
    )
