#include "add2.h"

#include <algorithm>

namespace {

constexpr std::int64_t threads_per_block = 256;
constexpr std::int64_t most_blocks = 2147483647;  // the limit of a grid's x dimension

}  // namespace

// Outside the anonymous namespace, so that the name is plain in a profile.
__global__ void add2_kernel(float *c, const float *a, const float *b, std::int64_t n) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t i = first; i < n; i += stride) c[i] = a[i] + b[i];
}

cudaError_t launch_add2(float *c, const float *a, const float *b, std::int64_t n,
                        cudaStream_t stream) {
  if (n == 0) return cudaSuccess;  // a launch without blocks is an error
  const std::int64_t enough = (n + threads_per_block - 1) / threads_per_block;
  const unsigned blocks = static_cast<unsigned>(std::min(enough, most_blocks));
  add2_kernel<<<blocks, threads_per_block, 0, stream>>>(c, a, b, n);
  return cudaGetLastError();
}
