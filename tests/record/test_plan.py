"""Plans: what a file or a typed sweep makes runs of."""

import csv
import io
import itertools
import json
import shlex
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from checkouts import ROOT
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.errors import PlanError, UsageError
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.record import scenarios
from nsyswrap.record.batch.folder import make_batch
from nsyswrap.record.batch.plan import Plan, RunsEntry, read_plan, sweep
from nsyswrap.record.batch.plan.toml_table import Template, is_one_edit
from nsyswrap.record.batch.task import read_spec

SHOWN = Path(__file__).resolve().parents[2] / "scenarios" / "add2.toml"
WHOLE = """
name = "sizes"
repeat = 2
timeout = 600
max_running = 4
[env]
OMP_NUM_THREADS = 8
FAST = true
[nsys]
trace = "cuda"
stats = false
args = ["--cuda-memory-usage=true"]
path = "/opt/nsys"
[slurm]
partition = "gpu"
cpus-per-task = 4
exclusive = true
requeue = false
N = 1
[node]
setup = ["module load cuda/12.4"]
wrapper = "apptainer exec --nv image.sif"
python = "/opt/venv/bin/python"
[[runs]]
command = "train.py --n {n} --name 'of {sync}'"
grid = { n = [1, 2], sync = ["both", "none"] }
points = [ { block = 128, lr = 1e-3 }, { block = 256, lr = 1e-5 } ]
env = { BLOCK = "{block}x", LR = "{lr}", OMP_NUM_THREADS = "1" }
[runs.nsys]
stats = true
um_faults = true
memory = true
steps = "10-13"
step_at = "module"
then_stop = true
modules = 2
[[runs]]
command = ["timeit", "-n", "{lr}", "pass"]
module = true
grid = { lr = [0.5] }
repeat = 1
timeout = 0.5
"""


@pytest.fixture
def whole(tmp_path: Path) -> Plan:
    return plan_of(tmp_path, WHOLE)


def plan_of(folder: Path, text: str) -> Plan:
    path = folder / "plan.toml"
    path.write_text(text)
    return read_plan(path)


def labels(plan: Plan) -> list[str]:
    return [spec.name for spec in plan.specs]


def test_what_the_node_needs_is_passed_through(whole: Plan) -> None:
    assert whole.name == "sizes"
    assert whole.settings["slurm"] == {
        "partition": "gpu",
        "cpus-per-task": 4,
        "exclusive": True,
        "requeue": False,
        "N": 1,
    }
    assert whole.setup == ("module load cuda/12.4",)
    assert whole.wrapper == ("apptainer", "exec", "--nv", "image.sif")
    assert (whole.python, whole.max_running, whole.notes) == ("/opt/venv/bin/python", 4, ())


def test_points_are_crossed_with_the_grid_and_repeats_come_last(whole: Plan) -> None:
    first = [
        f"n={n} sync={sync} block={block} lr={lr}"
        for n in (1, 2)
        for sync in ("both", "none")
        for block, lr in ((128, "1e-3"), (256, "1e-5"))
    ]
    assert labels(whole) == [*first, "lr=0.5", *(f"{label} repeat=2" for label in first)]


def test_a_run_knows_all_that_was_asked_for(whole: Plan) -> None:
    spec = whole.specs[3]
    assert spec.parameters == {"n": 1, "sync": "none", "block": 256, "lr": 1e-5}
    assert spec.command == ("train.py", "--n", "1", "--name", "of none")
    env = {"OMP_NUM_THREADS": "1", "FAST": "true", "BLOCK": "256x", "LR": "1e-5"}
    own = {"env": env, "nsys_path": "/opt/nsys", "timeout_s": 600, "extra": ("--cuda-memory-usage=true",)}
    marked = {"steps": "10-13", "step_at": "module", "then_stop": True, "modules": 2}
    assert spec.options == RecordingOptions(trace="cuda", um_faults=True, memory=True, **own, **marked)  # type: ignore[arg-type]
    assert spec.cwd == str(Path.cwd())


def test_own_values_win_over_the_defaults(whole: Plan) -> None:
    [spec] = [spec for spec in whole.specs if spec.module]
    assert spec.command == ("timeit", "-n", "0.5", "pass")
    assert (spec.options.timeout_s, spec.repeat, spec.options.stats) == (0.5, 1, False)
    assert spec.options.env == {"OMP_NUM_THREADS": "8", "FAST": "true"}


CONSTANTS = """
[[runs]]
command = "add.cu {n}"
nvcc = "-I 'my inc' -DBLOCK={block}"
grid = { n = [1], block = [128, 256] }
[[runs]]
command = "add.cu"
arch = "sm_90"
"""


