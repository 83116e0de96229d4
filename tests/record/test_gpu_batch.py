"""A batch of a real CUDA program, on one GPU and on two at once."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nsyswrap import open_capture
from nsyswrap.base.run_folder import PROGRAM_OUTPUT
from nsyswrap.record import gpus
from nsyswrap.record.batch.folder import open_batch

if TYPE_CHECKING:
    from conftest import Cli

    from nsyswrap.api import Capture

DEVICES = gpus.query()
ADD = Path(__file__).resolve().parents[2] / "kernels" / "add.cu"
WHICH = """
import torch
torch.ones(1 << 20, device="cuda").sum().item()
print(torch.cuda.get_device_properties(0).uuid)
"""

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.nsys,
    pytest.mark.skipif(bool(DEVICES.error), reason=f"needs a GPU: {DEVICES.error}"),
]


def captures(folder: Path) -> list[Capture]:
    return [open_capture(state.folder) for state in open_batch(folder).survey().values()]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_of_a_sweep_is_that_of_its_captures(cli: Cli, tmp_path: Path) -> None:
    variants = "-p", "v=1x1,1x256,grid"
    done = cli("batch", "sweep", "--repeat", "3", "-o", "b", *variants, "--", ADD, "{v}")
    assert done.returncode == 0, done.stderr
    assert "best v=grid" in done.stdout
    assert "worst v=1x1" in done.stdout
    found = rows(tmp_path / "b/results.csv")
    assert len(found) == 9
    for row, capture in zip(found, captures(tmp_path / "b"), strict=True):
        frame = capture.report("cuda_gpu_kern_sum").frame
        assert int(row["kernel_ns"]) == int(frame["total_ns"].sum())
        assert int(row["kernels"]) == 1
    for row in rows(tmp_path / "b/kernels.csv"):
        own = sorted(int(one["kernel_ns"]) for one in found if one["v"] == row["v"])
        assert float(row["med_ns"]) == own[1]
        assert (int(row["min_ns"]), int(row["max_ns"])) == (own[0], own[2])


@pytest.mark.skipif(len(DEVICES.names) < 2, reason=f"needs two GPUs, and there is {len(DEVICES.names)}")
def test_each_gpu_gets_its_share(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "which.py").write_text(WHICH)
    done = cli("batch", "sweep", "--repeat", "4", "--gpus", "0,1", "-o", "b", "--", "which.py")
    assert done.returncode == 0, done.stderr
    states = open_batch(tmp_path / "b").survey().values()
    said = {(state.folder / PROGRAM_OUTPUT).read_text() for state in states}
    assert len(said) == 2  # as many GPUs by their ids
    assert all(capture.count("kernel") for capture in captures(tmp_path / "b"))
