// The number by which a stream denotes a kind of event: its index in the variant Event.
#pragma once

#include "trace/stream/events.hpp"

namespace nearfield::stream {

template <class Kind, class... Kinds>
consteval Number index_of_event_kind(const std::variant<Kinds...>*) {
  Number index = 0;
  bool is_found = false;
  ((is_found = is_found || std::is_same_v<Kind, Kinds>, index += !is_found), ...);
  return index;
}
template <class Kind>
constexpr Number event_kind_number = index_of_event_kind<Kind>(static_cast<const Event*>(nullptr));

}  // namespace nearfield::stream
