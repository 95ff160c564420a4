// nearfield's halo library for C++20: a grid over a communicator, fields that neighbours on a node read in place.
// It wraps halo.h, the C interface, function by function. docs/tutorials/halo.md teaches it.
//
//   nearfield::Grid<2> grid(MPI_COMM_WORLD, {.extents = {4096, 4096}, .halo = 1});
//   auto now = grid.field<double>(), next = grid.field<double>();
//   fill(now.view());
//   grid.exchange(now);
//   for (int step = 0; step < steps; ++step) {
//     sweep(now.view(), next.view());  // reads now(i - 1, j) although a neighbour owns it, writes next(i, j)
//     grid.exchange(next);             // my cells are ready, and so are my neighbours'
//     std::swap(now, next);
//   }
//
// Types. The number of dimensions and the type of a cell are part of the types, so that a wrong one does not compile:
// Grid<3>, Field<double, 3>, View<double, 3>. A cell is a number, or a std::array of numbers for several components.
//
// Phases. All ranks call start and finish in turns, with the same fields in the same order; exchange calls both:
//   start   my cells are ready to be read; from here until finish nobody may change cells that others read
//   finish  returns when my neighbours' cells may be read, until the next start
// Between a finish and the next start, a cell that a neighbour may read must not be written. Two fields that take turns
// and coloured sweeps (each colour a phase) keep this rule by themselves. Ghosted fields (Grid::ghosted_field) and the
// caller's arrays (Grid::exchange_of) are free of it: after finish all cells may be changed.
//
// Ranks. Making and destroying grids, fields and exchanges is collective over the grid's communicator: all ranks do it
// in the same order. In a phase only neighbours wait for each other. All that belongs to a grid is destroyed before it,
// and the grid before MPI_Finalize; objects in one scope, the grid declared first, do so.
//
// Threads. One thread at a time may use a grid, and it must be one that may call MPI. Any number of threads may use
// views at once, as they may use plain arrays.
//
// Errors. Functions throw HaloError, whose text names the cause; destructors do not throw. After NF_LOST and NF_LATE
// end the program (MPI_Abort): a grid whose ranks do not all take part can be neither used nor destroyed. Views check
// nothing, unless NEARFIELD_HALO_CHECK is defined (see View).
//
// Units. Extents, indices and widths count cells, slowest dimension first. Strides of views count numbers, since rows
// of cells of several components need not be whole cells apart; those of nf_array count bytes. Times are seconds.
//
// Link with nearfield::halo (CMake) or `pkg-config nearfield-halo`.
#pragma once

#if __cplusplus < 202002L
#error "nearfield/halo.hpp needs C++20: compile with -std=c++20"
#endif

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nearfield/halo.h"

/// Marks a parameter: no other pointer of the function aliases it. Without it compilers do not vectorise sweeps over
/// fields, or only behind a run-time check (S1, IV.A). GCC ignores it on local pointers: if rows are obtained in the
/// same function, put NEARFIELD_VECTORISE before the inner loop.
#define NEARFIELD_RESTRICT __restrict

/// Precedes a loop over a row that does not read through another pointer what it writes.
#if defined(__clang__)
#define NEARFIELD_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define NEARFIELD_VECTORISE _Pragma("GCC ivdep")
#else
#define NEARFIELD_VECTORISE
#endif

