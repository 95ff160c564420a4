// Random calls of MPI's blocking collectives, whose results are all compared with values that are computed here. argv:
// a seed, how many steps, and "threads" if three threads shall do so at the same time, each on its own communicators.
// Rank 0 prints "all right" and a digest of all results, which depends on the arguments and the number of ranks alone.
//
// All ranks draw the same random numbers, so that they agree on each step without a word. Element i of what a rank
// sends is a hash of the step, the rank and i, so that each rank knows what it must receive. Each buffer has a copy
// that holds what must be in it after the call, also in gaps, before the data and after them. Up to 31 ranks may take
// part.
#include "collectives_random.hpp"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "collectives_random_calls.hpp"

namespace {

class Program {
 public:
  Program(int thread, Word seed, MPI_Comm world, MPI_Comm self)
      : thread_(thread), seed_(mix(seed, static_cast<Word>(thread))), digest_(mix(seed_, static_cast<Word>(own))) {
    const int half = (ranks + 1) / 2, colour = own < half ? 0 : 1;
    MPI_Comm dup, halves, inter = MPI_COMM_NULL;
    MPI_Comm_dup(world, &dup);
    MPI_Comm_split(world, colour, -own, &halves);
    if (ranks > 1) MPI_Intercomm_create(halves, 0, world, colour == 0 ? ranks - 1 : half - 1, 1, &inter);
    communicators_ = {describe("the world", world, 0),
                      describe("a dup", dup, 1),
                      describe("a half", halves, colour),
                      describe("self", self, own),
                      describe("a renewed one", MPI_COMM_NULL, 0),
                      describe("both halves", inter, colour)};
    for (int kind = 0; kind < static_cast<int>(std::size(kinds)); ++kind)
      for (int form = 0; form < forms; ++form) layouts_.push_back(create_layout(kind, form, mix(seed_, own)));
  }

  void run(long steps) {
    alignas(64) Byte on_stack[2][fixed_bytes];
    alignas(64) static Byte in_static[max_threads][2][fixed_bytes];
    sent_.buffer.use(on_stack[0], in_static[thread_][0]);
    received_.buffer.use(on_stack[1], in_static[thread_][1]);
    for (long step = 0; step < steps; ++step) do_step(step);
    for (Communicator* communicator : {&communicators_[1], &communicators_[2], &communicators_[4], &communicators_[5]})
      if (communicator->comm != MPI_COMM_NULL) MPI_Comm_free(&communicator->comm);
    for (std::size_t i = 0; i < layouts_.size(); ++i)
      if (i % forms != plain) MPI_Type_free(&layouts_[i].type);
  }

  Word digest() const { return digest_; }

 private:
  static Communicator describe(const char* name, MPI_Comm comm, int colour) {
    Communicator communicator{name, comm, 0, 0, 0, static_cast<Word>(colour)};
    if (comm == MPI_COMM_NULL) return communicator;
    int is_inter = 0;
    MPI_Comm_rank(comm, &communicator.rank);
    MPI_Comm_size(comm, &communicator.size);
    MPI_Comm_test_inter(comm, &is_inter);
    if (is_inter) MPI_Comm_remote_size(comm, &communicator.remote_size);
    return communicator;
  }

  Layout& layout(int kind, int form) { return layouts_[static_cast<std::size_t>(kind * forms + form)]; }

  void do_step(long step) {
    random_ = {mix(seed_, static_cast<Word>(step) + 1)};
    call = {};
    call.step = step;
    call.thread = thread_;
    call.key = random_.state;
    if (random_.below(24) == 0 || step == 0) renew_communicator();
    if (random_.below(24) == 0) renew_type();
    draw_call();
    if (call.operation == barrier) return check_barrier();
    return call.operation < reduce ? move_data() : reduce_data();
  }

