"""Every command where its user may not look: one line, a documented exit code and no traceback."""

from __future__ import annotations

import importlib
import re
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import click
import foreign
import pytest
from compared_runs import make_repeats, make_run
from releases import lay_batch
from warm_cli import WarmCli

from nsyswrap.cli.commands import COMMANDS, HIDDEN

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess
    from typing import Protocol

    class Run(Protocol):
        def __call__(self, folder: Path, *words: str, **variables: str) -> CompletedProcess[str]: ...


UNREAD, UNWRITTEN, USAGE, PLAN, NO_TOOL, EXECUTED = (65,), (73,), (2,), (78,), (69,), (126, 127)
THINGS = {
    "run": "run",
    "repeats": "repeats",
    "folder": "folder",
    "batch": "batch",
    "planned": "batch/runs/00002-code=3",
    "tables": "tables_parquetdir",
    "capture": "x.sqlite",
    "report": "x.nsys-rep",
    "recording": "x.qdstrm",
    "baseline": "base.json",
    "plan": "plan.toml",
    "program": "program.py",
    "source": "x.cu",
    "tool": "tool",
    "rules": "rules.toml",
    "file": "file.txt",
    "picture": "x.png",
    "new": "new",
}


class Case(NamedTuple):
    """A command with {NAME} for each thing at a forbidden place, and the exit codes that it may have."""

    words: str
    codes: tuple[int, ...]


def reading(things: str, *commands: str, codes: tuple[int, ...] = UNREAD) -> list[Case]:
    """Return a case of each command for each of these things, which stands for {} or at the end."""
    spelled = [command if "{}" in command else f"{command} {{}}" for command in commands]
    return [Case(one.replace("{}", f"{{{thing}}}"), codes) for thing in things.split() for one in spelled]


def writing(*commands: str) -> list[Case]:
    return [Case(command, UNWRITTEN) for command in commands]


