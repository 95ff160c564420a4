// Random calls of an MPI program that allocate, map, fork, send and write, each of which is checked against a copy that
// lies outside the heap. argv: a seed, and how many steps. Rank 0 prints "all right" and a digest of all messages,
// which depends on the seed alone.
//
// All ranks draw the same random numbers, so that they agree on each step without a word. In one step, one rank does
// one thing to one of its blocks, or two ranks pass a message between parts of theirs. Where the seed is odd, a thread of
// each rank writes all the time to the first and the last word of a block, between which messages are sent.
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Byte = unsigned char;
constexpr std::size_t page = 4096, max_block = std::size_t{1} << 20;
constexpr int blocks_per_rank = 6;
int own = 0, ranks = 0;
long step = 0;

[[noreturn]] void fail(const char* what) {
  std::printf("rank %d, step %ld: %s\n", own, step, what);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
  std::abort();
}
void check(bool holds, const char* what) {
  if (!holds) fail(what);
}

struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  }
  std::size_t below(std::size_t n) { return next() % n; }
};

std::uint64_t digest_of(const Byte* bytes, std::size_t count) {
  std::uint64_t digest = 1469598103934665603u;
  for (std::size_t i = 0; i < count; ++i) digest = (digest ^ bytes[i]) * 1099511628211u;
  return digest;
}

// A block of malloc's, and what it must hold. The copy is mapped, so that it is never in any heap.
struct Block {
  Byte* bytes = nullptr;
  std::size_t size = 0;
  Byte* expected = nullptr;

  void check_all(const char* what) const { check(std::memcmp(bytes, expected, size) == 0, what); }
};

