// Relax a small grid with three kernels per sweep, and read one value back every 15 sweeps. No NVTX, no start-up.
// Lost time: a kernel takes 2 us and its launch longer, so the GPU waits for launches.
#include "pieces.cuh"

__global__ void relax(const float *from, float *to, int side) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= side - 1 || y >= side - 1) return;
  const int i = y * side + x;
  to[i] = 0.25f * (from[i - 1] + from[i + 1] + from[i - side] + from[i + side]);
}

__global__ void add_source(float *x, int side) { x[(side / 2) * side + side / 2] += 1; }

__global__ void damp(float *x, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] *= 0.99f;
}

int main() {
  const int side = 128, count = side * side;
  float *a, *b;
  CHECK(cudaMalloc(&a, count * sizeof(float)));
  CHECK(cudaMalloc(&b, count * sizeof(float)));
  CHECK(cudaMemset(a, 0, count * sizeof(float)));
  CHECK(cudaMemset(b, 0, count * sizeof(float)));
  const dim3 threads(16, 16), blocks(side / 16, side / 16);
  float middle = 0;
  for (int iteration = 0; iteration < 70; ++iteration) {
    for (int sweep = 0; sweep < 15; ++sweep) {
      relax<<<blocks, threads>>>(a, b, side);
      add_source<<<1, 1>>>(b, side);
      damp<<<count / 256, 256>>>(b, count);
      std::swap(a, b);
    }
    CHECK(cudaMemcpy(&middle, a + count / 2 + side / 2, sizeof middle, cudaMemcpyDeviceToHost));
  }
  std::printf("%g\n", middle);
}
