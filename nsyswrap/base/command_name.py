"""How this installation of nsyswrap is started: hints name a command that works when it is typed."""

from __future__ import annotations

import os.path
import sys
from collections.abc import Collection
from contextlib import suppress
from functools import cache

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():  # used where the program was not started as `nsyswrap` from PATH
    import pathlib
    import re
    import shlex
    import shutil

_NAME = "nsyswrap"


@cache
def command_name() -> str:
    """Return how this process was started: ``nsyswrap``, ``.venv/bin/nsyswrap`` or ``python3 -m nsyswrap``.

    It is ``nsyswrap`` too if another program uses the package, as Python and pytest do.
    """
    folder, name = os.path.split(sys.argv[0])
    if name == "__main__.py" and os.path.split(folder)[1] == _NAME:
        return f"{shlex.quote(_from_here(sys.orig_argv[0]))} -m {_NAME}"
    if name != _NAME or _is_same(shutil.which(_NAME), sys.argv[0]):
        return _NAME
    return shlex.quote(_from_here(str(pathlib.Path(sys.argv[0]))))


def with_command_name(text: str, commands: Collection[str]) -> str:
    """Return a text in which ``nsyswrap <command>`` can be typed as it stands. Usage lines stay."""
    if command_name() == _NAME:
        return text
    words = "|".join(map(re.escape, [*commands, "--help", "--version"]))
    hint = rf"(?<!Usage: )(?<![\w./~-]){_NAME}(?= (?:{words})(?![\w/-]))"
    return re.sub(hint, lambda _: command_name(), text)


def _from_here(program: str) -> str:
    """Return the path relative to the working folder if it is below. A name to be looked up stays."""
    with suppress(ValueError, OSError):
        return str(pathlib.Path(program).relative_to(pathlib.Path.cwd()))
    return program


def _is_same(executable: str | None, started: str) -> bool:
    with suppress(OSError):
        return executable is not None and pathlib.Path(executable).samefile(started)
    return False
