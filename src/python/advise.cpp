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
using advise::AnalysisResult;

namespace {

// The analysis of the stream of one rank, and the code locations of its sites as pairs of object and offset.
struct RankAnalysis {
  AnalysisResult found;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sites;
};

using Progress = std::function<void(std::uint64_t)>;

struct AnalysisInterrupted : std::exception {};

// Analyses streams in a pool of threads, one stream at a time per thread. The calling thread handles signals and
// reports progress.
class ParallelAnalysis {
 public:
  ParallelAnalysis(const std::vector<std::string>& streams, const advise::AnalysisOptions& options)
      : streams_(streams), options_(options), ranks_(streams.size()), accesses_read_(streams.size()) {}

  std::vector<RankAnalysis> run(unsigned threads, const std::optional<Progress>& progress) {
    std::vector<std::jthread> pool;
    running_ = std::clamp<unsigned>(threads, 1, static_cast<unsigned>(streams_.size()));
    for (unsigned i = running_; i > 0; --i) pool.emplace_back([this] { analyse_until_done(); });
    while (running_ > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      poll_interrupt(progress);
    }
    pool.clear();
    if (interrupted_) std::rethrow_exception(interrupted_);
    if (error_) std::rethrow_exception(error_);
    return std::move(ranks_);
  }

 private:
  void poll_interrupt(const std::optional<Progress>& progress) {
    if (must_end_) return;
    std::uint64_t all = 0;
    for (const auto& one : accesses_read_) all += one;
    const nb::gil_scoped_acquire python;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (progress) (*progress)(all);
    } catch (...) {
      interrupted_ = std::current_exception();
      must_end_ = true;
    }
  }
  void analyse_until_done() {
    try {
      for (std::size_t next = next_++; next < streams_.size(); next = next_++) analyse_stream(next);
    } catch (const AnalysisInterrupted&) {
    } catch (...) {
      if (!must_end_.exchange(true)) error_ = std::current_exception();
    }
    --running_;
  }
  void analyse_stream(std::size_t number) {
    stream::Reader second(streams_[number]);
    const auto progress = [&](std::uint64_t accesses) {
      accesses_read_[number] = accesses;
      if (must_end_) throw AnalysisInterrupted();
    };
    ranks_[number].found =
        advise::analyse(std::make_unique<stream::Reader>(streams_[number]), second, options_, progress);
    for (const stream::Site& site : second.sites()) ranks_[number].sites.emplace_back(site.object, site.offset);
  }

  const std::vector<std::string>& streams_;
  const advise::AnalysisOptions& options_;
  std::vector<RankAnalysis> ranks_;
  std::vector<std::atomic<std::uint64_t>> accesses_read_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<unsigned> running_ = 0;
  std::atomic<bool> must_end_ = false;
  std::exception_ptr error_, interrupted_;
};

std::vector<RankAnalysis> analyse_streams(const std::vector<std::string>& streams,
                                          const std::vector<std::uint64_t>& limits_bytes, std::uint64_t small_bytes,
                                          unsigned threads, const std::optional<Progress>& progress) {
  advise::AnalysisOptions options;
  options.limits_bytes = limits_bytes;
  options.small_bytes = small_bytes;
  if (streams.empty() || !std::ranges::is_sorted(limits_bytes))
    throw std::invalid_argument("there must be a stream, and limits must ascend");
  const nb::gil_scoped_release others_may_go_on;
  return ParallelAnalysis(streams, options).run(threads, progress);
}

