// Plain data as a Python class: its members, field("name", &Data::name), become attributes.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <type_traits>
#include <utility>

template <class Data, class Member>
std::pair<const char*, Member Data::*> field(const char* name, Member Data::* member) {
  return {name, member};
}

/// Attributes that Python may read.
template <class Data, class... Members>
void readable(nanobind::class_<Data> bound, std::pair<const char*, Members Data::*>... fields) {
  (bound.def_ro(fields.first, fields.second), ...);
}

/// Attributes that Python may set, too; to None if they are optional.
template <class Data, class... Members>
void settable(nanobind::class_<Data> bound, std::pair<const char*, Members Data::*>... fields) {
  const auto bind = [&]<class Member>(const char* name, Member Data::* member) {
    if constexpr (std::is_assignable_v<Member&, std::nullopt_t>)
      bound.def_rw(name, member, nanobind::arg().none());
    else
      bound.def_rw(name, member);
  };
  (bind(fields.first, fields.second), ...);
}
