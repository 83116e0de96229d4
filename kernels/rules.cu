// Multiplies two blocks of words by weights, wastefully or carefully, and checks the result.
//
// usage: rules [wasteful|careful]... [--kib N] [--warmup N] [--iterations N]
//
// exit status: 0 right result, 1 CUDA error or wrong result, 2 bad arguments

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "scenario.h"

using Count = unsigned long long;

constexpr std::size_t distinct_weights = 1024;

// Multiplies words by weights and counts the words. Outside the anonymous namespace, so that the name is
// plain in a profile.
__global__ void weigh(std::uint32_t *words, const std::uint32_t *weights, std::size_t n, Count *done) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < n) words[i] *= weights[i % distinct_weights];
  const int counted = __syncthreads_count(i < n);
  if (threadIdx.x == 0) atomicAdd(done, static_cast<Count>(counted));
}

namespace {

using Words = std::vector<std::uint32_t>;
using PinnedWords = scenario::PinnedArray<std::uint32_t>;
using DeviceWords = scenario::DeviceArray<std::uint32_t>;

constexpr std::size_t weights_bytes = distinct_weights * sizeof(std::uint32_t);
// Longer than the 500 ms from which the rule gpu_gaps of nsys reports a gap.
constexpr std::chrono::milliseconds pause(600);

std::uint32_t weight(std::size_t i) { return static_cast<std::uint32_t>(2 * i + 3); }

void fill_weights(std::uint32_t *weights) {
  for (std::size_t i = 0; i < distinct_weights; ++i) weights[i] = weight(i);
}

void launch(DeviceWords &words, const DeviceWords &weights, std::size_t n, Count *done, cudaStream_t stream) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>((n + threads - 1) / threads);
  weigh<<<blocks, threads, 0, stream>>>(words.get(), weights.get(), n, done);
  CHECK(cudaGetLastError());
}

void check(const std::uint32_t *words, std::size_t n) {
  bool right = true;
  for (std::size_t i = 0; i < n; ++i) {
    right &= words[i] == scenario::pattern(i) * weight(i % distinct_weights);
  }
  scenario::require(right, "the weighted words");
}

// Every call of a step is one that a rule of nsys finds.
class Wasteful {
 public:
  explicit Wasteful(std::size_t n) : n_(n), bytes_(n * sizeof(std::uint32_t)) {
    void *memory = nullptr;
    CHECK(cudaMallocManaged(&memory, sizeof(Count)));
    done_.reset(static_cast<Count *>(memory));
    fill_weights(weights_.data());
    scenario::fill_pattern(pageable_.data(), n_);
    scenario::fill_pattern(pinned_.get(), n_);
  }

