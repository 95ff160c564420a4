// A process with a heap that does what lines on its standard input say, and answers each by one line. Two of them, and
// a test that talks to both, are two ranks without an MPI. Numbers are decimal; what a byte of a block holds is a
// function of its address and a SEED, so that whoever reads it, wherever, knows what it should be.
//
//   take BYTES [ALIGNMENT]        a block's address
//   give ADDRESS                  gives it back
//   fill ADDRESS BYTES SEED       writes
//   advise ADDRESS BYTES         madvise(MADV_HUGEPAGE): the program asks for huge pages there
//   check ADDRESS BYTES SEED      "right", or where it is wrong
//   get PID ADDRESS BYTES SEED    process_vm_readv: how many bytes came and whether they are right, or the error
//   put PID ADDRESS BYTES SEED    process_vm_writev: how many bytes went, or the error
//   list ADDRESS FROM BYTES       writes an iovec there
//   get_by_list PID ADDRESS       process_vm_readv by the iovec there, for both sides: how many bytes came, or the error
//   ragged PID ADDRESS BYTES SEED COUNT   random pieces, read and written, each result checked through the kernel
//   follow PID ADDRESS BYTES SEED         a thread that reads until it fails or gets `stop`
//   echo PID ADDRESS BYTES        a thread that writes, and reads what it wrote through the kernel
//   churn                         two threads that take and give back blocks
//   count ADDRESS                 a thread that writes 1, 2, 3 ... there, and reads each number again
//   stop                          ends these threads: "right", or what was wrong, for each
//   join                          waits until they have ended by themselves
//   fork IN OUT                   a child that does the same, its lines from and to these FIFOs
//   wait                          for the last child's end: its status
//   exec                          begins anew in the same process
//   close                         closes all descriptors but 0, 1 and 2
//   from_thread                   takes and gives a block in a thread, which ends
//   become USER
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Byte = unsigned char;
using Address = std::uintptr_t;

Byte* at(Address address) { return reinterpret_cast<Byte*>(address); }
Byte content(Address address, unsigned seed) {
  return static_cast<Byte>(((address + 1) * (2 * seed + 0x9e3779b9u)) >> 13);
}
void fill(Byte* memory, Address address, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = content(address + i, seed);
}
std::string checked(const Byte* memory, Address address, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (memory[i] != content(address + i, seed)) return "wrong from byte " + std::to_string(i);
  return "right";
}

std::string error() {
  switch (errno) {
    case EFAULT:
      return "EFAULT";
    case EINVAL:
      return "EINVAL";
    case EPERM:
      return "EPERM";
    case ESRCH:
      return "ESRCH";
    default:
      return std::strerror(errno);
  }
}

// Parts that are not the heap's: memory of the program's own, and the C library's syscall(), which asks the kernel.
Byte scratch[16 << 20];
const auto c_library_syscall = reinterpret_cast<decltype(&syscall)>(dlsym(dlopen("libc.so.6", RTLD_LAZY), "syscall"));

ssize_t kernel_read(pid_t pid, Address from, Byte* to, std::size_t bytes) {
  iovec here{to, bytes}, there{at(from), bytes};
  return c_library_syscall(SYS_process_vm_readv, pid, &here, 1ul, &there, 1ul, 0ul);
}

std::string get(pid_t pid, Address address, std::size_t bytes, unsigned seed) {
  std::fill_n(scratch, bytes, Byte{0xee});
  iovec here{scratch, bytes}, there{at(address), bytes};
  const ssize_t done = process_vm_readv(pid, &here, 1, &there, 1, 0);
  if (done < 0) return error();
  return std::to_string(done) + " " + checked(scratch, address, static_cast<std::size_t>(done), seed);
}

std::string put(pid_t pid, Address address, std::size_t bytes, unsigned seed) {
  fill(scratch, address, bytes, seed);
  iovec here{scratch, bytes}, there{at(address), bytes};
  const ssize_t done = process_vm_writev(pid, &here, 1, &there, 1, 0);
  return done < 0 ? error() : std::to_string(done);
}

// Reads what the list says onto the address that it says, which may be its own.
std::string get_by_list(pid_t pid, const iovec* list) {
  const ssize_t done = process_vm_readv(pid, list, 1, list, 1, 0);
  return done < 0 ? error() : std::to_string(done);
}

