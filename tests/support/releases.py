"""What released versions of nsyswrap wrote, for tests that read it; and how to add that of another version:

    python tests/support/releases.py CHECKOUT --nsys /path/to/nsys

CHECKOUT has the version, for example a work tree of the commit of a release. Its files become
tests/data/releases/VERSION.tar.xz: a run of a program with NVTX ranges, a run with GPU work, a batch whose
third run was not begun, from 0.3.0 on a baseline, a plan, and the names of options, columns and Python.

nsys is a real one. In place of its export of the run with GPU work, and of those of the batch, nsyswrap finds
one that was recorded on a GPU. It is not packed.

Exports are trimmed and redacted. Names of the machine and its folders are replaced in all other files.
"""

import argparse
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

from checkouts import ROOT, unpack

RELEASES = ROOT / "tests" / "data" / "releases"
VERSIONS = tuple(sorted(path.name.removesuffix(".tar.xz") for path in RELEASES.glob("*.tar.xz")))
NVTX, GPU, BATCH, BASELINE = "nvtx", "gpu", "batch", "baseline.json"  # in an archive
PLAN, NAMES = "plan.toml", "names.json"
GPU_CAPTURE = ROOT / "nsyswrap" / "recorded" / "add2" / "none" / "report.sqlite"
NOT_BEGUN = 3  # run of the batch
SWEEP = ("batch", "sweep", "--trace", "nvtx", "--no-stats", "-p", "code=0,3,4")  # made in the folder /
KEPT = ("batch.json", "results.csv", "runs")  # of the folder of the batch
EXITS = ("sh", "-c", "exit {code}")  # the program of the sweep
PROGRAM = """
import time, nvtx
for step in range(5):
    with nvtx.annotate("step"):
        with nvtx.annotate("load"):
            time.sleep(0.002)
        time.sleep(0.001)
"""
# Its export of a run is replaced by one with GPU work where WITH_GPU names it.
NSYS = """#!/bin/sh
for word; do
  case $last in -o | --output) output=$word ;; esac
  case $word in --output=*) output=${{word#--output=}} ;; esac
  last=$word
done
{nsys} "$@"; code=$?
[ -n "$WITH_GPU" ] && [ -f "$output.sqlite" ] && cp "$WITH_GPU" "$output.sqlite"
exit $code
"""
STRINGS = """DELETE FROM StringIds WHERE id NOT IN (
SELECT textId FROM NVTX_EVENTS WHERE textId UNION SELECT nameId FROM PROFILER_OVERHEAD WHERE nameId)"""
# It prints the options of each command that is not hidden, and the public names of the package.
OPTIONS = """
import json, click, nsyswrap
from nsyswrap.cli import cli

def options(command, context, name):
    yield name, sorted(flag for one in command.params for flag in one.opts if flag.startswith("-"))
    for inner in command.list_commands(context) if isinstance(command, click.Group) else ():
        found = command.get_command(context, inner)
        if not found.hidden:
            yield from options(found, click.Context(found, parent=context), f"{name} {inner}")

commands = dict(options(cli, click.Context(cli), "nsyswrap"))
print(json.dumps({"options": commands, "python": nsyswrap.__all__}))
"""
COMMON = ("--trace", "nvtx", "--no-stats", "--discard-rep")
TABLES = {
    *("NVTX_EVENTS", "StringIds", "TARGET_INFO_SESSION_START_TIME", "META_DATA_EXPORT", "PROFILER_OVERHEAD"),
    *("ENUM_NSYS_EVENT_TYPE", "ENUM_NSYS_EVENT_CLASS"),
}


def unpacked(version: str, folder: Path) -> Path:
    """Write what a version wrote into a folder, with the capture of its run with GPU work."""
    unpack(RELEASES / f"{version}.tar.xz", folder)
    shutil.copy(GPU_CAPTURE, folder / GPU)
    return folder


