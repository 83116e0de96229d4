"""Load a new PTX module in every step, which the driver compiles. No NVTX, 1.5 s of start-up.

Lost time: cuModuleLoadData takes many times as long as the 2 ms of GPU work in each step.
"""

import ctypes
import os

os.environ["CUDA_CACHE_DISABLE"] = "1"

import torch
from common import gpu_work, start_up

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry polynomial(.param .u64 target)
{
.reg .f32 %f<3>;
.reg .b64 %d<3>;
ld.param.u64 %d1, [target];
cvta.to.global.u64 %d2, %d1;
ld.global.f32 %f1, [%d2];
"""
TAIL = "st.global.f32 [%d2], %f1;\nret;\n}\n"
driver = ctypes.CDLL("libcuda.so.1")


def source(step: int) -> bytes:
    lines = [f"fma.rn.f32 %f1, %f1, 0f3F{step:02X}{n % 65536:04X}, 0f3E800000;\n" for n in range(3000)]
    return (HEAD + "".join(lines) + TAIL).encode()


def check(code: int) -> None:
    if code:
        raise RuntimeError(f"CUDA error {code}")


def load_and_launch(text: bytes, target: torch.Tensor) -> None:
    module, function, pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(target.data_ptr())
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(pointer), ctypes.c_void_p))
    check(driver.cuModuleLoadData(ctypes.byref(module), text))
    check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"polynomial"))
    check(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None))


start_up(1.5)
compute = gpu_work(2e-3)
value = torch.zeros(1, device="cuda")
sources = [source(step) for step in range(24)]
for text in sources:
    load_and_launch(text, value)
    compute()
    torch.cuda.synchronize()
print(value.item())
