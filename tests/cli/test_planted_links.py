"""Every writing command where other users planted links: what they lead to stays as it is."""

from collections.abc import Callable
from pathlib import Path

import foreign
import pytest
from compared_runs import make_run
from conftest import Cli
from sampled import sampled

from nsyswrap.base.run_folder import PAGE

needs_other_users = pytest.mark.skipif(bool(foreign.lacks()), reason=foreign.lacks())
FILES = [  # commands that write the file {out}
    "report own -o {out}",
    "report own -r gpu_time --format csv -o {out}",
    "report own -r gpu_time --format parquet -o {out}.parquet",
    "view own -o {out} --force",
    "export own --perfetto {out} --force",
    "export own --perfetto {out}.json --force",
    "export own --flamegraph {out} --force",
    "export own --metrics openmetrics -o {out} --force",
    "compare own own2 --anyway -o {out}",
    "compare own own2 --anyway --view {out} --force",
    "compare own own2 --anyway --plot {out}.png --force",
    "baseline history base.json base2.json -o {out} --force",
    "redact own -o {out}",
    "baseline save --force {out}.json own",
]
FOLDERS = [  # commands that write into the folder {out}
    "report own --csv {out} -r gpu_time",
    "report own -r gpu_time,gpu_idle --format parquet -o {out}",
    "plot own -o {out} --kind timeline --force",
    "export own --parquet {out} --force",
    "collect own -o {out}",
    "batch run plan.toml -o {out}",
    "compare --run 3 --into {out} --force -- program.py -- program.py",
]
RECORDING = [
    "profile -o {out} program.py",
    "profile --force -o {out} program.py",
    "profile --repeat 2 -o {out} program.py",
]
NOT_REPLACED = ("already exists", "is not a baseline; it is not replaced")
SAMPLE = ("report own -o {out}", "collect own -o {out}")
CASES = [(one, "file") for one in FILES] + [(one, "folder") for one in FOLDERS]
each_case = sampled(("command", "target"), CASES, fast=[case for case in CASES if case[0] in SAMPLE])


@pytest.fixture
def here(tmp_path: Path, cli: Cli) -> Path:
    """The folder of the commands, with files and a folder of the user that nothing may change."""
    for name in ("own", "own2"):
        make_run(tmp_path / name)
    (tmp_path / "program.py").write_text("print(45)\n")
    (tmp_path / "plan.toml").write_text('name = "n"\n[[runs]]\ncommand = ["program.py"]\n')
    for name in ("base.json", "base2.json"):
        assert cli("baseline", "save", name, "own").returncode == 0
    (tmp_path / "victims").mkdir()
    (tmp_path / "victims" / "file").write_text("precious")
    (tmp_path / "victims" / "folder").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    return tmp_path


def content_of(folder: Path) -> dict[str, str]:
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: "" if path.is_dir() else path.read_text() for name, path in paths.items()}


def refused(cli: Cli, here: Path, command: str, target: str, plant: Callable[[Path], object]) -> str:
    """Run a command whose output is a link in a folder for all; return what it says."""
    words = command.format(out="shared/out").split()
    link = here / next(word for word in words if word.startswith("shared/"))
    link.symlink_to(here / "victims" / target)
    plant(link)
    before = content_of(here / "victims")
    done = cli(*words)
    assert content_of(here / "victims") == before
    assert link.is_symlink()
    assert done.returncode == 73, done.stderr
    assert done.stderr.count("nsyswrap: ") == 1
    said: str = done.stderr
    return said


@needs_other_users
@each_case
@sampled("is_broken", [False, True], fast=1)
def test_a_link_of_another_user(cli: Cli, here: Path, command: str, target: str, *, is_broken: bool) -> None:
    said = refused(cli, here, command, "nothing" if is_broken else target, foreign.give)
    assert any(words in said for words in ("a symbolic link of another user", *NOT_REPLACED))


@each_case
def test_a_link_of_ones_own_where_others_write(cli: Cli, here: Path, command: str, target: str) -> None:
    said = refused(cli, here, command, target, lambda _: None)
    assert any(words in said for words in ("in a folder that other users can write", *NOT_REPLACED))


@needs_other_users
@pytest.mark.slow
@pytest.mark.parametrize("command", [*FILES, *FOLDERS])
def test_a_folder_on_the_way_that_is_a_link_of_another_user(cli: Cli, here: Path, command: str) -> None:
    (here / "shared" / "results").symlink_to(here / "victims")
    foreign.give(here / "shared" / "results")
    before = content_of(here / "victims")
    done = cli(*command.format(out="shared/results/out").split())
    assert content_of(here / "victims") == before
    assert done.returncode == 73, done.stderr
    assert "shared/results: it is a symbolic link of another user" in done.stderr


@needs_other_users
@pytest.mark.parametrize("command", RECORDING)
def test_recording_into_a_link_of_another_user(cli: Cli, here: Path, command: str, nsys: str) -> None:
    (here / "shared" / "out").symlink_to(here / "victims" / "folder")
    foreign.give(here / "shared" / "out")
    done = cli(*command.format(out="shared/out").split(), NSYSWRAP_NSYS=nsys)
    assert content_of(here / "victims") == {"file": "precious", "folder": ""}
    assert done.returncode == 73, done.stderr
    assert "a symbolic link of another user" in done.stderr


@sampled("command", ["report own --csv copy", "collect own -o copy", "plot own --force -o copy"], fast=1)
def test_links_in_a_folder_from_elsewhere(cli: Cli, here: Path, command: str) -> None:
    """A folder that was cloned has links of its author that belong to the user."""
    assert cli(*command.split()).returncode == 0
    for path in list((here / "copy").iterdir()):
        path.unlink()
        if path.name != "results.csv":  # which shows that nsyswrap wrote the others
            path.symlink_to(here / "victims" / "file")
    if "collect" in command:
        (here / "copy" / "results.csv").write_text("run,label,")
    done = cli(*command.split())
    assert done.returncode == 0, done.stderr
    assert content_of(here / "victims") == {"file": "precious", "folder": ""}
    assert not any(path.is_symlink() for path in (here / "copy").iterdir())


def test_the_page_of_a_run_from_elsewhere(cli: Cli, here: Path) -> None:
    (here / "own" / PAGE).symlink_to(here / "victims" / "file")
    done = cli("runs", "open", "own", BROWSER="true")
    assert (done.returncode, content_of(here / "victims")["file"]) == (73, "precious")
    assert "was not written by nsyswrap" in done.stderr


@pytest.mark.slow
def test_a_batch_from_elsewhere(cli: Cli, here: Path, nsys: str) -> None:
    words = ["batch", "run", "plan.toml", "-o", "batch"]
    assert cli(*words, NSYSWRAP_NSYS=nsys).returncode in (0, 1)
    kept = ("batch.json", "results.csv")
    for path in [path for path in (here / "batch").rglob("*") if path.is_file() and path.name not in kept]:
        if path.name != "spec.json":
            path.unlink()
        for planted in (path, path.with_name(f".{path.name}.part")):
            if not planted.exists():
                planted.symlink_to(here / "victims" / "file")
    cli(*words, "--retry-failed", NSYSWRAP_NSYS=nsys)
    assert content_of(here / "victims") == {"file": "precious", "folder": ""}
