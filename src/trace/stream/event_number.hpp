// The number of an event's kind in a stream.
#pragma once

#include "trace/stream/events.hpp"

namespace nearfield::stream {

template <class Kind, class... Kinds>
consteval Number index_among(const std::variant<Kinds...>*) {
  Number place = 0;
  bool found = false;
  ((found = found || std::is_same_v<Kind, Kinds>, place += !found), ...);
  return place;
}
template <class Kind>
constexpr Number number_of = index_among<Kind>(static_cast<const Event*>(nullptr));

}  // namespace nearfield::stream
