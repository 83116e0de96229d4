"""README.md and docs/ stay true: commands and Python run, outputs are current, links lead somewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import recorded
import reference
from doc_commands import CAPTURES, GPU, NSYS, TORCH, Command, blocks, commands, left_out
from gpus_here import needs_gpu
from made_runs import made_side
from ran import ran
from releases import lay_batch

from nsyswrap.base.run_folder import RUN, RunFolder, Status
from nsyswrap.reports.compare.baseline import baseline_text

ROOT = reference.ROOT
PAGES = reference.pages()
GUARANTEES = reference.DOCS / "guarantees.md"
COMMANDS = commands(PAGES)
README_LINES = range(80, 121)
CHANGELOG_LINES = 60  # of a release
OWN = {"programs/"}  # what the tests put into a folder, and no command
FIXTURES = {GPU: ("nsys",), NSYS: ("nsys",), TORCH: ("nsys", "torch")}
TRAIN = """
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(16):
    model(torch.ones(4, 8, device=device)).sum().backward()
    optimizer.step()
"""


def ids(page: Path) -> str:
    return page.name


def parameter(command: Command) -> object:
    marks = [getattr(pytest.mark, fixture) for fixture in FIXTURES.get(command.needs, ())]
    if command.needs == GPU:
        marks += [pytest.mark.gpu, needs_gpu]
    return pytest.param(command, marks=marks, id=command.line.partition("#")[0].strip())


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder that looks like the checkout and may be written to."""
    for name in ("kernels", "scenarios", "nsyswrap", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the checkout with what the pages make: runs, a launch, a batch, an environment."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("kernels", "scenarios", "nsyswrap"):
        (folder / name).symlink_to(ROOT / name)
    for variant in ("both", "none"):
        run = shutil.copytree(
            recorded.SHIPPED / "add2" / variant, folder / "nsyswrap-runs" / f"add2-{variant}"
        )
        RunFolder(run).write(RUN, {})
        RunFolder(run).write_status(Status("done", 0, 0, 0))
    for rank, variant in enumerate(("even", "straggler")):
        run = recorded.run_folder(f"ddp/{variant}", tmp_path_factory.mktemp("ranks"))
        shutil.copytree(run, folder / "job" / f"rank-{rank}")
    lay_batch("0.2.0", folder / "add2-batch")
    for name in ("add", "add2"):
        shutil.copy(next((recorded.SHIPPED / name).glob("*/report.sqlite")), folder / f"{name}.sqlite")
    for side in ("before", "after"):
        for number in (1, 2, 3):
            run = folder / "nsyswrap-runs" / side / f"run-{number}"
            # Equal runs of steady steps: a gate that is strict passes them.
            shutil.copytree(
                recorded.run_folder("ladder_cuda/coalesced", tmp_path_factory.mktemp("runs")), run
            )
            RunFolder(run).write(RUN, {"repeat": {"number": number, "count": 3}})
            RunFolder(run).write_status(Status("done", 0, 0, 0))
    (folder / "nsyswrap-baselines").mkdir()
    for seed, name in enumerate(("main", "v1", "v2")):
        text = baseline_text(made_side(name, seed=seed))
        (folder / "nsyswrap-baselines" / f"{name}.json").write_text(text)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    return folder


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell in which ``nsyswrap`` is this checkout's."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "nsyswrap").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nsyswrap "$@"\n')
    (programs / "nsyswrap").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
    }
    return ran(["bash", "-c", line], cwd=folder, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("command", [parameter(c) for c in COMMANDS if c.needs in ("", CAPTURES)])
def test_a_command_works(command: Command, checkout: Path) -> None:
    if command.needs or not command.line.startswith("nsyswrap "):
        done = shell(command.line, checkout)
        assert done.returncode == 0, done.stderr
        return
    code, _, stderr = reference.run(command.line, checkout)
    assert code == 0, stderr
    assert "nothing in what is selected" not in stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [parameter(c) for c in COMMANDS if c.needs in FIXTURES])
def test_a_command_that_records_works(command: Command, bare: Path, request: pytest.FixtureRequest) -> None:
    for fixture in FIXTURES[command.needs]:
        request.getfixturevalue(fixture)
    for line in (*command.after, command.line):
        # Without steps to count any program will do, and PyTorch takes seconds to load in each rank.
        (bare / "train.py").write_text(TRAIN if "--steps" in line else "print('trained')\n")
        done = shell(line, bare)
        assert done.returncode == 0, done.stderr


def test_what_shows_a_recording_comes_after_it() -> None:
    recording = [command for command in COMMANDS if command.needs in FIXTURES]
    shown = [command for command in recording if command.line.startswith("nsyswrap report ")]
    assert shown
    assert all(re.match("nsyswrap (profile|session) ", command.after[0]) for command in shown), shown


