#include "preload/observe/mpi/communicators.hpp"

#include <unordered_map>

#include "preload/observe/mpi/neighbours.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

using stream::Number;

struct CommunicatorTable {
  std::unordered_map<std::uint64_t, RecordedCommunicator> by_handle;
  Number last_number = 0;
  Number num_contexts = 0;  // number of contexts allocated by this rank
  Number world_rank = 0;
};

// Returns the communicators of this process. They are never destroyed, since programs may finalise MPI in exit
// handlers.
CommunicatorTable& communicators() {
  static CommunicatorTable& instance = *new CommunicatorTable;
  return instance;
}

// Allocates a context that no other rank allocates. The first context of rank 0, which is 0, belongs to MPI_COMM_WORLD.
Number allocate_context() { return communicators().world_rank << 32 | communicators().num_contexts++; }

std::vector<Number> world_ranks(MPI_Group group) {
  int size = 0;
  PMPI(MPI_Group_size)(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size)), ranks_in_world(ranks.size());
  for (int i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = i;
  MPI_Group world;
  PMPI(MPI_Comm_group)(MPI_COMM_WORLD, &world);
  PMPI(MPI_Group_translate_ranks)(group, size, ranks.data(), world, ranks_in_world.data());
  PMPI(MPI_Group_free)(&world);
  PMPI(MPI_Group_free)(&group);
  return {ranks_in_world.begin(), ranks_in_world.end()};
}

std::string name_of_communicator(MPI_Comm comm) {
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  PMPI(MPI_Comm_get_name)(comm, name, &length);
  return name;
}

RecordedCommunicator describe_communicator(MPI_Comm comm) {
  RecordedCommunicator info;
  int is_intercommunicator = 0;
  PMPI(MPI_Comm_test_inter)(comm, &is_intercommunicator);
  info.is_intercommunicator = is_intercommunicator;
  PMPI(MPI_Comm_rank)(comm, &info.rank);
  PMPI(MPI_Comm_size)(comm, &info.size);
  MPI_Group group;
  PMPI(MPI_Comm_group)(comm, &group);
  info.event.world_ranks = world_ranks(group);
  if (is_intercommunicator) {
    PMPI(MPI_Comm_remote_group)(comm, &group);
    info.event.remote_world_ranks = world_ranks(group);
  } else {
    add_neighbors(comm, info.event);
  }
  info.event.name = name_of_communicator(comm);
  return info;
}

const RecordedCommunicator& add_communicator(MPI_Comm comm, Number context) {
  RecordedCommunicator& entry = communicators().by_handle[key_of_handle(comm)] = describe_communicator(comm);
  entry.event.communicator = ++communicators().last_number;
  entry.event.context = context;
  record_event(entry.event);
  return entry;
}

// Rank 0 of the communicator allocates a context and sends it to all members by MPI_Bcast. Returns the context.
Number agree_on_context(MPI_Comm comm) {
  int rank = 0;
  PMPI(MPI_Comm_rank)(comm, &rank);
  std::uint64_t context = rank == 0 ? allocate_context() : 0;
  PMPI(MPI_Bcast)(&context, 1, MPI_UINT64_T, 0, comm);
  return context;
}

// Agrees on the context of an intercommunicator on a temporary merged communicator, since an MPI_Bcast on an
// intercommunicator reaches one group only.
Number agree_on_context_between_groups(MPI_Comm comm) {
  MPI_Comm merged_comm;
  PMPI(MPI_Intercomm_merge)(comm, 0, &merged_comm);
  const Number context = agree_on_context(merged_comm);
  PMPI(MPI_Comm_free)(&merged_comm);
  return context;
}

std::uint64_t mix_bits(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

void record_predefined_communicators() {
  int rank = 0;
  PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
  communicators().world_rank = static_cast<Number>(rank);
  communicators().num_contexts = 1;
  add_communicator(MPI_COMM_WORLD, 0);
  add_communicator(MPI_COMM_SELF, allocate_context());
}

const RecordedCommunicator& find_or_add_communicator(MPI_Comm comm) {
  const auto found = communicators().by_handle.find(key_of_handle(comm));
  if (found != communicators().by_handle.end()) return found->second;
  mark_unsupported("a communicator that no recorded call has made");
  return add_communicator(comm, allocate_context());
}

void record_new_communicator(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  int is_intercommunicator = 0;
  PMPI(MPI_Comm_test_inter)(comm, &is_intercommunicator);
  add_communicator(comm, is_intercommunicator ? agree_on_context_between_groups(comm) : agree_on_context(comm));
}

Number compute_context_of_copy(MPI_Comm parent) {
  find_or_add_communicator(parent);
  RecordedCommunicator& entry = communicators().by_handle[key_of_handle(parent)];
  constexpr Number computed_context_flag = Number{1} << 63;  // contexts that ranks allocate are smaller
  return computed_context_flag | mix_bits(mix_bits(entry.event.context) + ++entry.num_copies);
}

void record_communicator_copy(MPI_Comm comm, Number context) { add_communicator(comm, context); }

void record_communicator_name(MPI_Comm comm) {
  find_or_add_communicator(comm);
  RecordedCommunicator& entry = communicators().by_handle[key_of_handle(comm)];
  entry.event.name = name_of_communicator(comm);
  record_event(entry.event);
}

void remove_communicator(MPI_Comm comm) { communicators().by_handle.erase(key_of_handle(comm)); }

}  // namespace nearfield::observe