// ---- random pieces

struct Random {
  std::uint64_t state;
  std::size_t below(std::size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  }
};

class Ragged {
 public:
  Ragged(pid_t pid, Address address, std::size_t bytes, unsigned seed)
      : pid_(pid), address_(address), expected_(bytes), local_(bytes + 4096), random_{seed} {
    fill(expected_.data(), address, bytes, seed);
  }

  std::string run(int count) {
    for (int i = 0; i < count; ++i)
      if (const std::string problem = random_.below(2) ? read() : write(); !problem.empty())
        return problem + " in message " + std::to_string(i);
    std::vector<Byte> all(expected_.size());
    const ssize_t came = kernel_read(pid_, address_, all.data(), all.size());
    return came == static_cast<ssize_t>(all.size()) && all == expected_ ? "right" : "wrong at the end";
  }

 private:
  struct Piece {
    std::size_t begin, length;
  };

  // Around the lengths at which something else begins.
  std::size_t some_length() {
    static constexpr std::size_t lengths[] = {1, 64, 4096, 65536, 1 << 21};
    const std::size_t around = lengths[random_.below(random_.below(8) ? 4 : 5)], off = random_.below(140);
    return around + off > 70 ? around + off - 70 : 1 + random_.below(64);
  }
  // Pieces that follow one another with gaps, together `bytes` long, inside `room`.
  std::vector<Piece> some_pieces(std::size_t bytes, std::size_t room) {
    const std::size_t count = 1 + random_.below(4);
    std::size_t begin = random_.below((room - bytes) / 2), left = bytes, gaps = (room - bytes) / 2;
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t length = i + 1 == count ? left : random_.below(left + 1);
      pieces.push_back({begin, length});
      const std::size_t gap = random_.below(std::min<std::size_t>(gaps, 300) + 1);
      begin += length + gap;
      gaps -= gap;
      left -= length;
    }
    return pieces;
  }
  static std::vector<iovec> list(const std::vector<Piece>& pieces, Byte* base) {
    std::vector<iovec> all;
    for (const Piece& piece : pieces) all.push_back({base + piece.begin, piece.length});
    return all;
  }
  void choose() {
    bytes_ = some_length();
    here_ = some_pieces(bytes_, local_.size());
    there_ = some_pieces(bytes_, expected_.size());
  }
  // Intel MPI makes these calls by their numbers.
  ssize_t call(decltype(&process_vm_readv) function, long number) {
    const std::vector<iovec> here = list(here_, local_.data()), there = list(there_, at(address_));
    if (random_.below(2)) return syscall(number, pid_, here.data(), here.size(), there.data(), there.size(), 0ul);
    return function(pid_, here.data(), here.size(), there.data(), there.size(), 0);
  }

  std::string read() {
    choose();
    // The bytes before and behind the pieces must stay.
    const std::size_t begin = here_.front().begin, end = here_.back().begin + here_.back().length;
    std::vector<Byte> wanted(end - begin + 2, 0xee), stream;
    for (const Piece& piece : there_)
      stream.insert(stream.end(), &expected_[piece.begin], &expected_[piece.begin] + piece.length);
    std::size_t used = 0;
    for (const Piece& piece : here_) {
      std::copy_n(stream.begin() + static_cast<long>(used), piece.length, &wanted[piece.begin - begin]);
      used += piece.length;
    }
    std::fill_n(&local_[begin], wanted.size(), Byte{0xee});
    if (call(process_vm_readv, SYS_process_vm_readv) != static_cast<ssize_t>(bytes_))
      return "a read ended with " + error();
    return std::equal(wanted.begin(), wanted.end(), &local_[begin]) ? "" : "wrong bytes came";
  }

  std::string write() {
    choose();
    std::vector<Byte> stream(bytes_);
    for (Byte& byte : stream) byte = static_cast<Byte>(random_.state >> 40), random_.below(1);
    std::size_t used = 0;
    for (const Piece& piece : here_) {
      std::copy_n(stream.begin() + static_cast<long>(used), piece.length, &local_[piece.begin]);
      used += piece.length;
    }
    if (call(process_vm_writev, SYS_process_vm_writev) != static_cast<ssize_t>(bytes_))
      return "a write ended with " + error();
    used = 0;
    for (const Piece& piece : there_) {
      std::copy_n(stream.begin() + static_cast<long>(used), piece.length, &expected_[piece.begin]);
      used += piece.length;
    }
    const std::size_t begin = there_.front().begin - std::min<std::size_t>(there_.front().begin, 100);
    const std::size_t end = std::min(there_.back().begin + there_.back().length + 100, expected_.size());
    std::vector<Byte> now(end - begin);
    kernel_read(pid_, address_ + begin, now.data(), now.size());
    return std::equal(now.begin(), now.end(), &expected_[begin]) ? "" : "wrong bytes are there";
  }

  pid_t pid_;
  Address address_;
  std::vector<Byte> expected_, local_;
  Random random_;
  std::size_t bytes_ = 0;
  std::vector<Piece> here_, there_;
};

