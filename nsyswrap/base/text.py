"""Text that people read: without control characters, in ASCII where need be, short, and still different.

Also the names that a user may have meant by one that does not exist.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO

from nsyswrap.base.errors import Unreadable
from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

with lazy_imports():  # none of these for --help and completion
    import difflib
    import locale
    import pathlib
    import shlex
    import textwrap

    from rich import cells

    from nsyswrap.base import paths, run_folder

_ROUNDS = 4  # names that differ at several places need more than one pass
_SUFFIXES = {".sqlite", ".nsys-rep", ".qdrep", ".qdstrm"}
_CONTEXT = 3  # characters shown before the place where two names differ
# Patterns are compiled when they are first used: `re` keeps them.
# Of an absolute path. A slash after a bracket joins names, as in "step (0)/qkv" and "t<3>/u", and that of
# </b> ends one. The slash of a shell's redirection begins a path, as in "2>/home/me/log", and so does that
# of a folder with people or data behind any bracket, as in "[0]/home/me/x".
_FOLDERS = (
    r"(?<![\w./~-])(?:(?=/(?:home|homes|Users|root|tmp|mnt|scratch|lustre|gpfs|nfs)\d*/)"
    r"|(?<![)\]}])(?<![^\s\d&>]>)(?<![^\s&>]\d>)(?<![^\s\d&]>>))"
    r"(?!(?<=<)/[^\s/'\"<]*(?:[\s'\"<]|$))/(?=[^\s/])(?:[^\s/'\"]+/)*"
)
# Characters that move the cursor, break the line, change the direction of the text or are not seen, and the
# bytes of a file name that is not UTF-8.
_CONTROL = (
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# What GitHub's runner takes for a command, also behind blanks, and in either stream.
_COMMAND = r"(?m)^([^\S\n]*):(?=:)|#(?=#\[)"
_STYLE = "(?:[0124]|3[125])"  # of our screens
_STYLE_OR_CONTROL = rf"\x1b\[{_STYLE}(?:;{_STYLE})*m|{_CONTROL}"
_NOT_UTF8 = range(0xDC80, 0xDD00)  # how Python keeps the bytes from 0x80 on
_NARROW = "[ -~µ…\u00d7]*"
# Our own characters that are not ASCII. All others come from names.
_TO_ASCII = str.maketrans(
    {"…": "...", "→": "->", "µ": "u", "\u03bc": "u", "·": "-", "\u00d7": "x", "█": "#", "▒": "+", "░": "."}
)
_GLUE = "\x1f"  # no text that is printable has it, and textwrap does not break lines there
_NUMBER = r"0*([0-9]+)"  # in a name
_PLURAL = r"\b([a-z]+?)(ies|(?<=ss|ch|sh)es|s)\b"
_NO_BREAK = r"(?<=\d) (?=(?:%|[nuµm]?s|min|h|(?:[kMGTPE]i?)?B(?:/s)?)(?!\w))|(?<= -r) |(?<=\(-r) "
_MOST = 3  # suggestions
_WORSE = 0.05  # of the similarity, from 0 to 1: a name that much less similar than the best is left out
_in_ascii: ContextVar[bool] = ContextVar("in_ascii", default=False)


def printable(text: str, keep: str = "", *, colors: bool = False) -> str:
    """Write control characters as escapes: a name in a capture must not move the cursor.

    ``keep`` has those that stay. ``colors`` lets the styles of our own screens through.
    """

    def escaped(match: re.Match[str]) -> str:
        found = match.group()
        if len(found) > 1 or found in keep:
            return found
        code = ord(found)
        return chr(code - 0xDC00 if code in _NOT_UTF8 else code).encode("unicode_escape").decode()

    if not text.replace("\n" if "\n" in keep else "", "").isprintable():
        text = re.sub(_STYLE_OR_CONTROL if colors else _CONTROL, escaped, text)
    return as_ascii(text) if _in_ascii.get() else text


def quoted(word: str) -> str:
    """Return a word for bash. A line break, and what else does not print, is written as an escape."""
    if word.isprintable():
        return shlex.quote(word)
    plain = word.replace("\\", r"\\").replace("'", r"\'")
    return f"$'{printable(plain)}'"


def without_commands(text: str) -> str:
    """Write the beginnings of GitHub's workflow commands as escapes: ``::`` of a line, ``##[`` anywhere."""
    return re.sub(_COMMAND, lambda match: f"{match[1] or ''}\\x{ord(match[0][-1]):02x}", text)


