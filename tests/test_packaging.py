"""What is installed: the packages that the code imports, and the files and types in the wheel."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import trove_classifiers
from checkouts import BUILT_FROM, archived, commit, copied, git, head, repository, unpack, version_in
from packaging import metadata
from sampled import sampled

from nsyswrap.api import pytest_plugin
from nsyswrap.base.version import RELEASE

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
NOT_ASKED_FOR = {"_typeshed", "nsyswrap_hook", "pip", "pytest", "triton", "typing_extensions"}
EXTRA = r"(?:nsyswrap|\.)\[([a-z,]+)\]"  # in an install line
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
        if not {"programs", "cures"} & {*path.parts}:  # these ran elsewhere, one of them with jax
            places = (path.parent, ROOT / "tests", ROOT / "tests/support", ROOT)
            own = {entry.stem for place in places for entry in place.iterdir()}
            own |= {entry.stem for entry in (ROOT / "nsyswrap/record/doctor/programs").iterdir()}
            named |= dict.fromkeys(modules_named(path) - own, str(path.relative_to(ROOT)))
    return named


@sampled(
    ("folder", "extras", "one"),
    [
        ("nsyswrap", ["compare", "parquet", "scenarios"], "numpy"),
        ("scenarios", ["scenarios"], "torch"),
        ("tests", ["scenarios", "test"], "hypothesis"),
    ],
    fast=2,
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
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of what is built, with one commit."""
    if not shutil.which("git"):
        pytest.skip("needs git")
    return repository(tmp_path_factory.mktemp("source") / "clone", BUILT_FROM)


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel."""
    return build(source, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def build(folder: Path, into: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into), *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return into


def contents(wheel: zipfile.ZipFile) -> dict[str, list[bytes]]:
    """Return the lines of each file; those of a list of files in order."""
    files = {name: wheel.read(name).splitlines() for name in wheel.namelist()}
    return {name: sorted(lines) if name.endswith("RECORD") else lines for name, lines in files.items()}


def of_wheel(wheel: zipfile.ZipFile, name: str) -> str:
    """Return a file about the wheel itself."""
    [path] = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_the_wheel_has_all_that_is_used(wheel: zipfile.ZipFile, source: Path) -> None:
    names = set(wheel.namelist())
    tracked = {str(path.relative_to(ROOT)) for path in (ROOT / "nsyswrap").rglob("*.py")}
    shipped = {f"nsyswrap/_shipped/scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.py")}
    assert len(shipped) > 1
    assert tracked | shipped | {"nsyswrap/py.typed"} <= names
    version = f"{RELEASE}+{head(source)}"
    assert {name.partition("/")[0] for name in names} == {"nsyswrap", f"nsyswrap-{version}.dist-info"}
    assert [name for name in names if "/." in name] == []


def test_the_wheel_stays_small(wheel: zipfile.ZipFile) -> None:
    assert Path(str(wheel.filename)).stat().st_size < 5_000_000


def test_pytest_finds_the_plugin(wheel: zipfile.ZipFile) -> None:
    entries = of_wheel(wheel, "entry_points.txt")
    assert f"[pytest11]\nnsyswrap = {pytest_plugin.__name__}\n" in f"{entries}\n"


def test_the_metadata_are_valid(wheel: zipfile.ZipFile, source: Path) -> None:
    """As an index checks them."""
    found = metadata.Metadata.from_email(of_wheel(wheel, "METADATA"))  # raises for what is not valid
    assert (found.name, str(found.version)) == ("nsyswrap", f"{RELEASE}+{head(source)}")
    assert (found.license_expression, found.license_files) == ("MIT", ["LICENSE"])
    assert of_wheel(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    assert found.author == "nsyswrap contributors"
    assert found.description_content_type == "text/markdown"
    classifiers = found.classifiers or []
    assert [name for name in classifiers if name not in trove_classifiers.classifiers] == []
    assert {"Typing :: Typed", "Environment :: GPU :: NVIDIA CUDA"} <= set(classifiers)
    pythons = [name.rpartition(" ")[2] for name in classifiers if re.search(r"Python :: 3\.\d", name)]
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    assert found.requires_python == PROJECT["requires-python"]


def test_the_sdist_builds_the_same_wheel(built: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    unpack(next(built.glob("*.tar.gz")), tmp_path)
    again = build(next(tmp_path.iterdir()), tmp_path / "again", "-t", "wheel")
    [path] = again.glob("*.whl")
    assert path.name == Path(str(wheel.filename)).name
    assert contents(zipfile.ZipFile(path)) == contents(wheel)


def pip(*arguments: str | Path) -> None:
    """Install without an index: neither nsyswrap's dependencies nor the build's."""
    quiet = ("--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "-q")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    at = arguments.index("install") + 1
    command += [*map(str, arguments[:at]), *quiet, *map(str, arguments[at:])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def environment_in(folder: Path) -> Path:
    """Make a virtual environment that has the packages of the tests, and return its Python."""
    venv.create(folder)
    [site] = (folder / "lib").glob("python*/site-packages")
    (site / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin/python"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["archive", "shallow", "sdist"])
def test_each_form_is_installed_with_its_version(
    form: str, source: Path, built: Path, tmp_path: Path
) -> None:
    """Into a folder of somebody's repository, which has nothing to do with it."""
    given = tmp_path / form
    if form == "archive":
        archived(source, tmp_path)
    elif form == "shallow":
        git(tmp_path, "clone", "-q", "--depth=1", source.as_uri(), form)
    else:
        [given] = built.glob("*.tar.gz")
    theirs = tmp_path / "theirs/site"
    pip("install", "--target", theirs, given)
    git(theirs, "init", "-q", "..")
    commit(theirs.parent)
    assert version_in(theirs) == f"{RELEASE}+{head(source)}"


