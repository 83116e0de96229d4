// Simulates heat on a ring that is divided among MPI ranks, with OpenMP threads or with the GPU.
// Checks the temperatures and prints the samples of every rank.
//
// usage: mpirun -n RANKS hybrid [threads|gpu]... [--cells N] [--threads N] [--warmup N] [--iterations N]
//
// exit status: 0 right temperatures, 1 CUDA error or wrong temperatures, 2 bad arguments

#include <cuda_runtime.h>
#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scenario.h"

constexpr double spread = 0.25;  // part of the difference to each neighbor that flows in a step

__host__ __device__ double warmed(double left, double middle, double right) {
  return middle + spread * (left - 2 * middle + right);
}

// Updates cells 1 to n. Cells 0 and n + 1 are the halo: copies of the neighbors' cells. Outside the
// anonymous namespace, so that the name is plain in a profile.
__global__ void diffuse(const double *old_cells, double *new_cells, std::size_t n) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x + 1;
  if (i <= n) new_cells[i] = warmed(old_cells[i - 1], old_cells[i], old_cells[i + 1]);
}

namespace {

using Cells = std::vector<double>;

constexpr int to_left = 1;  // message tags: with two ranks both neighbors are the same rank
constexpr int to_right = 2;
constexpr int part = 3;

struct World {
  int rank = 0;
  int ranks = 1;

