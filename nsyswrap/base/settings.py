"""Defaults of options, from ``[tool.nsyswrap]`` of a project and from the user's own file.

The project's file is the nearest pyproject.toml from the working folder up to the root of its repository or
the home folder. One that another user could have written is ignored. The user's file is
``$XDG_CONFIG_HOME/nsyswrap/config.toml``. The order is: option, environment, project, user, built-in. The
path of nsys is never taken from a project: a cloned repository must not choose what is executed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.base import paths
from nsyswrap.base.errors import Unreadable, UsageError
from nsyswrap.base.files import TOML_BYTES, brief, parse_toml, read_toml, small_file, user_folder, why
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import unknown

if TYPE_CHECKING:
    import click

PROJECT_FILE = "pyproject.toml"
GATE = "gate"  # the table of `nsyswrap compare --gate`, see cli/gate.py
_TABLE = "nsyswrap"  # in [tool]
_REPOSITORY = (".git", ".hg", ".jj", ".sl", ".svn", ".bzr")  # what the root of a repository has
_UNSET = {"FORCE_COLOR": ("", "0")}  # values that count as none
_COUNTS = 2**31  # more rows than any table has
_TRACE = re.compile(r"\b[a-z0-9-]+(,\b[a-z0-9-]+)*")  # nothing that nsys could take for another option


@dataclass(frozen=True)
class Setting:
    """One key: its option, its built-in value, the valid values, and variables that outrank the files."""

    option: str
    builtin: object
    expected: str
    accepts: Callable[[Any], bool]
    variables: tuple[str, ...] = ()


class SettingValue(NamedTuple):
    """The value of a setting and where it came from: a file, a variable or ``built-in``."""

    value: object
    source: str


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value < _COUNTS


SETTINGS = {
    "top": Setting("--top", "each command's own", "a whole number of 1 or more", _is_count),
    "color": Setting(
        "--color",
        "auto",
        "'auto', 'always' or 'never'",
        lambda value: value in ("auto", "always", "never"),
        ("NO_COLOR", "FORCE_COLOR"),
    ),
    "trace": Setting(
        "--trace",
        "cuda,nvtx",
        "names with commas, for example 'cuda,nvtx,osrt'",
        lambda value: isinstance(value, str) and _TRACE.fullmatch(value) is not None,
    ),
    "readable": Setting(
        "--readable", builtin=False, expected="true or false", accepts=lambda value: isinstance(value, bool)
    ),
    "nsys": Setting(
        "--nsys",
        "PATH, then the usual places",
        "an absolute path",  # a relative one would depend on the working folder
        lambda value: isinstance(value, str) and os.path.isabs(os.path.expanduser(value)),  # noqa: PTH111, PTH117 - a Path raises for an unknown ~user
        ("NSYSWRAP_NSYS",),
    ),
}


def apply(context: click.Context, name: str, command: click.Command) -> list[str]:
    """Make the settings the defaults of a command and its subcommands. Return notes for the user.

    Raises UsageError for an invalid setting.
    """
    values, notes = from_files()
    outranked = {"nsys", *(key for key, setting in SETTINGS.items() if _variable(setting))}
    values = {key: value for key, value in values.items() if key not in outranked}
    if values:
        context.default_map = {**(context.default_map or {}), name: _defaults(command, values)}
    return notes


def _defaults(command: click.Command, values: Mapping[str, SettingValue]) -> dict[str, Any]:
    own = {
        param.name or "": values[key].value
        for key in values
        for param in command.params
        if SETTINGS[key].option in param.opts
    }
    subcommands: dict[str, click.Command] = getattr(command, "commands", {})
    below = {key: value for key, value in values.items() if key != "color"}  # they inherit that of the group
    return {**own, **{name: _defaults(subcommand, below) for name, subcommand in subcommands.items()}}


def current() -> tuple[dict[str, SettingValue], list[str]]:
    """Return the value of every setting without options, and notes. Raises UsageError."""
    values, notes = from_files()
    for key, setting in SETTINGS.items():
        if variable := _variable(setting):
            value = {"NO_COLOR": "never", "FORCE_COLOR": "always"}.get(variable) or os.environ[variable]
            values[key] = SettingValue(value, f"${variable}")
        values.setdefault(key, SettingValue(setting.builtin, "built-in"))
    return {key: values[key] for key in SETTINGS}, notes


def _variable(setting: Setting) -> str:
    return next(
        (name for name in setting.variables if os.environ.get(name, "") not in _UNSET.get(name, ("",))), ""
    )


def from_files() -> tuple[dict[str, SettingValue], list[str]]:
    """Return the settings of both files, and notes on those that are ignored. Raises UsageError."""
    path = project_file()
    table, notes = _project_table(path)
    table.pop(GATE, None)
    project = _checked(table, str(path))
    if project.pop("nsys", None) is not None:
        place = user_file() or "~/.config/nsyswrap/config.toml"
        notes = [f"{path}: nsys is ignored, as a project must not choose it; set nsys in {place}"]
    return {**of_user(), **project}, notes


def nsys_path() -> tuple[str, str] | None:
    """Return the path of nsys in the user's file, and where that is; None if there is none.

    Raises UsageError.
    """
    value = of_user().get("nsys")
    if value is None:
        return None
    return os.path.expanduser(str(value.value)), f"nsys in {value.source}"  # noqa: PTH111 - as above


def of_user() -> dict[str, SettingValue]:
    """Return the settings in the user's file. Raises UsageError."""
    path = user_file()
    if path is None or not is_there(path):
        return {}
    try:
        table = read_toml(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {why(error)}", "correct the file, or remove it") from None
    return _checked(table, str(path))


def gate_of_project() -> tuple[dict[str, Any], str]:
    """Return the content of ``[tool.nsyswrap.gate]`` of the project and its file; empty without the table.

    Raises UsageError if it is not a table.
    """
    path = project_file()
    table = _project_table(path)[0].get(GATE, {})
    if not isinstance(table, dict):
        raise UsageError(
            f"{path}: {GATE} in [tool.{_TABLE}] is not a table", f"begin it with [tool.{_TABLE}.{GATE}]"
        )
    return table, str(path)


def _project_table(path: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Return ``[tool.nsyswrap]`` of a file, and notes. Raises UsageError if it is not a table."""
    try:
        content = small_file(path, TOML_BYTES) if path else b""
        if path is None or _TABLE.encode() not in content:  # most projects: nothing is parsed
            return {}, []
        if reason := _distrusted(path):
            place = user_file() or "~/.config/nsyswrap/config.toml"
            return {}, [f"{path} is ignored: {reason}; set these options in {place}"]
        tool = parse_toml(content).get("tool")
    except PermissionError:  # that of another user above this folder
        return {}, []
    except (OSError, ValueError) as error:  # others work with this file, nsyswrap alone does not need it
        return {}, [f"{path} cannot be read, so [tool.{_TABLE}] is ignored: {why(error)}"]
    table = tool.get(_TABLE) if isinstance(tool, dict) else None
    if table is None:
        return {}, []
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.{_TABLE}] is not a table", f"begin it with [tool.{_TABLE}]")
    return table, []


def _checked(table: Mapping[str, Any], source: str) -> dict[str, SettingValue]:
    """Raises UsageError for an unknown key and for an invalid value."""
    for key, value in table.items():
        if key not in SETTINGS:
            message, hint = unknown("setting", key, SETTINGS)
            raise UsageError(f"{source}: {message}", hint)
        if not SETTINGS[key].accepts(value):
            raise UsageError(f"{source}: invalid {key} {brief(value)}: expected {SETTINGS[key].expected}")
    return {key: SettingValue(value, source) for key, value in table.items()}


def project_file() -> Path | None:
    """Return the nearest pyproject.toml of the project that the working folder is in."""
    with suppress(OSError):
        return next((p for folder in _project_folders() if is_there(p := folder / PROJECT_FILE)), None)
    return None


def _project_folders() -> Sequence[Path]:
    """Return the working folder, and those above it up to the root of a repository or the home folder.

    Outside of both it is the working folder alone. Raises OSError without a working folder.
    """
    here = Path.cwd()
    folders = (here, *here.parents)
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - Path.home raises without a home
    for number, folder in enumerate(folders[:-1], 1):  # neither is the root of all files
        is_root = any(os.path.lexists(folder / name) for name in _REPOSITORY)
        if is_root or str(folder) == home:
            return folders[:number]
    return folders[:1]


def _distrusted(path: Path) -> str:
    """Return why a file may be another user's work; empty if it is that of this user or of root.

    git goes by the owner, too, and with sudo also accepts the user who called it. Raises Unreadable.
    """
    if not hasattr(os, "geteuid"):
        return ""
    user = os.geteuid()
    owners = {
        0,
        user,
        *([int(caller)] if not user and (caller := os.environ.get("SUDO_UID", "")).isdecimal() else []),
    }
    found = paths.status(path), paths.status(path, follow=False)
    if not {facts.st_uid for facts in found if facts} <= owners:
        return "it belongs to another user"
    if (folder := paths.status(path.parent)) and folder.st_mode & stat.S_IWOTH:
        return f"everybody can write into {path.parent}"
    return ""


def is_there(path: Path) -> bool:
    """Return True if there is a file with settings. One that may not be looked at counts as none."""
    try:
        return paths.is_file(path)
    except Unreadable:
        return False


def user_file() -> Path | None:
    """Return the path of the user's file, which need not exist; None without a home."""
    folder = user_folder("XDG_CONFIG_HOME", ".config")
    return folder and folder / "config.toml"
