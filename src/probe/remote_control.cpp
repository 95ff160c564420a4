#include "probe/remote_control.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "probe/failure.hpp"
#include "probe/reporter.hpp"

namespace nearfield::probe {
namespace {

// Reads command lines from a FIFO. A rank that waits for a command sleeps in read(), outside of MPI.
class CommandFifo {
 public:
  explicit CommandFifo(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) abort_launch("plan", "cannot read commands from " + path + ": " + std::strerror(errno));
  }
  ~CommandFifo() { close(fd_); }
  CommandFifo(const CommandFifo&) = delete;
  CommandFifo& operator=(const CommandFifo&) = delete;

  // Returns the next command; "end" if the FIFO has no writer left.
  std::string read_command() {
    std::size_t end;
    while ((end = unread_text_.find('\n')) == std::string::npos) {
      char bytes[256];
      const ssize_t n = read(fd_, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return "end";
      unread_text_.append(bytes, static_cast<std::size_t>(n));
    }
    const std::string line = unread_text_.substr(0, end);
    unread_text_.erase(0, end + 1);
    return line;
  }

 private:
  int fd_;
  std::string unread_text_;
};

class CommandServer {
 public:
  CommandServer(Context& ctx, const Spec& spec, Emitter& emit)
      : ctx_(ctx), emit_(emit), scenario_(spec.make(ctx)), metric_values_(spec.info.metrics.size()) {
    std::vector<std::string> cases;
    for (const auto& parameters : scenario_->cases()) cases.push_back(parameters_to_json(parameters).str());
    emit_.write_line(JsonObject().add("type", "cases").add_raw("cases", json_array(cases)));
  }

  void serve_until_end() {
    CommandFifo commands(ctx_.plan.command_fifo + "." + std::to_string(ctx_.world_rank));
    for (std::string line = commands.read_command(); line != "end"; line = commands.read_command()) {
      std::istringstream words(line);
      std::string command_name;
      std::size_t index = 0;
      int num_repetitions = 1;
      words >> command_name >> index >> num_repetitions;
      scenario_->select_case(index);
      if (command_name == "check") check_case(index);
      if (command_name == "visit") measure_visit(index, num_repetitions);
    }
  }

 private:
  void check_case(std::size_t index) {
    scenario_->fill_buffers(1);
    ctx_.synchronized_start->wait();
    scenario_->run_timed(metric_values_);
    auto arrived = scenario_->received_data();
    if (ctx_.plan.corrupts_received_data && !arrived.empty()) arrived[arrived.size() / 2] ^= std::byte{0x40};
    const std::string problem = scenario_->check_received_data(1);
    int failed = problem.empty() ? ctx_.num_ranks : ctx_.rank;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MIN, ctx_.timed_comm);
    const std::string reported = failed == ctx_.num_ranks ? ""
                                 : failed == ctx_.rank    ? problem
                                                          : "rank " + std::to_string(failed) + " got wrong data";
    emit_.write_line(JsonObject().add("type", "checked").add("case", static_cast<int>(index)).add("problem", reported));
  }

  void measure_visit(std::size_t index, int num_repetitions) {
    measure_once();  // discarded: the other job has used the caches
    std::vector<double> samples, latencies{core_latency_ns()};
    for (int i = 0; i < num_repetitions; ++i) samples.push_back(measure_once() / ctx_.ticks_per_ns);
    latencies.push_back(core_latency_ns());
    JsonObject line;
    line.add("type", "visit").add("case", static_cast<int>(index));
    line.add("flag_ns", std::span<const double>(latencies));
    emit_.write_line(line.add("samples", std::span<const double>(samples)));
  }

  double core_latency_ns() { return ctx_.synchronized_start->measure_core_latency_ticks() / ctx_.ticks_per_ns; }

  double measure_once() {
    scenario_->prepare_repetition();
    ctx_.synchronized_start->wait();
    scenario_->run_timed(metric_values_);
    return metric_values_[0];
  }

  Context& ctx_;
  Emitter& emit_;
  std::unique_ptr<Scenario> scenario_;
  std::vector<double> metric_values_;
};

}  // namespace

void serve_commands(Context& ctx, const Spec& spec, Emitter& emit) { CommandServer(ctx, spec, emit).serve_until_end(); }

}  // namespace nearfield::probe
