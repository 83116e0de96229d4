// Multiplies square matrices from the host by one on the device, with kernels that get faster rung by rung.
//
// usage: ladder_cuda [naive|coalesced|vectorized|shared|streams]... [--matrices N] [--warmup N] [--iterations N]
//
// exit status: 0 right result, 1 CUDA error or wrong result, 2 bad arguments

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenario.h"

constexpr int side = 1024;            // of a matrix, a multiple of all tiles below
constexpr std::size_t area = std::size_t{side} * side;
constexpr int lanes = 32, rows = 8;   // threads of a block in the first three kernels
constexpr int tile = 64, depth = 16;  // of the kernel with shared memory: results, and steps of k, in a block
constexpr int each = 4;               // results of a thread in one direction, the floats in a float4

// Outside the anonymous namespace, so that the names are plain in a profile. All compute c = a * b.

// Neighboring threads take neighboring rows: a warp reads from 32 rows of a, each in another cache line.
__global__ void multiply_naive(const float *a, const float *b, float *c) {
  const int row = blockIdx.x * lanes + threadIdx.x;
  const int column = blockIdx.y * rows + threadIdx.y;
  float sum = 0.0f;
  for (int k = 0; k < side; ++k) sum += a[row * side + k] * b[k * side + column];
  c[row * side + column] = sum;
}

// Neighboring threads take neighboring columns: a warp reads one cache line of b, and one number of a.
__global__ void multiply_coalesced(const float *a, const float *b, float *c) {
  const int row = blockIdx.y * rows + threadIdx.y;
  const int column = blockIdx.x * lanes + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < side; ++k) sum += a[row * side + k] * b[k * side + column];
  c[row * side + column] = sum;
}

__device__ void add_product(float4 &sum, float a, const float4 &b) {
  sum.x += a * b.x;
  sum.y += a * b.y;
  sum.z += a * b.z;
  sum.w += a * b.w;
}

// A thread computes four columns: it reads four numbers of b at once, and uses that of a four times.
__global__ void multiply_vectorized(const float *a, const float4 *b, float4 *c) {
  const int row = blockIdx.y * rows + threadIdx.y;
  const int column = blockIdx.x * lanes + threadIdx.x;
  float4 sum{};
  for (int k = 0; k < side; ++k) add_product(sum, a[row * side + k], b[k * (side / each) + column]);
  c[row * (side / each) + column] = sum;
}

// A block keeps a tile of a and one of b in shared memory. Each thread uses what it reads there four times.
__global__ void multiply_shared(const float4 *a, const float4 *b, float4 *c) {
  __shared__ float of_a[depth][tile + each];  // transposed, and padded against bank conflicts
  __shared__ float4 of_b[depth][tile / each];
  const int thread = threadIdx.x;
  const int x = thread % (tile / each), y = thread / (tile / each);
  const int a_row = thread / (depth / each), a_part = thread % (depth / each);
  float4 sums[each]{};
  for (int k = 0; k < side; k += depth) {
    const float4 part = a[((blockIdx.y * tile + a_row) * side + k) / each + a_part];
    of_a[a_part * each][a_row] = part.x;
    of_a[a_part * each + 1][a_row] = part.y;
    of_a[a_part * each + 2][a_row] = part.z;
    of_a[a_part * each + 3][a_row] = part.w;
    of_b[y][x] = b[((k + y) * side + blockIdx.x * tile) / each + x];
    __syncthreads();
    for (int i = 0; i < depth; ++i) {
      const float4 down = *reinterpret_cast<const float4 *>(&of_a[i][y * each]);
      const float4 across = of_b[i][x];
      add_product(sums[0], down.x, across);
      add_product(sums[1], down.y, across);
      add_product(sums[2], down.z, across);
      add_product(sums[3], down.w, across);
    }
    __syncthreads();
  }
  for (int i = 0; i < each; ++i)
    c[((blockIdx.y * tile + y * each + i) * side + blockIdx.x * tile) / each + x] = sums[i];
}