  void step() {
    CHECK(cudaMemset(done_.get(), 0, sizeof(Count)));
    CHECK(cudaMemset(pinned_result_.get(), 0, bytes_));
    CHECK(cudaMemcpyAsync(device_weights_.get(), weights_.data(), weights_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(first_.get(), pageable_.data(), bytes_, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(second_.get(), pinned_.get(), bytes_, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    std::this_thread::sleep_for(pause);
    launch(first_, device_weights_, n_, done_.get(), nullptr);
    CHECK(cudaStreamSynchronize(nullptr));
    launch(second_, device_weights_, n_, done_.get(), nullptr);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(pageable_result_.data(), first_.get(), bytes_, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(pinned_result_.get(), second_.get(), bytes_, cudaMemcpyDeviceToHost));
  }

  void check_last() const {
    check(pageable_result_.data(), n_);
    check(pinned_result_.get(), n_);
    scenario::require(*done_.get() == 2 * n_, "the count of weighted words");
  }

 private:
  const std::size_t n_;
  const std::size_t bytes_;
  Words weights_ = Words(distinct_weights);
  Words pageable_ = Words(n_);
  Words pageable_result_ = Words(n_);
  PinnedWords pinned_ = scenario::pinned_array<std::uint32_t>(n_);
  PinnedWords pinned_result_ = scenario::pinned_array<std::uint32_t>(n_);
  DeviceWords device_weights_ = scenario::device_array<std::uint32_t>(distinct_weights);
  DeviceWords first_ = scenario::device_array<std::uint32_t>(n_);
  DeviceWords second_ = scenario::device_array<std::uint32_t>(n_);
  scenario::DeviceArray<Count> done_;  // managed
};

// One block with its own stream and pinned memory. The host waits only for the end of the block.
class Block {
 public:
  explicit Block(std::size_t n) : n_(n), bytes_(n * sizeof(std::uint32_t)) {
    fill_weights(weights_.get());
    scenario::fill_pattern(words_.get(), n_);
    CHECK(cudaEventCreateWithFlags(&ended_, cudaEventDisableTiming));
  }

  ~Block() { CHECK(cudaEventDestroy(ended_)); }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  void enqueue() {
    cudaStream_t stream = stream_.get();
    CHECK(cudaMemsetAsync(device_done_.get(), 0, sizeof(Count), stream));
    CHECK(cudaMemcpyAsync(device_weights_.get(), weights_.get(), weights_bytes, cudaMemcpyHostToDevice,
                          stream));
    CHECK(cudaMemcpyAsync(device_.get(), words_.get(), bytes_, cudaMemcpyHostToDevice, stream));
    launch(device_, device_weights_, n_, device_done_.get(), stream);
    CHECK(cudaMemcpyAsync(result_.get(), device_.get(), bytes_, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(done_.get(), device_done_.get(), sizeof(Count), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventRecord(ended_, stream));
  }

  void wait() { CHECK(cudaEventSynchronize(ended_)); }

  void check_last() const {
    check(result_.get(), n_);
    scenario::require(*done_.get() == n_, "the count of weighted words");
  }

 private:
  const std::size_t n_;
  const std::size_t bytes_;
  PinnedWords weights_ = scenario::pinned_array<std::uint32_t>(distinct_weights);
  PinnedWords words_ = scenario::pinned_array<std::uint32_t>(n_);
  PinnedWords result_ = scenario::pinned_array<std::uint32_t>(n_);
  scenario::PinnedArray<Count> done_ = scenario::pinned_array<Count>(1);
  DeviceWords device_weights_ = scenario::device_array<std::uint32_t>(distinct_weights);
  DeviceWords device_ = scenario::device_array<std::uint32_t>(n_);
  scenario::DeviceArray<Count> device_done_ = scenario::device_array<Count>(1);
  scenario::Stream stream_ = scenario::make_stream();
  cudaEvent_t ended_ = nullptr;
};

class Careful {
 public:
  explicit Careful(std::size_t n) : first_(n), second_(n) {
    // Load the kernel now. Loading it later would delay queued work.
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, weigh));
  }

  void step() {
    first_.enqueue();
    second_.enqueue();
    first_.wait();
    second_.wait();
  }

  void check_last() const {
    first_.check_last();
    second_.check_last();
  }

 private:
  Block first_;
  Block second_;
};

// The check comes last. Before the steps it would cause a gap between two GPU operations.
template <typename Job>
scenario::Timing time_job(const std::string &variant, std::size_t n, const scenario::Repeats &repeats) {
  Job job(n);
  scenario::Timing timing = scenario::time_operation(
      variant, "step", repeats, [] {}, [&job] { job.step(); });
  const scenario::Range range("check");
  job.check_last();
  return timing;
}

}  // namespace

int main(int argc, char **argv) {
  int kib = 4096;
  scenario::Repeats repeats{1, 2};
  scenario::CommandLine line{
      "rules",
      {"wasteful", "careful"},
      {{"kib", 64, &kib}, {"warmup", 0, &repeats.warmup}, {"iterations", 1, &repeats.iterations}}};
  line.parse(argc, argv);

  const std::size_t n = kib * std::size_t{1024} / sizeof(std::uint32_t);
  std::vector<scenario::Timing> timings;
  for (const std::string &variant : line.variants) {
    const auto time = variant == "wasteful" ? time_job<Wasteful> : time_job<Careful>;
    timings.push_back(time(variant, n, repeats));
  }
  scenario::report(line, timings);
}
