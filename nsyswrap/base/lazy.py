"""Import modules and compile patterns when they are first used, so that a command loads only what it needs.

Python 3.15 has ``lazy import`` statements for this (PEP 810); until then::

    with lazy_imports():
        import pandas as pd
        from nsyswrap.render import notebook

Only modules can be imported like this, by absolute names: neither ``from module import function`` nor
``import a.b``.

In the block ``builtins.__import__`` returns a stand-in to the module that has the block, and to no other.
Each use of an attribute asks ``importlib``, which has the module after the first time, so a stand-in keeps no
state and a name that is patched in the module is seen. Type checkers see plain imports. ``nsyswrap --help``
takes 0.06 s, ``import pandas`` alone 0.34 s.
"""

from __future__ import annotations

import builtins
import importlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from re import compile as regex
else:

    class regex:  # noqa: N801 - called as re.compile is
        """Stand in for a compiled pattern: the first use of a method compiles it and keeps the method."""

        def __init__(self, pattern: str, flags: int = 0) -> None:
            self._source = pattern, flags

        def __getattr__(self, name: str) -> object:
            value = getattr(re.compile(*self._source), name)
            setattr(self, name, value)
            return value


__all__ = ["import_numpy_without_threads", "lazy_imports", "regex"]

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_NUMPY_CORES = {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}  # numpy 2, numpy 1
_one_block = threading.RLock()  # two threads must not restore each other's import function


class _LazyModule(ModuleType):
    """Stand in for a module: the first use of an attribute imports it."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)


class _LazyPackage:
    """Stand in for a package in ``from package import module``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, module: str) -> ModuleType:
        return _LazyModule(f"{self._name}.{module}")


class _NumpyWithoutThreads:
    """A finder of ``sys.meta_path`` that finds nothing: it sees when numpy begins to load its libraries.

    The variable is set only while they are loaded, so no program that is started later inherits it.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Set the variable at the first import of numpy; remove it at the first one after its core."""
        if name == "numpy":
            os.environ[_BLAS_THREADS] = "1"
        elif name.startswith("numpy.") and sys.modules.keys() & _NUMPY_CORES:
            os.environ.pop(_BLAS_THREADS, None)
            sys.meta_path = [one for one in sys.meta_path if one is not self]  # a search goes through the old


def import_numpy_without_threads() -> None:
    """Let OpenBLAS start no thread in this process when numpy is imported, unless the user says how many.

    OpenBLAS starts a thread for each core, and no matrix is ever multiplied here.
    """
    if "numpy" not in sys.modules and _BLAS_THREADS not in os.environ:
        sys.meta_path.insert(0, cast("Any", _NumpyWithoutThreads()))


@contextmanager
def lazy_imports() -> Iterator[None]:
    """Make the imports in this block happen at the first use of each module.

    Only statements of the calling module are changed. An import error is raised at the first use.
    """
    importing_module = sys._getframe(2).f_globals  # noqa: SLF001 - there is no public way to the caller

    def lazy_import(name: str, *rest: Any) -> Any:  # noqa: ANN401 - the arguments of builtins.__import__
        namespace, _, fromlist, *_ = (*rest, None, None, None)
        if namespace is not importing_module:
            return normal_import(name, *rest)
        return _LazyPackage(name) if fromlist else _LazyModule(name)

    with _one_block:
        normal_import = builtins.__import__
        builtins.__import__ = cast("Any", lazy_import)
        try:
            yield
        finally:
            builtins.__import__ = normal_import
