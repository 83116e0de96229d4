"""Frozen data classes behave as those of the library do, in what the package asks of them."""

import dataclasses
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.base import records

PACKAGE = Path(records.__file__).parents[1]
STANDALONE = {"record/gpus.py"}  # run as a script, without the package


@records.dataclass(frozen=True)
class Point:
    """A point."""

    x: int
    names: tuple[str, ...] = ()
    hidden: int = dataclasses.field(default=0, compare=False, repr=False)


@records.dataclass(frozen=True, eq=False)
class Alone:
    """A point that equals itself alone."""

    x: int


@records.dataclass(frozen=True)
class Named:
    """A point with a text of its own."""

    x: int

    def __repr__(self) -> str:
        return "named"


def test_they_are_compared_hashed_shown_and_pickled_by_their_fields() -> None:
    point = Point(1, ("a",), 2)
    assert point == Point(1, ("a",), 3) == pickle.loads(pickle.dumps(point))  # noqa: S301 - ours
    assert hash(point) == hash(Point(1, ("a",), 3)) == hash((1, ("a",)))
    assert point != Point(2, ("a",))
    assert repr(point) == "Point(x=1, names=('a',))"
    assert dataclasses.replace(point, x=5) == Point(5, ("a",))
    assert Alone(1) != Alone(1)
    assert repr(Alone(1)) == "Alone(x=1)"
    assert repr(Named(1)) == "named"


@pytest.mark.parametrize("options", [{}, {"frozen": True, "slots": True}, {"frozen": True, "kw_only": True}])
def test_other_options_are_those_of_the_library(options: dict[str, Any]) -> None:
    decorator: Any = records.dataclass(**options)
    made = decorator(type("Made", (), {"__annotations__": {"x": int}}))(x=1)
    assert made == type(made)(x=1)
    if options:
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.x = 2


def test_the_package_takes_them_everywhere() -> None:
    slow = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    frozen = {
        path.relative_to(PACKAGE).as_posix(): text
        for path in PACKAGE.rglob("*.py")
        if "@dataclass(frozen=True" in (text := path.read_text(encoding="utf-8"))
    }
    assert len(frozen) > 50
    assert {name for name, text in frozen.items() if slow.search(text)} == STANDALONE
