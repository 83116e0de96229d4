"""NVTX without a package: what a real nsys records of it, and that nothing happens without a tool."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from conftest import Cli

import nsyswrap

HOOK = Path(nsyswrap.__file__).parent / "record" / "in_program" / "hook"
PROGRAM = f"""
import sys
sys.path.insert(0, {str(HOOK)!r})
from nsyswrap_hook import nvtx

steps, modules = nvtx.domain("nsyswrap"), nvtx.domain("nsyswrap.modules")
push, inner, here = modules.pushing("layers.3.\\u00e9"), modules.pushing("inner"), modules.marking("here")
for number in range(3):
    step = steps.start(f"step {{number}}")
    for event, payload in ((push, number), (inner, 2**40), (here, 7)) if steps.recorded else ():
        event[0].payload = payload
        event[1]()
    modules.pop()
    modules.pop()
    steps.end(step)
print(steps.recorded, push is not None)
"""
QUERY = """
SELECT eventType, d.text, coalesce(e.text, s.value), count(*), min(e.end > e.start), max(e.uint64Value)
FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
JOIN (SELECT domainId, text FROM NVTX_EVENTS WHERE eventType = 75) AS d USING (domainId)
WHERE eventType IN (34, 59, 60) GROUP BY 1, 2, 3
"""


def test_nsys_records_domains_and_registered_texts(cli: Cli, nsys: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    # What is freed too early is overwritten at once.
    options = ("--no-stats", "--nsys", nsys, "-o", "run", "--env", "PYTHONMALLOC=debug")
    done = cli("profile", *options, "program.py")
    assert done.stdout.startswith("True True\n")
    with closing(sqlite3.connect(tmp_path / "run" / "report.sqlite")) as db:
        assert db.execute(QUERY).fetchall() == [
            (34, "nsyswrap.modules", "here", 3, None, 7),
            (59, "nsyswrap.modules", "inner", 3, 1, 2**40),
            (59, "nsyswrap.modules", "layers.3.é", 3, 1, 2),
            *((60, "nsyswrap", f"step {number}", 1, 1, None) for number in range(3)),
        ]


def test_without_a_tool_nothing_happens(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == b"False False\n"


def test_a_library_that_is_no_tool_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    variables = {"NVTX_INJECTION64_PATH": str(tmp_path / "missing.so")}
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=True)
    assert done.stdout == b"False False\n"
