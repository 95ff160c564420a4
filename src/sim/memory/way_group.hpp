// Sixteen ways of a cache set side by side, two host cache lines long, so that one comparison finds a tag and one pass
// keeps the order of use. A set of more ways is several of these in a row.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// These are the innermost steps of every simulated access; a call would cost more than they do. (With a sanitizer's
// checks they are long, and take minutes to compile where they are many times.)
#if defined(__SANITIZE_ADDRESS__)
#define NEARFIELD_INNERMOST inline
#else
#define NEARFIELD_INNERMOST [[gnu::always_inline]] inline
#endif

namespace nearfield::sim {

inline constexpr int lanes_per_block = 16;
inline constexpr std::uint32_t no_tag = 0;    // so that a block of zeros is empty
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

// The same for a set of no more than `first_lanes` ways.
inline constexpr int first_lanes = 4;
inline std::uint32_t first_lanes_with(const Block& block, std::uint32_t tag) {
#if defined(__SSE2__)
  const __m128i found =
      _mm_cmpeq_epi32(*reinterpret_cast<const __m128i*>(block.tag), _mm_set1_epi32(static_cast<int>(tag)));
  return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(found)));
#else
  return lanes_with(block, tag);
#endif
}

// Differs for blocks with other lines, mostly.
inline std::uint32_t sum_of_tags(const Block& block) {
#if defined(__SSE2__)
  const auto* tags = reinterpret_cast<const __m128i*>(block.tag);
  const __m128i sums = _mm_add_epi32(_mm_add_epi32(tags[0], tags[1]), _mm_add_epi32(tags[2], tags[3]));
  const __m128i both = _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_add_epi32(both, _mm_srli_epi64(both, 32))));
#else
  std::uint32_t sum = 0;
  for (const auto tag : block.tag) sum += tag;
  return sum;
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

// The two oldest of `ways` leave their places: all that are younger grow two older.
inline void grow_two_older(Block& block, int ways) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(block.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i younger = _mm_cmplt_epi8(now, _mm_set1_epi8(static_cast<char>(ways - 2)));
  _mm_store_si128(ages, _mm_sub_epi8(now, _mm_add_epi8(younger, younger)));
#else
  for (auto& a : block.age) a = static_cast<std::uint8_t>(a + (a < ways - 2 ? 2 : 0));
#endif
}

#if defined(__SSE2__)
// Sixteen bytes that are all `value`, below 16, or all ones in lane `value` only; from tables, since to spread a byte
// is four instructions of SSE2.
struct alignas(16) SpreadBytes {
  std::uint8_t everywhere[lanes_per_block][lanes_per_block]{};
  std::uint8_t only[lanes_per_block][lanes_per_block]{};
  constexpr SpreadBytes() {
    for (std::uint8_t value = 0; value < lanes_per_block; ++value) {
      for (auto& byte : everywhere[value]) byte = value;
      only[value][value] = 0xFF;
    }
  }
};
constexpr SpreadBytes spread;  // not inline: each unit has its own, without a detour to it
#endif

// The same for the one block of a set, whose ages are below 16, and `lane` becomes the youngest; one store, since a
// byte's would stall the next load of them all.
inline void make_youngest(Block& block, unsigned lane) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(block.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i its = _mm_load_si128(reinterpret_cast<const __m128i*>(spread.everywhere[block.age[lane]]));
  const __m128i me = _mm_load_si128(reinterpret_cast<const __m128i*>(spread.only[lane]));
  _mm_store_si128(ages, _mm_andnot_si128(me, _mm_sub_epi8(now, _mm_cmpgt_epi8(its, now))));
#else
  grow_older_than(block, block.age[lane]);
  block.age[lane] = 0;
#endif
}

// The oldest of the ways of a set of one block, as a bit; none in a block of zeros.
inline std::uint32_t oldest_lane(const Block& block, int ways) {
#if defined(__SSE2__)
  const __m128i ages = _mm_load_si128(reinterpret_cast<const __m128i*>(block.age));
  const __m128i oldest = _mm_load_si128(reinterpret_cast<const __m128i*>(spread.everywhere[ways - 1]));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(ages, oldest)));
#else
  return lanes_of_age(block, static_cast<std::uint8_t>(ways - 1));
#endif
}

// Lanes older than `lane`, apart from those that are no ways, grow one younger, and `lane` becomes the oldest of
// `ways`; again for a set of one block.
inline void make_oldest(Block& block, unsigned lane, int ways) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(block.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i its = _mm_load_si128(reinterpret_cast<const __m128i*>(spread.everywhere[block.age[lane]]));
  const __m128i oldest = _mm_load_si128(reinterpret_cast<const __m128i*>(spread.everywhere[ways - 1]));
  const __m128i me = _mm_load_si128(reinterpret_cast<const __m128i*>(spread.only[lane]));
  const __m128i older = _mm_andnot_si128(_mm_cmpgt_epi8(now, oldest), _mm_cmpgt_epi8(now, its));
  _mm_store_si128(ages, _mm_or_si128(_mm_andnot_si128(me, _mm_add_epi8(now, older)), _mm_and_si128(me, oldest)));
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
