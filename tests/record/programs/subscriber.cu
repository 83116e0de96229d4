// Subscribe to CUPTI before CUDA starts, as another profiler does, then launch ten kernels.
#include <cupti.h>

__global__ void add(int n, float *x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}

static void CUPTIAPI ignore(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {}

int main() {
  CUpti_SubscriberHandle subscriber;
  if (cuptiSubscribe(&subscriber, ignore, nullptr) != CUPTI_SUCCESS) return 1;
  float *x;
  if (cudaMalloc(&x, 4096) != cudaSuccess) return 2;
  for (int i = 0; i < 10; i++) add<<<4, 256>>>(1024, x);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
