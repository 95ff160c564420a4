// Serialises values for the other processes of a run (shards.hpp), which run the same binary on machines of one kind. A
// type that is not trivially copyable has a function `fields(pack, value)`, which lists its members for both
// directions.
#pragma once

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/engine/config_clock.hpp"

namespace nearfield::sim {

// Serialises values into a string of bytes.
class Packing {
 public:
  template <class... Values>
  void operator()(Values&... values) {
    (put(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class Value>
  void put(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      fields(*this, value);
  }
  template <class Value>
  void put(std::vector<Value>& values) {
    std::size_t count = values.size();
    put(count);
    for (Value& value : values) put(value);
  }
  void put(std::string& text) {
    std::size_t length = text.size();
    put(length);
    bytes_ += text;
  }

  std::string bytes_;
};

// Deserialises the values that a Packing has serialised, in the same order. The bytes must outlive this object.
class Unpacking {
 public:
  explicit Unpacking(std::string_view bytes) : left_(bytes) {}
  template <class... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view get_bytes(std::size_t count) {
    if (count > left_.size()) throw std::runtime_error("another shard's bytes end too early: is it another nearfield?");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <class Value>
  void get(Value& value) {
    if constexpr (std::is_trivially_copyable_v<Value>)
      std::memcpy(&value, get_bytes(sizeof value).data(), sizeof value);
    else
      fields(*this, value);
  }
  template <class Value>
  void get(std::vector<Value>& values) {
    std::size_t count = 0;
    get(count);
    values.clear();
    while (count-- > 0) get(values.emplace_back());
  }
  void get(std::string& text) {
    std::size_t length = 0;
    get(length);
    text = get_bytes(length);
  }

  std::string_view left_;
};

template <class Pack>
void fields(Pack& pack, ConfigClock& clock) {
  int variants = clock.variants();
  pack(variants);
  if (variants < 0 || variants > max_variants) throw std::runtime_error("another shard's bytes are no clock");
  if (clock.variants() != variants) clock = ConfigClock(variants);
  for (TimeVector& times : clock) pack(times);
}

}  // namespace nearfield::sim
