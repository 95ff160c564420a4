#include "halo/grid.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "plan/plan.hpp"

namespace nearfield::halo {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void check(const GridOptions& options, int ranks) {
  const auto fail = [](const std::string& text) { throw Error(Code::argument, text); };
  const auto& layout = options.layout;
  if (options.dimensions < 1 || options.dimensions > 3) fail("a grid has 1 to 3 dimensions");
  int product = 1;
  for (int d = 0; d < 3; ++d) {
    const auto name = "dimension " + std::to_string(d - 3 + options.dimensions);
    if (layout.extents[d] < 1) fail(name + " has no cells");
    if (layout.halo[d][0] < 0 || layout.halo[d][1] < 0) fail(name + " has a negative halo");
    if (layout.dims[d] < 0) fail(name + " has a negative number of ranks");
    if (layout.dims[d] > 0) product *= layout.dims[d];
  }
  const bool open = std::any_of(layout.dims.begin(), layout.dims.end(), [](int n) { return n == 0; });
  if (open ? ranks % product != 0 : ranks != product)
    fail("dims make " + std::to_string(product) + " ranks, but the communicator has " + std::to_string(ranks));
}

// All splits that leave the user's choices as they are, best first. Where parts would be smaller than the halo, no
// plan is made, and the split is the one that MPI makes.
std::vector<planning::Plan> splits(const GridOptions& options, const planning::Costs& costs, const Node& node,
                                   int ranks_per_node) {
  planning::PlanRequest request;
  request.dimensions = options.dimensions;
  request.extents = options.layout.extents;
  request.halo = options.layout.halo;
  request.periodic = options.layout.periodic;
  request.corners = options.layout.corners;
  request.ranks = node.size;
  request.ranks_per_node = ranks_per_node;
  request.element_bytes = 8;
  request.fixed_dims = options.layout.dims;
  request.costs = costs;
  try {
    return planning::plans(request);
  } catch (const std::invalid_argument&) {
    planning::Plan plan;
    plan.dims = options.layout.dims;
    MPI_Dims_create(node.size, 3, plan.dims.data());
    return {plan};
  }
}

// What rank 0 finds in the file holds for all, so that all choose alike.
planning::KnownCosts known_costs(const std::string& given, const Node& node) {
  std::string file = given, text, problem;
  if (const char* named = std::getenv("NEARFIELD_HALO_COSTS"); file.empty() && named) file = named;
  if (node.rank == 0 && !file.empty()) {
    std::ifstream in(file);
    std::ostringstream all;
    all << in.rdbuf();
    text = all.str();
    if (!in.is_open())
      problem = "the costs in " + file + " cannot be read: " + std::strerror(errno) +
                "; name a file that nearfield's verb halo wrote with --costs PROFILE, or unset NEARFIELD_HALO_COSTS";
  }
  agree(node.comm, problem, Code::argument);
  int bytes = node.rank == 0 && file.empty() ? -1 : static_cast<int>(text.size());
  MPI_Bcast(&bytes, 1, MPI_INT, 0, node.comm);
  if (bytes < 0) return {planning::default_costs(), "nearfield's defaults"};
  text.resize(static_cast<std::size_t>(bytes));
  MPI_Bcast(text.data(), bytes, MPI_CHAR, 0, node.comm);
  try {
    return planning::parse_costs(text, file);
  } catch (const std::invalid_argument& wrong) {
    problem = wrong.what();
  }
  agree(node.comm, problem, Code::argument);
  return {};
}

int least_ranks_per_node(const Node& node) {
  std::map<int, int> counts;
  for (const int number : node.node_of) ++counts[number];
  return std::min_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->second;
}

// CPUs that the ranks of this node may run on, all together: in a container, a job's share or under a launcher that
// binds, fewer than there are. Collective over the node.
int cpus_of(const Node& node) {
  std::array<unsigned long, 128> mask{};  // of 8192 CPUs, as many as Linux knows
  if (sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) != 0) mask.fill(0);
  MPI_Allreduce(MPI_IN_PLACE, mask.data(), static_cast<int>(mask.size()), MPI_UNSIGNED_LONG, MPI_BOR, node.local);
  int cpus = 0;
  for (const auto part : mask) cpus += std::popcount(part);
  return cpus ? cpus : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

bool is_gone(long process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return true;
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(stat, line);
  const auto after = line.rfind(')');  // the name before may hold anything
  return after != std::string::npos && after + 2 < line.size() && (line[after + 2] == 'Z' || line[after + 2] == 'X');
}

void damage(const Place& place, const Triple& extents, std::size_t cell_bytes) {
  for (Index i = 0; i < extents[0]; ++i)
    for (Index j = 0; j < extents[1]; ++j)
      for (Index k = 0; k < extents[2]; ++k)
        std::memset(place.first + i * place.strides[0] + j * place.strides[1] + k * place.strides[2], 0xff, cell_bytes);
}

}  // namespace

