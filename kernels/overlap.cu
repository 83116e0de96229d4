// Copies floats to the device in chunks, adds to them and copies them back, in one stream or in four.
//
// usage: overlap [one_stream|four_streams]... [--n N] [--chunks N] [--warmup N] [--iterations N]
//
// exit status: 0 right result, 1 CUDA error or wrong result, 2 bad arguments

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "scenario.h"

// On an H200 with PCI Express 5 the kernel takes about as long as the copy of its chunk to the device.
// The sums are whole numbers below 2^24, so they are exact.
constexpr int additions = 2048;
constexpr std::size_t distinct = 1024;  // different values in the input

// Outside the anonymous namespace, so that the name is plain in a profile.
__global__ void add_ones(float *data, std::size_t n) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float value = data[i];
  for (int k = 0; k < additions; ++k) value += 1.0f;
  data[i] = value;
}

namespace {

class Pipeline {
 public:
  Pipeline(std::size_t n, int chunks) : n_(n), chunks_(chunks) {
    for (std::size_t i = 0; i < n_; ++i) in_[i] = static_cast<float>(i % distinct);
  }

  void use_streams(int streams) {
    streams_.clear();
    for (int i = 0; i < streams; ++i) streams_.push_back(scenario::make_stream());
  }

  void run() {
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      const std::size_t begin = n_ * chunk / chunks_;
      const std::size_t end = n_ * (chunk + 1) / chunks_;
      if (begin < end) enqueue(begin, end - begin, streams_[chunk % streams_.size()].get());
    }
    CHECK(cudaDeviceSynchronize());
  }

  void check() {
    const scenario::Range range("check");
    std::fill_n(out_.get(), n_, 0.0f);
    run();
    bool right = true;
    for (std::size_t i = 0; i < n_; ++i) right &= out_[i] == static_cast<float>(i % distinct + additions);
    scenario::require(right, "the floats copied back");
  }

 private:
  void enqueue(std::size_t begin, std::size_t n, cudaStream_t stream) {
    constexpr unsigned threads = 256;
    const auto blocks = static_cast<unsigned>((n + threads - 1) / threads);
    const std::size_t bytes = n * sizeof(float);
    float *device = device_.get() + begin;
    CHECK(cudaMemcpyAsync(device, in_.get() + begin, bytes, cudaMemcpyHostToDevice, stream));
    add_ones<<<blocks, threads, 0, stream>>>(device, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(out_.get() + begin, device, bytes, cudaMemcpyDeviceToHost, stream));
  }

  const std::size_t n_;
  const std::size_t chunks_;
  // Pinned, because a copy from pageable memory would block the host, and nothing would overlap.
  const scenario::PinnedArray<float> in_ = scenario::pinned_array<float>(n_);
  const scenario::PinnedArray<float> out_ = scenario::pinned_array<float>(n_);
  const scenario::DeviceArray<float> device_ = scenario::device_array<float>(n_);
  std::vector<scenario::Stream> streams_;
};

}  // namespace

int main(int argc, char **argv) {
  int n = 1 << 24;
  int chunks = 8;
  scenario::Repeats repeats{2, 10};
  scenario::CommandLine line{"overlap",
                             {"one_stream", "four_streams"},
                             {{"n", 1, &n},
                              {"chunks", 4, &chunks},
                              {"warmup", 0, &repeats.warmup},
                              {"iterations", 1, &repeats.iterations}}};
  line.parse(argc, argv);

  Pipeline pipeline(n, chunks);
  std::vector<scenario::Timing> timings;
  for (const std::string &variant : line.variants) {
    pipeline.use_streams(variant == "four_streams" ? 4 : 1);
    pipeline.check();
    timings.push_back(scenario::time_operation(
        variant, "pipeline", repeats, [] {}, [&] { pipeline.run(); }));
    pipeline.check();
  }
  scenario::report(line, timings);
}
