// Binds nearfield._native.advise: reuse distances and messages of observed programs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "analysis/analysis.hpp"
#include "python/members.hpp"
#include "python/text.hpp"
#include "trace/stream/reader.hpp"

namespace nb = nanobind;
using namespace nearfield;
using advise::StreamAnalysisResult;

namespace {

// The analysis of the stream of one rank, and the code locations of its access sites as pairs (object, offset).
struct RankAnalysis {
  StreamAnalysisResult analysis_result;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sites;
};

using ProgressCallback = std::function<void(std::uint64_t)>;

struct AnalysisInterrupted : std::exception {};

// Analyses streams in a pool of threads, one stream at a time per thread. The calling thread handles signals and
// reports progress.
class ParallelAnalysis {
 public:
  ParallelAnalysis(const std::vector<std::string>& streams, const advise::AnalysisOptions& options)
      : streams_(streams), options_(options), ranks_(streams.size()), accesses_read_(streams.size()) {}

  std::vector<RankAnalysis> run(unsigned threads, const std::optional<ProgressCallback>& progress) {
    std::vector<std::jthread> pool;
    num_running_threads_ = std::clamp<unsigned>(threads, 1, static_cast<unsigned>(streams_.size()));
    for (unsigned i = num_running_threads_; i > 0; --i) pool.emplace_back([this] { analyze_until_done(); });
    while (num_running_threads_ > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      poll_interrupt(progress);
    }
    pool.clear();
    if (interrupt_) std::rethrow_exception(interrupt_);
    if (error_) std::rethrow_exception(error_);
    return std::move(ranks_);
  }

 private:
  void poll_interrupt(const std::optional<ProgressCallback>& progress) {
    if (should_stop_) return;
    std::uint64_t total_accesses = 0;
    for (const auto& accesses : accesses_read_) total_accesses += accesses;
    const nb::gil_scoped_acquire python;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (progress) (*progress)(total_accesses);
    } catch (...) {
      interrupt_ = std::current_exception();
      should_stop_ = true;
    }
  }
  void analyze_until_done() {
    try {
      for (std::size_t stream_index = next_stream_++; stream_index < streams_.size(); stream_index = next_stream_++)
        analyze_stream(stream_index);
    } catch (const AnalysisInterrupted&) {
    } catch (...) {
      if (!should_stop_.exchange(true)) error_ = std::current_exception();
    }
    --num_running_threads_;
  }
  void analyze_stream(std::size_t stream_index) {
    stream::StreamReader second_reader(streams_[stream_index]);
    const auto progress = [&](std::uint64_t accesses) {
      accesses_read_[stream_index] = accesses;
      if (should_stop_) throw AnalysisInterrupted();
    };
    ranks_[stream_index].analysis_result = advise::analyze_stream(
        std::make_unique<stream::StreamReader>(streams_[stream_index]), second_reader, options_, progress);
    for (const stream::Site& site : second_reader.sites())
      ranks_[stream_index].sites.emplace_back(site.object, site.offset);
  }

  const std::vector<std::string>& streams_;
  const advise::AnalysisOptions& options_;
  std::vector<RankAnalysis> ranks_;
  std::vector<std::atomic<std::uint64_t>> accesses_read_;
  std::atomic<std::size_t> next_stream_ = 0;
  std::atomic<unsigned> num_running_threads_ = 0;
  std::atomic<bool> should_stop_ = false;
  std::exception_ptr error_, interrupt_;
};

std::vector<RankAnalysis> analyze_streams(const std::vector<std::string>& streams,
                                          const std::vector<std::uint64_t>& limits_bytes, std::uint64_t small_bytes,
                                          unsigned threads, const std::optional<ProgressCallback>& progress) {
  advise::AnalysisOptions options;
  options.cache_capacities_bytes = limits_bytes;
  options.max_small_message_bytes = small_bytes;
  if (streams.empty() || !std::ranges::is_sorted(limits_bytes))
    throw std::invalid_argument("there must be a stream, and limits must ascend");
  const nb::gil_scoped_release gil_release;
  return ParallelAnalysis(streams, options).run(threads, progress);
}

