"""What is installed: the packages that the code imports, and the files and types in the wheel."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.api import pytest_plugin

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

# The hook is ours. PyTorch installs triton, and every environment has pip. typing_extensions is for the
# type checker alone. The
# plugin for pytest is imported by pytest only.
NOT_ASKED_FOR = {"nsyswrap_hook", "pip", "pytest", "triton", "typing_extensions"}
USER_SCRIPT = """
import nsyswrap

capture = nsyswrap.open_capture("run1")
reveal_type(capture)
capture.select(device="first")
run: nsyswrap.Run = nsyswrap.profile(["true"], no_such_option=1)
"""


def packages(requirements: list[str]) -> set[str]:
    """Return the names under which requirements are imported."""
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}
    others = {"markdown-it-py": "markdown_it", "pillow": "PIL"}
    return {others.get(name, name.replace("-", "_")) for name in names}


def modules_named(path: Path) -> set[str]:
    """Return the top-level modules that a file imports, inside functions too."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named.add(node.module)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            by_name = ast.unparse(node.func).endswith(("importorskip", "import_module"))
            named |= {str(node.args[0].value)} if by_name else set()
    return {name.partition(".")[0] for name in named} - sys.stdlib_module_names


def third_party(folder: Path) -> dict[str, str]:
    """Return what the files of a folder import from elsewhere, each with a file that does."""
    named: dict[str, str] = {}
    for path in folder.rglob("*.py"):
        if "programs" not in path.parts:  # the labelled programs ran elsewhere, one of them with jax
            places = (path.parent, ROOT / "tests", ROOT / "tests/support", ROOT)
            own = {entry.stem for place in places for entry in place.iterdir()}
            named |= dict.fromkeys(modules_named(path) - own, str(path.relative_to(ROOT)))
    return named


@pytest.mark.parametrize(
    ("folder", "extras", "one"),
    [
        ("nsyswrap", ["compare", "parquet", "scenarios"], "numpy"),
        ("scenarios", ["scenarios"], "torch"),
        ("tests", ["scenarios", "test"], "hypothesis"),
    ],
)
def test_what_is_imported_is_asked_for(folder: str, extras: list[str], one: str) -> None:
    asked = packages([*PROJECT["dependencies"], *(name for extra in extras for name in EXTRAS[extra])])
    imported = third_party(ROOT / folder)
    assert one in imported
    assert {name: file for name, file in imported.items() if name not in asked | NOT_ASKED_FOR} == {}


def test_every_dependency_has_a_lowest_version() -> None:
    """``tests/versions lowest`` installs it."""
    assert [line for line in [*PROJECT["dependencies"], *EXTRAS["parquet"]] if ">=" not in line] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_has_all_that_is_used(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    tracked = {str(path.relative_to(ROOT)) for path in (ROOT / "nsyswrap").rglob("*.py")}
    shipped = {f"nsyswrap/_shipped/scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.py")}
    assert len(shipped) > 1
    assert tracked | shipped | {"nsyswrap/py.typed"} <= names
    assert {name.partition("/")[0] for name in names} == {
        "nsyswrap",
        f"nsyswrap-{PROJECT['version']}.dist-info",
    }


def test_the_wheel_stays_small(wheel: zipfile.ZipFile) -> None:
    assert Path(str(wheel.filename)).stat().st_size < 5_000_000


def test_pytest_finds_the_plugin(wheel: zipfile.ZipFile) -> None:
    entries = wheel.read(f"nsyswrap-{PROJECT['version']}.dist-info/entry_points.txt").decode()
    assert f"[pytest11]\nnsyswrap = {pytest_plugin.__name__}\n" in f"{entries}\n"


@pytest.mark.slow
def test_a_user_gets_the_types(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    venv.create(tmp_path / "installed")
    wheel.extractall(next((tmp_path / "installed/lib").glob("python*/site-packages")))
    (tmp_path / "user.py").write_text(USER_SCRIPT)
    python = str(tmp_path / "installed/bin/python3")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.findall(r'user.py:(\d+): (\w+): .*("device"|no_such_option|\.Capture)', done.stdout) == [
        ("5", "note", ".Capture"),
        ("6", "error", '"device"'),
        ("7", "error", "no_such_option"),
    ], done.stdout
