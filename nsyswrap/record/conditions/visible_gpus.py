"""Which GPUs a program sees, by CUDA_VISIBLE_DEVICES in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nsyswrap.base.run_facts import Gpu

_DIGITS = 6  # of an index, at most


def visible(
    environment: Mapping[str, str], gpus: Sequence[Gpu], parent_of_mig: Callable[[str], str]
) -> list[int]:
    """Return the positions in ``gpus`` that a program with this environment sees, in CUDA's order.

    ``gpus`` are in NVML's order. ``parent_of_mig`` returns the UUID of a MIG device's GPU. Returns all
    positions if CUDA's numbering is not known to be that of NVML. Source of the rules: CUDA C++ Programming
    Guide, CUDA environment variables: the first invalid entry and those after it are ignored.
    """
    everything = list(range(len(gpus)))
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return everything
    positions: dict[int, None] = {}  # in order, each once
    for entry in map(str.strip, value.split(",")):
        if _is_index(entry) and not _numbered_alike(environment, gpus):
            return everything
        matches = _matching(entry, gpus, parent_of_mig)
        if entry.startswith("MIG-") and not matches:
            return everything
        if len(matches) != 1:
            break
        positions[matches[0]] = None
    return list(positions)


def _matching(entry: str, gpus: Sequence[Gpu], parent_of_mig: Callable[[str], str]) -> list[int]:
    """Return the positions of the GPUs that one entry can mean."""
    if _is_index(entry):
        return [int(entry)] if int(entry) < len(gpus) else []
    if entry.startswith("MIG-"):
        parent = parent_of_mig(entry)
        return [position for position, gpu in enumerate(gpus) if parent and gpu.uuid == parent]
    if entry.startswith("GPU-"):
        return [position for position, gpu in enumerate(gpus) if gpu.uuid.startswith(entry)]
    return []


def _is_index(entry: str) -> bool:
    return entry.isascii() and entry.isdigit() and len(entry) <= _DIGITS


def _numbered_alike(environment: Mapping[str, str], gpus: Sequence[Gpu]) -> bool:
    """Return True if CUDA and NVML certainly number the GPUs alike: CUDA's default is the fastest first."""
    if len(gpus) <= 1:
        return True
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    return (by_bus or len({gpu.name for gpu in gpus}) == 1) and not any(gpu.mig for gpu in gpus)
