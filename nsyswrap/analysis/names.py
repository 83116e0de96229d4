"""Return names, classes and launch shapes of events.

API calls are classified by their names: launching, synchronizing, allocating, loading, copying. Names are
those of the runtime (``cudaLaunchKernel_v7000``) and of the driver (``cuLaunchKernel``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import group_keys, numbered, order_by_code, rank_texts
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.nvtx_ranges import kernel_ranges
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.stream import looked_up

MEMSET_NAME = "[CUDA memset]"
_LOADS = regex("cu(da)?((Module|Library)Load|LinkComplete)")
_AUTOGRAD = "pt_autograd"  # how PyTorch's autograd threads are named: pt_autograd_0 and so on


def name_codes(capture: Capture, kind: str) -> tuple[NDArray[Any], list[str | None]]:
    """Return one code per event and the sorted names.

    API calls are named without their version suffix. Kernels have the form of name that the view selects:
    full, base or mangled, with or without an NVTX range before it.
    """
    ids, positions = numbered_names(capture, kind)
    texts = capture.texts(ids)
    codes, names = rank_texts(positions, texts if kind != "api" else list(map(strip_version, texts)))
    if kind == "kernel" and capture.view.nvtx_names:
        # The innermost NVTX range around each kernel's launch comes before its name, if both are known.
        ranges, range_names = kernel_ranges(capture)
        pairs, keys = group_keys(ranges, codes)
        texts = [
            f"{range_names[i]}/{names[code]}" if i >= 0 and names[code] is not None else names[code]
            for i, code in zip(*(key.tolist() for key in keys), strict=True)
        ]
        return rank_texts(pairs, texts)
    return codes, names


@per_capture
def numbered_names(capture: Capture, kind: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct ids of the names, ascending, and the position of each event's among them."""
    return numbered(capture.name_ids(kind))


def full_names(capture: Capture) -> tuple[NDArray[Any], list[str]]:
    """Return the position of each kernel's full name, and the names; that of a kernel without one is empty.

    Names of several ids can be equal.
    """
    ids, codes = numbered_names(capture.viewed(names="full"), "kernel")
    return codes, [text or "" for text in capture.texts(ids)]


@per_capture
def kernel_classes(capture: Capture) -> tuple[NDArray[Any], list[str]]:
    """Return one code per kernel and the sorted classes.

    The full name decides, whatever form of name the view selects; the view's own rules come first.
    """
    return kinds_of_kernels(capture, lambda name: classify(name, capture.view.classes))


def kinds_of_kernels(
    capture: Capture, kind_of: Callable[[str | None], str]
) -> tuple[NDArray[Any], list[str]]:
    """Return one code per kernel and the sorted kinds; ``kind_of`` returns that of a full name."""
    ids, codes = numbered_names(capture.viewed(names="full"), "kernel")
    kind_of_name = [kind_of(text) for text in capture.texts(ids)]
    kinds = sorted(set(kind_of_name))
    number = np.array([kinds.index(kind) for kind in kind_of_name], np.min_scalar_type(len(kinds)))
    return looked_up(number, codes), kinds


def event_names(capture: Capture, kind: str) -> TextColumn:
    """Return the name of each event."""
    return TextColumn(*name_codes(capture, kind))


def look_up(ids: NDArray[Any], text: Callable[[int], str | None]) -> TextColumn:
    """Return the text of each id; ``text`` is called once for each distinct id."""
    known, positions = numbered(ids)
    return TextColumn(positions, [text(i) for i in known.tolist()])


def most_frequent(
    codes: NDArray[Any], names: Sequence[str], most: int, others: str
) -> tuple[NDArray[Any], list[str]]:
    """Return codes and names of which at most ``most`` stay; the less frequent are named ``others``."""
    if len(names) <= most:
        return codes, list(names)
    kept = np.sort(np.argsort(-np.bincount(codes, minlength=len(names)), kind="stable")[:most])
    number = np.full(len(names), most)
    number[kept] = np.arange(most)
    return number[codes], [*(names[i] for i in kept.tolist()), others]


def shapes(capture: Capture, field: str) -> tuple[NDArray[Any], list[str]]:
    """Return one code per kernel and the ``grid`` or ``block`` of each code, as nsys writes it."""
    sizes = capture.columns("kernel", *(f"{field}_{axis}" for axis in "xyz"))
    codes, keys = group_keys(*sizes.values())
    return codes, [
        " ".join(f"{size:4}" for size in shape) for shape in zip(*(key.tolist() for key in keys), strict=True)
    ]


def copy_name(label: str) -> str:
    """Return the name that nsys gives copies: ``[CUDA memcpy Host-to-Device]``."""
    return f"[CUDA memcpy {label}]"


def strip_version(name: str | None) -> str | None:
    """Return an API name without its suffix of four digits, as nsys does: cudaLaunchKernel_v7000."""
    return name[:-6] if name is not None and name[-6:-4] == "_v" else name


