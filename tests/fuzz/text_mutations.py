"""Mutations of a small text file: of its bytes, of its JSON or TOML values, and of what lies in its place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    _Make = Callable[[Random, bytes], "Mutation"]

HUGE = 10_000_000  # bytes
DEEP = 100_000  # levels
# Values as JSON writes them; TOML has most of them, too.
ODD = (
    *("null", "true", "false", "0", "-1", "1", "1.0", "1.5", "-1e9", "1e999", "NaN", "Infinity", "-Infinity"),
    *("1e9", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *(f"1{'0' * 400}", f"1{'0' * 5000}", '""', '"x"', '"1"', '"done"', '"\\u001b[2J\\u202e"', '"\\ud800"'),
    *('"a\\u0000b"', '"../.."', '"/"', '"/etc/passwd"', '"."', '"99999-12-31T00:00:00"', "[]", "{}", "[[]]"),
    *('{"a":{"b":[1,null]}}', "[1,2,3]", '["x"]', "[null]", "[{}]", '"' + "x" * 70_000 + '"'),
    *(
        "1_000",
        "inf",
        "-nan",
        "0x10",
        "1979-05-27T07:32:00Z",
        "'''x'''",
        "{ a = 1 }",
        "[-1]",
        '"1-999999999"',
    ),
)
_TEXTS = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    "\u202e".encode(),
    b"\r",
    b"\xef\xbb\xbf",
    b"\n\n",
    b'"',
)
_VERSIONS = ("0", "1", "2", "3", "99", '"x"', "-1", "1e9", "null", "2.0", "3.0", "true")


class Mutation(NamedTuple):
    """What lies in the place of a file: its ``content``, or None for what ``put`` makes there instead."""

    made: str
    content: bytes | None
    put: Callable[[Path], object]
    is_harmless: bool = False


def mutation(random: Random, content: bytes, suffix: str) -> Mutation:
    """Return a mutation of a file of this content. ``suffix`` tells what it holds: .json, .jsonl, .toml."""
    of_bytes: list[_Make] = [_flipped, _truncated, _spliced, _encoded, _inserted, _flooded]
    of_values: list[_Make] = (
        [_with_odd_json, _with_other_keys, _laid_out] if suffix == ".json" else [_with_odd_value]
    )
    replaced: list[_Make] = [_replaced]
    kinds = random.choices((of_bytes, of_values, replaced), (4, 8, 1))[0]
    return random.choice(kinds)(random, content)


def _bytes(made: str, content: bytes, *, is_harmless: bool = False) -> Mutation:
    return Mutation(made, content, lambda path: path.write_bytes(content), is_harmless)


def _flipped(random: Random, content: bytes) -> Mutation:
    raw = bytearray(content or b"\0")
    places = [random.randrange(8 * len(raw)) for _ in range(random.choice((1, 1, 2, 8)))]
    for place in places:
        raw[place // 8] ^= 1 << place % 8
    return _bytes(f"bits {places} flipped", bytes(raw))


def _truncated(random: Random, content: bytes) -> Mutation:
    end = random.choice((0, random.randrange(len(content) + 1)))
    return _bytes(f"cut off at byte {end}", content[:end])


def _spliced(random: Random, content: bytes) -> Mutation:
    first, last, at = sorted(random.randrange(len(content) + 1) for _ in range(3))
    if random.random() < 0.5:
        return _bytes(f"bytes {first} to {last} removed", content[:first] + content[last:])
    part = content[first:last]
    return _bytes(f"bytes {first} to {last} again at {at}", content[:at] + part + content[at:])


def _inserted(random: Random, content: bytes) -> Mutation:
    at, text = random.randrange(len(content) + 1), random.choice(_TEXTS)
    return _bytes(f"{text!r} at byte {at}", content[:at] + text + content[at:])


def _encoded(random: Random, content: bytes) -> Mutation:
    to = random.choice(("utf-16", "utf-16-be", "utf-32", "utf-8-sig", "utf-7", "latin-1"))
    return _bytes(f"in {to}", content.decode().encode(to, "backslashreplace"))


def _flooded(random: Random, content: bytes) -> Mutation:
    kinds = {
        "brackets": b"[" * DEEP,
        "braces": b'{"a":' * DEEP,
        "TOML brackets": b"x = " + b"[" * DEEP,
        "closed brackets": b"[" * 900 + b"]" * 900,
        "dotted keys": b"a." * DEEP + b"a = 1",
        "quoted dotted keys": b'"a b".' * DEEP + b"a = 1",
        "zeros": bytes(HUGE),
        "blanks": content + b" " * HUGE,
        "lines": content + b"\n# x" * (HUGE // 4),
        "one text": b'"' + b"x" * HUGE + b'"',
        "one number": b"1" * HUGE,
        "many values": b"[" + b"1," * (HUGE // 20) + b"1]",
        "the file many times": content * (HUGE // 10 // max(len(content), 1)),
    }
    made = random.choice(list(kinds))
    return _bytes(f"flooded by {made}", kinds[made], is_harmless=made == "blanks" and content[:1] == b"{")


def _replaced(random: Random, _content: bytes) -> Mutation:
    places: dict[str, Callable[[Path], object]] = {
        "nothing": lambda _: None,
        "a folder": lambda path: path.mkdir(),
        "a pipe": os.mkfifo,
        "a link to itself": lambda path: path.symlink_to(path.name),
        "a broken link": lambda path: path.symlink_to("nowhere"),
        "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
        "a link to its folder": lambda path: path.symlink_to("."),
    }
    made = random.choice(list(places))
    return Mutation(f"{made} in its place", None, places[made])


def _with_odd_json(random: Random, content: bytes) -> Mutation:
    """Replace one value by an odd one."""
    document = json.loads(content)
    path, holder, key = random.choice(list(_places(document)))
    odd = random.choice(_VERSIONS if key == "format" else ODD)
    holder[key] = "\0odd"
    text = json.dumps(document).replace('"\\u0000odd"', odd)
    return _bytes(f"{path} = {odd[:60]}", text.encode())


def _with_other_keys(random: Random, content: bytes) -> Mutation:
    """Remove, add or repeat a key, or an entry of a list."""
    document = json.loads(content)
    path, holder, key = random.choice(list(_places(document)))
    what = random.choice(("removed", "repeated", "renamed"))
    value = holder[key]
    if what == "removed":
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, value)
    elif what == "renamed":
        del holder[key]
        holder[random.choice(("", "x", key + " ", key.upper(), "__class__"))] = value
    else:
        holder["\0again"] = random.choice((value, None, 1, "x"))
        return _bytes(f"{path} {what}", json.dumps(document).replace("\\u0000again", key).encode())
    return _bytes(f"{path} {what}", json.dumps(document).encode())


def _laid_out(random: Random, content: bytes) -> Mutation:
    """Write the same values in another layout or order."""
    document = json.loads(content)
    indent = random.choice((None, 0, 7))
    text = json.dumps(_shuffled(random, document), indent=indent, ensure_ascii=random.random() < 0.5)
    return _bytes("laid out anew", text.encode() + random.choice((b"", b"\n\n")), is_harmless=True)


def _shuffled(random: Random, value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return [_shuffled(random, one) for one in value]
    if not isinstance(value, dict):
        return value
    keys = random.sample(list(value), len(value))
    return {key: _shuffled(random, value[key]) for key in keys}


def _with_odd_value(random: Random, content: bytes) -> Mutation:
    """Replace, repeat or remove a line of TOML or JSON lines, or the value in it."""
    lines = content.decode().splitlines()
    number = random.choice([i for i, line in enumerate(lines) if line.strip()])
    what = random.choice(("value", "value", "value", "removed", "repeated", "name"))
    odd = random.choice(ODD)
    if what == "value":
        found = random.choice([*re.finditer(r'"(?:[^"\\]|\\.)*"|[-+.\w]+|\[[^\]]*\]', lines[number])])
        lines[number] = lines[number][: found.start()] + odd + lines[number][found.end() :]
    elif what == "name":
        lines[number] = re.sub(
            r"^[\w.\"]+", random.choice(("x", "a.b", '""', "runs", "a" * 300)), lines[number]
        )
    else:
        lines[number : number + 1] = [lines[number]] * (2 if what == "repeated" else 0)
    text = "\n".join(lines) + "\n"
    return _bytes(f"line {number + 1}: {what}{f' {odd[:60]}' * (what == 'value')}", text.encode())


def _places(value: Any, path: str = "") -> Any:  # noqa: ANN401 - any JSON
    """Yield the path, the list or object and the key of every value in a document."""
    if isinstance(value, (dict, list)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield f"{path}/{key}", value, key
            yield from _places(one, f"{path}/{key}")
