"""scenarios/ddp.py with real ranks on the CPU: gloo in place of NCCL, and no GPU."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT
from scenario_scripts import SCENARIOS, load, torch_on_cpu

from nsyswrap.base.errors import ScenarioFailed, Unavailable

SMALL = {"ranks": 2, "width": 16, "warmup": 1, "iterations": 3}
FOREVER = "100000000"
DEADLINE_S = 180
ONE_CORE = {"OMP_NUM_THREADS": "1"}  # of each rank: they share those of this machine

# One rank of straggler that notes when its extra work and when each step was done, by a clock that all
# processes share. The extra work is a fake, and much longer than a step.
STAMPS = """
import gc, json, sys, time
from argparse import Namespace
from contextlib import nullcontext
from scenario_scripts import load
import torch

ddp = load("ddp")
options = Namespace(**json.loads(sys.argv[1]), variant="straggler")
worked, stepped = [], []

def lag(_torch, _matrix):
    time.sleep(0.05)
    worked.append(time.monotonic())

ddp.lag = lag
store = torch.distributed.FileStore(sys.argv[2], options.ranks)
torch.distributed.init_process_group("gloo", store=store, rank=options.rank, world_size=options.ranks)
place = ddp.Place("cpu", lambda: stepped.append(time.monotonic()), nullcontext)
ddp.train(torch, place, options)
print(json.dumps({"worked": worked, "stepped": stepped}), flush=True)
gc.collect()  # as in the script: the network keeps the group alive, whose threads would outlive Python
torch.distributed.destroy_process_group()
"""

pytestmark = pytest.mark.usefixtures("torch")


@pytest.fixture
def ddp() -> ModuleType:
    return load("ddp")


@pytest.fixture
def command(environment: dict[str, str], tmp_path: Path) -> dict[str, Any]:
    """How the script is started: in a folder for its temporary files alone."""
    return {
        "env": {**environment, **ONE_CORE, "TMPDIR": str(tmp_path)},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


def argv(*arguments: str, **counts: int) -> list[str]:
    given = [f"--{name}={count}" for name, count in {**SMALL, **counts}.items()]
    return [sys.executable, str(SCENARIOS / "ddp.py"), "--backend", "gloo", *given, *arguments]


# Real ranks


def test_every_rank_is_timed(command: dict[str, Any], tmp_path: Path) -> None:
    asked = argv("--ranks", "3", "--variant", "straggler")
    done = subprocess.run(asked, **command, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    result = json.loads(line)
    assert {name: result[name] for name in SMALL} == {**SMALL, "ranks": 3}
    assert [timing["range"] for timing in result["timings"]] == [
        f"straggler/rank {rank}" for rank in range(3)
    ]
    for rank, timing in enumerate(result["timings"]):
        assert (timing["variant"], timing["operator"]) == ("straggler", f"rank {rank}")
        assert (timing["launches"], len(timing["samples_us"])) == (4, 3)
    assert list(tmp_path.glob("nsyswrap-*")) == []


@pytest.fixture
def stamps(tmp_path: Path, environment: dict[str, str]) -> list[dict[str, list[float]]]:
    """What STAMPS prints, of each of two ranks."""
    path = os.pathsep.join((environment["PYTHONPATH"], str(ROOT / "tests" / "support")))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", STAMPS, json.dumps({**SMALL, "rank": rank}), str(tmp_path / "store")],
            env={**environment, **ONE_CORE, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    return [json.loads(rank.communicate(timeout=DEADLINE_S)[0]) for rank in ranks]


def test_the_others_wait_for_the_straggler(stamps: list[dict[str, list[float]]]) -> None:
    fast, slow = stamps
    assert fast["worked"] == []
    timed = SMALL["iterations"]
    assert len(slow["worked"]) == 1 + SMALL["warmup"] + timed  # the step that is checked comes first
    for finished, ready in zip(fast["stepped"][-timed:], slow["worked"][-timed:], strict=True):
        assert finished > ready


@pytest.mark.parametrize(
    ("variant", "late"), [("even", [False, False, False]), ("straggler", [False, False, True])]
)
def test_only_the_last_rank_is_late_and_only_in_straggler(
    ddp: ModuleType,
    torch: Any,  # noqa: ANN401 - torch is not installed for the type checker
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
    late: list[bool],
) -> None:
    extra: list[int] = []
    monkeypatch.setattr(ddp, "lag", lambda _torch, matrix: extra.append(len(matrix)))
    place = ddp.Place("cpu", lambda: None, nullcontext)
    for rank in range(3):
        given = options(ranks=3, variant=variant, rank=rank)
        extra.clear()
        ddp.make_step(torch, place, ddp.make_network(torch, 16), given)()
        assert extra == ([16 * 16] if late[rank] else [])


# Ranks that fail


def ranks_of(parent: subprocess.Popen[str], count: int) -> list[int]:
    """Wait until the ranks of a running script are connected; return their process ids."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    deadline = time.monotonic() + DEADLINE_S
    while parent.poll() is None and time.monotonic() < deadline:
        found = [int(child) for child in children.read_text().split()]
        if len(found) == count and all(map(connected, found)):
            return found
        time.sleep(0.05)
    raise AssertionError("the ranks did not start")


