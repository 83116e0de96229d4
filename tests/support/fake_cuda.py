"""A libcuda.so.1 that adds the vectors of doctor's probe on the CPU: a GPU cannot be had on every machine.

It counts kernels and copies in the file that ``$FAKE_CUDA_COUNTS`` names. ``$FAKE_CUDA_WRONG`` makes its sums
wrong. The function that ``$FAKE_CUDA_FAILS`` names returns the error 700.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int enter(const char *name) {
  const char *failing = getenv("FAKE_CUDA_FAILS");
  return failing && !strcmp(failing, name) ? 700 : 0;
}
static int counted(const char *name) {
  const char *path = getenv("FAKE_CUDA_COUNTS");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (file) { fprintf(file, "%s\n", name); fclose(file); }
  return enter(name);
}
int cuInit(unsigned flags) { return enter("cuInit"); }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Fake GPU"); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? 9 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = context; return 0; }
int cuCtxSetCurrent(void *context) { return context ? 0 : 201; }
int cuModuleLoadData(void **module, const char *ptx) {
  *module = module;
  return strstr(ptx, ".entry vector_add(") ? enter("cuModuleLoadData") : 218;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = function;
  return strcmp(name, "vector_add") ? 500 : 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
  *address = (uint64_t)(uintptr_t)malloc(size);
  return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
  memcpy((void *)(uintptr_t)to, from, size);
  return counted("cuMemcpyHtoD_v2");
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
  memcpy(to, (void *)(uintptr_t)from, size);
  return counted("cuMemcpyDtoH_v2");
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
  float *a = *(float **)parameters[0], *b = *(float **)parameters[1], *sum = *(float **)parameters[2];
  uint32_t count = *(uint32_t *)parameters[3];
  for (uint32_t i = 0; i < count && i < gx * bx; ++i) sum[i] = a[i] + b[i];
  if (getenv("FAKE_CUDA_WRONG")) sum[count - 1] += 1;
  return counted("cuLaunchKernel");
}
int cuCtxSynchronize(void) { return enter("cuCtxSynchronize"); }
"""


def build(folder: Path) -> Path:
    """Compile the library into ``folder``, which then belongs on LD_LIBRARY_PATH, and return the folder."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = folder / "fake_cuda.c"
    source.write_text(SOURCE)
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return folder