void bind_result_parts(nb::module_& module) {
  using namespace advise;
  bind_readable(nb::class_<ReuseHistogram>(module, "Reach",
                                           "Lines of messages by the smallest cache that would still have them."),
                field("lines", &ReuseHistogram::lines), field("bytes", &ReuseHistogram::bytes));
  bind_readable(nb::class_<MpiCall>(module, "Call", "An MPI function, called from one place."),
                field("name", &MpiCall::name), field("frames", &MpiCall::frames), field("calls", &MpiCall::calls),
                field("time_ns", &MpiCall::time_ns), field("delayed_ns", &MpiCall::delayed_ns));
  bind_readable(
      nb::class_<MessageGroup>(module, "Messages", "Messages from one call with the same peer, size and layout."),
      field("call", &MessageGroup::call), field("sends", &MessageGroup::sends),
      field("context", &MessageGroup::context), field("rank", &MessageGroup::rank), field("peer", &MessageGroup::peer),
      field("world_peer", &MessageGroup::world_peer), field("bytes", &MessageGroup::bytes),
      field("piece_bytes", &MessageGroup::piece_bytes), field("stride_bytes", &MessageGroup::stride_bytes),
      field("messages", &MessageGroup::messages), field("address", &MessageGroup::address),
      field("allocated", &MessageGroup::allocated), field("reach", &MessageGroup::reach),
      field("sites", &MessageGroup::sites), field("lines", &MessageGroup::lines),
      field("untouched", &MessageGroup::untouched));
  bind_readable(nb::class_<advise::CompletionCount>(module, "Ended", "Messages that a call waited for."),
                field("call", &advise::CompletionCount::call), field("messages", &advise::CompletionCount::messages),
                field("times", &advise::CompletionCount::times));
  bind_readable(nb::class_<Burst>(module, "Burst", "Runs of small messages to one peer from one call."),
                field("call", &Burst::call), field("world_peer", &Burst::world_peer), field("bursts", &Burst::bursts),
                field("messages", &Burst::messages), field("bytes", &Burst::bytes));
  bind_readable(nb::class_<CollectiveCalls>(module, "CollectiveCalls", "Calls of one collective with the same size."),
                field("call", &CollectiveCalls::call), field("kind", &CollectiveCalls::kind),
                field("bytes", &CollectiveCalls::bytes), field("ranks", &CollectiveCalls::ranks),
                field("calls", &CollectiveCalls::calls));
  bind_readable(
      nb::class_<SynchronisingCalls>(module, "Synchronisations",
                                     "Collectives of a communicator that no rank leaves before all have come."),
      field("context", &SynchronisingCalls::context), field("world", &SynchronisingCalls::world),
      field("calls", &SynchronisingCalls::calls), field("times_ns", &SynchronisingCalls::times_ns));
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
  bind_readable(nb::class_<AnalysisResult>(module, "AnalysisResult", "Sums over one rank's stream."),
                field("rank", &AnalysisResult::rank), field("ranks", &AnalysisResult::ranks),
                field("host", &AnalysisResult::host), field("accesses", &AnalysisResult::accesses),
                field("delays", &AnalysisResult::delays), field("between_calls_ns", &AnalysisResult::between_calls_ns),
                field("delayed_between_ns", &AnalysisResult::delayed_between_ns),
                field("sampled", &AnalysisResult::sampled), field("ended", &AnalysisResult::ended),
                field("calls", &AnalysisResult::calls), field("messages", &AnalysisResult::messages),
                field("ended_in", &AnalysisResult::ended_in), field("bursts", &AnalysisResult::bursts),
                field("collectives", &AnalysisResult::collectives),
                field("synchronisations", &AnalysisResult::synchronisations),
                field("topologies", &AnalysisResult::topologies), field("objects", &AnalysisResult::objects));
  bind_readable(
      nb::class_<RankAnalysis>(module, "Rank", "What a stream says, and the places of its sites: object, offset."),
      field("found", &RankAnalysis::found), field("sites", &RankAnalysis::sites));
  module.def("analyse", &analyse_streams, nb::arg("streams"), nb::arg("limits_bytes"), nb::arg("small_bytes"),
             nb::arg("threads"), nb::arg("progress").none(),
             "Analyses streams, each in two passes. `limits_bytes`: capacities of caches, ascending. `progress` is "
             "called now and then with the accesses that have been read, those of both passes together. Raises "
             "BrokenStream, and ValueError if there is no stream or limits do not ascend.");
}
