// Shared by the CUDA scenarios: command line, error checks, memory with automatic release, NVTX ranges,
// samples, and the JSON result, with the same keys as nsyswrap/record/in_program/script.py.
#pragma once

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

namespace scenario {

// Errors

inline void check(cudaError_t status, const char *call, const char *file, int line) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorString(status));
  std::exit(1);
}

#define CHECK(call) scenario::check((call), #call, __FILE__, __LINE__)

inline void require(bool right, const char *what) {
  if (right) return;
  std::fprintf(stderr, "the result is wrong: %s\n", what);
  std::exit(1);
}

// The command line: PROGRAM [VARIANT...] [--NAME N]...

struct Count {
  const char *name;
  int least;
  int *value;  // holds the default before parse()
};

inline bool parse_count(const char *text, int least, int *value) {
  const char *end = text + std::strlen(text);
  int parsed = 0;
  const auto [stopped, error] = std::from_chars(text, end, parsed);
  if (error != std::errc() || stopped != end || parsed < least) return false;
  *value = parsed;
  return true;
}

struct CommandLine {
  const char *program;
  std::vector<std::string> variants;  // all variants; after parse() the requested ones, if any
  std::vector<Count> counts;

  void parse(int argc, char **argv) {
    std::vector<std::string> asked;
    for (int i = 1; i < argc; ++i) {
      if (const Count *count = find_count(argv[i])) {
        if (++i == argc || !parse_count(argv[i], count->least, count->value)) usage();
      } else if (!contains(variants, argv[i])) {
        usage();
      } else if (!contains(asked, argv[i])) {
        asked.push_back(argv[i]);
      }
    }
    if (!asked.empty()) variants = asked;
  }

 private:
  static bool contains(const std::vector<std::string> &names, const char *name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const Count *find_count(const std::string &argument) const {
    for (const Count &count : counts) {
      if (argument == std::string("--") + count.name) return &count;
    }
    return nullptr;
  }

  [[noreturn]] void usage() const {
    std::fprintf(stderr, "usage: %s [", program);
    const char *separator = "";
    for (const std::string &variant : variants) {
      std::fprintf(stderr, "%s%s", separator, variant.c_str());
      separator = "|";
    }
    std::fputs("]...", stderr);
    for (const Count &count : counts) std::fprintf(stderr, " [--%s N>=%d]", count.name, count.least);
    std::fprintf(stderr, "  (N: at most %d)\n", INT_MAX);
    std::exit(2);
  }
};

// Memory and streams

template <cudaError_t (*release)(void *)>
struct Release {
  void operator()(void *memory) const { CHECK(release(memory)); }
};

template <typename T>
using DeviceArray = std::unique_ptr<T[], Release<cudaFree>>;  // also for managed memory

template <typename T>
using PinnedArray = std::unique_ptr<T[], Release<cudaFreeHost>>;

template <typename T>
DeviceArray<T> device_array(std::size_t n) {
  void *memory = nullptr;
  CHECK(cudaMalloc(&memory, n * sizeof(T)));
  return DeviceArray<T>(static_cast<T *>(memory));
}

template <typename T>
PinnedArray<T> pinned_array(std::size_t n) {
  void *memory = nullptr;
  CHECK(cudaMallocHost(&memory, n * sizeof(T)));
  return PinnedArray<T>(static_cast<T *>(memory));
}

struct DestroyStream {
  void operator()(cudaStream_t stream) const { CHECK(cudaStreamDestroy(stream)); }
};

using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;

inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

// Moves managed memory to a device, or to the host for cudaCpuDeviceId. Returns without waiting.
inline void prefetch(const void *memory, std::size_t bytes, int device, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
  cudaMemLocation location{};
  location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  CHECK(cudaMemPrefetchAsync(memory, bytes, location, 0, stream));
#else
  CHECK(cudaMemPrefetchAsync(memory, bytes, device, stream));
#endif
}

// Copies of several sizes

inline std::vector<std::size_t> copy_sizes(int most_kib) {
  std::vector<std::size_t> sizes;
  for (const int kib : {4, 64, 1024, 4096, 16384, 65536}) {
    if (kib <= most_kib) sizes.push_back(kib * std::size_t{1024});
  }
  return sizes;
}

inline std::string sized(const char *operation, std::size_t bytes) {
  const std::size_t kib = bytes / 1024;
  const bool small = kib < 1024;
  return std::string(operation) + " " + std::to_string(small ? kib : kib / 1024) + (small ? " KiB" : " MiB");
}

// Word i of a copy. All words differ, so that a check finds misplaced words.
inline std::uint32_t pattern(std::size_t i) { return static_cast<std::uint32_t>(i) * 2654435761u + 1; }

inline void fill_pattern(std::uint32_t *words, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) words[i] = pattern(i);
}

