"""What a plan submits: a job array for each set of equal options, and the scripts with these options."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.base.errors import PlanError, Unavailable
from nsyswrap.base.run_folder import RUNS, STATUS, RunFolder, Status
from nsyswrap.record.batch.executors import BatchRequest, Blocks
from nsyswrap.record.batch.executors.slurm import commands, submission
from nsyswrap.record.batch.executors.slurm.commands import as_text, indexes
from nsyswrap.record.batch.executors.slurm.groups import SubmissionGroup
from nsyswrap.record.batch.executors.slurm.script import collect_script, job_script, seconds
from nsyswrap.record.batch.executors.slurm.submission import planned_jobs, write_scripts
from nsyswrap.record.batch.folder import Batch, Pause, folder_name, make_batch
from nsyswrap.record.batch.plan import Plan, read_plan
from nsyswrap.record.batch.task import Scalar

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
    monkeypatch.setattr(f"{SLURM}.submission._submit", lambda _blocks: "18")
    return answers


def run(folder: Path) -> tuple[str, list[str]]:
    said: list[str] = []
    return submission.run_blocks(Blocks(folder, (), 1, None, {}), said.append), said


def test_a_job_goes_on_where_slurm_does_not_answer_once(queue: list[Any], tmp_path: Path) -> None:
    queue += [["RUNNING"], ["RUNNING"], Unavailable("squeue did not answer"), ["RUNNING"], []]
    name, said = run(tmp_path)
    assert name == ""  # an earlier job: nothing was submitted
    assert "job 17: squeue did not answer; waiting for Slurm" in said


def test_a_job_that_only_clears_up_is_not_waited_for(queue: list[Any], tmp_path: Path) -> None:
    queue += [["COMPLETING"]]
    assert run(tmp_path)[0] == "job 18"


ODD = "a b'c\"d\ne%j*[x]$HOME`id`\\"
BATCH = Batch(Path("/data/batch"), "sizes", "5ca1ab1e", {})
PRINTS = "import os, sys; print(repr(sys.argv[1:]), os.environ.get('MODULE'))"


def with_options(options: Mapping[str, Scalar]) -> Plan:
    return Plan("sizes", (), {"slurm": options})


def directives(**options: Scalar) -> list[str]:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    lines = job_script(BATCH, with_options(given))
    return [line.removeprefix("#SBATCH ") for line in lines.splitlines() if line.startswith("#SBATCH")]


def test_captures_are_collected_with_the_script_of_their_batch_unless_it_is_of_an_older_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(f"{SLURM}.commands.jobs", list)
    monkeypatch.setattr(f"{SLURM}.commands.submit", lambda _words: "18")
    (tmp_path / "slurm").mkdir()
    batch = Batch(tmp_path, "sizes", "", {})
    own = collect_script(batch, with_options({"partition": "cpu"}))
    for given, is_kept in ((own, True), ("exit\n", False)):
        (tmp_path / "slurm" / submission.COLLECT).write_text(given)
        submission.run_blocks(Blocks(tmp_path, (), 1, batch, {}), print)
        assert ((tmp_path / submission.COLLECT).read_text() == given) == is_kept


def test_the_script() -> None:
    plan = Plan(
        "sizes",
        (),
        {"slurm": {"partition": "gpu", "gres": "gpu:1"}},
        setup=("module load cuda",),
        wrapper=("apptainer", "exec", "--nv", "my image.sif"),
        python="/opt/venv/bin/python",
    )
    text = job_script(BATCH, plan, 1001)
    assert text.startswith(
        "#!/bin/bash\n"
        "#SBATCH --partition=gpu\n"
        "#SBATCH --gres=gpu:1\n"
        "#SBATCH --job-name=sizes\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --requeue\n"
        "#SBATCH --signal=B:TERM@120\n"
        "export NSYSWRAP_TIME_LIMIT_MARGIN_S=120\n"
        "cd -- /data/batch/runs || exit 73\n"
        'nsyswrap_run=$(printf %05d "$((1001 + SLURM_ARRAY_TASK_ID))")\n'
    )
    assert text.endswith(
        "module load cuda\n"
        "trap - ERR\n"
        "nsyswrap_failed=nsyswrap\n"
        "shopt -s execfail\n"
        "exec apptainer exec --nv 'my image.sif' /opt/venv/bin/python -m nsyswrap run-folder"
        ' "$nsyswrap_run"\n'
        "exit\n"
    )


def test_the_wrapper_of_a_launch_is_that_of_each_rank() -> None:
    plan = Plan("sizes", (), wrapper=("apptainer", "exec", "a b.sif"), python="python3")
    lines = job_script(BATCH, plan, 0, SubmissionGroup({"ntasks": 4}, has_ranks=True)).splitlines()
    assert "#SBATCH --ntasks=4" in lines
    assert lines[-3] == """export NSYSWRAP_START_RANK='["apptainer", "exec", "a b.sif", "python3"]'"""
    assert lines[-2] == f'exec {sys.executable} -m nsyswrap run-folder "$nsyswrap_run"'


def run_script(folder: Path, *setup: str, python: str = "/bin/true") -> Status | None:
    """Run a job script in a batch folder with one run. Return the status of the run, if there is one."""
    run = folder / RUNS / "00007-n=1"
    run.mkdir(parents=True)
    text = job_script(Batch(folder, "odd", "id", {}), Plan("odd", (), setup=setup, python=python))
    with (folder / "log").open("wb") as log:
        log.write(b"before\n")
        log.flush()
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "7"}
        subprocess.run(["bash", "-c", text], env=environment, stdout=log, stderr=log, check=False, cwd="/")
    return RunFolder(run).read_status() if (run / STATUS).exists() else None


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (("false", "exit 0"), "setup failed: false (exit code 1)"),
        (
            ("echo fine", "nope-nope 'a\"b\\\\'"),
            "setup failed: nope-nope 'a\"b\\\\' (exit code 127); end of its output: bash: line ",
        ),
        (("cd /no/such && true",), "setup failed: cd /no/such && true (exit code 1); end of its output: "),
        (("if true; then", "(exit 5)", "fi"), "setup failed: ( exit 5 ) (exit code 5)"),
        (("source /no/such/activate",), "setup failed: source /no/such/activate (exit code 1); "),
        (("nope-nope || exit 4",), "setup failed: exit (exit code 4); end of its output: bash: line "),
    ],
)
def test_a_failing_line_of_setup_is_an_outcome(tmp_path: Path, setup: tuple[str, ...], message: str) -> None:
    status = run_script(tmp_path / ODD, *setup)
    assert status is not None
    assert status.outcome == "not_started"
    assert status.message.startswith(message)
    assert "before" not in status.message
    assert status.hint == "to allow it, end the line with || true"


def test_a_signal_in_setup_is_no_failure_of_it(tmp_path: Path) -> None:
    assert run_script(tmp_path / "batch", "kill $$; sleep 5") is None


def test_what_setup_allows_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "activate").write_text("false\nfails() { false; true; }\nfails\n:\n")
    setup = ("false || true", "if false; then", "  :", "fi", f"source {tmp_path}/activate", "true && true")
    assert run_script(tmp_path / "batch", *setup) is None


def test_a_python_that_is_not_there_is_an_outcome(tmp_path: Path) -> None:
    status = run_script(tmp_path, python="/no/such/python")
    assert status is not None
    assert status.message.startswith("nsyswrap could not be started (exit code 127); end of its output: ")
    assert status.message.endswith("/no/such/python: No such file or directory")


def test_options_are_passed_through_unchanged() -> None:
    given = directives(p="gpu", exclusive=True, wait_all_nodes=1, overcommit=False, constraint="a&b|c")
    assert given[:4] == ["-p gpu", "--exclusive", "--wait-all-nodes=1", "--constraint=a&b|c"]
    assert not [line for line in given if "overcommit" in line]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ('say "hi" #1', r'"say \"hi\" #1"'),
        ("a\\b", r'"a\\b"'),
    ],
)
def test_what_sbatch_would_take_apart_is_quoted(text: str, written: str) -> None:
    assert directives(mail_user=text)[0] == f"--mail-user={written}"


@pytest.mark.parametrize(
    ("options", "lacks", "has"),
    [
        ({"job_name": "mine"}, "--job-name=sizes", "--job-name=mine"),
        ({"J": "mine"}, "--job-name=sizes", "-J mine"),
        ({"no_requeue": True}, "--requeue", "--no-requeue"),
        ({"signal": "B:TERM@300"}, "--signal=B:TERM@120", "--signal=B:TERM@300"),
        ({"open_mode": "truncate"}, "--open-mode=append", "--open-mode=truncate"),
    ],
)
def test_the_plan_has_the_last_word(options: Mapping[str, Scalar], lacks: str, has: str) -> None:
    written = directives(**options)
    assert lacks not in written
    assert has in written


@pytest.mark.parametrize(
    ("limit", "total_s"),
    [
        ("2", 120),
        (2, 120),
        ("90:30", 5430),
        ("1:30:00", 5400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-0:0:5", 86_405),
        ("0", None),
        ("UNLIMITED", None),
        ("1:2:3:4", None),
    ],
)
def test_time_limits_as_sbatch_reads_them(limit: str | int, total_s: int | None) -> None:
    assert seconds(str(limit)) == total_s


@pytest.mark.parametrize(
    ("limit", "margin_s"), [("1", 30), ("3:00", 90), ("4", 120), ("0:30", 15), ("1-0", 120)]
)
def test_the_signal_leaves_a_short_run_half_its_time(limit: str, margin_s: int) -> None:
    plan = with_options({"time": limit})
    assert f"#SBATCH --signal=B:TERM@{margin_s}\n" in job_script(BATCH, plan)
    assert f"LIMIT_MARGIN_S={margin_s}\n" in job_script(BATCH, plan)
    assert directives(t=limit)[-1] == f"--signal=B:TERM@{margin_s}"


def test_the_margin_is_that_of_the_plans_own_signal() -> None:
    assert "LIMIT_MARGIN_S=300\n" in job_script(BATCH, with_options({"signal": "B:TERM@300"}))
    assert "LIMIT_MARGIN_S=60\n" in job_script(BATCH, with_options({"signal": "TERM"}))


@pytest.mark.parametrize("label", ["n=1", "é", "n=2 sync=both"])
def test_a_task_finds_its_run_folder(tmp_path: Path, label: str) -> None:
    folder = tmp_path / ODD
    wanted = folder / RUNS / folder_name(1007, label)
    for name in (wanted.name, "10070-n=1", "00107-n=1", "01008-n=1"):
        (folder / RUNS / name).mkdir(parents=True)
    setup, wrapper = ("export MODULE='two words'",), (sys.executable, "-c", PRINTS, "a 'b")
    plan = Plan("odd", (), setup=setup, wrapper=wrapper)
    text = job_script(Batch(folder, "odd", "id", {}), plan, 1001)
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "6"}
    said = subprocess.run(
        ["bash"], input=text, env=environment, capture_output=True, text=True, check=True, cwd="/"
    ).stdout
    words = ["a 'b", sys.executable, "-m", "nsyswrap", "run-folder", str(wanted)]
    assert said == f"{words!r} two words\n"


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("7", (7,)),
        ("[3-5%2]", (3, 4, 5)),
        ("1,3-4,10-20:5", (1, 3, 4, 10, 15, 20)),
        ("", ()),
        ("0-1", (0, 1)),
    ],
)
def test_tasks_as_slurm_writes_them(text: str, tasks: tuple[int, ...]) -> None:
    assert indexes(text) == tasks


def test_tasks_are_written_short_and_read_again() -> None:
    assert as_text([3, 1, 2, 7, 9, 10]) == "1-3,7,9-10"
    tasks = range(5, 9999, 3)
    assert indexes(as_text(tasks)) == tuple(tasks)


@pytest.mark.parametrize(
    "reason",
    [
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "BadConstraints",
        "InvalidQOS",
        "AssocMaxCpuPerJobLimit",
        "QOSMaxGRESPerJob",
        "QOSMaxWallDurationPerJobLimit",
        "QOSMinGRES",
        "DependencyNeverSatisfied",
        "launch failed requeued held",
    ],
)
def test_reasons_that_stand_for_ever(reason: str) -> None:
    said = commands.why_never(reason)
    assert said is not None
    assert reason in said[0]


@pytest.mark.parametrize(
    "reason",
    [
        "None",
        "Resources",
        "Priority",
        "BeginTime",
        "PartitionDown",
        "PartitionInactive",
        "JobHeldUser",
        "ReqNodeNotAvail, UnavailableNodes:n3",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "QOSMaxJobsPerUserLimit",
        "QOSMaxCpuPerUserLimit",
        "QOSGrpGRES",
        "AssocGrpCpuLimit",
        "AssocMaxJobsLimit",
        "JobArrayTaskLimit",
        "Dependency",
    ],
)
def test_reasons_that_pass(reason: str) -> None:
    assert commands.why_never(reason) is None


def waiting(reason: str, *tasks: int) -> commands.QueuedJob:
    return commands.QueuedJob("17", tasks, "PENDING", reason, "")


def test_what_is_waited_for_is_said_in_words() -> None:
    jobs = [waiting("Resources", 1, 2), waiting("Resources", 3), waiting("QOSGrpGRES", 4)]
    running = commands.QueuedJob("17", (5,), "RUNNING", "None", "")
    assert commands.in_words([*jobs, running]) == "3 waiting for free nodes, 1 waiting (QOSGrpGRES)"
    assert commands.in_words([running]) == ""


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose text a stand-in for squeue prints: for states that cannot be had at will."""
    command = tmp_path / "squeue"
    command.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    monkeypatch.setenv("NSYSWRAP_TIME_LIMIT_MARGIN_S", "120")
    monkeypatch.setattr(commands, "_AGAIN_S", 0.0)
    return tmp_path / "said"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("RUNNING|2:59|None", True),
        ("RUNNING|0:00|None", True),
        ("RUNNING|3:01|None", False),
        ("RUNNING|1-00:00:01|None", False),
        ("RUNNING|1:00:00|None", False),
        ("RUNNING|UNLIMITED|None", False),
        ("COMPLETING|1:00|TimeLimit", True),
        ("TIMEOUT|0:00|None", True),
        ("COMPLETING|1:00|None", False),
        ("CANCELLED|1:00|None", False),
        ("PREEMPTED|1:00|None", False),
        ("", False),
        ("slurm_load_jobs error: Invalid job id specified", False),
    ],
)
def test_a_time_limit_is_told_from_a_cancelling(squeue: Path, said: str, expected: bool) -> None:  # noqa: FBT001
    squeue.write_text(said)
    assert commands.ended_by_time_limit() is expected