  // Ranks may be in any order in the new communicator, and in up to three of them.
  void renew_communicator() {
    Communicator& renewed = communicators_[4];
    if (renewed.comm != MPI_COMM_NULL) MPI_Comm_free(&renewed.comm);
    const Word hash = mix(call.key, static_cast<Word>(own));
    const int colour = static_cast<int>(hash % (1 + random_.below(3)));
    MPI_Comm_split(communicators_[0].comm, colour, static_cast<int>(hash >> 40), &renewed.comm);
    renewed = describe(renewed.name, renewed.comm, colour);
  }

  // The new type may be described by the handle of the old one. It has other gaps on each rank.
  void renew_type() {
    const int kind = static_cast<int>(random_.below(movable)), form = 1 + static_cast<int>(random_.below(forms - 1));
    MPI_Type_free(&layout(kind, form).type);
    layout(kind, form) = create_layout(kind, form, mix(call.key, static_cast<Word>(own)));
  }

  void draw_call() {
    static constexpr int choices[] = {0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 4, 5, 5};
    static constexpr int between[] = {barrier, bcast, allgather};
    const std::size_t chosen = static_cast<std::size_t>(choices[random_.below(ranks > 1 ? 16 : 14)]);
    call.on = communicators_[chosen];
    call.operation = chosen == 5 ? between[random_.below(3)] : static_cast<int>(random_.below(operations));
    call.count = draw_count();
    call.is_in_place = random_.below(3) == 0 && chosen != 5 && call.operation != bcast;
    call.is_derived = random_.below(3) == 0 && call.operation < reduce;
    call.kind = static_cast<int>(random_.below(movable));
    if (call.operation >= reduce) draw_reduction();
    const std::size_t root = random_.below(1 << 20), root_colour = random_.below(2), traffic = random_.below(24);
    const bool is_far = call.on.remote_size > 0 && call.on.colour != root_colour;
    call.root = static_cast<int>(root) % (is_far ? call.on.remote_size : call.on.size);
    call.is_root = call.on.rank == call.root && !is_far;
    call.is_root_far = is_far;
    if (call.on.remote_size > 0) return;
    call.has_message = traffic < 3 && call.on.size > 1;
    call.has_iallreduce = traffic > 1 && traffic < 4;
    call.has_ibarrier = traffic == 4;
    avoid_known_errors();
  }

  // Leaves out what MPICH 4.0.2 or Open MPI 4.1.4 does wrong without a layer. So do value_of, choose_form and
  // choose_range.
  static void avoid_known_errors() {
    // MPICH uses MPI_IN_PLACE as an address (its issue 6540).
    if (call.operation == reduce && call.root > 0) call.is_in_place = false;
    // MPICH combines bytes of gaps.
    if (call.operation == reduce_scatter_block || call.operation == reduce_scatter) call.is_derived = false;
    // For one rank, MPICH's Allgatherv ignores the displacement (its issue 6374), and Open MPI's Alltoallw counts it in
    // extents.
    call.has_no_gaps = call.on.size == 1;
  }

  std::size_t draw_count() {
    const std::size_t choice = random_.below(16);
    if (choice < 2) return choice;
    const std::size_t bits = choice < 7    ? 1 + random_.below(3)
                             : choice < 14 ? 4 + random_.below(7)
                                           : 11 + random_.below(6);
    return std::min(max_elements, (std::size_t{1} << bits) + random_.below(std::size_t{1} << bits));
  }

  void draw_reduction() {
    call.reduction = static_cast<int>(random_.below(std::size(reductions)));
    const Reduction& reduction = reductions[call.reduction];
    const int choices = 1 + reduction.last_kind - reduction.first_kind;
    call.kind = reduction.first_kind + static_cast<int>(random_.below(static_cast<std::size_t>(choices)));
    call.is_derived = call.kind == matrices && random_.below(2) == 0;
    call.count = std::min(call.count, max_bytes / (2 * kinds[call.kind].size));
  }

  // Delays some ranks, and makes the call during other communication.
  template <typename F>
  void make_call(F function) {
    traffic_.begin();
    delay();
    check(function() == MPI_SUCCESS, "the call returned an error");
    traffic_.end();
  }