  World() {
    // Only the main thread calls MPI.
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    scenario::require(provided >= MPI_THREAD_FUNNELED, "the thread support of this MPI");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  }
  ~World() { MPI_Finalize(); }
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  int left() const { return (rank + ranks - 1) % ranks; }
  int right() const { return (rank + 1) % ranks; }
};

struct Edges {
  double left;
  double right;
};

// Sends each neighbor the cell next to it, and returns the cells that the neighbors sent.
Edges exchange(const World &world, const Edges &mine) {
  Edges theirs{};
  MPI_Request requests[4];
  MPI_Irecv(&theirs.left, 1, MPI_DOUBLE, world.left(), to_right, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&theirs.right, 1, MPI_DOUBLE, world.right(), to_left, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(&mine.left, 1, MPI_DOUBLE, world.left(), to_left, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&mine.right, 1, MPI_DOUBLE, world.right(), to_right, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  return theirs;
}

// The part of the ring that a rank simulates.
class Part {
 public:
  virtual ~Part() = default;
  virtual Edges edges() = 0;
  virtual void spread_heat(const Edges &halo) = 0;
  virtual Cells cells() = 0;
};

class OnThreads : public Part {
 public:
  explicit OnThreads(const Cells &cells) : n_(cells.size()), old_(n_ + 2), new_(n_ + 2) {
    std::copy(cells.begin(), cells.end(), old_.begin() + 1);
  }

  Edges edges() override { return {old_[1], old_[n_]}; }

  void spread_heat(const Edges &halo) override {
    old_[0] = halo.left;
    old_[n_ + 1] = halo.right;
#pragma omp parallel for
    for (std::size_t i = 1; i <= n_; ++i) new_[i] = warmed(old_[i - 1], old_[i], old_[i + 1]);
    old_.swap(new_);
  }

  Cells cells() override { return Cells(old_.begin() + 1, old_.end() - 1); }

 private:
  const std::size_t n_;
  Cells old_;
  Cells new_;
};

class OnGpu : public Part {
 public:
  explicit OnGpu(const Cells &cells) : n_(cells.size()) {
    copy(old_.get() + 1, cells.data(), n_, cudaMemcpyHostToDevice);
    wait();
  }

  Edges edges() override {
    copy(&edges_[0], old_.get() + 1, 1, cudaMemcpyDeviceToHost);
    copy(&edges_[1], old_.get() + n_, 1, cudaMemcpyDeviceToHost);
    wait();
    return {edges_[0], edges_[1]};
  }

  void spread_heat(const Edges &halo) override {
    constexpr unsigned threads = 256;
    const auto blocks = static_cast<unsigned>((n_ + threads - 1) / threads);
    edges_[2] = halo.left;
    edges_[3] = halo.right;
    copy(old_.get(), &edges_[2], 1, cudaMemcpyHostToDevice);
    copy(old_.get() + n_ + 1, &edges_[3], 1, cudaMemcpyHostToDevice);
    diffuse<<<blocks, threads, 0, stream_.get()>>>(old_.get(), new_.get(), n_);
    CHECK(cudaGetLastError());
    wait();
    old_.swap(new_);
  }

  Cells cells() override {
    Cells cells(n_);
    copy(cells.data(), old_.get() + 1, n_, cudaMemcpyDeviceToHost);
    wait();
    return cells;
  }

 private:
  void copy(double *to, const double *from, std::size_t n, cudaMemcpyKind kind) {
    CHECK(cudaMemcpyAsync(to, from, n * sizeof(double), kind, stream_.get()));
  }

  void wait() { CHECK(cudaStreamSynchronize(stream_.get())); }

  const std::size_t n_;
  const scenario::Stream stream_ = scenario::make_stream();
  const scenario::PinnedArray<double> edges_ = scenario::pinned_array<double>(4);  // two out, two in
  scenario::DeviceArray<double> old_ = scenario::device_array<double>(n_ + 2);
  scenario::DeviceArray<double> new_ = scenario::device_array<double>(n_ + 2);
};

std::unique_ptr<Part> make_part(const std::string &variant, const Cells &cells) {
  if (variant == "gpu") return std::make_unique<OnGpu>(cells);
  return std::make_unique<OnThreads>(cells);
}

// Rank 0 sets the temperatures with its threads, and sends every other rank its part.
Cells heated_part(const World &world, std::size_t n) {
  Cells mine(n);
  if (world.rank > 0) {
    MPI_Recv(mine.data(), static_cast<int>(n), MPI_DOUBLE, 0, part, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return mine;
  }
  Cells ring(n * world.ranks);
#pragma omp parallel for schedule(dynamic, 4096)
  for (std::size_t i = 0; i < ring.size(); ++i) ring[i] = static_cast<double>(scenario::pattern(i) % 1000);
  for (int rank = 1; rank < world.ranks; ++rank) {
    MPI_Send(ring.data() + rank * n, static_cast<int>(n), MPI_DOUBLE, rank, part, MPI_COMM_WORLD);
  }
  std::copy_n(ring.begin(), n, mine.begin());
  return mine;
}

// Returns the heat of all ranks. Each thread sums some cells; a critical section adds up these sums.
double total_heat(const Cells &cells) {
  double mine = 0;
#pragma omp parallel
  {
    double some = 0;
#pragma omp for nowait
    for (std::size_t i = 0; i < cells.size(); ++i) some += cells[i];
#pragma omp critical
    mine += some;
  }
  double total = 0;
  MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

bool near(double found, double expected) { return std::fabs(found - expected) <= 1e-9 * std::fabs(expected); }

Cells spread_serially(Cells ring, int steps) {
  for (int step = 0; step < steps; ++step) {
    const Cells old = ring;
    const std::size_t n = old.size();
    for (std::size_t i = 0; i < n; ++i) ring[i] = warmed(old[(i + n - 1) % n], old[i], old[(i + 1) % n]);
  }
  return ring;
}

// Collects the equal parts of all ranks on rank 0. The other ranks get an empty ring.
Cells gathered(const World &world, const Cells &mine) {
  Cells ring(world.rank == 0 ? mine.size() * world.ranks : 0);
  const int n = static_cast<int>(mine.size());
  MPI_Gather(mine.data(), n, MPI_DOUBLE, ring.data(), n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return ring;
}

void check(const World &world, const Cells &before, const Cells &after, int steps) {
  const scenario::Range range("check");
  scenario::require(near(total_heat(after), total_heat(before)), "the heat of all ranks");
  const Cells expected = spread_serially(gathered(world, before), steps);
  const Cells found = gathered(world, after);
  for (std::size_t i = 0; i < found.size(); ++i) {
    scenario::require(near(found[i], expected[i]), "the temperatures");
  }
}

// Returns the timings of all ranks on rank 0. The operator names the rank.
std::vector<scenario::Timing> gathered(const World &world, const scenario::Timing &mine) {
  const Cells samples = gathered(world, mine.samples_us);
  const std::size_t n = mine.samples_us.size();
  std::vector<scenario::Timing> timings;
  for (std::size_t rank = 0; rank * n < samples.size(); ++rank) {
    const auto first = samples.begin() + rank * n;
    timings.push_back({mine.variant, "rank " + std::to_string(rank), mine.launches, {first, first + n}});
  }
  return timings;
}

std::vector<scenario::Timing> time_variant(const World &world, const std::string &variant, std::size_t n,
                                           const scenario::Repeats &repeats) {
  const Cells before = heated_part(world, n);
  const std::unique_ptr<Part> part = make_part(variant, before);
  const scenario::Timing mine = scenario::time_operation(
      variant, "rank " + std::to_string(world.rank), repeats, [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&] { part->spread_heat(exchange(world, part->edges())); });
  check(world, before, part->cells(), repeats.warmup + repeats.iterations);
  return gathered(world, mine);
}

// Assigns the GPUs of the machine to the ranks in turn. With fewer GPUs than ranks, ranks share a GPU.
std::string pick_gpu(const World &world) {
  int count = 0;
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceCount(&count));
  CHECK(cudaSetDevice(world.rank % count));
  CHECK(cudaGetDeviceProperties(&properties, world.rank % count));
  return properties.name;
}

}  // namespace

int main(int argc, char **argv) {
  int cells = 1 << 18;
  int threads = 2;
  scenario::Repeats repeats{2, 10};
  scenario::CommandLine line{"hybrid",
                             {"threads", "gpu"},
                             {{"cells", 1, &cells},
                              {"threads", 1, &threads},
                              {"warmup", 0, &repeats.warmup},
                              {"iterations", 1, &repeats.iterations}}};
  line.parse(argc, argv);
  omp_set_num_threads(threads);

  const World world;
  std::string device = "none";
  std::vector<scenario::Timing> timings;
  for (const std::string &variant : line.variants) {
    if (variant == "gpu") device = pick_gpu(world);
    for (scenario::Timing &timing : time_variant(world, variant, cells, repeats)) {
      timings.push_back(std::move(timing));
    }
  }
  int runtime = 0;
  CHECK(cudaRuntimeGetVersion(&runtime));
  if (world.rank == 0) scenario::print_result(line, device.c_str(), runtime, timings);
}
