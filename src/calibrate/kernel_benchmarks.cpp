// The benchmark of copies by the kernel between two processes.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "calibrate/benchmarks.hpp"
#include "calibrate/timing.hpp"

namespace nearfield::calibrate {
namespace {

constexpr double limit_ns = 200e6;  // until the other process has begun
constexpr double min_sample_ns = 4000;

// A child of this process, which writes the block, and then spins or sleeps until it is killed.
class OtherProcess {
 public:
  OtherProcess(const Block& block, std::size_t bytes, int pu, bool spins) {
    void* const shared = mmap(nullptr, sizeof *ready_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::runtime_error("the kernel gives no shared memory");
    ready_ = new (shared) std::atomic<bool>(false);
    process_ = fork();
    if (process_ < 0) {
      munmap(shared, sizeof *ready_);
      throw std::runtime_error("the kernel starts no further process");
    }
    if (process_ == 0) run(block.data(), bytes, pu, spins);
  }
  ~OtherProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    munmap(ready_, sizeof *ready_);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  // Returns false if other programs did not let it run in time.
  bool wait() const {
    const Ticks end = now() + static_cast<Ticks>(limit_ns / ns_per_tick());
    while (!ready_->load(std::memory_order_acquire)) {
      if (now() > end) return false;
      usleep(100);
    }
    return true;
  }
  bool copy(void* to, const void* from, std::size_t bytes) const {
    const iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
    return process_vm_readv(process_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
  }

 private:
  // This process may have had other threads, so only system calls and memory are used.
  [[noreturn]] void run(std::byte* begin, std::size_t bytes, int pu, bool spins) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_to(pu);
    std::memset(begin, 1, bytes);
    ready_->store(true, std::memory_order_release);
    for (;;)
      if (spins)
        cpu_pause();
      else
        pause();
  }

  std::atomic<bool>* ready_ = nullptr;
  pid_t process_ = -1;
};

Samples sample_copies(const OtherProcess& other, const Block& to, const Block& from, std::size_t bytes, int samples) {
  const auto time_copies = [&](std::size_t copies) {
    const Ticks start = now();
    for (std::size_t i = 0; i < copies; ++i) other.copy(to.data(), from.data(), bytes);
    return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(copies);
  };
  if (!other.wait() || !other.copy(to.data(), from.data(), bytes)) return {};
  const double first_ns = time_copies(2);
  const auto copies = static_cast<std::size_t>(std::clamp(min_sample_ns / std::max(first_ns, 1.0), 1.0, 1e4));
  Samples all;
  for (int i = 0; i < samples; ++i) all.push_back(time_copies(copies));
  return all;
}

}  // namespace

Samples kernel_copy_ns(const Block& to, const Block& from, std::size_t bytes, int pu, int other_pu, int samples) {
  if (bytes > to.size() || bytes > from.size()) throw std::invalid_argument("a block is too small");
  ns_per_tick();
  Samples all;
  bool bound = false;
  std::thread reader([&] {  // of its own, since it is pinned
    bound = bind_to(pu);
    if (bound) all = sample_copies(OtherProcess(from, bytes, other_pu, other_pu != pu), to, from, bytes, samples);
  });
  reader.join();
  if (!bound) throw std::runtime_error("the core may not be used");
  return all;
}

}  // namespace nearfield::calibrate
