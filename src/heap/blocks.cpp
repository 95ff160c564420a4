#include "heap/blocks.hpp"

#include <sys/mman.h>

#include <bit>
#include <cstring>

#include "heap/pages.hpp"
#include "heap/region.hpp"

namespace nearfield::heap {

// The tag before a block's memory. The memory begins a granule after the tag's granule does, so that it is aligned; the
// tag uses the last 16 bytes before it. `bytes` counts the tag's 16 bytes and what follows up to the next tag.
struct Blocks::Block {
  static constexpr std::size_t is_free = 1, was_returned = 2, flags = granule - 1;

  std::size_t previous_bytes;  // 0: the first
  std::size_t size_and_flags;
  // Only while it is free; `idle` is what it adds to idle_:
  Block *next, *before;
  std::size_t idle;

  std::size_t bytes() const { return size_and_flags & ~flags; }
  bool free() const { return size_and_flags & is_free; }
  bool returned() const { return size_and_flags & was_returned; }
  char* memory() { return reinterpret_cast<char*>(this) + tag_bytes; }
  Block* following() { return reinterpret_cast<Block*>(reinterpret_cast<char*>(this) + bytes()); }
  Block* previous() { return reinterpret_cast<Block*>(reinterpret_cast<char*>(this) - previous_bytes); }
  void set(std::size_t size, std::size_t with) {
    size_and_flags = size | with;
    following()->previous_bytes = size;
  }