namespace nearfield {

class HaloError : public std::runtime_error {
 public:
  HaloError(int code, const std::string& text) : std::runtime_error(text), code(code) {}
  int code;  ///< NF_LOST, NF_MEMORY, ...
};

namespace halo_detail {

inline void check(int code) {
  if (code != NF_OK) throw HaloError(code, nf_error_text());
}

/// Defines the type and the count of the numbers in a cell.
template <class T>
struct Cell {
  using Number = T;
  static constexpr int components = 1;
};
template <class T, std::size_t Components>
struct Cell<std::array<T, Components>> {
  using Number = T;
  static constexpr int components = static_cast<int>(Components);
};

template <class T>
inline constexpr bool is_number = std::is_same_v<T, std::remove_cv_t<T>> && std::is_arithmetic_v<T> && sizeof(T) <= 8;
template <class T>
inline constexpr bool is_cell = is_number<typename Cell<T>::Number> && (Cell<T>::components > 0);

template <class T>
constexpr nf_type type_of() {
  if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? NF_F32 : NF_F64;
  else if constexpr (sizeof(T) == 1)
    return std::is_signed_v<T> ? NF_I8 : NF_U8;
  else if constexpr (sizeof(T) == 2)
    return std::is_signed_v<T> ? NF_I16 : NF_U16;
  else if constexpr (sizeof(T) == 4)
    return std::is_signed_v<T> ? NF_I32 : NF_U32;
  else
    return std::is_signed_v<T> ? NF_I64 : NF_U64;
}

}  // namespace halo_detail

/// Cells of the whole grid, per dimension.
template <int N>
class Extents {
 public:
  template <class... Cells>
    requires(std::convertible_to<Cells, std::int64_t> && ...)
  Extents(Cells... cells) {
    static_assert(sizeof...(Cells) == N, "extents: give one number per dimension of the grid");
    if constexpr (sizeof...(Cells) == N) each = {static_cast<std::int64_t>(cells)...};
  }
  std::array<std::int64_t, N> each{};
};

/// One value for all sides, or one per dimension: a value for both of its sides, or {low, high}.
template <class T, int N>
class PerSide {
 public:
  struct Sides {
    Sides(T both = T()) : low(both), high(both) {}
    Sides(T low, T high) : low(low), high(high) {}
    T low, high;
  };
  PerSide(T all) { each.fill(all); }
  PerSide(Sides a)
    requires(N == 1)
      : each{{a}} {}
  PerSide(Sides a, Sides b)
    requires(N == 2)
      : each{{a, b}} {}
  PerSide(Sides a, Sides b, Sides c)
    requires(N == 3)
      : each{{a, b, c}} {}
  std::array<Sides, N> each;
};

template <int N>
using HaloWidths = PerSide<int, N>;  ///< in cells
template <int N>
using Periodic = PerSide<bool, N>;

template <int N>
struct GridOptions {
  Extents<N> extents;            ///< of the whole grid, slowest dimension first
  HaloWidths<N> halo = 1;        ///< ghost cells
  Periodic<N> periodic = false;  ///< whether ghost cells beyond the grid are filled from its other end
  bool corners = true;           ///< whether ghost cells beyond edges and corners are filled, for box stencils
  std::array<int, N> dims{};     ///< ranks per dimension; 0: chosen
  bool reorder = true;           ///< whether ranks may be placed so that those of a node are neighbours
  std::string protocol = "auto";
  double limit_s = 0;  ///< longest wait for a living neighbour; 0: 600. A dead one is noticed at once
  std::string costs;   ///< a file that `nearfield halo --costs` wrote; empty: NEARFIELD_HALO_COSTS, else defaults
};

/// The half-open range [lo, hi) of cells of a rank's part, relative to its first cell. Ghost cells have indices below
/// 0, or not below the part's extent in that dimension.
template <int N>
struct Region {
  std::array<std::int64_t, N> lo{}, hi{};
  bool empty() const {
    for (int d = 0; d < N; ++d)
      if (hi[d] <= lo[d]) return true;
    return false;
  }
};

/// Accesses cells in loops; cheap to copy, and valid as long as the field and its grid. Indices are relative to the
/// first cell of this rank's part and extend into the halo. With NEARFIELD_HALO_CHECK defined each index is checked,
/// and reading a neighbour's cell between start and finish stops the program with the location.
template <class T, int N>
class View {
  using Number = typename halo_detail::Cell<T>::Number;

 public:
  View(T* first, const std::array<std::int64_t, N>& strides, const std::array<std::int64_t, N>& extents,
       const std::array<std::array<int, 2>, N>& halo, const bool* under_way)
      : first_(first), strides_(strides), extents_(extents), halo_(halo), under_way_(under_way) {}

