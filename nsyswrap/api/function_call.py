"""A call of a function as a program: another process imports its module and calls it."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

from nsyswrap.base.errors import UsageError
from nsyswrap.record.in_program import call_function
from nsyswrap.record.program import Program

_LONGEST = 200  # characters of the arguments in the command line
_USE = "define it with `def` at the top of a module, or use a script"


def program_of(
    function: Callable[..., object], arguments: tuple[object, ...], file: Path
) -> tuple[Program, dict[str, str]]:
    """Write the call to ``file``; return the program that makes it, and its variables.

    The command line is the same in each session, so that runs can be compared with older ones. Raises
    UsageError for a function that another process cannot import, or arguments that cannot be pickled.
    """
    module, name, source = _place(function)
    try:
        pickled = pickle.dumps(arguments)
    # A ctypes pointer raises ValueError, a tensor without storage or a list in itself RuntimeError.
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"the arguments of {name} cannot be sent to another process: {error}",
            "give plain values, and create other objects in the function",
        ) from None
    call = {"module": module, "function": name, "file": source, "path": sys.path}
    file.write_bytes(pickle.dumps(call) + pickled)
    words = (f"{module}:{name}", *((_text(arguments, pickled),) if arguments else ()))
    command = (sys.executable, call_function.__file__, *words)
    return Program(command, f"{module}:{name}"), {call_function.VARIABLE: str(file)}


def _place(function: Callable[..., object]) -> tuple[str, str, str]:
    """Return the module, the name in it and the file of a function."""
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not name or module is None:
        raise UsageError(f"{function!r} is not a function of a module", _USE)
    if "<" in name:
        kind = "a lambda" if name.endswith("<lambda>") else "defined inside another function"
        raise UsageError(f"{name} is {kind}: another process cannot import it", _USE)
    target: object = module
    for part in name.split("."):
        target = getattr(target, part, None)
    if target is not function:
        raise UsageError(f"{name} of module {module.__name__} is another object than the one given", _USE)
    if module.__name__ == "__main__" or not getattr(module, "__file__", None):
        raise UsageError(f"{name} is in no module that another process can import", _USE)
    return module.__name__, name, str(module.__file__)


def _text(arguments: tuple[object, ...], pickled: bytes) -> str:
    """Return the arguments as JSON; a hash of them if they are long or not plain."""
    try:
        text = json.dumps(arguments)
    except (TypeError, ValueError):
        text = ""
    return text if 0 < len(text) <= _LONGEST else f"#{hashlib.sha256(pickled).hexdigest()[:12]}"
