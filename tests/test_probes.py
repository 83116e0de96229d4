"""No file looks at a path by itself: each such look can raise in a folder of another user."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "nsyswrap"
LOOKS = {
    *(
        "exists",
        "is_file",
        "is_dir",
        "is_symlink",
        "is_fifo",
        "is_socket",
        "is_block_device",
        "is_char_device",
    ),
    *(
        "stat",
        "lstat",
        "samefile",
        "resolve",
        "readlink",
        "owner",
        "iterdir",
        "glob",
        "rglob",
        "walk",
        "scandir",
    ),
    *("listdir", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime"),
}
NAMED = re.compile(rf"\b({'|'.join(sorted(LOOKS))})\b")
HOME = "base/paths.py"
APART = "record/in_program/hook/"  # runs in Pythons that lack nsyswrap, and catches every error
# Calls that cannot raise, or whose errors their file catches: the reason stands beside it.
ALLOWED = {
    ("cli/output.py", "os.path.samefile"): "suppresses OSError",
    ("cli/output.py", "os.path.isfile"): "does not raise",
    ("base/files.py", "os.lstat"): "compares a descriptor, and catches OSError",
    ("base/files.py", "os.stat"): "compares a descriptor, and catches OSError",
    ("record/gpu_users.py", "os.stat"): "of /proc, thousands a second, and catches OSError",
    ("record/gpu_users.py", "proc.stat"): "not of a path",
    ("record/conditions/observer.py", "proc.stat"): "not of a path",
    ("record/session.py", "proc.stat"): "not of a path",
    ("record/in_program/call_function.py", "Path(module.__file__).samefile"): "a script of its own",
    ("record/proc.py", "os.listdir"): "of /proc, thousands a second, and catches OSError",
    ("record/proc.py", "os.readlink"): "the same",
    ("reports/runs/find.py", "os.walk"): "tells the folders that cannot be entered",
    ("cli/redact.py", "os.walk"): "the same",
    ("base/settings.py", "os.path.lexists"): "does not raise",
    ("base/version.py", "os.path.lexists"): "does not raise, and loads nothing",
    ("base/version.py", "pathlib.Path(__file__).resolve"): "of this package",
    ("reports/runs/find.py", "os.path.islink"): "does not raise",
}
STAND_ALONE = {"record/guard.py", "record/exec_program.py"}  # scripts that import nothing of ours


def looks(path: Path) -> set[str]:
    """Return the calls in a file that look at a path: ``target.exists``."""
    text = path.read_text(encoding="utf-8")
    if not NAMED.search(text):  # parsing takes longer
        return set()
    nodes = ast.walk(ast.parse(text))
    calls = [node for node in nodes if isinstance(node, ast.Call) and is_look(node)]
    return {text for call in calls if not (text := ast.unparse(call.func)).startswith("paths.")}


def is_look(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name in LOOKS and not (name == "resolve" and call.args)  # a function of ours has that name


def test_paths_are_looked_at_in_one_place() -> None:
    files = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    own = {
        name: path
        for name, path in files.items()
        if name not in (HOME, *STAND_ALONE) and not name.startswith(APART)
    }
    found = {(name, text) for name, path in own.items() for text in looks(path)}
    assert found == ALLOWED.keys()


def test_looks_are_found(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text("if (folder / name).exists() or os.path.isfile(x) or paths.exists(y): x.stat()")
    assert looks(code) == {"(folder / name).exists", "os.path.isfile", "x.stat"}