// ---- threads

std::atomic<bool> is_stopped{false};

void follow(pid_t pid, Address address, std::size_t bytes, unsigned seed, std::string& problem) {
  std::vector<Byte> memory(bytes);
  iovec here{memory.data(), bytes}, there{at(address), bytes};
  while (!is_stopped) {
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(bytes)) {
      problem = error();
      return;
    }
    if (problem = checked(memory.data(), address, bytes, seed); problem != "right") return;
    std::fill(memory.begin(), memory.end(), Byte{0xee});
  }
}

void echo(pid_t pid, Address address, std::size_t bytes, std::string& problem) {
  std::vector<Byte> sent(bytes), seen(bytes);
  for (unsigned seed = 0; !is_stopped; ++seed) {
    fill(sent.data(), address, bytes, seed);
    iovec here{sent.data(), bytes}, there{at(address), bytes};
    if (process_vm_writev(pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(bytes)) {
      problem = error();
      return;
    }
    if (kernel_read(pid, address, seen.data(), bytes) != static_cast<ssize_t>(bytes) || seen != sent) {
      problem = "a write was lost";
      return;
    }
  }
}

void churn(unsigned seed, std::string& problem) {
  struct Own {
    Byte* block = nullptr;
    std::size_t bytes = 0;
    unsigned seed = 0;
  } own[40];
  Random random{seed};
  for (unsigned i = 0; !is_stopped; ++i) {
    Own& one = own[random.below(40)];
    if (one.block && checked(one.block, 0, one.bytes, one.seed) != "right") problem = "a block was changed";
    std::free(one.block);
    one.bytes = 1 + random.below(random.below(10) ? 20000 : 500000);
    one.seed = i;
    one.block = static_cast<Byte*>(std::malloc(one.bytes));
    fill(one.block, 0, one.bytes, i);
  }
  for (Own& one : own) {
    if (one.block && checked(one.block, 0, one.bytes, one.seed) != "right") problem = "a block was changed";
    std::free(one.block);
  }
}

void count(std::atomic<std::uint64_t>& number, std::string& problem) {
  for (std::uint64_t i = 1; !is_stopped; ++i) {
    number.store(i);
    if (number.load() != i || (std::this_thread::yield(), number.load() != i)) problem = "a write was lost";
  }
}

std::vector<std::thread> threads;
std::string results[16];

template <typename Function>
std::string start(Function function) {
  std::string& result = results[threads.size()] = "right";
  threads.emplace_back([=, &result] { function(result); });
  return "started";
}

std::string join() {
  std::string all;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads[i].join();
    all += (i ? ", " : "") + results[i];
  }
  threads.clear();
  is_stopped = false;
  return all;
}

// ---- lines

struct Lines {
  std::ifstream in;
  std::ofstream out;
};
Lines* fifos = nullptr;  // of a child
pid_t last_child = 0;

std::string fork_child(std::istream& words) {
  std::string in, out;
  words >> in >> out;
  last_child = fork();
  if (last_child != 0) return std::to_string(last_child);
  // The parent's threads are not here.
  for (std::thread& thread : threads) thread.detach();
  threads.clear();
  fifos = new Lines{std::ifstream(in), std::ofstream(out)};
  return "begun";
}