def test_options_of_nvcc_can_hold_a_parameter(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, CONSTANTS)
    assert [spec.options.nvcc for spec in plan.specs] == [
        ("-I", "my inc", "-DBLOCK=128"),
        ("-I", "my inc", "-DBLOCK=256"),
        (),
    ]
    assert plan.specs[0].words == ("--nvcc", "-I 'my inc' -DBLOCK=128", "add.cu", "1")
    assert len({spec.key for spec in plan.specs}) == 3
    batch = make_batch(tmp_path / "batch", plan)
    assert [read_spec(batch.run_folder(number)) for number in batch.runs] == list(plan.specs)


RANKED = """
[slurm]
time = "{minutes}"
partition = "gpu"
[[runs]]
command = "train.py --out {run_dir}/log %q{SLURM_PROCID} ${n} {{n}} {other}"
launcher = "srun"
ntasks = "{n}"
profiled_ranks = [0]
gpus = "{n}"
grid = { n = [1, 4], minutes = [5] }
[runs.slurm]
nodes = "{n}"
exclusive = true
[[runs]]
command = "nsys profile -o {run_dir}/report a.out"
profiled = false
grid = { minutes = [1] }
"""


def test_ranks_and_options_of_slurm_come_from_parameters(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, RANKED)
    assert plan.settings["slurm"] == {"partition": "gpu"}
    one, four, own = plan.specs
    assert one.command == ("train.py", "--out", "{run_dir}/log", "%q{SLURM_PROCID}", "${n}", "{n}", "{other}")
    assert [(spec.launcher, spec.ntasks, spec.gpus) for spec in (one, four)] == [
        ("srun", 1, 1),
        ("srun", 4, 4),
    ]
    assert (four.profiled_ranks, four.profiled, own.profiled, own.launcher) == ((0,), True, False, "")
    assert plan_of(tmp_path, RANKED.replace("[0]", '"all"')).specs[1].profiled_ranks is None
    assert four.settings == {"slurm": {"time": "5", "nodes": "4", "exclusive": True}}
    assert own.settings == {"slurm": {"time": "1"}}
    batch = make_batch(tmp_path / "batch", plan)
    assert [read_spec(batch.run_folder(number)) for number in batch.runs] == list(plan.specs)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("n", "m", True),
        ("size", "sizes", True),
        ("sise", "size", True),
        ("isze", "size", True),
        ("n", "n", False),
        ("size", "seiz", False),
        ("n", "nnn", False),
        ("abc", "cba", False),
    ],
)
def test_one_edit(one: str, other: str, *, expected: bool) -> None:
    assert is_one_edit(one, other) is is_one_edit(other, one) is expected


def test_a_run_without_newer_options_is_that_of_an_earlier_version(tmp_path: Path) -> None:
    """The key names a run of a batch that an earlier version began. It was computed by that version."""
    spec = replace(plan_of(tmp_path, CONSTANTS).specs[-1], cwd="/work")
    assert not {"nvcc", "follow_forks"} & {*spec.as_json(), *spec.as_json()["nsys"]}
    spec.write(tmp_path)
    assert read_spec(tmp_path) == spec
    assert spec.key == "beaec825eb887f9e"


def test_every_run_comes_back_from_its_folder(whole: Plan, tmp_path: Path) -> None:
    batch = make_batch(tmp_path / "batch", whole)
    read = [read_spec(batch.run_folder(number)) for number in batch.runs]
    assert read == list(whole.specs)
    assert [type(value) for value in read[0].parameters.values()] == [int, str, int, float]


def test_the_plan_that_the_documentation_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    plan = read_plan(SHOWN)
    assert len(plan.specs) == 18
    assert {(s.scenario, s.variant) for s in plan.specs} == {("add2", "both"), ("add2", "none")}
    assert plan.specs[0].arguments == ("--n", "1024")
    assert plan.specs[0].parameters == {"variant": "both", "n": 1024}
    assert plan.settings["slurm"] == {"gres": "gpu:1", "time": "00:15:00"}
    assert {spec.cwd for spec in plan.specs} == {str(tmp_path)}
    assert SHOWN.read_text() in (SHOWN.parent.parent / "docs" / "batch.md").read_text(encoding="utf-8")


