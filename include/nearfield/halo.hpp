// nearfield's halo library for C++20: a grid over a communicator, fields that neighbours on a node read in place.
// It wraps halo.h, the C interface, function by function. docs/tutorials/halo.md is a tutorial. The whole interface is
// in this one header.
//
//   nearfield::Grid<2> grid(MPI_COMM_WORLD, {.extents = {4096, 4096}, .halo = 1});
//   auto now = grid.field<double>(), next = grid.field<double>();
//   fill(now.view());
//   grid.exchange(now);
//   for (int step = 0; step < steps; ++step) {
//     sweep(now.view(), next.view());  // reads now(i - 1, j), which a neighbour may own; writes next(i, j)
//     grid.exchange(next);             // this rank's cells and its neighbours' cells are ready
//     std::swap(now, next);
//   }
//
// Types. The number of dimensions and the cell type are template parameters (Grid<3>, Field<double, 3>,
// View<double, 3>), so that mismatches do not compile. A cell is a number, or a std::array of numbers for several
// components.
//
// Phases. All ranks call start and finish alternately, with the same fields in the same order; exchange calls both:
//   start   this rank's cells may be read; from here until finish no rank may change cells that another rank reads
//   finish  returns when this rank may read its neighbours' cells, until the next start
// Between a finish and the next start, a cell that a neighbour may read must not be written. Two alternating fields and
// coloured sweeps (one phase per colour) obey this rule by design. The rule does not apply to ghosted fields
// (Grid::ghosted_field) and arrays of the caller (Grid::exchange_of): after finish the program may change all their
// cells.
//
// Ranks. Creating and destroying grids, fields and exchanges is collective over the communicator of the grid: all ranks
// do it in the same order. In a phase only neighbours wait for each other. Fields and exchanges must be destroyed
// before their grid, and the grid before MPI_Finalize; declaring the grid first in a scope ensures the former.
//
// Threads. One thread at a time may use a grid; the MPI thread level must allow it to call MPI. Any number of threads
// may use views concurrently, like plain arrays.
//
// Errors. Functions throw HaloError, whose text names the cause; destructors do not throw. After NF_LOST and NF_LATE,
// end the program by MPI_Abort: a grid can be neither used nor destroyed if some of its ranks do not take part. Views
// do not check indices, unless NEARFIELD_HALO_CHECK is defined (see View).
//
// Units. Extents, indices and widths count cells, the slowest-varying dimension first. Strides of views count numbers,
// since the distance of rows need not be a multiple of the cell size; strides of nf_array count bytes. Times are in
// seconds.
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

/// Qualifies a pointer parameter that no other pointer of the function aliases. Without it, compilers vectorise sweeps
/// over fields only behind a run-time check for aliasing, or not at all (Zhu et al., CCGrid 2015, section IV.A). GCC
/// ignores the qualifier on local pointers: if the pointers to rows are obtained in the same function, put
/// NEARFIELD_VECTORISE before the inner loop instead.
#define NEARFIELD_RESTRICT __restrict

/// Placed before a loop over a row, asserts that no pointer read in the loop aliases the cells that the loop writes.
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

/// The type of the numbers in a cell, and their count.
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

/// Number of cells of the whole grid per dimension.
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

/// A value per side of each dimension. Constructed from one value for all sides, or, per dimension, from one value for
/// both sides or {low, high}.
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
  Extents<N> extents;            ///< cells of the whole grid, the slowest-varying dimension first
  HaloWidths<N> halo = 1;        ///< width of the ghost cells
  Periodic<N> periodic = false;  ///< whether ghost cells beyond the grid are filled from its opposite end
  bool corners = true;           ///< whether ghost cells beyond edges and corners are filled, for box stencils
  std::array<int, N> dims{};     ///< ranks per dimension; 0: the library chooses
  bool reorder = true;           ///< whether ranks may be reordered, so that the ranks of a node are neighbours
  std::string protocol = "auto";
  double limit_s = 0;  ///< seconds to wait for a living neighbour; 0: 600. A dead one is detected at once
  std::string costs;   ///< file from `nearfield halo --costs`; empty: NEARFIELD_HALO_COSTS, or if unset, built-in costs
};

/// A half-open box [lo, hi) of cells, relative to the first cell of this rank's part. Ghost cells have indices below 0,
/// or at or above the extent of the part in that dimension.
template <int N>
struct Region {
  std::array<std::int64_t, N> lo{}, hi{};
  bool empty() const {
    for (int d = 0; d < N; ++d)
      if (hi[d] <= lo[d]) return true;
    return false;
  }
};

/// Accesses the cells of a field in loops. Cheap to copy; valid as long as the field and its grid. Indices are relative
/// to the first cell of this rank's part and extend into the halo. If NEARFIELD_HALO_CHECK is defined, every access
/// checks its index, and an access to a neighbour's cell between start and finish aborts the program with a message.
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

  /// Returns the address of the first cell of a row of this rank's part; the row extends contiguously into the halo on
  /// both sides.
  template <class... Indices>
  T* row(Indices... indices) const {
    static_assert(sizeof...(Indices) == N - 1, "a row of a view has one index less than the grid has dimensions");
    return &(*this)(indices..., std::int64_t{0});
  }

  /// Returns this rank's cells of a row, without ghost cells.
  template <class... Indices>
  std::span<T> own(Indices... indices) const {
    return {row(indices...), static_cast<std::size_t>(extents_[N - 1])};
  }

  std::int64_t extent(int d) const { return extents_[d]; }
  const std::array<std::int64_t, N>& extents() const { return extents_; }  ///< this rank's cell count per dimension
  const std::array<std::int64_t, N>& strides() const { return strides_; }  ///< strides in numbers, not in cells
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

