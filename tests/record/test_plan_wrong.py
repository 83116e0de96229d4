"""Plan files with something wrong in them: each is told with file, place and what would be right."""

from pathlib import Path

import pytest

from nsyswrap.base.errors import PlanError
from nsyswrap.record.batch.plan import read_plan

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