CASES = [
    *reading("report recording tables folder", "report", "view -o out", "collect -o out", "compare own"),
    *reading(
        "run capture",
        "report",
        "report -r cuda_gpu_kern_sum",
        "report --by rank",
        "report --list",
        "view -o out",
        "view --by rank -o out",
        "plot -o out",
        "export --perfetto out.json",
        "export --parquet out",
        "export --flamegraph out",
        "export --metrics openmetrics",
        "doctor",
        "collect -o out",
        "compare own",
        "baseline save out.json",
        "baseline history base.json -o out",
    ),
    *reading("run capture tables folder", "redact --check", "redact {} -o out", codes=(*UNREAD, *USAGE)),
    *reading("repeats batch", "report", "collect -o out", "compare own", "view -o out"),
    *reading("run repeats batch folder", "runs open"),
    *reading(
        "batch folder",
        "batch wait",
        "batch status",
        "batch status --watch",
        "batch cancel",
        codes=(*UNREAD, *UNWRITTEN),  # not a batch
    ),
    *reading("baseline", "baseline show", "compare own", "export --metrics openmetrics"),
    *reading("baseline", "baseline history base.json -o out"),
    *reading("folder", "baseline list", codes=(0, *UNREAD)),  # none there
    Case("report own --classes {rules}", USAGE),
    Case("batch run {plan} --dry-run", (*PLAN, *USAGE)),
    Case("run-folder {planned}", UNWRITTEN),
    Case("profile --dry-run {program}", EXECUTED),
    Case("profile --dry-run -- {tool}", EXECUTED),
    Case("profile --dry-run {source}", EXECUTED),
    Case("profile --nsys {tool} program.py", NO_TOOL),
    Case("compare --run 3 -- {program} -- {program}", EXECUTED),
    *writing(
        "report own -o {file}",
        "report own --csv {folder} -r gpu_time",
        "report own --format parquet -o {folder} -r gpu_time",
        "view own -o {file}",
        "view own --force -o {file}",
        "plot own -o {folder} --kind timeline",
        "plot own --force -o {folder} --kind timeline",
        "export own --perfetto {file}",
        "export own --perfetto {file} --force",
        "export own --parquet {folder}",
        "export own --parquet {folder} --force",
        "export own --flamegraph {file}",
        "export own --metrics openmetrics -o {file}",
        "redact own -o {file}",
        "collect own -o {folder}",
        "compare own own2 --anyway -o {file}",
        "compare own own2 --anyway --view {file}",
        "compare own own2 --anyway --plot {picture}",
        "baseline save {baseline} own",
        "baseline save --force {baseline} own",
        "baseline history base.json base2.json -o {file}",
    ),
    Case("batch run plan.toml --dry-run -o {batch}", (0, *UNWRITTEN)),
    Case("batch sweep --dry-run -o {batch} -p n=1,2 -- program.py {{n}}", (0, *UNWRITTEN)),
    Case("scenarios run add --csv {file} -o {new}", (*NO_TOOL, *UNWRITTEN)),
]
RECORDING = writing(  # with an nsys
    "profile -o {new} program.py",
    "profile --csv {file} -o out program.py",
    "profile --force -o {run} program.py",
    "profile --repeat 2 -o {repeats} program.py",
    "compare --run 3 --into {folder} -- program.py -- program.py",
    "batch run plan.toml -o {batch}",
)
WITHOUT_PATHS = {"runs", "runs list", "runs prune", "scenarios list", "scenarios explain", "demo"}
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
def run(environment: dict[str, str]) -> Generator[Run, None, None]:
    """nsyswrap as an ordinary user."""
    if reason := foreign.lacks():
        pytest.skip(reason)
    with closing(WarmCli(environment, foreign.ORDINARY)) as warm:

        def start(folder: Path, *words: str, **variables: str) -> CompletedProcess[str]:
            return warm.run([*words], folder, "", variables, 120)

        yield start


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """A folder with captures of one's own, and with the same things at each kind of place."""
    folder, things = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("things")
    make_run(folder / "own")
    make_run(folder / "own2")
    (folder / "program.py").write_text("print(45)\n")
    (folder / "plan.toml").write_text('name = "n"\n[[runs]]\ncommand = ["program.py"]\n')
    for name in ("base.json", "base2.json"):
        assert run(folder, "baseline", "save", name, "own").returncode == 0
    make_run(things / "run")
    make_repeats(things / "repeats", (40, 40))
    make_run(things / "folder" / "run")
    lay_batch("0.1.0", things / "batch")
    for name in ("x.sqlite", "x.nsys-rep", "x.qdstrm"):
        shutil.copy(folder / "own" / "report.sqlite", things / name)
    (things / "tables_parquetdir").mkdir()
    for name in ("base.json", "plan.toml", "program.py"):
        shutil.copy(folder / name, things)
    for name in ("rules.toml", "tool", "x.cu", "file.txt", "x.png"):
        (things / name).write_text("")
    (things / "tool").chmod(0o755)
    foreign.make_places(folder, things)
    return folder


def wrong(run: Run, here: Path, case: Case, place: str, **variables: str) -> str:
    """Run a case at a place; return what is wrong with its answer, or an empty text."""
    path_of = foreign.PLACES[place]
    things = {thing: path_of(name) for thing, name in THINGS.items()}
    done = run(here, *case.words.format(**things).split(), **variables)
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


def test_a_sample_in_a_folder_that_may_not_be_entered(run: Run, here: Path) -> None:
    sample = [case for case in CASES if case.words.partition(" ")[2] in ("{run}", "{batch}", "-o {file}")]
    assert list(filter(None, (wrong(run, here, case, foreign.INSIDE) for case in sample))) == []


@pytest.mark.slow
@pytest.mark.parametrize("place", foreign.PLACES)
def test_every_command_at_every_place(run: Run, here: Path, place: str) -> None:
    assert list(filter(None, (wrong(run, here, case, place) for case in CASES))) == []


@pytest.mark.slow
@pytest.mark.parametrize("place", foreign.PLACES)
def test_recording_at_every_place(run: Run, here: Path, place: str, nsys: str) -> None:
    assert list(filter(None, (wrong(run, here, case, place, NSYSWRAP_NSYS=nsys) for case in RECORDING))) == []