def as_ascii(text: str) -> str:
    """Write our own characters as ASCII has them, by one table, and all others as escapes."""
    return text.translate(_TO_ASCII).encode("ascii", "backslashreplace").decode()


def is_utf8(stream: TextIO) -> bool:
    """Return True if the stream and the locale of who reads it are UTF-8.

    Python writes UTF-8 in the C locale too. PYTHONIOENCODING and PYTHONUTF8 outrank the locale.
    """
    asked = os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8") == "1"
    read_as = "utf8" if asked or os.name == "nt" else locale.nl_langinfo(locale.CODESET)
    encodings = (stream.encoding or "utf8", read_as)  # a StringIO has none
    return all(name.lower().replace("-", "").replace("_", "") == "utf8" for name in encodings)


@contextmanager
def ascii_layout(*, active: bool) -> Iterator[None]:
    """Shorten and measure the texts that are made in this block as ASCII, so that their columns fit."""
    token = _in_ascii.set(active)
    try:
        yield
    finally:
        _in_ascii.reset(token)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap a text without control characters to ``width`` columns.

    A number stays with its unit, and ``-r`` with the name of its report.

    ``indent`` precedes all lines but the first.
    """
    glued = re.sub(_NO_BREAK, _GLUE, text)
    lines = textwrap.wrap(glued, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_GLUE, " ") for line in lines]


def screen_width(text: str) -> int:
    """Return the number of columns that a text takes on a screen."""
    return len(text) if re.fullmatch(_NARROW, text) else cells.cell_len(text)


def counted(count: int, nouns: str) -> str:
    """Return a number with its noun, which is given in the plural: ``1 memory copy``, ``1,000 kernels``."""
    return f"{count:,} {re.sub(_PLURAL, _singular, nouns) if count == 1 else nouns}"


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """Return the first ``most`` texts, and how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def replaced_note(count: int) -> str:
    """Return the sentence that so many names are not written as they are."""
    return f"{counted(count, 'names')} written with 'redacted' in place of credentials and of people's names"


def _singular(match: re.Match[str]) -> str:
    return f"{match[1]}y" if match[2] == "ies" else match[1]


def natural_key(path: Path | str) -> tuple[str, str]:
    """Return a key that sorts names and paths with their numbers by value: report.2 before report.10."""
    whole = str(path)
    folders_first = whole.replace(os.sep, "\0")  # a folder comes before those that begin like it
    key = re.sub(_NUMBER, lambda number: f"{len(number[1]):05}{number[1]}", folders_first)
    return key, whole  # 2 and 02 have an order, too


