// A stream refers to texts, call sites, communicators and datatypes by numbers. This stores what each number means.
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
struct Place {
  std::string object;  // path of the executable or library
  std::uint64_t offset = 0;
  std::vector<Place> callers;  // call sites of the enclosing functions, innermost first
};

struct Group {
  stream::Number context = 0;
  std::vector<int> world, peers;  // members' ranks, and the ranks that messages go to: members, or the remote group
  int me = 0;
  bool between_groups = false;
  std::vector<std::int64_t> sources, destinations;
  int collectives = 0;  // so far
};

std::runtime_error error_of_rank(int rank, const std::string& problem);

class Definitions {
 public:
  // `space` is the process's; it must outlive the definitions.
  Definitions(int rank, AddressSpace& space) : rank_(rank), space_(space) {}

  void add(const stream::Text& event) { texts_[event.text] = event.is; }
  void add(const stream::Object& event) { objects_[event.object] = event.path; }
  void add(const stream::CallSite& event) { call_sites_[event.call_site] = event; }
  void add(const stream::Layout& event) { layouts_[event.layout] = &datatypes_.emplace_back(event, space_); }
  void add(const stream::Communicator& event);

  // Returns the text of this number, which remains valid; empty if the stream defines none.
  const std::string& text(stream::Number number) { return texts_[number]; }
  Place place(stream::Number call_site) const;
  // These throw std::runtime_error if the stream uses what it does not define.
  Group& group(stream::Number communicator);
  Pattern pattern(stream::Number communicator, std::int64_t peer, std::int64_t tag);
  Part part(const stream::Data& data) const;
  CollectiveArguments arguments(const stream::Collective& event);
  // Returns the number that a communicator gives to a rank with which it exchanges messages.
  std::int64_t peer_number(stream::Number communicator, int rank);

 private:
  int rank_;
  AddressSpace& space_;
  std::unordered_map<stream::Number, std::string> texts_;
  std::unordered_map<stream::Number, std::string> objects_;
  std::unordered_map<stream::Number, stream::CallSite> call_sites_;
  std::unordered_map<stream::Number, Group> groups_;
  std::deque<Datatype> datatypes_;  // never freed, since messages in flight may use a datatype whose number was reused
  std::unordered_map<stream::Number, const Datatype*> layouts_;
};

}  // namespace nearfield::sim::replay
