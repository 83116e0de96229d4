"""Find credentials and addresses in a text, by the name of a value, by its place, or by its format.

First a text is searched for hints, which most texts lack. All repetitions in patterns are bounded, so that no
text takes more than linear time.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.redact import credential_places, token_formats
from nsyswrap.capture.redact.one_of import one_of

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
_BEFORE_VALUE = re.compile(r"[\s=,(>]|(?<!:):(?!:)")
_CACHED = 500  # characters of a text whose shape is remembered


def find(text: str) -> list[tuple[int, int]]:
    """Return start and end of each credential and address in a text, in order and apart from each other."""
    shape = token_formats.shape_of(text)
    if len(text) < _SHORTEST or not may_hold(shape):
        return []
    found = list(credential_places.after_marks(text, shape))
    if token_formats.has_beginning(shape):
        found += token_formats.tokens(text)
    small = text.lower()
    if word := _first_word(small):
        if _BEFORE_VALUE.search(small, word.end()):
            found += secret_names.named_values(text)
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
        _first_word(shape.lower()) or token_formats.has_beginning(shape) or credential_places.has_mark(shape)
    )


def _first_word(small: str) -> re.Match[str] | None:
    words, ends = _hints()
    found = [match for match in (words.search(small), ends.search(small)) if match]
    return min(found, key=re.Match.end, default=None)


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