LAUNCH, SYNCHRONISE, ALLOCATE, LOAD, COPY, OTHER = CLASSES = (
    "launch",
    "synchronise",
    "allocate",
    "load",
    "copy",
    "other",
)
# The first match counts. Loading is the cost of a first use: of contexts, modules, libraries and kernels.
# Queries about a kernel, which the runtime makes before each launch, load nothing.
_PATTERNS = {
    LAUNCH: "cu(da)?(Launch(?!HostFunc)|GraphLaunch)",
    SYNCHRONISE: "cu(da)?(Device|Stream|Event|Ctx|Thread)Synchronize",
    LOAD: "cu(da)?(Module(?!GetLoadingMode)|Library|Link|KernelGetFunction|Func(Load|GetAttributes)|Init"
    "|Ctx(Create|Destroy)|DevicePrimaryCtxRe(tain|lease|set)|(Set|Init)Device|DeviceReset)",
    ALLOCATE: "cu(da)?(Malloc|Free|Host(Alloc|Register|Unregister)"
    "|Mem(Alloc|Free|Host|Create|Release|Map|Unmap|Address|SetAccess|Pool)"
    "|(Mipmapped)?Array(3D)?(Create|Destroy))",
    COPY: "cu(da)?(Memcpy|Memset|MemPrefetch)",
}


# Results of the runtime (cudaError_t) and the driver (CUresult). Codes that both define mean the same.
_MEANINGS = (
    "1 invalid value, 2 out of memory, 3 not initialized, 4 shutting down, 35 driver too old, "
    "98 invalid device function, 100 no device, 101 invalid device, 200 invalid kernel image, "
    "201 invalid context, 209 no kernel image for this GPU, 214 ECC error, 218 invalid PTX, "
    "222 unsupported PTX version, 301 file not found, 304 operating system error, 400 invalid handle, "
    "401 illegal state, 500 not found, 600 not ready, 700 illegal address, "
    "701 too many resources for the launch, 702 launch timed out, 704 peer access already enabled, "
    "705 peer access not enabled, 709 context destroyed, 710 assertion failed, "
    "712 memory already registered, 713 memory not registered, 714 stack error, 715 illegal instruction, "
    "716 misaligned address, 717 invalid address space, 718 invalid program counter, 719 launch failed, "
    "720 cooperative launch too large, 800 not permitted, 801 not supported, 802 system not ready, "
    "803 driver mismatch, 900 not allowed during stream capture, 901 stream capture invalidated, "
    "910 graph update not possible, 999 unknown error"
)
RESULTS = {int(code): text for code, text in (part.split(" ", 1) for part in _MEANINGS.split(", "))}


def call_class(name: str | None) -> str:
    """Return the one of CLASSES that a call with this name belongs to."""
    return next((kind for kind, pattern in _PATTERNS.items() if re.match(pattern, name or "")), OTHER)


@per_capture
def call_names(capture: Capture, kind: str = "api") -> TextColumn:
    """Return the names of the calls, with their version suffix."""
    if capture.view.selection.narrows:
        every = call_names(capture.whole, kind)
        return TextColumn(every.codes[capture.columns(kind, "row")["row"] - 1], every.texts)
    return look_up(capture.name_ids(kind), capture.text)


@per_capture
def call_classes(capture: Capture) -> NDArray[Any]:
    """Return the number in CLASSES of each API call."""
    names = call_names(capture)
    known = np.array([CLASSES.index(call_class(name)) for name in names.texts], np.int8)
    classes: NDArray[Any] = looked_up(known, names.codes)
    return classes


def with_name(capture: Capture, pattern: re.Pattern[str], kind: str = "api") -> NDArray[Any]:
    """Mark the calls whose name, version suffix included, matches the pattern."""
    names = call_names(capture, kind)
    marks: NDArray[Any] = np.array([bool(pattern.match(name or "")) for name in names.texts], bool)
    return looked_up(marks, names.codes) if marks.any() else np.zeros(len(names.codes), bool)


@per_capture
def by_thread(whole: Capture, kind: str = "api") -> Mapping[int, NDArray[np.int32]]:
    """Return the positions of the calls of each thread by start; ``kind`` is that of the calls."""
    calls = whole.columns(kind, "global_tid", "start_ns")
    threads, codes = numbered(calls["global_tid"])
    if (calls["start_ns"][1:] >= calls["start_ns"][:-1]).all():  # as nsys mostly writes them
        rows = order_by_code(codes, len(threads)).astype(np.int32)
    else:
        by_start = np.argsort(calls["start_ns"], kind="stable").astype(np.int32)
        rows = by_start[order_by_code(codes[by_start], len(threads))]
    ends = np.cumsum(np.bincount(codes, minlength=len(threads)))
    return dict(zip(threads.tolist(), np.split(rows, ends[:-1]), strict=False))


def is_autograd(capture: Capture, thread: int) -> bool:
    """Return True if PyTorch named a thread as one of autograd, which runs nothing but backward passes."""
    _, name = capture.whole.threads.get(thread, (None, None))
    return (name or "").startswith(_AUTOGRAD)


def load_calls(capture: Capture) -> NDArray[Any]:
    """Return the rows of the calls that load a module or a library."""
    return calls_named(capture, _LOADS)


def calls_named(capture: Capture, pattern: re.Pattern[str], kind: str = "api") -> NDArray[Any]:
    """Return the rows of the calls whose name, version suffix included, matches the pattern.

    ``kind`` is that of the calls: ``api`` for CUDA, ``osrt`` for the OS.
    """
    return np.flatnonzero(with_name(capture, pattern, kind))