  static void delay() {
    const Word hash = mix(call.key, static_cast<Word>(own) + 1000);
    if (call.key % 200 == 0 && hash % 2 == 0) usleep(2000);
    if (call.key % 2 == 0) return;
    if (hash % 4 == 0) usleep(static_cast<useconds_t>((hash >> 8) % 300));
    const auto end = read_clock() + static_cast<std::int64_t>((hash >> 8) % 30000);
    while (hash % 4 == 1 && read_clock() < end) continue;
  }

  static std::int64_t read_clock() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // No rank leaves a barrier before the last one has entered it. Clocks of cores may differ by a little.
  void check_barrier() {
    std::int64_t entered = 0, left = 0, last = 0;
    make_call([&] {
      entered = read_clock();
      const int error = MPI_Barrier(call.on.comm);
      left = read_clock();
      return error;
    });
    MPI_Allreduce(&entered, &last, 1, MPI_INT64_T, MPI_MAX, call.on.comm);
    check(!is_one_node || left + 2000 >= last, "a rank left before another one entered");
  }

  static bool has_varied_counts() {
    constexpr int varied[] = {gatherv, scatterv, allgatherv, alltoallv, alltoallw};
    return std::find(std::begin(varied), std::end(varied), call.operation) != std::end(varied);
  }
  static bool is_all_to_all() { return call.operation >= alltoall && call.operation <= alltoallw; }

  // Returns the key of what one rank sends to another, or to all of them.
  static Word key_of(bool sends, int peer) {
    const bool is_for_all = call.operation == bcast || call.operation == allgather || call.operation == allgatherv;
    const int from = sends ? call.on.rank : peer, to = sends ? peer : call.on.rank;
    Word origin = call.on.colour;
    if (call.on.remote_size > 0) origin = call.operation == bcast ? 2 : sends ? origin : 1 - origin;
    return mix(mix(call.key, origin), static_cast<Word>(from) << 32 | static_cast<Word>(is_for_all ? 0 : to + 1));
  }

  // Returns how many elements, or items of a derived type, are sent from one rank to another.
  static std::size_t count_of(Word hash) {
    const std::size_t max_count = call.is_derived ? (call.count + item_elements - 1) / item_elements : call.count;
    if (!has_varied_counts() || max_count == 0) return max_count;
    return hash % 4 == 0 ? 0 : (1 + (hash >> 8) % max_count) >> (hash >> 3) % 6;
  }

  // Extents are the same on all ranks in Allgatherv, since MPICH divides messages into parts of that number of extents.
  static int choose_form(Word hash) {
    if (!call.is_derived) return plain;
    if (call.operation == allgatherv) return hash % 3 == 0 ? contiguous : interleaved;
    return 1 + static_cast<int>((hash >> 20) % (forms - 1));
  }

  // Gives each peer's part its place in the buffer of one side, with gaps and in reverse if the operation permits that.
  // In place, two ranks send as much to each other as they receive.
  void lay_out(Side& side, bool sends, int first, int last) {
    const bool has_types = call.operation == alltoallw,
               has_gaps = has_varied_counts() && (is_all_to_all() || sends == (call.operation == scatterv)) &&
                          !call.has_no_gaps;
    const Word hash = mix(call.key, static_cast<Word>(2 * own + sends) + 2000);
    std::size_t at = 0, tail = 0;
    side.resize(static_cast<std::size_t>(last - first));
    for (int i = first; i < last; ++i) {
      const int peer = has_gaps && (hash >> 40) % 2 == 0 ? last - 1 - (i - first) : i;
      const bool is_swapped = is_all_to_all() && call.is_in_place && peer < call.on.rank;
      const Word pair = mix(key_of(sends != is_swapped, peer), 1), local = has_types ? mix(hash, peer) : hash;
      const int kind = has_types ? static_cast<int>((pair >> 40) % movable) : call.kind;
      const Layout& layout = this->layout(kind, choose_form(local));
      const std::size_t items = count_of(pair) * (call.is_derived ? item_elements / layout.offsets.size() : 1);
      if (has_gaps) at += layout.extent * (mix(local, peer) % 4);
      side.set(static_cast<std::size_t>(peer - first), {peer, kind, &layout, items, at}, has_types ? 1 : layout.extent);
      at += items * layout.extent;
      tail = std::max(tail, layout.tail);
      if (has_types) at = (at + tail + 15) / 16 * 16;
    }
    side.buffer.open(hash, at + tail, has_types ? 16 : kinds[call.kind].size);
  }

