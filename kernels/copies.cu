// Moves memory between host and device in five ways, checks the contents, and times each move.
//
// usage: copies [pageable|pinned|managed|prefetch|faults]... [--most KIB] [--warmup N] [--iterations N]
//
// exit status: 0 right contents, 1 CUDA error or wrong contents, 2 bad arguments

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenario.h"

// Outside the anonymous namespace, so that the name is plain in a profile.
__global__ void touch(std::uint32_t *words, std::size_t n) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < n) words[i] += 1;
}

namespace {

using scenario::require;
using scenario::sized;
using scenario::time_operation;
using scenario::Timing;
using Words = std::uint32_t *;

constexpr int memset_byte = 0xa5;
constexpr std::uint32_t memset_word = 0xa5a5a5a5;
constexpr int most_managed_kib = 4096;
constexpr std::size_t words_per_page = 4096 / sizeof(std::uint32_t);  // the smallest page size

void copy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  CHECK(cudaMemcpyAsync(to, from, bytes, kind, stream));
  CHECK(cudaStreamSynchronize(stream));
}

// Explicit copies of one size. `host` is the source and `back` the destination on the host.
class Copies {
 public:
  Copies(Words host, Words back, std::size_t bytes)
      : n_(bytes / sizeof(*host)), bytes_(bytes), host_(host), back_(back) {
    scenario::fill_pattern(host_, n_);
  }

  void time(const std::string &variant, const scenario::Repeats &repeats, std::vector<Timing> *timings) {
    const auto nothing = [] {};
    check();
    timings->push_back(
        time_operation(variant, sized("h2d", bytes_), repeats, nothing, [this] { to_device(); }));
    timings->push_back(
        time_operation(variant, sized("d2h", bytes_), repeats, nothing, [this] { to_host(); }));
    timings->push_back(
        time_operation(variant, sized("memset", bytes_), repeats, nothing, [this] { set(); }));
    check();
  }

 private:
  void to_device() { copy(device_.get(), host_, bytes_, cudaMemcpyHostToDevice, stream_.get()); }

  void to_host() { copy(back_, device_.get(), bytes_, cudaMemcpyDeviceToHost, stream_.get()); }

  void set() {
    CHECK(cudaMemsetAsync(device_.get(), memset_byte, bytes_, stream_.get()));
    CHECK(cudaStreamSynchronize(stream_.get()));
  }

  void check() {
    const scenario::Range range("check");
    std::fill_n(back_, n_, 0);
    to_device();
    to_host();
    require(scenario::holds_pattern(back_, n_), "a copy to the device and back");
    set();
    to_host();
    require(std::all_of(back_, back_ + n_, [](std::uint32_t word) { return word == memset_word; }),
            "a memset");
  }

  const std::size_t n_;
  const std::size_t bytes_;
  const Words host_;
  const Words back_;
  const scenario::DeviceArray<std::uint32_t> device_ = scenario::device_array<std::uint32_t>(n_);
  const scenario::Stream stream_ = scenario::make_stream();
};

// Managed memory of one size, which migrates on a page fault or a prefetch.
class Managed {
 public:
  explicit Managed(std::size_t bytes) : n_(bytes / sizeof(std::uint32_t)), bytes_(bytes) {
    void *memory = nullptr;
    CHECK(cudaMallocManaged(&memory, bytes));
    words_.reset(static_cast<Words>(memory));
    CHECK(cudaGetDevice(&device_));
  }

  void time_faults(const std::string &variant, const scenario::Repeats &repeats,
                   std::vector<Timing> *timings) {
    const auto written_by_host = [this] { fill(); };
    const auto written_by_device = [this] {
      fill();
      touch_all();
    };
    check_faults();
    timings->push_back(time_operation(variant, sized("touch", bytes_), repeats, written_by_host,
                                      [this] { touch_all(); }));
    timings->push_back(time_operation(variant, sized("read back", bytes_), repeats, written_by_device,
                                      [this] { read_back(words_per_page); }));
    check_faults();
  }

  void time_prefetch(const std::string &variant, const scenario::Repeats &repeats,
                     std::vector<Timing> *timings) {
    check_prefetch();
    timings->push_back(time_operation(
        variant, sized("prefetch", bytes_), repeats, [this] { fill(); }, [this] { move(device_); }));
    timings->push_back(time_operation(
        variant, sized("prefetch back", bytes_), repeats, [this] { move(device_); },
        [this] { move(cudaCpuDeviceId); }));
    check_prefetch();
  }

 private:
  void fill() { scenario::fill_pattern(words_.get(), n_); }

  void touch_all() {
    constexpr unsigned threads = 256;
    const auto blocks = static_cast<unsigned>((n_ + threads - 1) / threads);
    touch<<<blocks, threads, 0, stream_.get()>>>(words_.get(), n_);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream_.get()));
  }

  void move(int device) {
    scenario::prefetch(words_.get(), bytes_, device, stream_.get());
    CHECK(cudaStreamSynchronize(stream_.get()));
  }

  // Reads on the host. One word of a page is enough to migrate it.
  void read_back(std::size_t step) {
    for (std::size_t i = 0; i < n_; i += step) {
      require(words_[i] == scenario::pattern(i) + 1, "managed memory that the device wrote");
    }
  }

  void check_faults() {
    const scenario::Range range("check");
    fill();
    touch_all();
    read_back(1);
  }

  void check_prefetch() {
    const scenario::Range range("check");
    fill();
    move(device_);
    touch_all();
    move(cudaCpuDeviceId);
    read_back(1);
  }

  const std::size_t n_;
  const std::size_t bytes_;
  int device_ = 0;
  scenario::DeviceArray<std::uint32_t> words_;
  const scenario::Stream stream_ = scenario::make_stream();
};

void time_size(const std::string &variant, std::size_t bytes, const scenario::Repeats &repeats,
               std::vector<Timing> *timings) {
  const std::size_t n = bytes / sizeof(std::uint32_t);
  if (variant == "pageable") {
    std::vector<std::uint32_t> host(n), back(n);
    Copies(host.data(), back.data(), bytes).time(variant, repeats, timings);
  } else if (variant == "pinned") {
    const auto host = scenario::pinned_array<std::uint32_t>(n);
    const auto back = scenario::pinned_array<std::uint32_t>(n);
    Copies(host.get(), back.get(), bytes).time(variant, repeats, timings);
  } else if (variant == "prefetch") {
    Managed(bytes).time_prefetch(variant, repeats, timings);
  } else {
    Managed(bytes).time_faults(variant, repeats, timings);
  }
}

}  // namespace

int main(int argc, char **argv) {
  int most_kib = 65536;
  scenario::Repeats repeats{2, 10};
  scenario::CommandLine line{"copies",
                             {"pageable", "pinned", "managed", "prefetch", "faults"},
                             {{"most", 4, &most_kib},
                              {"warmup", 0, &repeats.warmup},
                              {"iterations", 1, &repeats.iterations}}};
  line.parse(argc, argv);

  std::vector<Timing> timings;
  for (const std::string &variant : line.variants) {
    const bool explicitly = variant == "pageable" || variant == "pinned";
    for (const std::size_t bytes :
         scenario::copy_sizes(explicitly ? most_kib : std::min(most_kib, most_managed_kib))) {
      time_size(variant, bytes, repeats, &timings);
    }
  }
  scenario::report(line, timings);
}
