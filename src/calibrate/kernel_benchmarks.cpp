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

constexpr double start_timeout_ns = 200e6;  // for the start of the other process
constexpr double min_sample_ns = 4000;

// A child process from whose memory the kernel copies. The child writes the block, then spins or sleeps until the
// destructor kills it.
class CopySourceProcess {
 public:
  CopySourceProcess(const MemoryBlock& block, std::size_t bytes, int pu, bool should_spin) {
    void* const shared = mmap(nullptr, sizeof *is_ready_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::runtime_error("the kernel gives no shared memory");
    is_ready_ = new (shared) std::atomic<bool>(false);
    process_ = fork();
    if (process_ < 0) {
      munmap(shared, sizeof *is_ready_);
      throw std::runtime_error("the kernel starts no further process");
    }
    if (process_ == 0) run_child(block.data(), bytes, pu, should_spin);
  }
  ~CopySourceProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    munmap(is_ready_, sizeof *is_ready_);
  }
  CopySourceProcess(const CopySourceProcess&) = delete;
  CopySourceProcess& operator=(const CopySourceProcess&) = delete;

  // Waits until the child has written the block. Returns false if other programs keep the child from running in time.
  bool wait_until_ready() const {
    const Ticks end = now() + static_cast<Ticks>(start_timeout_ns / ns_per_tick());
    while (!is_ready_->load(std::memory_order_acquire)) {
      if (now() > end) return false;
      usleep(100);
    }
    return true;
  }
  bool copy_by_kernel(void* to, const void* from, std::size_t bytes) const {
    const iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
    return process_vm_readv(process_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
  }

 private:
  // Runs in the child after fork(). The parent may have had other threads, so the child only makes system calls and
  // accesses memory.
  [[noreturn]] void run_child(std::byte* begin, std::size_t bytes, int pu, bool should_spin) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin_thread_to(pu);
    std::memset(begin, 1, bytes);
    is_ready_->store(true, std::memory_order_release);
    for (;;)
      if (should_spin)
        cpu_pause();
      else
        pause();
  }

  std::atomic<bool>* is_ready_ = nullptr;
  pid_t process_ = -1;
};

Samples sample_copies(const CopySourceProcess& source_process, const MemoryBlock& to, const MemoryBlock& from,
                      std::size_t bytes, int num_samples) {
  const auto time_copies = [&](std::size_t copies) {
    const Ticks start = now();
    for (std::size_t i = 0; i < copies; ++i) source_process.copy_by_kernel(to.data(), from.data(), bytes);
    return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(copies);
  };
  if (!source_process.wait_until_ready() || !source_process.copy_by_kernel(to.data(), from.data(), bytes)) return {};
  const double first_ns = time_copies(2);
  const auto copies = static_cast<std::size_t>(std::clamp(min_sample_ns / std::max(first_ns, 1.0), 1.0, 1e4));
  Samples samples;
  for (int i = 0; i < num_samples; ++i) samples.push_back(time_copies(copies));
  return samples;
}

}  // namespace

Samples measure_kernel_copy_ns(const MemoryBlock& to, const MemoryBlock& from, std::size_t bytes, int pu, int other_pu,
                               int num_samples) {
  if (bytes > to.size() || bytes > from.size()) throw std::invalid_argument("a block is too small");
  ns_per_tick();
  Samples samples;
  bool is_pinned = false;
  std::thread reader([&] {  // a separate thread, since it is pinned
    is_pinned = pin_thread_to(pu);
    if (is_pinned)
      samples = sample_copies(CopySourceProcess(from, bytes, other_pu, other_pu != pu), to, from, bytes, num_samples);
  });
  reader.join();
  if (!is_pinned) throw std::runtime_error("the core may not be used");
  return samples;
}

}  // namespace nearfield::calibrate
