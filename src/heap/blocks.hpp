// The blocks of a region: two-level segregated fit (M. Masmano, I. Ripoll, A. Crespo, J. Real: TLSF, ECRTS 2004), so
// that taking and giving back a block are a few instructions however many there are, with the boundary tags of Knuth.
//
// Why not a library's allocator: see CONTRIBUTING.md, "The shared heap".
//
// Blocks are multiples of 64 bytes and begin at a multiple of 64, so that a copy can use whole lines. Memory that was
// never handed out, or was given back to the system, is known to be zero and is not touched.
//
// Threads: none; the heap holds its lock. Nothing here allocates or fails but by returning nullptr.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::heap {

class Blocks {
 public:
  static constexpr std::size_t granule = 64;

  // Adds zero memory at multiples of a granule: the first piece, or one that follows the last one.
  void add(char* memory, std::size_t bytes);

  // Returns a block of at least `bytes`, at a multiple of `alignment` (a power of two); nullptr if there is none.
  void* take(std::size_t bytes, std::size_t alignment);
  void give_back(void* block);
  // Makes a block longer or shorter where it lies. Returns whether it could.
  bool resize(void* block, std::size_t bytes);

  static std::size_t usable_bytes(const void* block);
  static std::size_t block_bytes(const void* block);  // the bytes that it adds to taken_bytes()
  // Returns the address from which on no memory was handed out since it was zero.
  char* untouched() const { return untouched_; }
  std::size_t taken_bytes() const { return taken_; }
  // Returns the bytes of free memory that was used and not yet returned to the system.
  std::size_t idle_bytes() const { return idle_; }
  // Returns free memory to the system, largest blocks first, until at most `keep` bytes of it are idle.
  void purge(std::size_t keep);

 private:
  struct Block;
  static constexpr int sub_bits = 4, sub_count = 1 << sub_bits, level_count = 36;
  struct SizeClass {
    int level, sub;
  };

  static SizeClass class_of(std::size_t bytes);
  SizeClass first_fit(std::size_t bytes) const;
  Block* find(std::size_t bytes) const;
  void insert(Block* block);
  void remove(Block* block);
  void trim(Block* block, std::size_t bytes);
  Block* split_front(Block* block, std::size_t bytes);
  static Block* joined(Block* left, Block* right);
  Block* merged(Block* block);
  std::size_t used_part(const Block* block) const;
  void mark_taken(Block* block);
  void return_to_system(Block* block);

  Block* free_[level_count][sub_count] = {};
  std::uint64_t levels_ = 0;
  std::uint32_t subs_[level_count] = {};
  char* end_ = nullptr;
  char* untouched_ = nullptr;
  std::size_t taken_ = 0, idle_ = 0;
};

}  // namespace nearfield::heap
