"""Work for a trial recording: about two seconds of copies and vector additions on the GPU.

It calls the CUDA driver and imports the standard library only, so it needs neither nvcc nor PyTorch. With the
argument ``cpu`` it works on the CPU. Each sum is checked.
"""

from __future__ import annotations

import ctypes
import sys
import time

ROUNDS = 20  # kernels
COPIES = 3 * ROUNDS  # two vectors to the GPU and one back
_PAUSE_S = 0.1
_COUNT, _THREADS = 1 << 16, 256
# Vector addition for any GPU since Maxwell: the driver compiles it.
_PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u32 count)
{
    .reg .pred %outside;
    .reg .f32 %x, %y;
    .reg .b32 %block, %size, %thread, %i, %count;
    .reg .b64 %a, %b, %sum, %offset;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.s32 %i, %block, %size, %thread;
    ld.param.u32 %count, [count];
    setp.ge.u32 %outside, %i, %count;
    @%outside ret;
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    ld.param.u64 %sum, [sum];
    mul.wide.u32 %offset, %i, 4;
    add.s64 %a, %a, %offset;
    add.s64 %b, %b, %offset;
    add.s64 %sum, %sum, %offset;
    ld.global.f32 %x, [%a];
    ld.global.f32 %y, [%b];
    add.f32 %x, %x, %y;
    st.global.f32 [%sum], %x;
    ret;
}
"""
_Vector = ctypes.c_float * _COUNT


class _Driver:
    """The functions of libcuda.so.1, each of which ends the program if it fails."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, function: str, *arguments: object) -> None:
        if code := getattr(self._library, function)(*arguments):
            sys.exit(f"{function} returned CUDA error {code}")


def _load_kernel(cuda: _Driver) -> ctypes.c_void_p:
    device, context, module, kernel = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))
    cuda.call("cuInit", 0)
    cuda.call("cuDeviceGet", ctypes.byref(device), 0)
    cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda.call("cuCtxSetCurrent", context)
    cuda.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX))
    cuda.call("cuModuleGetFunction", ctypes.byref(kernel), module, ctypes.c_char_p(b"vector_add"))
    return kernel


def _allocate(cuda: _Driver) -> ctypes.c_uint64:
    address = ctypes.c_uint64()
    cuda.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(ctypes.sizeof(_Vector)))
    return address


def _work_on_gpu() -> None:
    cuda = _Driver()
    kernel = _load_kernel(cuda)
    addresses = [_allocate(cuda) for _ in range(3)]
    a, b = _Vector(*range(_COUNT)), _Vector(*([0.5] * _COUNT))
    expected = [number + 0.5 for number in range(_COUNT)]
    for _ in range(ROUNDS):
        size = ctypes.c_size_t(ctypes.sizeof(_Vector))
        for address, vector in zip(addresses, [a, b], strict=False):
            cuda.call("cuMemcpyHtoD_v2", address, vector, size)
        parameters = [*addresses, ctypes.c_uint32(_COUNT)]
        pointers = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        grid, block = (_COUNT // _THREADS, 1, 1), (_THREADS, 1, 1)
        cuda.call("cuLaunchKernel", kernel, *grid, *block, 0, None, pointers, None)
        cuda.call("cuCtxSynchronize")
        total = _Vector()
        cuda.call("cuMemcpyDtoH_v2", total, addresses[-1], size)
        if list(total) != expected:
            sys.exit("the sum on the GPU differs from the CPU's")
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    if sys.argv[1:] == ["cpu"]:
        for _ in range(ROUNDS):
            sum(range(_COUNT))
            time.sleep(_PAUSE_S)
    else:
        _work_on_gpu()
