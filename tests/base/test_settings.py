"""Settings: which file, variable or option decides, and files that are wrong, hostile or somebody else's."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from test_imports import loaded_by
from tiny_export import kernel, write

from nsyswrap.base import settings
from nsyswrap.base.errors import Unavailable, UsageError
from nsyswrap.base.nsys import find
from nsyswrap.base.settings import SETTINGS, SettingValue
from nsyswrap.cli import cli
from nsyswrap.cli.help import COMMANDS

REPORT = ("report", "x.sqlite", "-r", "cuda_gpu_kern_sum")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, whose folder below is the working folder, and a user without settings."""
    for name in ("NO_COLOR", "FORCE_COLOR", find.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    below = tmp_path / "project" / "src" / "deep"
    below.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.chdir(below)
    write(below / "x.sqlite", *(kernel(f"kernel_{n}", 10 * n, 10 * n + 5 - n) for n in range(4)))
    return tmp_path / "project"


def of_project(project: Path, lines: str) -> str:
    file = project / "pyproject.toml"
    file.write_text(f"[project]\nname = 'x'\n[tool.nsyswrap]\n{lines}\n")
    return str(file)


def of_user(lines: str) -> str:
    file = settings.user_file()
    assert file is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lines)
    return str(file)


def run(*arguments: str) -> str:
    """Return what a command prints."""
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def kernels(*options: str) -> int:
    """How many kernels the report shows: four, or as many as --top says."""
    return run(*REPORT, *options).count("kernel_")


def option_of(name: str, option: str) -> click.Parameter:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return next(param for param in command.params if option in param.opts)


def test_without_files_nothing_changes() -> None:
    values, notes = settings.current()
    assert {value.source for value in values.values()} == {"built-in"}
    assert notes == []
    assert kernels() == 4


def test_the_built_in_value_is_that_of_the_option() -> None:
    assert option_of("profile", "--trace").default == SETTINGS["trace"].builtin


def test_an_option_outranks_the_project_and_the_project_the_user(project: Path) -> None:
    user = of_user('top = 1\ntrace = "osrt"\n')
    assert kernels() == 1
    file = of_project(project, "top = 2")
    assert kernels() == 2
    assert kernels("--top", "3") == 3
    values, _ = settings.current()
    assert (values["top"], values["trace"]) == (SettingValue(2, file), SettingValue("osrt", user))


def test_of_several_projects_the_nearest(project: Path) -> None:
    of_project(project, "top = 2")
    of_project(project / "src", "")
    assert kernels() == 4


def test_every_command_with_the_option_has_the_default(project: Path) -> None:
    of_project(project, 'top = 2\ntrace = "nvtx"')
    context = click.Context(cli)
    for name in COMMANDS:
        cli.get_command(context, name)
    made = context.default_map or {}
    assert made["profile"] == {"top": 2, "trace": "nvtx"}
    assert made["report"] == {"top": 2}
    assert made["batch"]["sweep"] == {"top": 2, "trace": "nvtx"}
    assert made["batch"]["cancel"] == {}
    assert made["redact"] == {}


def test_a_variable_outranks_the_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_user('nsys = "/user/nsys"\ncolor = "never"')
    of_project(project, 'color = "always"')
    monkeypatch.setenv("FORCE_COLOR", "0")  # does not force
    assert settings.current()[0]["color"].value == "always"
    of_project(project, 'color = "auto"')
    for variable, value in (("FORCE_COLOR", "always"), ("NO_COLOR", "never")):
        monkeypatch.setenv(variable, "1")
        assert settings.current()[0]["color"] == SettingValue(value, f"${variable}")
    context = click.Context(cli)
    settings.apply(context, "x", click.Command("x", params=[click.Option(["--color"])]))
    assert (context.default_map or {}).get("x", {}) == {}
    monkeypatch.setenv(find.VARIABLE, "/variable/nsys")
    assert settings.current()[0]["nsys"] == SettingValue("/variable/nsys", f"${find.VARIABLE}")


def test_a_group_hands_its_color_to_its_commands() -> None:
    of_user('color = "never"')
    params: list[click.Parameter] = [click.Option(["--color"], default="auto")]
    group = click.Group("x", params=params, commands=[click.Command("sub", params=params)])
    context = click.Context(cli)
    settings.apply(context, "x", group)
    assert context.default_map == {"x": {"color": "never", "sub": {}}}


