// Memory mapped by all timed ranks of a node: an MPI shared window with a part for each rank.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstring>
#include <span>

#include "probe/context.hpp"
#include "probe/failure.hpp"

namespace nearfield::probe {

class Window {
 public:
  /// Collective over the timed ranks. Throws Unavailable if they are on different nodes.
  Window(const Context& ctx, std::size_t bytes) : bytes_(bytes) {
    if (!ctx.start->shared_memory()) throw Unavailable("the ranks are on different nodes");
    void* base = nullptr;
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, ctx.timed, &base, &window_);
    std::memset(base, 0, bytes);  // first touched by its owner
    MPI_Barrier(ctx.timed);
  }
  ~Window() { MPI_Win_free(&window_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Returns the part of a rank.
  std::span<std::byte> part(int rank) const {
    MPI_Aint size = 0;
    int unit = 1;
    void* base = nullptr;
    MPI_Win_shared_query(window_, rank, &size, &unit, &base);
    return {static_cast<std::byte*>(base), bytes_};
  }

 private:
  std::size_t bytes_;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace nearfield::probe
