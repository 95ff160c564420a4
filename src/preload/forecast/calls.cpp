// The wrappers of all functions in the table calls.def, under their MPI_ and their PMPI_ names, since Fortran bindings
// and other tools may call either. Each wrapper calls the definition of the same name in the next library. Only the
// outermost call of a thread is counted.
#include <algorithm>
#include <utility>

#include "preload/forecast/describe.hpp"
#include "preload/forecast/polls.hpp"
#include "preload/forecast/record.hpp"
#include "preload/forecast/shape.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::forecast {
namespace {

using namespace shapes;

template <int n, class Own>
int call_with_words(Own own, const Word* w) {
  if constexpr (n == 6)
    return own(w[0], w[1], w[2], w[3], w[4], w[5]);
  else
    return own(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12]);
}

// One call of an MPI function, as passed to count_timed() and count_successful_poll().
struct Call {
  const CallShape& shape;
  MpiFunction& function;
  Word* arguments;
  const void* site;
  Table& table;
};

template <int n, class Own>
int count_timed(const Call& call, Own own) {
  const auto& [shape, function, arguments, site, table] = call;
  PollState& last = poll_state;
  CallObservation before;
  observe_before_call(shape, arguments, before);
  const std::uint64_t begun = read_ticks();
  const std::uint64_t since_poll = count_untimed_polls(last, table, begun);
  const CallDescription pending = before.did;
  const int result = call_with_words<n>(own, arguments);
  const std::uint64_t ended = read_ticks();
  if (result == MPI_SUCCESS) observe_after_call(shape, arguments, before, table);
  const bool is_poll = shape.does == CallAction::poll;
  Row& row = count_call(table, function, site, before.did, begun, ended, is_poll ? since_poll : 0);
  last.function = nullptr;
  last.ended = is_poll ? ended : 0;
  if (is_poll && since_poll && result == MPI_SUCCESS && has_poll_found_nothing(shape, arguments)) {
    last.row = &row;
    last.did = pending;
    last.call = ended - begun;
    last.gap = since_poll;
    begin_untimed_polls(last, function, site, shape, arguments);
  }
  return result;
}

// Counts a poll that found something, and whose beginning was not timed.
[[gnu::noinline]] void count_successful_poll(const Call& call) {
  PollState& last = poll_state;
  const std::uint64_t ended = read_ticks(), left = count_untimed_polls(last, call.table, ended),
                      gap = std::min(left, last.gap);
  CallObservation before;
  before.did = last.did;
  observe_after_call(call.shape, call.arguments, before, call.table);
  count_call(call.table, call.function, call.site, before.did, ended - (left - gap), ended, gap);
  last.function = nullptr;
  last.ended = ended;
}

template <int n, class Own>
[[gnu::noinline]] int count_and_call(const CallShape& shape, MpiFunction& function, Own own, Word* arguments,
                                     const void* site) {
  ThreadState& me = thread_state;
  Table* const table = me.depth == 0 && is_active.load(std::memory_order_relaxed) ? get_thread_table() : nullptr;
  if (!table) return call_with_words<n>(own, arguments);
  ++me.depth;
  const int result =
      count_timed<n>({shape, function, arguments, me.fortran_site ? me.fortran_site : site, *table}, own);
  --me.depth;
  return result;
}

// Performs and counts a call of any function of the table. A poll that repeats the previous poll costs only a few
// instructions.
template <const CallShape& shape, int n, class Own>
[[gnu::always_inline]] inline int call_and_count(MpiFunction& function, Own own, const Word (&arguments)[n],
                                                 const void* site) {
  if constexpr (shape.does == CallAction::poll) {
    ThreadState& me = thread_state;
    PollState& last = poll_state;
    if (me.fortran_site) site = me.fortran_site;
    if (me.depth == 0 && is_repeated_poll(last, function, site, shape, arguments)) {
      ++me.depth;
      const int result = call_with_words<n>(own, arguments);
      if (result != MPI_SUCCESS || has_poll_found_nothing(shape, arguments)) {
        ++last.untimed;
      } else {
        Word words[n];
        std::copy_n(arguments, n, words);
        count_successful_poll({shape, function, words, site, *me.table});
      }
      --me.depth;
      return result;
    }
  }
  Word words[n];
  std::copy_n(arguments, n, words);
  return count_and_call<n>(shape, function, own, words, site);
}

