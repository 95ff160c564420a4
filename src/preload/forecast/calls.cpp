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

using namespace signatures;

template <int num_arguments, class NextFunction>
int call_with_words(NextFunction next_function, const ArgumentWord* words) {
  if constexpr (num_arguments == 6)
    return next_function(words[0], words[1], words[2], words[3], words[4], words[5]);
  else
    return next_function(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7], words[8],
                         words[9], words[10], words[11], words[12]);
}

// One call of an MPI function, as passed to time_and_count_call() and count_successful_poll().
struct TimedCall {
  const ArgumentPositions& positions;
  MpiFunction& function;
  ArgumentWord* arguments;
  const void* site;
  ThreadTable& table;
};

template <int num_arguments, class NextFunction>
int time_and_count_call(const TimedCall& call, NextFunction next_function) {
  const auto& [positions, function, arguments, site, table] = call;
  PollState& poll = poll_state;
  CallObservation observation;
  observe_before_call(positions, arguments, observation);
  const std::uint64_t begin_ticks = read_ticks();
  const std::uint64_t since_poll = count_untimed_polls(poll, table, begin_ticks);
  const CallDescription description_before_call = observation.description;
  const int result = call_with_words<num_arguments>(next_function, arguments);
  const std::uint64_t end_ticks = read_ticks();
  if (result == MPI_SUCCESS) observe_after_call(positions, arguments, observation, table);
  const bool is_poll = positions.action == CallAction::poll;
  CallRow& row =
      count_call(table, function, site, observation.description, begin_ticks, end_ticks, is_poll ? since_poll : 0);
  poll.function = nullptr;
  poll.end_ticks = is_poll ? end_ticks : 0;
  if (is_poll && since_poll && result == MPI_SUCCESS && has_poll_found_nothing(positions, arguments)) {
    poll.row = &row;
    poll.description = description_before_call;
    poll.call_ticks = end_ticks - begin_ticks;
    poll.gap_ticks = since_poll;
    begin_untimed_polls(poll, function, site, positions, arguments);
  }
  return result;
}

// Counts a poll that has found something and whose start was not timed.
[[gnu::noinline]] void count_successful_poll(const TimedCall& call) {
  PollState& poll = poll_state;
  const std::uint64_t end_ticks = read_ticks(), untimed_ticks = count_untimed_polls(poll, call.table, end_ticks),
                      gap_ticks = std::min(untimed_ticks, poll.gap_ticks);
  CallObservation observation;
  observation.description = poll.description;
  observe_after_call(call.positions, call.arguments, observation, call.table);
  count_call(call.table, call.function, call.site, observation.description, end_ticks - (untimed_ticks - gap_ticks),
             end_ticks, gap_ticks);
  poll.function = nullptr;
  poll.end_ticks = end_ticks;
}

template <int num_arguments, class NextFunction>
[[gnu::noinline]] int call_and_count_if_outermost(const ArgumentPositions& positions, MpiFunction& function,
                                                  NextFunction next_function, ArgumentWord* arguments,
                                                  const void* site) {
  ThreadState& thread = thread_state;
  ThreadTable* const table =
      thread.depth == 0 && is_active.load(std::memory_order_relaxed) ? find_or_assign_thread_table() : nullptr;
  if (!table) return call_with_words<num_arguments>(next_function, arguments);
  ++thread.depth;
  const int result = time_and_count_call<num_arguments>(
      {positions, function, arguments, thread.fortran_site ? thread.fortran_site : site, *table}, next_function);
  --thread.depth;
  return result;
}

// Performs and counts a call of any function of the table. A poll that repeats the previous poll costs only a few
// instructions.
template <const ArgumentPositions& positions, int num_arguments, class NextFunction>
[[gnu::always_inline]] inline int call_and_count(MpiFunction& function, NextFunction next_function,
                                                 const ArgumentWord (&arguments)[num_arguments], const void* site) {
  if constexpr (positions.action == CallAction::poll) {
    ThreadState& thread = thread_state;
    PollState& poll = poll_state;
    if (thread.fortran_site) site = thread.fortran_site;
    if (thread.depth == 0 && is_repeated_poll(poll, function, site, positions, arguments)) {
      ++thread.depth;
      const int result = call_with_words<num_arguments>(next_function, arguments);
      if (result != MPI_SUCCESS || has_poll_found_nothing(positions, arguments)) {
        ++poll.num_untimed;
      } else {
        ArgumentWord words[num_arguments];
        std::copy_n(arguments, num_arguments, words);
        count_successful_poll({positions, function, words, site, *thread.table});
      }
      --thread.depth;
      return result;
    }
  }
  ArgumentWord words[num_arguments];
  std::copy_n(arguments, num_arguments, words);
  return call_and_count_if_outermost<num_arguments>(positions, function, next_function, words, site);
}

