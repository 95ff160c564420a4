// Blocks with contents that can be checked, and random changes of them, for tests of the malloc family.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using Byte = unsigned char;

[[noreturn]] inline void fail(const char* what, const char* file, int line) {
  std::printf("wrong in line %d of %s: %s\n", line, file, what);
  std::fflush(stdout);
  _exit(1);
}
#define CHECK(what) ((what) ? void() : fail(#what, __FILE__, __LINE__))

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, from = 8 * KiB;

// Keeps the compiler from knowing what a size or a pointer is.
template <typename T>
T hidden(T value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

inline std::uintptr_t number(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }
inline bool is_shared(const void* block) {
  return number(block) >= std::uintptr_t{0x20} << 40 && number(block) < std::uintptr_t{0x50} << 40;
}

inline Byte* bytes(std::size_t size) { return static_cast<Byte*>(std::malloc(hidden(size))); }

inline void fill(Byte* block, std::size_t size, unsigned seed) {
  for (std::size_t i = 0; i < size; ++i) block[i] = static_cast<Byte>(i * 31 + (i >> 8) * 7 + seed);
}
inline bool holds(const Byte* block, std::size_t size, unsigned seed) {
  for (std::size_t i = 0; i < size; ++i)
    if (block[i] != static_cast<Byte>(i * 31 + (i >> 8) * 7 + seed)) return false;
  return true;
}
inline bool is_zero(const Byte* block, std::size_t size) {
  return std::all_of(block, block + size, [](Byte byte) { return byte == 0; });
}

// ---- random blocks

// Returns the distance of the bytes that are checked: some bytes are enough, and take a fraction of the time.
inline std::size_t step(std::size_t size) { return size > 20000 ? 517 : 13; }

struct Random {
  std::uint64_t state;
  std::size_t below(std::size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  }
};

struct Slot {
  Byte* block = nullptr;
  std::size_t size = 0;
  unsigned seed = 0;

  void mark(unsigned with) {
    seed = with;
    for (std::size_t i = 0; i < size; i += step(size)) block[i] = static_cast<Byte>(seed + i);
    block[size - 1] = static_cast<Byte>(seed);
  }
  bool is_marked() const { return is_marked(size) && (!block || block[size - 1] == static_cast<Byte>(seed)); }
  bool is_marked(std::size_t upto) const {
    if (!block) return true;
    for (std::size_t i = 0; i < upto; i += step(size))
      if (i != size - 1 && block[i] != static_cast<Byte>(seed + i)) return false;
    return true;
  }
};

inline std::size_t some_size(Random& random, std::size_t longest) {
  return 1 + (random.below(10) == 0 ? random.below(longest) : random.below(50000));
}

// Gives a block back, takes another in one of all ways, or changes its length.
inline void change(Slot& slot, Random& random, std::size_t longest) {
  CHECK(slot.is_marked());
  const std::size_t size = some_size(random, longest), way = random.below(6);
  Slot fresh{nullptr, size, 0};
  if (slot.block && way == 0) {
    fresh.block = static_cast<Byte*>(std::realloc(slot.block, size));
    slot.block = fresh.block;
    CHECK(fresh.block && slot.is_marked(std::min(size, slot.size)));
  } else {
    std::free(slot.block);
    if (way == 1) {
      fresh.block = static_cast<Byte*>(std::calloc(1, size));
      CHECK(fresh.block && is_zero(fresh.block, size));
    } else if (way == 2) {
      const std::size_t alignment = std::size_t{16} << random.below(13);
      CHECK(posix_memalign(reinterpret_cast<void**>(&fresh.block), alignment, size) == 0);
      CHECK(number(fresh.block) % alignment == 0);
    } else {
      fresh.block = bytes(size);
    }
  }
  CHECK(fresh.block && malloc_usable_size(fresh.block) >= size);
  fresh.mark(static_cast<unsigned>(random.below(1 << 20)));
  slot = fresh;
}

inline void change_some(std::vector<Slot>& slots, Random& random, int count) {
  for (int i = 0; i < count; ++i) {
    Slot& slot = slots[random.below(slots.size())];
    if (random.below(3)) {
      change(slot, random, 1 * MiB);
    } else {  // often nothing is allocated between two forks
      CHECK(slot.is_marked());
      std::free(slot.block);
      slot = Slot{};
    }
  }
}
