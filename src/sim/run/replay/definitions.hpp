// A stream refers to texts, call sites, communicators and datatypes by numbers, which events of the stream define.
// StreamDefinitions stores these definitions.
#pragma once

#include <deque>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/mpi/pattern.hpp"
#include "sim/run/replay/collectives.hpp"

namespace nearfield::sim::replay {

// A code location in the program from which MPI is called.
struct CallPlace {
  std::string object;  // path of the executable or library
  std::uint64_t offset = 0;
  std::vector<CallPlace> callers;  // call sites of the enclosing functions, innermost first
};

struct CommunicatorGroup {
  stream::Number context = 0;
  std::vector<int> member_ranks,
      peers;  // members' ranks, and the ranks that messages go to: members, or the remote group
  int own_number = 0;
  bool is_intercommunicator = false;
  std::vector<std::int64_t> sources, destinations;
  int num_collectives = 0;  // number of collectives so far
};

std::runtime_error rank_error(int rank, const std::string& problem);

class StreamDefinitions {
 public:
  // `space`: the address space of the recorded process. It must outlive this object.
  StreamDefinitions(int rank, AddressSpace& space) : rank_(rank), space_(space) {}

  void add_definition(const stream::Text& event) { texts_[event.string_id] = event.content; }
  void add_definition(const stream::Object& event) { objects_[event.object] = event.path; }
  void add_definition(const stream::CallSite& event) { call_sites_[event.call_site] = event; }
  void add_definition(const stream::Layout& event) { layouts_[event.layout] = &datatypes_.emplace_back(event, space_); }
  void add_definition(const stream::Communicator& event);

  // Returns the text of this number, which remains valid; empty if the stream defines none.
  const std::string& text_of(stream::Number number) { return texts_[number]; }
  CallPlace call_place(stream::Number call_site) const;
  // The following functions throw std::runtime_error if the stream uses a number that it does not define.
  CommunicatorGroup& communicator_group(stream::Number communicator);
  Pattern message_pattern(stream::Number communicator, std::int64_t peer, std::int64_t tag);
  BufferArgument buffer_argument(const stream::Data& data) const;
  CollectiveArguments collective_arguments(const stream::Collective& event);
  // Returns the number of a rank in a communicator or, for an intercommunicator, in the remote group.
  std::int64_t peer_number(stream::Number communicator, int rank);

 private:
  int rank_;
  AddressSpace& space_;
  std::unordered_map<stream::Number, std::string> texts_;
  std::unordered_map<stream::Number, std::string> objects_;
  std::unordered_map<stream::Number, stream::CallSite> call_sites_;
  std::unordered_map<stream::Number, CommunicatorGroup> groups_;
  std::deque<Datatype> datatypes_;  // never freed, since messages in flight may use a datatype whose number was reused
  std::unordered_map<stream::Number, const Datatype*> layouts_;
};

}  // namespace nearfield::sim::replay
