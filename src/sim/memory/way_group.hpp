// Sixteen ways of a cache set side by side (a way group), two host cache lines long, so that one comparison finds a
// tag and one pass updates the recency order. A set of more ways is several consecutive groups.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Marks the innermost steps of every simulated access, for which a call would cost more than the body. With the address
// sanitizer, whose checks make the bodies long, inlining them everywhere would take minutes to compile.
#if defined(__SANITIZE_ADDRESS__)
#define NEARFIELD_ALWAYS_INLINE inline
#else
#define NEARFIELD_ALWAYS_INLINE [[gnu::always_inline]] inline
#endif

namespace nearfield::sim {

inline constexpr int ways_per_group = 16;
inline constexpr std::uint32_t no_tag = 0;    // so that a group of zeros is empty
inline constexpr std::uint8_t no_way = 0x7F;  // age of a slot that is not a way of the set

struct alignas(64) WayGroup {
  std::uint32_t tag[ways_per_group];
  std::uint8_t age[ways_per_group];    // lru: 0 is the most recently used; other replacements keep their own state here
  std::uint8_t flags[ways_per_group];  // bits of Flag
  union {
    // Bit sets of the caches of the next inner level that may have the line, if this cache is inclusive.
    std::uint16_t sharers[ways_per_group];
    std::uint8_t sub_blocks[ways_per_group][2];  // sub-block bits of CacheArray, if lines have sub-blocks
  };
};
static_assert(sizeof(WayGroup) == 128);

enum LineFlag : std::uint8_t {
  modified = 1,
  shared = 2,      // caches that are not inside this one may have the line
  injected = 4,    // injected by a device and not used yet
  prefetched = 8,  // prefetched and not used yet
};

// Returns the ways that hold the tag, as a bit mask.
inline std::uint32_t ways_with_tag(const WayGroup& group, std::uint32_t tag) {
#if defined(__AVX512F__)
  return _mm512_cmpeq_epi32_mask(_mm512_load_si512(group.tag), _mm512_set1_epi32(static_cast<int>(tag)));
#elif defined(__AVX2__)
  const __m256i searched_tag = _mm256_set1_epi32(static_cast<int>(tag));
  const auto* tags = reinterpret_cast<const __m256i*>(group.tag);
  const auto low = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(tags[0], searched_tag)));
  const auto high = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(tags[1], searched_tag)));
  return static_cast<std::uint32_t>(low | high << 8);
#elif defined(__SSE2__)
  const __m128i searched_tag = _mm_set1_epi32(static_cast<int>(tag));
  const auto* tags = reinterpret_cast<const __m128i*>(group.tag);
  const __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(tags[0], searched_tag), _mm_cmpeq_epi32(tags[1], searched_tag));
  const __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(tags[2], searched_tag), _mm_cmpeq_epi32(tags[3], searched_tag));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
#else
  std::uint32_t found = 0;
  for (int way = 0; way < ways_per_group; ++way) found |= static_cast<std::uint32_t>(group.tag[way] == tag) << way;
  return found;
#endif
}

// Same as ways_with_tag(), for a set of at most `narrow_ways` ways.
inline constexpr int narrow_ways = 4;
inline std::uint32_t narrow_ways_with_tag(const WayGroup& group, std::uint32_t tag) {
#if defined(__SSE2__)
  const __m128i found =
      _mm_cmpeq_epi32(*reinterpret_cast<const __m128i*>(group.tag), _mm_set1_epi32(static_cast<int>(tag)));
  return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(found)));
#else
  return ways_with_tag(group, tag);
#endif
}

// Returns the sum of all tags: a checksum that usually differs between groups with different lines.
inline std::uint32_t sum_of_tags(const WayGroup& group) {
#if defined(__SSE2__)
  const auto* tags = reinterpret_cast<const __m128i*>(group.tag);
  const __m128i sums = _mm_add_epi32(_mm_add_epi32(tags[0], tags[1]), _mm_add_epi32(tags[2], tags[3]));
  const __m128i both = _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_add_epi32(both, _mm_srli_epi64(both, 32))));
#else
  std::uint32_t sum = 0;
  for (const auto tag : group.tag) sum += tag;
  return sum;
#endif
}

inline std::uint32_t ways_of_age(const WayGroup& group, std::uint8_t age) {
#if defined(__SSE2__)
  const __m128i ages = _mm_load_si128(reinterpret_cast<const __m128i*>(group.age));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(ages, _mm_set1_epi8(static_cast<char>(age)))));
#else
  std::uint32_t found = 0;
  for (int way = 0; way < ways_per_group; ++way) found |= static_cast<std::uint32_t>(group.age[way] == age) << way;
  return found;
#endif
}

