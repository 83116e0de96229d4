// Copy a frame of 24 MiB from malloc'ed memory with cudaMemcpy before each kernel. No NVTX, 1.5 s of start-up.
// Lost time: the copy blocks the host and takes four times as long as the kernel.
#include "pieces.cuh"

int main() {
  start_up(1.5);
  const int n = 6 << 20;
  std::vector<float> frame(n, 0.5f);
  float *x;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  const auto copy = [&] { CHECK(cudaMemcpy(x, frame.data(), n * sizeof(float), cudaMemcpyHostToDevice)); };
  const double copying = seconds_of(copy);
  const int rounds = rounds_for(copying / 4, x, n);
  std::printf("a copy takes %.2f ms\n", copying * 1e3);
  for (int number = 0; number < 60; ++number) {
    copy();
    integrate<<<n / 256, 256>>>(x, n, rounds);
  }
  CHECK(cudaDeviceSynchronize());
}
