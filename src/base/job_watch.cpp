#include "base/job_watch.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/job_end.hpp"
#include "base/node_watch.hpp"

namespace nearfield {
namespace {

constexpr double default_lost_node_timeout_s = 4;
constexpr const char* timeout_variable = "NEARFIELD_NODE_PATIENCE_S";

// The record that each rank publishes about itself.
struct RankRecord {
  char host[64];
  int is_watched;
  WaitMarkLocation wait_mark;
};

// The record that rank 0 publishes about the hub.
struct HubRecord {
  double timeout_s;
  char address[512];
};

constinit WaitMark process_wait_mark;
constinit std::atomic<NodeWatch*> node_watch{nullptr};  // not a unique_ptr, whose destructor would run in any exit()

// Returns for how long a rank must have waited before the program is ended, in seconds; 0: the program is never ended.
double read_lost_node_timeout_s() {
  const char* const text = std::getenv(timeout_variable);
  if (!text || !*text) return default_lost_node_timeout_s;
  if (std::strcmp(text, "off") == 0) return 0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end != text && !*end && std::isfinite(seconds) && seconds >= 0) return seconds;
  std::fprintf(stderr, "nearfield: %s: '%s' is neither a number of seconds nor 'off': no dead node ends the program\n",
               timeout_variable, text);
  return 0;
}

// Returns the handler that ends the program if a node is lost while one of these ranks waits.
NodeWatch::LostNodeHandler make_lost_node_handler(const std::vector<WaitMarkLocation>& ranks, double timeout_s,
                                                  const char* activity) {
  return [observer = WaitObserver(ranks), timeout_s, activity](const LostNode& node) mutable {
    const int rank = observer.find_waiting_rank(monotonic_s() - node.lost_for_s, timeout_s);
    if (rank < 0) return false;
    char text[256];
    std::snprintf(text, sizeof text,
                  ", and rank %d has waited in %s for %g s: the program is ended (%s=off prevents it)", rank, activity,
                  timeout_s, timeout_variable);
    end_job(node.text() + text);
  };
}

RankRecord make_rank_record(int rank) {
  RankRecord record{};
  own_node_name().copy(record.host, sizeof record.host - 1);
  record.is_watched = watched_wait_mark.load() != nullptr;
  record.wait_mark = {rank, getpid(), reinterpret_cast<std::uint64_t>(&process_wait_mark), process_wait_mark.secret};
  return record;
}

}  // namespace

constinit std::atomic<WaitMark*> watched_wait_mark{nullptr};

void start_job_watch(const JobRanks& ranks, const char* activity) {
  if (process_wait_mark.secret == 0) process_wait_mark.secret = random_number();
  const RankRecord own_record = make_rank_record(ranks.rank);
  std::vector<RankRecord> records(static_cast<std::size_t>(ranks.num_ranks));
  ranks.allgather(&own_record, records.data(), sizeof own_record);
  bool spans_nodes = false;
  std::vector<WaitMarkLocation> marks_on_node;
  for (const RankRecord& record : records) {
    if (record.is_watched) return;
    spans_nodes = spans_nodes || std::strcmp(record.host, records[0].host) != 0;
    if (std::strcmp(record.host, own_record.host) == 0) marks_on_node.push_back(record.wait_mark);
  }
  if (!spans_nodes) return;
  HubRecord hub{};
  std::unique_ptr<NodeWatch> watch;
  if (ranks.rank == 0 && (hub.timeout_s = read_lost_node_timeout_s()) > 0) {
    watch = std::make_unique<NodeWatch>(make_lost_node_handler(marks_on_node, hub.timeout_s, activity));
    watch->address().copy(hub.address, sizeof hub.address - 1);
  }
  ranks.bcast(&hub, sizeof hub);
  if (!*hub.address) return;
  if (!watch && marks_on_node.front().rank == ranks.rank)
    watch = std::make_unique<NodeWatch>(hub.address, make_lost_node_handler(marks_on_node, hub.timeout_s, activity));
  if (watch) delete node_watch.exchange(watch.release());  // deletes the watch of a thread that started concurrently
  watched_wait_mark = &process_wait_mark;
}

void stop_job_watch() {
  watched_wait_mark = nullptr;
  delete node_watch.exchange(nullptr);
}

}  // namespace nearfield
