"""The plan file: TOML, read into blocks. README.md shows one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import PlanError, UsageError
from nsyswrap.record import scenarios as scenario
from nsyswrap.record.batch.plan import axes, slurm
from nsyswrap.record.batch.plan.expand import Block, Plan, expand
from nsyswrap.record.batch.plan.parameters import Unusable, of_toml
from nsyswrap.record.batch.plan.toml_table import (
    COUNT,
    DELAY,
    FLAG,
    KEYS,
    SECONDS,
    TABLES,
    TEXT,
    TEXTS,
    Table,
    load,
    one_of,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nsyswrap.base.run_folder import Share
    from nsyswrap.record.batch.task import Spec

_NSYS = {
    "trace": TEXT,
    "stats": FLAG,
    "um_faults": FLAG,
    "graphs": one_of("graph", "node"),
    "capture_range": TEXT,
    "delay": DELAY,
    "duration": DELAY,
}
_COMMAND, _SCENARIO = ("module", "arch"), ("variants", "arguments")
_EXAMPLE = 'as in: [[runs]] command = "train.py --batch {b}" grid = { b = [32, 64] }'


def read_plan(path: Path) -> Plan:
    """Return the plan that a TOML file holds; raises PlanError with what is wrong and where."""
    head = Table(load(path), str(path), KEYS[""])
    if "runs" not in head.content:
        head.refuse("there are no [[runs]] in it", _EXAMPLE)
    runs = [
        Table(content, f"{path}: [[runs]] {number}", KEYS["[[runs]]"])
        for number, content in enumerate(head.get("runs", TABLES), 1)
    ]
    specs, notes = expand([_block(head, run) for run in runs], str(path))
    node = head.table("node", KEYS["[node]"])
    return Plan(
        name=_name(head, path.stem),
        specs=specs,
        slurm=slurm.settings(head.table("slurm")),
        setup=tuple(node.get("setup", TEXTS, ())),
        wrapper=node.words("wrapper"),
        python=node.get("python", TEXT),
        max_running=head.get("max_running", COUNT),
        notes=notes,
        share=_share(head, specs),
    )


def _share(head: Table, specs: Iterable[Spec]) -> Share | None:
    share: Share | None = head.get("share", one_of("group"))
    if share and any(spec.keep_environment for spec in specs):
        head.refuse("share and keep_environment do not go together: others would read the environment")
    return share


def _name(head: Table, default: str) -> str:
    """Return what the batch, its folder and its jobs are called: on one line."""
    name = " ".join(head.get("name", TEXT, default).split())
    if "/" in name:
        head.refuse(f"name = {shown(name)} cannot be the name of a folder", "leave the / out")
    return name


def _block(head: Table, run: Table) -> Block:
    """Return one block; where it says nothing, the head of the plan counts."""
    nsys = {**_nsys(head), **_nsys(run)}
    return Block(
        where=run.where,
        **_what(run),
        **axes.read(run),
        repeat=run.get("repeat", COUNT, head.get("repeat", COUNT, 1)),
        timeout_s=run.get("timeout", SECONDS, head.get("timeout", SECONDS)),
        env={**_env(head), **_env(run)},
        nsys_path=nsys.pop("path", None),
        keep_environment=nsys.pop("keep_environment", False),
        discard_rep=nsys.pop("discard_rep", False),
        nsys=nsys,
        name=" ".join(run.get("name", TEXT, "").split()),
    )


def _what(run: Table) -> dict[str, Any]:
    """Return what the block runs, as fields of Block."""
    if ("command" in run.content) == ("scenario" in run.content):
        both = "both a command and a scenario" if "command" in run.content else "no command and no scenario"
        run.refuse(f"there is {both}", f"write one of them, {_EXAMPLE}")
    kind, others = ("command", _SCENARIO) if "command" in run.content else ("scenario", _COMMAND)
    for key in others:
        if key in run.content:
            run.refuse(f"{key!r} does not go with a {kind}")
    if kind == "command":
        module, arch = run.get("module", FLAG, default=False), run.get("arch", TEXT)
        return {"command": run.words("command"), "module": module, "arch": arch}
    return _scenario(run)


def _scenario(run: Table) -> dict[str, Any]:
    try:
        found = scenario.find(run.get("scenario", TEXT))
        variants = run.get("variants", TEXTS, list(found.variants))
        found.check(variants)
    except UsageError as error:
        raise PlanError(f"{run.where}: {error}", error.hint) from None
    if not variants or len(set(variants)) < len(variants):
        run.refuse("variants is empty, or names one twice", f"variants: {' '.join(found.variants)}")
    arguments = run.words("arguments") if run.content.get("arguments") else ()
    return {"scenario": found, "variants": tuple(variants), "arguments": arguments}


def _env(table: Table) -> dict[str, str]:
    env = table.table("env")
    found = {}
    for name, value in env.content.items():
        if not name or "=" in name or "\0" in name:
            env.refuse(f"{name!r} cannot be the name of an environment variable")
        try:
            found[name] = of_toml(value).text
        except Unusable as error:
            env.refuse(f"{name} is {error}")
    return found


def _nsys(table: Table) -> dict[str, Any]:
    """Return what is asked of nsys: fields of Options, and of Block."""
    nsys = table.table("nsys", KEYS["[nsys]"])
    found = {key: nsys.get(key, kind) for key, kind in _NSYS.items() if key in nsys.content}
    if "args" in nsys.content:
        found["extra"] = tuple(nsys.get("args", TEXTS))
    for key, kind in (("path", TEXT), ("keep_environment", FLAG), ("discard_rep", FLAG)):
        if key in nsys.content:
            found[key] = nsys.get(key, kind)
    return found