def test_at_most_one_command_in_ten_is_run_by_no_test() -> None:
    assert len(COMMANDS) > 40
    rest = left_out(COMMANDS)
    assert len(rest) <= len(COMMANDS) / 10, [command.line for command in rest]


def test_the_guarantees_say_why_no_test_runs_a_command() -> None:
    explained = set(re.findall(r"^\| ([^|]+) \|", GUARANTEES.read_text(encoding="utf-8"), re.MULTILINE))
    assert {command.needs for command in left_out(COMMANDS)} <= explained


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=ids)
def test_the_python_of_a_page_runs(page: Path, checkout: Path) -> None:
    text = "\n".join(block for block in blocks(page, "python") if "# needs" not in block)
    done = python(text, checkout)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("nsys")
def test_the_python_that_needs_nsys_runs(checkout: Path) -> None:
    texts = [block for page in PAGES for block in blocks(page, "python") if "# needs nsys" in block]
    assert texts
    for text in texts:
        done = python(text, checkout)
        assert done.returncode == 0, done.stderr
        assert "done" in done.stdout


def python(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return ran([sys.executable, "-c", text], cwd=folder, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_outputs_are_what_the_commands_print(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert reference.with_outputs(text) == text, f"run: {reference.COMMAND}"


def test_the_first_page_shows_the_demo() -> None:
    page = (reference.DOCS / "install.md").read_text(encoding="utf-8")
    assert "```sh\nnsyswrap demo\n```\n\n```text\nRecorded on" in page


@pytest.mark.parametrize("page", reference.WRITTEN, ids=ids)
def test_the_reference_is_that_of_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == reference.WRITTEN[page](), f"run: {reference.COMMAND}"


def test_the_readme_is_short() -> None:
    assert len(reference.README.read_text(encoding="utf-8").splitlines()) in README_LINES


def test_figures_of_the_readme_are_those_of_the_pages_that_it_links_to() -> None:
    """A figure with a link stands on that page, but for the recordings, which are counted."""
    text = reference.README.read_text(encoding="utf-8")
    captures = len([*(ROOT / "tests" / "labelled").glob("**/captures/*.sqlite.xz")])
    linked = re.findall(r"\[([^\]]*\d[^\]]*)\]\(([^)#]+)[^)]*\)", text)
    assert ("151 recordings", "tests/labelled/README.md") in linked
    assert captures == 151
    figures = [(figure, page) for link, page in linked for figure in re.findall(r"\d[\d.,]*\d", link)]
    for figure, page in figures:
        if "labelled" not in page:
            assert re.search(rf"(?<![\d.,]){figure}", (ROOT / page).read_text(encoding="utf-8")), figure


@pytest.mark.parametrize("page", PAGES[1:], ids=ids)
def test_a_page_begins_with_what_it_is_for(page: Path) -> None:
    title, blank, purpose, *_ = page.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert not blank
    assert re.match(r"[A-Z`][^\n]{40,}", purpose), purpose


def links(page: Path) -> list[tuple[str, str]]:
    """Return path and anchor of every link and picture to a file, outside of code."""
    text = re.sub(
        r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [(path, anchor) for path, _, anchor in (t.partition("#") for t in targets) if ":" not in path]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_the_readme_links_to_every_page() -> None:
    linked = {path for path, _ in links(reference.README)}
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in linked] == []


def test_the_changelog_of_the_next_release_is_short() -> None:
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    full = "the section is full: write the line into docs/changes-0.4.0.md, or shorten others"
    assert len(newest.splitlines()) <= CHANGELOG_LINES, full


def test_every_picture_is_shown() -> None:
    shown = {(page.parent / path).resolve() for page in PAGES for path, _ in links(page)}
    assert sorted(set(reference.DOCS.glob("**/*.png")) - shown) == []


def test_each_promise_is_held_by_a_test_that_there_is() -> None:
    named = re.findall(r"`(test_\w+)`", GUARANTEES.read_text(encoding="utf-8"))
    defined = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("**/test_*.py"))
    assert len(named) > 12
    assert [name for name in named if f"def {name}(" not in defined] == []


@pytest.mark.slow
def test_git_ignores_what_the_commands_write(checkout: Path) -> None:
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs git and a clone")
    names = {path.name + "/" * path.is_dir() for path in checkout.iterdir() if not path.is_symlink()}
    written = sorted(names - OWN)
    ignored = ran(["git", "check-ignore", "--no-index", *written], cwd=ROOT)
    assert ignored.stdout.splitlines() == written
