"""JSON and TOML that were damaged or edited: read as the declared types, or refused with the place."""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from nsyswrap.base import run_facts
from nsyswrap.base.files import parse_toml, read_json, read_toml, typed


@dataclass(frozen=True)
class Part:
    count: int
    share: float = 0.5


@dataclass(frozen=True)
class Whole:
    kind: Literal["a", "b"]
    note: str | None
    parts: tuple[Part, ...] = ()
    pair: tuple[str, int] = ("", 0)
    by_name: dict[str, list[int]] = field(default_factory=dict)


def test_values_are_read_as_the_declared_types() -> None:
    content = {
        "kind": "a",
        "note": None,
        "parts": [{"count": 1}, {"count": 2, "share": 3, "of a later version": 1}],
        "pair": ["x", -(2**63)],
        "by_name": {"n": [1, 2]},
    }
    assert typed(Whole, content) == Whole("a", None, (Part(1), Part(2, 3)), ("x", -(2**63)), {"n": [1, 2]})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kind", "c", "kind is 'c': expected one of a, b"),
        ("kind", ["a"], "kind is ['a']: expected one of a, b"),
        ("note", 1, "note is 1: expected text or null"),
        ("parts", {}, "parts is {}: expected a list"),
        ("parts", [[]], r"parts[0] is []: expected an object"),
        ("parts", [{}], "parts[0] has no 'count'"),
        ("parts", [{"count": True}], "parts[0].count is True: expected a whole number"),
        ("parts", [{"count": 1.0}], "parts[0].count is 1.0: expected a whole number"),
        ("parts", [{"count": 2**63}], "parts[0].count is 9223372036854775808: expected a whole number"),
        ("parts", [{"count": 1, "share": float("inf")}], "parts[0].share is inf: expected a number"),
        ("pair", ["x"], "pair has 1 values: expected 2"),
        ("by_name", {"n": [1, "2"]}, "by_name.n[1] is '2': expected a whole number"),
    ],
)
def test_another_type_is_refused_with_its_place(key: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        typed(Whole, {"kind": "a", "note": "", key: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 10_000, "4300"),
    ],
)
def test_json_with_two_meanings_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(tmp_path / "x.json")


def test_toml_begins_with_a_byte_order_mark_or_not() -> None:
    assert parse_toml(b"\xef\xbb\xbfa = 1") == parse_toml(b"a = 1") == {"a": 1}


def test_dots_that_are_no_key() -> None:
    path = "../" * 60 + "x"
    content = f"# {'.' * 118}\nargument = '{path}'\n'{'.' * 118}' = 1\n"
    assert parse_toml(content.encode()) == {"argument": path, "." * 118: 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a." * 100_000 + b"a = 1", "a key has more than 100 parts"),
        (b'x = {"a b"' + b'."a b"' * 100_000 + b" = 1}", "a key has more than 100 parts"),
        (b"#" * (4 << 20) + b"\n", "larger than 4 MiB"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"x = '\xff'", "can't decode byte 0xff"),
    ],
)
def test_toml_that_would_take_hours_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_toml(content)


def test_a_pipe_is_read_if_it_has_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_toml(tmp_path / "pipe") == {}
    held = os.open(tmp_path / "pipe", os.O_RDWR)  # a pipe without a reader cannot be opened for writing
    reader, writer = os.pipe()
    os.write(writer, b"a = 1")
    os.close(writer)
    assert read_toml(tmp_path.__class__(f"/dev/fd/{reader}")) == {"a": 1}
    os.close(reader)
    os.close(held)


def batch(**changes: Any) -> dict[str, Any]:
    run = {"number": 1, "folder": "00001-n=1", "key": "k", "active": True}
    return {
        "name": "sweep",
        "id": "x",
        "runs": [run, {**run, "number": 2, "folder": "b", "key": "l", **changes}],
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 1},
        {"number": 0},
        {"number": 2.0},
        {"folder": "00001-n=1"},
        {"folder": ".."},
        {"folder": "../../etc"},
        {"folder": "/etc"},
        {"folder": "x" * 300},
        {"folder": "\0"},
        {"key": "k"},
        {"active": 1},
    ],
)
def test_a_batch_of_impossible_runs_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "batch.json"
    path.write_text(json.dumps(batch()))
    assert [run.folder for run in run_facts.read_batch(tmp_path).runs] == ["00001-n=1", "b"]
    path.write_text(json.dumps(batch(**changes)))
    with pytest.raises(ValueError, match=r"number|folder|key|active"):
        run_facts.read_batch(tmp_path)
