// The malloc family under the shared heap, in one process. argv: what to do, and numbers; prints "right" at the end.
//
//   family            every function, at both sides of the size from which blocks are shared
//   stress SEED       four threads that take, change and give back each other's blocks
//   forks SEED COUNT  the same in one thread, between COUNT forks; every child finds what its parent had
//   raw_fork          a child that the C library made without its handlers of forks finds its memory
//   fork_memory       what is freed after a fork returns to the system
//   fork_copies       children of a fork have their parent's memory without copies of it
//   untouched         memory that was only read takes none; MADV_DONTNEED gives it back, and leaves zeros
//   growing           arrays that grow are never there twice
//   fork_pinned       a buffer that the kernel or a device writes to is the same one after a fork
//   memory            what is freed returns to the system, also from threads that end
//   limits            mlockall, and blocks longer than all memory
//   plain             a few blocks, for programs that are linked or watched in other ways
//
// All but `family`, which says where blocks lie, also holds without the library.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
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

using Byte = unsigned char;

[[noreturn]] void fail(const char* what, int line) {
  std::printf("wrong in line %d of %s: %s\n", line, __FILE__, what);
  std::fflush(stdout);
  _exit(1);
}
#define CHECK(what) ((what) ? void() : fail(#what, __LINE__))

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, from = 8 * KiB;

