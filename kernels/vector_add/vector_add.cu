// A PyTorch extension in one file: vector addition, and its binding to Python.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <cstdint>

namespace {

constexpr std::int64_t threads_per_block = 256;

void check_vector(const torch::Tensor &tensor, const char *name) {
  TORCH_CHECK(tensor.is_cuda(), name, " must be on a CUDA device, is on ", tensor.device());
  TORCH_CHECK(tensor.scalar_type() == torch::kFloat32, name, " must be float32, is ",
              tensor.scalar_type());
  TORCH_CHECK(tensor.is_contiguous(), name, " must be contiguous");
}

}  // namespace

// Outside the anonymous namespace, so that the name is plain in a profile.
__global__ void vector_add_kernel(const float *a, const float *b, float *c, std::int64_t n) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

torch::Tensor vector_add(const torch::Tensor &a, const torch::Tensor &b) {
  check_vector(a, "a");
  check_vector(b, "b");
  TORCH_CHECK(a.device() == b.device(), "b must be on ", a.device(), " like a, is on ", b.device());
  TORCH_CHECK(a.sizes() == b.sizes(), "b must have the sizes ", a.sizes(), " of a, has ",
              b.sizes());
  // The kernel must run on the tensors' device, which may not be the current one. It must
  // run in PyTorch's stream there, in order with PyTorch's own work.
  const c10::cuda::CUDAGuard guard(a.device());
  const auto c = torch::empty(a.sizes(), a.options());
  const std::int64_t n = a.numel();
  if (n == 0) return c;  // a launch without blocks is an error
  const auto blocks = static_cast<unsigned>((n + threads_per_block - 1) / threads_per_block);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  vector_add_kernel<<<blocks, threads_per_block, 0, stream>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("vector_add", &vector_add,
        "Return a + b: contiguous float32 CUDA tensors of equal sizes on one device. "
        "Returns without waiting for the GPU.",
        pybind11::arg("a"), pybind11::arg("b"));
}
