"""This installation of nsyswrap: its version, and how to add what an optional feature needs.

The version is a release, or a development version of the next one that names its commit.

    0.3.0                         a release
    0.4.0.dev0+g1a2b3c4d          the code of a commit
    0.4.0.dev0+g1a2b3c4d.dirty    the same, with changes to files of the checkout
    0.4.0.dev0+unknown            the commit is not known

The commit is in a file that the build adds to the wheel and the sdist (``tests/support/build_hook.py``). In a
checkout of nsyswrap git knows it, and in an archive ``git archive`` has written it into this file.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CommandHint
from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from pathlib import Path

with lazy_imports():  # used for the first question alone
    import pathlib
    import re
    import shutil
    from importlib import metadata

    from nsyswrap.base import run_tool

RELEASE = "0.4.0.dev0"  # with .dev0 from one release to the next
_BUILT = "nsyswrap/base/built_version.txt"  # in the wheel and the sdist, see pyproject.toml
_ARCHIVED = "$Format:%H$"  # replaced by the commit in archives, see .gitattributes
_IS_OURS = '\nname = "nsyswrap"\n'  # in pyproject.toml
_DIGITS = 8  # of a commit
# The code of the checkout runs already, so its repository may belong to another user.
_TRUSTED = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


@cache
def version() -> str:
    """Return the version. In a checkout the first call of a process runs git, for a few seconds at most."""
    return _built() or _of_checkout() or version_at_once()


def version_at_once() -> str:
    """Return the version without running git: the commit of a checkout counts as not known."""
    return _built() or _named("" if _ARCHIVED.startswith("$") else _ARCHIVED)


def names_code() -> bool:
    """Return True if the version stands for one state of the code: not with changes, nor without a commit."""
    return not version().endswith((".dirty", "+unknown"))


def pip_install(extra: str) -> CommandHint:
    """Return the command that installs the packages of an extra, such as ``parquet``.

    It names these packages and not ``nsyswrap[parquet]``: an installation from a checkout would look for
    nsyswrap in the package index, or replace itself. Without an installation it names the checkout.
    """
    try:
        requirements = metadata.requires("nsyswrap") or ()
    except metadata.PackageNotFoundError:
        requirements = ()
    of_extra = [
        requirement.partition(";")[0].strip()
        for requirement in requirements
        if re.search(rf"""extra\s*==\s*['"]{extra}['"]""", requirement)
    ]
    first, python = shutil.which("python3"), sys.executable
    if first and pathlib.Path(first).parent == pathlib.Path(python).parent:
        python = "python3"  # sys.executable can be another name of it
    return CommandHint.of([python, "-m", "pip", "install", *(of_extra or [f"{_root()}[{extra}]"])])


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _built() -> str:
    return _text(_root() / _BUILT).strip()


def _of_checkout() -> str:
    """Return the version by git, '' if this is no checkout of nsyswrap or if git cannot tell.

    A repository further up is not ours: a virtual environment can lie in it.
    """
    root = _root()
    if not os.path.lexists(root / ".git") or _IS_OURS not in _text(root / "pyproject.toml"):
        return ""
    alone = {"GIT_CEILING_DIRECTORIES": str(root.parent)}
    state = run_tool.git_state(root, {**os.environ, **_TRUSTED, **alone})
    return _named(state.commit, dirty=state.dirty) if state else ""


def _named(commit: str, *, dirty: bool = False) -> str:
    """Return the version of a commit, '' if it is not known. The code of a release has its number alone."""
    if "dev" not in RELEASE and not dirty:
        return RELEASE
    return f"{RELEASE}+" + (f"g{commit[:_DIGITS]}{'.dirty' if dirty else ''}" if commit else "unknown")


def _root() -> Path:
    """Return the folder of the package: a checkout, the root of an archive, or site-packages."""
    return pathlib.Path(__file__).resolve().parents[2]


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