// Keeps the compiler from knowing what a size or a pointer is.
template <typename T>
T hidden(T value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

std::uintptr_t number(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }
bool is_shared(const void* block) {
  return number(block) >= std::uintptr_t{0x20} << 40 && number(block) < std::uintptr_t{0x50} << 40;
}

Byte* bytes(std::size_t size) { return static_cast<Byte*>(std::malloc(hidden(size))); }

void fill(Byte* block, std::size_t size, unsigned seed) {
  for (std::size_t i = 0; i < size; ++i) block[i] = static_cast<Byte>(i * 31 + (i >> 8) * 7 + seed);
}
bool holds(const Byte* block, std::size_t size, unsigned seed) {
  for (std::size_t i = 0; i < size; ++i)
    if (block[i] != static_cast<Byte>(i * 31 + (i >> 8) * 7 + seed)) return false;
  return true;
}
bool is_zero(const Byte* block, std::size_t size) {
  return std::all_of(block, block + size, [](Byte byte) { return byte == 0; });
}

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

// ---- random blocks

// Some bytes of it are enough to tell, and take a fraction of the time.
std::size_t step(std::size_t size) { return size > 20000 ? 517 : 13; }

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

std::size_t some_size(Random& random, std::size_t longest) {
  return 1 + (random.below(10) == 0 ? random.below(longest) : random.below(50000));
}

// Gives a block back, takes another in one of all ways, or changes its length.
void change(Slot& slot, Random& random, std::size_t longest) {
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

void change_some(std::vector<Slot>& slots, Random& random, int count) {
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

void forks(unsigned seed, int count) {
  Random random{seed};
  std::vector<Slot> slots(60);
  for (int fork_number = 0; fork_number < count; ++fork_number) {
    change_some(slots, random, static_cast<int>(random.below(40)));
    const pid_t child = fork();
    CHECK(child >= 0);
    // Each changes blocks of its own choice, and finds in all others what was there.
    if (child == 0) random.state += 12345;
    change_some(slots, random, static_cast<int>(random.below(8)));
    if (child == 0) change_some(slots, random, 100);
    for (const Slot& slot : slots) CHECK(slot.is_marked());
    if (child == 0) _exit(0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  for (Slot& slot : slots) {
    CHECK(slot.is_marked());
    std::free(slot.block);
  }
}

// ---- other things that a fork must not change

void raw_fork() {
  const auto make = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_DEFAULT, "_Fork"));  // glibc from 2.34 on
  if (!make) return;
  Byte* block = bytes(1 * MiB);
  fill(block, 1 * MiB, 1);
  const pid_t child = make();
  if (child == 0) {
    const bool was_there = holds(block, 1 * MiB, 1);
    fill(bytes(1 * MiB), 1 * MiB, 2);
    _exit(!was_there);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

std::size_t shared_memory() {  // of all processes
  std::size_t kilobytes = 0;
  char line[200];
  FILE* file = std::fopen("/proc/meminfo", "r");
  CHECK(file);
  while (std::fgets(line, sizeof line, file))
    if (std::sscanf(line, "Shmem: %zu", &kilobytes) == 1) break;
  std::fclose(file);
  return kilobytes * KiB;
}

void fork_memory() {
  const std::size_t before = shared_memory();
  for (int i = 0; i < 4; ++i) {
    Byte* block = bytes(100 * MiB);
    std::memset(block, 1, 100 * MiB);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(waitpid(child, nullptr, 0) == child);
    std::free(block);
  }
  malloc_trim(0);
  CHECK(shared_memory() < before + 250 * MiB);
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

// Returns the bytes of memory that only this process has.
std::size_t own_memory() {
  std::FILE* file = std::fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  std::size_t kib = 0, all = 0;
  while (file && std::fgets(line, sizeof line, file))
    if (std::sscanf(line, "Private_Dirty: %zu kB", &kib) == 1) all += kib;
  if (file) std::fclose(file);
  return all * KiB;
}

void fork_copies() {
  constexpr std::size_t size = 300 * MiB;
  Byte* block = bytes(size);
  std::memset(block, 7, size);
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const bool holds = block[0] == 7 && block[size - 1] == 7;
      block[5 * MiB] = 9;
      _exit(holds && own_memory() < 32 * MiB ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(block[5 * MiB] == 7);
  }
  std::free(block);
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

// An io_uring pins a buffer as network cards do.
class Ring {
 public:
  bool open() {
    io_uring_params set{};
    file_ = static_cast<int>(syscall(SYS_io_uring_setup, 1, &set));
    if (file_ < 0) return false;
    submitted_ = static_cast<Byte*>(map(set.sq_off.array + set.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING));
    call_ = static_cast<io_uring_sqe*>(map(sizeof(io_uring_sqe), IORING_OFF_SQES));
    tail_ = reinterpret_cast<unsigned*>(submitted_ + set.sq_off.tail);
    *reinterpret_cast<unsigned*>(submitted_ + set.sq_off.array) = 0;
    return true;
  }
  bool pin(void* memory, std::size_t size) {
    iovec piece{memory, size};
    return syscall(SYS_io_uring_register, file_, IORING_REGISTER_BUFFERS, &piece, 1) == 0;
  }
  // Reads from a file into the pinned buffer.
  void read(int from, void* memory, unsigned size) {
    *call_ = io_uring_sqe{};
    call_->opcode = IORING_OP_READ_FIXED;
    call_->fd = from;
    call_->addr = number(memory);
    call_->len = size;
    __atomic_store_n(tail_, *tail_ + 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, file_, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) == 1);
  }

 private:
  void* map(std::size_t size, off_t at) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_, at);
    CHECK(memory != MAP_FAILED);
    return memory;
  }

  int file_ = -1;
  Byte* submitted_ = nullptr;
  io_uring_sqe* call_ = nullptr;
  unsigned* tail_ = nullptr;
};

void fork_pinned() {
  Ring ring;
  Byte* block = bytes(1 * MiB);
  fill(block, 1 * MiB, 1);
  if (!ring.open() || !ring.pin(block, 1 * MiB)) {
    std::puts("no io_uring here");
    return;
  }
  const pid_t child = fork();
  if (child == 0) _exit(0);
  CHECK(waitpid(child, nullptr, 0) == child);
  std::memset(block, 0, 100);
  const int file = open("/proc/self/exe", O_RDONLY);
  ring.read(file, block, 4);
  close(file);
  CHECK(std::memcmp(block, "\177ELF", 4) == 0);
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
  if (what == "forks") forks(value(2), static_cast<int>(value(3)));
  if (what == "raw_fork") raw_fork();
  if (what == "fork_memory") fork_memory();
  if (what == "fork_copies") fork_copies();
  if (what == "untouched") untouched();
  if (what == "growing") growing();
  if (what == "fork_pinned") fork_pinned();
  if (what == "memory") fragments_cost_little(), freed_memory_returns(), ending_threads_keep_nothing();
  if (what == "limits") limits();
  if (what == "plain") plain();
  std::puts("right");
}
