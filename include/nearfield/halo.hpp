// nearfield's halo library for C++20: a grid over a communicator, fields that neighbours on a node read in place.
// What phases are, and the rule to keep in them, is in halo.h; docs/halo.md teaches.
//
//   nearfield::Grid grid(MPI_COMM_WORLD, {.extents = {4096, 4096}, .halo = 1});
//   auto now = grid.field<double>(), next = grid.field<double>();
//   for (...) {
//     sweep(now.view(), next.view());  // reads now(i - 1, j) although a neighbour owns it
//     grid.exchange(next);             // my cells are ready, and so are my neighbours'
//     std::swap(now, next);
//   }
//
// Errors throw nearfield::HaloError. Link with nearfield::halo (CMake) or `pkg-config nearfield-halo`.
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

/// For parameters: no other pointer of the function points there. Without it compilers vectorise sweeps over fields not
/// at all, or behind a check at run time (S1, IV.A). GCC takes no notice of it on local pointers: where rows are taken
/// in the same function, NEARFIELD_VECTORISE stands before the inner loop.
#define NEARFIELD_RESTRICT __restrict

/// Before a loop over a row: what it writes it does not read through another pointer.
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

template <class T>
constexpr nf_type type_of() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, long double>, "fields hold arithmetic types");
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

/// One number for all dimensions and sides, or {low, high} per dimension.
class HaloWidths {
 public:
  HaloWidths(int all = 0) {
    for (auto& sides : widths) sides = {all, all};
  }
  HaloWidths(std::initializer_list<std::array<int, 2>> each) {
    std::size_t d = 0;
    for (const auto& sides : each)
      if (d < 3) widths[d++] = sides;
  }
  std::array<std::array<int, 2>, 3> widths{};
};

/// One answer for all dimensions and sides, or per dimension one answer or {low, high}.
class Periodic {
 public:
  struct Sides {
    Sides(bool both = false) : Sides(both, both) {}
    Sides(bool low, bool high) : low(low), high(high) {}
    bool low, high;
  };
  Periodic(bool all = false) : sides{all, all, all} {}
  Periodic(std::initializer_list<Sides> each) {
    std::size_t d = 0;
    for (const auto& one : each)
      if (d < 3) sides[d++] = one;
  }
  std::array<Sides, 3> sides;
};

struct GridOptions {
  std::vector<std::int64_t> extents;  ///< of the whole grid, slowest first; one to three
  HaloWidths halo = 1;
  Periodic periodic = false;
  bool corners = true;        ///< fill ghost cells beyond edges and corners
  std::array<int, 3> dims{};  ///< ranks per dimension; 0: chosen
  bool reorder = true;        ///< ranks of a node become neighbours
  std::string protocol = "auto";
  double limit_s = 0;  ///< for neighbours that live; 0: 600
  std::string costs;   ///< a file that `nearfield halo --costs` wrote; empty: NEARFIELD_HALO_COSTS, else defaults
};

/// Cells [lo, hi) of a rank's part, from its first cell; ghost cells have indices below 0 and from its extents on.
template <int N>
struct Region {
  std::array<std::int64_t, N> lo{}, hi{};
  bool empty() const {
    for (int d = 0; d < N; ++d)
      if (hi[d] <= lo[d]) return true;
    return false;
  }
};

/// What a loop uses: cheap to copy, valid as long as the field. Indices count from the first cell of this rank's part
/// and reach into the halo. With NEARFIELD_HALO_CHECK defined each index is checked, and reading a neighbour's cell
/// between start and finish stops the program with the place.
template <class T, int N>
class View {
 public:
  View(T* first, const std::array<std::int64_t, N>& strides, const std::array<std::int64_t, N>& extents,
       const std::array<std::array<int, 2>, N>& halo, const bool* under_way)
      : first_(first), strides_(strides), extents_(extents), halo_(halo), under_way_(under_way) {}

