// Call cudaDeviceSynchronize and cudaGetLastError after every kernel, as left over from debugging.
// Lost time: between two kernels of 15 us the host wakes up, checks, and launches the next one.
#include <nvtx3/nvToolsExt.h>

#include "pieces.cuh"

int main() {
  const int n = 1 << 20;
  float *x;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMemset(x, 0, n * sizeof(float)));
  const int rounds = rounds_for(15e-6, x, n);
  for (int sweep = 0; sweep < 60; ++sweep) {
    nvtxRangePushA("sweep");
    for (int part = 0; part < 20; ++part) {
      integrate<<<n / 256, 256>>>(x, n, rounds);
      CHECK(cudaGetLastError());
      CHECK(cudaDeviceSynchronize());
    }
    nvtxRangePop();
  }
}
