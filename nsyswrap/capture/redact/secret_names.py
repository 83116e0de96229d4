"""Find secrets by their names, such as ``DB_PASSWORD``, and say which values of such names are no secret.

A name is compared in small letters with ``_`` between its words: ``apiKey``, ``API-Key`` and ``api_key`` are
one. Names of models and compilers hold the same words: ``pad_token``, ``key_proj``, ``cache_key``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

# How a value must look to be a secret: any text, no plain word, or letters and digits without a pattern.
Demand = Literal["", "any", "no word", "random"]

_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[-. ]+")
_ENDINGS = re.compile(  # what a name can end with that does not say what it names
    r"(?:_(?:value|data|b64|base64|raw|plain|plaintext|encoded|old|new|prod|production|dev|test|staging|live"
    r"|default|base|\d{1,4}))+$"
)
_KEY_OF = (
    "api|app|application|access|account|aes|auth|client|consumer|decrypt|decryption|deploy|encrypt|encryption"
    "|functions|gpg|hmac|host_private|jwt|license|licence|master|pgp|preshared|priv|private|rsa|secret|shared|shared_access"
    "|sign|signing|ssh|ssl|storage|subscription|tls|webhook"
)
_ANY = re.compile(
    r"(?:pass_?(?:word|wd|phrase|code)s?|pwd|(?:^|_)(?:passw|psw|pswd))$"
    r"|secrets?(?:_?(?:access_?)?(?:key|id|token|string))?$|(?:^|_)cred(?:ential)?s?$"
    r"|(?:^|_)(?:mnemonic|(?:seed|recovery)_?phrase)$"
    r"|(?:pass_?wort|kennwort|mot_?de_?passe|contrase[nñ]a|senha|wachtwoord|parola|lösenord|hasło)$"
)
_NO_WORD = re.compile(
    rf"(?:token|jwt)$|(?:^|_|[a-z])(?:{_KEY_OF})_?keys?$|^pass$|(?:^|_)(?:bearer|pat|psk|(?:admin|db|my|pg|root|ssh|user)?pw)$"
    r"|(?:amz|goog|oss)_signature$|(?:basic|http|npm|proxy|redis|rediscli)_auth$"
    r"|(?:^|_)(?:account|admin|app|auth|backup|become|ca|cert|client|db|default|ftp|git|http|key|keystore|ldap|login|mail"
    r"|mongo|mongodb|my|mysql|pg|postgres|proxy|rabbit|redis|remote|root|service|sftp|smb|smtp|ssh|ssl|store|sudo|svn|trust"
    r"|truststore|user|vault|vpn|wallet|webdav|wifi)_?pass$"
)
_RANDOM = re.compile(
    r"(?:^|_)keys?(?:_?id)?$|(?:^|_)[a-z]{1,20}_?key_id$|auth$|(?:^|_)sig(?:nature)?$|sess(?:ion)?(?:_?id)?$"
    r"|(?:^|_)sid$|cookie$|(?:c|x)srf|(?:^|_)t?otp$|webhook(?:_?ur[il])?$|(?:^|_)assertion$|samlresponse$"
    r"|(?:^|_)ticket$|amz_credential$|token_?id$"
)
_OF_MODELS = re.compile(  # tokens of texts, and keys of caches, tables and attention
    r"(?:^|_)(?:bos|cls|draft|end|eos|first|image|input|last|mask|max|min|new|next|num|output|pad|per|prev|prompt|sep"
    r"|special|start|stop|text|tok|unk|vision)_tokens?$"
)
_PUBLIC_KEY = re.compile(
    r"(?:^|_)(?:block|cache|compile|config|dict|foreign|fx|graph|group|hash|index|kernel|layer|lookup|object|param"
    r"|partition|primary|pub|public|query|routing|row|shard|sort|state|tensor|weight)_?keys?$"
)
_NAMES_A_PLACE = re.compile(r"_?(?:file|path|dir|folder|url|uri|name|type|len|length|size|count|expir\w*)$")

_NUMBER = re.compile(
    r"[-+]?[\d.,:_x*/%()\[\]+-]{1,40}(?:[eE][-+]?\d+)?(?:[num]?s|[kmg]?i?b|[kmg])?", re.IGNORECASE
)
_PIN = re.compile(r"\d{6,}")
_NOTHING = {
    *(
        "none",
        "null",
        "nil",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "undefined",
        "unset",
        "empty",
        "default",
    ),
    *(
        "optional",
        "required",
        "hidden",
        "masked",
        "removed",
        "filtered",
        "string",
        "bytes",
        "bool",
        "float",
        "dict",
    ),
    *("list", "tuple", "lambda", "value", "object"),
    *("forward", "backward", "first", "second", "third", "last", "failed", "missing", "invalid", "expired"),
}
_PLACEHOLDER = re.compile(
    r"\$\{?[A-Za-z_]\w{0,60}\}?|\$\(.{0,80}|%\w{1,60}%|%\(?\w{0,60}\)?s?|\{.{0,80}|(?:\\u[0-9a-f]{4}){1,20}|\W{0,3}<.{0,80}>?|[\[|].{0,80}[\]|]|[*.\u2022\u2026]+|[xX]+"
)
# Words, and names as programs have them: hello, InductorPass, self._token, SOME_NAME, kFp8StaticTensor.
_WORD = r"[a-z]{0,19}(?:[A-Z]{1,5}[a-z]{1,19}){0,9}[A-Z]{0,15}"
_ONE_WORD = re.compile(_WORD)
_JOINED = re.compile(rf"_{{0,2}}{_WORD}\d{{0,2}}(?:[ _./:-]{{1,2}}{_WORD}\d{{0,2}}){{1,20}}")
_WITH_DIGITS = re.compile(r"[a-z]{0,19}(?:[A-Z]{1,5}[a-z]{1,19}\d{0,4}){1,9}")
_SYLLABLES = re.compile(r"[a-z]{3,99}")
_OWN_NAME = re.compile(r"[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,80}){1,5}")
_CALL = re.compile(r"[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,80}){1,5}[(\[]")
_CODE = re.compile(
    r"[(\[]|#?[A-Za-z_][\w.]{0,80}=[^=]|[A-Za-z_][\w.]{0,80}[(\[]|&?[A-Za-z_]\w{0,80}(?:->|::)"
)
_PATH = re.compile(
    r"~?/(?:home|root|tmp|mnt|users|scratch|data|bin|boot|dev|etc|lib\w*|nix|opt|proc|run|sbin|srv|sys|usr|var|workspace)"
    r"(?:/|$)|~/|\.{1,2}/|[A-Za-z]:[/\\]|[\w.-]*/[\w./-]*\.\w{1,5}$",
    re.IGNORECASE,
)
_HEX = re.compile(r"(?:[0-9a-f]{32}|[0-9a-f]{40})|(?:[0-9A-F]{32}|[0-9A-F]{40})")
_OTHER_HEX = re.compile(r"[0-9a-f]{1,999}|[0-9A-F]{1,999}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORTEST: dict[Demand, int] = {"any": 4, "no word": 6, "random": 12}
_CHANGE = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_JUDGED = 150  # characters of a value that tell what it is
_CHANGES = 0.3  # between letter cases and digits, in a random text, for each pair of characters
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


@lru_cache(maxsize=1 << 10)
def demand_of(name: str) -> Demand:
    """Return how a value of this name must look to be a secret; empty if the name is not that of a secret."""
    plain = _WORD_ENDS.sub("_", name).lstrip("_").lower()
    plain = _ENDINGS.sub("", plain) or plain
    if _NAMES_A_PLACE.search(plain) and not _RANDOM.search(plain):
        return ""
    if _ANY.search(plain):
        return "any"
    if _OF_MODELS.search(plain):
        return "random"
    if _NO_WORD.search(plain):
        return "no word"
    return "random" if _RANDOM.search(plain) and not _PUBLIC_KEY.search(plain) else ""


def is_secret(value: str, demand: Demand) -> bool:
    """Return True if a value looks as its name demands, and not like a number, a placeholder or a path."""
    value = value[:_JUDGED]
    if not demand or len(value) < _SHORTEST[demand] or _says_nothing(value):
        return False
    if _NUMBER.fullmatch(value):
        return demand == "any" and _PIN.fullmatch(value) is not None
    if demand == "any":
        return True
    if _CODE.match(value) or _is_name(value, _ONE_WORD if demand == "no word" else _WITH_DIGITS):
        return False
    return demand == "no word" or is_random(value)


def _says_nothing(value: str) -> bool:
    """Return True for a placeholder, a path, and code such as ``password=args.password``."""
    if is_removed(value) or value.lower() in _NOTHING:
        return True
    if _PLACEHOLDER.fullmatch(value) or _PATH.match(value) or _CALL.match(value):
        return True
    return _OWN_NAME.fullmatch(value) is not None and demand_of(value) != ""


def _is_name(value: str, form: re.Pattern[str]) -> bool:
    """Return True for several words, and for one of this form whose letter cases are not mixed at random."""
    if not (_JOINED.fullmatch(value) or form.fullmatch(value)):
        return False
    if value.islower() or (value.isupper() and not any(map(str.isdigit, value))):
        return True
    return has_syllables(value)


def has_syllables(value: str) -> bool:
    """Return True if small letters that follow each other are half of a text, as in ``Wav2VecEmbedding``."""
    return 2 * sum(map(len, _SYLLABLES.findall(value))) >= len(value)


def is_removed(value: str) -> bool:
    """Return True for what stands in the place of a removed text, also of a short one in bytes."""
    return value.startswith("redact") or "redacted".startswith(value)


def is_random(text: str, changes: float = _CHANGES) -> bool:
    """Return True if letter cases and digits change as often as in a random text, and for UUIDs and hashes.

    Of hexadecimal texts those with 32 and 40 digits count: one of 64 is the hash of a file or a kernel.
    """
    if _HEX.fullmatch(text) or _UUID.fullmatch(text):
        return True
    if _OTHER_HEX.fullmatch(text):
        return False
    start = text[:_JUDGED]
    return len(_CHANGE.findall(start)) > changes * len(start)


def named_values(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each value in a text that is a secret by its name."""
    position = 0
    while match := _NAMED.search(text, position):
        position = match.end()
        name = match["name"]
        if name.lower() in ("name", "key") and (entry := _ENTRY.match(text, position)):
            name, position = entry["name"], entry.end()
        demand = demand_of(name)
        demand = demand and _demand_after(match, text, demand)
        span = demand and _value(_RANDOM_VALUE if demand == "random" else _VALUE, text, position)
        if (
            span
            and is_secret(text[slice(*span)], demand)
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
