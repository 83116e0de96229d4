// Integrate many orbits with two long kernels per step, after a start-up of 1.5 s.
// Healthy: a step keeps the GPU busy for 5 ms, and the host waits only every tenth step.
#include <nvtx3/nvToolsExt.h>

#include "pieces.cuh"

int main() {
  start_up(1.5);
  const int n = 1 << 24;
  float *x;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMemset(x, 0, n * sizeof(float)));
  const int rounds = rounds_for(2.5e-3, x, n);
  for (int step = 0; step < 50; ++step) {
    nvtxRangePushA("orbit");
    integrate<<<n / 256, 256>>>(x, n, rounds);
    integrate<<<n / 256, 256>>>(x, n, rounds);
    if (step % 10 == 9) CHECK(cudaDeviceSynchronize());
    nvtxRangePop();
  }
}
