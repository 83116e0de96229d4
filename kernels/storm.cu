// Launches a tiny kernel many times, and times the launches.
//
// usage: storm [empty|busy]... [--launches N] [--warmup N] [--repeat N]
//
// exit status: 0 every launch ran, 1 CUDA error or a launch is missing, 2 bad arguments

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "scenario.h"

// Kernels of one stream run one after the other, so the count needs no atomics. Outside the anonymous
// namespace, so that the name is plain in a profile.
__global__ void tick(unsigned long long *count, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  ++*count;
}

namespace {

constexpr int check_launches = 100;
constexpr int busy_us = 20;

// At the peak clock rate. At a lower rate the kernel takes longer.
long long busy_cycles() {
  int device = 0;
  int khz = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device));
  return static_cast<long long>(khz) * busy_us / 1000;
}

class Storm {
 public:
  explicit Storm(long long cycles) : cycles_(cycles) {
    CHECK(cudaMemsetAsync(count_.get(), 0, sizeof(*count_.get()), stream_.get()));
  }

  void launch(int times) {
    for (int i = 0; i < times; ++i) tick<<<1, 1, 0, stream_.get()>>>(count_.get(), cycles_);
    CHECK(cudaGetLastError());  // of all launches: an error stays until it is read
    launched_ += times;
  }

  void wait() { CHECK(cudaStreamSynchronize(stream_.get())); }

  // Checks the count of all launches so far, including those made here.
  void check() {
    const scenario::Range range("check");
    unsigned long long counted = 0;
    launch(check_launches);
    CHECK(cudaMemcpyAsync(&counted, count_.get(), sizeof counted, cudaMemcpyDeviceToHost, stream_.get()));
    wait();
    scenario::require(counted == launched_, "the number of launches that ran");
  }

 private:
  const long long cycles_;
  unsigned long long launched_ = 0;
  const scenario::DeviceArray<unsigned long long> count_ = scenario::device_array<unsigned long long>(1);
  const scenario::Stream stream_ = scenario::make_stream();
};

scenario::Timing time_storm(const std::string &variant, int launches, const scenario::Repeats &repeats) {
  Storm storm(variant == "busy" ? busy_cycles() : 0);
  storm.check();
  // The wait is outside the sample, which has only the launches.
  scenario::Timing timing = scenario::time_operation(
      variant, "launches", repeats, [&] { storm.wait(); }, [&] { storm.launch(launches); });
  storm.check();
  timing.launches *= launches;  // launches, not storms
  return timing;
}

}  // namespace

int main(int argc, char **argv) {
  int launches = 20000;
  scenario::Repeats repeats{1, 3};
  scenario::CommandLine line{"storm",
                             {"empty", "busy"},
                             {{"launches", 1, &launches},
                              {"warmup", 0, &repeats.warmup},
                              {"repeat", 1, &repeats.iterations}}};
  line.parse(argc, argv);

  std::vector<scenario::Timing> timings;
  for (const std::string &variant : line.variants) {
    timings.push_back(time_storm(variant, launches, repeats));
  }
  scenario::report(line, timings);
}