void bind_result_parts(nb::module_& module) {
  using namespace advise;
  bind_readable(nb::class_<ReuseHistogram>(module, "Reach",
                                           "Cache lines of messages by the smallest cache that would still contain "
                                           "them."),
                field("lines", &ReuseHistogram::lines), field("bytes", &ReuseHistogram::bytes));
  bind_readable(nb::class_<MpiCall>(module, "Call", "The calls of an MPI function from one call site."),
                field("name", &MpiCall::name), field("frames", &MpiCall::frames), field("calls", &MpiCall::calls),
                field("time_ns", &MpiCall::time_ns), field("delayed_ns", &MpiCall::delayed_ns));
  bind_readable(
      nb::class_<MessageGroup>(module, "Messages", "Messages of one call site with the same peer, size and layout."),
      field("call", &MessageGroup::call_index), field("sends", &MessageGroup::is_send),
      field("context", &MessageGroup::context), field("rank", &MessageGroup::rank), field("peer", &MessageGroup::peer),
      field("world_peer", &MessageGroup::world_peer), field("bytes", &MessageGroup::bytes),
      field("piece_bytes", &MessageGroup::piece_bytes), field("stride_bytes", &MessageGroup::stride_bytes),
      field("messages", &MessageGroup::messages), field("address", &MessageGroup::address),
      field("allocated", &MessageGroup::is_heap_allocated), field("reach", &MessageGroup::reuse_distances),
      field("sites", &MessageGroup::sites), field("lines", &MessageGroup::lines),
      field("untouched", &MessageGroup::num_untouched_lines));
  bind_readable(nb::class_<advise::CompletionCount>(module, "Ended", "Messages that were completed by a call."),
                field("call", &advise::CompletionCount::call), field("messages", &advise::CompletionCount::messages),
                field("times", &advise::CompletionCount::num_completions));
  bind_readable(nb::class_<Burst>(module, "Burst", "Runs of small messages from one call site to one peer."),
                field("call", &Burst::call), field("world_peer", &Burst::world_peer), field("bursts", &Burst::bursts),
                field("messages", &Burst::messages), field("bytes", &Burst::bytes));
  bind_readable(nb::class_<CollectiveCalls>(module, "CollectiveCalls", "Calls of one collective with the same size."),
                field("call", &CollectiveCalls::call), field("kind", &CollectiveCalls::kind),
                field("bytes", &CollectiveCalls::bytes), field("ranks", &CollectiveCalls::ranks),
                field("calls", &CollectiveCalls::calls));
  bind_readable(
      nb::class_<SynchronizingCalls>(module, "Synchronisations",
                                     "Collectives of a communicator that no rank leaves before all have entered."),
      field("context", &SynchronizingCalls::context), field("world", &SynchronizingCalls::world),
      field("calls", &SynchronizingCalls::calls), field("times_ns", &SynchronizingCalls::times_ns));
  bind_readable(
      nb::class_<ProcessTopology>(module, "Topology", "A rank's neighbours in a communicator that has a topology."),
      field("context", &ProcessTopology::context), field("world", &ProcessTopology::world),
      field("rank", &ProcessTopology::rank), field("sources", &ProcessTopology::sources),
      field("destinations", &ProcessTopology::destinations));
}

}  // namespace

void bind_advise(nb::module_& parent) {
  auto module = parent.def_submodule("advise", "Reuse distances and messages of observed programs.");
  bind_result_parts(module);
  bind_readable(
      nb::class_<StreamAnalysisResult>(module, "StreamAnalysisResult", "Sums over one rank's stream."),
      field("rank", &StreamAnalysisResult::rank), field("ranks", &StreamAnalysisResult::ranks),
      field("host", &StreamAnalysisResult::host), field("accesses", &StreamAnalysisResult::accesses),
      field("delays", &StreamAnalysisResult::reports_delays),
      field("between_calls_ns", &StreamAnalysisResult::time_between_calls_ns),
      field("delayed_between_ns", &StreamAnalysisResult::delay_between_calls_ns),
      field("sampled", &StreamAnalysisResult::sampled_share), field("ended", &StreamAnalysisResult::has_end_event),
      field("calls", &StreamAnalysisResult::calls), field("messages", &StreamAnalysisResult::messages),
      field("ended_in", &StreamAnalysisResult::completions), field("bursts", &StreamAnalysisResult::bursts),
      field("collectives", &StreamAnalysisResult::collectives),
      field("synchronisations", &StreamAnalysisResult::synchronizations),
      field("topologies", &StreamAnalysisResult::topologies), field("objects", &StreamAnalysisResult::objects));
  bind_readable(
      nb::class_<RankAnalysis>(module, "Rank",
                               "The analysis of one stream, and the code locations (object, offset) of its access "
                               "sites."),
      field("result", &RankAnalysis::analysis_result), field("sites", &RankAnalysis::sites));
  module.def("analyse", &analyze_streams, nb::arg("streams"), nb::arg("limits_bytes"), nb::arg("small_bytes"),
             nb::arg("threads"), nb::arg("progress").none(),
             "Analyses streams, each in two passes. `limits_bytes` are cache capacities in ascending order. `progress` "
             "is called periodically with the number of accesses read so far in both passes. Raises BrokenStream for a "
             "damaged stream, and ValueError if there is no stream or `limits_bytes` do not ascend.");
}
