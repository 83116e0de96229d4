"""Every command where something else lies in the place of a file that it reads or writes, or beside it.

A FIFO, a file of terabytes, a link to a file of the user, a folder, an odd name, a journal that names a file.
The command answers or refuses, reads no such file without end, and leaves the files of the user alone.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, NamedTuple

from command_cases import CASES, THINGS, make_own, make_things
from waiting import PATIENCE_S

from fuzz.case import Case, no_problem
from fuzz.sql_files import naming_super_journal

if TYPE_CHECKING:
    Random = random.Random

CODES = (0, 1, 2, 65, 69, 70, 73, 78, 126, 127)
_VICTIMS = "victims"
_readers: list[subprocess.Popen[bytes]] = []
_TERABYTES = 3 << 40
_ODD_NAMES = (
    "line\nbreak",
    "\x1b[2J",
    "\u202egnp",
    "-o",
    "%n %s",
    "a" * 240,  # so that a journal can lie beside it
    b"\xff\xfe".decode("utf-8", "surrogateescape"),
)
# Not: what records with an nsys, or waits.
_COMMANDS = [
    case.words
    for case in CASES
    if not re.match(
        r"compare --run|batch wait|batch status --watch|run-folder|runs open|profile --nsys", case.words
    )
]


class Stand(NamedTuple):
    """What is put in the place of a file, or beside it."""

    name: str
    put: Callable[[Path, Path], object]


def _sparse(path: Path, _: Path) -> None:
    with path.open("ab") as file:
        file.truncate(_TERABYTES)


def _all_hole(path: Path, _: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, _TERABYTES)


def _replaced(make: Callable[[Path, Path], object]) -> Callable[[Path, Path], object]:
    def put(path: Path, victims: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        make(path, victims)

    return put


def _interrupted(path: Path, victims: Path) -> None:
    """Leave the journal of a transaction that was cut off, which names a file to delete."""
    journal = path.with_name(f"{path.name}-journal")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA cache_size = 2")
            db.execute("BEGIN")
            db.execute("CREATE TABLE more AS SELECT zeroblob(100000)")
            shutil.copy(journal, f"{journal}.kept")
            shutil.copy(path, f"{path}.kept")
        Path(f"{journal}.kept").replace(journal)
        Path(f"{path}.kept").replace(path)
    except (sqlite3.DatabaseError, OSError):  # no database
        journal.write_bytes(b"")
    with journal.open("ab") as file:
        file.write(naming_super_journal(victims / "file") * 2)


def _linked(target: str) -> Callable[[Path, Path], object]:
    """Return what puts a link in the place of a file; ``target`` is below the files of the user."""
    return _replaced(lambda path, victims: path.symlink_to(victims / target))


def _fifo(path: Path, _: Path) -> None:
    """Make a FIFO with a reader, which a command that writes into it would wait for."""
    os.mkfifo(path)
    command = ["timeout", str(PATIENCE_S), "cat", str(path)]
    _readers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def _end_readers() -> None:
    while _readers:
        _readers[-1].terminate()
        _readers.pop().wait()


STANDS = (
    Stand("a hole of terabytes behind it", _sparse),
    Stand("a hole of terabytes", _all_hole),
    Stand("a FIFO", _replaced(_fifo)),
    Stand("a folder", _replaced(lambda path, _: path.mkdir())),
    Stand("nothing", _replaced(lambda *_: None)),
    Stand("an empty file", _replaced(lambda path, _: path.touch())),
    Stand("random bytes", _replaced(lambda path, _: path.write_bytes(os.urandom(5000)))),
    Stand("a second name of a file", _replaced(lambda path, victims: path.hardlink_to(victims / "file"))),
    *(Stand(f"a link to {to}", _linked(to)) for to in ("file", ".", "nothing", "/dev/zero", "/dev/full")),
    Stand("a link to itself", _replaced(lambda path, _: path.symlink_to(path.name))),
    Stand(
        "a log of terabytes beside it", lambda path, _: _all_hole(path.with_name(f"{path.name}-wal"), path)
    ),
    Stand("a journal that names a file", _interrupted),
)


_IN_PLACE = STANDS[2:-2]  # also of a folder


@cache
def _template() -> Path:
    """Make the things once; each case copies them."""
    folder = Path(tempfile.mkdtemp(prefix="nsyswrap-hostile-"))
    (folder / "own").mkdir()

    def run(*words: str) -> None:
        command = [sys.executable, "-c", "from nsyswrap.cli import main; main()", *words]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        subprocess.run(command, cwd=folder / "own", check=True, capture_output=True, env=environment)

    make_own(folder / "own", run)
    (folder / "things").mkdir()
    make_things(folder / "things", folder / "own")
    return folder


def case(random: Random, folder: Path) -> Case:
    """Return a command on things of which one is hostile."""
    shutil.copytree(_template() / "own", folder, dirs_exist_ok=True)
    shutil.copytree(_template() / "things", folder / "things")
    victims = folder / _VICTIMS
    victims.mkdir()
    (victims / "file").write_text("years of work")
    words = random.choice(_COMMANDS)
    names = [name for _, name, _, _ in Formatter().parse(words) if name]
    thing = random.choice(names)
    target = folder / "things" / THINGS[thing]
    spelled = {name: f"things/{THINGS[name]}" for name in names}
    made = ""
    if random.random() < 0.2:
        odd = random.choice(_ODD_NAMES)
        if target.exists():
            target.rename(target.with_name(odd))
        target = target.with_name(odd)
        spelled[thing] = f"things/{odd}"
        made = f"{thing} is called {odd!r}; "
    inside = sorted(path for path in target.rglob("*") if path.is_file()) if target.is_dir() else []
    path = random.choice(inside) if inside and random.random() < 0.8 else target
    stand = random.choice(_IN_PLACE if path.is_dir() else STANDS)
    if path.exists() or stand.name.startswith(("a link", "a FIFO", "a folder")):
        stand.put(path, victims)
        made += f"{path.relative_to(folder / 'things')}: {stand.name}"
    argv = [word.format(**spelled) for word in words.split()]
    # An own link in an own folder is followed.
    inputs = [] if made.endswith("a link to file") else [victims / "file"]
    return Case(
        argv,
        inputs,
        no_problem,
        made,
        outputs=(folder,),
        codes=CODES,
        names_each=True,
        after=_end_readers,
    )
