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
int pass_on(Own own, const Word* w) {
  if constexpr (n == 6)
    return own(w[0], w[1], w[2], w[3], w[4], w[5]);
  else
    return own(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12]);
}

// One call of an MPI function, as passed to count_timed() and count_successful_poll().
struct Call {
  const Shape& shape;
  Function& function;
  Word* arguments;
  const void* site;
  Table& table;
};

template <int n, class Own>
int count_timed(const Call& call, Own own) {
  const auto& [shape, function, arguments, site, table] = call;
  Polls& last = polls;
  Before before;
  look_before(shape, arguments, before);
  const std::uint64_t begun = ticks();
  const std::uint64_t since_poll = end_untimed(last, table, begun);
  const Did pending = before.did;
  const int result = pass_on<n>(own, arguments);
  const std::uint64_t ended = ticks();
  if (result == MPI_SUCCESS) look_after(shape, arguments, before, table);
  const bool is_poll = shape.does == Does::poll;
  Row& row = count(table, function, site, before.did, begun, ended, is_poll ? since_poll : 0);
  last.function = nullptr;
  last.ended = is_poll ? ended : 0;
  if (is_poll && since_poll && result == MPI_SUCCESS && found_nothing(shape, arguments)) {
    last.row = &row;
    last.did = pending;
    last.call = ended - begun;
    last.gap = since_poll;
    begin_untimed(last, function, site, shape, arguments);
  }
  return result;
}

// Counts a poll that found something, and whose beginning was not timed.
[[gnu::noinline]] void count_found(const Call& call) {
  Polls& last = polls;
  const std::uint64_t ended = ticks(), left = end_untimed(last, call.table, ended), gap = std::min(left, last.gap);
  Before before;
  before.did = last.did;
  look_after(call.shape, call.arguments, before, call.table);
  count(call.table, call.function, call.site, before.did, ended - (left - gap), ended, gap);
  last.function = nullptr;
  last.ended = ended;
}

template <int n, class Own>
[[gnu::noinline]] int counted(const Shape& shape, Function& function, Own own, Word* arguments, const void* site) {
  Thread& me = thread;
  Table* const table = me.depth == 0 && is_active.load(std::memory_order_relaxed) ? take_table() : nullptr;
  if (!table) return pass_on<n>(own, arguments);
  ++me.depth;
  const int result =
      count_timed<n>({shape, function, arguments, me.fortran_site ? me.fortran_site : site, *table}, own);
  --me.depth;
  return result;
}

// Performs and counts a call of any function of the table. A poll that repeats the previous poll costs only a few
// instructions.
template <const Shape& shape, int n, class Own>
[[gnu::always_inline]] inline int counted_or_untimed(Function& function, Own own, const Word (&arguments)[n],
                                                     const void* site) {
  if constexpr (shape.does == Does::poll) {
    Thread& me = thread;
    Polls& last = polls;
    if (me.fortran_site) site = me.fortran_site;
    if (me.depth == 0 && repeats(last, function, site, shape, arguments)) {
      ++me.depth;
      const int result = pass_on<n>(own, arguments);
      if (result != MPI_SUCCESS || found_nothing(shape, arguments)) {
        ++last.untimed;
      } else {
        Word words[n];
        std::copy_n(arguments, n, words);
        count_found({shape, function, words, site, *me.table});
      }
      --me.depth;
      return result;
    }
  }
  Word words[n];
  std::copy_n(arguments, n, words);
  return counted<n>(shape, function, own, words, site);
}

// Returns the overhead of the wrapper per call in ticks: the minimum of several means, since other processes may use
// the core at the same time.
template <const Shape& shape>
double measure_ticks(const Word (&arguments)[6]) {
  static Function function{"-", 1};
  static constexpr auto do_nothing = [](Word, Word, Word, Word, Word, Word) { return MPI_SUCCESS; };
  constexpr int means = 8, times = max_untimed + 1;
  std::uint64_t minimum = ~std::uint64_t{0};
  for (int mean = 0; mean < means; ++mean) {
    const std::uint64_t begun = ticks();
    for (int i = 0; i < times; ++i) counted_or_untimed<shape>(function, do_nothing, arguments, nullptr);
    minimum = std::min(minimum, ticks() - begun);
  }
  return static_cast<double>(minimum) / times;
}

template <class Handle>
Word word(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Word>(handle);
  else
    return handle;
}

}  // namespace

void measure_layer() {
  static constexpr Shape sends = send(), queries = completes(0).polls(1);
  static Table scratch;
  const Thread before = std::exchange(thread, Thread{.has_requested_table = true, .table = &scratch});
  MPI_Request request = MPI_REQUEST_NULL;
  int flag = 0;
  Word to_self[] = {0, 1, word(MPI_BYTE), 0, 0, word(MPI_COMM_WORLD)},
       one_request[] = {word(&request), word(&flag), 0, 0, 0, 0};
  set_cost(measure_ticks<sends>(to_self), measure_ticks<queries>(one_request));
  thread = before;
  polls = {};
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
    return counted_or_untimed<shape_of_##id, n>(function_of_##id, own, words, __builtin_return_address(0));      \
  }

#define CALL_AS(name, n, shape)                                     \
  static constexpr Shape shape_of_##name = [] {                     \
    using namespace nearfield::forecast::shapes;                    \
    return shape;                                                   \
  }();                                                              \
  static Function function_of_##name{"MPI_" #name};                 \
  static constexpr const Shape& shape_of_p##name = shape_of_##name; \
  static Function& function_of_p##name = function_of_##name;        \
  ENTRY("MPI_" #name, name, n, #name, "MPI_" #name)                 \
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
