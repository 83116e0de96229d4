// Copies memory from GPU 0 to GPU 1 in three ways, checks the contents, and times each copy.
//
// usage: p2p [direct|staged|host]... [--most KIB] [--warmup N] [--iterations N]
//
// exit status: 0 right contents, 1 CUDA error or wrong contents, 2 bad arguments, 69 GPUs missing

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "scenario.h"

namespace {

using scenario::sized;
using scenario::Timing;

[[noreturn]] void refuse(const char *why) {
  std::fprintf(stderr, "p2p: %s\n", why);
  std::exit(69);
}

bool can_access(int device, int peer) {
  int can = 0;
  CHECK(cudaDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

void require_gpus(const std::vector<std::string> &variants) {
  int gpus = 0;
  CHECK(cudaGetDeviceCount(&gpus));
  if (gpus < 2) refuse("two GPUs are needed, and CUDA found one");
  const bool direct = std::find(variants.begin(), variants.end(), "direct") != variants.end();
  if (direct && !(can_access(0, 1) && can_access(1, 0))) {
    refuse("direct needs peer access, which GPU 0 and GPU 1 do not support");
  }
}

// Enables peer access in both directions during its lifetime. GPU 0 is the current device afterwards.
class PeerAccess {
 public:
  PeerAccess() {
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
  }

  ~PeerAccess() {
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceDisablePeerAccess(0));
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceDisablePeerAccess(1));
  }

  PeerAccess(const PeerAccess &) = delete;
  PeerAccess &operator=(const PeerAccess &) = delete;
};

struct Side {
  scenario::DeviceArray<std::uint32_t> words;
  scenario::Stream stream;
};

// GPU 0 is the current device afterwards.
Side make_side(int device, std::size_t n) {
  CHECK(cudaSetDevice(device));
  Side side{scenario::device_array<std::uint32_t>(n), scenario::make_stream()};
  CHECK(cudaSetDevice(0));
  return side;
}

void copy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind, const Side &side) {
  CHECK(cudaMemcpyAsync(to, from, bytes, kind, side.stream.get()));
  CHECK(cudaStreamSynchronize(side.stream.get()));
}

class Transfer {
 public:
  Transfer(std::size_t bytes, bool through_host)
      : n_(bytes / sizeof(std::uint32_t)), bytes_(bytes), through_host_(through_host) {}

  void run() {
    if (through_host_) {
      copy(host_.get(), source_.words.get(), bytes_, cudaMemcpyDeviceToHost, source_);
      copy(target_.words.get(), host_.get(), bytes_, cudaMemcpyHostToDevice, target_);
    } else {
      CHECK(cudaMemcpyPeerAsync(target_.words.get(), 1, source_.words.get(), 0, bytes_,
                                source_.stream.get()));
      CHECK(cudaStreamSynchronize(source_.stream.get()));
    }
  }

  void check() {
    const scenario::Range range("check");
    scenario::fill_pattern(host_.get(), n_);
    copy(source_.words.get(), host_.get(), bytes_, cudaMemcpyHostToDevice, source_);
    std::fill_n(host_.get(), n_, 0);
    copy(target_.words.get(), host_.get(), bytes_, cudaMemcpyHostToDevice, target_);
    run();
    std::fill_n(host_.get(), n_, 0);
    copy(host_.get(), target_.words.get(), bytes_, cudaMemcpyDeviceToHost, target_);
    scenario::require(scenario::holds_pattern(host_.get(), n_), "a copy from GPU 0 to GPU 1");
  }

 private:
  const std::size_t n_;
  const std::size_t bytes_;
  const bool through_host_;
  const Side source_ = make_side(0, n_);
  const Side target_ = make_side(1, n_);
  const scenario::PinnedArray<std::uint32_t> host_ = scenario::pinned_array<std::uint32_t>(n_);
};

void time_variant(const std::string &variant, int most_kib, const scenario::Repeats &repeats,
                  std::vector<Timing> *timings) {
  for (const std::size_t bytes : scenario::copy_sizes(most_kib)) {
    Transfer transfer(bytes, variant == "host");
    transfer.check();
    timings->push_back(scenario::time_operation(
        variant, sized("copy", bytes), repeats, [] {}, [&] { transfer.run(); }));
    transfer.check();
  }
}

}  // namespace

int main(int argc, char **argv) {
  int most_kib = 65536;
  scenario::Repeats repeats{2, 10};
  scenario::CommandLine line{"p2p",
                             {"direct", "staged", "host"},
                             {{"most", 4, &most_kib},
                              {"warmup", 0, &repeats.warmup},
                              {"iterations", 1, &repeats.iterations}}};
  line.parse(argc, argv);
  require_gpus(line.variants);

  std::vector<Timing> timings;
  for (const std::string &variant : line.variants) {
    if (variant == "direct") {
      const PeerAccess access;  // only for this variant
      time_variant(variant, most_kib, repeats, &timings);
    } else {
      time_variant(variant, most_kib, repeats, &timings);
    }
  }
  scenario::report(line, timings);
}
