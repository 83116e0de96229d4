// A PyTorch extension in one file: the tanh approximation of GELU as one kernel.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <cstdint>

namespace {

constexpr std::int64_t threads_per_block = 256;

}  // namespace

// Outside the anonymous namespace, so that the name is plain in a profile.
__global__ void gelu_kernel(const float *x, float *y, std::int64_t n) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float value = x[i];
  const float sqrt_2_over_pi = 0.7978845608028654f;
  const float inner = sqrt_2_over_pi * (value + 0.044715f * value * value * value);
  y[i] = 0.5f * value * (1.0f + tanhf(inner));
}

torch::Tensor gelu(const torch::Tensor &x) {
  TORCH_CHECK(x.is_cuda(), "x must be on a CUDA device, is on ", x.device());
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32, is ", x.scalar_type());
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  // The kernel must run on the tensor's device, which may not be the current one. It must
  // run in PyTorch's stream there, in order with PyTorch's own work.
  const c10::cuda::CUDAGuard guard(x.device());
  const auto y = torch::empty(x.sizes(), x.options());
  const std::int64_t n = x.numel();
  if (n == 0) return y;  // a launch without blocks is an error
  const auto blocks = static_cast<unsigned>((n + threads_per_block - 1) / threads_per_block);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  gelu_kernel<<<blocks, threads_per_block, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                        n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("gelu", &gelu,
        "Return the tanh-approximate GELU of x, a contiguous float32 CUDA tensor. "
        "Returns without waiting for the GPU.",
        pybind11::arg("x"));
}
