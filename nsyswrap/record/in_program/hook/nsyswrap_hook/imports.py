"""Call functions right after the program has imported a module."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import notes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec

_waiting: dict[str, list[Callable[[], None]]] = {}


def after_import(module: str, action: Callable[[], None]) -> None:
    """Call ``action`` as soon as ``module`` has been imported; at once if it has been already."""
    if module in sys.modules:
        notes.guarded(action)()
        return
    if not _waiting:
        sys.meta_path.insert(0, _Watcher)
    _waiting.setdefault(module, []).append(action)


class _Watcher:
    """A finder that finds nothing itself: it notes when the loader of another one has run."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:  # noqa: ANN401 - as importlib says
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            if finder is not _Watcher and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    notes.guarded(_watch)(spec)
                    return spec
        return None


def _watch(spec: ModuleSpec) -> None:
    """Let the loader of ``spec`` call the waiting functions, once, when it has run the module."""
    loader: Any = spec.loader
    run = loader.exec_module

    def run_and_tell(module: object) -> None:
        del loader.exec_module  # the loader is as it was
        run(module)
        for action in _waiting.pop(spec.name, []):
            notes.guarded(action)()
        if not _waiting and _Watcher in sys.meta_path:
            sys.meta_path.remove(_Watcher)

    loader.exec_module = run_and_tell
