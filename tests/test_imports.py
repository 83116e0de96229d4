"""Which package may import which, and that no files import each other in a circle."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from nsyswrap.record.batch import executors

PACKAGE = Path(__file__).resolve().parents[1] / "nsyswrap"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}

# What each package may import besides itself. `record` never meets the packages that read captures.
MAY_IMPORT = {
    "base": set[str](),
    "record": {"base"},
    "capture": {"base"},
    "analysis": {"base", "capture"},
    "reports": {"base", "capture", "analysis"},
    "render": {"base", "capture", "analysis", "reports"},
    "api": {"base", "record", "capture", "analysis", "reports", "render"},
    "cli": {"base", "record", "capture", "analysis", "reports", "render", "api"},
    "": {"base", "record", "reports", "api"},  # the public names, on their first use
    "__main__": {"cli"},
}
# Modules on their way into these packages.
PLACES: dict[str, str] = {}
MOST_AT_ROOT = 10  # modules and packages
CLICK_PRINTS = {"echo", "secho", "echo_via_pager", "clear", "confirm", "prompt", "progressbar"}
STREAM_PRINTS = {"write", "writelines", "buffer"}
STREAMS = {f"sys.{name}" for name in ("stdout", "stderr", "__stdout__", "__stderr__")}
PRINTS = re.compile(r"\b(print|click|Console|sys\s*\.\s*_*std)")
SENTENCE = 4  # words
HEAVY = {"numpy", "pandas", "rich", "torch", "matplotlib", "scipy"}
SLOW = {"json", "pathlib", "shutil", "socket"}  # for --help and one TAB: half as long as click


def layer(module: str) -> str:
    """``nsyswrap.reports.table`` belongs to ``reports``; the package itself is ``""``."""
    name = module.removeprefix("nsyswrap").removeprefix(".")
    part = name.partition(".")[0]
    return PLACES.get(name) or PLACES.get(f"{part}.*") or part


@cache
def imports(path: Path) -> set[str]:
    """Return every module of the package that a file names.

    Imports for types alone and inside functions count, and so do names in strings, as for import_module.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.removesuffix(".")  # the beginning of f"nsyswrap.reports.{name}" too
            found |= {name} if "." in name else set()
    return {name for name in found if name in MODULES}


def breaks_rules(module: str) -> set[tuple[str, str]]:
    own = layer(module)
    return {
        (module, name)
        for name in imports(MODULES[module])
        if layer(name) != own and layer(name) not in MAY_IMPORT[own]
    }


def test_every_module_has_its_place() -> None:
    assert {layer(module) for module in MODULES} == MAY_IMPORT.keys()
    assert len(list(PACKAGE.glob("*.py"))) + len(list(PACKAGE.glob("*/__init__.py"))) <= MOST_AT_ROOT


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_one_way(package: str) -> None:
    modules = [module for module in MODULES if layer(module) == package]
    assert [edge for module in modules for edge in breaks_rules(module)] == []


def test_what_the_program_imports_is_apart() -> None:
    inside = [module for module in MODULES if module.startswith("nsyswrap.record.in_program")]
    named = {name for module in inside for name in imports(MODULES[module])} - set(inside)
    assert {layer(name) for name in named} <= {"base"}


def test_no_report_and_no_section_imports_its_sibling() -> None:
    for folder in ("reports.nsys", "reports.insight", "render.page.sections"):
        prefix = f"nsyswrap.{folder}."
        siblings = {name: path for name, path in MODULES.items() if name.startswith(prefix)}
        edges = {
            (name, other) for name, path in siblings.items() for other in imports(path) & siblings.keys()
        }
        assert {(name, other) for name, other in edges if name != other} == set()


def test_no_imports_in_a_circle() -> None:
    """Take away what imports nothing that is left, again and again: nothing is left then."""
    left = {module: imports(path) - {module} for module, path in MODULES.items()}
    while free := {module for module, named in left.items() if not named & left.keys()}:
        left = {module: named for module, named in left.items() if module not in free}
    assert sorted(left) == []


@pytest.mark.parametrize("name", executors.NAMES)
def test_nothing_imports_an_executor_but_its_own_files(name: str) -> None:
    own = f"nsyswrap.record.batch.executors.{name}"
    users = {module for module, path in MODULES.items() if any(one.startswith(own) for one in imports(path))}
    assert [user for user in users if not user.startswith(own)] == []


def prints(path: Path) -> set[int]:
    """Return the lines of a file that print: by `print`, click, a standard stream or a console of rich."""
    lines: set[int] = set()
    text = path.read_text(encoding="utf-8")
    if not PRINTS.search(text):  # it can do nothing of what follows
        return lines
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            by_click = node.attr in CLICK_PRINTS and ast.unparse(node.value) == "click"
            by_stream = node.attr in STREAM_PRINTS and ast.unparse(node.value) in STREAMS
            lines |= {node.lineno} if by_click or by_stream else set()
        elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            to_terminal = called == "Console" and not any(part.arg == "file" for part in node.keywords)
            printed = called == "print" and isinstance(node.func, ast.Name)
            lines |= {node.lineno} if to_terminal or printed else set()
    return lines


def speaks(path: Path) -> bool:
    """Return True if a module writes quantities for people: with units, or in a sentence with figures.

    The messages of exceptions do not count.
    """
    if "nsyswrap.base.units" in imports(path):
        return True
    tree = ast.parse(path.read_text(encoding="utf-8"))
    raised = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in raised:
            text = " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
            if "SELECT" not in text and len(re.findall("[A-Za-z]{2,}", text)) >= SENTENCE:
                return True
    return False


def test_analysis_makes_no_text() -> None:
    """What a module finds is data, the words are in reports."""
    assert [name for name, path in MODULES.items() if layer(name) == "analysis" and speaks(path)] == []


