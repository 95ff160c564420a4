// Hashes of bytes that do not depend on how the bytes are split into pieces.
#include <string.h>

#include "verify.h"

static uint64_t mix_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

void nf_digest_add(nf_digest* digest, const void* data, size_t bytes) {
  const unsigned char* position = data;
  while (bytes && digest->bytes % 8) {
    digest->partial_word |= (uint64_t)*position++ << 8 * (digest->bytes++ % 8), --bytes;
    if (digest->bytes % 8 == 0) digest->hash = mix_word(digest->hash, digest->partial_word), digest->partial_word = 0;
  }
  digest->bytes += bytes;
  for (; bytes >= 8; position += 8, bytes -= 8) {
    uint64_t word;
    memcpy(&word, position, 8);
    digest->hash = mix_word(digest->hash, word);
  }
  for (size_t i = 0; i < bytes; ++i) digest->partial_word |= (uint64_t)position[i] << 8 * i;
}

uint64_t nf_digest_hash(const nf_digest* digest) {
  return mix_word(mix_word(digest->hash, digest->partial_word), digest->bytes);
}

// Addresses of programs, libraries and stacks lie in this range on Linux. Read as doubles, such words are denormal,
// below 1e-309, so they are rarely a program's numbers.
int nf_may_be_address(uint64_t word) { return word >= 0x550000000000u && word <= 0x7fffffffffffu; }

void nf_digest_add_memory(nf_digest* digest, const void* data, size_t bytes) {
  const unsigned char* position = data;
  for (; bytes >= 8; position += 8, bytes -= 8) {
    uint64_t word;
    memcpy(&word, position, 8);
    digest->hash = mix_word(digest->hash, nf_may_be_address(word) ? 0 : word);
    digest->bytes += 8;
  }
  nf_digest_add(digest, position, bytes);
}