Exchange::Exchange(Move move, const ProtocolSpec& spec, Surroundings& around, bool poison) : spec_(spec) {
  if (poison && !move.add && !move.in_place) poisoned_ = move;
  protocol_ = make_protocol(spec, around, std::move(move));
}

void Exchange::prepare() {
  protocol_->prepare();
  if (!poisoned_) return;
  for (const auto& field : poisoned_->fields)
    for (const auto& message : poisoned_->messages)
      for (const auto& strip : message.receive)
        damage(field.mine.at(strip.mine.lo), strip.extents(), field.mine.cell_bytes);
}

Grid::Grid(MPI_Comm comm, const GridOptions& options)
    : dimensions_(options.dimensions), layout_(options.layout), limit_s_(options.limit_s > 0 ? options.limit_s : 600) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  check(options, ranks);
  const char* debug = std::getenv("NEARFIELD_HALO_DEBUG");
  debug_ = debug && *debug && *debug != '0';
  const bool chosen = options.protocol == "auto" || options.protocol.empty();
  spec_ = chosen ? (debug_ ? &direct_protocol : &in_place_protocol) : &find_protocol(options.protocol);
  try {
    share_memory(comm, *spec_);
  } catch (const Error& error) {
    if (!chosen || error.code != Code::unavailable) throw;
    note_ = std::string(error.what()) + "; all neighbours are reached by MPI";
    spec_ = &persistent_protocol;
    share_memory(comm, *spec_);
  }
  if (spec_->problem)
    if (const auto problem = spec_->problem(*node_); !problem.empty()) throw Error(Code::unavailable, problem);
  ranks_per_node_ = least_ranks_per_node(*node_);
  known_ = known_costs(options.costs, *node_);
  const auto plans = splits(options, known_.costs, *node_, ranks_per_node_);
  const auto& plan = plans.front();
  for (std::size_t i = 0; i < plans.size() && i < 4; ++i) splits_.push_back({plans[i].dims, plans[i].time_ns});
  layout_.dims = plan.dims;
  placement_ = halo::place(layout_, node_->node_of, options.reorder ? plan.node_dims : Ranks{}, !spec_->in_place);
  find_peers();
  cpus_ = cpus_of(*node_);
  spins_ = node_->local_size > cpus_ ? 50 : 5000;
  processes_seen_ = std::none_of(node_->process_of.begin(), node_->process_of.end(), is_gone);
  MPI_Barrier(node_->comm);
}

Grid::~Grid() = default;

// With signals in shared memory; alone if the protocol is MPI's own, which needs none.
void Grid::share_memory(MPI_Comm comm, const ProtocolSpec& spec) {
  node_ = std::make_unique<Node>(comm, spec.shared_only);
  const auto bytes = Board::bytes(node_->local_size);
  const auto part = bytes / static_cast<std::size_t>(node_->local_size);
  const auto begin = part * static_cast<std::size_t>(node_->local_rank);
  board_memory_ = std::make_unique<Segment>(*node_, bytes, begin, begin + part, spec.backing);
  board_ = Board(board_memory_->data(), node_->local_size);
}