// Returns the overhead of the wrapper per call in ticks: the minimum of several means, since other processes may use
// the core at the same time.
template <const CallShape& shape>
double measure_call_ticks(const Word (&arguments)[6]) {
  static MpiFunction function{"-", 1};
  static constexpr auto do_nothing = [](Word, Word, Word, Word, Word, Word) { return MPI_SUCCESS; };
  constexpr int means = 8, times = max_untimed_polls + 1;
  std::uint64_t minimum = ~std::uint64_t{0};
  for (int mean = 0; mean < means; ++mean) {
    const std::uint64_t begun = read_ticks();
    for (int i = 0; i < times; ++i) call_and_count<shape>(function, do_nothing, arguments, nullptr);
    minimum = std::min(minimum, read_ticks() - begun);
  }
  return static_cast<double>(minimum) / times;
}

template <class Handle>
Word as_word(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Word>(handle);
  else
    return handle;
}

}  // namespace

void measure_layer_overhead() {
  static constexpr CallShape sends = send(), queries = completes(0).polls(1);
  static Table scratch;
  const ThreadState before = std::exchange(thread_state, ThreadState{.has_requested_table = true, .table = &scratch});
  MPI_Request request = MPI_REQUEST_NULL;
  int flag = 0;
  Word to_self[] = {0, 1, as_word(MPI_BYTE), 0, 0, as_word(MPI_COMM_WORLD)},
       one_request[] = {as_word(&request), as_word(&flag), 0, 0, 0, 0};
  set_layer_overhead(measure_call_ticks<sends>(to_self), measure_call_ticks<queries>(one_request));
  thread_state = before;
  poll_state = {};
}
}  // namespace nearfield::forecast

using namespace nearfield::forecast;

#define PARAMETERS_6 Word a, Word b, Word c, Word d, Word e, Word f
#define PARAMETERS_13 PARAMETERS_6, Word g, Word h, Word i, Word j, Word k, Word l, Word m
#define WORDS_6 a, b, c, d, e, f
#define WORDS_13 WORDS_6, g, h, i, j, k, l, m

// mpi.h declares these functions with their types; `asm` gives the functions defined here the same symbol names.
#define ENTRY(symbol, id, n, name_text, next_name)                                                               \
  extern "C" __attribute__((visibility("default"))) int id(PARAMETERS_##n) asm(symbol);                          \
  extern "C" int id(PARAMETERS_##n) {                                                                            \
    const auto own = nearfield::find_once(                                                                       \
        [] { return reinterpret_cast<decltype(&id)>(nearfield::next_or_abort(next_name, "PMPI_" name_text)); }); \
    const Word words[] = {WORDS_##n};                                                                            \
    return call_and_count<shape_of_##id, n>(function_of_##id, own, words, __builtin_return_address(0));          \
  }

#define CALL_AS(name, n, shape)                                         \
  static constexpr CallShape shape_of_##name = [] {                     \
    using namespace nearfield::forecast::shapes;                        \
    return shape;                                                       \
  }();                                                                  \
  static MpiFunction function_of_##name{"MPI_" #name};                  \
  static constexpr const CallShape& shape_of_p##name = shape_of_##name; \
  static MpiFunction& function_of_p##name = function_of_##name;         \
  ENTRY("MPI_" #name, name, n, #name, "MPI_" #name)                     \
  ENTRY("PMPI_" #name, p##name, n, #name, "PMPI_" #name)

#define CALL(name, fortran, n, shape) CALL_AS(name, n, (shape))
#if MPI_VERSION >= 4
#define BOTH(name, fortran, n, shape) CALL_AS(name, n, (shape)) CALL_AS(name##_c, n, (shape).large())
#else
#define BOTH(name, fortran, n, shape) CALL_AS(name, n, (shape))
#endif
#define COLLECTIVE(name, fortran, iname, n, shape)                     \
  BOTH(name, fortran, n, shape)                                        \
  BOTH(iname, i##fortran, n, (shape).begins(shape_of_##name.comm + 1)) \
  BOTH(name##_init, fortran##_init, n, (shape).persists(shape_of_##name.comm + 2))
#include "preload/mpi/calls.def"
