// Adds two float vectors in CUDA managed memory, y = x + y, with one kernel
// launched in one of four ways. Checks the sum and prints its largest error.
//
// usage: add [1x1|1x256|grid|prefetch] [--n N]
//
// exit status: 0 right sum, 1 CUDA error or wrong sum, 2 bad arguments

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "scenario.h"

// The grid-stride loop works for any number of blocks and threads, so the variants
// differ only in their launch. It is outside the anonymous namespace, so that its
// name in a profile is plain `add`.
__global__ void add(std::size_t n, const float *x, float *y) {
  const std::size_t first = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  const std::size_t stride = gridDim.x * static_cast<std::size_t>(blockDim.x);
  for (std::size_t i = first; i < n; i += stride) y[i] = x[i] + y[i];
}

namespace {

struct Variant {
  const char *name;
  int blocks;  // 0: enough for one thread per element
  int threads;  // per block
  bool prefetch;  // move the vectors to the device before the launch
};

constexpr Variant variants[] = {
    {"1x1", 1, 1, false},
    {"1x256", 1, 256, false},
    {"grid", 0, 256, false},
    {"prefetch", 0, 256, true},
};

struct Options {
  const Variant *variant = &variants[2];
  int n = 1 << 20;  // elements of each vector
};

float *allocate(std::size_t n, float value) {
  float *data = nullptr;
  CHECK(cudaMallocManaged(&data, n * sizeof(float)));
  // The host writes the pages, so they are in host memory when the kernel starts.
  std::fill_n(data, n, value);
  return data;
}

void launch(const Variant &variant, std::size_t n, const float *x, float *y) {
  const std::size_t enough = (n + variant.threads - 1) / variant.threads;
  const unsigned blocks = variant.blocks > 0 ? variant.blocks : static_cast<unsigned>(enough);
  add<<<blocks, variant.threads>>>(n, x, y);
  scenario::check(cudaGetLastError(), "add<<<...>>>", __FILE__, __LINE__);
}

float max_error(std::size_t n, const float *data, float expected) {
  float worst = 0.0f;
  for (std::size_t i = 0; i < n; ++i) {
    const float error = std::fabs(data[i] - expected);
    if (std::isnan(error)) return error;  // std::max would ignore NaN
    worst = std::max(worst, error);
  }
  return worst;
}

const Variant *find_variant(const char *name) {
  for (const Variant &variant : variants) {
    if (std::strcmp(variant.name, name) == 0) return &variant;
  }
  return nullptr;
}

bool parse(int argc, char **argv, Options *options) {
  bool named = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--n") == 0) {
      if (++i == argc || !scenario::parse_count(argv[i], 1, &options->n)) return false;
    } else {
      const Variant *variant = find_variant(argv[i]);
      if (variant == nullptr || named) return false;
      options->variant = variant;
      named = true;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: add [1x1|1x256|grid|prefetch] [--n N]  (N: 1 to %d)\n", INT_MAX);
    return 2;
  }
  const std::size_t n = options.n;
  float *x = allocate(n, 1.0f);
  float *y = allocate(n, 2.0f);

  if (options.variant->prefetch) {
    int device = 0;
    CHECK(cudaGetDevice(&device));
    scenario::prefetch(x, n * sizeof(float), device, nullptr);
    scenario::prefetch(y, n * sizeof(float), device, nullptr);
  }
  launch(*options.variant, n, x, y);
  CHECK(cudaDeviceSynchronize());

  const float error = max_error(n, y, 3.0f);
  std::printf("Max error: %g\n", error);
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
  return error == 0.0f ? 0 : 1;
}
