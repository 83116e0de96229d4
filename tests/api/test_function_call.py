"""A function with arguments that another process cannot get is refused in words."""

import ctypes
from pathlib import Path

import pytest

from nsyswrap.api.gpu_profile import program_of
from nsyswrap.base.errors import UsageError


class Unsendable:
    def __reduce__(self) -> str:
        raise RuntimeError("storage is gone")


@pytest.mark.parametrize("argument", [ctypes.pointer(ctypes.c_int(1)), Unsendable(), lambda: 1])
def test_arguments_that_cannot_be_pickled_are_named(argument: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="arguments of program_of cannot be sent"):
        program_of(program_of, (argument,), tmp_path / "call")
