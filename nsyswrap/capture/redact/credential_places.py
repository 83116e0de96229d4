"""The places of credentials without a name of their own: headers, commands, URLs, files. And addresses.

Each place has hints. Only texts with one of them are compared with its pattern.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    from nsyswrap.capture.redact import secret_names

_GAP = r"(?:\s|\\[nrt]){1,8}"  # also as JSON escapes it
_QUOTE = r"\\{0,4}[\"'`]"
_IS = rf"(?:{_QUOTE})?\s{{0,3}}[:=]\s{{0,3}}(?:{_QUOTE})?"
_WORD = r"[^\s\"'`\\]"
_REST = r"[^\n|;]{0,200}?\s"  # of a command, up to an option
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_USER = r"(?<![\w.+@:/-])(?P<secret>[a-z_][a-z0-9_-]{1,31}"
_VERSION = r"(?<!//)[1-9](?:\.[12]?\d){3}"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"  # of a host name
_OF_SITES = r"com|org|net|de|ch|uk|fr|jp|cn|nl|se|fi|dk|pl|cz|ca|au|kr|tw|eu|local|internal"
_OF_MACHINES = r"edu|gov|mil|lan|corp|intra|intranet|localdomain|example|(?:ac|edu|gov)\.[a-z]{2}|home\.arpa"
_HOST_END = rf"\.(?:{_OF_MACHINES}|{_OF_SITES})(?![\w-]|\.\w)"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,6}}{_HOST_END}"
# Before and after an @ in the names of ranges and symbols, where no user and no host is named.
_NO_USERS = r"acc|accuracy|ap|f1|hits?|loss|map|mrr|ndcg|pass|precision|recall|top|git"
_NO_HOSTS = (
    r"(?:batch|bf|block|cpu|cuda|dev|device|epoch|fp|gpu|int|iter|kernel|layer|main|plt|rank|sm|stage|step|stream|tf"
    r"|thread|top|uint|v|worker)[\d_-]*|glibc\w*|latest|placeholder|revision|all|avg|max|mean|median|min|sum"
)


class _Place(NamedTuple):
    """A pattern with a group ``secret``, and a check of what it finds."""

    hints: str
    pattern: str
    check: Callable[[str], bool]


def _is_any(text: str) -> bool:
    return secret_names.is_secret(text, "any")


def _is_no_word(text: str) -> bool:
    return secret_names.is_secret(text, "no word")


def _is_authorization(text: str) -> bool:
    """Return True for a token, and for parameters such as those of Digest."""
    return _is_no_word(text) or "=" in text.rstrip("=")


def _is_random(text: str) -> bool:
    return secret_names.is_random(text)


def _is_new(text: str) -> bool:
    return not secret_names.is_removed(text)


def _is_user_and_password(text: str) -> bool:
    """Return True for ``user:password`` in base64."""
    try:
        raw = binascii.a2b_base64(text + "=" * (-len(text) % 4))
    except ValueError:
        return False
    return b":" in raw[1:] and min(raw) >= ord(" ")


def _is_mixed(text: str) -> bool:
    """Return True for a text with small and capital letters and digits, as no option of a compiler has."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return all(any(map(kind, text)) for kind in kinds) and _is_any(text)


def _is_machine(host: str) -> bool:
    """Return True for the full name of a machine, and False for that of a well-known site or a module."""
    first, *rest = host.lower().split(".")
    if re.fullmatch(_OF_MACHINES, rest[-1]) or re.fullmatch(_OF_MACHINES, ".".join(rest[-2:])):
        return len(rest) > 1 or first[-1].isdigit()
    numbered = "-" in first or (any(map(str.isdigit, first)) and any(map(str.isalpha, first)))
    fewest = {"net": 1 if "-" in first else 2, "local": 0, "internal": 0}.get(rest[-1], 1)
    return numbered and len(rest) > fewest


def _is_login(text: str) -> bool:
    """Return True for ``user@host``, and False for a metric such as acc@top5 and for model@step100."""
    user, _, host = text.partition("@")
    return not (
        re.fullmatch(_NO_USERS, user) or re.fullmatch(_NO_HOSTS, host) or secret_names.is_removed(text)
    )