std::string wait_for_child() {
  int status = 0;
  waitpid(last_child, &status, 0);
  return std::to_string(status);
}

// Lets a child that no handler of forks knows of look at a block, and change it.
std::string check_in_clone(Address block, std::size_t bytes, unsigned seed) {
  struct Look {
    Address block;
    std::size_t bytes;
    unsigned seed;
  } look{block, bytes, seed};
  const auto child = [](void* at_look) -> int {
    const Look& wanted = *static_cast<Look*>(at_look);
    const bool is_right = checked(at(wanted.block), wanted.block, wanted.bytes, wanted.seed) == "right";
    fill(at(wanted.block), wanted.block, wanted.bytes, wanted.seed + 1);
    _exit(is_right ? 0 : 1);
  };
  std::vector<char> stack(1 << 18);
  int status = 0;
  const pid_t made = clone(child, stack.data() + stack.size(), SIGCHLD, &look);
  if (made < 0 || waitpid(made, &status, 0) != made) return error();
  return status == 0 ? "right" : "wrong";
}

std::string answer(const std::string& verb, std::istream& words) {
  std::array<std::uint64_t, 6> w{};
  if (verb == "fork") return fork_child(words);
  for (std::uint64_t& word : w) words >> word;
  const auto pid = static_cast<pid_t>(w[0]);
  const auto seed = [w](int i) { return static_cast<unsigned>(w[i]); };
  if (verb == "take") {
    void* block = nullptr;
    if (w[1] == 0) block = std::malloc(w[0]);
    if (w[1] != 0 && posix_memalign(&block, w[1], w[0]) != 0) block = nullptr;
    return std::to_string(reinterpret_cast<Address>(block));
  }
  if (verb == "give") return std::free(at(w[0])), "done";
  if (verb == "fill") return fill(at(w[0]), w[0], w[1], seed(2)), "done";
  if (verb == "check_in_clone") return check_in_clone(w[0], w[1], seed(2));
  if (verb == "lock") return mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? "done" : error();
  if (verb == "advise") return madvise(at(w[0]), w[1], MADV_HUGEPAGE) == 0 ? "done" : error();
  if (verb == "check") return checked(at(w[0]), w[0], w[1], seed(2));
  if (verb == "get") return get(pid, w[1], w[2], seed(3));
  if (verb == "put") return put(pid, w[1], w[2], seed(3));
  if (verb == "ragged") return Ragged(pid, w[1], w[2], seed(3)).run(static_cast<int>(w[4]));
  if (verb == "list") return new (at(w[0])) iovec{at(w[1]), w[2]}, "done";
  if (verb == "get_by_list") return get_by_list(pid, reinterpret_cast<const iovec*>(w[1]));
  if (verb == "follow") return start([=](std::string& result) { follow(pid, w[1], w[2], seed(3), result); });
  if (verb == "echo") return start([=](std::string& result) { echo(pid, w[1], w[2], result); });
  if (verb == "churn") {
    start([](std::string& result) { churn(1, result); });
    return start([](std::string& result) { churn(2, result); });
  }
  if (verb == "count") {
    auto* number = new (at(w[0])) std::atomic<std::uint64_t>;
    return start([=](std::string& result) { count(*number, result); });
  }
  if (verb == "stop") is_stopped = true;
  if (verb == "stop" || verb == "join") return join();
  if (verb == "wait") return wait_for_child();
  if (verb == "exec") {
    execl("/proc/self/exe", "heap_peer", nullptr);
    return error();
  }
  if (verb == "close") return close_range(3, ~0u, 0) == 0 ? "done" : error();
  if (verb == "from_thread") {
    std::string address;
    std::thread([&] { address = std::to_string(reinterpret_cast<Address>(std::malloc(300000))); }).join();
    return address;
  }
  if (verb == "become") return setuid(static_cast<uid_t>(w[0])) == 0 ? "done" : error();
  return "what?";
}

}  // namespace

int main() {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // where a process may look into its children only
  std::cout << "begun" << std::endl;
  std::string line;
  while (std::getline(fifos ? static_cast<std::istream&>(fifos->in) : std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    const std::string said = answer(verb, words);
    (fifos ? static_cast<std::ostream&>(fifos->out) : std::cout) << said << std::endl;
  }
}