def without_folders(text: str) -> str:
    """Return a text in which absolute paths are the names of their files alone."""
    return re.sub(_FOLDERS, "", text)


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to ``width`` columns of a screen; different names stay different.

    A name gets a number if shortening leaves it equal to another one.
    """
    plain = {name: _without_parameters(name) for name in names}
    if len(set(plain.values())) < len(plain):  # some differ in their parameters only
        plain = {name: name for name in names}
    short = {name: shorten(text, width) for name, text in plain.items()}
    for _ in range(_ROUNDS):
        for group in alike(short):
            parting = _parting([plain[name] for name in group])
            short.update({name: _from(plain[name], parting, width) for name in group})
    for number, name in enumerate([name for group in alike(short) for name in group], 1):
        short[name] = f"{clip(short[name], width - len(f'~{number}'))}~{number}"
    return [short[name] for name in names]


def _parting(texts: Sequence[str]) -> int:
    """Return the first index at which the texts differ."""
    first, last = min(texts), max(texts)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


def alike(short: Mapping[str, str]) -> list[list[str]]:
    """Return groups of names that are equal when shown."""
    if len(set(short.values())) == len(short):
        return []
    groups: dict[str, list[str]] = defaultdict(list)
    for name, text in short.items():
        groups[text].append(name)
    return [group for group in groups.values() if len(group) > 1]


def shorten(name: str, width: int) -> str:
    """Shorten a name to ``width`` columns by cutting its middle: kernel names differ at either end."""
    if screen_width(name) <= width:
        return name
    mark = ellipsis()[:width]
    room = width - len(mark)
    head = room * 2 // 3
    return f"{_first(name, head)}{mark}{_last(name, room - head)}"


def clip(text: str, width: int) -> str:
    """Cut a text to ``width`` columns; an ellipsis marks the cut."""
    mark = ellipsis()[:width]
    return text if screen_width(text) <= width else f"{_first(text, width - len(mark))}{mark}"


def ellipsis() -> str:
    """Return the mark of a cut."""
    return as_ascii("…") if _in_ascii.get() else "…"


def _first(text: str, width: int) -> str:
    """Return the longest beginning of ``width`` columns: East Asian characters take two columns."""
    part = text[: max(width, 0)]
    while part and (excess := screen_width(part) - width) > 0:
        part = part[: -((excess + 1) // 2)]
    return part


def _last(text: str, width: int) -> str:
    part = text[max(len(text) - width, 0) :]
    while part and (excess := screen_width(part) - width) > 0:
        part = part[(excess + 1) // 2 :]
    return part


def _from(name: str, parting: int, width: int) -> str:
    """Return the beginning of a name, an ellipsis, and the part where it differs from similar names."""
    head = _first(name, width // 3)
    return clip(f"{head}{ellipsis()}{name[max(len(head), parting - _CONTEXT) :]}", width)


def _without_parameters(name: str) -> str:
    """Remove the return type `void` and the parameter list from a demangled name."""
    name = name.removeprefix("void ")
    if not name.endswith(")"):
        return name
    depth = 0
    for i in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[i], 0)
        if depth == 0:
            return name if name[i - 1] == " " else name[:i]  # "NVIDIA H200 (0)" is not a function
    return name


def shortest_labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest labels that distinguish captures: a and b for ``runs/a`` and ``runs/b``.

    A repeated path gets a number: a, a (2).
    """
    exact = [pathlib.Path(os.path.abspath(path)).parts for path in paths]  # noqa: PTH100 - resolve() would follow symbolic links
    different = len(set(exact))
    short = [_without_file(_given(path)) for path in paths]
    # The last parts that all paths have in common are left out, while every path keeps one part.
    while different > 1 and len({parts[-1] for parts in short}) == 1 < min(map(len, short)):
        short = [parts[:-1] for parts in short]
    labels = _shortest_different(short, different) or _shortest_different(exact, different)
    return _numbered([os.fsencode(label).decode("utf-8", "backslashreplace") for label in labels])


def _given(path: Path) -> tuple[str, ...]:
    """Return the parts of a path as the user gave it; ``.`` and ``..`` become absolute paths."""
    plain = os.path.normpath(path)
    return pathlib.Path(os.path.abspath(path) if plain.startswith(".") else plain).parts  # noqa: PTH100 - as above


def _without_file(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the run folder of a capture in one; otherwise the path without the suffix of a capture."""
    *folders, name = parts
    if name in (run_folder.EXPORT, run_folder.REPORT) and folders not in ([], [os.sep]):
        return tuple(folders)
    path = pathlib.Path(name)
    return (*folders, path.stem if path.suffix in _SUFFIXES else name)


def _shortest_different(paths: Sequence[tuple[str, ...]], different: int) -> list[str]:
    """Join as few last parts as give ``different`` labels; empty if even all parts do not."""
    for count in range(1, max(map(len, paths), default=0) + 1):
        names = ["/".join(parts[-count:]) for parts in paths]
        if len(set(names)) == different:
            return names
    return []


def _numbered(names: Sequence[str]) -> list[str]:
    made: dict[str, None] = {}  # keeps the order
    for name in names:
        again = (f"{name} ({number})" for number in range(2, len(names) + 2))
        made[name if name not in made else next(label for label in again if label not in made)] = None
    return list(made)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean 'x' or 'y'?`` with the most similar other names, or an empty text."""
    spelled = {one.casefold(): one for one in names if one != name}
    close = difflib.get_close_matches(name.casefold(), spelled, _MOST)
    likeness = [difflib.SequenceMatcher(None, one, name.casefold()).ratio() for one in close]
    kept = [
        repr(spelled[one])
        for one, ratio in zip(close, likeness, strict=True)
        if ratio > max(likeness) - _WORSE
    ]
    return f"did you mean {' or '.join(kept)}?" if kept else ""


def did_you_mean_file(path: Path) -> str:
    """Return ``did you mean 'name'?`` for a path that does not exist, with names in the same folder."""
    try:
        return did_you_mean(path.name, paths.names(path.parent))
    except Unreadable:
        return ""


def unknown(kind: str, name: str, names: Iterable[str], otherwise: str = "") -> tuple[str, str]:
    """Return the message for a name that does not exist, and a hint.

    The hint has similar names, or else ``otherwise``, by default all names.
    """
    names = list(names)
    otherwise = otherwise or f"{kind}s: {' '.join(names)}"
    return f"no {kind} named {name!r}", did_you_mean(name, names) or otherwise
