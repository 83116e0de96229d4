"""Which packages a Python program imports, found without running it."""

import os
import shlex
import stat
from pathlib import Path

import pytest

from nsyswrap.record.pythons import JAX, first_import

FILES = {
    "plain.py": "import os, numpy as np\n",
    "direct.py": "import os, jax.numpy as jnp\n",
    "later.py": "def main():\n    from flax import linen\n",
    "beside.py": "from package import model\n",
    "relative.py": "import package.sub.deep\n",
    "optional.py": "try:\n    import jax\nexcept ImportError:\n    jax = None\n",
    "for_types.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jax\n",
    "own.py": "from .jax import x\nfrom package.jax import x\n",
    "cycle.py": "import cycle\n",
    "broken.py": "import jax\nthis is no Python\n",
    "package/__init__.py": "",
    "package/__main__.py": "from .model import train\n",
    "package/jax.py": "",
    "package/model.py": "from . import layers\n",
    "package/layers.py": "import optax\n",
    "package/sub/__init__.py": "",
    "package/sub/deep.py": "from ..layers import x\n",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python3 plain.py", ""),
        ("python3 direct.py --import jax", "jax"),
        ("/usr/bin/python3.12 -u -W ignore -Xdev direct.py", "jax"),
        ("python3 later.py", "flax"),
        ("python3 beside.py", "optax"),
        ("python3 relative.py", "optax"),
        ("python3 -m package", "optax"),
        ("python3 -mpackage.sub.deep", "optax"),
        ("python3 package", "optax"),  # a folder with a __main__.py
        ("python3 -c 'import jax'", "jax"),
        ("mpirun -n 2 python3 direct.py", "jax"),
        ("python3 optional.py", ""),
        ("python3 for_types.py", ""),
        ("python3 own.py", ""),  # a module of this name in another package
        ("python3 cycle.py", ""),
        ("python3 broken.py", ""),
        ("python3 missing.py", ""),
        ("python3", ""),
        ("true direct.py", ""),
    ],
)
def test_the_first_import(command: str, found: str) -> None:
    assert first_import(shlex.split(command), JAX) == found


def test_a_script_that_names_its_python(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = here / "tool"
    script.write_text(f"#!/usr/bin/env python3\n{FILES['direct.py']}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    assert first_import(["tool", "x"], JAX) == "jax"


def test_a_pipe_is_not_read(here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    pipe = os.open(here / "pipe.py", os.O_RDWR)
    os.write(pipe, b"import jax\n")
    assert first_import(["python3", "pipe.py"], JAX) == ""
    os.set_blocking(pipe, False)
    assert os.read(pipe, 100) == b"import jax\n"
    os.close(pipe)