def test_a_scenario_runs_all_its_variants_as_it_wants_them_recorded(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '[nsys]\nstats = false\n[[runs]]\nscenario = "graphs"')
    found = scenarios.find_scenario("graphs")
    assert [spec.variant for spec in plan.specs] == list(found.variants)
    assert {spec.variant: spec.options for spec in plan.specs}["nodes"] == RecordingOptions(
        graphs="node", stats=False
    )


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (['command = "a/train.py"'], ["train"]),
        (['command = "./bench"\nrepeat = 3'], ["bench", "bench repeat=2", "bench repeat=3"]),
        (
            ['command = "a.py {n}"\ngrid = {n = [1]}', 'command = "b.py {n}"\ngrid = {n = [2]}'],
            ["n=1", "n=2"],
        ),
        (
            ['command = "a.py {n}"\ngrid = {n = [1]}', 'command = "b.py {n}"\ngrid = {n = [1]}'],
            ["a n=1", "b n=1"],
        ),
        (['command = "a"\nenv = {V = 1}', 'command = "a"\nenv = {V = 2}'], ["a", "a #2"]),
        (
            ['command = "a {repeat}"\nenv = {V = 1}', 'command = "a {repeat}"\nrepeat = 2'],
            ["a", "a #2", "a #2 repeat=2"],
        ),
        (['command = "a"\nname = "old"\nenv = {V = 1}', 'command = "a"'], ["old", "a"]),
        (
            ['command = "a {s}"\ngrid = {s = ["x y", "x\\ty", "x y #2"]}'],
            ["a s=x y", "a s=x y #3", "a s=x y #2"],
        ),
        ([f'command = "a {{s}}"\ngrid = {{s = ["{"x" * 50}1"]}}'], [f"s=…{'x' * 38}1"]),
    ],
)
def test_labels_are_short_and_tell_runs_apart(tmp_path: Path, blocks: list[str], expected: list[str]) -> None:
    assert labels(plan_of(tmp_path, "".join(f"[[runs]]\n{block}\n" for block in blocks))) == expected


def test_one_block_may_repeat_more_often_what_another_has(tmp_path: Path) -> None:
    block = '[[runs]]\ncommand = "a {{n}}"\ngrid = {{n = [{}]}}\nrepeat = {}\n'
    plan = plan_of(tmp_path, block.format("1, 2", 1) + block.format("2, 3", 2))
    assert labels(plan) == ["n=1", "n=2", "n=3", "n=2 repeat=2", "n=3 repeat=2"]


def test_a_run_that_stands_in_two_blocks_is_made_once_and_told(tmp_path: Path) -> None:
    block = '[[runs]]\ncommand = "a {{n}}"\ngrid = {{n = [{}]}}\ntimeout = {}\n'
    plan = plan_of(tmp_path, block.format("1, 2", 5) + block.format("2, 3", 9))
    assert labels(plan) == ["n=1", "n=2", "n=3"]
    assert [spec.options.timeout_s for spec in plan.specs] == [5, 5, 9]
    assert plan.notes == ("1 of 4 runs occur in more than one [[runs]] and are run once",)


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("--n={n}", "--n=7"),
        ("{n}{n}", "77"),
        ("{{n}}", "{n}"),
        ("${n} ${{n}}", "${n} ${n}"),
        ('{"a": {n}}', '{"a": 7}'),
        ("{} {1,3} { n } {n:02d} {a,b} ${n:-1}", "{} {1,3} { n } {n:02d} {a,b} ${n:-1}"),
        ("{n-1}", "seven"),
    ],
)
def test_braces(word: str, filled: str) -> None:
    assert Template(word).fill({"n": "7", "n-1": "seven"}) == filled


def test_the_repeat_can_be_used_as_a_seed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '[[runs]]\ncommand = "a --seed {repeat}"\nrepeat = 2')
    assert [spec.command[-1] for spec in plan.specs] == ["1", "2"]


def test_numbers_are_put_in_as_they_are_written(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '[[runs]]\ncommand = "a {v}"\ngrid = {v = [1e6, 1_0.50, 0x10, 1_000, true]}')
    assert [spec.command[1] for spec in plan.specs] == ["1e6", "10.50", "16", "1000", "true"]
    assert [spec.parameters["v"] for spec in plan.specs] == [1e6, 10.5, 16, 1000, True]
    json.dumps([spec.as_json() for spec in plan.specs], allow_nan=False)


def test_a_sweep_is_a_plan_that_is_typed() -> None:
    block = RunsEntry(
        "sweep",
        command=("scenarios/add2.py", "--n", "{n}", "--sync", "{sync}"),
        repeat=2,
        options={"env": {"N": "{n}"}, "trace": "cuda", "duration": 1.0, "timeout_s": 3},
    )
    settings = {"slurm": ["partition=gpu", "exclusive", "export=A=1"]}
    plan = sweep(block, ["n=1024,1e6", "sync=both,none"], settings)
    assert plan.name == "add2"
    assert plan.settings["slurm"] == {"partition": "gpu", "exclusive": True, "export": "A=1"}
    assert labels(plan)[3:5] == ["n=1e6 sync=none", "n=1024 sync=both repeat=2"]
    spec = plan.specs[2]
    assert spec.parameters == {"n": 1e6, "sync": "both"}
    assert spec.words == ("scenarios/add2.py", "--n", "1e6", "--sync", "both")
    assert spec.options == RecordingOptions(trace="cuda", duration=1.0, timeout_s=3, env={"N": "1e6"})


