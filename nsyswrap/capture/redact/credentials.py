"""Find credentials and addresses in a text, by the name of a value, by its place, or by its format.

First a text is searched for hints, which most texts lack. All repetitions in patterns are bounded, so that no
text takes more than linear time.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.redact import credential_places, token_formats
from nsyswrap.capture.redact.one_of import one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.capture.redact.secret_names import Demand

with lazy_imports():  # its patterns take a while to be made
    from nsyswrap.capture.redact import secret_names

# Parts of the names of secrets.
HINTS = (
    *("pass", "pwd", "psw", "secret", "token", "jwt", "bearer", "key", "cred", "auth", "cookie", "sess"),
    *("mnemonic", "phrase", "webhook", "assertion", "samlresponse", "ticket"),
    *("kennwort", "contrase", "senha", "wachtwoord", "parola", "lösenord", "hasło"),
)
ENDS = ("pw", "sid", "sig", "signature", "psk", "pat", "otp")  # hints before no letter, unlike "sigmoid"
_SHORTEST = 8  # characters of a text with a credential
_CACHED = 500  # characters of a text whose shape is remembered
_QUOTE = r"\\{0,4}[\"'`]"
_SPACES = r"[ \t]{0,8}"
# A name, and what stands between it and its value: an assignment, a pair of quoted texts, a call, an element
# of XML, or spaces after an option.
_NAMED = re.compile(
    rf"(?<![\w.-])(?P<dash>-{{0,2}})(?P<name>[A-Za-z_][\w.-]{{0,80}})(?P<between>"
    rf"(?:{_QUOTE})?\]?{_SPACES}(?:=>|:=|={{1,2}}|:(?!:)){_SPACES}"
    rf"|{_QUOTE}{_SPACES},{_SPACES}(?={_QUOTE})|\({_SPACES}(?={_QUOTE})|>(?=[^<>\s])|\s{{1,4}}(?:(?:is|was)\s{{1,4}})?(?![-=:]))"
)
_SETTER = re.compile(r"\b(?:setenv|setx|set|env)\s{1,4}(?:-{1,2}\w{1,20}\s{1,4}){0,2}$", re.IGNORECASE)
_OPTION = re.compile(r"(?:^|[\s\"'\[,(=])$")  # what stands before the dashes of an option
_VERBS = ("is", "was")
_BEFORE = 60  # characters before a name that tell about it
_MARKS = ("'", '"')
_QUOTED = (
    r"(?:[bruf]{1,2}(?=[\"']))?(?:\"(?P<double>[^\"\\\0]{0,4000}(?:\\.[^\"\\\0]{0,4000}){0,400})\""
    r"|'(?P<single>[^'\\\0]{0,4000}(?:\\.[^'\\\0]{0,4000}){0,400})'|`(?P<back>[^`\0]{1,4000})`"
    r"|\\{1,4}[\"'](?P<escaped>[^\"'\\\0]{0,4000}(?:\\(?!\\{0,3}[\"'])[^\"'\\\0]{0,4000}){0,400})"
)
_IN_BARE = r"[^\s\"'`&,;<>\0\\]"
_BARE = rf"{_IN_BARE}{{1,4000}}(?:\\(?![nrt0\"'`\\]){_IN_BARE}{{0,4000}}){{0,40}}"
_VALUE = re.compile(rf"{_QUOTED}|[\"'`]?(?P<bare>{_BARE}))", re.DOTALL)
_RANDOM_VALUE = re.compile(rf"{_QUOTED}|[\"'`]?(?P<bare>[\w+/.~%-]{{1,1000}}={{0,2}}))", re.DOTALL)
_ENTRY = re.compile(  # {"name": "DB_PASSWORD", "value": "..."}, and the same in YAML and XML
    rf"(?:{_QUOTE})?(?P<name>[\w.-]{{1,80}})(?:{_QUOTE})?(?:\s|\\[nrt]|[,;]){{1,20}}(?:{_QUOTE})?value(?:{_QUOTE})?"
    rf"{_SPACES}[:=]{_SPACES}",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"[)\]}.:](?:$|(?<=[)\]}])(?=[)\]}.:]))")  # of a sentence or a call around a bare value
_KEY_AGAIN = re.compile(rf"{_QUOTE}{_SPACES}[:=]")  # the second of two quoted texts is a key itself


def find(text: str) -> list[tuple[int, int]]:
    """Return start and end of each credential and address in a text, in order and apart from each other."""
    shape = token_formats.shape_of(text)
    if len(text) < _SHORTEST or not may_hold(shape):
        return []
    found = list(credential_places.after_marks(text, shape))
    if token_formats.has_beginning(shape):
        found += token_formats.tokens(text)
    small = text.lower()
    if _has_word(small):
        found += _named_values(text)
        found += credential_places.after_words(text, small)
    spans: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans


def may_hold(shape: str) -> bool:
    """Return True if a text of this shape can hold a credential. All digits of a shape are 0."""
    if shape.startswith("_Z") and shape.isidentifier():  # a mangled name, of which there are many
        return False
    return (_has_hint if len(shape) <= _CACHED else _has_hint.__wrapped__)(shape)


@lru_cache(maxsize=1 << 14)
def _has_hint(shape: str) -> bool:
    return bool(
        _has_word(shape.lower()) or token_formats.has_beginning(shape) or credential_places.has_mark(shape)
    )


def _has_word(small: str) -> bool:
    words, ends = _hints()
    return bool(words.search(small) or ends.search(small))


@cache
def _hints() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns; one for both would not begin with the search for a few first letters."""
    words = {
        word for hint in (*HINTS, *credential_places.HINTS) for word in (hint, token_formats.shape_of(hint))
    }
    return (
        re.compile(one_of(words, max(map(len, words)))),
        re.compile(rf"{one_of(ENDS, max(map(len, ENDS)))}(?![a-z])"),
    )


