// Accelerate 131072 bodies: the kernel of the forces is all of the program.
// Most time: that kernel, which keeps the GPU busy. Only another algorithm or a faster kernel would help.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                     \
    if (cudaError_t error = (call)) {                                                   \
        std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));             \
        std::exit(1);                                                                   \
    }

const int N = 131072, THREADS = 256, STEPS = 40;

__global__ void place(float4* body) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = i * 2654435761u;
    body[i] = make_float4((h & 1023) / 1024.f, (h >> 10 & 1023) / 1024.f, (h >> 20 & 1023) / 1024.f, 1e-3f);
}
__global__ void forces(const float4* body, float4* speed) {
    __shared__ float4 tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    float4 me = body[i];
    float3 sum = make_float3(0.f, 0.f, 0.f);
    for (int first = 0; first < N; first += THREADS) {
        tile[threadIdx.x] = body[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < THREADS; ++j) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);
            float pull = tile[j].w * inverse * inverse * inverse;
            sum.x += dx * pull, sum.y += dy * pull, sum.z += dz * pull;
        }
        __syncthreads();
    }
    speed[i].x += sum.x, speed[i].y += sum.y, speed[i].z += sum.z;
}

int main() {
    float4 *body, *speed;
    CHECK(cudaMalloc(&body, N * sizeof(float4)));
    CHECK(cudaMalloc(&speed, N * sizeof(float4)));
    CHECK(cudaMemset(speed, 0, N * sizeof(float4)));
    place<<<N / THREADS, THREADS>>>(body);
    forces<<<N / THREADS, THREADS>>>(body, speed);
    CHECK(cudaDeviceSynchronize());
    auto began = std::chrono::steady_clock::now();
    for (int step = 0; step < STEPS; ++step) forces<<<N / THREADS, THREADS>>>(body, speed);
    CHECK(cudaDeviceSynchronize());
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    CHECK(cudaGetLastError());
    std::printf("TRUTH {\"cause\": \"one kernel is the whole program\", \"steps\": %d, \"seconds_per_step\": %.9f}\n",
                STEPS, seconds / STEPS);
}
