"""A batch of a real CUDA program, on one GPU and on two at once."""

from pathlib import Path

import pytest
from batch_folders import rows_of
from conftest import Cli
from gpus_here import DEVICES, ON_A_GPU

from nsyswrap import open_capture
from nsyswrap.api import CaptureReader
from nsyswrap.base.run_folder import PROGRAM_OUTPUT
from nsyswrap.record.batch.folder import open_batch

ADD = Path(__file__).resolve().parents[2] / "kernels" / "add.cu"
WHICH = """
import torch
torch.ones(1 << 20, device="cuda").sum().item()
print(torch.cuda.get_device_properties(0).uuid)
"""

DDP = """
import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(512, 512).cuda(), device_ids=[rank])
for _ in range(3):
    model(torch.ones(64, 512, device="cuda")).sum().backward()
torch.cuda.synchronize()
dist.destroy_process_group()
"""
DDP_PLAN = """
[[runs]]
command = "ddp.py"
launcher = "torchrun"
ntasks = 2
gpus = 2
"""

needs_two = pytest.mark.skipif(
    len(DEVICES.names) < 2, reason=f"needs two GPUs, and there is {len(DEVICES.names)}"
)
pytestmark = ON_A_GPU


def captures(folder: Path) -> list[CaptureReader]:
    return [open_capture(state.folder) for state in open_batch(folder).survey().values()]


def test_the_table_of_a_sweep_is_that_of_its_captures(cli: Cli, tmp_path: Path) -> None:
    variants = "-p", "v=1x1,1x256,grid"
    done = cli("batch", "sweep", "--repeat", "3", "-o", "b", *variants, "--", ADD, "{v}")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "fastest 'v=grid'" in said
    assert "slowest 'v=1x1'" in said
    found = rows_of(tmp_path / "b/results.csv")
    assert len(found) == 9
    for row, capture in zip(found, captures(tmp_path / "b"), strict=True):
        frame = capture.report("cuda_gpu_kern_sum").frame
        assert int(row["kernel_ns"]) == int(frame["total_ns"].sum())
        assert int(row["kernels"]) == 1
    for row in rows_of(tmp_path / "b/kernels.csv"):
        own = sorted(int(one["kernel_ns"]) for one in found if one["v"] == row["v"])
        assert float(row["med_ns"]) == own[1]
        assert (int(row["min_ns"]), int(row["max_ns"])) == (own[0], own[2])


@needs_two
def test_each_gpu_gets_its_share(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "which.py").write_text(WHICH)
    done = cli("batch", "sweep", "--repeat", "4", "--gpus", "0,1", "-o", "b", "--", "which.py")
    assert done.returncode == 0, done.stderr
    states = open_batch(tmp_path / "b").survey().values()
    said = {(state.folder / PROGRAM_OUTPUT).read_text() for state in states}
    assert len(said) == 2  # as many GPUs by their ids
    assert all(capture.count("kernel") for capture in captures(tmp_path / "b"))


@needs_two
def test_two_ranks_of_a_run_have_both_gpus(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ddp.py").write_text(DDP)
    (tmp_path / "plan.toml").write_text(DDP_PLAN)
    done = cli("batch", "run", "plan.toml", "--gpus", "0,1", "-o", "b")
    assert done.returncode == 0, done.stderr
    found = rows_of(tmp_path / "b/results.csv")
    assert [(row["rank"], row["world_size"], row["outcome"]) for row in found] == [
        ("0", "2", "done"),
        ("1", "2", "done"),
    ]
    assert len({row["gpu_uuids"] for row in found} - {""}) in (0, 2)  # missing before nsys 2025.1
    assert all(int(row["collectives"]) for row in found)
    assert len({row["rank_verdict"] for row in found} - {""}) == 1
