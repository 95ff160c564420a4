#include "base/copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nearfield {
namespace {

constexpr std::size_t cache_line_bytes = 64;

// Streaming stores write whole cache lines, which `copy_whole_lines` copies; memcpy copies the partial lines at both
// ends.
template <typename CopyWholeLines>
void copy_with_partial_lines(void* to, const void* from, std::size_t bytes, CopyWholeLines copy_whole_lines) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  std::size_t head = (cache_line_bytes - reinterpret_cast<std::uintptr_t>(out) % cache_line_bytes) % cache_line_bytes;
  if (head > bytes) head = bytes;
  std::memcpy(out, in, head);
  const std::size_t whole_lines_bytes = (bytes - head) / cache_line_bytes * cache_line_bytes;
  copy_whole_lines(out + head, in + head, whole_lines_bytes);
  std::memcpy(out + head + whole_lines_bytes, in + head + whole_lines_bytes, bytes - head - whole_lines_bytes);
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) void stream_lines_avx512(char* to, const char* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += cache_line_bytes)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  _mm_sfence();
}

__attribute__((target("avx2"))) void stream_lines_avx2(char* to, const char* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += cache_line_bytes) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), high);
  }
  _mm_sfence();
}

void stream_lines_sse2(char* to, const char* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  _mm_sfence();
}

// The final sfence of each routine orders the streaming stores before the store that signals their completion to
// another core.
void stream_avx512(void* to, const void* from, std::size_t bytes) {
  copy_with_partial_lines(to, from, bytes, stream_lines_avx512);
}
void stream_avx2(void* to, const void* from, std::size_t bytes) {
  copy_with_partial_lines(to, from, bytes, stream_lines_avx2);
}
void stream_sse2(void* to, const void* from, std::size_t bytes) {
  copy_with_partial_lines(to, from, bytes, stream_lines_sse2);
}

#elif defined(__aarch64__)

void stream_lines_neon(char* to, const char* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += cache_line_bytes)
    __asm__ volatile(
        "ldp q0, q1, [%1]\n"
        "ldp q2, q3, [%1, #32]\n"
        "stnp q0, q1, [%0]\n"
        "stnp q2, q3, [%0, #32]\n"
        :
        : "r"(to + i), "r"(from + i)
        : "v0", "v1", "v2", "v3", "memory");
  __asm__ volatile("dmb ishst" ::: "memory");
}

void stream_neon(void* to, const void* from, std::size_t bytes) {
  copy_with_partial_lines(to, from, bytes, stream_lines_neon);
}

#endif

struct CopyRoutine {
  const char* name;
  CopyFunction copy;
};

CopyRoutine widest_streaming_routine() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return {"avx512", stream_avx512};
  if (__builtin_cpu_supports("avx2")) return {"avx2", stream_avx2};
  return {"sse2", stream_sse2};
#elif defined(__aarch64__)
  return {"neon", stream_neon};
#else
  return {"none", copy_plain};
#endif
}

}  // namespace

void copy_plain(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

CopyFunction streaming_copy() { return widest_streaming_routine().copy; }

const char* streaming_copy_name() { return widest_streaming_routine().name; }

}  // namespace nearfield
