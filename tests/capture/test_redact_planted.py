"""Redacting removes planted secrets from every place, and `--check` finds each of them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from planted import CODES, ENVIRONMENT, SECRETS, base_rows, plants
from sampled import sampled
from tiny_export import Row, write

from nsyswrap.base.sqlite import statement
from nsyswrap.capture.redact import check, redact, secrets_in

PLANTS = plants()
EVERY = [row for rows in PLANTS.values() for row in rows]


def left(raw: bytes) -> list[str]:
    """Return the secrets that the bytes hold, in any encoding and letter case."""
    small = raw.lower()
    return [secret for secret in SECRETS if any(secret.lower().encode(code) in small for code in CODES)]


def cells_with_secrets(path: Path) -> list[str]:
    """Return each cell that holds a secret, for the message of a failed test."""
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        tables = [name.decode() for (name,) in db.execute("SELECT name FROM sqlite_master")]
        rows = [
            (table, row) for table in tables for row in db.execute(statement("SELECT * FROM {t}", t=table))
        ]
    return [
        f"{table}: {cell[:200]!r}"
        for table, row in rows
        for cell in row
        if isinstance(cell, bytes) and left(cell)
    ]


def redacted(folder: Path, *rows: Row) -> Path:
    write(folder / "x.sqlite", *base_rows(), *rows, strings={1: ENVIRONMENT})
    redact(folder / "x.sqlite", folder / "copy.sqlite")
    return folder / "copy.sqlite"


def test_many_secrets_are_planted() -> None:
    assert len(EVERY) > 700
    assert left(ENVIRONMENT.encode("utf-16-be")) == [*SECRETS[:4], "Slartibartfast99"]


@sampled("place", PLANTS, fast=10)
def test_nothing_planted_in_a_place_survives(tmp_path: Path, place: str) -> None:
    copy = redacted(tmp_path, *PLANTS[place])
    assert cells_with_secrets(copy) == []
    assert left(copy.read_bytes()) == []
    assert secrets_in(copy) == []


def test_nothing_of_all_plants_together_survives(tmp_path: Path) -> None:
    copy = redacted(tmp_path, *EVERY)
    assert left(copy.read_bytes()) == []
    assert check(copy).secrets == ()