  template <class... Indices>
    requires(std::integral<Indices> && ...)
  T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == N, "a cell of a view has one index per dimension of the grid");
    const std::array<std::int64_t, N> at{static_cast<std::int64_t>(indices)...};
#ifdef NEARFIELD_HALO_CHECK
    check(at);
#endif
    std::int64_t offset = 0;
    for (int d = 0; d < N; ++d) offset += at[d] * strides_[d];
    return *reinterpret_cast<T*>(reinterpret_cast<Number*>(first_) + offset);
  }

  /// Returns the first cell of a row of this rank's part; the row extends contiguously into the halo on both sides.
  template <class... Indices>
  T* row(Indices... indices) const {
    static_assert(sizeof...(Indices) == N - 1, "a row of a view has one index less than the grid has dimensions");
    return &(*this)(indices..., std::int64_t{0});
  }

  /// Returns this rank's cells of a row.
  template <class... Indices>
  std::span<T> own(Indices... indices) const {
    return {row(indices...), static_cast<std::size_t>(extents_[N - 1])};
  }

  std::int64_t extent(int d) const { return extents_[d]; }
  const std::array<std::int64_t, N>& extents() const { return extents_; }  ///< this rank's cells per dimension
  const std::array<std::int64_t, N>& strides() const { return strides_; }  ///< counted in numbers, not in cells
  T* data() const { return first_; }

 private:
  void check(const std::array<std::int64_t, N>& at) const {
    bool own = true;
    for (int d = 0; d < N; ++d) {
      own = own && at[d] >= 0 && at[d] < extents_[d];
      if (at[d] < -halo_[d][0] || at[d] >= extents_[d] + halo_[d][1]) fail(at, "is beyond the halo");
    }
    if (!own && *under_way_) fail(at, "is a neighbour's, and was used between start and finish");
  }
  [[noreturn]] static void fail(const std::array<std::int64_t, N>& at, const char* what) {
    std::fprintf(stderr, "nearfield: cell (");
    for (int d = 0; d < N; ++d) std::fprintf(stderr, "%s%lld", d ? ", " : "", static_cast<long long>(at[d]));
    std::fprintf(stderr, ") %s\n", what);
    std::abort();
  }

  T* first_;
  std::array<std::int64_t, N> strides_, extents_;
  std::array<std::array<int, 2>, N> halo_;
  const bool* under_way_;
};

template <int N>
class Grid;

/// One cell of type T for each cell of the grid, initially zero. Created by Grid::field and destroyed before its grid,
/// both collectively. Movable, and so swappable, but not copyable.
template <class T, int N>
class Field {
  static_assert(halo_detail::is_cell<T>, "a cell is a number of at most 8 bytes, or a std::array of such numbers");

 public:
  /// Creates a field without cells, to which a field can be moved.
  Field() = default;
  Field(Field&& other) noexcept { swap(other); }
  Field& operator=(Field&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Field() { nf_field_free(&handle_); }

  View<T, N> view() const;

  /// Returns whether neighbours on the node read it in place.
  bool in_place() const { return nf_field_in_place(handle_); }
  /// Returns the first cell of this rank's part.
  T* data() const { return static_cast<T*>(nf_field_data(handle_)); }
  nf_field* handle() const { return handle_; }

  void ready() const { grid_->start(*this); }  ///< the start of a phase with this field
  void wait() const { grid_->finish(); }       ///< and its end

 private:
  friend class Grid<N>;
  Field(Grid<N>* grid, nf_field* handle) : grid_(grid), handle_(handle) {}
  void swap(Field& other) {
    std::swap(grid_, other.grid_);
    std::swap(handle_, other.handle_);
  }

  Grid<N>* grid_ = nullptr;
  nf_field* handle_ = nullptr;
};

/// An exchange of the caller's arrays, which must not move. Created by Grid::exchange_of and destroyed before its grid,
/// but not between start and finish; both collectively. Movable but not copyable.
class Exchange {
 public:
  Exchange(Exchange&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Exchange() { nf_exchange_free(&handle_); }
  void start() { halo_detail::check(nf_exchange_start(handle_)); }
  void finish() { halo_detail::check(nf_exchange_finish(handle_)); }
  void operator()() { halo_detail::check(nf_exchange_run(handle_)); }  ///< start and finish
  /// Exchanges in reverse: adds ghost cells to their owners' cells.
  void accumulate() { halo_detail::check(nf_exchange_accumulate(handle_)); }
  std::string protocol() const { return nf_exchange_protocol(handle_); }

 private:
  template <int>
  friend class Grid;
  explicit Exchange(nf_exchange* handle) : handle_(handle) {}
  nf_exchange* handle_;
};

/// A box of cells of N dimensions, split into one part per rank. Neither copyable nor movable, since its fields refer
/// to it.
template <int N>
class Grid {
  static_assert(N >= 1 && N <= 3, "a grid has one to three dimensions");