/// A field: one value of type T per cell of the grid, initially zero. Created by Grid::field and destroyed before its
/// grid, both collectively. Movable and swappable, but not copyable.
template <class T, int N>
class Field {
  static_assert(halo_detail::is_cell<T>, "a cell is a number of at most 8 bytes, or a std::array of such numbers");

 public:
  /// Creates an empty field, into which another field can be moved.
  Field() = default;
  Field(Field&& other) noexcept { swap(other); }
  Field& operator=(Field&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Field() { nf_field_free(&handle_); }

  View<T, N> view() const;

  /// Returns whether neighbours on the node read the field in place.
  bool in_place() const { return nf_field_in_place(handle_); }
  /// Returns the address of the first cell of this rank's part.
  T* data() const { return static_cast<T*>(nf_field_data(handle_)); }
  nf_field* handle() const { return handle_; }

  void ready() const { grid_->start(*this); }  ///< starts a phase with this field
  void wait() const { grid_->finish(); }       ///< ends the phase

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

/// A halo exchange of arrays that the caller owns and that must not move. Created by Grid::exchange_of and destroyed
/// before its grid, but not between start and finish; both collectively. Movable, but not copyable.
class Exchange {
 public:
  Exchange(Exchange&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Exchange() { nf_exchange_free(&handle_); }
  void start() { halo_detail::check(nf_exchange_start(handle_)); }
  void finish() { halo_detail::check(nf_exchange_finish(handle_)); }
  void operator()() { halo_detail::check(nf_exchange_run(handle_)); }  ///< calls start() and finish()
  /// Exchanges in reverse: sends ghost cells to their owners, which add them to their own cells.
  void accumulate() { halo_detail::check(nf_exchange_accumulate(handle_)); }
  std::string protocol() const { return nf_exchange_protocol(handle_); }

 private:
  template <int>
  friend class Grid;
  explicit Exchange(nf_exchange* handle) : handle_(handle) {}
  nf_exchange* handle_;
};

/// A box of cells of N dimensions, decomposed into one part per rank. Neither copyable nor movable, since its fields
/// refer to it.
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
  std::int64_t first(int d) const { return info_.start[d]; }  ///< index of this rank's first cell in the whole grid
  std::int64_t count(int d) const { return info_.count[d]; }  ///< number of this rank's cells
  /// Returns a human-readable explanation of the grid's decisions: decomposition, neighbours, memory and pages.
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

  /// Starts a phase: from now on, neighbours may read this rank's cells of these fields.
  template <class... T>
  void start(const Field<T, N>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    halo_detail::check(nf_start(handle_, list.data(), static_cast<int>(list.size())));
    under_way_ = true;
  }
  /// Ends a phase: waits until this rank may read its neighbours' cells.
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
  /// Runs a whole phase that fills only ghost cells up to this `width`, which is at most the halo width of the grid.
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
  /// Runs a whole phase in reverse: sends ghost cells to their owners, which add them to their own cells. Requires
  /// ghosted fields.
  template <class... T>
  void accumulate(const Field<T, N>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    halo_detail::check(nf_accumulate(handle_, list.data(), static_cast<int>(list.size())));
  }
  /// Sets up an exchange of arrays with ghost cells, by the named protocol, by the protocol with the lowest predicted
  /// cost ("auto"), or by the protocol that was fastest in a few trial exchanges ("measured"). Collective.
  Exchange exchange_of(const std::vector<nf_array>& arrays, const std::string& protocol = "auto") {
    nf_exchange* made = nullptr;
    halo_detail::check(
        nf_exchange_create(handle_, arrays.data(), static_cast<int>(arrays.size()), protocol.c_str(), &made));
    return Exchange(made);
  }

  /// Returns the box of all cells of this rank.
  Region<N> all() const {
    Region<N> region;
    for (int d = 0; d < N; ++d) region.hi[d] = info_.count[d];
    return region;
  }
  /// Returns the cells whose stencil reads no cell outside this rank's part, if the stencil is as wide as the halo.
  Region<N> interior() const {
    auto region = all();
    for (int d = 0; d < N; ++d) {
      const auto& widths = halo_.each[static_cast<std::size_t>(d)];
      region.lo[d] = std::min<std::int64_t>(widths.low, info_.count[d]);
      region.hi[d] = std::max<std::int64_t>(region.lo[d], info_.count[d] - widths.high);
    }
    return region;
  }
  /// Returns the cells of this rank that are not in interior(), as boxes that do not overlap, low sides first.
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

/// Calls body with the N indices of every cell of the region, such as body(i, j, k); the last index varies fastest.
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