def test_nsys_is_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = of_user('nsys = "~/nsys"')
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Unavailable, match=f"^nsys in {file} names {tmp_path}/nsys, "):
        find.find_nsys()
    with pytest.raises(Unavailable, match=r"^nsys in "):
        find.newest()
    monkeypatch.setenv(find.VARIABLE, "/variable/nsys")
    with pytest.raises(Unavailable, match=r"^.NSYSWRAP_NSYS names /variable/nsys"):
        find.find_nsys()


def test_a_project_does_not_choose_what_is_executed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = project / "nsys"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\necho 2025.3.1.90\n")
    evil.chmod(0o755)
    file = of_project(project, f'nsys = "{evil}"\ntop = 2')
    monkeypatch.setattr(find, "candidates", lambda: iter(()))
    with pytest.raises(Unavailable, match="nsys was not found"):
        find.find_nsys()
    assert kernels() == 2  # its other settings count
    note = f"nsyswrap: {file}: nsys is ignored, as a project must not choose it; set nsys in "
    assert run(*REPORT).count(note) == 1
    assert not (tmp_path / "executed").exists()
    of_user('nsys = "bin/nsys"')
    with pytest.raises(UsageError, match="invalid nsys 'bin/nsys': expected an absolute path"):
        settings.of_user()


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("tpo = 3", "no setting named 'tpo'", "did you mean 'top'?"),
        ("zzz = 3", "no setting named 'zzz'", "settings: top color trace readable nsys"),
        ("top = 0", "invalid top 0: expected a whole number of 1 or more", ""),
        ("top = 0x" + "f" * 5000, "invalid top a number of thousands of digits: expected", ""),
        ("top" + ".a" * 99 + " = {a" + ".a" * 99 + " = 1}", "invalid top {'a': {'a': ", ""),
        ("top = true", "invalid top True: expected a whole number of 1 or more", ""),
        ("color = 'red'", "invalid color 'red': expected 'auto', 'always' or 'never'", ""),
        ("color = []", "invalid color []: expected 'auto', 'always' or 'never'", ""),
        ("trace = 'cuda --output=/x'", "invalid trace 'cuda --output=/x': expected names with commas", ""),
        ("trace = '--'", "invalid trace '--': ", ""),
        ("trace = 'cuda,--output'", "invalid trace 'cuda,--output': ", ""),
        ("readable = 'yes'", "invalid readable 'yes': expected true or false", ""),
    ],
)
def test_a_wrong_setting_is_named(project: Path, line: str, message: str, hint: str) -> None:
    for write_file in (lambda lines: of_project(project, lines), of_user):
        file = write_file(line)
        with pytest.raises(UsageError) as error:
            kernels()
        assert str(error.value).startswith(f"{file}: {message}")
        assert error.value.hint == hint
        assert error.value.exit_code == 2
        write_file("")


def test_a_broken_file_of_the_project_stops_nothing(project: Path) -> None:
    file = project / "pyproject.toml"
    file.write_text("[tool.black\n")
    assert run(*REPORT).startswith("CUDA GPU Kernel Summary")  # no word of it
    file.write_text("[tool.nsyswrap\ntop = 1\n")
    note, *_ = run(*REPORT).splitlines()
    assert note.startswith(f"nsyswrap: {file} cannot be read, so [tool.nsyswrap] is ignored: ")
    assert kernels() == 4
    file.write_bytes(b"# nsyswrap \xff")
    assert kernels() == 4
    file.unlink()
    file.symlink_to("/dev/zero")
    assert kernels() == 4


def read(project: Path) -> Path | None:
    """The project's file, which has to be that whose setting counts."""
    found = settings.project_file()
    assert settings.current()[0]["top"].source == (str(found) if found else "built-in")
    assert found is None or found.is_relative_to(project.parent)
    return found


@pytest.mark.parametrize("mark", [".git", ".hg", ".jj"])
def test_the_search_ends_at_the_root_of_the_repository(project: Path, mark: str) -> None:
    of_project(project.parent, "top = 0")
    (project / ".git").rmdir()
    (project / mark).write_text("gitdir: elsewhere")  # of a worktree it is a file
    assert read(project) is None
    of_project(project, "top = 2")
    assert read(project) == project / "pyproject.toml"


def test_without_a_repository_it_ends_at_the_home_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".git").rmdir()
    of_project(project.parent, "top = 0")
    link = project.parent / "link"
    link.symlink_to(project)
    monkeypatch.setenv("HOME", str(link))
    assert read(project) is None
    of_project(project, "top = 2")
    assert read(project) == project / "pyproject.toml"
    monkeypatch.setenv("HOME", str(project / "src"))
    assert read(project) is None


