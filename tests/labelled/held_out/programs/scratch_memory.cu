// Allocate scratch memory in every iteration and free it, after a start-up of 2 s.
// Lost time: cudaMalloc and cudaFree of 4 GiB take three times as long as the kernel.
#include <nvtx3/nvToolsExt.h>

#include "pieces.cuh"

static void with_scratch(float *x, int n, int rounds) {
  float *scratch[4];
  for (auto &memory : scratch) CHECK(cudaMalloc(&memory, 1ull << 30));
  if (rounds) integrate<<<(n + 255) / 256, 256>>>(x, n, rounds);
  for (auto memory : scratch) CHECK(cudaFree(memory));
}

int main() {
  start_up(2.0);
  const int n = 1 << 22;
  float *x;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMemset(x, 0, n * sizeof(float)));
  const double allocating = seconds_of([&] { with_scratch(x, n, 0); });
  const int rounds = rounds_for(allocating / 3, x, n);
  std::printf("allocating takes %.2f ms\n", allocating * 1e3);
  for (int iteration = 0; iteration < 50; ++iteration) {
    nvtxRangePushA("relocation");
    with_scratch(x, n, rounds);
    nvtxRangePop();
  }
  CHECK(cudaDeviceSynchronize());
}
