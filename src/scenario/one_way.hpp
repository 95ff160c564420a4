// SCN1 and SCN2 of paper S0 (papers/S0/README.md), sections II.A and II.B, in the order of the authors' own program
// (mpi-cache-bench, reference 15 of the paper). Every rank first writes to each cache line of unrelated memory, which
// is as large as the last-level cache or the message, whichever is larger, so the caches are full of unrelated modified
// lines. It then traverses the lines of its message buffer from the end to the beginning, so that the first lines are
// in the inner caches: it reads them (exclusive), writes them (modified), or skips this step (invalid). Two empty
// messages, one in each direction, signal that both ranks are ready. The sender sends one message to the receiver. Then
// each rank traverses its message buffer from the beginning. In the states base-* no message is sent.
//
// Unlike in the scenario pingpong, the caches are full of other data, messages are sent in one direction only, and the
// receiver calls MPI_Recv when the sender is already sending.
#pragma once

#include "scenario/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield {

inline constexpr const char* one_way_states[] = {"invalid",      "exclusive",      "modified",
                                                 "base-invalid", "base-exclusive", "base-modified"};
inline constexpr const char* one_way_accesses[] = {"read", "write"};

inline std::vector<Parameters> one_way_cases(const SizeChoice& choice) {
  std::vector<Parameters> list;
  for (const auto size : size_ladder(choice, 64, 2 * choice.llc_bytes))
    for (const char* state : one_way_states)
      for (const char* access : one_way_accesses)
        list.push_back({{"size_bytes", size}, {"state", state}, {"access", access}});
  return list;
}

struct OneWayCase {
  std::string line_state =
      "invalid";  // state of the message's cache lines before the call: invalid, exclusive or modified
  bool has_call = true, is_write = false;
};

// Parses the parameters of a case.
inline OneWayCase parse_one_way_case(const Parameters& parameters) {
  const std::string state = word_parameter(parameters, "state");
  const bool has_call = !state.starts_with("base-");
  return {has_call ? state : state.substr(5), has_call, word_parameter(parameters, "access") == "write"};
}

inline const ScenarioInfo one_way_info{
    "one-way",
    "One message when the caches are full of other data, and going through its buffer afterwards",
    Ranks::pair,
    {{"size_bytes", "message size"},
     {"state",
      "lines of the message before the call: invalid, exclusive, modified; base-*: there is no call; pages, when "
      "measured: one line of each page is "
      "read, and no other"},
     {"access", "how one word of each line is accessed: read or write"}},
    {{"call", "ns", Combine::sides, "Send at the sender, Recv at the receiver"},
     {"traverse", "ns", Combine::sides, "going through the buffer once, in order"}},
};

}  // namespace nearfield
