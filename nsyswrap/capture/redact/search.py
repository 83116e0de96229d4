"""Find removed values in texts and bytes, and replace them.

A text is searched for known values, for personal folders in paths, and for what looks like a credential.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from nsyswrap.base.records import dataclass
from nsyswrap.capture.redact import credentials
from nsyswrap.capture.redact.credentials import one_of

SHORTEST = 6  # characters of a value that is searched for
_FILL = "x"  # what a replacement in bytes ends with, which keep their length
_CACHED_BYTES = 500
_BETWEEN = "\0\1\0"  # two texts that are looked at together

# Folders whose next component is the name of a person, also after a folder of a group or of a letter.
_PERSONAL_FOLDER = re.compile(r"(?:homes?|users|[cp]?scratch|nobackup)\d*\$?|documents and settings")
_PERSONAL_AT_TOP = re.compile(r"u\d{0,2}|user")  # only as the first or second folder
_GROUPS = {"group", "groups", "staff", "students", "faculty", "project", "projects", "users"}
# Folders of the system, where a short name is the name of a program.
SYSTEM_FOLDERS = {
    *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "nix", "opt", "proc", "run", "sbin", "snap"),
    *("sys", "usr", "var", "windows", "program files"),
}
_DEEPEST = 5  # components of a path in which a short name is that of a person
_MOST_SHARDS = 5  # folders between home and that of a person
_IN_PATH = r"[^/\\\s:;,'\"<>|=\x00]"
# Repetitions are bounded, so that no text takes more than linear time.
_PATH = re.compile(
    rf"(?:[/\\]{{1,4}}(?:{_IN_PATH}{{1,99}}(?: {_IN_PATH}{{1,99}}){{0,9}}(?=\\)|{_IN_PATH}{{1,255}}))+"
)
_SEPARATORS = re.compile(r"([/\\]+)")


Put = Callable[[str, str], str]


def _new(_: str, new: str) -> str:
    return new


class ValueSearch:
    """Replaces ``values``, each with its replacement, and whole ``words``."""

    def __init__(self, values: Mapping[str, str], words: Collection[str] = ()) -> None:
        self.values = dict(values)
        self.words = set(words)
        self._lengths: dict[str, list[int]] = {}
        for text in sorted({*self.values, *self.words}, key=len, reverse=True):
            lengths = self._lengths.setdefault(text[:SHORTEST], [])
            if len(text) not in lengths:
                lengths.append(len(text))
        self._starts = re.compile(one_of(self._lengths, SHORTEST)) if self._lengths else None
        self.cell = lru_cache(maxsize=1 << 14)(self._cell)

    def text(self, text: str, put: Put = _new) -> str:
        """Return a text without what is searched for; ``put(old, new)`` returns what replaces ``old``."""
        return self._without_values(text, put)

    def holds(self, text: str) -> bool:
        """Return True if a text holds a value or a word."""
        return next(self._matches(text), None) is not None

    def content(self, raw: bytes, *, is_text: bool) -> bytes:
        """Return the bytes of a cell without what is searched for, in UTF-8 and UTF-16.

        A BLOB keeps its length and the places of what it holds.
        """
        return (self.cell if len(raw) <= _CACHED_BYTES else self._cell)(raw, is_text)

    def held(self, raw: bytes) -> set[str]:
        """Return the values that these bytes hold, in UTF-8 or UTF-16."""
        texts = (raw.decode("utf-8", "surrogateescape"), *(_utf16(raw) if b"\0" in raw else ()))
        return {value for text in texts for _, value in self._matches(text)}

    def _cell(self, raw: bytes, is_text: bool) -> bytes:  # noqa: FBT001 - lru_cache wants it so
        def put(old: str, new: str) -> str:
            width = len(old.encode(encoding, errors)) // unit
            return new if is_text else (new + _FILL * width)[:width]

        encoding, errors, unit = "utf-8", "surrogateescape", 1
        text = raw.decode(encoding, errors)
        if (new := self.text(text, put)) != text:
            raw = new.encode(encoding, errors)
        if b"\0" not in raw:
            return raw
        errors, unit = "surrogatepass", 2
        for encoding in ("utf-16-le", "utf-16-be"):
            for start in (0, 1):
                end = start + (len(raw) - start) // 2 * 2
                text = raw[start:end].decode(encoding, errors)
                if (new := self.text(text, put)) != text:
                    raw = raw[:start] + new.encode(encoding, errors) + raw[end:]
        return raw

    def _matches(self, text: str) -> Iterator[tuple[int, str]]:
        position = 0
        while self._starts is not None and (match := self._starts.search(text, position)):
            position = match.start()
            value = self._value_at(text, position, match.group())
            if value:
                yield position, value
            position += len(value) or 1

    def _without_values(self, text: str, put: Put) -> str:
        parts: list[str] = []
        end = 0
        for start, value in self._matches(text):
            parts += text[end:start], put(value, self.values.get(value, REMOVED))
            end = start + len(value)
        return "".join((*parts, text[end:])) if parts else text

    def _value_at(self, text: str, start: int, prefix: str) -> str:
        for length in self._lengths[prefix]:
            value = text[start : start + length]
            if value in self.values or (value in self.words and _is_word(text, start, start + length)):
                return value
        return ""


class Search(ValueSearch):
    """Replaces also what looks like a credential, and ``names`` of users and hosts.

    A name is found as a whole word if it is in ``words``, and else only as a component of a path. A value is
    found anywhere.
    """

    def __init__(self, values: Mapping[str, str], names: Collection[str], words: Collection[str]) -> None:
        super().__init__(values, words)
        self._names = set(names)
        self._credentials = credentials.find

    def text(self, text: str, put: Put = _new) -> str:
        """Return a text without what is searched for; ``put(old, new)`` returns what replaces ``old``."""
        text = self._without_values(text, put)
        if "/" in text or "\\" in text:
            text = _PATH.sub(lambda path: self._without_names(path, put), text)
        for start, end in reversed(self._credentials(text)):
            text = f"{text[:start]}{put(text[start:end], REMOVED)}{text[end:]}"
        return text

    def changes(self, texts: Collection[str]) -> dict[str, str]:
        """Return what ``text`` returns for each of these texts that it changes.

        Ranges that differ in a number have one shape, of which one decides for all.
        """
        shapes = credentials.shape_of(_BETWEEN.join(texts)).split(_BETWEEN)
        if len(shapes) != len(texts):  # a text holds what stands between
            shapes = list(map(credentials.shape_of, texts))
        found = self.values and self.holds(_BETWEEN.join(texts))
        may = {shape: found or self._may_change(shape) for shape in set(shapes)}
        some = [text for text, shape in zip(texts, shapes, strict=True) if may[shape]]
        return {text: new for text in some if (new := self.text(text)) != text}

    def _may_change(self, shape: str) -> bool:
        has_path = "/" in shape or "\\" in shape
        return (has_path and (bool(self._names) or any(people_in(shape)))) or credentials.may_hold(shape)

    def _without_names(self, path: re.Match[str], put: Put) -> str:
        parts = _SEPARATORS.split(path.group())  # "", separator, component, separator, component, ...
        folders = [part.casefold() for part in parts[2::2]]
        absolute = _is_absolute(path)
        for i, name in enumerate(parts[2::2]):
            if not name or name.startswith(REMOVED) or not name.strip(_FILL):
                continue
            personal = _is_person(folders, i, absolute=absolute)
            if not personal:
                personal = name in self._names and absolute and i < _DEEPEST
                personal = personal and folders[0] not in SYSTEM_FOLDERS
            if personal:
                parts[2 + 2 * i] = put(name, REMOVED)
        return "".join(parts)


def people_in(text: str) -> Iterator[str]:
    """Yield the names of people by the folders of paths in a text."""
    for path in _PATH.finditer(text):
        names = _SEPARATORS.split(path.group())[2::2]
        folders = [name.casefold() for name in names]
        absolute = _is_absolute(path)
        for i, name in enumerate(names):
            if name and _is_person(folders, i, absolute=absolute):
                yield name


def _is_absolute(path: re.Match[str]) -> bool:
    before = path.string[path.start() - 1 : path.start()]
    return not (before.isalnum() or before in (".", "_", "-"))


def _is_person(folders: list[str], i: int, *, absolute: bool) -> bool:
    """Return True if component ``i`` of a path is the name of a person, by the folder that it is in."""
    is_last = i + 1 == len(folders)
    if not i or (not is_last and (len(folders[i]) == 1 or folders[i] in _GROUPS)):
        return False
    above = i - 1  # or the folder of all shards: /global/homes/z/zaphod
    while (
        above > i - _MOST_SHARDS
        and above
        and _is_shard(folders[above])
        and not _PERSONAL_FOLDER.fullmatch(folders[above])
        and not _PERSONAL_AT_TOP.fullmatch(folders[above])
    ):
        above -= 1
    if folders[: above + 1] == ["home", "user"] and not _is_initial(folders[i - 1], folders[i]):
        return False  # the person is called user
    if _PERSONAL_FOLDER.fullmatch(folders[above]):
        return True
    is_top = absolute and above <= 1 and folders[0] not in SYSTEM_FOLDERS
    return is_top and _PERSONAL_AT_TOP.fullmatch(folders[above]) is not None


def _is_shard(folder: str) -> bool:
    """Return True for a folder between ``home`` and the folder of a person."""
    return len(folder) <= 2 or folder.isdigit() or folder in _GROUPS  # noqa: PLR2004 - /home/za/zaphod


def _is_initial(folder: str, name: str) -> bool:
    """Return True for a folder of the people whose names begin so, as in ``z/zaphod`` and ``za/zaphod``."""
    return len(folder) <= 2 and folder.isalpha() and name.startswith(folder)  # noqa: PLR2004 - as above


def _is_word(text: str, start: int, end: int) -> bool:
    beside = text[max(start - 1, 0) : start], text[end : end + 1]
    return not any(character.isascii() and character.isalnum() for character in beside)


def _utf16(raw: bytes) -> Iterator[str]:
    for encoding in ("utf-16-le", "utf-16-be"):
        for start in (0, 1):
            end = start + (len(raw) - start) // 2 * 2
            yield raw[start:end].decode(encoding, "surrogatepass")


REMOVED = "redacted"


@dataclass(frozen=True)
class Rule:
    """What redacting does with one table.

    ``rows`` is the kind of secret if some rows are removed. ``kept`` lists columns with texts that are never
    changed. ``searched`` lists columns with StringIds ids whose texts are searched; all others are names of
    events, which are kept.
    """

    rows: str = ""
    kept: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()


NUMBERS = Rule()
_NAME = Rule(kept=("name",))
_CALLCHAIN = Rule(searched=("module",))
_MARKER = Rule(searched=("textId",))

# A name with a ``*`` stands for all tables that match and have no line of their own.
RULES: dict[str, Rule] = {
    "ANALYSIS_DETAILS": NUMBERS,
    "ANALYSIS_FILE": Rule(rows="program output"),
    "COMPOSITE_EVENTS": NUMBERS,
    "CUBLAS_EVENTS": NUMBERS,
    "CUDA_CALLCHAINS": _CALLCHAIN,
    "CUDA_GPU_MEMORY_POOL_EVENTS": NUMBERS,
    "CUDA_GPU_MEMORY_USAGE_EVENTS": _NAME,
    "CUDA_GRAPH_*": NUMBERS,
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": Rule(searched=("module", "sourceFile")),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": NUMBERS,
    "CUDNN_EVENTS": NUMBERS,
    "CUPTI_ACTIVITY_KIND_*": _NAME,
    "CUPTI_ACTIVITY_KIND_OPENACC_*": Rule(searched=("srcFile",)),
    "D3D11_*": _MARKER,
    "D3D12_*": _MARKER,
    "DEMOTED_BYTES_EVENTS": NUMBERS,
    "DIAGNOSTIC_EVENT": NUMBERS,
    "DX12_*": _MARKER,
    "ENUM_*": Rule(kept=("name", "label")),
    "ETW_*": NUMBERS,
    "EXPORT_META_DATA": Rule(rows="user, host and paths", kept=("name",)),
    "FECS_EVENTS": NUMBERS,
    "GENERIC_EVENT*": Rule(rows="texts of system events"),
    "GPU_*": NUMBERS,
    "KHR_DEBUG_EVENTS": _MARKER,
    "MEMORY_TRANSFER_EVENTS": NUMBERS,
    "META_DATA_CAPTURE": Rule(rows="environment", kept=("name",)),
    "META_DATA_EXPORT": Rule(rows="user, host and paths", kept=("name",)),
    "MPI_*": NUMBERS,
    "NET_*": NUMBERS,
    "NIC_ID_MAP": NUMBERS,
    "NVTX_EVENTS": Rule(searched=("textId", "jsonTextId")),
    "NVTX_PAYLOAD_*": NUMBERS,
    "NVVIDEO_*": NUMBERS,
    "NV_LOAD_BALANCE_*": NUMBERS,
    "OPENGL_*": NUMBERS,
    "OPENMP_EVENT_KIND_*": NUMBERS,
    "OSRT_API": NUMBERS,
    "OSRT_CALLCHAINS": _CALLCHAIN,
    "OSRT_FILE_ACCESS_*": NUMBERS,
    "PERF_EVENT_*": NUMBERS,
    "PMU_*": NUMBERS,
    "PROCESSES": Rule(rows="other processes' names"),
    "PROFILER_OVERHEAD": NUMBERS,
    "ProcessStreams": Rule(rows="program output"),
    "SAMPLING_CALLCHAINS": _CALLCHAIN,
    "SCHED_EVENTS": NUMBERS,
    "SLI_*": NUMBERS,
    "StringIds": Rule(rows="environment"),
    "TARGET_INFO_*": _NAME,
    "TARGET_INFO_GPU_METRICS": Rule(kept=("metricName", "typeName")),
    "TARGET_INFO_NVTX_CUDA_*": NUMBERS,
    "TARGET_INFO_PROCESS": Rule(searched=("nameId",)),
    "TARGET_INFO_SYSTEM_ENV": Rule(rows="environment", kept=("name",)),
    "TARGET_INFO_XMC_SPEC": NUMBERS,
    "TOTAL_BYTES_RESIDENT_IN_SEGMENT_EVENTS": NUMBERS,
    "TRACE_PROCESS_EVENT_NVMEDIA": NUMBERS,
    "ThreadNames": Rule(rows="other processes' names", searched=("nameId",)),
    "UCP_*": NUMBERS,
    "UNCORE_PMU_*": NUMBERS,
    "UnwindMethodType": _NAME,
    "VULKAN_*": _MARKER,
    "WDDM_*": NUMBERS,
}

# Columns, in any table, that identify a device.
IDENTIFIERS = re.compile(r"(?i)uuid|guid|luid|serial(_?number)?|mac_?addr(ess)?")
# Names of rows with a value that is personal as a whole.
PERSONAL_KEYS = re.compile(
    r"(?i)(^|:|_)(host|hostname|user|user_?name|device_display_name|working_dir|domain_?name|uuid|nic_?info"
    r"|serial(_?number)?|mac_?addr(ess)?|ip_?addr(ess)?)$|_PATH(_ABS)?$"
)
ENVIRONMENT_KEYS = "%environment%"  # of rows with a part of the environment, for LIKE


def rule_of(table: str) -> Rule | None:
    """Return the rule of a table; None for a table that this version does not know."""
    if table in RULES:
        return RULES[table]
    matching = [pattern for pattern in RULES if "*" in pattern and fnmatchcase(table, pattern)]
    return RULES[max(matching, key=len)] if matching else None
