#include "add2.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

void check_vector(const torch::Tensor &tensor, const char *name) {
  TORCH_CHECK(tensor.is_cuda(), name, " must be on a CUDA device, is on ", tensor.device());
  TORCH_CHECK(tensor.scalar_type() == torch::kFloat32, name, " must be float32, is ",
              tensor.scalar_type());
  TORCH_CHECK(tensor.is_contiguous(), name, " must be contiguous");
}

void check_alike(const torch::Tensor &tensor, const torch::Tensor &c, const char *name) {
  TORCH_CHECK(tensor.device() == c.device(), name, " must be on ", c.device(), " like c, is on ",
              tensor.device());
  TORCH_CHECK(tensor.sizes() == c.sizes(), name, " must have the sizes ", c.sizes(),
              " of c, has ", tensor.sizes());
}

void add2(const torch::Tensor &c, const torch::Tensor &a, const torch::Tensor &b) {
  check_vector(c, "c");
  check_vector(a, "a");
  check_vector(b, "b");
  check_alike(a, c, "a");
  check_alike(b, c, "b");
  // The kernel must run on the tensors' device, which may not be the current one. It must
  // run in PyTorch's stream there, in order with PyTorch's own work.
  const c10::cuda::CUDAGuard guard(c.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(launch_add2(c.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(),
                             c.numel(), stream));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("add2", &add2,
             "Write a + b to c: contiguous float32 CUDA tensors of equal sizes on one device. "
             "Returns without waiting for the GPU.",
             pybind11::arg("c"), pybind11::arg("a"), pybind11::arg("b"));
}