// Those on the node whose cells this rank reads, or who read its cells.
void Grid::find_peers() {
  peer_index_.assign(static_cast<std::size_t>(node_->local_size), -1);
  const auto here = static_cast<std::size_t>(node_->rank);
  const auto add = [&](int rank) {
    const int local = rank < 0 ? -1 : node_->local_of[static_cast<std::size_t>(rank)];
    if (local < 0 || local == node_->local_rank || peer_index_[static_cast<std::size_t>(local)] >= 0) return;
    peer_index_[static_cast<std::size_t>(local)] = static_cast<int>(peers_.size());
    peers_.push_back({local, &board_.of(node_->local_rank, local), &board_.of(local, node_->local_rank)});
    const auto other = static_cast<std::size_t>(rank);
    if (spec_->in_place && placement_.island_of[other] == placement_.island_of[here]) ++neighbours_in_place_;
  };
  for (const auto& message : messages(layout_.halo, false, false)) {
    add(message.to);
    add(message.from);
  }
  bool nothing = true;
  for (const auto& message : messages(layout_.halo, spec_->in_place, false))
    nothing = nothing && message.send.empty() && message.receive.empty();
  int all = nothing;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, node_->comm);
  all_in_place_ = all && spec_->in_place;
}

std::vector<Message> Grid::messages(const Widths& widths, bool in_place, bool add) const {
  const auto& here = place();
  const auto island = [&](const Ranks& at) {
    return placement_
        .island_of[static_cast<std::size_t>(placement_.rank_at[static_cast<std::size_t>(layout_.number(at))])];
  };
  // What `reader` reads of `owner`, in the reader's cells; less what it reads in place.
  const auto read = [&](const Ranks& reader, const Ranks& owner) {
    std::vector<Strip> strips;
    for (const auto& piece : layout_.ghosts(reader, widths))
      if (piece.owner == owner && !(in_place && piece.shift == Triple{} && island(reader) == island(owner)))
        strips.push_back({piece.ghost, piece.source()});
    return strips;
  };
  const auto turned = [](std::vector<Strip> strips) {
    for (auto& strip : strips) std::swap(strip.mine, strip.theirs);
    return strips;
  };
  std::vector<Message> list;
  for (const auto& by : layout_.displacements(widths)) {
    const auto owner = layout_.displaced(here, by, 1), reader = layout_.displaced(here, by, -1);
    auto ghosts = read(here, owner);
    auto cells = turned(read(reader, here));
    const int owner_rank = placement_.rank_at[static_cast<std::size_t>(layout_.number(owner))];
    const int reader_rank = placement_.rank_at[static_cast<std::size_t>(layout_.number(reader))];
    Message message{cells.empty() ? -1 : reader_rank, ghosts.empty() ? -1 : owner_rank, std::move(cells),
                    std::move(ghosts)};
    if (add) {
      std::swap(message.to, message.from);
      std::swap(message.send, message.receive);
    }
    list.push_back(std::move(message));
  }
  return list;
}

Field& Grid::create_field(std::size_t cell_bytes, Type type, bool ghosted) {
  const FieldShape shape{cell_bytes, type, spec_->in_place && !ghosted, spec_->backing, fields_made_++};
  fields_.push_back(std::make_unique<Field>(*node_, layout_, placement_, shape));
  MPI_Barrier(node_->local);  // zeroed everywhere
  return *fields_.back();
}

void Grid::free_field(const Field& field) {
  std::erase_if(exchanges_, [&](const Known& known) {
    return std::find(known.fields.begin(), known.fields.end(), &field) != known.fields.end();
  });
  std::erase_if(fields_, [&](const auto& owned) { return owned.get() == &field; });
}

