"""``profile --steps`` on a GPU: every kernel of these steps is recorded, and none of a neighboring step."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Cli
from gpus_here import needs_gpu

from nsyswrap.base.run_folder import EXPORT

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    needs_gpu,
]
# Step N launches N + 1 long kernels, which the host does not wait for.
TRAIN = """
import torch
model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.Adam(model.parameters())
def forward(number):
    for _ in range(number + 1):
        torch.cuda._sleep(2_000_000)
    return model(torch.ones(64, device="cuda")).sum()
for number in range(9):
    forward(number).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SPIN = """
SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName WHERE value LIKE '%spin%'
"""


@pytest.mark.parametrize("end", [(), ("--then-stop",)])
@pytest.mark.usefixtures("nsys", "torch")
def test_the_kernels_of_these_steps_alone(tmp_path: Path, cli: Cli, end: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = cli("profile", "--no-stats", "-o", "run", "--steps", "4-6", *end, "train.py")
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(tmp_path / "run" / EXPORT)) as db:
        assert db.execute(SPIN).fetchone() == (5 + 6 + 7,)
    budget = cli("report", "run", "-r", "step_budget", "--format", "csv").stdout
    steps = [line.split(",")[1] for line in budget.splitlines() if line.startswith("step,")]
    assert steps == ["4", "5", "6"]
