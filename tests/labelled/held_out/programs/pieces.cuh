// What the held-out CUDA programs share: error checks, clocks, a start-up, and a kernel of a chosen length.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK(call)                                                                \
  do {                                                                             \
    const cudaError_t code = (call);                                               \
    if (code != cudaSuccess) {                                                     \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));           \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

__global__ void integrate(float *x, int n, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = x[i];
  for (int round = 0; round < rounds; ++round) value = fmaf(value, 0.999f, 0.001f);
  x[i] = value;
}

// Sort random numbers on the host for some seconds, as programs that read and prepare their input do.
inline void start_up(double seconds) {
  const double until = now() + seconds;
  CHECK(cudaFree(nullptr));
  std::mt19937 random(7);
  while (now() < until) {
    std::vector<unsigned> data(100000);
    for (auto &value : data) value = random();
    std::sort(data.begin(), data.end());
  }
}

// Return the time until the GPU is done with the work, the mean of ten, after one to warm up.
template <class Work>
double seconds_of(Work work) {
  work();
  CHECK(cudaDeviceSynchronize());
  const double start = now();
  for (int time = 0; time < 10; ++time) work();
  CHECK(cudaDeviceSynchronize());
  return (now() - start) / 10;
}

// Return the rounds with which `integrate` on n floats takes that long.
inline int rounds_for(double seconds, float *x, int n) {
  const int tried = 4000;
  const double taken = seconds_of([&] { integrate<<<(n + 255) / 256, 256>>>(x, n, tried); });
  return std::max(1, static_cast<int>(tried * seconds / taken));
}
