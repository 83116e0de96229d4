"""Load nsyswrap's hook when Python starts, then the ``sitecustomize`` that Python would load without us.

This folder stands first on PYTHONPATH, so that child processes load the hook, too. It is taken off sys.path.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


try:
    import nsyswrap_hook  # type: ignore[import-not-found]

    nsyswrap_hook.activate()
except Exception:  # noqa: BLE001, S110 - the program runs on; that the hook is missing is reported later
    pass
sys.path[:] = [
    entry for entry in sys.path if not isinstance(entry, str) or os.path.abspath(entry or os.curdir) != _HERE
]
sys.modules.pop("sitecustomize", None)
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401 - the next one; Python ignores that there is none