 public:
  Grid(MPI_Comm comm, const GridOptions<N>& options) : halo_(options.halo) {
    nf_grid_options plain = nf_grid_defaults();
    plain.dimensions = N;
    for (std::size_t d = 0; d < N; ++d) {
      plain.extents[d] = options.extents.each[d];
      plain.dims[d] = options.dims[d];
      plain.halo[d][0] = halo_.each[d].low;
      plain.halo[d][1] = halo_.each[d].high;
      plain.periodic[d][0] = options.periodic.each[d].low;
      plain.periodic[d][1] = options.periodic.each[d].high;
    }
    plain.corners = options.corners;
    plain.reorder = options.reorder;
    plain.protocol = options.protocol.c_str();
    plain.limit_s = options.limit_s;
    plain.costs = options.costs.empty() ? nullptr : options.costs.c_str();
    halo_detail::check(nf_grid_create(comm, &plain, &handle_));
    halo_detail::check(nf_grid_get_info(handle_, &info_));
  }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;
  ~Grid() { nf_grid_free(&handle_); }

  const nf_grid_info& info() const { return info_; }
  std::int64_t first(int d) const { return info_.start[d]; }  ///< the index of this rank's first cell in the whole grid
  std::int64_t count(int d) const { return info_.count[d]; }  ///< this rank's cells
  /// Returns what was chosen and why, in text for people: the decomposition, neighbours, memory, pages.
  std::string explain() const {
    std::string text(nf_grid_explain(handle_, nullptr, 0), '\0');
    nf_grid_explain(handle_, text.data(), text.size());
    text.pop_back();
    return text;
  }

  /// Creates a field that neighbours on the node read in place, if the grid's protocol permits. Collective.
  template <class T>
  Field<T, N> field() {
    return make_field<T>(NF_IN_PLACE);
  }
  /// Creates a field with ghost cells of its own on every rank, which `accumulate` requires. Collective.
  template <class T>
  Field<T, N> ghosted_field() {
    return make_field<T>(NF_GHOSTED);
  }

  /// Starts a phase: neighbours may read this rank's cells of these fields.
  template <class... T>
  void start(const Field<T, N>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    halo_detail::check(nf_start(handle_, list.data(), static_cast<int>(list.size())));
    under_way_ = true;
  }
  /// Waits until neighbours' cells may be read.
  void finish() {
    halo_detail::check(nf_finish(handle_));
    under_way_ = false;
  }
  /// Runs a whole phase: start and finish.
  template <class... T>
  void exchange(const Field<T, N>&... fields) {
    start(fields...);
    finish();
  }
  /// Runs a whole phase that fills only `width` ghost cells, at most as many as the grid has.
  template <class... T>
  void exchange_width(const HaloWidths<N>& width, const Field<T, N>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    int plain[3][2] = {};
    for (std::size_t d = 0; d < N; ++d) {
      plain[d][0] = width.each[d].low;
      plain[d][1] = width.each[d].high;
    }
    halo_detail::check(nf_start_width(handle_, list.data(), static_cast<int>(list.size()), plain));
    finish();
  }
  /// Runs a whole phase in reverse: adds ghost cells to their owners' cells. Requires ghosted fields.
  template <class... T>
  void accumulate(const Field<T, N>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    halo_detail::check(nf_accumulate(handle_, list.data(), static_cast<int>(list.size())));
  }
  /// Sets up an exchange of arrays with ghost cells, by the named protocol, the cheapest ("auto") or the fastest of a
  /// few exchanges by each ("measured"). Collective.
  Exchange exchange_of(const std::vector<nf_array>& arrays, const std::string& protocol = "auto") {
    nf_exchange* made = nullptr;
    halo_detail::check(
        nf_exchange_create(handle_, arrays.data(), static_cast<int>(arrays.size()), protocol.c_str(), &made));
    return Exchange(made);
  }

