// Vector addition on a CUDA stream. add2.cu (CUDA) defines it, add2.cpp (PyTorch) calls it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Queues c[i] = a[i] + b[i] for i < n on the stream and returns without waiting.
// The vectors are n floats each in memory of the current device; c may be a or b.
// Returns the status of the launch. An error inside the kernel is reported later.
cudaError_t launch_add2(float *c, const float *a, const float *b, std::int64_t n,
                        cudaStream_t stream);