def connected(process: int) -> bool:
    try:
        links = [link.readlink() for link in Path(f"/proc/{process}/fd").iterdir()]
    except OSError:  # something was closed meanwhile
        return False
    return any(link.name.startswith("socket:") for link in links)


def gone(process: int) -> bool:
    """Wait for the end of a process that is not a child of this one; a zombie has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            if "(zombie)" in Path(f"/proc/{process}/status").read_text():
                return True
        except OSError:  # there is no such process
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def running(command: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """The script, with ranks that train for longer than any test."""
    asked = argv("--variant", "even", "--iterations", FOREVER)
    with subprocess.Popen(asked, **command) as parent:
        yield parent
        parent.kill()


def test_a_rank_that_dies_ends_the_others(running: subprocess.Popen[str], tmp_path: Path) -> None:
    ranks = ranks_of(running, 2)
    os.kill(ranks[1], signal.SIGKILL)
    out, err = running.communicate(timeout=DEADLINE_S)
    assert (running.returncode, out) == (1, "")
    assert re.search(r"^ddp: (rank 0 failed: .*; )?rank 1 was killed by SIGKILL$", err, re.MULTILINE)
    assert all(map(gone, ranks))
    assert not list(tmp_path.glob("nsyswrap-*"))


def test_no_rank_outlives_the_script(running: subprocess.Popen[str]) -> None:
    """SIGKILL leaves it no time; it heeds no other signal in a way of its own."""
    ranks = ranks_of(running, 2)
    running.kill()
    assert running.wait(DEADLINE_S) != 0
    assert all(map(gone, ranks))


def test_what_goes_wrong_in_a_rank_is_told_in_one_line(command: dict[str, Any]) -> None:
    done = subprocess.run(argv(width=1 << 32), **command, check=False, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"ddp: rank \d failed: .*overflow.*\n", done.stderr)


@pytest.mark.parametrize(
    ("code", "told"),
    [("_exit(7)", "rank 1 ended with exit code 7"), ("abort()", "rank 1 was killed by SIGABRT")],
)
def test_the_end_of_a_rank_that_says_nothing_is_told(
    ddp: ModuleType, tmp_path: Path, code: str, told: str
) -> None:
    lasting = subprocess.Popen(["sleep", f"{DEADLINE_S}"])
    failing = subprocess.Popen([sys.executable, "-c", f"import os; os.{code}"])
    with lasting, failing, pytest.raises(ScenarioFailed, match=f"^{told}$"):
        ddp.await_ranks([lasting, failing], tmp_path)
    assert lasting.returncode == -signal.SIGKILL


# What is wrong, and what is missing


def options(**given: object) -> Namespace:
    return Namespace(**{**SMALL, "variants": None, "backend": "nccl", **given})


def test_more_ranks_than_gpus_are_told_how_many_there_are(
    ddp: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = torch_on_cpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(Unavailable, match=r"^3 ranks need as many GPUs; PyTorch found 2$") as missing:
        ddp.measure(options(ranks=3))
    assert missing.value.exit_code == 69


def test_one_rank_is_not_enough() -> None:
    done = subprocess.run(argv(ranks=1), capture_output=True, text=True, check=False)
    assert (done.returncode, "--ranks: must be at least 2" in done.stderr) == (2, True)


def test_the_options_of_tests_and_ranks_are_not_shown(ddp: ModuleType) -> None:
    done = subprocess.run(
        [sys.executable, str(SCENARIOS / "ddp.py"), "--help"], capture_output=True, text=True, check=True
    )
    usage = done.stdout.partition("\n\n")[0]
    assert set(re.findall(r"--\w+", usage)) == {"--variant", *(f"--{name}" for name in ddp.COUNTS)}


@pytest.fixture
def written(ddp: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each rank leaves as its result. The ranks are fakes: they do not train."""
    result: dict[str, Any] = {"parameters": ["first", "last"], "platform": {"device": "GPU"}}

    def start_rank(_options: Namespace, variant: str, rank: int, folder: Path) -> subprocess.Popen[bytes]:
        own = {"timing": f"{variant} {rank}", **result, **result.get(f"rank {rank}", {})}
        (folder / f"rank-{rank}.json").write_text(json.dumps(own))
        return subprocess.Popen(["true"])

    monkeypatch.setattr(ddp, "start_rank", start_rank)
    return result