def test_one_file_prints() -> None:
    """What is printed there goes through a filter. A child process prints its result for us to read."""
    printing = {module for module, path in MODULES.items() if prints(path)}
    children = ("nsyswrap.record.in_program.", "nsyswrap.record.doctor.programs.")
    in_children = {name for name in printing if name.startswith(children)}
    assert printing - in_children == {"nsyswrap.cli.output", "nsyswrap.record.gpus"}


def test_the_imports_are_found() -> None:
    assert imports(PACKAGE / "api" / "runs.py") >= {
        "nsyswrap.capture.redact",  # lazy
        "nsyswrap.record.run",
        "nsyswrap.base.nsys.options",
        "nsyswrap.base.nsys.find",  # for types alone
    }
    assert "nsyswrap.record.run" in imports(PACKAGE / "cli" / "profile.py")  # lazy
    assert "nsyswrap.reports" in imports(PACKAGE / "reports" / "__init__.py")  # as a string


def lazy_imports_of(path: Path) -> set[str]:
    """The names of ours that a file imports in its lazy blocks."""
    blocks = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.With))
    return {
        f"{node.module}.{name.name}"
        for block in blocks
        if ast.unparse(block.items[0].context_expr) == "lazy_imports()"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nsyswrap")
        for name in node.names
    }


def test_what_is_imported_lazily_is_a_module() -> None:
    """A function that is imported so cannot be called."""
    lazy = {path: lazy_imports_of(path) for path in MODULES.values()}
    assert "nsyswrap.record.run" in lazy[PACKAGE / "api" / "runs.py"]
    assert {path: wrong for path, names in lazy.items() if (wrong := names - MODULES.keys())} == {}


def test_the_launcher_and_the_device_query_import_nothing_of_ours() -> None:
    assert imports(PACKAGE / "record" / "exec_program.py") == set()
    assert imports(PACKAGE / "record" / "gpus.py") == set()


def loaded_by(code: str, folder: Path = PACKAGE.parent) -> set[str]:
    """The top-level packages that a new Python holds after running ``code`` in a folder."""
    return {name.partition(".")[0] for name in modules_loaded_by(code, folder)}


def modules_loaded_by(code: str, folder: Path = PACKAGE.parent) -> set[str]:
    wrapped = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", wrapped]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        "import nsyswrap; dir(nsyswrap)",
        "import nsyswrap.cli; nsyswrap.cli.main(['--help'])",
        "import nsyswrap.cli; nsyswrap.cli.main(['profile', '--help'])",
        "import nsyswrap.record.run, nsyswrap.record.program",  # before a program runs
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    loaded = loaded_by(code)
    assert "nsyswrap" in loaded
    assert loaded & HEAVY == set()


def test_scipy_is_loaded_by_a_comparison_of_several_runs_alone() -> None:
    capture = str(PACKAGE / "recorded" / "add2" / "both")
    for command in (["report", capture], ["report", "-r", "all", capture], ["compare", "--help"]):
        assert "scipy" not in loaded_by(f"import nsyswrap.cli; nsyswrap.cli.main({command!r})")
    users = [name for name, path in MODULES.items() if "scipy" in path.read_text(encoding="utf-8")]
    assert users == ["nsyswrap.analysis.compare.judgement"]


@pytest.mark.parametrize("way", ["both", "none"])
def test_the_screen_of_a_small_capture_loads_nothing_that_only_other_captures_need(way: str) -> None:
    capture = PACKAGE / "recorded" / "add2" / way
    loaded = modules_loaded_by(f"import nsyswrap.cli; nsyswrap.cli.main(['report', {str(capture)!r}])")
    assert "nsyswrap.reports.summary" in loaded
    rare = {"hashlib", "subprocess", "pandas", "numpy.ma", "numpy.random"}
    cure = "load it where it is used; np.unique and np.quantile load numpy.ma: take those of arrays.groups"
    rare -= modules_loaded_by("import numpy")  # subprocess, by NumPy 2.2
    assert loaded & {*rare, "nsyswrap.capture.redact", "nsyswrap.analysis.ranks.job"} == set(), cure


def test_collect_loads_no_pandas_where_it_writes_parquet(tmp_path: Path) -> None:
    command = ["collect", str(PACKAGE / "recorded" / "add2" / "both"), "-o", str(tmp_path / "out")]
    loaded = modules_loaded_by(f"import nsyswrap.cli; nsyswrap.cli.main({command!r})")
    assert "pyarrow.parquet" in loaded
    assert "pandas" not in loaded


def test_completion_of_an_option_reads_no_json() -> None:
    code = "import os; os.environ |= {'_NSYSWRAP_COMPLETE': 'bash_complete', 'COMP_CWORD': '2', "
    code += "'COMP_WORDS': 'nsyswrap report --rea'}; import nsyswrap.cli; nsyswrap.cli.main([])"
    loaded = loaded_by(code)
    assert "nsyswrap" in loaded
    assert not loaded & SLOW


@pytest.mark.parametrize("program", ["nsyswrap/__main__.py", "bin/nsyswrap"])
def test_help_loads_little_besides_click(tmp_path: Path, program: str) -> None:
    """A completion of a command takes the same way."""
    started = tmp_path / program
    started.parent.mkdir()
    started.touch(0o755)
    by_click = loaded_by("import click; click.HelpFormatter(width=80)")
    code = f"import os; os.environ['PATH'], sys.argv[0] = {str(started.parent)!r}, {str(started)!r}; "
    loaded = loaded_by(f"{code}import nsyswrap.cli; nsyswrap.cli.main(['--help'])")
    assert "nsyswrap" in loaded
    assert (loaded - by_click) & SLOW == set()
