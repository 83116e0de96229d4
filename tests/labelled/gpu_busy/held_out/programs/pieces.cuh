// What these programs share: checked calls, a timed loop without waits, and the line that tells what they know.
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                         \
    if (cudaError_t error = (call)) {                                       \
        std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
        std::exit(1);                                                       \
    }

template <typename Step>
void measure(Step step, int steps, const char* cause) {
    for (int i = 0; i < 3; ++i) step();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    auto started = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step();
    CHECK(cudaDeviceSynchronize());
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    std::printf("TRUTH {\"cause\": \"%s\", \"steps\": %d, \"seconds_per_step\": %.9f}\n", cause, steps, seconds / steps);
}
