// The format of a stream, one file per rank, `rank-3.nfs`: a header and chunks.
//
//   file    header, chunks; the last chunk has the flag `last`
//   header  "nfstream", version (4 bytes), 4 bytes of zeros
//   chunk   a ChunkHeader, then `stored_bytes`, which are `raw_bytes` packed by Zstandard if the flag `packed` is set
//   raw     tokens
//   token   a byte with a kind (bits 0 to 2) and the number of predicted accesses before it (bits 3 to 7; 31: the
//           number minus 31 follows); then the data of the kind. Numbers are encoded as in bytes.hpp, little-endian.
//
// An access belongs to a site: the code location that makes it, which determines its kind and size. The site that is
// predicted next is the one that followed this site the last time, and its address is predicted by its predictor
// (address_predictor.hpp). So a loop in steady state needs no bytes, however many arrays it traverses. Each chunk
// begins without sites, so it can be read without the earlier ones.
#pragma once

#include <cstdint>

#include "trace/stream/address_predictor.hpp"

namespace nearfield::stream {

constexpr char file_magic[8] = {'n', 'f', 's', 't', 'r', 'e', 'a', 'm'};
constexpr char reply_magic[8] = {'n', 'f', 'r', 'a', 'n', 'k', 0, 0};  // begins a connection for replies (live.hpp)
constexpr std::uint32_t format_version = 5;
constexpr unsigned header_bytes = 16;

struct ChunkHeader {
  static constexpr std::uint32_t expected_magic = 0x4b48434e;  // "NCHK"
  static constexpr std::uint32_t packed = 1, last = 2;
  std::uint32_t magic = expected_magic;
  std::uint32_t flags = 0;
  std::uint32_t raw_bytes = 0, stored_bytes = 0;
  std::uint64_t accesses = 0;
  std::uint64_t checksum = 0;  // of the stored bytes and of this header with checksum 0
};
static_assert(sizeof(ChunkHeader) == 32);
constexpr std::uint32_t chunk_bytes = 8 << 20;  // maximum of raw_bytes

enum class Token : unsigned char {
  step8,       // the predicted site at another address: difference to the predicted address, in units of 8 bytes
  step,        // same as step8, in bytes
  site,        // another site than predicted, at its predicted address: number of the site in the chunk
  site_step8,  // another site and another address: number of the site, then as step8
  site_step,
  new_site,  // object, offset, SiteKind; difference of the address to that of the last new site
  range,     // an access by a range site: number of the site, difference as for step, number of bytes
  event,     // length and bytes of an event (event_bytes.hpp); length 0: no event, only predicted accesses
};
constexpr unsigned token_bits = 3, max_predicted_per_token = 31;

// Access sizes in bytes; 0: a range, of any size. The kind of a site is twice the index of its size in this list, plus
// one for a store.
constexpr std::uint32_t access_sizes[] = {1, 2, 4, 8, 16, 0};
enum SiteKind : unsigned {
  load1,
  store1,
  load2,
  store2,
  load4,
  store4,
  load8,
  store8,
  load16,
  store16,
  load_range,
  store_range,
  num_site_kinds
};
constexpr bool is_store(unsigned kind) { return kind & 1; }
constexpr std::uint32_t access_bytes_of(unsigned kind) { return access_sizes[kind >> 1]; }
constexpr bool is_range(unsigned kind) { return kind >= load_range; }

// Returns a hash of the bytes. It detects corruption by disks and networks, not manipulation.
inline std::uint64_t checksum(const unsigned char* data, std::uint64_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15ULL;
  std::uint64_t sum = seed ^ bytes * factor;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, data, 8);
    sum = (sum ^ word) * factor;
    sum ^= sum >> 29;
  }
  for (; bytes > 0; ++data, --bytes) sum = (sum ^ *data) * factor;
  return sum ^ sum >> 32;
}
// Returns the value of ChunkHeader::checksum for a header and its stored bytes.
inline std::uint64_t checksum(ChunkHeader header, const unsigned char* stored) {
  header.checksum = 0;
  unsigned char bytes[sizeof header];
  __builtin_memcpy(bytes, &header, sizeof header);
  return checksum(stored, header.stored_bytes, checksum(bytes, sizeof header, format_version));
}

}  // namespace nearfield::stream
