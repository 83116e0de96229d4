"""Find credentials and addresses in a text, by the name of a value, by its place, or by its format.

First a text is searched for hints, which most texts lack. All repetitions in patterns are bounded, so that no
text takes more than linear time.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():  # its patterns take a while to be made
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


# The places of credentials without a name of their own: headers, commands, URLs, files. And addresses.
#
# Each place has hints. Only texts with one of them are compared with its pattern.


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
PLACE_HINTS = frozenset(hint for place in _AFTER_WORDS for hint in place.hints.split())


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


def one_of(texts: Iterable[str], longest: int) -> str:
    """Return a pattern of these texts, by their first ``longest`` characters; the longest is tried first."""

    def branches(group: list[str], depth: int) -> str:
        by_next: dict[str, list[str]] = {}
        for text in group:
            by_next.setdefault(text[depth : depth + 1], []).append(text)
        found = [
            re.escape(first) + (branches(rest, depth + 1) if first and depth + 1 < longest else "")
            for first, rest in sorted(by_next.items(), reverse=True)  # the end of a text is tried last
        ]
        return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"

    return branches(list(texts), 0)


_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_CHANGES = 0.12  # less than elsewhere: the beginning of a token says much already

# What follows a beginning, and the beginnings. Of two that fit, the longer one counts. A tail with a group
# has an exact form, and need not look random.
FORMATS: dict[str, str] = {
    r"[A-Za-z0-9]{20,400}": """
        ABSK ak- AKCp AKID API- api_org_ apify_api_ as- ATBB bkua_ cio CLOJARS_ cmVmd csk- dapi dkea doo_v1_
        dop_v1_ dor_v1_ dose dp.audit. dp.ct. dp.pt. dp.scim. e2b_ EAA esecret_ EZAK EZTK FLWSECK-
        FLWSECK_TEST- fw_ gho_ ghp_ ghr_ ghs_ ghu_ GR1348941 gsk_ hf_ ico- IGQV jina_ key- KGAT_ lin_api_
        lin_oauth_ live_ LTAI mlsn. nfc_ nfp_ nk- npg_ npm_ NRAK- NRII- NRJS- ntn_ oy2 pnb_ pnu_ pul- r8_
        rdme_ rpa_ rubygems_ sbp_ secret_ shippo_live_ shippo_test_ shpat_ shpca_ shppa_ shpss_ shpua_ sk_
        sm_aat_ sm_pat_ sm_sat_ sntryu_ sqa_ sqp_ squ_ test_ tk-us- vcp_ wandb_v1_ whsec_""",
    r"[\w-]{16,1000}": """
        A3- AQVN ATATT3 ATCTT3 authress_ CCIPAT_ CCIPRJ_ CFPAT- dckr_oat_ dckr_pat_ dnkey- duffel_live_
        duffel_test_ fc- figd_ figo_ figu_ fio-u- github_pat_ glagent- glcbt- gldt- glffct- glft- glimt-
        gloas- glpat- glptt- glrt- glsa_ glsoat- GOCSPX- HRKU- lsv2_pt_ lsv2_sk_ mdb_sa_sk_ nvapi- p8e- pa-
        pcsk_ phs_ phx_ PMAK- pplx- pscale_oauth_ pscale_pw_ pscale_tkn_ pypi- rk_live_ rk_prod_ rk_test_
        s-s4t2af- s-s4t2ud- sb_secret_ scauth_ sgp_ sha256~ sk- sk_live_ sk_prod_ sk_test_ sq0atp- sq0csp-
        tgp_v1_ tskey- tvly- xai- xapp- xkeysib- xsmtpsib- y0_ ya29.""",
    r"[\w+/=.-]{20,1000}": """
        AstraCS: bedrock-api-key- dp.st. dt0c01. dt0s01. fm1_ fm2_ fo1_ glc_ hvb. hvr. hvs. MUNGE: ops_eyJ
        pat. sat. SG. sl. sntrys_ tfp_""",
    # of AWS, with the key if that follows
    r"([A-Z0-9]{16})(?![A-Za-z0-9])(?:[\s:,;|\"']{1,5}[A-Za-z0-9/+]{40}(?![\w/+=]))?": "ABIA ACCA AKIA ASIA",
    r"([0-9a-f]{32})(?![A-Za-z0-9])": "AC SK",
    r"[\w-]{35}(?![\w-])": "AIza",
    r"(?:\.xox[bp])?-[\w-]{10,400}": "xoxa xoxb xoxc xoxd xoxe xoxo xoxp xoxr xoxs",
    r"[A-Z0-9]{40,99}": "AGE-SECRET-KEY-1",
    r"[A-Za-z0-9]{24}(?![\w.])": "s.",
    r"[\w-]{20,26}\.[\w-]{6}\.[\w-]{25,110}(?![\w.-])": "MT Mj Mz ND NT Nj Nz OD OT",  # of Discord
    r"[a-z0-9]{50,99}": "nsec1",
    r"[A-Za-z0-9]{90,199}": "tprv xprv",
    r"[A-Za-z0-9+/=]{150,9000}": "MII",  # what a PEM or a PKCS 12 file holds
    r"[A-Za-z0-9+/=]{20,9000}": "LS0tLS1CRUdJTi b3BlbnNzaC1rZXktdjE",  # a PEM or an OpenSSH key in base64
    r"[\w-]{5,200}(?:\.{1,2}[\w-]{8,9000}(?:\.[\w-]{0,9000}){0,3}|[\w+/]{60,9000}={0,2})": "eyJ",
    r"[A-Za-z0-9]{6,12}_[A-Za-z0-9]{20,60}": "re_",
    r"0[\w-]{30,400}": "1//",
    r"[0-9a-f]{24}-[0-9a-f]{100,300}": "v1.0-",
    r"[\w=-]{3,400}\.[\w-]{80,200}": "t1.",
    r"[\w-]{7}:[\w-]{100,300}|A{12,40}[\w%]{60,300}": "AAAA",
}

_AMBIGUOUS = {  # which are before words, too
    "API-",
    "EAA",
    "ak-",
    "as-",
    "cio",
    "dose",
    "key-",
    "live_",
    "oy2",
    "s.",
    "secret_",
    "test_",
}
_COMPARED = 4  # characters of a beginning that are looked for first: more take longer to compile
_RUN = re.compile(r"[A-Za-z0-9]{20}")


# Find tokens by their format: a beginning that the issuer documents, and a tail of random characters.


def shape_of(text: str) -> str:
    """Return a text with 0 in place of each digit."""
    return text.encode("utf-8", "surrogatepass").translate(_ZEROS).decode("utf-8", "surrogatepass")


def tokens(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each token in a text."""
    tails, beginnings = _tails(), _beginnings()
    position = 0
    while match := beginnings.search(text, position):
        position = match.end()
        tail = tails[match.group()].match(text, position)
        if tail:
            position = tail.end()
            if _is_one(match.group(), tail):
                yield match.start(), position