# In any letter case, for texts that hold a hint in small letters.
_AFTER_WORDS = (
    _Place(
        "authorization",
        rf"authorization{_IS}(?:[a-z][a-z0-9-]{{1,30}}\s{{1,3}})?(?P<secret>"
        r"(?:[\w-]{1,40}=(?:\\?\"[^\"\n]{0,500}\"|[^\s,\"']{0,500})(?:,\s{0,3}|(?=[\s\"']|$))){1,20}"
        rf"|[^\s\"'`\\,;]{{4,4000}})",
        _is_authorization,
    ),
    _Place("basic", r"\bbasic\s{1,4}(?P<secret>[A-Za-z0-9+/]{8,400}={0,2})", _is_user_and_password),
    _Place("auth", rf"auth{_IS}(?P<secret>[A-Za-z0-9+/]{{8,400}}={{0,2}})", _is_user_and_password),
    _Place("bearer", r"\bbearer\s{1,4}(?P<secret>[\w.+/=~-]{8,4000})", _is_no_word),
    _Place(
        "cookie",
        rf"\bcookie{_IS}(?P<secret>(?:[\w!#$%&*+.^|~-]{{1,80}}=[^;\s\"']{{0,4000}}(?:;\s{{0,2}})?){{1,50}})",
        _is_any,
    ),
    _Place(
        "password",
        rf"(?:\b|(?<=\\[nrt]))(?:machine{_GAP}{_WORD}{{1,255}}|default|login{_GAP}{_WORD}{{1,255}})"
        rf"(?:{_GAP}account{_GAP}{_WORD}{{1,255}})?{_GAP}password{_GAP}(?P<secret>{_WORD}{{1,500}})",
        _is_new,
    ),
    _Place(
        "machine", rf"\bmachine{_GAP}{_WORD}{{1,255}}{_GAP}login{_GAP}(?P<secret>{_WORD}{{1,255}})", _is_new
    ),
    _Place(
        "private",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>(?:(?!-----)[\s\S]){1,20000})",
        lambda text: not secret_names.is_removed(text.strip()),
    ),
    _Place(
        "private-",
        r"\bPrivate-(?:Lines:\s{0,4}\d{1,4}|MAC:)(?:\s|\\[nr]){1,4}"
        r"(?P<secret>(?:[A-Za-z0-9+/=]{16,90}(?:\s|\\[nr]){0,4}){1,200})",
        _is_new,
    ),
    _Place(
        "hook",
        r"(?:://(?=[\w.:/-]{0,120}?hook)[\w.:-]{1,200}|\bhooks\.(?:slack|zapier)\.com)"
        r"/(?P<secret>[\w./@%?=&+-]{16,500})",
        _is_new,
    ),
    _Place(
        "mysql mariadb", rf"\b(?:mysql|mariadb)[\w-]{{0,20}}\b{_REST}-p(?P<secret>{_WORD}{{1,200}})", _is_new
    ),
    _Place("sshpass", rf"\bsshpass\s{{1,4}}-p\s?(?:{_QUOTE})?(?P<secret>{_WORD}{{1,200}})", _is_new),
    _Place(
        "login mongo",
        rf"\b(?:login|mongo\w{{0,10}})\b{_REST}-p\s{{1,4}}(?:{_QUOTE})?(?P<secret>{_WORD}{{1,200}})",
        _is_new,
    ),
    _Place(
        "curl wget http user cred basic-auth",
        rf"(?:\b(?:curl|wget|https?|xh)\b{_REST}(?:-[uUa]|--auth)|--(?:proxy-)?user|--creds?|--basic-auth)[\s=]{{1,4}}"
        rf"(?:{_QUOTE})?[^\s:\"']{{1,200}}:(?P<secret>{_WORD}{{1,200}})",
        _is_any,
    ),
    _Place("lftp", rf"\blftp\b{_REST}-u\s{{0,4}}[^\s,]{{1,100}},(?P<secret>{_WORD}{{1,200}})", _is_new),
    _Place(
        "htpasswd",
        rf"\bhtpasswd\s{{1,4}}(?:-\w{{1,9}}\s{{1,4}}){{0,4}}-[\w]{{0,9}}b\w{{0,9}}(?:\s{{1,4}}{_WORD}{{1,255}}){{2}}"
        rf"\s{{1,4}}(?P<secret>{_WORD}{{1,200}})",
        _is_new,
    ),
    _Place(
        "alias",
        rf"\bmc\s{{1,4}}alias\s{{1,4}}set(?:\s{{1,4}}{_WORD}{{1,255}}){{2}}"
        rf"\s{{1,4}}(?P<secret>{_WORD}{{1,200}}\s{{1,4}}{_WORD}{{1,200}})",
        _is_new,
    ),
    _Place(
        "<<<",
        rf"\b(?:kinit|sudo|su|docker|podman|cryptsetup|vncpasswd|openssl|gpg)\b{_REST}{{0,1}}<<<\s{{0,4}}"
        rf"(?:{_QUOTE})?(?P<secret>{_WORD}{{4,200}})",
        _is_any,
    ),
    _Place(
        "redis-cli", rf"\bredis-cli\b{_REST}-a\s{{1,4}}(?:{_QUOTE})?(?P<secret>{_WORD}{{1,200}})", _is_new
    ),
    _Place(
        "ldap", rf"\bldap[a-z]{{3,12}}\b{_REST}-w\s{{0,4}}(?:{_QUOTE})?(?P<secret>{_WORD}{{1,200}})", _is_new
    ),
    _Place(
        "sqlcmd ipmitool zip",
        rf"\b(?:sqlcmd|ipmitool|(?:un)?zip)\b{_REST}-P\s{{0,4}}(?:{_QUOTE})?(?P<secret>{_WORD}{{1,200}})",
        _is_new,
    ),
    _Place("7z", rf"\b7z[ar]?\b{_REST}-p(?P<secret>{_WORD}{{1,200}})", _is_new),
    _Place(
        "smbclient", rf"\bsmbclient\b{_REST}-U\s{{1,4}}[^\s%]{{1,100}}%(?P<secret>{_WORD}{{1,200}})", _is_new
    ),
    _Place(
        "sqlplus oracle:thin",
        r"(?:\bsqlplus\s(?:-\w\s){0,3}|oracle:thin:)\w{1,60}/(?P<secret>[^\s@\"']{1,200})@",
        _is_new,
    ),
    _Place(
        "login",
        rf"\b(?:wandb|vault|heroku|ngc)\s{{1,4}}login\s{{1,4}}(?:--\w{{1,20}}\s)?(?P<secret>{_WORD}{{8,200}})",
        _is_no_word,
    ),
    _Place(
        "echo printf",
        rf"\b(?:echo|printf)\s{{1,4}}(?:-n\s{{1,4}})?(?:{_QUOTE})?(?P<secret>[^\s\"'|]{{4,200}})(?:{_QUOTE})?"
        r"\s{0,4}\|\s{0,4}(?:sudo|su|kinit|docker|podman|cryptsetup|\w{0,9}passwd|openssl|gpg)\b",
        _is_any,
    ),
    _Place(
        "identified",
        r"\bidentified\s{1,4}(?:with\s{1,4}\S{1,60}\s{1,4})?(?:by|as)\s{1,4}"
        rf"{_QUOTE}(?P<secret>[^\"'`]{{1,400}})",
        _is_new,
    ),
    _Place("pass:", rf"-pass(?:in|out)?[\s=]{{1,4}}pass:(?P<secret>{_WORD}{{1,200}})", _is_new),
    _Place(
        "kty",
        rf"\b(?:d|p|q|dp|dq|qi|k){_QUOTE}\s{{0,3}}:\s{{0,3}}{_QUOTE}(?P<secret>[\w-]{{20,900}})",
        _is_new,
    ),
    _Place(
        "ssh scp sftp rsync mosh",
        r"\b(?:ssh|scp|sftp|rsync|mosh|sshfs|autossh|slogin)\b[^\n|;]{0,200}?"
        r"(?<![\w.+-])(?P<secret>[a-z_][\w.-]{0,63}@[\w.-]{1,255})",
        _is_new,
    ),
    _Place(
        "gpu- mig-",
        r"\b(?:GPU|MIG)-(?P<secret>(?!0{8})[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12})\b",
        _is_new,
    ),
    _Place("uuid", rf"uuid{_IS}(?P<secret>(?!0{{8}})[0-9a-f]{{32}})\b", _is_new),
)
# For texts whose shape, in which all digits are 0, holds a mark. A mark begins with a plain
# character: looking for that is ten times as fast as looking for one of several.
_AFTER_MARKS = (
    _Place("@", r"://[^/\s:@]{0,99}:(?P<secret>[^/\s@]{1,255}(?:@[^/\s@?#\"'<>,]{1,60}){0,3})@", _is_new),
    _Place("@", r"://(?!git@)(?P<secret>[^/\s:@\"'<>?#]{1,255})@(?=[\w\[])", _is_new),
    _Place(
        "@",
        r"://[^/\s@]{0,255}@[^/\s]{0,255}|(?<![\w.+-])(?!redacted@|git@)(?P<secret>[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,9}[A-Za-z]{2,24})(?![\w-])",
        _is_new,
    ),
    _Place("@", rf"{_USER}@[a-z][a-z0-9-]{{2,62}})(?![\w@-]|\.\w)", _is_login),
    _Place(_HOST_END, rf"(?<![\w.@+/-])(?P<secret>{_HOST})", _is_machine),
    _Place(_HOST_END, rf"(?<=//)(?P<secret>{_HOST})(?=:\d)", _is_machine),
    # Of Azure (two), Mailchimp, Telegram, Terraform, Airtable and New Relic, and the hash of a password
    _Place("Q~", r"(?<![\w~.-])(?P<secret>[\w~.-]{3}\dQ~[\w~.-]{31,34})(?![\w~-])", _is_new),
    _Place("==", r"(?<![\w+/])(?P<secret>[A-Za-z0-9+/]{86}==)", _is_random),
    _Place(  # of AWS
        r"(?:^|[\s='\"`])[A-Za-z0+/]{40}(?![\w+/=.:-])",
        r"(?<![\w+/.:-])(?P<secret>[A-Za-z0-9+/]{40})(?![\w+/=.:-])",
        lambda text: _is_mixed(text) and _is_random(text) and not secret_names.has_syllables(text),
    ),
    _Place("-us0", r"(?<![\w-])(?P<secret>[0-9a-f]{32}-us\d{1,2})(?![\w-])", _is_new),
    _Place("0:AA", r"(?<!\d)(?P<secret>\d{8,10}:AA[\w-]{33})(?![\w-])", _is_new),
    _Place(r"\.atlasv0\.", r"(?<!\w)(?P<secret>[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,90})", _is_new),
    _Place(r"\.[0a-f]{64}", r"(?<!\w)(?P<secret>pat[A-Za-z0-9]{14}\.[0-9a-f]{64})(?!\w)", _is_new),
    _Place("NRAL", r"(?<!\w)(?P<secret>[0-9a-f]{36}NRAL)(?!\w)", _is_new),
    _Place(r"\{(?:S?SHA|S?MD0|CRYPT)", r"\{[A-Z\d]{3,9}\}(?P<secret>[\w+/=.$]{20,200})", _is_new),
    _Place(  # two hashes of a password, of Windows
        r":[0a-f]{32}:[0a-f]{32}:", r"(?i):(?P<secret>[0-9a-f]{32}:[0-9a-f]{32}):", _is_new
    ),
    _Place(
        r"\$\w{1,9}\$",
        r"(?P<secret>\$(?:\d|2[abxy]|y|apr1|argon2\w{1,2}|pbkdf2[\w-]{0,20})\$[\w./$=,+-]{20,300})",
        _is_new,
    ),
    _Place(r"-p\S{6}", r"(?<!\S)-p(?P<secret>[^\s\"']{6,64})(?!\S)", _is_mixed),
    _Place(
        r":(?:0{4,5}|\*):",  # a line of .pgpass
        r"(?<![\w.:-])(?=[\w.-]{0,99}[A-Za-z*])[\w.*-]{1,100}:(?:\d{4,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:"
        r"(?P<secret>[^\s:]{4,200})",
        _is_any,
    ),
    # Addresses of hardware, of IPv6 and of IPv4. Neither 1.15.2.0 nor /opt/fabric/50.1.2.0/lib is one.
    *(
        _Place(
            rf"{mark}(?:[0A-Fa-f]{{2}}{mark}){{4}}",
            rf"(?<![\w:-])(?P<secret>(?:[0-9A-Fa-f]{{2}}{mark}){{5}}[0-9A-Fa-f]{{2}})(?![\w:-])",
            _is_new,
        )
        for mark in ":-"
    ),
    _Place(
        ":[0A-Fa-f:]{6}",
        r"(?i)(?<![\w:])(?P<secret>(?:fe80|f[cd]\w\w|2\w{3}):[0-9a-f:]{6,39})(?![\w:])",
        _is_new,
    ),
    _Place(
        r"0\.0{1,3}\.0{1,3}\.0",
        rf"(?i)(?<![\w.+-])(?<!version )(?P<secret>(?!0|127\.|255\.|(?<=[^/:]/)(?:{_OCTET}\.){{3}}{_OCTET}/)"
        rf"(?!{_VERSION}(?!:\d))(?:{_OCTET}\.){{3}}{_OCTET})(?!\.?[\w+-])",
        _is_new,
    ),
)
HINTS = frozenset(hint for place in _AFTER_WORDS for hint in place.hints.split())


def after_words(text: str, small: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each credential after a word; ``small`` is the text in small letters."""
    for hints, place in _words():
        if any(hint in small for hint in hints):
            yield from _secret_spans(f"(?i){place.pattern}", place.check, text)


@cache
def _words() -> list[tuple[list[str], _Place]]:
    return [(place.hints.split(), place) for place in _AFTER_WORDS]


def has_mark(shape: str) -> bool:
    """Return True if a text of this shape, in which all digits are 0, can hold what ``after_marks`` finds."""
    return any(_compiled(place.hints).search(shape) for place in _AFTER_MARKS)


def after_marks(text: str, shape: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each credential and address with a mark, such as ``@``."""
    for place in _AFTER_MARKS:
        if _compiled(place.hints).search(shape):
            yield from _secret_spans(place.pattern, place.check, text)


def _secret_spans(pattern: str, check: Callable[[str], bool], text: str) -> Iterator[tuple[int, int]]:
    for match in _compiled(pattern).finditer(text):
        if match["secret"] is not None and check(match["secret"]):
            yield match.span("secret")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