def test_the_result_has_all_ranks_of_all_variants(ddp: ModuleType, written: dict[str, Any]) -> None:
    timings = ["even 0", "even 1", "straggler 0", "straggler 1"]
    assert ddp.measure(options(backend="gloo")) == {**SMALL, **written["platform"], "timings": timings}


@pytest.mark.parametrize("digests", [["other", "last"], ["first", "other"]])
def test_ranks_that_disagree_are_wrong(ddp: ModuleType, written: dict[str, Any], digests: list[str]) -> None:
    written["rank 1"] = {"parameters": digests}
    with pytest.raises(AssertionError, match="the parameters of rank 1 differ from those of rank 0"):
        ddp.measure(options(backend="gloo"))


def test_parameters_unlike_a_single_process_s_are_wrong(
    ddp: ModuleType,
    torch: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fake: a rank that never hears of the others' gradients."""
    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", lambda network, **_: network)
    place = ddp.Place("cpu", lambda: None, nullcontext)
    with pytest.raises(AssertionError, match="not close"):
        ddp.train(torch, place, options(variant="even", rank=0))


def test_the_reference_is_a_step_on_the_data_of_all_ranks(ddp: ModuleType, torch: Any) -> None:  # noqa: ANN401
    network = ddp.make_network(torch, 16).double()
    inputs, gradients = zip(*(ddp.make_data(torch, rank, 16) for rank in range(3)), strict=True)
    network(torch.cat(inputs).double()).backward(torch.cat(gradients).double() / 3)
    for parameter, expected in zip(network.parameters(), ddp.expected_parameters(torch, 3, 16), strict=True):
        torch.testing.assert_close(parameter - ddp.LEARNING_RATE * parameter.grad, expected)


def test_equal_parameters_have_equal_digests(ddp: ModuleType, torch: Any) -> None:  # noqa: ANN401
    assert ddp.digest([torch.ones(3)]) == ddp.digest([torch.ones(3)])
    assert ddp.digest([torch.ones(3)]) != ddp.digest([torch.ones(3) + 1e-7])