Exchange* Grid::exchange_of(std::span<Field* const> fields, const Widths& widths, bool add) {
  bool in_place = true;
  for (const auto* field : fields) in_place = in_place && field->in_place();
  if (fields.empty() || (in_place && all_in_place_ && !add)) return nullptr;
  for (const auto& known : exchanges_)
    if (known.add == add && known.widths == widths && std::ranges::equal(known.fields, fields))
      return known.exchange.get();
  for (const auto* field : fields) {
    if (field->in_place() != in_place)
      throw Error(Code::argument, "fields with ghost cells of their own and without cannot be exchanged in one call");
    if (add && field->in_place())
      throw Error(Code::argument, "only fields with ghost cells of their own can be accumulated: create it as ghosted");
  }
  Move move;
  move.messages = messages(widths, in_place, add);
  for (const auto* field : fields) move.fields.push_back(field->cells());
  move.add = add;
  move.in_place = in_place;
  const bool free_choice = spec_->in_place && !in_place;
  const ProtocolSpec& spec = free_choice ? cheapest(*this, move) : *spec_;
  exchanges_.push_back(
      {{fields.begin(), fields.end()}, widths, add, std::make_unique<Exchange>(std::move(move), spec, *this, debug_)});
  return exchanges_.back().exchange.get();
}

std::unique_ptr<Exchange> Grid::exchange_of(const std::vector<Array>& arrays, const std::string& protocol, bool add) {
  Move move;
  move.messages = messages(layout_.halo, false, add);
  for (const auto& array : arrays) move.fields.push_back({array, {}});
  move.add = add;
  if (protocol == "measured") return fastest(move);
  const bool chosen = protocol.empty() || protocol == "auto";
  const ProtocolSpec& best = spec_->shared_only ? cheapest(*this, move) : persistent_protocol;
  const ProtocolSpec& spec = chosen ? best : find_protocol(protocol);
  if (spec.in_place || spec.needs_arrays)
    throw Error(Code::argument, std::string("'") + spec.name + "' moves fields of the library only, not your arrays");
  if (spec.shared_only && !spec_->shared_only)
    throw Error(Code::argument,
                std::string("'") + spec.name + "' needs a grid that shares memory, not one by '" + spec_->name + "'");
  if (spec.problem)
    if (const auto problem = spec.problem(*node_); !problem.empty()) throw Error(Code::unavailable, problem);
  return std::make_unique<Exchange>(std::move(move), spec, *this, debug_);
}

// Exchanges a few times by each protocol that could; the least of some batches counts, on the slowest rank.
std::unique_ptr<Exchange> Grid::fastest(const Move& move) {
  constexpr int batches = 7, exchanges = 5;
  std::unique_ptr<Exchange> best;
  double least = 0;
  for (const auto* spec : all_protocols()) {
    if (spec->in_place || spec->needs_arrays || (spec->shared_only && !spec_->shared_only)) continue;
    if (spec->problem && !spec->problem(*node_).empty()) continue;
    auto tried = std::make_unique<Exchange>(move, *spec, *this, false);
    double time = 1e9;
    for (int batch = 0; batch < batches; ++batch) {
      const double start_time = seconds();
      for (int i = 0; i < exchanges; ++i) {
        start(tried.get());
        finish();
      }
      time = std::min(time, seconds() - start_time);
    }
    current_ = nullptr;
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, node_->comm);
    if (best && time >= least) continue;
    best = std::move(tried);
    least = time;
  }
  return best;
}

void Grid::start(Exchange* exchange) {
  if (under_way_) throw Error(Code::order, "start was called twice without finish in between");
  if (exchange) exchange->prepare();
  ++phase_;
  for (const auto& peer : peers_) peer.mine->ready.store(phase_, std::memory_order_release);
  under_way_ = true;
  current_ = exchange;
  if (exchange) exchange->start();
}

void Grid::finish() {
  if (!under_way_) throw Error(Code::order, "finish was called without start");
  await_ready();
  under_way_ = false;
  if (current_) current_->finish();
  current_ = nullptr;
}

void Grid::await_ready() {
  for (const auto& peer : peers_)
    await(peer.theirs->ready, phase_, spins_, [&] { be_patient(peer.local, "started phase"); });
  waiting_since_ = 0;
}

Grid::Peer& Grid::peer(int rank) { return peers_[static_cast<std::size_t>(peer_index_[node_->index_here(rank)])]; }