// Adds 1 to the age of each way that is younger than `age`.
inline void age_younger_ways(WayGroup& group, std::uint8_t age) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(group.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i younger = _mm_cmplt_epi8(now, _mm_set1_epi8(static_cast<char>(age)));
  _mm_store_si128(ages, _mm_sub_epi8(now, younger));
#else
  for (auto& a : group.age) a = static_cast<std::uint8_t>(a + (a < age));
#endif
}

// Adds 2 to the age of each way, except for the two oldest ones of `ways`.
inline void age_younger_ways_by_two(WayGroup& group, int ways) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(group.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i younger = _mm_cmplt_epi8(now, _mm_set1_epi8(static_cast<char>(ways - 2)));
  _mm_store_si128(ages, _mm_sub_epi8(now, _mm_add_epi8(younger, younger)));
#else
  for (auto& a : group.age) a = static_cast<std::uint8_t>(a + (a < ways - 2 ? 2 : 0));
#endif
}

#if defined(__SSE2__)
// Tables of vectors of 16 bytes, indexed by a value below 16: `in_every_byte` has the value in every byte;
// `in_one_byte` has 0xFF in the byte of that number, and 0 elsewhere. Broadcasting a byte would take four SSE2
// instructions.
struct alignas(16) SpreadBytes {
  std::uint8_t in_every_byte[ways_per_group][ways_per_group]{};
  std::uint8_t in_one_byte[ways_per_group][ways_per_group]{};
  constexpr SpreadBytes() {
    for (std::uint8_t value = 0; value < ways_per_group; ++value) {
      for (auto& byte : in_every_byte[value]) byte = value;
      in_one_byte[value][value] = 0xFF;
    }
  }
};
constexpr SpreadBytes spread_bytes;  // not inline: each translation unit has its own, without an indirection
#endif

// Makes `way` the most recently used one of a set of one way group: sets its age to 0 and adds 1 to the ages below its
// previous age. Ages must be below 16. All ages are written by one store, since a store of one byte would stall the
// next load of all ages.
inline void promote_to_mru(WayGroup& group, unsigned way) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(group.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i own_age = _mm_load_si128(reinterpret_cast<const __m128i*>(spread_bytes.in_every_byte[group.age[way]]));
  const __m128i own_byte = _mm_load_si128(reinterpret_cast<const __m128i*>(spread_bytes.in_one_byte[way]));
  _mm_store_si128(ages, _mm_andnot_si128(own_byte, _mm_sub_epi8(now, _mm_cmpgt_epi8(own_age, now))));
#else
  age_younger_ways(group, group.age[way]);
  group.age[way] = 0;
#endif
}

// Returns the least recently used way of a set of one way group, as a bit mask; 0 for a set of zeros.
inline std::uint32_t lru_way(const WayGroup& group, int ways) {
#if defined(__SSE2__)
  const __m128i ages = _mm_load_si128(reinterpret_cast<const __m128i*>(group.age));
  const __m128i oldest = _mm_load_si128(reinterpret_cast<const __m128i*>(spread_bytes.in_every_byte[ways - 1]));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(ages, oldest)));
#else
  return ways_of_age(group, static_cast<std::uint8_t>(ways - 1));
#endif
}

// Makes `way` the least recently used one of `ways` in a set of one way group: sets its age to `ways` - 1 and subtracts
// 1 from the ages above its previous age. Slots that are not ways of the set are unchanged.
inline void demote_to_lru(WayGroup& group, unsigned way, int ways) {
#if defined(__SSE2__)
  auto* ages = reinterpret_cast<__m128i*>(group.age);
  const __m128i now = _mm_load_si128(ages);
  const __m128i own_age = _mm_load_si128(reinterpret_cast<const __m128i*>(spread_bytes.in_every_byte[group.age[way]]));
  const __m128i oldest = _mm_load_si128(reinterpret_cast<const __m128i*>(spread_bytes.in_every_byte[ways - 1]));
  const __m128i own_byte = _mm_load_si128(reinterpret_cast<const __m128i*>(spread_bytes.in_one_byte[way]));
  const __m128i older = _mm_andnot_si128(_mm_cmpgt_epi8(now, oldest), _mm_cmpgt_epi8(now, own_age));
  _mm_store_si128(ages,
                  _mm_or_si128(_mm_andnot_si128(own_byte, _mm_add_epi8(now, older)), _mm_and_si128(own_byte, oldest)));
#else
  for (auto& a : group.age) a = static_cast<std::uint8_t>(a - (a > group.age[way] && a != no_way));
  group.age[way] = static_cast<std::uint8_t>(ways - 1);
#endif
}

// Subtracts 1 from the age of each way that is older than `age`. Slots that are not ways of the set are unchanged.
inline void rejuvenate_older_ways(WayGroup& group, std::uint8_t age) {
  for (auto& a : group.age) a = static_cast<std::uint8_t>(a - (a > age && a != no_way));
}

}  // namespace nearfield::sim