  void lay_out_sides() {
    const int operation = call.operation, all = call.on.size, root = call.root;
    if (operation <= scatterv && !call.is_root) call.is_in_place = false;
    const bool is_separate = !call.is_in_place;
    if (operation == bcast && (call.is_root || call.on.remote_size == 0 || call.is_root_far))
      lay_out(received_, false, root, root + 1);
    if (operation == gather || operation == gatherv) {
      if (is_separate) lay_out(sent_, true, root, root + 1);
      if (call.is_root) lay_out(received_, false, 0, all);
    }
    if (operation == scatter || operation == scatterv) {
      if (call.is_root) lay_out(sent_, true, 0, all);
      if (is_separate) lay_out(received_, false, root, root + 1);
    }
    if (operation < allgather) return;
    if (is_separate) lay_out(sent_, true, 0, is_all_to_all() ? all : 1);
    lay_out(received_, false, 0, call.on.remote_size > 0 ? call.on.remote_size : all);
  }

  // The buffer of what is received has inputs in place, too.
  void move_data() {
    sent_.resize(0);
    received_.resize(0);
    lay_out_sides();
    const bool is_source = call.operation == bcast && call.is_root;
    for (const Part& part : sent_.parts) sent_.write(part, key_of(true, part.peer));
    for (const Part& part : received_.parts)
      if (is_source || (call.is_in_place && (is_all_to_all() || part.peer == call.on.rank)))
        received_.write(part, key_of(true, part.peer));
    sent_.buffer.publish();
    received_.buffer.publish();
    if (!is_source)
      for (const Part& part : received_.parts) received_.write(part, key_of(false, part.peer));
    make_call([this] {
      return call.operation < allgather ? call_rooted(sent_, received_) : call_unrooted(sent_, received_);
    });
    check_buffers();
  }

  void check_buffers() {
    sent_.buffer.close("the call wrote to what is sent");
    digest_ = mix(digest_, received_.buffer.close("the buffer does not hold what must be received"));
  }

  // Elements of the input and of the result, and the first element of the input that is combined into the result.
  struct Range {
    std::size_t in, out, first;
  };
  Range choose_range() {
    const std::size_t count = call.count, all = static_cast<std::size_t>(call.on.size),
                      rank = static_cast<std::size_t>(call.on.rank);
    counts_.clear();
    if (call.operation == reduce_scatter_block) return {count * all, count, count * rank};
    if (call.operation != reduce_scatter) return {count, count, 0};
    Range range{};
    for (std::size_t i = 0; i < all; ++i) {
      const Word hash = mix(mix(call.key, call.on.colour), i + 3000);
      const std::size_t part = hash % 4 == 0 || count == 0 ? 0 : (1 + (hash >> 8) % count) >> (hash >> 3) % 6;
      if (range.in > 0 && range.in < part) call.is_in_place = false;  // MPICH refuses to copy so far
      if (i == rank) range.first = range.in, range.out = part;
      range.in += part;
      counts_.push_back(static_cast<int>(part));
    }
    return range;
  }

