"""CONTRIBUTING.md stays true: the files and folders that it names exist."""

import re
from pathlib import Path

import pytest
from test_imports import MAY_IMPORT

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NEW = "NAME"  # stands for a file that somebody is to add
MAP = re.compile(r"^\| \d \| (.+?) \|", re.MULTILINE)  # the column of paths, which count from nsyswrap/


def paths() -> list[str]:
    """Return all words in backticks that have a slash and else only what paths are made of."""
    words = [word for part in re.findall(r"`([^`\n]+)`", MAP.sub("", TEXT)) for word in part.split()]
    return sorted({word for word in words if "/" in word and re.fullmatch(r"[\w.*/-]+", word)})


def test_the_paths_are_found() -> None:
    assert {
        "tests/run",
        "nsyswrap/record/batch/executors/local.py",
        "nsyswrap/reports/insight/NAME.py",
    } <= set(paths())


@pytest.mark.parametrize("path", paths())
def test_a_path_exists(path: str) -> None:
    if NEW in path:
        assert (ROOT / path).parent.is_dir()
        assert not (ROOT / path).exists()
    else:
        beginnings = (ROOT, ROOT / "nsyswrap", ROOT / "nsyswrap" / "reports")
        assert any(list(folder.glob(path.rstrip("/"))) for folder in beginnings)


def test_the_map_is_that_of_the_import_test() -> None:
    rooms = {
        name.rstrip("/").removesuffix(".py")
        for row in MAP.findall(TEXT)
        for name in re.findall("`(.+?)`", row)
    }
    assert rooms == MAY_IMPORT.keys() - {"", "__main__"}


def test_the_readme_names_it() -> None:
    assert "(CONTRIBUTING.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
