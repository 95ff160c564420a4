// The malloc family under the shared heap, in one process. argv: what to do, and numbers; prints "right" at the end.
//
//   family            every function, at both sides of the size from which blocks are shared
//   stress SEED       four threads that take, change and give back each other's blocks
//   untouched         memory that was only read takes none; MADV_DONTNEED gives it back, and leaves zeros
//   growing           arrays that grow are never there twice
//   memory            what is freed returns to the system, also from threads that end
//   limits            mlockall, and blocks longer than all memory
//   plain             a few blocks, for programs that are linked or watched in other ways
//
// All but `family`, which says where blocks lie, also holds without the library.
#include "heap_blocks.hpp"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

// ---- family

void places() {
  for (const std::size_t size : {std::size_t{1}, from - 1, from, from + 1, 64 * KiB, 2 * MiB, 40 * MiB}) {
    Byte* block = bytes(size);
    CHECK(is_shared(block) == (size >= from));
    CHECK(malloc_usable_size(block) >= size);
    fill(block, malloc_usable_size(block), 1);  // all that is usable is ours
    std::free(block);
    std::vector<Byte> made_by_new(size);
    CHECK(is_shared(made_by_new.data()) == (size >= from));
  }
  CHECK(malloc_usable_size(nullptr) == 0);
  std::free(hidden(static_cast<void*>(nullptr)));
}

void zeroed() {
  for (const std::size_t size : {from, 20 * KiB, 300 * KiB, 3 * MiB, 12 * MiB, 40 * MiB})
    for (int again = 0; again < 3; ++again) {
      auto* block = static_cast<Byte*>(std::calloc(hidden(size / 16), 16));
      CHECK(is_shared(block) && is_zero(block, size));
      fill(block, size, 3);
      auto* neighbour = static_cast<Byte*>(std::calloc(1, hidden(size + 1000)));
      std::free(block);
      CHECK(is_zero(neighbour, size + 1000));
      fill(neighbour, size + 1000, 4);
      std::free(neighbour);
      if (again == 1) malloc_trim(0);
    }
  CHECK(std::calloc(hidden(SIZE_MAX / 2), 4) == nullptr);
}

void moves() {
  const std::size_t sizes[] = {100, from - 1, from, 50 * KiB, 300 * KiB, 5 * MiB};
  for (const std::size_t had : sizes)
    for (const std::size_t wanted : sizes) {
      Byte* block = bytes(had);
      fill(block, had, 5);
      block = static_cast<Byte*>(std::realloc(block, hidden(wanted)));
      CHECK(is_shared(block) == (wanted >= from));
      CHECK(holds(block, std::min(had, wanted), 5));
      fill(block, wanted, 6);
      std::free(block);
    }
  auto* none = static_cast<Byte*>(std::realloc(hidden(static_cast<void*>(nullptr)), from));
  CHECK(is_shared(none));
  CHECK(std::realloc(none, hidden(std::size_t{0})) == nullptr);
}

// Shorter stays where it is; longer does where the memory behind it is free.
void moves_in_place() {
  Byte* block = bytes(8 * MiB);
  fill(block, 8 * MiB, 7);
  auto* shorter = static_cast<Byte*>(std::realloc(block, hidden(1 * MiB)));
  CHECK(number(shorter) == number(block) && holds(shorter, 1 * MiB, 7));
  auto* longer = static_cast<Byte*>(std::realloc(shorter, hidden(7 * MiB)));
  CHECK(number(longer) == number(block) && holds(longer, 1 * MiB, 7));
  std::free(longer);
}

void moves_that_fail() {
  for (const std::size_t size : {std::size_t{100}, from, 3 * MiB})
    for (const std::size_t too_long : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 79, SIZE_MAX / 2, SIZE_MAX / 2 + 1}) {
      Byte* block = bytes(size);
      fill(block, size, 8);
      errno = 0;
      CHECK(std::realloc(block, hidden(too_long)) == nullptr && errno == ENOMEM);
      CHECK(malloc_usable_size(block) >= size && holds(block, size, 8));
      errno = 0;
      CHECK(std::malloc(hidden(too_long)) == nullptr && errno == ENOMEM);
      std::free(block);
    }
}