  template <class... Indices>
    requires(sizeof...(Indices) == N && (std::integral<Indices> && ...))
  T& operator()(Indices... indices) const {
    const std::array<std::int64_t, N> at{static_cast<std::int64_t>(indices)...};
#ifdef NEARFIELD_HALO_CHECK
    check(at);
#endif
    std::int64_t offset = 0;
    for (int d = 0; d < N; ++d) offset += at[d] * strides_[d];
    return first_[offset];
  }

  /// The first cell of a row of this rank's part; the row goes on contiguously into the halo on both sides.
  template <class... Indices>
    requires(sizeof...(Indices) == N - 1)
  T* row(Indices... indices) const {
    return &(*this)(indices..., std::int64_t{0});
  }

  /// This rank's cells of a row.
  template <class... Indices>
    requires(sizeof...(Indices) == N - 1)
  std::span<T> own(Indices... indices) const {
    return {row(indices...), static_cast<std::size_t>(extents_[N - 1])};
  }

  std::int64_t extent(int d) const { return extents_[d]; }
  const std::array<std::int64_t, N>& extents() const { return extents_; }
  const std::array<std::int64_t, N>& strides() const { return strides_; }  ///< in elements
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

class Grid;

/// One value of T per cell, or `components` of them. Frees itself (collectively) unless its grid has done so; moves,
/// and so swaps, but does not copy.
template <class T>
class Field {
 public:
  Field() = default;
  Field(Field&& other) noexcept { swap(other); }
  Field& operator=(Field&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Field() { nf_field_free(&handle_); }

  template <int N>
  View<T, N> view() const;

  bool in_place() const { return nf_field_in_place(handle_); }
  T* data() const { return static_cast<T*>(nf_field_data(handle_)); }
  nf_field* handle() const { return handle_; }

  void ready() const;  ///< start of a phase with this field
  void wait() const;   ///< and its end

 private:
  friend class Grid;
  Field(Grid* grid, nf_field* handle, int components) : grid_(grid), handle_(handle), components_(components) {}
  void swap(Field& other) {
    std::swap(grid_, other.grid_);
    std::swap(handle_, other.handle_);
    std::swap(components_, other.components_);
  }

  Grid* grid_ = nullptr;
  nf_field* handle_ = nullptr;
  int components_ = 1;
};

/// An exchange of arrays that are not the library's.
class Exchange {
 public:
  Exchange(Exchange&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Exchange() { nf_exchange_free(&handle_); }
  void start() { halo_detail::check(nf_exchange_start(handle_)); }
  void finish() { halo_detail::check(nf_exchange_finish(handle_)); }
  void operator()() { halo_detail::check(nf_exchange_run(handle_)); }
  void accumulate() { halo_detail::check(nf_exchange_accumulate(handle_)); }
  std::string protocol() const { return nf_exchange_protocol(handle_); }

 private:
  friend class Grid;
  explicit Exchange(nf_exchange* handle) : handle_(handle) {}
  nf_exchange* handle_;
};

/// Collective over the communicator to make and to free; destroy its fields first, and all before MPI_Finalize.
class Grid {
 public:
  Grid(MPI_Comm comm, const GridOptions& options) : halo_(options.halo.widths) {
    nf_grid_options plain = nf_grid_defaults();
    plain.dimensions = static_cast<int>(options.extents.size());
    for (std::size_t d = 0; d < options.extents.size() && d < 3; ++d) {
      plain.extents[d] = options.extents[d];
      plain.dims[d] = options.dims[d];
      for (std::size_t side = 0; side < 2; ++side) plain.halo[d][side] = halo_[d][side];
      plain.periodic[d][0] = options.periodic.sides[d].low;
      plain.periodic[d][1] = options.periodic.sides[d].high;
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
  std::int64_t start(int d) const { return info_.start[d]; }  ///< this rank's first cell in the whole grid
  std::int64_t count(int d) const { return info_.count[d]; }
  std::string explain() const {
    std::string text(nf_grid_explain(handle_, nullptr, 0), '\0');
    nf_grid_explain(handle_, text.data(), text.size());
    text.pop_back();
    return text;
  }

  template <class T>
  Field<T> field(int components = 1, int storage = NF_IN_PLACE) {
    nf_field* made = nullptr;
    halo_detail::check(nf_field_create(handle_, halo_detail::type_of<T>(), components, storage, &made));
    return Field<T>(this, made, components);
  }
  /// With ghost cells of its own, as `accumulate` wants it.
  template <class T>
  Field<T> ghosted_field(int components = 1) {
    return field<T>(components, NF_GHOSTED);
  }

  template <class... T>
  void start(const Field<T>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    under_way_ = true;
    halo_detail::check(nf_start(handle_, list.data(), static_cast<int>(list.size())));
  }
  void finish() {
    halo_detail::check(nf_finish(handle_));
    under_way_ = false;
  }
  template <class... T>
  void exchange(const Field<T>&... fields) {
    start(fields...);
    finish();
  }
  /// Only so many ghost cells.
  template <class... T>
  void exchange_width(const HaloWidths& width, const Field<T>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    int plain[3][2];
    for (std::size_t d = 0; d < 3; ++d)
      for (std::size_t side = 0; side < 2; ++side)
        plain[d][side] = d < static_cast<std::size_t>(info_.dimensions) ? width.widths[d][side] : 0;
    halo_detail::check(nf_start_width(handle_, list.data(), static_cast<int>(list.size()), plain));
    finish();
  }
  template <class... T>
  void accumulate(const Field<T>&... fields) {
    const std::array<nf_field*, sizeof...(T)> list{fields.handle()...};
    halo_detail::check(nf_accumulate(handle_, list.data(), static_cast<int>(list.size())));
  }
  Exchange exchange_of(const std::vector<nf_array>& arrays, const std::string& protocol = "auto") {
    nf_exchange* made = nullptr;
    halo_detail::check(
        nf_exchange_create(handle_, arrays.data(), static_cast<int>(arrays.size()), protocol.c_str(), &made));
    return Exchange(made);
  }

  /// All cells of this rank; those that read nothing beyond it with a stencil of the halo's widths; and the rest, in
  /// boxes that do not overlap, low sides first.
  template <int N>
  Region<N> all() const {
    Region<N> region;
    for (int d = 0; d < N; ++d) region.hi[d] = info_.count[d];
    return region;
  }
  template <int N>
  Region<N> interior() const {
    auto region = all<N>();
    for (int d = 0; d < N; ++d) {
      region.lo[d] = std::min<std::int64_t>(halo_[static_cast<std::size_t>(d)][0], info_.count[d]);
      region.hi[d] = std::max<std::int64_t>(region.lo[d], info_.count[d] - halo_[static_cast<std::size_t>(d)][1]);
    }
    return region;
  }
  template <int N>
  std::vector<Region<N>> boundary() const {
    std::vector<Region<N>> list;
    const auto inner = interior<N>();
    auto rest = all<N>();
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
  template <class>
  friend class Field;
  std::array<std::array<int, 2>, 3> halo_;
  nf_grid* handle_ = nullptr;
  nf_grid_info info_{};
  bool under_way_ = false;
};

template <class T>
template <int N>
View<T, N> Field<T>::view() const {
  std::int64_t bytes[3];
  nf_field_strides(handle_, bytes);
  std::array<std::int64_t, N> strides{}, extents{};
  std::array<std::array<int, 2>, N> halo{};
  for (int d = 0; d < N; ++d) {
    strides[d] = bytes[d] / static_cast<std::int64_t>(sizeof(T));
    extents[d] = grid_->info_.count[d];
    halo[d] = grid_->halo_[static_cast<std::size_t>(d)];
  }
  return {data(), strides, extents, halo, &grid_->under_way_};
}

template <class T>
void Field<T>::ready() const {
  grid_->start(*this);
}

template <class T>
void Field<T>::wait() const {
  grid_->finish();
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
