"""How to install what an optional feature needs into the Python that runs nsyswrap."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    from importlib import metadata

_CHECKOUT = paths.real(__file__).parents[2]


def pip_install(extra: str) -> str:
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
    first = shutil.which("python3")  # sys.executable can be another name of it, in the same folder
    python = "python3" if first and Path(first).parent == Path(sys.executable).parent else sys.executable
    return shlex.join([python, "-m", "pip", "install", *(of_extra or [f"{_CHECKOUT}[{extra}]"])])
