// A PyTorch extension in one file: the softmax of each row of a matrix, one block of threads a row.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int threads_per_block = 256;
constexpr int warp = 32;
constexpr unsigned all_lanes = 0xffffffffu;

// The largest value so far, and the sum of exp(value - largest).
struct Partial {
  float largest;
  float sum;
};

__device__ Partial combined(const Partial &a, const Partial &b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return {largest, 0.0f};  // nothing so far: -inf - -inf is no number
  return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

__device__ Partial combined_in_warp(Partial mine) {
  for (int away = warp / 2; away > 0; away /= 2) {
    const Partial other = {__shfl_xor_sync(all_lanes, mine.largest, away),
                           __shfl_xor_sync(all_lanes, mine.sum, away)};
    mine = combined(mine, other);
  }
  return mine;
}

}  // namespace

// Outside the anonymous namespace, so that the name is plain in a profile.
__global__ void softmax_kernel(const float *x, float *y, std::int64_t columns) {
  __shared__ Partial of_warps[threads_per_block / warp];
  const float *row = x + blockIdx.x * columns;
  float *result = y + blockIdx.x * columns;
  Partial mine = {-INFINITY, 0.0f};
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    mine = combined(mine, {row[i], 1.0f});
  mine = combined_in_warp(mine);
  if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = mine;
  __syncthreads();
  Partial all = of_warps[0];
  for (int i = 1; i < threads_per_block / warp; ++i) all = combined(all, of_warps[i]);
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    result[i] = expf(row[i] - all.largest) / all.sum;
}

torch::Tensor softmax(const torch::Tensor &x) {
  TORCH_CHECK(x.is_cuda(), "x must be on a CUDA device, is on ", x.device());
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32, is ", x.scalar_type());
  TORCH_CHECK(x.dim() == 2, "x must be a matrix, has ", x.dim(), " dimensions");
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  TORCH_CHECK(x.size(0) <= INT32_MAX, "x must have less than 2^31 rows, has ", x.size(0));
  // The kernel must run on the tensor's device, which may not be the current one. It must
  // run in PyTorch's stream there, in order with PyTorch's own work.
  const c10::cuda::CUDAGuard guard(x.device());
  const auto y = torch::empty(x.sizes(), x.options());
  if (x.numel() == 0) return y;  // a launch without blocks is an error
  const auto stream = c10::cuda::getCurrentCUDAStream();
  softmax_kernel<<<static_cast<unsigned>(x.size(0)), threads_per_block, 0, stream>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("softmax", &softmax,
        "Return the softmax of each row of x, a contiguous float32 CUDA matrix. "
        "Returns without waiting for the GPU.",
        pybind11::arg("x"));
}
