// Sum a long vector with a single block of 1024 threads in each pass. No NVTX, no start-up.
// Lost time: the GPU is busy all the time, but only one of its multiprocessors works.
#include "pieces.cuh"

__global__ void sum_all(const float *x, float *total, int n) {
  __shared__ float parts[1024];
  float part = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) part += x[i];
  parts[threadIdx.x] = part;
  __syncthreads();
  for (int half = 512; half; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *total = parts[0];
}

int main() {
  const int n = 1 << 26;
  float *x, *total, result;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMalloc(&total, sizeof(float)));
  CHECK(cudaMemset(x, 0, n * sizeof(float)));
  for (int pass = 0; pass < 40; ++pass) sum_all<<<1, 1024>>>(x, total, n);
  CHECK(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost));
  std::printf("%g\n", result);
}