def test_a_name_has_parameters_and_a_flag_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        "[require]\ngpu = 'H100'\n[[runs]]\ncommand = 'train.py {amp} --batch {b}'\n"
        "name = 'batch {b}'\ngrid = { b = [1, 2] }\npoints = [{ amp = '--amp' }, { amp = '' }]\n"
        "launcher = 'srun --mpi=pmix'\nntasks = 2\n"
    )
    specs = read_plan(path).specs
    assert [spec.label for spec in specs[:2]] == ["batch 1", "batch 1 #2"]
    assert [spec.command[1:] for spec in specs[:2]] == [("--amp", "--batch", "1"), ("--batch", "1")]
    assert {(spec.launcher, spec.launcher_options) for spec in specs} == {("srun", ("--mpi=pmix",))}
    assert specs[0].require == {"gpu": "H100"}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("./bin/add", "{n}"), "add"),
        (("python3", "-u", "{n}/train.py", "-m", "fast"), "train"),
        (("/usr/bin/python3.11", "-m", "trainer", "{n}"), "trainer"),
        (("python", "-c", "{n}"), "python"),
    ],
)
def test_a_sweep_has_the_name_of_its_program(command: tuple[str, ...], name: str) -> None:
    assert sweep(RunsEntry("sweep", command=command), ["n=1"]).name == name
    assert sweep(RunsEntry("sweep", command=command), ["n=1"], name="mine").name == "mine"


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("1,-2,0.5,1e3", [1, -2, 0.5, 1e3]),
        (
            "007,+1,1_000,0x10,nan,inf,1e999,true",
            ["007", "+1", "1_000", "0x10", "nan", "inf", "1e999", "true"],
        ),
        (f"{2**63},{2**63 - 1}", [str(2**63), 2**63 - 1]),
        ("9" * 5000, ["9" * 5000]),
        ('"a,b",c,', ["a,b", "c", ""]),
        ('"say ""hi""",it\'s', ['say "hi"', "it's"]),
        ('""', [""]),
        ("a=b", ["a=b"]),
        ("\u0661", ["\u0661"]),
    ],
)
def test_typed_values(typed: str, values: list[object]) -> None:
    found = [
        spec.parameters["v"] for spec in sweep(RunsEntry("sweep", command=("a", "{v}")), [f"v={typed}"]).specs
    ]
    assert found == values
    assert [type(one) for one in found] == [type(one) for one in values]