namespace {

const float4 *fours(const float *data) { return reinterpret_cast<const float4 *>(data); }
float4 *fours(float *data) { return reinterpret_cast<float4 *>(data); }

void multiply(const std::string &variant, const float *a, const float *b, float *c, cudaStream_t stream) {
  const dim3 threads(lanes, rows);
  if (variant == "naive") {
    multiply_naive<<<dim3(side / lanes, side / rows), threads, 0, stream>>>(a, b, c);
  } else if (variant == "coalesced") {
    multiply_coalesced<<<dim3(side / lanes, side / rows), threads, 0, stream>>>(a, b, c);
  } else if (variant == "vectorized") {
    multiply_vectorized<<<dim3(side / each / lanes, side / rows), threads, 0, stream>>>(a, fours(b), fours(c));
  } else {
    const dim3 blocks(side / tile, side / tile);
    multiply_shared<<<blocks, tile * tile / each / each, 0, stream>>>(fours(a), fours(b), fours(c));
  }
  CHECK(cudaGetLastError());
}

// Whole numbers from -2 to 2: sums of their products are exact in any order.
float element(std::uint32_t i) { return static_cast<float>((i * 2654435761u >> 16) % 5) - 2.0f; }

using Vector = std::vector<std::int64_t>;

Vector times(const float *matrix, const Vector &vector) {
  Vector product(side);
  for (int row = 0; row < side; ++row) {
    for (int k = 0; k < side; ++k)
      product[row] += static_cast<std::int64_t>(matrix[std::size_t{side} * row + k]) * vector[k];
  }
  return product;
}

class Products {
 public:
  Products(int matrices) : matrices_(matrices) {
    for (std::size_t i = 0; i < matrices_ * area; ++i) a_[i] = element(static_cast<std::uint32_t>(i));
    for (std::size_t i = 0; i < area; ++i) b_[i] = element(static_cast<std::uint32_t>(i) + 12345u);
    CHECK(cudaMemcpy(b_on_gpu_.get(), b_.get(), area * sizeof(float), cudaMemcpyHostToDevice));
  }

  void use(const std::string &variant) {
    variant_ = variant;
    streams_.clear();
    for (int i = 0; i < (variant == "streams" ? 4 : 1); ++i) streams_.push_back(scenario::make_stream());
  }

  void run() {
    constexpr std::size_t bytes = area * sizeof(float);
    for (std::size_t i = 0; i < matrices_; ++i) {
      const cudaStream_t stream = streams_[i % streams_.size()].get();
      float *a = a_on_gpu_.get() + i * area, *c = c_on_gpu_.get() + i * area;
      CHECK(cudaMemcpyAsync(a, a_.get() + i * area, bytes, cudaMemcpyHostToDevice, stream));
      multiply(variant_, a, b_on_gpu_.get(), c, stream);
      CHECK(cudaMemcpyAsync(c_.get() + i * area, c, bytes, cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaDeviceSynchronize());
  }

  // (a * b) * v must be a * (b * v), for a vector v without a 0: a wrong number changes its row.
  void check() {
    const scenario::Range range("check");
    std::fill_n(c_.get(), matrices_ * area, 0.0f);
    run();
    Vector v(side);
    for (int i = 0; i < side; ++i) v[i] = 1 + scenario::pattern(i) % 1000000;
    const Vector b_v = times(b_.get(), v);
    for (std::size_t i = 0; i < matrices_; ++i)
      scenario::require(times(c_.get() + i * area, v) == times(a_.get() + i * area, b_v), "a product");
  }

 private:
  const std::size_t matrices_;
  std::string variant_;
  // Pinned, because a copy from pageable memory would block the host, and nothing would overlap.
  const scenario::PinnedArray<float> a_ = scenario::pinned_array<float>(matrices_ * area);
  const scenario::PinnedArray<float> b_ = scenario::pinned_array<float>(area);
  const scenario::PinnedArray<float> c_ = scenario::pinned_array<float>(matrices_ * area);
  const scenario::DeviceArray<float> a_on_gpu_ = scenario::device_array<float>(matrices_ * area);
  const scenario::DeviceArray<float> b_on_gpu_ = scenario::device_array<float>(area);
  const scenario::DeviceArray<float> c_on_gpu_ = scenario::device_array<float>(matrices_ * area);
  std::vector<scenario::Stream> streams_;
};

}  // namespace

int main(int argc, char **argv) {
  int matrices = 8;
  scenario::Repeats repeats{2, 10};
  scenario::CommandLine line{"ladder_cuda",
                             {"naive", "coalesced", "vectorized", "shared", "streams"},
                             {{"matrices", 1, &matrices},
                              {"warmup", 0, &repeats.warmup},
                              {"iterations", 1, &repeats.iterations}}};
  line.parse(argc, argv);

  Products products(matrices);
  std::vector<scenario::Timing> timings;
  for (const std::string &variant : line.variants) {
    products.use(variant);
    products.check();
    timings.push_back(scenario::time_operation(
        variant, "step", repeats, [] {}, [&] { products.run(); }));
    products.check();
  }
  scenario::report(line, timings);
}
