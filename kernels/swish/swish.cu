// A PyTorch extension in one file: y = x sigmoid(x) and its derivative, a kernel each.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <cstdint>

namespace {

constexpr std::int64_t threads_per_block = 256;

void check(const torch::Tensor &x) {
  TORCH_CHECK(x.is_cuda(), "the tensor must be on a CUDA device, is on ", x.device());
  TORCH_CHECK(x.is_contiguous(), "the tensor must be contiguous");
}

unsigned blocks_for(std::int64_t n) {
  return static_cast<unsigned>((n + threads_per_block - 1) / threads_per_block);
}

}  // namespace

// Outside the anonymous namespace, so that the names are plain in a profile.
template <typename T>
__global__ void swish_forward_kernel(const T *x, T *y, std::int64_t n) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i] / (T(1) + exp(-x[i]));
}

template <typename T>
__global__ void swish_backward_kernel(const T *x, const T *gradient, T *result, std::int64_t n) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const T sigmoid = T(1) / (T(1) + exp(-x[i]));
  result[i] = gradient[i] * sigmoid * (T(1) + x[i] * (T(1) - sigmoid));
}

torch::Tensor forward(const torch::Tensor &x) {
  check(x);
  // The kernel must run on the tensor's device, which may not be the current one. It must
  // run in PyTorch's stream there, in order with PyTorch's own work.
  const c10::cuda::CUDAGuard guard(x.device());
  const auto y = torch::empty_like(x);
  const std::int64_t n = x.numel();
  if (n == 0) return y;  // a launch without blocks is an error
  const auto stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "swish forward", [&] {
    swish_forward_kernel<scalar_t><<<blocks_for(n), threads_per_block, 0, stream>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

torch::Tensor backward(const torch::Tensor &x, const torch::Tensor &gradient) {
  check(x);
  check(gradient);
  TORCH_CHECK(x.sizes() == gradient.sizes(), "x and its gradient must have the same shape");
  TORCH_CHECK(x.scalar_type() == gradient.scalar_type(), "x and its gradient must have one type");
  const c10::cuda::CUDAGuard guard(x.device());
  const auto result = torch::empty_like(x);
  const std::int64_t n = x.numel();
  if (n == 0) return result;
  const auto stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "swish backward", [&] {
    swish_backward_kernel<scalar_t><<<blocks_for(n), threads_per_block, 0, stream>>>(
        x.data_ptr<scalar_t>(), gradient.data_ptr<scalar_t>(), result.data_ptr<scalar_t>(), n);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Return x sigmoid(x) of a contiguous CUDA tensor.",
        pybind11::arg("x"));
  m.def("backward", &backward, "Return the gradient of x from that of x sigmoid(x).",
        pybind11::arg("x"), pybind11::arg("gradient"));
}
