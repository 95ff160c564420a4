// The wrappers of all functions in calls.def, under both of their names: Fortran's bindings, and other tools, call one
// or the other. Each goes on to the next library's function of the same name. The outermost call of a thread is counted,
// nothing that happens inside.
#include "base/mpi_handles.hpp"
#include "forecast/describe.hpp"
#include "forecast/record.hpp"
#include "forecast/shape.hpp"

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

template <int n, class Own>
[[gnu::noinline]] int counted(const Shape& shape, Function& function, Own own, Word* arguments, const void* site) {
  Thread& me = thread;
  Table* const table = me.depth == 0 && is_active.load(std::memory_order_relaxed) ? take_table() : nullptr;
  if (!table) return pass_on<n>(own, arguments);
  ++me.depth;
  Before before;
  look_before(shape, arguments, before);
  const std::uint64_t begun = ticks();
  const std::uint64_t between = shape.does == Does::poll && me.poll_end ? begun - me.poll_end : 0;
  const int result = pass_on<n>(own, arguments);
  const std::uint64_t ended = ticks();
  if (result == MPI_SUCCESS) look_after(shape, arguments, before, *table);
  count(*table, function, me.fortran_site ? me.fortran_site : site, before.did, begun, ended, between);
  me.poll_end = shape.does == Does::poll ? ended : 0;
  --me.depth;
  return result;
}

}  // namespace
}  // namespace nearfield::forecast

using namespace nearfield::forecast;

#define PARAMETERS_6 Word a, Word b, Word c, Word d, Word e, Word f
#define PARAMETERS_13 PARAMETERS_6, Word g, Word h, Word i, Word j, Word k, Word l, Word m
#define WORDS_6 a, b, c, d, e, f
#define WORDS_13 WORDS_6, g, h, i, j, k, l, m

// mpi.h declares the functions with their types; `asm` gives these here the same names.
#define ENTRY(symbol, id, n, its_name, its_next)                                                                   \
  extern "C" __attribute__((visibility("default"))) int id(PARAMETERS_##n) asm(symbol);                            \
  extern "C" int id(PARAMETERS_##n) {                                                                              \
    static const auto own = reinterpret_cast<decltype(&id)>(nearfield::next_or_abort(its_next, "PMPI_" its_name)); \
    Word words[] = {WORDS_##n};                                                                                    \
    return counted<n>(shape_of_##id, function_of_##id, own, words, __builtin_return_address(0));                   \
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
#include "forecast/calls.def"
