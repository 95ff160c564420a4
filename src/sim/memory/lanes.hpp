// Sixteen ways of a cache set side by side, two host cache lines long, so that one comparison finds a tag and one pass
// keeps the order of use. A set of more ways is several of these in a row.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace nearfield::sim {

inline constexpr int lanes_per_block = 16;
inline constexpr std::uint32_t no_tag = 0xFFFFFFFF;
inline constexpr std::uint8_t no_way = 0x7F;  // age of a lane that is not a way of the set

struct alignas(64) Block {
  std::uint32_t tag[lanes_per_block];
  std::uint8_t age[lanes_per_block];    // lru: 0 was used last; other replacements keep their own state here
  std::uint8_t flags[lanes_per_block];  // Flag
  union {
    std::uint16_t sharers[lanes_per_block];  // which caches right before this one may have the line, if it is inclusive
    std::uint8_t parts[lanes_per_block][2];  // CacheArray's, if its lines have sub-blocks
  };
};
static_assert(sizeof(Block) == 128);

enum Flag : std::uint8_t {
  modified = 1,
  shared = 2,      // caches that are not before this one may have the line
  injected = 4,    // by a device, and not used yet
  prefetched = 8,  // and not used yet
};

// The lanes that hold the tag, as bits.
inline std::uint32_t lanes_with(const Block& block, std::uint32_t tag) {
#if defined(__AVX512F__)
  return _mm512_cmpeq_epi32_mask(_mm512_load_si512(block.tag), _mm512_set1_epi32(static_cast<int>(tag)));
#elif defined(__AVX2__)
  const __m256i wanted = _mm256_set1_epi32(static_cast<int>(tag));
  const auto* tags = reinterpret_cast<const __m256i*>(block.tag);
  const auto low = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(tags[0], wanted)));
  const auto high = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(tags[1], wanted)));
  return static_cast<std::uint32_t>(low | high << 8);
#elif defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
  const auto* tags = reinterpret_cast<const __m128i*>(block.tag);
  const __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(tags[0], wanted), _mm_cmpeq_epi32(tags[1], wanted));
  const __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(tags[2], wanted), _mm_cmpeq_epi32(tags[3], wanted));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
#else
  std::uint32_t found = 0;
  for (int lane = 0; lane < lanes_per_block; ++lane)
    found |= static_cast<std::uint32_t>(block.tag[lane] == tag) << lane;
  return found;
#endif
}

inline std::uint32_t lanes_of_age(const Block& block, std::uint8_t age) {
#if defined(__SSE2__)
  const __m128i ages = _mm_load_si128(reinterpret_cast<const __m128i*>(block.age));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(ages, _mm_set1_epi8(static_cast<char>(age)))));
#else
  std::uint32_t found = 0;
  for (int lane = 0; lane < lanes_per_block; ++lane)
    found |= static_cast<std::uint32_t>(block.age[lane] == age) << lane;
  return found;
#endif
}

// Lanes younger than `age` grow one older.
inline void grow_older_than(Block& block, std::uint8_t age) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(block.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i younger = _mm_cmplt_epi8(now, _mm_set1_epi8(static_cast<char>(age)));
  _mm_store_si128(ages, _mm_sub_epi8(now, younger));
#else
  for (auto& a : block.age) a = static_cast<std::uint8_t>(a + (a < age));
#endif
}

// The same, and `lane` becomes the youngest; one store, since a byte's would stall the next load of them all.
inline void make_youngest(Block& block, unsigned lane) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(block.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i numbers = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m128i me = _mm_cmpeq_epi8(numbers, _mm_set1_epi8(static_cast<char>(lane)));
  const __m128i younger = _mm_cmplt_epi8(now, _mm_set1_epi8(static_cast<char>(block.age[lane])));
  _mm_store_si128(ages, _mm_andnot_si128(me, _mm_sub_epi8(now, younger)));
#else
  grow_older_than(block, block.age[lane]);
  block.age[lane] = 0;
#endif
}

// Lanes older than `lane`, apart from those that are no ways, grow one younger, and `lane` becomes the oldest of
// `ways`.
inline void make_oldest(Block& block, unsigned lane, int ways) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(block.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i numbers = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m128i me = _mm_cmpeq_epi8(numbers, _mm_set1_epi8(static_cast<char>(lane)));
  const __m128i way = _mm_cmplt_epi8(now, _mm_set1_epi8(static_cast<char>(no_way)));
  const __m128i older = _mm_and_si128(way, _mm_cmpgt_epi8(now, _mm_set1_epi8(static_cast<char>(block.age[lane]))));
  const __m128i moved = _mm_andnot_si128(me, _mm_add_epi8(now, older));
  _mm_store_si128(ages, _mm_or_si128(moved, _mm_and_si128(me, _mm_set1_epi8(static_cast<char>(ways - 1)))));
#else
  for (auto& a : block.age) a = static_cast<std::uint8_t>(a - (a > block.age[lane] && a != no_way));
  block.age[lane] = static_cast<std::uint8_t>(ways - 1);
#endif
}

// Lanes older than `age`, apart from those that are no ways, grow one younger.
inline void grow_younger_than(Block& block, std::uint8_t age) {
  for (auto& a : block.age) a = static_cast<std::uint8_t>(a - (a > age && a != no_way));
}

}  // namespace nearfield::sim
