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

constexpr double default_patience_s = 4;
constexpr const char* patience_variable = "NEARFIELD_NODE_PATIENCE_S";

// What each rank states of itself.
struct JobCard {
  char host[64];
  int is_watched;
  MarkPlace mark;
};

// What rank 0 states.
struct HubCard {
  double patience_s;
  char address[512];
};

constinit WaitMark own_mark;
constinit std::atomic<NodeWatch*> job_watch{nullptr};  // a destructor would run in any exit()

// Returns for how long a rank must wait before the program is ended; 0: it is never ended.
double read_patience_s() {
  const char* const text = std::getenv(patience_variable);
  if (!text || !*text) return default_patience_s;
  if (std::strcmp(text, "off") == 0) return 0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end != text && !*end && std::isfinite(seconds) && seconds >= 0) return seconds;
  std::fprintf(stderr, "nearfield: %s: '%s' is neither a number of seconds nor 'off': no dead node ends the program\n",
               patience_variable, text);
  return 0;
}

// Returns what ends the program if a node is lost and one of these ranks waits.
NodeWatch::OnLost end_if_rank_waits(const std::vector<MarkPlace>& ranks, double patience_s, const char* activity) {
  return [observer = WaitObserver(ranks), patience_s, activity](const LostNode& node) mutable {
    const int rank = observer.find_waiting_rank(monotonic_s() - node.lost_for_s, patience_s);
    if (rank < 0) return false;
    char text[256];
    std::snprintf(text, sizeof text,
                  ", and rank %d has waited in %s for %g s: the program is ended (%s=off prevents it)", rank, activity,
                  patience_s, patience_variable);
    end_job(node.text() + text);
  };
}

JobCard make_card(int rank) {
  JobCard card{};
  own_node_name().copy(card.host, sizeof card.host - 1);
  card.is_watched = job_wait_mark.load() != nullptr;
  card.mark = {rank, getpid(), reinterpret_cast<std::uint64_t>(&own_mark), own_mark.secret};
  return card;
}

}  // namespace

constinit std::atomic<WaitMark*> job_wait_mark{nullptr};

void start_job_watch(const JobRanks& ranks, const char* activity) {
  if (own_mark.secret == 0) own_mark.secret = random_number();
  const JobCard own = make_card(ranks.rank);
  std::vector<JobCard> cards(static_cast<std::size_t>(ranks.ranks));
  ranks.allgather(&own, cards.data(), sizeof own);
  bool spans_nodes = false;
  std::vector<MarkPlace> of_node;
  for (const JobCard& card : cards) {
    if (card.is_watched) return;
    spans_nodes = spans_nodes || std::strcmp(card.host, cards[0].host) != 0;
    if (std::strcmp(card.host, own.host) == 0) of_node.push_back(card.mark);
  }
  if (!spans_nodes) return;
  HubCard hub{};
  std::unique_ptr<NodeWatch> watch;
  if (ranks.rank == 0 && (hub.patience_s = read_patience_s()) > 0) {
    watch = std::make_unique<NodeWatch>(end_if_rank_waits(of_node, hub.patience_s, activity));
    watch->address().copy(hub.address, sizeof hub.address - 1);
  }
  ranks.bcast(&hub, sizeof hub);
  if (!*hub.address) return;
  if (!watch && of_node.front().rank == ranks.rank)
    watch = std::make_unique<NodeWatch>(hub.address, end_if_rank_waits(of_node, hub.patience_s, activity));
  if (watch) delete job_watch.exchange(watch.release());  // of another thread that has begun at the same time
  job_wait_mark = &own_mark;
}

void stop_job_watch() {
  job_wait_mark = nullptr;
  delete job_watch.exchange(nullptr);
}

}  // namespace nearfield
