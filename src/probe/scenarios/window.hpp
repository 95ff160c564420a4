// Memory that all timed ranks of a node map: an MPI shared window with one part per rank.
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
  /// Allocates `bytes` per rank, zeroed. Collective over the timed ranks. Throws Unavailable if they are on different
  /// nodes.
  Window(const Context& ctx, std::size_t bytes) : bytes_(bytes) {
    if (!ctx.synchronized_start->has_shared_memory()) throw Unavailable("the ranks are on different nodes");
    void* base = nullptr;
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, ctx.timed_comm, &base, &window_);
    std::memset(base, 0, bytes);  // first touch by the owner
    MPI_Barrier(ctx.timed_comm);
  }
  ~Window() { MPI_Win_free(&window_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Returns the memory of a rank, as mapped by this process.
  std::span<std::byte> part_of_rank(int rank) const {
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
