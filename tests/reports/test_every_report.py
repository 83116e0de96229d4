"""Each report has a test file of its name, in the folder of its layer."""

from pathlib import Path

import pytest

from nsyswrap import reports
from nsyswrap.reports import ranks

HERE = Path(__file__).parent
FOLDERS = {"parity": "nsys", "analysis": "insight"}
FILES = {
    **{name: f"{FOLDERS[reports.find_report(name).layer]}/test_{name}.py" for name in reports.NAMES},
    **{name: f"ranks/test_{name}.py" for name in ranks.NAMES},
}


@pytest.mark.parametrize("name", FILES)
def test_a_report_has_a_test_file_of_its_name(name: str) -> None:
    assert "\ndef test_" in (HERE / FILES[name]).read_text(encoding="utf-8")


def test_each_file_is_about_a_report() -> None:
    folders = (*FOLDERS.values(), "ranks")
    found = {
        f"{path.parent.name}/{path.name}" for name in folders for path in (HERE / name).glob("test_*.py")
    }
    assert found == set(FILES.values())