  void reduce_data() {
    const Range range = choose_range();
    const bool receives = call.operation != reduce || call.is_root;
    call.is_in_place = call.is_in_place && receives;
    const Kind& kind = kinds[call.kind];
    const Layout& layout = this->layout(call.kind, call.is_derived ? resized : plain);
    const Op op = static_cast<Op>(call.reduction);
    std::vector<Word> keys;
    for (int rank = 0; rank < call.on.size; ++rank) keys.push_back(mix(mix(call.key, call.on.colour), rank));
    Buffer &in = call.is_in_place ? received_.buffer : sent_.buffer, &out = received_.buffer;
    const Word hash = mix(call.key, static_cast<Word>(own) + 4000);
    out.open(hash, layout.extent * (call.is_in_place ? range.in : range.out), kind.size);
    if (!call.is_in_place) in.open(hash >> 20, layout.extent * range.in, kind.size);
    kind.write(in.expected(0), layout, range.in, op, 0, {keys[static_cast<std::size_t>(call.on.rank)]});
    in.publish();
    out.publish();
    if (call.operation == scan) keys.resize(static_cast<std::size_t>(call.on.rank) + 1);
    if (call.operation == exscan) keys.resize(static_cast<std::size_t>(call.on.rank));
    if (receives && !keys.empty()) kind.write(out.expected(0), layout, range.out, op, range.first, keys);
    make_call([&] { return call_reducing(in, out, range.out, counts_, layout.type); });
    forget_undefined(range, layout);
    check_buffers();
  }

  // Bytes that MPI may change: padding, what Exscan gives to rank 0, and input in place beyond a shorter result.
  void forget_undefined(const Range& range, const Layout& layout) {
    const bool is_undefined = call.operation == exscan && call.on.rank == 0;
    const std::size_t first = is_undefined ? 0 : range.out, last = call.is_in_place ? range.in : range.out;
    received_.buffer.forget(first * layout.extent, (last - first) * layout.extent);
    for (std::size_t i = 0; call.kind == double_pairs && i < range.out; ++i)
      received_.buffer.forget(i * sizeof(DoublePair) + offsetof(DoublePair, padding), sizeof(int));
  }

  int thread_;
  Word seed_, digest_;
  Random random_{};
  std::vector<Communicator> communicators_;
  std::vector<Layout> layouts_;
  Side sent_, received_;
  Traffic traffic_;
  std::vector<int> counts_;
};

bool are_all_on_one_node() {
  MPI_Comm node;
  int size = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  return size == ranks;
}

// Returns the digest of all threads' results.
Word run_threads(Word seed, long steps) {
  MPI_Comm worlds[max_threads], selves[max_threads];
  Word digests[max_threads] = {}, all = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < max_threads; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &worlds[i]);
    MPI_Comm_dup(MPI_COMM_SELF, &selves[i]);
  }
  for (int i = 0; i < max_threads; ++i)
    threads.emplace_back([&, i] {
      Program program(i, seed, worlds[i], selves[i]);
      program.run(steps);
      digests[i] = program.digest();
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < max_threads; ++i) {
    all = mix(all, digests[i]);
    MPI_Comm_free(&worlds[i]);
    MPI_Comm_free(&selves[i]);
  }
  return all;
}

Word run_alone(Word seed, long steps) {
  Program program(0, seed, MPI_COMM_WORLD, MPI_COMM_SELF);
  program.run(steps);
  return program.digest();
}

}  // namespace

int main(int argc, char** argv) {
  const Word seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const long steps = argc > 2 ? std::atol(argv[2]) : 1000;
  const bool has_threads = argc > 3 && std::strcmp(argv[3], "threads") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (has_threads && provided < MPI_THREAD_MULTIPLE) {
    if (own == 0) std::printf("no threads\n");
  } else {
    is_one_node = are_all_on_one_node();
    create_kinds();
    create_reductions();
    Word own_digest = has_threads ? run_threads(seed, steps) : run_alone(seed, steps), all = 0;
    MPI_Reduce(&own_digest, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    MPI_Type_free(&kinds[matrices].type);
    MPI_Op_free(&reductions[modular_sum].op);
    MPI_Op_free(&reductions[matrix_product].op);
    if (own == 0) std::printf("all right %016llx\n", static_cast<unsigned long long>(all));
  }
  MPI_Finalize();
}
