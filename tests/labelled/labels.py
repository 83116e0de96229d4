"""Read labels.toml: the programs of the labelled set and what must be said about each."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
LABELS = "labels.toml"
PROGRAMS = "programs"
FOLDERS = (HERE, HERE / "held_out")  # the set that shaped the rules, and one that did not
FINDINGS = frozenset(
    {
        "launch_bound",
        "host_bound",
        "waiting_for_input",
        "synchronizing",
        "allocating",
        "loading_in_loop",
        "garbage_collection",
        "unfused_attention",
        "parameter_updates",
        "casts",
        "layout_copies",
        "elementwise_chains",
        "few_blocks",
        "last_wave",
        "copy_bound",
        "pageable_copies",
        "copies_not_overlapped",
        "tiny_copies",
        "faulting_kernels",
        "waiting_for_pages",
        "exposed_communication",
        "waiting_for_rank",
        "spikes",
        "timed_launch_only",
        "timed_earlier_work",
        "lost_events",
    }
)
# About a GPU that is busy: the set in busy has programs for these.
BUSY_FINDINGS = frozenset({"fp32_products", "fp64_kernels", "misaligned_products"})


@dataclass(frozen=True)
class Label:
    """A program, how it is recorded, and what must be said about its capture.

    ``first`` is empty for a healthy program. ``accept``: findings that may stand first instead of ``first``,
    because the capture lacks what would tell them apart. ``steps`` is 0 if no single step repeats.
    """

    name: str
    program: Path
    first: str
    never: tuple[str, ...]
    steps: int
    startup: bool
    nvtx: bool
    why: str
    then: str = ""
    accept: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    trace: str = ""
    gpus: int = 1


KEYS = frozenset(field.name for field in fields(Label)) - {"name"}
LISTS = ("never", "accept", "arguments")


def folder_of(name: str) -> Path:
    """Return the folder of a set: NAME beside this file, or NAME/held_out for NAME_held_out."""
    apart = name.removesuffix("_held_out")
    return HERE / name if name == apart else HERE / apart / "held_out"


def read_entries(folder: Path) -> dict[str, Any]:
    """Return the content of labels.toml of a folder."""
    return tomllib.loads((folder / LABELS).read_text(encoding="utf-8"))


def read_labels(folder: Path = HERE) -> dict[str, Label]:
    """Return the labels of a folder by name. Raises TypeError for a key that is missing or unknown."""
    labels = {}
    for name, entry in read_entries(folder).items():
        lists = {key: tuple(entry[key]) for key in LISTS if key in entry}
        program = folder / PROGRAMS / entry["program"]
        labels[name] = Label(**{**entry, **lists, "program": program, "name": name})
    return labels
