"""Compile .cu files before the measured run, with a cache; the options of ``--nvcc``."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from nsyswrap.base import files, paths
from nsyswrap.base.errors import CompileFailed, Unavailable, UsageError
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import cache_dir
from nsyswrap.base.run_tool import fault_of, run_tool
from nsyswrap.record.gpus import query

_ANSWER_TIMEOUT_S = 20
_BUILD_TIMEOUT_S = 4 * 3600.0  # templates take long
# Environment variables that change what nvcc builds.
_VARIABLES = (
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
    *("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
)
# Compute capability -> first and last CUDA release whose nvcc compiles for it (None: no release dropped it).
_SUPPORT: dict[str, tuple[str, str | None]] = {
    "3.5": ("5.0", "11.8"),
    "3.7": ("6.5", "11.8"),
    "5.0": ("6.0", "12.9"),
    "5.2": ("6.5", "12.9"),
    "5.3": ("7.0", "12.9"),
    "6.0": ("8.0", "12.9"),
    "6.1": ("8.0", "12.9"),
    "6.2": ("8.0", "12.9"),
    "7.0": ("9.0", "12.9"),
    "7.2": ("9.2", "12.9"),
    "7.5": ("10.0", None),
    "8.0": ("11.0", None),
    "8.6": ("11.1", None),
    "8.7": ("11.4", None),
    "8.8": ("13.0", None),
    "8.9": ("11.8", None),
    "9.0": ("11.8", None),
    "10.0": ("12.8", None),
    "10.3": ("12.9", None),
    "11.0": ("13.0", None),
    "12.0": ("12.8", None),
    "12.1": ("12.9", None),
}
# Names of nvcc's options without dashes. The word after one that passes options on belongs to another tool.
_PASSES_ON = re.compile("X?(compiler|linker|ptxas|nvlink|archive)(-options)?")
_ARCHITECTURE = re.compile("arch|gpu-architecture|code|gpu-code|gencode|generate-code")
_OPTIMIZATION = re.compile(r"O\d?|optimize")
_FOR_DEBUGGER = re.compile("G|device-debug")
_MAKES_NO_PROGRAM = re.compile(
    r"""
    lib|shared|r|relocatable-link  # a library or an object
    |c|compile|dc|device-c|dw|device-w|dlink|device-link
    |E|preprocess|cuda|ptx|cubin|fatbin|optix-ir|ltoir|fdevice-syntax-only  # the result of an earlier stage
    |h|help|V|version|dryrun|clean|clean-targets|(arch|code)-ls|list-gpu-(arch|code)  # text
    |o|output-file|odir|output-directory  # a program that nsyswrap would not find
    |run|run-args  # a program that runs during the build
    |M[DFPT]?|MMD?|generate-(nonsystem-)?dependencies(-with-compile)?  # rules for make
    |dependency-output|generate-dependency-targets|dependency-target-name
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Executable:
    """An executable in the user's cache, and nvcc's warnings; empty if it was built before."""

    path: Path
    output: str = ""


@dataclass(frozen=True)
class _Contents:
    """The digests of an executable and of all files that it was built from, by path."""

    executable: str
    files: Mapping[str, str]


def build(source: Path, options: Sequence[str] = ()) -> Executable:
    """Return an executable of ``source`` and of the further sources in ``options``, which are nvcc's.

    Without an architecture in ``options`` it is for all kinds of GPU of this machine. It is built again if a
    source, an included file, a library or object that ``options`` name, the options or nvcc's release change.
    Raises Unavailable if nvcc is missing or cannot be started, or does not support the GPU of this machine.
    Raises CompileFailed with the output of nvcc.
    """
    nvcc = find_nvcc()
    version = nvcc_version(nvcc)
    code = () if names_architecture(options) else gpu_code(nvcc, version)
    arguments = (*flags(options), *options, *code)
    folder = str(Path.cwd()) if options else ""  # relative paths in options count from it
    here = query().capabilities if any("native" in option for option in options) else ()
    variables = map(os.environ.get, _VARIABLES)
    facts = [str(paths.real(source)), folder, version, *arguments, *here, *variables]
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
    target = cache_dir("builds", key) / source.stem
    if _is_current(target):
        return Executable(target)
    # Processes that build the same at the same time replace whole files. The inputs are read before nvcc
    # reads them, so that the next run notices a change in between.
    command = [nvcc, str(source), *arguments]
    inputs = _inputs(command)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        part = Path(work) / target.name
        done = _run([*command, "-o", str(part)])
        output = done.stdout.expandtabs().rstrip()
        if done.returncode or not os.access(part, os.X_OK):
            problem = output if done.returncode else "these options make no program"
            typed = shlex.join([*command, "-o", target.name])
            raise CompileFailed(f"nvcc could not build {command[1]}:\n{problem}", typed)
        executable = _digest(part)
        part.replace(target)
    if inputs is not None:
        files.write(_contents_file(target), json.dumps(asdict(_Contents(executable, inputs))))
    return Executable(target, output)


