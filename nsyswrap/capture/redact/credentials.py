"""Find credentials and addresses in a text, by the name of a value, by its place, or by its format.

First a text is searched for hints, which most texts lack. All repetitions in patterns are bounded, so that no
text takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.redact import credential_places

with lazy_imports():  # its patterns take a while to be made
    from nsyswrap.capture.redact import secret_names


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
    found = list(credential_places.after_marks(text, shape))
    if has_beginning(shape):
        found += tokens(text)
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
    return bool(_first_word(shape.lower()) or has_beginning(shape) or credential_places.has_mark(shape))


def _first_word(small: str) -> re.Match[str] | None:
    words, ends = _hints()
    found = [match for match in (words.search(small), ends.search(small)) if match]
    return min(found, key=re.Match.end, default=None)


@cache
def _hints() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns; one for both would not begin with the search for a few first letters."""
    words = {word for hint in (*HINTS, *credential_places.HINTS) for word in (hint, shape_of(hint))}
    return (
        re.compile(one_of(words, max(map(len, words)))),
        re.compile(rf"{one_of(ENDS, max(map(len, ENDS)))}(?![a-z])"),
    )