inline bool holds_pattern(const std::uint32_t *words, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (words[i] != pattern(i)) return false;
  }
  return true;
}

// Samples

class Range {  // an NVTX range that is open during its scope
 public:
  explicit Range(const std::string &name) { nvtxRangePushA(name.c_str()); }
  ~Range() { nvtxRangePop(); }
  Range(const Range &) = delete;
  Range &operator=(const Range &) = delete;
};

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Repeats {
  int warmup = 0;
  int iterations = 1;
};

struct Timing {
  std::string variant;
  std::string operation;
  long long launches;  // total number of runs, warm-up included
  std::vector<double> samples_us;

  std::string range() const { return variant + "/" + operation; }
};

// Runs `operation` as often as `repeats` says, and takes a sample of each run after the warm-up.
// `prepare` runs before each run, outside of its sample and its range.
template <typename Prepare, typename Operation>
Timing time_operation(const std::string &variant, const std::string &name, const Repeats &repeats,
                      Prepare prepare, Operation operation) {
  Timing timing{variant, name, static_cast<long long>(repeats.warmup) + repeats.iterations, {}};
  {
    const Range range("warm-up " + timing.range());
    for (int i = 0; i < repeats.warmup; ++i) {
      prepare();
      operation();
    }
  }
  for (int i = 0; i < repeats.iterations; ++i) {
    prepare();
    const Range range(timing.range());
    const double start = seconds();
    operation();
    timing.samples_us.push_back(1e6 * (seconds() - start));
  }
  return timing;
}

// The result

inline void print_timing(const Timing &timing) {
  const std::vector<double> &samples = timing.samples_us;
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / samples.size();
  std::printf("{\"variant\": \"%s\", \"operator\": \"%s\", \"range\": \"%s\", \"launches\": %lld, ",
              timing.variant.c_str(), timing.operation.c_str(), timing.range().c_str(), timing.launches);
  std::printf("\"median_us\": %.3f, \"mean_us\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f, \"samples_us\": ",
              median(samples), mean, *least, *most);
  const char *separator = "[";
  for (const double sample : samples) {
    std::printf("%s%.3f", separator, sample);
    separator = ", ";
  }
  std::fputs("]}", stdout);
}

inline void print_result(const CommandLine &line, const char *device, int runtime,
                         const std::vector<Timing> &timings) {
  std::printf("{\"scenario\": \"%s\"", line.program);
  for (const Count &count : line.counts) std::printf(", \"%s\": %d", count.name, *count.value);
  std::printf(", \"device\": \"%s\", \"cuda\": \"%d.%d\", \"timings\": ", device, runtime / 1000,
              runtime % 1000 / 10);
  const char *separator = "[";
  for (const Timing &timing : timings) {
    std::fputs(separator, stdout);
    print_timing(timing);
    separator = ", ";
  }
  std::puts("]}");
}

// Prints the result for the current device.
inline void report(const CommandLine &line, const std::vector<Timing> &timings) {
  int device = 0;
  int runtime = 0;
  cudaDeviceProp properties{};
  CHECK(cudaGetDevice(&device));
  CHECK(cudaGetDeviceProperties(&properties, device));
  CHECK(cudaRuntimeGetVersion(&runtime));
  print_result(line, properties.name, runtime, timings);
}

}  // namespace scenario