  static constexpr std::size_t tag_bytes = 16;
  static Block* of(const void* memory) {
    return reinterpret_cast<Block*>(reinterpret_cast<std::uintptr_t>(memory) - tag_bytes);
  }
};

namespace {

constexpr std::size_t links = 40;  // a free block's tag and list, which are touched even if all else is zero

std::size_t with_tag(std::size_t usable) { return (usable + 16 + Blocks::granule - 1) & ~(Blocks::granule - 1); }

std::uintptr_t up(std::uintptr_t value, std::size_t to) { return (value + to - 1) & ~(to - 1); }

}  // namespace

Blocks::SizeClass Blocks::class_of(std::size_t bytes) {
  const std::size_t units = bytes / granule;
  const int top = std::bit_width(units) - 1;
  if (top < sub_bits) return {0, static_cast<int>(units)};
  return {top - sub_bits + 1, static_cast<int>((units >> (top - sub_bits)) & (sub_count - 1))};
}

// The first list in which every block is long enough.
Blocks::SizeClass Blocks::first_fit(std::size_t bytes) const {
  const std::size_t units = bytes / granule;
  const int top = std::bit_width(units) - 1;
  const std::size_t more = top < sub_bits ? 0 : (std::size_t{1} << (top - sub_bits)) - 1;
  return class_of((units + more) * granule);
}

Blocks::Block* Blocks::find(std::size_t bytes) const {
  // A block of the very list that it would go to may fit as well; looking at its first one keeps memory dense.
  const SizeClass own = class_of(bytes);
  if (Block* head = free_[own.level][own.sub]; head && head->bytes() >= bytes) return head;
  const SizeClass from = first_fit(bytes);
  if (from.level >= level_count) return nullptr;
  if (const std::uint32_t subs = subs_[from.level] & (~0u << from.sub))
    return free_[from.level][std::countr_zero(subs)];
  const std::uint64_t levels = from.level + 1 < 64 ? levels_ & (~std::uint64_t{0} << (from.level + 1)) : 0;
  if (!levels) return nullptr;
  const int level = std::countr_zero(levels);
  return free_[level][std::countr_zero(subs_[level])];
}

// Returns the part of a free block that was used since it was zero.
std::size_t Blocks::used_part(const Block* block) const {
  if (block->returned()) return 0;
  const char* begin = reinterpret_cast<const char*>(block);
  if (begin >= untouched_) return 0;
  const auto upto = static_cast<std::size_t>(untouched_ - begin);
  return upto < block->bytes() ? upto : block->bytes();
}

void Blocks::insert(Block* block) {
  const SizeClass at = class_of(block->bytes());
  block->before = nullptr;
  block->next = free_[at.level][at.sub];
  if (block->next) block->next->before = block;
  free_[at.level][at.sub] = block;
  levels_ |= std::uint64_t{1} << at.level;
  subs_[at.level] |= 1u << at.sub;
  block->idle = used_part(block);
  idle_ += block->idle;
}

void Blocks::remove(Block* block) {
  const SizeClass at = class_of(block->bytes());
  if (block->next) block->next->before = block->before;
  if (block->before)
    block->before->next = block->next;
  else
    free_[at.level][at.sub] = block->next;
  if (!free_[at.level][at.sub]) {
    subs_[at.level] &= ~(1u << at.sub);
    if (!subs_[at.level]) levels_ &= ~(std::uint64_t{1} << at.level);
  }
  idle_ -= block->idle;
}

void Blocks::add(char* memory, std::size_t bytes) {
  // The last 16 bytes of all memory are the tag of a block without length that is never free; when more memory
  // follows, that tag becomes the new memory's.
  const bool is_first = end_ == nullptr;
  if (is_first) untouched_ = memory;
  auto* block = reinterpret_cast<Block*>((is_first ? memory + granule : end_) - Block::tag_bytes);
  if (is_first) block->previous_bytes = 0;
  end_ = memory + bytes;
  const auto size = static_cast<std::size_t>(end_ - Block::tag_bytes - reinterpret_cast<char*>(block));
  block->size_and_flags = size;
  block->following()->size_and_flags = 0;
  block->set(size, Block::is_free);
  insert(merged(block));
}

// Makes one free block of two neighbours that are in no list. The tag between them becomes zero, since it may lie in
// memory that counts as untouched.
Blocks::Block* Blocks::joined(Block* left, Block* right) {
  const std::size_t bytes = left->bytes() + right->bytes();
  std::memset(static_cast<void*>(right), 0, links);
  left->set(bytes, Block::is_free);
  return left;
}

// Joins a block that is in no list with free neighbours; the result is in no list either.
Blocks::Block* Blocks::merged(Block* block) {
  if (Block* next = block->following(); next->free()) {
    remove(next);
    block = joined(block, next);
  }
  if (block->previous_bytes && block->previous()->free()) {
    Block* previous = block->previous();
    remove(previous);
    block = joined(previous, block);
  }
  return block;
}

void Blocks::mark_taken(Block* block) {
  char* end = reinterpret_cast<char*>(block) + block->bytes() + links;  // the next tag too
  if (end > untouched_) untouched_ = end;
}

// Cuts the rest behind `bytes` off a block that is in no list, and puts that rest into one.
void Blocks::trim(Block* block, std::size_t bytes) {
  const std::size_t rest = block->bytes() - bytes;
  if (rest < granule) return;
  const std::size_t kept = block->size_and_flags & Block::was_returned;
  block->set(bytes, 0);  // not free, so that what is cut off does not join it again
  Block* cut = block->following();
  cut->size_and_flags = rest;
  cut->set(rest, Block::is_free | kept);
  insert(merged(cut));
}

// Puts the first `bytes` of a block into a list of their own; returns the rest.
Blocks::Block* Blocks::split_front(Block* block, std::size_t bytes) {
  const std::size_t rest = block->bytes() - bytes, kept = block->size_and_flags & Block::was_returned;
  block->set(bytes, Block::is_free | kept);
  Block* behind = block->following();
  behind->size_and_flags = rest;
  behind->set(rest, Block::is_free | kept);
  insert(block);
  return behind;
}

void* Blocks::take(std::size_t usable, std::size_t alignment) {
  if (usable > region_span / 2 || alignment > region_span / 4) return nullptr;
  const std::size_t bytes = with_tag(usable);
  Block* block = find(alignment <= granule ? bytes : bytes + alignment);
  if (!block) return nullptr;
  remove(block);
  const auto memory = reinterpret_cast<std::uintptr_t>(block->memory());
  if (const std::size_t ahead = up(memory, alignment) - memory) block = split_front(block, ahead);
  trim(block, bytes);
  block->set(block->bytes(), 0);
  mark_taken(block);
  taken_ += block->bytes();
  return block->memory();
}

void Blocks::give_back(void* memory) {
  Block* block = Block::of(memory);
  taken_ -= block->bytes();
  block->size_and_flags = block->bytes() | Block::is_free;
  insert(merged(block));
}

bool Blocks::resize(void* memory, std::size_t usable) {
  if (usable > region_span / 2) return false;
  Block* block = Block::of(memory);
  const std::size_t bytes = with_tag(usable), had = block->bytes();
  if (bytes > had) {
    Block* next = block->following();
    if (!next->free() || had + next->bytes() < bytes) return false;
    remove(next);
    const std::size_t kept = next->size_and_flags & Block::was_returned;
    block->set(had + next->bytes(), kept);  // what is cut off again was returned if all of it was
  }
  trim(block, bytes);
  block->set(block->bytes(), 0);
  mark_taken(block);
  taken_ += block->bytes() - had;
  return true;
}

std::size_t Blocks::usable_bytes(const void* memory) { return Block::of(memory)->bytes() - Block::tag_bytes; }

std::size_t Blocks::block_bytes(const void* memory) { return Block::of(memory)->bytes(); }

void Blocks::return_to_system(Block* block) {
  const std::size_t page = Region::page_bytes();
  const std::uintptr_t from = up(reinterpret_cast<std::uintptr_t>(block) + links, page);
  const std::uintptr_t upto = (reinterpret_cast<std::uintptr_t>(block) + block->bytes()) & ~(page - 1);
  // By libc's function, which network libraries watch to learn which of their registered pages are gone.
  if (upto > from && madvise(reinterpret_cast<void*>(from), upto - from, MADV_REMOVE) != 0) return;
  if (upto > from) forget_huge_pages(reinterpret_cast<const char*>(from), upto - from);
  remove(block);
  char* end = reinterpret_cast<char*>(block) + block->bytes();
  if (end + Block::tag_bytes == end_ && from < reinterpret_cast<std::uintptr_t>(untouched_)) {
    // All behind it is zero again, once the piece of a page before the last tag is.
    if (untouched_ > reinterpret_cast<char*>(upto))
      std::memset(reinterpret_cast<void*>(upto), 0, static_cast<std::size_t>(end - reinterpret_cast<char*>(upto)));
    untouched_ = reinterpret_cast<char*>(from);
  } else
    block->size_and_flags |= Block::was_returned;
  insert(block);
}

void Blocks::purge(std::size_t keep) {
  for (int level = level_count - 1; level >= 0 && idle_ > keep; --level)
    for (int sub = sub_count - 1; sub >= 0 && idle_ > keep; --sub)
      for (Block *block = free_[level][sub], *next; block && idle_ > keep; block = next) {
        next = block->next;
        if (used_part(block) >= 4 * Region::page_bytes()) return_to_system(block);
      }
}

}  // namespace nearfield::heap
