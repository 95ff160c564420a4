// Defines the messages of messages.cpp: their kinds, communicators, the layouts of their bytes in memory and what they
// hold. One file includes it.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using Bytes = std::vector<unsigned char>;

struct Random {
  std::uint64_t state;
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
};

enum class Take { exact, persistent, any_source, any_tag, any, late, probe, iprobe, mprobe, improbe };
constexpr int takes = 10;
inline bool is_posted_before(Take take) { return take <= Take::any; }

enum class Give { send, ssend, rsend, bsend, isend, issend, irsend, ibsend, persistent, persistent_ssend };
constexpr int gives = 10;
inline bool needs_posted(Give give) {
  return give == Give::send || give == Give::ssend || give == Give::rsend || give == Give::irsend;
}

struct Message {
  int number, round, comm, from, to;  // ranks of MPI_COMM_WORLD
  int tag, size;
  Give give;
  bool arrived = false;
};

constexpr int per_round = 40, communicators = 4, largest = 4 << 20, max_buffered = 256 << 10;
constexpr int unused_tag = 999, ring_tag = 1000;

inline std::uint64_t seed;
inline int own, ranks;
inline std::uint64_t digest = 0, n_messages = 0, n_bytes = 0;
inline std::uint64_t state_of(std::uint64_t a, std::uint64_t b) { return Random{seed * 1000003 + a * 8191 + b}.next(); }

[[noreturn]] inline void fail(const char* what, const Message& m, long long detail = 0) {
  std::fprintf(stderr, "rank %d: %s (%lld): message %d of %d bytes from %d to %d, round %d, communicator %d, tag %d\n",
               own, what, detail, m.number, m.size, m.from, m.to, m.round, m.comm, m.tag);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// ---- communicators: duplicates of the world (0, 1), neighbours of the same parity, descending (2), all, descending
// (3)

inline MPI_Comm comms[communicators];
inline MPI_Comm
    ring_communicator;  // for the rings: a neighbour may begin them while receives with wildcards still wait for others

inline void make_communicators() {
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  MPI_Comm_dup(MPI_COMM_WORLD, &ring_communicator);
  MPI_Comm_split(MPI_COMM_WORLD, own % 2, -own, &comms[2]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -own, &comms[3]);
}

inline int rank_in(int comm, int world) {
  if (comm < 2) return world;
  if (comm == 3) return ranks - 1 - world;
  return (ranks - 1 - world) / 2;  // how many of the same parity are above
}

inline int world_of(int comm, int rank) {
  if (comm < 2) return rank;
  if (comm == 3) return ranks - 1 - rank;
  const int top = (ranks - 1 - own) % 2 == 0 ? ranks - 1 : ranks - 2;
  return top - 2 * rank;
}

// ---- layouts: where the bytes of a message lie

struct Block {
  int at, length;
};

struct Layout {
  std::vector<Block> blocks;
  MPI_Datatype type = MPI_BYTE;
  int count = 0;  // of type
  int extent = 0;
};

inline void append(Layout& layout, int gap, int length) {
  layout.blocks.push_back({layout.extent + gap, length});
  layout.extent += gap + length;
}

// Equal blocks by MPI_Type_vector, and what is left over behind them by MPI_Type_create_struct.
inline void make_vector(Layout& layout, int size, Random& random) {
  const int length = std::min(size, std::max(1 + random.below(2000), size / 500)), gap = random.below(100);
  const int n = size / length, rest = size % length;
  for (int i = 0; i < n; ++i) append(layout, i ? gap : 0, length);
  MPI_Datatype vector;
  MPI_Type_vector(n, length, length + gap, MPI_BYTE, &vector);
  int lengths[] = {1, rest};
  MPI_Aint places[] = {0, layout.extent};
  MPI_Datatype types[] = {vector, MPI_BYTE};
  MPI_Type_create_struct(rest ? 2 : 1, lengths, places, types, &layout.type);
  MPI_Type_free(&vector);
  if (rest) append(layout, 0, rest);
}

inline void make_irregular(Layout& layout, int size, Random& random, bool as_struct) {
  const int usual = std::max(1 + random.below(1000), size / 300);
  for (int left = size; left > 0;) {
    const int length = std::min(left, 1 + random.below(2 * usual));
    append(layout, random.below(64), length);
    left -= length;
  }
  std::vector<int> lengths, places;
  std::vector<MPI_Aint> addresses;
  for (const Block& block : layout.blocks) {
    lengths.push_back(block.length);
    places.push_back(block.at);
    addresses.push_back(block.at);
  }
  const int n = static_cast<int>(lengths.size());
  const std::vector<MPI_Datatype> types(lengths.size(), MPI_BYTE);
  if (as_struct)
    MPI_Type_create_struct(n, lengths.data(), addresses.data(), types.data(), &layout.type);
  else
    MPI_Type_indexed(n, lengths.data(), places.data(), MPI_BYTE, &layout.type);
}

inline Layout contiguous(int size) {
  Layout layout;
  append(layout, 0, size);
  layout.count = size;
  return layout;
}

inline Layout some_layout(int size, std::uint64_t state) {
  Random random{state};
  const int kind = random.below(6);
  if (size == 0 || kind < 3) return contiguous(size);
  Layout layout;
  if (kind == 3) make_vector(layout, size, random);
  if (kind > 3) make_irregular(layout, size, random, kind == 4);
  layout.count = 1;
  MPI_Type_commit(&layout.type);
  return layout;
}

inline void free_layout(Layout& layout) {
  if (layout.type != MPI_BYTE) MPI_Type_free(&layout.type);
}

// ---- contents

inline void fill(unsigned char* at, int size, std::uint64_t state) {
  Random random{state};
  for (int i = 0; i < size; i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(at + i, &word, static_cast<std::size_t>(std::min(8, size - i)));
  }
}

inline Bytes content(const Message& m) {
  Bytes bytes(static_cast<std::size_t>(m.size));
  fill(bytes.data(), m.size, state_of(1, static_cast<std::uint64_t>(m.number)));
  return bytes;
}

inline Bytes spread(const Bytes& bytes, const Layout& layout) {
  Bytes memory(static_cast<std::size_t>(layout.extent) + 1, 0xee);
  std::size_t from = 0;
  for (const Block& block : layout.blocks) {
    if (block.length)
      std::memcpy(&memory[static_cast<std::size_t>(block.at)], &bytes[from], static_cast<std::size_t>(block.length));
    from += static_cast<std::size_t>(block.length);
  }
  return memory;
}

// The bytes between the blocks must not have been touched either.
inline void verify(const Bytes& memory, const Layout& layout, const Message& m) {
  const Bytes wanted = spread(content(m), layout);
  if (const auto at = std::mismatch(wanted.begin(), wanted.end(), memory.begin()); at.first != wanted.end())
    fail("wrong content from byte on", m, at.first - wanted.begin());
  digest += Random{state_of(2, static_cast<std::uint64_t>(m.number)) ^ static_cast<std::uint64_t>(m.size)}.next();
  ++n_messages;
  n_bytes += static_cast<std::uint64_t>(m.size);
}