void alignments() {
  for (std::size_t alignment = 8; alignment <= 64 * KiB; alignment *= 2)
    for (const std::size_t size : {std::size_t{200}, from, from + 8, 100 * KiB, 1 * MiB}) {
      void* blocks[3] = {memalign(hidden(alignment), size), nullptr, std::aligned_alloc(hidden(alignment), size)};
      CHECK(posix_memalign(&blocks[1], hidden(alignment), size) == 0);
      for (void* block : blocks) {
        CHECK(number(block) % alignment == 0 && is_shared(block) == (size >= from));
        fill(static_cast<Byte*>(block), size, 9);
      }
      for (void* block : blocks) CHECK(holds(static_cast<Byte*>(block), size, 9));
      for (void* block : blocks) std::free(block);
    }
  void* untouched = &untouched;
  CHECK(posix_memalign(&untouched, hidden(std::size_t{24}), from) == EINVAL && untouched == &untouched);
  CHECK(posix_memalign(&untouched, 64, hidden(SIZE_MAX)) == ENOMEM && untouched == &untouched);
  CHECK(std::aligned_alloc(64, hidden(SIZE_MAX - 100)) == nullptr);
  CHECK(memalign(hidden(std::size_t{1} << 62), from) == nullptr);
  for (const std::size_t odd : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
    void* block = memalign(hidden(odd), 2 * from);  // rounds up to a power of two
    std::size_t power = 1;
    while (power < odd) power *= 2;
    CHECK(is_shared(block) && number(block) % power == 0);
    std::free(block);
  }
  void *page = valloc(hidden(5000u)), *pages = pvalloc(hidden(5000u));
  CHECK(number(page) % 4096 == 0 && number(pages) % 4096 == 0 && malloc_usable_size(pages) >= 8192);
  std::free(page);
  std::free(pages);
}

void free_preserves_errno() {
  for (const std::size_t size : {std::size_t{100}, 10 * KiB, 3 * MiB, 80 * MiB}) {
    Byte* block = bytes(size);
    fill(block, size, 0);
    errno = 77;
    std::free(block);
    CHECK(errno == 77);
  }
}

void other_threads() {
  for (const std::size_t size : {std::size_t{100}, from, 200 * KiB, 3 * MiB}) {
    std::vector<Byte*> blocks;
    for (int i = 0; i < 40; ++i) fill(blocks.emplace_back(bytes(size)), size, static_cast<unsigned>(i));
    std::thread([&] {
      for (unsigned i = 0; i < 40; ++i) CHECK(holds(blocks[i], size, i));
      for (Byte* block : blocks) std::free(block);
      for (int i = 0; i < 40; ++i) fill(blocks[static_cast<unsigned>(i)] = bytes(size), size, 10);
    }).join();
    for (Byte* block : blocks) CHECK(holds(block, size, 10));
    for (Byte* block : blocks) std::free(block);
  }
}

// Calls syscall() with numbers other than the two calls that the library replaces.
void calls_by_number() {
  CHECK(syscall(SYS_getpid) == getpid());
  errno = 0;
  CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
  char file[] = "/tmp/nearfield-heap-XXXXXX";  // a call with six arguments
  const int descriptor = mkstemp(file);
  CHECK(descriptor >= 0 && unlink(file) == 0 && ftruncate(descriptor, 8192) == 0);
  CHECK(pwrite(descriptor, "right", 5, 4096) == 5);
  const long page = syscall(SYS_mmap, nullptr, 4096ul, PROT_READ, MAP_PRIVATE, descriptor, 4096l);
  CHECK(page != -1 && std::memcmp(reinterpret_cast<void*>(page), "right", 5) == 0);
  close(descriptor);
}

void family() {
  places();
  zeroed();
  moves();
  moves_in_place();
  moves_that_fail();
  alignments();
  free_preserves_errno();
  other_threads();
  calls_by_number();
}

void stress(unsigned seed) {
  static Slot slots[600];
  static std::mutex lock;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread)
    threads.emplace_back([=] {
      Random random{seed * 100 + thread};
      for (int i = 0; i < 6000; ++i) {
        Slot& place = slots[random.below(600)];
        Slot own;
        {
          std::lock_guard guard(lock);
          std::swap(own, place);
        }
        change(own, random, 3 * MiB);
        {
          std::lock_guard guard(lock);
          std::swap(own, place);
        }
        std::free(own.block);  // what another thread put there meanwhile
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Slot& slot : slots) CHECK(slot.is_marked());
}

// ---- memory
std::size_t resident() {
  std::size_t all = 0, here = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  CHECK(file && std::fscanf(file, "%zu %zu", &all, &here) == 2);
  std::fclose(file);
  return here * 4096;
}

// Returns the most bytes that were resident at any time.
std::size_t max_resident() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  std::size_t kib = 0;
  while (std::fgets(line, sizeof line, file) && std::sscanf(line, "VmHWM: %zu", &kib) != 1) {
  }
  std::fclose(file);
  return kib * KiB;
}

void untouched() {
  constexpr std::size_t size = 512 * MiB;
  const std::size_t before = resident();
  for (auto* block : {static_cast<Byte*>(std::calloc(hidden(size), 1)), bytes(size)}) {
    std::size_t sum = 0;
    for (std::size_t at = 0; at < size; at += 4 * KiB) sum += block[at];
    CHECK(sum == 0 && resident() < before + 16 * MiB);
    std::memset(block, 5, size / 4);
    CHECK(resident() > before + 100 * MiB);
    auto* page = reinterpret_cast<Byte*>((number(block) + 4 * KiB - 1) / (4 * KiB) * (4 * KiB));
    CHECK(madvise(page, size / 4, MADV_DONTNEED) == 0);
    CHECK(is_zero(page, size / 4) && resident() < before + 16 * MiB);
    std::free(block);
  }
}