@pytest.mark.parametrize(
    ("parameters", "settings", "says"),
    [
        (["n"], [], "invalid -p 'n': expected NAME=V,V"),
        (["=1"], [], "invalid -p '=1': expected NAME=V,V"),
        (["n="], [], "expected a value"),
        (["n=1", "n=2"], [], "given twice"),
        (["n=1,1"], [], "n = 1 occurs twice"),
        (['n="a'], [], "expected a list"),
        (['n="a"b'], [], "expected a list"),
        (["1=1"], [], "invalid parameter name '1'"),
        (["repeat=1"], [], "invalid parameter name 'repeat': nsyswrap sets this parameter"),
        (["n=1", "m=1"], [], "'m' is not used"),
        (["m=1"], [], "no parameter named 'n', used in '{n}'"),
        (["n=1"], ["array=1"], "sweep: --slurm: 'array' is set by nsyswrap"),
        (["n=1"], ["=1"], "invalid sbatch setting"),
    ],
)
def test_what_is_typed_wrongly_is_wrong_usage(parameters: list[str], settings: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        sweep(RunsEntry("sweep", command=("a", "{n}")), parameters, {"slurm": settings})
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


def test_there_is_a_limit_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsyswrap.record.batch.plan.expand._MOST_RUNS", 3)
    with pytest.raises(UsageError, match="4 runs are too many: the limit is 3"):
        sweep(RunsEntry("sweep", command=("a", "{n}")), ["n=1,2,3,4"], {})


@pytest.mark.parametrize("path", sorted((ROOT / "docs/recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_recipes_are_plans_that_slurm_gets(path: Path, cli: Cli) -> None:
    """Whether a cluster takes their options only it knows; bash reads their scripts."""
    done = cli("batch", "run", str(path), "--dry-run", "--executor", "slurm")
    assert done.returncode == 0, done.stderr
    runs, _, scripts = done.stdout.partition("\n\n")
    assert len(runs.splitlines()) == len(read_plan(path).specs)
    assert "#SBATCH --" in scripts
    subprocess.run(["bash", "-n"], input=scripts, text=True, check=True)


# What can stand in a command line: everything but zero bytes; and names of parameters.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
ODD = st.one_of(
    TEXT, st.sampled_from(["{n}", "{{n}}", "a b", "'", '"', "\n", "${n}", "\\", "--n={n}", "", "#", "é"])
)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True).filter(lambda name: name != "repeat")
GRIDS = st.dictionaries(NAMES, st.lists(ODD, min_size=1, max_size=4, unique=True), min_size=1, max_size=3)


def quoted(text: str) -> str:
    """Return a TOML string, every character escaped."""
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


def in_csv(values: list[str]) -> str:
    row = io.StringIO()
    csv.writer(row, quoting=csv.QUOTE_ALL, lineterminator="").writerow(values)
    return row.getvalue()


@given(GRIDS, st.lists(ODD, min_size=1, max_size=3, unique=True), st.integers(1, 3))
def test_a_file_makes_exactly_the_cross_product(
    grid: dict[str, list[str]], points: list[str], repeat: int
) -> None:
    command = ["prog", *(f"--{name}={{{name}}}" for name in grid), "{P}"]
    lines = [
        "[[runs]]",
        f"command = {quoted(shlex.join(command))}",
        f"repeat = {repeat}",
        *(f"grid.{name} = [{', '.join(map(quoted, values))}]" for name, values in grid.items()),
        f"points = [{', '.join(f'{{P = {quoted(point)}}}' for point in points)}]",
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text("\n".join(lines))
        specs = read_plan(path).specs
    expected = [
        (
            "prog",
            *(f"--{name}={value}" for name, value in zip(grid, values, strict=False)),
            *filter(None, values[-1:]),
        )
        for _ in range(repeat)
        for values in itertools.product(*grid.values(), points)
    ]
    assert [spec.command for spec in specs] == [tuple(filter(None, words)) for words in expected]
    assert [tuple(spec.parameters.values()) for spec in specs[: len(expected) // repeat]] == list(
        itertools.product(*grid.values(), points)
    )
    assert len({spec.name for spec in specs}) == len({spec.key for spec in specs}) == len(specs)
    assert all("\n" not in spec.label for spec in specs)


@given(GRIDS)
def test_a_sweep_makes_exactly_the_cross_product(grid: dict[str, list[str]]) -> None:
    typed = [f"{name}={in_csv(values)}" for name, values in grid.items()]
    block = RunsEntry("sweep", command=("prog", *(f"{{{name}}}" for name in grid)))
    specs = sweep(block, typed).specs
    expected = [tuple(filter(None, values)) for values in itertools.product(*grid.values())]
    assert [spec.command[1:] for spec in specs] == expected


@given(st.lists(st.tuples(st.text(st.characters(exclude_characters="{}")), ODD), max_size=4), ODD)
def test_values_are_put_between_the_texts_and_not_looked_into(
    pieces: list[tuple[str, str]], last: str
) -> None:
    names = [f"p{i}" for i in range(len(pieces))]
    plain = [text.rstrip("$") for text, _ in pieces]
    word = "".join(f"{text}{{{name}}}" for text, name in zip(plain, names, strict=True))
    texts = {name: value for name, (_, value) in zip(names, pieces, strict=True)}
    whole = "".join(text + value for text, (_, value) in zip(plain, pieces, strict=True))
    assert Template(word).fill(texts) == whole
    assert Template("{last}").fill({"last": last}) == last


@given(TEXT)
def test_a_word_without_names_stays_as_it_is(word: str) -> None:
    template = Template(word)
    if not template.names and "{{" not in word:
        assert template.fill({}) == word


RUN = '[[runs]]\ncommand = "a.py {n}"\ngrid = { n = [1, 2] }\n'
RANKS = RUN + "launcher = 'srun'\n"
TORCHRUN = RUN + "launcher = 'torchrun'\n"
SCENARIO = '[[runs]]\nscenario = "add2"\n'


def failure(path: Path) -> PlanError:
    with pytest.raises(PlanError) as caught:
        read_plan(path)
    assert caught.value.exit_code == 78
    assert str(path) in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("text", "says", "advises"),
    [
        # keys
        ("repet = 3\n" + RUN, "no key named 'repet'", "did you mean 'repeat'? keys: name, repeat, timeout,"),
        ("zzz = 3\n" + RUN, "no key named 'zzz'", "keys: name, repeat"),
        ('command = "a"\n' + RUN, "no key named 'command'", "'command' belongs in [[runs]]"),
        (RUN + "grdi = {}", "[[runs]] 1: no key named 'grdi'", "did you mean 'grid'?"),
        (RUN + 'setup = "x"', "no key named 'setup'", "'setup' belongs in [node]"),
        ('[nsys]\ntracing = "cuda"\n' + RUN, "[nsys]: no key named 'tracing'", "did you mean 'trace'?"),
        ("[nsys]\nsteps = '4-2'\n" + RUN, "[[runs]] 1: invalid --steps '4-2'", "10-13 is four steps"),
        (RUN + "nsys = {graph = 'node'}", "[[runs]] 1: [nsys]: no key named 'graph'", "'graphs'"),
        ('[node]\nmodules = "x"\n' + RUN, "[node]: no key named 'modules'", "setup, wrapper, python"),
        ("[run]\n" + RUN, "no key named 'run'", "did you mean 'runs'?"),
        # values
        ("repeat = 0\n" + RUN, "invalid repeat = 0: expected a whole number, 1 or more", ""),
        ("repeat = true\n" + RUN, "invalid repeat = true: expected a whole number", ""),
        ("repeat = 1.0\n" + RUN, "invalid repeat = 1.0: expected a whole number", ""),
        (RUN + "repeat = -1", "[[runs]] 1: invalid repeat = -1: expected", ""),
        ("timeout = -5\n" + RUN, "invalid timeout = -5: expected a number of seconds above 0", ""),
        ("repeat = 0x" + "f" * 5000 + "\n" + RUN, "invalid repeat = …: expected a whole number", ""),
        ("timeout = 1" + "0" * 400 + "\n" + RUN, "expected a number of seconds above 0", ""),
        (RUN + "repeat.a" + ".a" * 99 + " = " + "{a" + ".a" * 99 + " = 1}", "invalid repeat = ", ""),
        ("timeout = 0\n" + RUN, "invalid timeout = 0: expected", ""),
        ("timeout = inf\n" + RUN, "invalid timeout = Infinity: expected", ""),
        ('timeout = "1h"\n' + RUN, 'invalid timeout = "1h": expected', ""),
        ("max_running = 0\n" + RUN, "invalid max_running = 0: expected a whole number", ""),
        ('name = " "\n' + RUN, 'invalid name = " ": expected a string that is not empty', ""),
        (f'name = "{"x" * 201}"\n' + RUN, "invalid name of 201 characters: expected at most 200 bytes", ""),
        ('name = "a/b"\n' + RUN, 'invalid name = "a/b": expected the name of a folder', ""),
        ("env = 1\n" + RUN, "invalid env = 1: expected a table", ""),
        ("[env]\nA = [1]\n" + RUN, "[env]: invalid A = [1]: expected a string, a number, true or false", ""),
        ('[env]\n"A=B" = 1\n' + RUN, "[env]: invalid name of an environment variable: 'A=B'", ""),
        ('[nsys]\ngraphs = "all"\n' + RUN, "invalid graphs = \"all\": expected 'graph' or 'node'", ""),
        ('[nsys]\nstats = "no"\n' + RUN, 'invalid stats = "no": expected true or false', ""),
        ("[nsys]\ndelay = -1\n" + RUN, "invalid delay = -1: expected a number of seconds, 0 or more", ""),
        ('[nsys]\nargs = "-x"\n' + RUN, 'invalid args = "-x": expected a list of strings', ""),
        ('[node]\nsetup = "module load"\n' + RUN, "[node]: invalid setup", ""),
        # what is run
        ("", "the plan has no [[runs]]", "[[runs]] command ="),
        ("runs = []", "invalid runs = []: expected a list with at least one table", ""),
        ("runs = 3", "invalid runs = 3: expected a list with at least one table", ""),
        ('[runs]\ncommand = "a"', "expected a list with at least one table", ""),
        ("[[runs]]\nrepeat = 1", "[[runs]] 1: command or scenario is missing", "use one of them"),
        (
            RUN + '[[runs]]\ncommand = "a"\nscenario = "add2"',
            "[[runs]] 2: command cannot be used with scenario",
            "use one",
        ),
        ('[[runs]]\ncommand = ""', 'invalid command = "": expected a string or a list of strings', ""),
        ("[[runs]]\ncommand = []", "command is empty", ""),
        ("[[runs]]\ncommand = 3", "invalid command = 3: expected a string or a list of strings", ""),
        ('[[runs]]\ncommand = "a \'b"', "cannot be split into words: No closing quotation", ""),
        ('[[runs]]\ncommand = ["a", "\\u0000"]', "expected a string or a list of strings", ""),
        (RUN + 'variants = ["both"]', "variants cannot be used with command", ""),
        (SCENARIO + "module = true", "module cannot be used with scenario", ""),
        (SCENARIO + 'nvcc = "-lm"', "nvcc cannot be used with scenario", ""),
        (RUN + 'nvcc = "-lm"', "[[runs]] 1: --nvcc needs a .cu file as PROGRAM, not a", ""),
        ('[[runs]]\ncommand = "a.cu"\nnvcc = "-o x"', "--nvcc: -o cannot be used", ""),
        ('[[runs]]\ncommand = "a.cu"\nnvcc = "\'x"', "cannot be split into words: No closing quotation", ""),
        ('[[runs]]\nscenario = "ad2"', "[[runs]] 1: no scenario named 'ad2'", "did you mean 'add2'?"),
        (
            SCENARIO + 'variants = ["booth"]',
            "no variant named 'booth' in scenario 'add2'",
            "did you mean 'both'?",
        ),
        (SCENARIO + "variants = []", "invalid variants: expected at least one, each once", "variants: both"),
        (SCENARIO + 'variants = ["both", "both"]', "invalid variants: expected at least one, each once", ""),
        # parameters
        (
            RUN.replace("{n}", "{m}"),
            "[[runs]] 1: no parameter named 'm', used in '{m}'",
            "parameters: n, repeat, run_dir; write {{m}} for {m} itself",
        ),
        (RUN + 'env = { A = "{q}" }', "no parameter named 'q', used in '{q}'", ""),
        (RUN.replace("{n}", "5"), "'n' is not used", "write {n} in the command"),
        (SCENARIO + "grid = { k = [1] }", "'k' is not used", "in the arguments"),
        (RUN.replace("[1, 2]", "[]"), "[grid]: invalid n = []: expected a list with at least one value", ""),
        (
            RUN.replace("[1, 2]", "1"),
            "[grid]: invalid n = 1: expected a list with at least one value, for example [1, 2]",
            "",
        ),
        (
            RUN.replace("[1, 2]", "[1, [2]]"),
            "invalid n = [2]: expected a string, a number, true or false",
            "",
        ),
        (RUN.replace("[1, 2]", "[1979-05-27]"), 'invalid n = "1979-05-27": expected a string', ""),
        (RUN.replace("[1, 2]", "[nan]"), "invalid n = NaN: the number is not finite", ""),
        (RUN.replace("[1, 2]", f"[{2**64}]"), "does not fit into 64 bits", ""),
        (RUN.replace("[1, 2]", '["\\u0000"]'), "the string contains a zero byte", ""),
        (RUN.replace("[1, 2]", "[1, 2, 1]"), "[grid]: n = 1 occurs twice", "use repeat = N"),
        (RUN.replace("[1, 2]", '[1, "1"]'), "[grid]: n = 1 occurs twice", ""),
        (RUN.replace("n =", '"a b" ='), "invalid parameter name 'a b'", "starting with a letter"),
        (RUN.replace("n =", "repeat ="), "invalid parameter name 'repeat': nsyswrap sets this parameter", ""),
        (
            SCENARIO + 'grid = { variant = ["both"] }',
            "invalid parameter name 'variant': nsyswrap sets this parameter",
            "",
        ),
        (RUN + "points = []", "invalid points = []: expected a list with at least one table", ""),
        (RUN + "points = [{}]", "point 1: the point is empty", ""),
        (RUN + "points = [{n = 1}]", "point 1: n is in grid too", ""),
        (RUN + "points = [{a = 1}, {b = 1}]", "point 2: some points have no a, b", ""),
        (RUN + "points = [{a = 1, b = 2}, {b = 2, a = 1}]", "occurs twice", ""),
        (RUN + "repeat = 500_000", "1,000,000 runs are too many", "split the plan"),
        (RUN.replace("{n}", "{n} {repaet}"), "no parameter named 'repaet'", ""),
        (
            RUN + "[runs.slurm]\nnodes = '{nodes}'",
            "no parameter named 'nodes'",
            "parameters: n, repeat, run_dir",
        ),
        (RUN + "[runs.slurm]\nnodes = '{run_dir}'", "{run_dir} cannot be used in '{run_dir}'", ""),
        (RUN.replace("[1, 2]", '["{run_dir}"]'), "{run_dir} cannot be part of a value", ""),
        # ranks
        (RUN + "ntasks = 4", "ntasks = 4 needs a launcher", 'add launcher = "srun" or "torchrun"'),
        (RUN + "ntasks = '{n}'", "ntasks = 2 needs a launcher", ""),
        (
            "[slurm]\nn = 4\n" + RUN,
            "[slurm]: ntasks = 4 needs a launcher",
            'launcher = "srun" and ntasks = 4',
        ),
        (RUN + "launcher = 'srun'", "launcher needs ntasks", "ntasks = 8"),
        (RUN + "launcher = 'sbatch'\nntasks = 2", 'expected "srun" or "torchrun" or "mpirun"', ""),
        (
            RUN + "launcher = 'srun -n 4'\nntasks = 4",
            "launcher has -n: ntasks sets the number of ranks",
            "omit it",
        ),
        (RUN + "[require]\ngpus = 'H100'", "no key named 'gpus'", "gpu"),
        (RANKS + "ntasks = 0", "invalid ntasks = 0: expected a whole number, 1 or more, or a parameter", ""),
        (RANKS + "ntasks = '{n}.5'", "invalid ntasks = '1.5': expected a whole number", ""),
        (RANKS + "ntasks = 2\nprofiled_ranks = [2]", "profiled_ranks has rank 2, and ntasks is 2", "0 to 1"),
        (RANKS + "ntasks = 2\nprofiled_ranks = [1, 1]", 'expected "all", or a list of ranks, each once', ""),
        (RANKS + "ntasks = 2\ngpus = '{n}x'", "invalid gpus = '1x'", ""),
        (
            RANKS + "ntasks = 2\n[runs.slurm]\nntasks = 3",
            "ntasks = 3 is not that of the [[runs]], 2",
            "omit it",
        ),
        (
            TORCHRUN + "ntasks = 3\n[runs.slurm]\nnodes = 2",
            "nodes = 2: torchrun starts equally many of its 3 ranks",
            "divisor",
        ),
        (RUN + "profiled_ranks = [0]", "profiled_ranks needs a launcher", 'launcher = "srun"'),
        (SCENARIO + "launcher = 'srun'\nntasks = 2", "launcher cannot be used with scenario", ""),
        (SCENARIO + "profiled = false", "profiled = false cannot be used with scenario", ""),
        (
            '[[runs]]\ncommand = "srun a.py"',
            "nsys does not see the tasks that srun starts",
            "profiled = false",
        ),
        (
            '[[runs]]\ncommand = "mpirun a"\nlauncher = "srun"\nntasks = 2',
            "begins with mpirun",
            "omit mpirun",
        ),
        ('[node]\nwrapper = "mpirun -n 2"\n' + RUN, "wrapper begins with mpirun", 'launcher = "mpirun"'),
        ('[node]\nwrapper = "srun -n 4"\n' + RUN, "wrapper begins with srun", 'launcher = "srun"'),
        # what nsys and the environment do not take
        ('[nsys]\ntrace = "cuda,nvtxx"\n' + RUN, "invalid trace 'cuda,nvtxx': no value 'nvtxx'", "'nvtx'"),
        ('[nsys]\ntrace = "cuda, nvtx"\n' + RUN, "no value ' nvtx'", "commas alone"),
        (
            '[env]\n"MY VAR" = 1\n' + RUN,
            "invalid name of an environment variable: 'MY VAR'",
            "letters, digits",
        ),
        ("[env]\n1A = 1\n" + RUN, "invalid name of an environment variable: '1A'", ""),
        # Slurm
        ('[slurm]\narray = "1-3"\n' + RUN, "[slurm]: 'array' is set by nsyswrap", "max_running"),
        ('[slurm]\no = "x"\n' + RUN, "'o' is set by nsyswrap", "written to slurm/"),
        ("[slurm]\ntest_only = true\n" + RUN, "'test_only' is set by nsyswrap", "--dry-run"),
        ("[slurm]\ncpus_per_task = 4\n" + RUN, "no sbatch setting named 'cpus_per_task'", "cpus-per-task"),
        ("[slurm]\nrepeat = 4\n" + RUN, "no sbatch setting named 'repeat'", "head of the file"),
        ('[slurm]\n"--time" = 4\n' + RUN, "invalid sbatch setting '--time'", ""),
        ('[slurm]\n"" = 4\n' + RUN, "invalid sbatch setting ''", ""),
        ('[slurm]\npartition = ["gpu"]\n' + RUN, 'invalid partition = ["gpu"]: expected a string', ""),
        ('[slurm]\nexport = "a\\nb"\n' + RUN, "expected one printable line", ""),
        # no TOML
        (
            "name = 'a'\nrepeat = = 3\n" + RUN,
            "is not valid TOML: Invalid value (at line 2, column 10)",
            "toml.io",
        ),
        ("name = a\n", "is not valid TOML", "put strings in quotes"),
        (f"a = {'9' * 5000}", "is not valid TOML", ""),
        (f"a = {'[' * 100_000}", "is not valid TOML", ""),
    ],
)
def test_a_wrong_plan_says_what_is_wrong_and_what_is_right(
    tmp_path: Path, text: str, says: str, advises: str
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    error = failure(path)
    assert says in str(error)
    assert advises in error.hint


def test_what_is_no_file_to_read(tmp_path: Path) -> None:
    assert str(failure(tmp_path / "none.toml")) == f"plan {tmp_path}/none.toml not found"
    assert "Is a directory" in str(failure(tmp_path))
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"name = '\xe9'\n")
    assert "it is not UTF-8" in str(failure(latin))


def test_a_byte_order_mark_and_windows_lines_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_bytes(b"\xef\xbb\xbf" + RUN.replace("\n", "\r\n").encode())
    assert len(read_plan(path).specs) == 2


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(RUN)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(PlanError, match="the current folder cannot be used"):
        read_plan(path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["two words", "a\nb", "q'u\"o te"])
def test_a_file_with_an_odd_name_makes_a_name_on_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.toml"
    path.write_text(RUN)
    assert read_plan(path).name == name.replace("\n", " ")
