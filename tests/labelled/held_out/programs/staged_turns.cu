// Copy a tile to the GPU, work on it and copy it back, all on one stream and from pinned memory.
// Lost time: the kernel waits for its copies, which take as long; two streams would hide them.
#include <nvtx3/nvToolsExt.h>

#include "pieces.cuh"

int main() {
  const int n = 12 << 20;  // 48 MiB
  float *host, *x;
  CHECK(cudaMallocHost(&host, n * sizeof(float)));
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  std::fill(host, host + n, 0.5f);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const auto copies = [&] {
    CHECK(cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(host, x, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  };
  const int rounds = rounds_for(seconds_of(copies), x, n);
  for (int tile = 0; tile < 60; ++tile) {
    nvtxRangePushA("tile");
    CHECK(cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, stream));
    integrate<<<n / 256, 256, 0, stream>>>(x, n, rounds);
    CHECK(cudaMemcpyAsync(host, x, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    nvtxRangePop();
  }
}
