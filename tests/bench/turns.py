"""Run contenders in turn, and compare what they wrote the first time."""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from answers import check_numbers, check_same
from contenders import PANDAS, Contender, environment
from measure import Cost, measured


@dataclass(frozen=True)
class Exports:
    """What is read: an export, and the same with NVTX ranges."""

    plain: Path
    ranges: Path


def timed(
    contenders: Sequence[Contender], exports: Exports, rounds: int, scratch: Path
) -> dict[str, list[Cost]]:
    """Run each in turn, ``rounds`` times over, so that what else the machine does hits all alike.

    Raises CheckFailed where two that write the same reports do not agree.
    """
    costs: dict[str, list[Cost]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        with tempfile.TemporaryDirectory(dir=scratch) as of_round:
            folders = {one.name: Path(of_round, str(place)) for place, one in enumerate(contenders)}
            for place, contender in enumerate(contenders, 1):
                folder = folders[contender.name]
                cost = _run(contender, exports, folder)
                _say(contender.name, cost)
                costs[contender.name].append(cost)
                if not number and contender.same_as in folders:
                    _check(contender, folders[contender.same_as], folder)
                if contender.name not in {later.same_as for later in contenders[place:]}:
                    shutil.rmtree(folder)  # a round of all parts writes gigabytes
    return costs


def _run(contender: Contender, exports: Exports, folder: Path) -> Cost:
    folder.mkdir()
    export = exports.ranges if contender.ranges else exports.plain
    argv = contender.argv(Path(shutil.copy(export, folder)) if contender.own_copy else export, folder)
    before = _bytes_in(folder)
    cost = measured(argv, environment())
    return replace(cost, written_bytes=_bytes_in(folder) - before)


def _say(name: str, cost: Cost) -> None:
    """Say at once what a run took: whoever stops an hour of measuring keeps these lines."""
    print(
        f"tests/bench: {name}: {cost.wall_s:.3f} s, CPU {cost.cpu_s:.3f} s, {cost.peak_bytes / 1e6:,.0f} MB",
        file=sys.stderr,
    )


def _bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def _check(contender: Contender, theirs: Path, ours: Path) -> None:
    check = check_numbers if contender.name == PANDAS else check_same
    for report in contender.reports:
        check(theirs / f"x_{report}.csv", ours / f"{report}.csv")