  /// Returns all cells of this rank.
  Region<N> all() const {
    Region<N> region;
    for (int d = 0; d < N; ++d) region.hi[d] = info_.count[d];
    return region;
  }
  /// Returns the cells for which a stencil of the halo's widths reads nothing beyond this rank's part.
  Region<N> interior() const {
    auto region = all();
    for (int d = 0; d < N; ++d) {
      const auto& widths = halo_.each[static_cast<std::size_t>(d)];
      region.lo[d] = std::min<std::int64_t>(widths.low, info_.count[d]);
      region.hi[d] = std::max<std::int64_t>(region.lo[d], info_.count[d] - widths.high);
    }
    return region;
  }
  /// Returns the other cells, in boxes that do not overlap, low sides first.
  std::vector<Region<N>> boundary() const {
    std::vector<Region<N>> list;
    const auto inner = interior();
    auto rest = all();
    for (int d = 0; d < N; ++d) {
      auto low = rest, high = rest;
      low.hi[d] = inner.lo[d];
      high.lo[d] = inner.hi[d];
      if (!low.empty()) list.push_back(low);
      if (!high.empty()) list.push_back(high);
      rest.lo[d] = inner.lo[d];
      rest.hi[d] = inner.hi[d];
    }
    return list;
  }

  nf_grid* handle() const { return handle_; }

 private:
  template <class, int>
  friend class Field;

  template <class T>
  Field<T, N> make_field(int storage) {
    using Cell = halo_detail::Cell<T>;
    nf_field* field = nullptr;
    halo_detail::check(
        nf_field_create(handle_, halo_detail::type_of<typename Cell::Number>(), Cell::components, storage, &field));
    return Field<T, N>(this, field);
  }

  HaloWidths<N> halo_;
  nf_grid* handle_ = nullptr;
  nf_grid_info info_{};
  bool under_way_ = false;
};

template <class T, int N>
View<T, N> Field<T, N>::view() const {
  if (!handle_) throw HaloError(NF_ARGUMENT, "this field has no cells: no grid has made it, or it was moved away");
  std::int64_t bytes[3];
  nf_field_strides(handle_, bytes);
  std::array<std::int64_t, N> strides{}, extents{};
  std::array<std::array<int, 2>, N> halo{};
  for (int d = 0; d < N; ++d) {
    const auto& widths = grid_->halo_.each[static_cast<std::size_t>(d)];
    strides[d] = bytes[d] / static_cast<std::int64_t>(sizeof(typename halo_detail::Cell<T>::Number));
    extents[d] = grid_->info_.count[d];
    halo[d] = {widths.low, widths.high};
  }
  return {data(), strides, extents, halo, &grid_->under_way_};
}

/// Calls body(i, j, k) (as many as N) for every cell of the region, the last index fastest.
template <int N, class Body>
void for_each_cell(const Region<N>& region, Body&& body) {
  if constexpr (N == 1) {
    for (auto i = region.lo[0]; i < region.hi[0]; ++i) body(i);
  } else if constexpr (N == 2) {
    for (auto i = region.lo[0]; i < region.hi[0]; ++i)
      for (auto j = region.lo[1]; j < region.hi[1]; ++j) body(i, j);
  } else {
    for (auto i = region.lo[0]; i < region.hi[0]; ++i)
      for (auto j = region.lo[1]; j < region.hi[1]; ++j)
        for (auto k = region.lo[2]; k < region.hi[2]; ++k) body(i, j, k);
  }
}

}  // namespace nearfield
