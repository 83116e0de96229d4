"""Workers of a program under a real nsys, with NVTX alone: the screen says what each process does."""

import re
from pathlib import Path

import pytest
from conftest import Cli

PROGRAM = r"""
import multiprocessing, sys
import nvtx

def work(tasks):
    for task in iter(tasks.get, None):
        with nvtx.annotate("work"):
            sum(range(100_000))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queues = [context.Queue(), context.Queue()]  # one for each: of one, a single worker may take all
    workers = [context.Process(target=work, args=(tasks,)) for tasks in queues]
    for worker in workers:
        worker.start()
    with nvtx.annotate("hand out"):
        for tasks in queues:
            for task in [*range(20), None]:
                tasks.put(task)
        for worker in workers:
            worker.join()
"""


@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize(("method", "options"), [("spawn", ()), ("fork", ("--follow-forks",))])
def test_workers_of_a_parent_that_coordinates(
    tmp_path: Path, cli: Cli, method: str, options: tuple[str, ...]
) -> None:
    pytest.importorskip("nvtx", reason="needs the package nvtx before 0.2.12")
    (tmp_path / "pool.py").write_text(PROGRAM)
    done = cli("profile", "--no-stats", "--trace", "nvtx", *options, "-o", "run", "--", "pool.py", method)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Process \d+( \(\S+\))?: hand out ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^Processes \d+, \d+( \(\S+\))?: work ", done.stdout, re.MULTILINE), done.stdout
