"""Import a function and call it. pytest's fixture ``gpu_profile`` runs this file under nsys.

The first argument names the function, for people and run.json. The file of the call is named by a variable of
the environment, because its path is another in each session. It is a pickle of this user's own, in a private
folder. This file imports the standard library only: what the function needs is found as in the test.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "_NSYSWRAP_CALL"


def main() -> None:
    """Call the function of the file that the environment names."""
    with Path(os.environ.pop(VARIABLE)).open("rb") as file:
        call: dict[str, Any] = pickle.load(file)  # noqa: S301 - our own file
        sys.path[:] = call["path"]
        sys.argv[:] = sys.argv[:1]
        function: Any = _module(call["module"], Path(call["file"]))
        for name in call["function"].split("."):
            function = getattr(function, name)
        arguments = pickle.load(file)  # noqa: S301 - their classes can be those of the module
    function(*arguments)


def _module(name: str, file: Path) -> ModuleType:
    """Import a module by its name; from its file if that name is another module, or none, here."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        module = None
    if module is not None and module.__file__ and Path(module.__file__).samefile(file):
        return module
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