def compile_cuda(source: Path, *, arch: str | None = None, flags: tuple[str, ...] = ()) -> Path:
    """Return the path of what ``build`` builds with these flags, for this architecture (``sm_90``)."""
    return build(source, (*flags, *architecture(arch))).path


def architecture(arch: str | None) -> tuple[str, ...]:
    """Return the options of nvcc for ``sm_90``, or for several as in ``sm_80,sm_90``; nothing for None.

    One is what nvcc takes as ``-arch``. Several give machine code of each, and PTX of the newest. Raises
    UsageError for one that nvcc cannot know, and one of several that is not ``sm_`` and a number.
    """
    if not arch:
        return ()
    first, *others = names = arch.split(",")
    if not others:
        if not re.fullmatch(r"(sm|compute|lto)_\d+[a-z]?|native|all|all-major", first):
            number = re.sub(r"\D", "", first) or "90"
            raise UsageError(f"invalid --arch {first!r}: expected sm_NUMBER", f"use --arch sm_{number}")
        return (f"-arch={first}",)
    if wrong := next((name for name in names if not re.fullmatch(r"sm_\d+", name)), None):
        raise UsageError(f"invalid architecture {wrong!r}", "separate several by commas: --arch sm_80,sm_90")
    return for_gpus([name.removeprefix("sm_") for name in names])


