"""The help of every command fits on a screen and has examples that work; wrong names get a suggestion."""

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest
import reference
from conftest import Cli, InProcess
from tiny_export import call, kernel, nvtx, write

from nsyswrap.cli import cli as top
from nsyswrap.cli import doctor
from nsyswrap.cli.help import GENERAL, HelpCommand

PAGES = [page for page in reference.pages() if not page.name.startswith("changes-")]
PAGES.append(Path(doctor.__file__).with_name("skill.md"))
MOST_LINES, WIDTH = 40, 80
HIDDEN = ["run-folder"]


def commands_of(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of the group and of all commands below it."""
    yield words
    context = click.Context(group, help_option_names=["-h", "--help"])
    for name in [*group.list_commands(context), *([] if words else HIDDEN)]:
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, (*words, name))
        else:
            yield (*words, name)


WORDS = tuple(commands_of(top))
every_command = pytest.mark.parametrize("words", WORDS, ids=lambda words: " ".join(words) or "nsyswrap")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: InProcess) -> InProcess:
    monkeypatch.chdir(tmp_path)
    return in_process


def parse(arguments: list[str]) -> click.Context:
    """Parse a command line as click does, without running the command."""
    context = click.Context(top, info_name="nsyswrap", help_option_names=["-h", "--help"])
    while isinstance(context.command, click.Group) and arguments:
        name, *arguments = arguments
        command = context.command.get_command(context, name)
        assert command is not None, name
        is_group = isinstance(command, click.Group)
        context = command.make_context(
            name, [] if is_group else arguments, context, resilient_parsing=is_group
        )
    return context


def command_at(words: tuple[str, ...]) -> tuple[HelpCommand, click.Context]:
    context = click.Context(
        top, info_name="nsyswrap", terminal_width=WIDTH, help_option_names=["-h", "--help"]
    )
    for name in words:
        assert isinstance(context.command, click.Group)
        command = context.command.get_command(context, name)
        assert command is not None
        context = click.Context(
            command, context, name, terminal_width=WIDTH, help_option_names=["-h", "--help"]
        )
    assert isinstance(context.command, HelpCommand)
    return context.command, context


def test_all_commands_are_tested() -> None:
    assert {"profile", "batch", "scenarios", "redact"} <= {words[0] for words in WORDS if words}
    assert ("batch", "sweep") in WORDS


@every_command
def test_the_help_fits_on_a_screen(words: tuple[str, ...]) -> None:
    command, context = command_at(words)
    lines = command.get_help(context).splitlines()
    assert len(lines) <= MOST_LINES, "mark an option as rare: --help-all has it"
    assert [line for line in lines if len(line) > WIDTH] == []


@every_command
def test_each_option_has_a_heading_and_one_line(words: tuple[str, ...]) -> None:
    command, context = command_at(words)
    for title, terms in command.sections(context).items():
        for term, text in terms.items():
            sentence, _, default = text.partition(" [default: ")
            assert (title, sentence[-1:], default[-1:]) in ((title, ".", ""), (title, ".", "]")), term
    general = {term.partition(" --")[2] or term for term in command.sections(context)[GENERAL]}
    assert {term.lstrip("-").split()[0] for term in general} <= {"help", "version", "color", "show-config"}
    text = command.get_help(context)
    for terms in command.sections(context).values():
        for term, line in terms.items():
            assert any(term in one and one.endswith(line) for one in text.splitlines()), (
                f"{term} and its help need one line of {WIDTH} columns: shorten one of them"
            )


@every_command
def test_the_examples_are_parsed(words: tuple[str, ...]) -> None:
    command, context = command_at(words)
    assert 1 <= len(command.examples) <= 2
    for example in command.examples:
        assert f"\n  {example}\n" in f"{command.get_help(context)}\n"
        name, *arguments = shlex.split(example, comments=True)
        assert name == "nsyswrap"
        assert tuple(arguments[: len(words)]) == words
        parsed = parse(arguments)
        assert words == () or parsed.command.name == command.name or isinstance(command, click.Group)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_in_the_text_of_a_page_is_parsed(page: Path) -> None:
    """Blocks of commands are run by test_docs.py. In a text the program or the capture may be missing."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"`nsyswrap ([a-z][^`\n]*)`", text):
        with suppress(click.MissingParameter, click.exceptions.Exit):
            parse(shlex.split(line.replace(r"\|", "|")))


@pytest.mark.slow
@pytest.mark.parametrize("words", [("report",), ("view",), ("plot",), ("export",), ("redact",)], ids=" ".join)
def test_the_examples_that_read_captures_work(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    events = (nvtx("step", 0, 90), call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 30, 1))
    folders = {"run1", "run2", "before", "after"}
    for folder in folders:
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "report.sqlite", *events)
    write(tmp_path / "shared.sqlite", *events)
    for example in command_at(words)[0].examples:
        _, *arguments = shlex.split(example, comments=True)
        if not folders & {*arguments} and "shared.sqlite" not in arguments:  # of the newest run
            arguments.append("run1")
        if words == ("redact",) and "-o" in arguments:
            (tmp_path / "shared.sqlite").unlink()
        if "--time" in arguments:  # the capture lasts 90 ns
            arguments[arguments.index("--time") + 1] = "0/90ns"
        if "--parquet" in arguments:
            pytest.importorskip("pyarrow")
        done = cli(*arguments, BROWSER="true")
        assert done.returncode == 0, (example, done.stderr)


@pytest.mark.parametrize(
    "words", [(), ("batch",), ("scenarios",)], ids=lambda words: " ".join(words) or "nsyswrap"
)
def test_a_group_alone_prints_its_help(words: tuple[str, ...], cli: Cli) -> None:
    bare, asked = cli(*words), cli(*words, "--help")
    assert (bare.returncode, bare.stderr) == (0, "")
    assert bare.stdout == asked.stdout
    assert bare.stdout.startswith(f"Usage: {' '.join(('nsyswrap', *words))} [OPTIONS] COMMAND")


def test_the_command_of_batch_tasks_is_hidden_and_works(cli: Cli) -> None:
    assert "run-folder" not in cli().stdout
    assert cli("run-folder", "--help").stdout.startswith("Usage: nsyswrap run-folder")


WRONG = """
$ reprot
no command named 'reprot'
  did you mean 'report'?
$ stats x.sqlite
no command named 'stats'
  use nsyswrap report x.sqlite
$ diff a b
no command named 'diff'
  use nsyswrap compare a b
$ batch sweap
no command named 'sweap'
  did you mean 'sweep'?
$ scenarios lst
no command named 'lst'
  did you mean 'list'?
$ report --fromat csv
no option named '--fromat'
  did you mean '--format'? nsyswrap report --help shows all options
$ profile --tracee cuda
no option named '--tracee'
  did you mean '--trace'? nsyswrap profile --help-all shows all options
$ redact
missing argument 'CAPTURE'
  nsyswrap redact --help shows all options
$ report x.sqlite -r gpukernsum
no report named 'gpukernsum'
  did you mean 'cuda_gpu_kern_sum'?
$ report -r rank_skw
no report named 'rank_skw'
  did you mean 'rank_skew'?
$ report -r nothing
no report named 'nothing'
  nsyswrap report --list lists them
$ report --explain gpu_idel
no report named 'gpu_idel'
  did you mean 'gpu_idle'?
$ report -r gpu_gaps:gop=1
invalid report 'gpu_gaps:gop=1': gpu_gaps has no option 'gop=1'
  did you mean 'gap=N'?
$ report x.sqlite --nvtx stap
x.sqlite: no NVTX range named 'stap'
  did you mean 'step'? names: step, load
$ report x.sqlite --steps stap
x.sqlite: no NVTX range named 'stap' holds GPU work
  did you mean 'step'?
$ report x.sqlite --steps 3-1
invalid --steps '3-1': step 1 is before step 3
$ report x.sqlit
x.sqlit not found
  did you mean 'x.sqlite'?
$ report nsys.nsys-rep
nsys.nsys-rep not found
$ report x.sqlite --device 7
x.sqlite: no GPU 7
  GPUs: 0
$ -r gpu_time
no option named '-r' before the command
  options follow the command: nsyswrap report -r gpu_time
$ --color always plot x.sqlite
no option named '--color' before the command
  options follow the command: nsyswrap plot --color always x.sqlite
$ --frobnicate
no option named '--frobnicate'
  nsyswrap --help shows all options
$ report --format jsn
invalid --format 'jsn': expected text, csv, tsv, json, brief, markdown, parquet
  did you mean 'json'?
$ plot --kind time
invalid --kind 'time': expected top-kernels, histogram, timeline, launch, copies, roofline
  did you mean 'timeline'?
$ report --top 0
invalid --top '0': expected a whole number from 1
$ report --device 1 --device b
invalid --device 'b': expected a whole number
$ profile --timeout 0 true
invalid --timeout '0': expected a number above 0
$ profile -r gpu_tim true
no report named 'gpu_tim'
  did you mean 'gpu_time'?
$ scenarios run ad2
no scenario named 'ad2'
  did you mean 'add2'?
$ scenarios run add2 --variant bth
no variant named 'bth' in scenario 'add2'
  did you mean 'both'?
$ collect x --by kernel_n
no figure named 'kernel_n'
  did you mean 'kernel_ns'?
$ collect x -r gpu_tim
no summary named 'gpu_tim'
  did you mean 'gpu_time'?
"""
SCREENS = [screen.split("\n", 1) for screen in WRONG.split("\n$ ")[1:]]


@pytest.mark.parametrize(("typed", "answer"), SCREENS, ids=[typed for typed, _ in SCREENS])
def test_a_wrong_name_gets_a_suggestion(typed: str, answer: str, tmp_path: Path, here: InProcess) -> None:
    ranges = nvtx("step", 0, 40), nvtx("load", 50, 60)
    write(tmp_path / "x.sqlite", *ranges, call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 30, 1))
    code, out, err = here(*typed.split())
    assert err.rstrip() == f"nsyswrap: {answer.rstrip()}"
    assert (code, out) == (65 if answer.startswith(("x.sqlit", "nsys.")) else 2, "")


def test_the_help_of_collect_has_a_line_for_each_file(here: InProcess) -> None:
    lines = here("collect", "--help")[1].splitlines()
    for name in ("results.csv", "summaries.csv", "kernels.csv"):
        assert [line for line in lines if line.startswith(f"    {name}")]


def test_the_help_of_clip_says_what_happens_without_it(here: InProcess, tmp_path: Path) -> None:
    """A kernel from 10 to 30 ns, read from 20 ns on."""
    write(tmp_path / "x.sqlite", call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 30, 1))
    part = ("x.sqlite", "--time", "20ns/")
    csv = here("report", *part, "-r", "cuda_gpu_kern_sum", "--format", "csv")[1]
    assert csv.splitlines()[1].split(",")[1] == "20"  # whole in a report of nsys
    own = here("report", *part, "-r", "gpu_time", "--format", "json")[1]
    assert '"kernel_total_ns": 10' in own
    trace = here("export", *part, "--perfetto", "-", "--format", "json")[1]
    assert '"dur":0.02' in trace.replace(" ", "")
    clipped = here("export", *part, "--perfetto", "-", "--format", "json", "--clip", "yes")[1]
    assert '"dur":0.01' in clipped.replace(" ", "")
    defaults = {
        name: command_at((name,))[0].sections(command_at((name,))[1])
        for name in ("report", "view", "plot", "export")
    }
    texts = {name: sections["Part of the capture"]["--clip [no|yes]"] for name, sections in defaults.items()}
    assert {name: text.partition("[default: ")[2] for name, text in texts.items()} == {
        "report": "yes; nsys' reports: no]",
        "view": "yes]",
        "plot": "yes]",
        "export": "no]",
    }
