// Binds structs as Python classes whose attributes are the members listed as field("name", &Data::name).
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "python/text.hpp"

template <class Data, class Member>
std::pair<const char*, Member Data::*> field(const char* name, Member Data::* member) {
  return {name, member};
}

/// Binds members as read-only attributes.
template <class Data, class... Members>
void bind_readable(nanobind::class_<Data> bound, std::pair<const char*, Members Data::*>... fields) {
  (bound.def_ro(fields.first, fields.second), ...);
}

/// Binds members as read-only attributes. Also binds a method `to_dict`, which returns all of them, and a repr, which
/// contains only those that are not zero or empty.
template <class Data, class... Members>
void bind_counters(nanobind::class_<Data> bound, std::pair<const char*, Members Data::*>... fields) {
  bind_readable(bound, fields...);
  const auto to_dict = [fields...](const Data& self) {
    nanobind::dict value_by_name;
    const auto add = [&]<class Member>(const char* name, const Member& member) {
      nanobind::object value = nanobind::cast(member);
      if (nanobind::hasattr(value, "to_dict")) value = value.attr("to_dict")();
      if constexpr (requires { member.begin(); }) {
        nanobind::list item_dicts;
        for (nanobind::handle item : value) item_dicts.append(item.attr("to_dict")());
        value = std::move(item_dicts);
      }
      value_by_name[name] = value;
    };
    (add(fields.first, self.*(fields.second)), ...);
    return value_by_name;
  };
  bound.def("to_dict", to_dict, "All numbers by name, as plain data.");
  bound.def("__repr__", [fields...](nanobind::handle self) {
    nanobind::str type = nanobind::type_name(self.type());
    std::string text = std::string(type.c_str()).substr(std::string(type.c_str()).rfind('.') + 1) + "(";
    const char* gap = "";
    const auto add = [&](const char* name) {
      const nanobind::object value = self.attr(name);
      if (!nanobind::bool_(value)) return;
      text += gap + std::string(name) + "=" + nanobind::repr(value).c_str();
      gap = ", ";
    };
    (add(fields.first), ...);
    return text + ")";
  });
}

/// Binds members as attributes that Python can set; optional members can be set to None.
template <class Data, class... Members>
void bind_settable(nanobind::class_<Data> bound, std::pair<const char*, Members Data::*>... fields) {
  const auto bind = [&]<class Member>(const char* name, Member Data::* member) {
    if constexpr (std::is_assignable_v<Member&, std::nullopt_t>)
      bound.def_rw(name, member, nanobind::arg().none());
    else
      bound.def_rw(name, member);
  };
  (bind(fields.first, fields.second), ...);
}