void* map_copy() {
  void* at = mmap(nullptr, max_block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(at != MAP_FAILED, "mmap");
  return at;
}

// The shapes of all ranks' blocks are known everywhere; their bytes only to their owner.
struct Shape {
  std::size_t size = 0;
  bool begins_a_page = false;
};

struct Part {
  std::size_t begin, size;
};

class Program {
 public:
  explicit Program(std::uint64_t seed)
      : has_thread_(seed % 2 == 1), random_{seed}, shapes_(static_cast<std::size_t>(ranks) * blocks_per_rank) {
    for (Block& block : blocks_) block.expected = static_cast<Byte*>(map_copy());
    for (int rank = 0; rank < ranks; ++rank)
      for (int i = 0; i < blocks_per_rank; ++i) renew(rank, i);
    open_file();
    renew_watched_block();
  }

  void run(long steps) {
    std::thread writer;
    if (has_thread_) writer = std::thread([this] { write_all_the_time(); });
    for (; step < steps; ++step) do_step();
    is_over_ = true;
    if (has_thread_) writer.join();
    for (const Block& block : blocks_) block.check_all("at the end");
  }

  std::uint64_t digest() const { return digest_; }

 private:
  void do_step() {
    const int rank = static_cast<int>(random_.below(static_cast<std::size_t>(ranks)));
    const int i = static_cast<int>(random_.below(blocks_per_rank));
    switch (random_.below(40)) {
      case 0:
        return renew(rank, i);
      case 1:
        return resize(rank, i);
      case 2:
        return write(rank, i);
      case 3:
        return on_pages(rank, i, [this](Byte* at, std::size_t size) { return discard(at, size); });
      case 4:
        return on_pages(rank, i, [this](Byte* at, std::size_t size) { return map_zeros(at, size); });
      case 5:
        return on_pages(rank, i, [this](Byte* at, std::size_t size) { return map_file(at, size); });
      case 6:
        return on_pages(rank, i, [this](Byte* at, std::size_t size) { return move_onto(at, size); });
      case 7:
        return on_pages(rank, i, [](Byte* at, std::size_t size) {
          check(mprotect(at, size, PROT_READ) == 0 && mprotect(at, size, PROT_READ | PROT_WRITE) == 0, "mprotect");
          return false;
        });
      case 8:
        return random_.below(4) == 0 ? fork_child(rank, i) : write(rank, i);
      case 9:
      case 10:
        return renew(rank, i);
      case 11:
      case 12:
      case 13:
        return send_watched_block(rank, i);
      default:
        return send(rank, i);
    }
  }

  Shape& shape(int rank, int i) { return shapes_[static_cast<std::size_t>(rank * blocks_per_rank + i)]; }
  Part some_part(std::size_t size) {
    const std::size_t begin = random_.below(size);
    return {begin, 1 + random_.below(size - begin)};
  }

  void renew(int rank, int i) {
    const std::size_t kind = random_.below(4), size = 1 + random_.below(std::size_t{1} << (13 + random_.below(8)));
    shape(rank, i) = {size, kind == 2};
    if (rank != own) return;
    Block& block = blocks_[i];
    std::free(block.bytes);
    void* memory = nullptr;
    if (kind == 0) memory = std::calloc(1, size);
    if (kind == 1) memory = std::malloc(size);
    if (kind > 1) check(posix_memalign(&memory, kind == 2 ? page : 64, size) == 0, "posix_memalign");
    block.bytes = static_cast<Byte*>(memory);
    block.size = size;
    if (kind == 0)
      std::memset(block.expected, 0, size);
    else
      fill({0, size}, block, static_cast<unsigned>(size));
    block.check_all("a new block");
  }

  void resize(int rank, int i) {
    const std::size_t size = 1 + random_.below(max_block / 2), had = shape(rank, i).size;
    shape(rank, i) = {size, false};
    if (rank != own) return;
    Block& block = blocks_[i];
    block.bytes = static_cast<Byte*>(std::realloc(block.bytes, size));
    block.size = size;
    if (size > had) fill({had, size - had}, block, 5);
    block.check_all("after realloc");
  }

  void fill(Part part, Block& block, unsigned seed) {
    for (std::size_t at = part.begin; at < part.begin + part.size; ++at)
      block.bytes[at] = block.expected[at] = static_cast<Byte>(at * (2 * seed + 1) >> 3 ^ seed);
  }

  void write(int rank, int i) {
    const Part part = some_part(shape(rank, i).size);
    if (rank == own) fill(part, blocks_[i], static_cast<unsigned>(step));
  }

  // Does something to whole pages inside a block. `change` returns whether they are zero afterwards. What they hold is
  // written anew after half of the changes, so that others send what is there then.
  template <typename F>
  void on_pages(int rank, int i, F change) {
    const Part part = some_part(shape(rank, i).size);
    const bool writes = random_.below(2) == 0;
    if (rank != own || !shape(rank, i).begins_a_page) return;
    Block& block = blocks_[i];
    const auto begin = (reinterpret_cast<std::uintptr_t>(block.bytes) + part.begin + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(block.bytes) + part.begin + part.size) / page * page;
    if (begin >= end) return;
    auto* at = reinterpret_cast<Byte*>(begin);
    const auto offset = static_cast<std::size_t>(at - block.bytes), size = static_cast<std::size_t>(end - begin);
    if (change(at, size)) std::memset(block.expected + offset, 0, size);
    block.check_all("after a call that maps");
    if (writes) fill({offset, size}, block, static_cast<unsigned>(step));
  }

  static bool discard(Byte* at, std::size_t size) {
    check(madvise(at, size, MADV_DONTNEED) == 0, "madvise");
    if (std::any_of(at, at + size, [](Byte byte) { return byte != 0; })) fail("pages are not zero after MADV_DONTNEED");
    return true;
  }
  static bool map_zeros(Byte* at, std::size_t size) {
    check(mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at, "MAP_FIXED");
    return true;
  }
  bool map_file(Byte* at, std::size_t size) const {
    check(mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_, 0) == at, "MAP_FIXED of a file");
    return true;
  }
  static bool move_onto(Byte* at, std::size_t size) {
    void* other = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(other != MAP_FAILED, "mmap");
    std::memset(other, 0, size);
    void* moved = mremap(other, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    check(moved != MAP_FAILED, "mremap");
    if (moved == at) return true;
    munmap(moved, size);  // UCX 1.13 replaces mremap by a function that forgets the new address
    return map_zeros(at, size);
  }

  void fork_child(int rank, int i) {
    if (rank != own) return;
    const pid_t child = fork();
    if (child == 0) {
      bool holds = true;
      for (const Block& block : blocks_) holds = holds && std::memcmp(block.bytes, block.expected, block.size) == 0;
      std::memset(blocks_[i].bytes, 0x5a, blocks_[i].size);
      _exit(holds ? 0 : 1);
    }
    std::memset(blocks_[i].bytes, 0x33, blocks_[i].size / 2);
    std::memset(blocks_[i].expected, 0x33, blocks_[i].size / 2);
    int status = 1;
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child found other bytes");
    blocks_[i].check_all("after a fork");
  }

  // The receiver gets the bytes, and what they should be by their digest.
  void send(int rank, int i) {
    const int to = (rank + 1 + static_cast<int>(random_.below(static_cast<std::size_t>(ranks) - 1))) % ranks;
    const int j = static_cast<int>(random_.below(blocks_per_rank));
    const std::size_t longest = std::min(shape(rank, i).size, shape(to, j).size);
    const std::size_t size = 1 + random_.below(longest);
    const std::size_t from = random_.below(shape(rank, i).size - size + 1),
                      at = random_.below(shape(to, j).size - size + 1);
    const int count = static_cast<int>(size);
    std::uint64_t expected = 0;
    for (int again = 0; again < 2; ++again) {
      if (rank == own) {
        const Block& block = blocks_[i];
        expected = digest_of(block.expected + from, size);
        MPI_Send(block.bytes + from, count, MPI_BYTE, to, 1, MPI_COMM_WORLD);
        MPI_Send(&expected, 1, MPI_UINT64_T, to, 2, MPI_COMM_WORLD);
        block.check_all("after sending");
      } else if (to == own) {
        Block& block = blocks_[j];
        MPI_Recv(block.bytes + at, count, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&expected, 1, MPI_UINT64_T, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(digest_of(block.bytes + at, size) == expected, "other bytes came than were sent");
        std::memcpy(block.expected + at, block.bytes + at, size);
        block.check_all("bytes beside a message changed");
        digest_ = (digest_ ^ expected) * 1099511628211u;
      }
    }
  }

  // Each block is one that no message has passed through. None is freed, since the thread may still write to it.
  void renew_watched_block() {
    auto* block = static_cast<Byte*>(std::malloc(watched_bytes));
    for (std::size_t at = 8; at < watched_bytes - 8; ++at) block[at] = static_cast<Byte>(at * 7 + at / 256);
    watched_.store(block);
  }

  // Sends what lies between the words that the thread writes.
  void send_watched_block(int rank, int i) {
    const int to = (rank + 1) % ranks;
    const std::size_t size = std::min(shape(to, i).size, watched_bytes - 16);
    if (rank == own) {
      renew_watched_block();
      for (int again = 0; again < 2; ++again)
        MPI_Send(watched_.load() + 8, static_cast<int>(size), MPI_BYTE, to, 3, MPI_COMM_WORLD);
    } else if (to == own) {
      Block& block = blocks_[i];
      for (int again = 0; again < 2; ++again)
        MPI_Recv(block.bytes, static_cast<int>(size), MPI_BYTE, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (std::size_t at = 0; at < size; ++at) block.expected[at] = static_cast<Byte>((8 + at) * 7 + (8 + at) / 256);
      block.check_all("other bytes came than lie beside the thread's words");
    }
  }

  // Counts in the words, and looks whether they stay. It yields, since there may be more ranks than cores.
  void write_all_the_time() {
    constexpr std::size_t last = watched_bytes / sizeof(std::uint64_t) - 1;
    for (std::uint64_t number = 1; !is_over_; ++number) {
      auto* words = reinterpret_cast<volatile std::uint64_t*>(watched_.load());
      words[0] = number;
      words[last] = number;
      for (int again = 0; again < 100; ++again)
        if (words[0] != number || words[last] != number) fail("a thread's write was lost");
      if (number % 16 == 0) sched_yield();
    }
  }

  void open_file() {
    char name[] = "/tmp/heap_randomXXXXXX";
    file_ = mkstemp(name);
    check(file_ >= 0 && unlink(name) == 0 && ftruncate(file_, static_cast<off_t>(max_block)) == 0, "a file in /tmp");
  }

  bool has_thread_;
  Random random_;
  std::vector<Shape> shapes_;
  Block blocks_[blocks_per_rank];
  static constexpr std::size_t watched_bytes = std::size_t{64} << 10;
  std::atomic<Byte*> watched_{nullptr};
  std::atomic<bool> is_over_{false};
  std::uint64_t digest_ = 1469598103934665603u;
  int file_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Program program(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1);
  program.run(argc > 2 ? std::atol(argv[2]) : 1000);
  std::uint64_t own_digest = program.digest(), all = 0;
  MPI_Reduce(&own_digest, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
  if (own == 0) std::printf("all right %016llx\n", static_cast<unsigned long long>(all));
  MPI_Finalize();
}