@pytest.mark.slow
def test_a_wheel_of_a_changed_clone_and_of_a_copy(source: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(source), "changed")
    (tmp_path / "changed/README.md").write_text("changed")
    copied(tmp_path / "copy", BUILT_FROM)
    for folder, name in ((tmp_path / "changed", f"{head(source)}.dirty"), (tmp_path / "copy", "unknown")):
        [path] = build(folder, folder / "dist", "-t", "wheel").glob("*.whl")
        assert path.name.startswith(f"nsyswrap-{RELEASE}+{name}-py3-")
        assert not (folder / "nsyswrap/base/built_version.txt").exists()


@pytest.mark.slow
def test_an_editable_install_follows_its_checkout(source: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(source), "edited")
    python = environment_in(tmp_path / "venv")
    pip("--python", python, "install", "-e", tmp_path / "edited")

    def version() -> str:
        command = [str(python), "-m", "nsyswrap", "--version"]
        outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd="/", env=outside, capture_output=True, text=True, check=True)
        return done.stdout.rpartition("+")[2].strip()

    assert version() == head(source)
    (tmp_path / "edited/README.md").write_text("changed")
    assert version() == f"{head(source)}.dirty"
    assert version() != (made := commit(tmp_path / "edited"))
    assert version() == made


@pytest.mark.slow
def test_an_installed_wheel_works(built: Path, source: Path, tmp_path: Path) -> None:
    python = environment_in(tmp_path / "venv")
    pip("--python", python, "install", *built.glob("*.whl"))

    def run(*arguments: str) -> str:
        command = [str(python.with_name("nsyswrap")), *arguments]
        outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    [package] = (tmp_path / "venv/lib").glob("python*/site-packages/nsyswrap")
    assert "nsyswrap profile" in run("--help")
    assert run("--version") == f"nsyswrap, version {RELEASE}+{head(source)}\n"
    assert "GPU busy 12 %" in run("report", str(package / "recorded/add2/none"))
    assert "vector_add" in run("scenarios", "list")
    assert (package / "_shipped/kernels/add.cu").is_file()


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


@pytest.mark.slow
def test_the_oldest_python_has_all_that_is_imported() -> None:
    """No machine of these tests has to have that Python; mypy knows its standard library."""
    oldest = PROJECT["requires-python"].removeprefix(">=")
    command = [sys.executable, "-m", "mypy", "--python-version", oldest, "nsyswrap"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.search(r"\(checked \d+ source files\)|no issues found", done.stdout), done.stderr
    assert [line for line in done.stdout.splitlines() if line.endswith(("[attr-defined]", "[syntax]"))] == []


def test_install_lines_name_extras_that_exist() -> None:
    """Pip only warns of an extra that does not exist: what needs it fails later."""
    texts = (path.read_text(encoding="utf-8") for path in map(ROOT.joinpath, _files_with_install_lines()))
    named = {extra for text in texts for many in re.findall(EXTRA, text) for extra in many.split(",")}
    assert {"dev", "parquet"} <= named <= set(EXTRAS)


def _files_with_install_lines() -> list[str]:
    listed = git(
        ROOT, "ls-files", "*.md", "*.toml", "*.yml", ".ci", "tests/run", ".pre-commit-config.yaml", "nsyswrap"
    )
    return [name for name in listed.split() if name.endswith((".md", ".yml", ".py", ".toml", "run"))]