void Grid::settle(const Move& move) {
  for (const auto& message : move.messages)
    if (message.from >= 0) {
      auto& from = peer(message.from);
      from.mine->taken.store(++from.told, std::memory_order_release);
    }
  for (const auto& message : move.messages)
    if (message.to >= 0) {
      auto& to = peer(message.to);
      await(to.theirs->taken, ++to.awaited, spins_, [&] { be_patient(to.local, "fetched cells of phase"); });
      waiting_since_ = 0;
    }
}

// Yields; looks every 20 ms whether the neighbour still lives.
void Grid::be_patient(int local, const char* what) {
  sched_yield();
  if (current_) current_->progress();
  const double now = seconds();
  if (waiting_since_ == 0) waiting_since_ = looked_at_ = now;
  if (now - looked_at_ < 0.02) return;
  looked_at_ = now;
  const auto rank = std::to_string(node_->rank_of[static_cast<std::size_t>(local)]);
  const long process = node_->process_of[static_cast<std::size_t>(local)];
  const auto text = "rank " + rank + " (process " + std::to_string(process) + ") ";
  if (processes_seen_ && is_gone(process))
    throw Error(Code::lost, text + "has died; rank " + std::to_string(node_->rank) + " waited for it");
  if (now - waiting_since_ < limit_s_) return;
  std::ostringstream late;
  late << text << "has not " << what << " " << phase_ << " within " << limit_s_
       << " s: do all ranks exchange the same fields in the same order?";
  throw Error(Code::late, late.str());
}

std::string Grid::explain() const {
  std::ostringstream text;
  const auto list = [&](const auto& three) {
    for (int d = 3 - dimensions_; d < 3; ++d)
      text << (d > 3 - dimensions_ ? " x " : "") << three[static_cast<std::size_t>(d)];
  };
  text << "grid of ";
  list(layout_.extents);
  text << " cells on ";
  list(layout_.dims);
  text << " ranks; rank " << node_->rank << " at ";
  for (int d = 3 - dimensions_; d < 3; ++d)
    text << (d > 3 - dimensions_ ? ", " : "(") << place()[static_cast<std::size_t>(d)];
  text << ") has ";
  list(own().extents());
  text << "\ncosts of " << known_.origin << "\npredicted time of an exchange by split:";
  for (const auto& [dims, time_ns] : splits_) {
    text << " ";
    list(dims);
    text << " " << std::round(time_ns) / 1e3 << " us" << (dims == splits_.back().first ? "" : ",");
  }
  text << "\nprotocol " << spec_->name << ": " << spec_->summary << "\n";
  if (!note_.empty()) text << note_ << "\n";
  int far = 0;
  for (const auto& message : messages(layout_.halo, false, false))
    far += message.from >= 0 && node_->local_of[static_cast<std::size_t>(message.from)] < 0;
  text << "neighbours: " << neighbours_in_place_ << " read in place, "
       << static_cast<int>(peers_.size()) - neighbours_in_place_ << " on the node by copy, " << far << " by MPI\n";
  if (node_->local_size > cpus_)
    text << "more ranks than CPUs here, " << node_->local_size << " on " << cpus_ << ": who waits yields soon\n";
  int number = 0;
  for (const auto& field : fields_) {
    text << "field " << number++ << (field->in_place() ? ": one array with its neighbours" : ": ghost cells of its own")
         << ", " << field->memory().explain();
    char huge[128];
    std::snprintf(huge, sizeof huge,
                  "; mapped by huge pages here: %.1f MiB; %.0f %% of its pages are one rank's alone\n",
                  static_cast<double>(field->memory().huge_bytes()) / (1 << 20),
                  100 * field->share_of_unshared_pages(*node_, layout_, placement_));
    text << huge;
  }
  for (const auto& known : exchanges_)
    text << "exchange of " << known.fields.size() << " field(s)" << (known.add ? ", reversed" : "") << ": "
         << known.exchange->spec().name << "\n";
  return text.str();
}

}  // namespace nearfield::halo
