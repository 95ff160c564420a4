// Forks under the shared heap, in one process and its children. argv: what to do, and numbers; ends with "right".
//
//   forks SEED COUNT  random blocks between COUNT forks; every child finds what its parent had
//   raw_fork          a child that the C library made without its handlers of forks finds its memory
//   fork_memory       what is freed after a fork returns to the system
//   fork_copies       children of a fork have their parent's memory without copies of it
//   fork_pinned       a buffer that the kernel or a device writes to is the same one after a fork
//
// All this holds without the library, too.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "heap_blocks.hpp"

namespace {

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

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto value = [&](int i) { return argc > i ? static_cast<unsigned>(std::atoi(argv[i])) : 1u; };
  if (what == "forks") forks(value(2), static_cast<int>(value(3)));
  if (what == "raw_fork") raw_fork();
  if (what == "fork_memory") fork_memory();
  if (what == "fork_copies") fork_copies();
  if (what == "fork_pinned") fork_pinned();
  std::puts("right");
}