def lay_batch(version: str, folder: Path) -> str:
    """Write the batch that a version began into a folder, and return its id."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(unpacked(version, Path(scratch)) / BATCH, folder)
    return str(json.loads((folder / "batch.json").read_text())["id"])


def main(checkout: Path, nsys: str) -> None:
    """Run the version, and pack what it writes."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = folder / "files"
        files.mkdir()
        (folder / "program.py").write_text(PROGRAM)
        (folder / "nsys").write_text(NSYS.format(nsys=nsys))
        (folder / "nsys").chmod(0o755)

        def python(*words: str | Path, gpu: bool = False) -> str:
            """Run Python with the version in the root folder: a plan depends on where it was made."""
            own = {"PYTHONPATH": str(checkout), "NSYSWRAP_NSYS": str(folder / "nsys")}
            own |= {
                name: str(folder / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
            }
            own |= {"WITH_GPU": str(GPU_CAPTURE)} if gpu else {}
            command = [sys.executable, *map(str, words)]
            done = subprocess.run(
                command, cwd="/", env={**os.environ, **own}, capture_output=True, text=True, check=False
            )
            print(*command, done.returncode, done.stderr, sep="\n")
            return done.stdout

        def run(*words: str | Path, gpu: bool = False) -> str:
            return python("-m", "nsyswrap", *words, gpu=gpu)

        version = run("--version").split()[-1].partition("+")[0]
        program = (sys.executable, folder / "program.py")
        run("profile", *COMMON, "-o", files / NVTX, *program)
        run("profile", *COMMON, "-o", files / GPU, *program, gpu=True)
        run(*SWEEP, "-o", files / BATCH, "--", *EXITS, gpu=True)
        run("baseline", "save", files / BASELINE, files / GPU)  # where there are baselines
        shutil.copy(checkout / "scenarios" / "add2.toml", files / PLAN)
        made = json.loads(run("report", files / GPU, "-r", "all", "--format", "json"))["reports"]
        columns = {
            one["name"]: [(column["name"], column["header"]) for column in one["columns"]] for one in made
        }
        names = {**json.loads(python("-c", OPTIONS)), "columns": columns}
        (files / NAMES).write_text(json.dumps(names))
        _trim(files / NVTX / "report.sqlite")
        _clean(files, {str(files): "/files", str(folder / "nsys"): "nsys", str(folder): "/scratch"})
        _pack(files, RELEASES / f"{version}.tar.xz")


def _trim(export: Path) -> None:
    """Leave what tells the NVTX ranges: the other tables list the processes of the machine."""
    with closing(sqlite3.connect(export)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if name not in TABLES:
                database.execute(f'DROP TABLE "{name}"')
        database.execute(STRINGS)
        database.commit()
        database.execute("VACUUM")
    redact = [sys.executable, "-m", "nsyswrap", "redact"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*redact, export, "-o", f"{export}.part"], env=environment, check=True)
    Path(f"{export}.part").replace(export)
    subprocess.run([*redact, "--check", export], env=environment, check=True)


def _clean(files: Path, names: dict[str, str]) -> None:
    """Remove what is not packed, what a run that was not begun lacks, and names of the machine."""
    unwanted = [path for path in files.glob(f"{BATCH}/*") if path.name not in KEPT]
    third = files.glob(f"{BATCH}/runs/{NOT_BEGUN:05}-*/*")
    captures = [*files.glob(f"{BATCH}/**/report.*"), *files.glob(f"{GPU}/report.*")]
    for path in {*unwanted, *captures, *(path for path in third if path.name != "spec.json")}:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    names |= {sys.executable: "python3", f'"{socket.gethostname()}"': '"node1"'}
    for path in files.rglob("*"):
        if path.is_file() and path.suffix != ".sqlite":
            text = path.read_text()
            for name, other in names.items():
                text = text.replace(name, other)
            path.write_text(text)


def _pack(files: Path, target: Path) -> None:
    """Write the archive; times and owners in it are the same for everybody."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    target.parent.mkdir(exist_ok=True)
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(files.iterdir()):
            archive.add(path, path.name, filter=plain)
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--nsys", required=True)
    main(**vars(parser.parse_args()))
