"""Collect what to search for: names of users and hosts, values of variables, identifiers of devices."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.sqlite import statement
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export
from nsyswrap.capture.redact import places
from nsyswrap.capture.redact.search import (
    IDENTIFIERS,
    REMOVED,
    SHORTEST,
    SYSTEM_FOLDERS,
    Search,
    ValueSearch,
    people_in,
    rule_of,
)

with lazy_imports():
    import getpass
    import socket

LONG = 12  # characters of the value of a variable whose name does not say that it is secret
_DISTINCT = 6  # different characters in such a value
_SECRET = re.compile(
    r"(?i)token|secret|passw|passphrase|(^|_)pass$|_pwd$|api_?key|(^|_)key(_id)?$|credential|auth|cookie|private"
    r"|webhook|dsn$|_sas$"
)
_PUBLIC = re.compile(  # variables with values that are the same for many people
    r"(?i)_$|\w*version|nv_?|nvidia|cuda|cudnn|nccl|nsys|omp_|kmp_|mkl|ompi_|pmix?_|torch|pytorch|triton|jax|xla|tf_"
    r"|lang(uage)?$|lc_|ls_colors|less|term|colorterm|shell|path|ld_|python|pip_|conda|debian|xdg|editor|pager"
    r"|pytest|\w*_?opts?$|\w*flags$|ps1|slurm_(?!job_user|submit_host)"
)
_USERS = {"USER", "LOGNAME", "LNAME", "USERNAME", "SUDO_USER", "SLURM_JOB_USER"}
_HOMES = {"HOME", "USERPROFILE"}
_HOSTS = {"HOSTNAME", "HOST", "COMPUTERNAME", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST", "MASTER_ADDR"}
_WHO = _USERS | _HOMES | _HOSTS
_HOST_KEY = re.compile(r"(?i)(^|_)(host|hostname|device_display_name)$")
_USER_KEY = re.compile(r"(?i)(^|:|_)user(_?name)?$")
_NAME = re.compile(r"\w[\w.@+ -]*")
_LONGEST_NAME = 64
_COMMON = {
    *("admin", "administrator", "azureuser", "centos", "conda", "container", "debian", "default", "docker"),
    *("ec2-user", "fedora", "jenkins", "jovyan", "jupyter", "kernel", "localhost", "localhost.localdomain"),
    *("master", "nobody", "nvidia", "python", "pytorch", "public", "runner", "server", "shared", "student"),
    *("system", "tensorflow", "training", "ubuntu", "vagrant", "worker", "workspace"),
}
_KEPT_NAMES = {"root", "redacted", "localhost"}  # never searched for
_UUID = re.compile(r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BLANK_UUID = "00000000-0000-0000-0000-"
_PLACES = SYSTEM_FOLDERS | {"home", "root", "tmp", "mnt", "Users", "scratch", "data"}  # where paths begin
_PATH_LIKE = re.compile(r"~?/|\.{1,2}/|[A-Za-z]:[/\\]|\w+://|unix:")


def search_for(export: Export, kept: Iterable[str]) -> Search:
    """Return the search for all that redacting removes from an export.

    A name that is a word of a text in ``kept`` (names of events) is common: it is found in paths only.
    The user and host that this runs as are searched for too, as most captures are shared by who made them.
    """
    variables = [pair for block in places.environment(export) for pair in places.variables(block)]
    values = {value for name, value in variables if is_telling(name, value)}
    values |= _own_secrets()
    secrets = places.secrets_in_arguments(export)
    values |= {secret for secret in secrets if len(secret) >= SHORTEST and not secret.startswith("redacted")}
    values = _forms(values)
    own = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with suppress(OSError, KeyError):  # a user without an entry in passwd, in a container
        own.add(getpass.getuser())
    with suppress(RuntimeError):
        own |= _last_folder(str(Path.home()))
    names = {name for name in _names(export, variables) | own if _is_name(name)}
    words = {word.lower() for text in kept for word in re.findall(r"[^\W_]+", text)}
    # nsys' own words, which cannot be removed from the definitions of its tables
    definitions = "\n".join(
        word.lower()
        for table, columns in export.tables.items()
        if rule_of(table)
        for word in (table, *columns)
    )
    rare = {
        form
        for name in names
        if len(name) >= SHORTEST and name.lower() not in _COMMON
        if not words.issuperset(re.findall(r"[^\W_]+", name.lower()))
        for form in (name, name.lower(), name.upper(), name.title())
        if name.lower() not in definitions
    }
    values = {value for value in values if value.lower() not in definitions}
    return Search(dict.fromkeys(values, REMOVED) | _identifiers(export), names, rare)


def own_values(blocks: Iterable[str], environment: Mapping[str, str]) -> ValueSearch:
    """Return the search for the values of the profiled program's environment, before that is removed.

    ``blocks`` are from its export, ``environment`` is what else is known of it. Names of users and hosts are
    left to ``search_for``, and the environments of other processes, too: both are for copies for others.
    """
    variables = [*environment.items(), *(pair for block in blocks for pair in places.variables(block))]
    found = {value for name, value in variables if name not in _WHO and is_telling(name, value)}
    return ValueSearch(dict.fromkeys(_forms(found), REMOVED))


def shared_search(blocks: Iterable[str] = ()) -> Search:
    """Return the search for a text that others will see: credentials, and names of people in paths.

    It finds the secrets in our own environment, too, and values of the environment in ``blocks``.
    """
    return Search(own_values(blocks, {}).values | dict.fromkeys(_forms(_own_secrets()), REMOVED), (), ())


def _own_secrets() -> set[str]:
    return {value for name, value in os.environ.items() if _SECRET.search(name) and is_telling(name, value)}


def _forms(values: Iterable[str]) -> set[str]:
    """Return the values, also as JSON has them."""
    return {form for value in set(values) for form in (value, json.dumps(value)[1:-1])}


def is_telling(name: str, value: str) -> bool:
    """Return True if the value of a variable is unusual enough to search for, and no path or address."""
    if value.lower() in _COMMON or value.startswith("redacted"):
        return False
    if _SECRET.search(name):
        _, *folders = re.split(r"[/\\]", value)
        is_path = value.startswith(("~", ".")) or (bool(folders) and folders[0] in _PLACES)
        return not is_path and len(value) >= SHORTEST and len(set(value)) >= SHORTEST - 2
    if _PATH_LIKE.match(value):
        return False
    return len(value) >= LONG and len(set(value)) >= _DISTINCT and not _PUBLIC.match(name)


def _is_name(name: str) -> bool:
    known = name.lower() in _KEPT_NAMES or name.isdigit()
    return not known and len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def _names(export: Export, variables: Iterable[tuple[str, str]]) -> set[str]:
    users, hosts = set[str](), set[str]()
    for name, value in variables:
        if name in _USERS:
            users.add(value)
        elif name in _HOMES:
            users |= _last_folder(value)
        elif name in _HOSTS:
            hosts.add(value)
    for _, name, value in places.personal_rows(export):
        if _HOST_KEY.search(name):
            hosts.add(value)
        elif _USER_KEY.search(name):
            users.add(value)
    messages = export.select(schema.EVENTS["diagnostic"].table, ("text", "text"), required=False)
    texts = [*(value for _, _, value in places.named_rows(export)), *export.strings.values()]
    texts += [text for (text,) in messages if text]
    for text in texts:
        users.update(people_in(text) if "/" in text or "\\" in text else ())
    return users | hosts | {host.partition(".")[0] for host in hosts if not host[:1].isdigit()}


def _last_folder(home: str) -> set[str]:
    """Return the name of the user whose home folder this is; none for one of the system, or ``/root``."""
    folders = [folder for folder in re.split(r"[/\\]+", home) if folder]
    return {folders[-1]} if len(folders) > 1 and folders[0] not in SYSTEM_FOLDERS else set()


def _identifiers(export: Export) -> dict[str, str]:
    """Return the identifiers of devices, each with the same of zeros and a number, so that they differ."""
    known: dict[str, None] = {}
    for table, columns in export.tables.items():
        for column in columns:
            if IDENTIFIERS.fullmatch(column):
                sql = statement("SELECT DISTINCT {c} FROM {t} WHERE {c} >= ''", c=column, t=table)
                known |= dict.fromkeys(str(value) for (value,) in export.rows(sql))
    for _, _, value in places.personal_rows(export):
        known |= dict.fromkeys(match.group() for match in _UUID.finditer(value))
    found = [text for text in known if _UUID.fullmatch(text) and not text.startswith(_BLANK_UUID)]
    return {
        form: f"{_BLANK_UUID}{number:012}"
        for number, text in enumerate(found, 1)
        for form in (text, text.upper(), text.lower())
    }