// Arrays that grow by turns, so that each is in the way of the other, and one by itself.
void growing() {
  const std::size_t before = max_resident();
  Byte *block = nullptr, *other = nullptr;
  std::size_t size = 0, other_size = 0;
  const auto grow = [](Byte*& array, std::size_t& had, std::size_t wanted) {
    array = static_cast<Byte*>(std::realloc(array, hidden(wanted)));
    std::memset(array + had, static_cast<int>(wanted % 251), wanted - had);
    had = wanted;
  };
  while (size < 256 * MiB) {
    grow(block, size, size + size / 2 + 100 * KiB);
    if (size < 100 * MiB) grow(other, other_size, size / 8);
    CHECK(block[0] == 100 * KiB % 251 && block[size - 1] == size % 251);
    CHECK(other[0] == (100 * KiB / 8) % 251 && other[other_size - 1] == other_size % 251);
  }
  CHECK(max_resident() < before + size + other_size + 16 * MiB);
  std::free(block);
  std::free(other);
}

void freed_memory_returns() {
  const std::size_t before = resident();
  std::vector<Byte*> blocks;
  for (int i = 0; i < 300; ++i) fill(blocks.emplace_back(bytes(2 * MiB)), 2 * MiB, 0);
  CHECK(resident() > before + 590 * MiB);
  for (Byte* block : blocks) std::free(block);
  CHECK(resident() < before + 270 * MiB);  // what is kept for reuse
  malloc_trim(0);
  CHECK(resident() < before + 4 * MiB);
}

// Free blocks that are too short for what is wanted.
void fragments_cost_little() {
  const std::size_t before = resident();
  std::vector<Byte*> blocks, longer;
  for (int i = 0; i < 100; ++i) fill(blocks.emplace_back(bytes(2 * MiB)), 2 * MiB, 0);
  for (std::size_t i = 0; i < blocks.size(); i += 2) std::free(blocks[i]);
  for (int i = 0; i < 33; ++i) fill(longer.emplace_back(bytes(3 * MiB)), 3 * MiB, 0);
  CHECK(resident() < before + 280 * MiB);  // 200 MiB were in use at most
  for (std::size_t i = 1; i < blocks.size(); i += 2) std::free(blocks[i]);
  for (Byte* block : longer) std::free(block);
  malloc_trim(0);
  CHECK(resident() < before + 4 * MiB);
}

// Threads that free while they end, as those do that keep a buffer each.
void ending_threads_keep_nothing() {
  pthread_key_t early, late;
  CHECK(pthread_key_create(&early, std::free) == 0 && pthread_key_create(&late, std::free) == 0);
  std::size_t before = 0;
  for (int i = 0; i < 300; ++i) {
    if (i == 20) {
      malloc_trim(0);
      before = resident();
    }
    std::thread([&] {
      for (const pthread_key_t key : {early, late}) {
        Byte* block = bytes(200 * KiB);
        fill(block, 200 * KiB, 0);
        pthread_setspecific(key, block);
      }
      Byte* freed = bytes(100 * KiB);
      fill(freed, 100 * KiB, 0);
      std::free(freed);
    }).join();
  }
  malloc_trim(0);
  CHECK(resident() < before + 10 * MiB);
}

// ---- limits

void limits() {
  // More than this user may lock, if that is limited: then what the system gives is what it gives.
  if (getuid() == 0) CHECK(setuid(65534) == 0);
  Byte* block = bytes(1 * MiB);
  fill(block, 1 * MiB, 1);
  const bool is_locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  int taken = 0;
  for (; taken < 200; ++taken) {
    Byte* more = bytes(100 * KiB);
    if (!more) break;
    fill(more, 100 * KiB, static_cast<unsigned>(taken));
    CHECK(holds(more, 100 * KiB, static_cast<unsigned>(taken)));
  }
  CHECK(holds(block, 1 * MiB, 1));
  munlockall();
  CHECK(std::malloc(hidden(std::size_t{1} << 45)) == nullptr && errno == ENOMEM);
  CHECK(std::calloc(hidden(std::size_t{1} << 22), std::size_t{1} << 23) == nullptr);
  CHECK(std::realloc(block, hidden(std::size_t{1} << 45)) == nullptr && holds(block, 1 * MiB, 1));
  std::printf("locked %d, then %s\n", is_locked, taken == 200 ? "all" : "some");
}

void plain() {
  std::vector<Slot> slots(20);
  Random random{1};
  change_some(slots, random, 200);
  for (Slot& slot : slots) std::free(slot.block);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "plain";
  const auto value = [&](int i) { return argc > i ? static_cast<unsigned>(std::atoi(argv[i])) : 1u; };
  if (what == "family") family();
  if (what == "stress") stress(value(2));
  if (what == "untouched") untouched();
  if (what == "growing") growing();
  if (what == "memory") fragments_cost_little(), freed_memory_returns(), ending_threads_keep_nothing();
  if (what == "limits") limits();
  if (what == "plain") plain();
  std::puts("right");
}