def _named_values(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    while match := _NAMED.search(text, position):
        position = match.end()
        name = match["name"]
        if name.lower() in ("name", "key") and (entry := _ENTRY.match(text, position)):
            name, position = entry["name"], entry.end()
        demand = secret_names.demand_of(name)
        demand = demand and _demand_after(match, text, demand)
        span = demand and _value(_RANDOM_VALUE if demand == "random" else _VALUE, text, position)
        if (
            span
            and secret_names.is_secret(text[slice(*span)], demand)
            and not _is_key_or_call(text, span[1], match["between"], demand)
        ):
            yield span
            position = span[1]


def _demand_after(match: re.Match[str], text: str, demand: Demand) -> Demand:
    """Return how a value must look, by what stands between it and its name; empty if it is none."""
    between, end = match["between"], match.end()
    if between.isspace() or between.strip() in _VERBS:
        before = text[max(match.start() - _BEFORE, 0) : match.start()]
        if match["dash"] and _OPTION.search(before):
            return "random" if demand == "random" else "any"
        if _SETTER.search(before) or (demand == "any" and text[end : end + 1] in _MARKS):
            return demand
        return "random" if demand == "any" else ""
    if between == ">" and text[match.start() - 1 : match.start()] != "<":
        return ""
    return "no word" if "," in between and demand == "any" else demand


def _is_key_or_call(text: str, end: int, between: str, demand: Demand) -> bool:
    """Return True if what stands behind a value says that it is the next key of a mapping, or a function."""
    if "," in between:
        return _KEY_AGAIN.match(text, end) is not None
    return demand == "random" and text[end : end + 1] in ("(", "[")


def _value(pattern: re.Pattern[str], text: str, position: int) -> tuple[int, int] | None:
    """Return start and end of the value at a position, without its quotes."""
    match = pattern.match(text, position)
    if not match:
        return None
    start, end = match.span(match.lastgroup or 0)
    if match.lastgroup == "bare":
        closing = _CLOSING.search(match["bare"])
        end = start + (closing.start() if closing else len(match["bare"]))
    return start, end
