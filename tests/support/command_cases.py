"""A case of every command with {NAME} for each thing that it reads or writes, and a folder of such things."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from compared_runs import make_repeats, make_run
from releases import lay_batch

UNREAD, UNWRITTEN, USAGE, PLAN, NO_TOOL, EXECUTED = (65,), (73,), (2,), (78,), (69,), (126, 127)
THINGS = {
    "run": "run",
    "repeats": "repeats",
    "folder": "folder",
    "batch": "batch",
    "planned": "batch/runs/00002-code=3",
    "tables": "tables_parquetdir",
    "capture": "x.sqlite",
    "report": "x.nsys-rep",
    "recording": "x.qdstrm",
    "baseline": "base.json",
    "plan": "plan.toml",
    "program": "program.py",
    "source": "x.cu",
    "tool": "tool",
    "rules": "rules.toml",
    "file": "file.out",
    "picture": "x.png",
    "page": "page.html",
    "new": "new",
}


class Case(NamedTuple):
    """A command with {NAME} for each thing at a forbidden place, and the exit codes that it may have."""

    words: str
    codes: tuple[int, ...]


def reading(things: str, *commands: str, codes: tuple[int, ...] = UNREAD) -> list[Case]:
    """Return a case of each command for each of these things, which stands for {} or at the end."""
    spelled = [command if "{}" in command else f"{command} {{}}" for command in commands]
    return [Case(one.replace("{}", f"{{{thing}}}"), codes) for thing in things.split() for one in spelled]


def writing(*commands: str) -> list[Case]:
    return [Case(command, UNWRITTEN) for command in commands]


CASES = [
    *reading("report recording tables folder", "report", "view -o out", "collect -o out", "compare own"),
    *reading(
        "run capture",
        "report",
        "report -r cuda_gpu_kern_sum",
        "report --by rank",
        "report --list",
        "view -o out",
        "view --by rank -o out",
        "plot -o out",
        "export --perfetto out.json",
        "export --parquet out",
        "export --flamegraph out",
        "export --metrics openmetrics",
        "doctor",
        "collect -o out",
        "compare own",
        "baseline save out.json",
        "baseline history base.json -o out",
    ),
    *reading("run capture tables folder", "redact --check", "redact {} -o out", codes=(*UNREAD, *USAGE)),
    *reading("repeats batch", "report", "collect -o out", "compare own", "view -o out"),
    *reading("run repeats batch folder", "runs open"),
    *reading(
        "batch folder",
        "batch wait",
        "batch status",
        "batch status --watch",
        "batch cancel",
        codes=(*UNREAD, *UNWRITTEN),  # not a batch
    ),
    *reading("baseline", "baseline show", "compare own", "export --metrics openmetrics"),
    *reading("baseline", "baseline history base.json -o out"),
    *reading("folder", "baseline list", codes=(0, *UNREAD)),  # none there
    Case("report own --classes {rules}", USAGE),
    Case("batch run {plan} --dry-run", (*PLAN, *USAGE)),
    Case("run-folder {planned}", UNWRITTEN),
    Case("profile --dry-run {program}", EXECUTED),
    Case("profile --dry-run -- {tool}", EXECUTED),
    Case("session launch {program}", EXECUTED),
    Case("session record --session {folder}", USAGE),
    Case("session stop --session {folder}", USAGE),
    Case("profile --dry-run {source}", EXECUTED),
    Case("profile --nsys {tool} program.py", NO_TOOL),
    Case("compare --run 3 -- {program} -- {program}", EXECUTED),
    *writing(
        "report own -o {file}",
        "report own --csv {folder} -r gpu_time",
        "report own --format parquet -o {folder} -r gpu_time",
        "view own -o {page}",
        "view own --force -o {page}",
        "plot own -o {folder} --kind timeline",
        "plot own --force -o {folder} --kind timeline",
        "export own --perfetto {file}",
        "export own --perfetto {file} --force",
        "export own --parquet {folder}",
        "export own --parquet {folder} --force",
        "export own --flamegraph {file}",
        "export own --metrics openmetrics -o {file}",
        "redact own -o {file}",
        "collect own -o {folder}",
        "compare own own2 --anyway -o {file}",
        "compare own own2 --anyway --view {file}",
        "compare own own2 --anyway --plot {picture}",
        "baseline save {baseline} own",
        "baseline save --force {baseline} own",
        "baseline history base.json base2.json -o {file}",
    ),
    Case("batch run plan.toml --dry-run -o {batch}", (0, *UNWRITTEN)),
    Case("batch sweep --dry-run -o {batch} -p n=1,2 -- program.py {{n}}", (0, *UNWRITTEN)),
    Case("scenarios run add --csv {file} -o {new}", (*NO_TOOL, *UNWRITTEN)),
]
RECORDING = writing(  # with an nsys
    "profile -o {new} program.py",
    "profile --csv {file} -o out program.py",
    "session launch -o {new} program.py",
    "profile --force -o {run} program.py",
    "profile --repeat 2 -o {repeats} program.py",
    "compare --run 3 --into {folder} -- program.py -- program.py",
    "batch run plan.toml -o {batch}",
)


def make_own(folder: Path, run: Callable[..., object]) -> None:
    """Make captures of one's own, a program, a plan and two baselines, which ``run(*words)`` saves."""
    make_run(folder / "own")
    make_run(folder / "own2")
    (folder / "program.py").write_text("print(45)\n")
    (folder / "plan.toml").write_text('name = "n"\n[[runs]]\ncommand = ["program.py"]\n')
    for name in ("base.json", "base2.json"):
        run("baseline", "save", name, "own")


def make_things(folder: Path, own: Path) -> None:
    """Make each of THINGS but ``new`` in a folder. ``own`` is what ``make_own`` made."""
    make_run(folder / "run")
    make_repeats(folder / "repeats", (40, 40))
    make_run(folder / "folder" / "run")
    lay_batch("0.1.0", folder / "batch")
    for name in ("x.sqlite", "x.nsys-rep", "x.qdstrm"):
        shutil.copy(own / "own" / "report.sqlite", folder / name)
    (folder / "tables_parquetdir").mkdir()
    for name in ("base.json", "plan.toml", "program.py"):
        shutil.copy(own / name, folder)
    for name in ("rules.toml", "tool", "x.cu", "file.out", "x.png", "page.html"):
        (folder / name).write_text("")
    (folder / "tool").chmod(0o755)
