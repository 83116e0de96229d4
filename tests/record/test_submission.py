"""What a plan submits: a job array for each set of equal options, and the scripts with these options."""

from pathlib import Path
from typing import Any

import pytest

from nsyswrap.base.errors import PlanError, Unavailable
from nsyswrap.record.batch.executors import BatchRequest, Blocks
from nsyswrap.record.batch.executors.slurm import commands, digest_jobs
from nsyswrap.record.batch.executors.slurm.submission import planned_jobs, write_scripts
from nsyswrap.record.batch.folder import Pause, make_batch
from nsyswrap.record.batch.plan import read_plan

SCALING = """
name = "scaling"
repeat = 2
[slurm]
partition = "gpu"
time = "00:15:00"
comment = "project 7"
[[runs]]
command = "train.py --batch {batch} --gpus {gpus}"
launcher = "srun"
ntasks = "{gpus}"
grid = { n = [1, 2], gpus = [2, 4], batch = [32, 64, 128] }
[runs.slurm]
nodes = "{n}"
gres = "gpu:{gpus}"
t = "00:{batch}"
[[runs]]
command = "prepare.py"
"""


def options_of_arrays(folder: Path, text: str, array_size: int = 1001) -> list[tuple[int, set[str]]]:
    """Return of each array the number of its runs, and the options in its script that a plan sets."""
    (folder / "plan.toml").write_text(text)
    plan = read_plan(folder / "plan.toml")
    batch = make_batch(folder / "batch", plan)
    (batch.folder / "slurm").mkdir()
    request = BatchRequest(batch, plan, {"max_running": None})
    jobs = planned_jobs(request, list(batch.runs), array_size)
    write_scripts(request, jobs)
    assert sorted(number for part in jobs.left for number in part.numbers) == list(batch.runs)
    assert len({part.script for part in jobs.left}) == len(jobs.left)
    ours = ("--job-name", "--open-mode", "--requeue", "--signal")
    found = []
    for part in jobs.left:
        lines = (batch.folder / "slurm" / part.script).read_text().splitlines()
        options = {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")}
        found.append((len(part.numbers), {one for one in options if not one.startswith(ours)}))
    return found


def test_a_scaling_study_is_an_array_for_each_set_of_options(tmp_path: Path) -> None:
    common = {"--partition=gpu", '--comment="project 7"'}
    study = SCALING.replace('t = "00:{batch}"\n', "")
    of_plan = {*common, "--time=00:15:00"}
    assert options_of_arrays(tmp_path, study) == [
        *(
            (3 * 2, {*of_plan, f"--nodes={n}", f"--gres=gpu:{gpus}", f"--ntasks={gpus}"})
            for n in (1, 2)
            for gpus in (2, 4)
        ),
        (2, of_plan),
    ]


def test_each_further_option_with_a_parameter_makes_more_arrays(tmp_path: Path) -> None:
    """The short name of an option replaces the long one of the plan."""
    arrays = options_of_arrays(tmp_path, SCALING)
    assert [runs for runs, _ in arrays] == [2] * 12 + [2]
    times = [[one for one in options if one.startswith(("-t", "--time"))] for _, options in arrays]
    assert times == [[f"-t 00:{batch}"] for batch in (32, 64, 128)] * 4 + [["--time=00:15:00"]]


def test_an_array_of_equal_options_is_no_larger_than_slurm_allows(tmp_path: Path) -> None:
    arrays = options_of_arrays(
        tmp_path, '[[runs]]\ncommand = "a.py {n}"\n[runs.grid]\nn = [1, 2, 3, 4, 5]\n', 3
    )
    assert [runs for runs, _ in arrays] == [2, 3]


@pytest.mark.parametrize("line", ['nodes = "{nn}"', 'nodes = "{other}"', 'comment = "{gpu}"'])
def test_a_setting_of_slurm_takes_parameters_alone(tmp_path: Path, line: str) -> None:
    (tmp_path / "plan.toml").write_text(SCALING.replace('nodes = "{n}"', line))
    with pytest.raises(PlanError, match="no parameter named") as caught:
        read_plan(tmp_path / "plan.toml")
    assert caught.value.exit_code == 78


SLURM = "nsyswrap.record.batch.executors.slurm"


def job(state: str) -> commands.QueuedJob:
    return commands.QueuedJob("17", (), state, "None", "")


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What squeue says, call by call; the last stays. The folder's job is 17."""
    answers: list[Any] = []

    def jobs() -> list[commands.QueuedJob]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [job(state) for state in answer]

    (tmp_path / "job").write_text("17")
    monkeypatch.setattr(f"{SLURM}.commands.jobs", jobs)
    monkeypatch.setattr(Pause, "seconds", lambda _pause: 0)
    monkeypatch.setattr(f"{SLURM}.digest_jobs._submit", lambda _blocks: "18")
    return answers


def run(folder: Path) -> tuple[str, list[str]]:
    said: list[str] = []
    return digest_jobs.run(Blocks(folder, (), 1, None, {}), said.append), said


def test_a_job_goes_on_where_slurm_does_not_answer_once(queue: list[Any], tmp_path: Path) -> None:
    queue += [["RUNNING"], ["RUNNING"], Unavailable("squeue did not answer"), ["RUNNING"], []]
    name, said = run(tmp_path)
    assert name == ""  # an earlier job: nothing was submitted
    assert "job 17: squeue did not answer; waiting for Slurm" in said


def test_a_job_that_only_clears_up_is_not_waited_for(queue: list[Any], tmp_path: Path) -> None:
    queue += [["COMPLETING"]]
    assert run(tmp_path)[0] == "job 18"