def test_the_time_limit_is_that_of_one_task_of_the_array(
    squeue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job id of one task is that of the array, too: squeue then has a line for each task."""
    rows = "RUNNING|0:10|None"
    command = squeue.with_name("squeue")
    command.write_text(f"#!/bin/sh\necho '{rows}'\ncase $* in *--jobs=18_3*) ;; *) echo '{rows}' ;; esac\n")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "18")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert commands.ended_by_time_limit()


def test_a_slurm_that_is_too_busy_to_answer_is_asked_again(squeue: Path) -> None:
    squeue.write_text("TIMEOUT|0:00|None")
    command = squeue.with_name("squeue")
    command.write_text(
        f"#!/bin/sh\ntest -e {squeue}.asked || {{ touch {squeue}.asked; exit 1; }}\ncat {squeue}\n"
    )
    assert commands.ended_by_time_limit()


@pytest.mark.parametrize(("left_s", "expected"), [(100, True), (1000, False)])
def test_in_a_container_without_squeue_the_environment_tells(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    left_s: int,
    expected: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NSYSWRAP_TIME_LIMIT_MARGIN_S", "120")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + left_s))
    assert commands.ended_by_time_limit() is expected


@pytest.mark.parametrize(
    ("errors", "states", "expected"),
    [
        ("allocation failure: Invalid account or account/partition combination specified", "", "Invalid acc"),
        ("sbatch: error: Invalid --time specification", "", "Invalid --time"),
        ("allocation failure: Requested node configuration is not available", "idle\nmixed", "Requested"),
        ("allocation failure: Requested node configuration is not available", "idle\ndrained", None),
        ("allocation failure: Requested node configuration is not available", "idle*", None),
        ("allocation failure: Required node not available (down, drained or reserved)", "idle", None),
        ("sbatch: error: this site's own words\nallocation failure: Unspecified error", "idle", None),
        ("sbatch: unrecognized option '--test-only'", "idle", None),
        ("allocation failure: Invalid authentication credential", "idle", None),
        ("allocation failure: Unable to contact slurm controller (connect failure)", "idle", None),
    ],
)
def test_only_what_is_wrong_at_any_time_is_refused(
    squeue: Path, errors: str, states: str, expected: str | None
) -> None:
    for name, text in {"sbatch": f"cat >&2 {squeue}; exit 1", "sinfo": f"echo '{states}'"}.items():
        squeue.with_name(name).write_text(f"#!/bin/sh\n{text}\n")
        squeue.with_name(name).chmod(0o755)
    squeue.write_text(errors)
    said = commands.refusal("#!/bin/bash\n")
    assert said is None if expected is None else said is not None and said.startswith(expected)


def test_slurm_is_asked_until_no_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"qos": "no such qos", "partition": "no such partition"}  # Slurm names one at a time
    monkeypatch.setattr(
        f"{SLURM}.commands.refusal",
        lambda script: next((said for name, said in wrong.items() if f"--{name}=" in script), None),
    )
    group = SubmissionGroup({"partition": "a", "qos": "b"})
    faults = submission._faults(Plan("sizes", ()), group)  # noqa: SLF001
    assert [(*one.names, one.message) for one in faults] == [*wrong.items()]


def test_a_job_is_known_by_the_mark_behind_its_script(squeue: Path) -> None:
    squeue.write_text(
        "5|N/A|RUNNING|None|a|b\nof two | nsyswrap:other lines\n"
        "17|1,3-4%2|PENDING|Resources|/a b\n|c/slurm/job-0.sh nsyswrap:5ca1ab1e:0\n"
        "17|0|RUNNING|None|/b/slurm/job-0.sh nsyswrap:5ca1ab1e:0\n"
        "18|N/A|RUNNING|None|(null)\n"
    )
    assert commands.jobs() == [
        commands.QueuedJob("5", (), "RUNNING", "None", ""),
        commands.QueuedJob("17", (1, 3, 4), "PENDING", "Resources", "nsyswrap:5ca1ab1e:0"),
        commands.QueuedJob("17", (0,), "RUNNING", "None", "nsyswrap:5ca1ab1e:0"),
        commands.QueuedJob("18", (), "RUNNING", "None", ""),
    ]
    squeue.write_text("")
    assert commands.jobs() == []


def test_without_slurm_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    with pytest.raises(Unavailable, match="squeue not found on PATH") as raised:
        commands.jobs()
    assert "--executor local" in raised.value.hint
    assert commands.ended_by_time_limit() is False
