"""A hundred mutated files, answered exactly or refused with one line; and planted faults, all found."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from sampled import sampled
from waiting import PATIENCE_S

from fuzz.planted import FAULTS

FUZZ = Path(__file__).resolve().parent
CASES, CHUNK = 100, 25
# Cases of kinds that are seldom among the others, or whose answers change with the commands.
OWN = {"hostile": 200, "tables": 100, "baselines": 100, "files": 100}
CHUNKS = [f"{first} {CHUNK}" for first in range(0, CASES, CHUNK)]
CHUNKS += [
    f"{CASES + first} {CHUNK} {kind}" for kind, cases in OWN.items() for first in range(0, cases, CHUNK)
]
SERVERS = 2  # at a time: the machine of CI has two cores
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8"}

FAST = (CHUNKS[0], *(f"{CASES} {CHUNK} {kind}" for kind in OWN))

Servers = dict[str, "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> Generator[Servers, None, None]:
    """Processes that work on the chunks while the tests read the results in the same order."""
    parameters = [
        getattr(item, "callspec", None) for item in request.session.items if item.path == request.path
    ]
    chunks = [one.params["chunk"] for one in parameters if one and "chunk" in one.params]
    started = []
    for number in range(SERVERS):
        asked = "".join(f"{chunk}\n" for chunk in chunks[number::SERVERS])
        command = [sys.executable, FUZZ, "--serve"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
        process: subprocess.Popen[str] = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
        process.stdin.write(asked)  # type: ignore[union-attr]
        process.stdin.close()  # type: ignore[union-attr]
        started.append(process)
    yield {chunk: started[index % SERVERS] for index, chunk in enumerate(chunks)}
    for process in started:
        process.terminate()
        process.stdout.close()  # type: ignore[union-attr]
        process.wait()


@sampled("chunk", CHUNKS, fast=FAST)
def test_mutated_files_are_answered_exactly_or_refused(chunk: str, servers: Servers) -> None:
    line = servers[chunk].stdout.readline()  # type: ignore[union-attr]
    result: dict[str, Any] = json.loads(line)
    assert result["findings"] == []
    assert sum(result["codes"].values()) == CHUNK
    # A tool that refuses everything would have no finding but these.
    has_kind = chunk.endswith(tuple(OWN))
    assert has_kind or result["harmless answered"] >= 1
    assert result["codes"]["0"] >= CHUNK // (8 if has_kind else 4)


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    command = [sys.executable, str(FUZZ), "--planted"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE_S, env=ENVIRONMENT
    )
    findings: dict[str, str] = json.loads(done.stdout)
    return findings


@pytest.mark.slow  # this tests the search for faults, not nsyswrap
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, found: dict[str, str]) -> None:
    _, expected = FAULTS[fault]
    assert expected in found[fault]
    assert bool(expected) == bool(found[fault])