def _is_one(beginning: str, tail: re.Match[str]) -> bool:
    if secret_names.is_removed(tail.group()):
        return False
    if tail.re.groups or secret_names.is_random(tail.group(), _CHANGES):
        return True
    return beginning not in _AMBIGUOUS and _RUN.search(tail.group()) is not None


def has_beginning(shape: str) -> bool:
    """Return True if a text of this shape can hold the beginning of a token; all digits of a shape are 0."""
    return _beginnings_of_shapes().search(shape) is not None


@cache
def _beginnings() -> re.Pattern[str]:
    return _after_no_letter(_tails(), max(map(len, _tails())))


@cache
def _beginnings_of_shapes() -> re.Pattern[str]:
    starts = {shape_of(start) for starts in FORMATS.values() for start in starts.split()}
    return _after_no_letter(starts, _COMPARED)


def _after_no_letter(texts: Collection[str], longest: int) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){one_of(texts, longest)}")


@cache
def _tails() -> dict[str, re.Pattern[str]]:
    """Return the pattern of the tail for each beginning; made when first needed."""
    return {start: re.compile(tail) for tail, starts in FORMATS.items() for start in starts.split()}


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
    shape = shape_of(text)
    if len(text) < _SHORTEST or not may_hold(shape):
        return []
    found = list(after_marks(text, shape))
    if has_beginning(shape):
        found += tokens(text)
    small = text.lower()
    if word := _first_word(small):
        if _BEFORE_VALUE.search(small, word.end()):
            found += secret_names.named_values(text)
        found += after_words(text, small)
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
    return bool(_first_word(shape.lower()) or has_beginning(shape) or has_mark(shape))


def _first_word(small: str) -> re.Match[str] | None:
    words, ends = _hints()
    found = [match for match in (words.search(small), ends.search(small)) if match]
    return min(found, key=re.Match.end, default=None)


@cache
def _hints() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns; one for both would not begin with the search for a few first letters."""
    words = {word for hint in (*HINTS, *PLACE_HINTS) for word in (hint, shape_of(hint))}
    return (
        re.compile(one_of(words, max(map(len, words)))),
        re.compile(rf"{one_of(ENDS, max(map(len, ENDS)))}(?![a-z])"),
    )