def find_nvcc() -> str:
    """Return the path of nvcc from PATH, ``$CUDA_HOME``, ``$CUDA_PATH`` or /usr/local/cuda.

    Raises Unavailable if there is none.
    """
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    for place in ["nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]:
        if path := shutil.which(place):
            return path
    raise Unavailable(
        "nvcc not found on PATH, in $CUDA_HOME or in /usr/local/cuda", "install the CUDA toolkit"
    )


def nvcc_version(nvcc: str) -> str:
    """Return the CUDA release of this nvcc, such as ``13.0``. Raises Unavailable if it does not answer."""
    release = re.search(r"release (\d+\.\d+)", _run([nvcc, "--version"], timeout_s=_ANSWER_TIMEOUT_S).stdout)
    if release is None:
        raise Unavailable(f"{nvcc} --version printed no release", "install the CUDA toolkit again")
    return release.group(1)


def gpu_code(nvcc: str, version: str) -> tuple[str, ...]:
    """Return the options for code of all kinds of GPU here. Raises Unavailable if nvcc lacks the first GPU's.

    Programs use the first GPU by default. Other GPUs that this nvcc does not support are left out.
    """
    devices = query()
    if not devices.capabilities:
        raise Unavailable(
            f"no GPU to compile for: {devices.error}",
            "run it where a GPU is; nsyswrap profile --arch sm_90 PROGRAM.cu compiles for a GPU elsewhere",
        )
    listed = _run([nvcc, "--list-gpu-arch"], timeout_s=_ANSWER_TIMEOUT_S)  # fails if nvcc is old
    known = [
        capability
        for capability in devices.capabilities
        if listed.returncode or f"compute_{capability.replace('.', '')}" in listed.stdout.split()
    ]
    first = devices.capabilities[0]
    if first not in known:
        raise Unavailable(
            f"nvcc of CUDA {version} does not compile for {devices.names[0]} (capability {first})",
            _release_advice(first),
        )
    return for_gpus(known)


def _release_advice(capability: str) -> str:
    if capability not in _SUPPORT:
        return "use a newer CUDA toolkit, or name an older architecture with --arch"
    first, last = _SUPPORT[capability]
    return f"use CUDA {first} to {last}" if last else f"use CUDA {first} or newer"


def _is_current(target: Path) -> bool:
    """Return True if ``target`` is there, and all that it was built from is unchanged."""
    try:
        contents = files.typed(_Contents, files.read_json(_contents_file(target)))
        digests = {str(target): contents.executable, **contents.files}
        return all(_digest(Path(path)) == digest for path, digest in digests.items())
    except (OSError, ValueError):
        return False


def _contents_file(target: Path) -> Path:
    return target.with_name("contents.json")


def _inputs(command: Sequence[str]) -> dict[str, str] | None:
    """Return the digest of every file that a command of nvcc reads, by path.

    Return None if nvcc does not list them: for wrong sources, and for several if this nvcc takes one only.
    """
    listed = _run([*command, "-M"], errors="surrogateescape", merged=False)
    if listed.returncode:
        return None
    rights = [line.partition(" : ")[2] for line in listed.stdout.replace("\\\n", " ").splitlines()]
    names = [name for right in rights for name in re.split(r"(?<!\\)\s+", right) if name]
    inputs = [*(Path(name.replace("\\ ", " ")) for name in dict.fromkeys(names)), *input_files(command[1:])]
    try:
        return {str(paths.real(path)): _digest(path) for path in inputs}
    except OSError:  # a name that make rules cannot hold
        return None


def _run(
    command: Sequence[str],
    *,
    errors: str = "replace",
    merged: bool = True,
    timeout_s: float = _BUILD_TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    try:
        return run_tool(command, timeout_s, merged=merged, errors=errors)
    except (OSError, subprocess.SubprocessError) as error:
        fault = fault_of(error)
    raise Unavailable(f"{command[0]} {fault}", "install the CUDA toolkit again")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:  # a static library can have a gigabyte
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


# The options of ``--nvcc``: those that cannot be used, and what nsyswrap adds to the others.


def split(options: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of ``options``; a text is split as a shell does.

    Raises UsageError for a quote that is not closed.
    """
    if not isinstance(options, str):
        return tuple(options)
    try:
        return tuple(shlex.split(options))
    except ValueError as error:
        raise UsageError(
            f"--nvcc {options!r} cannot be split into words: {error}",
            "for example --nvcc '-lcublas -I inc -std=c++20'",
        ) from None


def check(program: str, options: Sequence[str], *, module: bool = False) -> None:
    """Raise UsageError if ``program`` is not a .cu file, or if nvcc would make something else of it."""
    if module or not program.endswith(".cu"):
        raise UsageError(
            f"--nvcc needs a .cu file as PROGRAM, not {'-m ' if module else ''}{program}",
            "further sources are given to nvcc: --nvcc 'util.cu helper.cpp'",
        )
    if word := _first(_MAKES_NO_PROGRAM, options):
        raise UsageError(
            f"--nvcc: {word} cannot be used: nsyswrap builds a program and runs it",
            "give sources, libraries, paths, macros, and options for the generated code",
        )


def flags(options: Sequence[str]) -> tuple[str, ...]:
    """Return nsyswrap's own options: optimized code with line numbers, unless ``options`` say otherwise."""
    own = {"-O3": _OPTIMIZATION, "-lineinfo": _FOR_DEBUGGER}
    return tuple(flag for flag, instead in own.items() if not _first(instead, options))


def names_architecture(options: Sequence[str]) -> bool:
    """Return True if ``options`` say for which GPUs the code is."""
    return bool(_first(_ARCHITECTURE, options))


def for_gpus(capabilities: Sequence[str]) -> tuple[str, ...]:
    """Return the options for machine code of each compute capability (``9.0``), and PTX of the newest.

    The driver compiles PTX for later GPUs.
    """
    numbers = sorted({int(capability.replace(".", "")) for capability in capabilities})
    code = [f"arch=compute_{number},code=sm_{number}" for number in numbers]
    code.append(f"arch=compute_{numbers[-1]},code=compute_{numbers[-1]}")
    return tuple(word for one in code for word in ("-gencode", one))


def input_files(options: Sequence[str]) -> list[Path]:
    """Return the files that ``options`` name, and the static libraries of ``-L`` and ``-l``."""
    parts = [part for word in options for part in (word, *re.split("[=,]", word))]
    folders, libraries = _values(options, "-L", "--library-path"), _values(options, "-l", "--library")
    archives = [Path(folder) / f"lib{name}.a" for folder in folders for name in libraries]
    named = dict.fromkeys([*map(Path, parts), *archives])
    return [path for path in named if os.access(path, os.R_OK) and paths.is_file(path)]


def _first(names: re.Pattern[str], options: Sequence[str]) -> str:
    words = iter(options)
    for word in words:
        name, equals, _ = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            continue
        if names.fullmatch(name):
            return word
        if _PASSES_ON.fullmatch(name) and not equals:
            next(words, None)
    return ""


def _values(options: Sequence[str], short: str, long: str) -> list[str]:
    """Return the values of an option: ``-Ldir``, ``-L dir``, ``-L=dir`` or ``--library-path=dir``."""
    values: list[str] = []
    words = iter(options)
    for word in words:
        if flag := next((flag for flag in (long, short) if word.startswith(flag)), ""):
            values += (word[len(flag) :].removeprefix("=") or next(words, "")).split(",")
    return values