@pytest.mark.parametrize("home", ["/", "/nowhere"])
def test_elsewhere_only_the_working_folder_counts(
    project: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (project / ".git").rmdir()
    monkeypatch.setenv("HOME", home)
    for folder in (project.parent, project, project / "src"):
        of_project(folder, "top = 0")
    assert read(project) is None
    of_project(project / "src" / "deep", "top = 2")
    assert read(project) == project / "src" / "deep" / "pyproject.toml"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_ignored(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = of_project(project, "top = 0\n[tool.nsyswrap.gate]\nstrict = true")
    os.chown(file, 12345, -1)
    note = f"nsyswrap: {file} is ignored: it belongs to another user; set these options in "
    assert run(*REPORT).count(note) == 1
    assert kernels() == 4
    assert settings.gate_of_project()[0] == {}
    monkeypatch.setenv("SUDO_UID", "12345")  # as git does
    with pytest.raises(UsageError, match="invalid top 0"):
        kernels()
    monkeypatch.delenv("SUDO_UID")
    (project / "pyproject.toml").write_text("[tool.other]\n")
    assert "ignored" not in run(*REPORT)
    os.chown(file, 0, -1)
    (project / "src" / "pyproject.toml").symlink_to(of_project(project, "top = 2"))
    os.chown(project / "src" / "pyproject.toml", 12345, -1, follow_symlinks=False)
    assert kernels() == 4


def test_a_file_in_a_folder_of_everybody_is_ignored(project: Path) -> None:
    file = of_project(project, "top = 0")
    project.chmod(0o1777)
    note = f"nsyswrap: {file} is ignored: everybody can write into {project}; "
    assert run(*REPORT).count(note) == 1
    assert kernels() == 4
    project.chmod(0o775)
    with pytest.raises(UsageError, match="invalid top 0"):
        kernels()


@pytest.fixture
def without_gc() -> Iterator[None]:
    """Collect no garbage of other tests: its finalizers would fail at the depth where parsing fails."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_gc")
def test_a_file_that_is_nested_too_deeply(project: Path) -> None:
    file = of_project(project, f"top = {'[' * 10_000}")
    assert run(*REPORT).startswith(f"nsyswrap: {file} cannot be read, so [tool.nsyswrap] is ignored: nested")
    (project / "pyproject.toml").unlink()
    of_user(f"top = {'[' * 10_000}")
    with pytest.raises(UsageError, match="cannot be read: nested too deeply"):
        kernels()


def test_a_broken_file_of_the_user_is_an_error() -> None:
    file = of_user("top = \n")
    with pytest.raises(UsageError, match=f"^{file} cannot be read: "):
        kernels()


def test_readable_names_are_no_default_for_programs(project: Path) -> None:
    of_project(project, "readable = true")
    assert "kernel_1" in run(*REPORT, "--format", "csv")
    with pytest.raises(UsageError, match="--readable"):
        run(*REPORT, "--format", "csv", "--readable")
    assert "--readable" not in run("report", "x.sqlite", "--csv", "tables")
    assert "--readable does not change" in run("report", "x.sqlite", "--csv", "tables", "--readable")


def test_show_config_names_the_sources(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = of_project(project, "top = 2\nreadable = true")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = [line.split(maxsplit=2) for line in run("--show-config").splitlines() if line]
    user = str(settings.user_file())
    assert lines == [
        ["top", "2", file],
        ["color", "never", "$NO_COLOR"],
        ["trace", "cuda,nvtx", "built-in"],
        ["readable", "true", file],
        ["nsys", "PATH,", "then the usual places  built-in"],
        ["project", file],
        ["user", user, "(not there)"],
    ]


def test_nothing_is_parsed_without_a_file_about_nsyswrap(project: Path) -> None:
    parser = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    code = "import nsyswrap.cli; nsyswrap.cli.main(['report', '--help'])"
    assert parser not in loaded_by(code, project)
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert parser not in loaded_by(code, project)
    of_project(project, "top = 2")
    assert parser in loaded_by(code, project)


def test_settings_do_not_disturb_completion(project: Path) -> None:
    of_project(project, "tpo = 2")
    context = click.Context(cli, resilient_parsing=True)
    assert cli.get_command(context, "report") is not None


def test_a_home_that_cannot_be_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", f"/{'x' * 300}")  # raises as well, for root too
    assert settings.of_user() == {}
    assert "(not there)" in run("--show-config")
