"""Give a PyTorch without CUDA the NVTX functions that one with CUDA has: import this after torch.

PyTorch's ``registerCUDAMethods`` takes an object of C++, whose virtual functions write the ranges.
"""

# PyTorch and nvtx have types in some versions only.
# mypy: ignore-errors

import ctypes
from pathlib import Path

import nvtx
import torch

_PUSH, _POP, _ENABLED, _SLOTS = 3, 4, 5, 10  # numbers of the virtual functions
_REGISTER = "_ZN5torch8profiler4impl19registerCUDAMethodsEPNS1_13ProfilerStubsE"


def _push(_self: int, text: bytes) -> None:
    nvtx.push_range(text.decode())


def _pop(_self: int) -> None:
    nvtx.pop_range()


_functions = {
    _PUSH: ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(_push),
    _POP: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_pop),
    _ENABLED: ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(lambda _self: True),
}
_table = (ctypes.c_void_p * _SLOTS)()
for _number, _function in _functions.items():
    _table[_number] = ctypes.cast(_function, ctypes.c_void_p)
_object = (ctypes.c_void_p * 1)(ctypes.addressof(_table))
_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
getattr(_library, _REGISTER)(ctypes.c_void_p(ctypes.addressof(_object)))