// Returns the overhead of the wrapper per call in ticks. Takes the minimum of several means, since other processes may
// use the core at the same time.
template <const ArgumentPositions& positions>
double measure_call_ticks(const ArgumentWord (&arguments)[6]) {
  static MpiFunction function{"-", 1};
  static constexpr auto do_nothing = [](ArgumentWord, ArgumentWord, ArgumentWord, ArgumentWord, ArgumentWord,
                                        ArgumentWord) { return MPI_SUCCESS; };
  constexpr int num_means = 8, calls_per_mean = max_untimed_polls + 1;
  std::uint64_t minimum = ~std::uint64_t{0};
  for (int mean = 0; mean < num_means; ++mean) {
    const std::uint64_t begin_ticks = read_ticks();
    for (int i = 0; i < calls_per_mean; ++i) call_and_count<positions>(function, do_nothing, arguments, nullptr);
    minimum = std::min(minimum, read_ticks() - begin_ticks);
  }
  return static_cast<double>(minimum) / calls_per_mean;
}

template <class Handle>
ArgumentWord as_word(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<ArgumentWord>(handle);
  else
    return handle;
}

}  // namespace

void measure_layer_overhead() {
  static constexpr ArgumentPositions send_positions = send(), poll_positions = completion_of(0).is_poll_with_flag_at(1);
  static ThreadTable scratch;
  const ThreadState saved_state =
      std::exchange(thread_state, ThreadState{.has_requested_table = true, .table = &scratch});
  MPI_Request request = MPI_REQUEST_NULL;
  int flag = 0;
  ArgumentWord to_self[] = {0, 1, as_word(MPI_BYTE), 0, 0, as_word(MPI_COMM_WORLD)},
               one_request[] = {as_word(&request), as_word(&flag), 0, 0, 0, 0};
  set_layer_overhead(measure_call_ticks<send_positions>(to_self), measure_call_ticks<poll_positions>(one_request));
  thread_state = saved_state;
  poll_state = {};
}
}  // namespace nearfield::forecast

using namespace nearfield::forecast;

#define PARAMETERS_6 ArgumentWord a, ArgumentWord b, ArgumentWord c, ArgumentWord d, ArgumentWord e, ArgumentWord f
#define PARAMETERS_13                                                                                           \
  PARAMETERS_6, ArgumentWord g, ArgumentWord h, ArgumentWord i, ArgumentWord j, ArgumentWord k, ArgumentWord l, \
      ArgumentWord m
#define WORDS_6 a, b, c, d, e, f
#define WORDS_13 WORDS_6, g, h, i, j, k, l, m

// mpi.h declares these functions with their types; `asm` gives the functions defined here the same symbol names.
#define DEFINE_WRAPPER(symbol, id, num_arguments, name_text, next_name)                                               \
  extern "C" __attribute__((visibility("default"))) int id(PARAMETERS_##num_arguments) asm(symbol);                   \
  extern "C" int id(PARAMETERS_##num_arguments) {                                                                     \
    const auto next_function = nearfield::find_once(                                                                  \
        [] { return reinterpret_cast<decltype(&id)>(nearfield::find_next_or_abort(next_name, "PMPI_" name_text)); }); \
    const ArgumentWord words[] = {WORDS_##num_arguments};                                                             \
    return call_and_count<shape_of_##id, num_arguments>(function_of_##id, next_function, words,                       \
                                                        __builtin_return_address(0));                                 \
  }

#define CALL_AS(name, num_arguments, positions)                                 \
  static constexpr ArgumentPositions shape_of_##name = [] {                     \
    using namespace nearfield::forecast::signatures;                            \
    return positions;                                                           \
  }();                                                                          \
  static MpiFunction function_of_##name{"MPI_" #name};                          \
  static constexpr const ArgumentPositions& shape_of_p##name = shape_of_##name; \
  static MpiFunction& function_of_p##name = function_of_##name;                 \
  DEFINE_WRAPPER("MPI_" #name, name, num_arguments, #name, "MPI_" #name)        \
  DEFINE_WRAPPER("PMPI_" #name, p##name, num_arguments, #name, "PMPI_" #name)

#define CALL(name, fortran, num_arguments, positions) CALL_AS(name, num_arguments, (positions))
#if MPI_VERSION >= 4
#define CALL_WITH_LARGE(name, fortran, num_arguments, positions) \
  CALL_AS(name, num_arguments, (positions)) CALL_AS(name##_c, num_arguments, (positions).with_large_counts())
#else
#define CALL_WITH_LARGE(name, fortran, num_arguments, positions) CALL_AS(name, num_arguments, (positions))
#endif
#define COLLECTIVE_CALL(name, fortran, iname, num_arguments, positions)                                       \
  CALL_WITH_LARGE(name, fortran, num_arguments, positions)                                                    \
  CALL_WITH_LARGE(iname, i##fortran, num_arguments, (positions).creates_request_at(shape_of_##name.comm + 1)) \
  CALL_WITH_LARGE(name##_init, fortran##_init, num_arguments,                                                 \
                  (positions).creates_persistent_request_at(shape_of_##name.comm + 2))
#include "preload/mpi/calls.def"
