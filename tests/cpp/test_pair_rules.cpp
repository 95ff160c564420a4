// Are the rules per pair of ranks parsed as they are written, and is what is wrong with them said with the place where
// it is? Both the Open MPI component and the MPICH shim parse by this code (src/preload/pair_rules).
#include <string>
#include <utility>

#include "check.hpp"
#include "preload/pair_rules/pair_rules.h"

namespace {

enum { NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_ENUMERATOR) };

// What was parsed, and the error message; empty if both texts were valid.
class Parsed {
 public:
  explicit Parsed(const char* rules_text, const char* pairs_text = "", unsigned keys = ALL_LIMIT_KEYS) {
    char error[200] = "";
    if (!parse_rules(&rules, keys, rules_text, error, sizeof error) ||
        !parse_given_pairs(&rules, pairs_text, error, sizeof error))
      message = error;
  }
  ~Parsed() { free_rules(&rules); }
  Parsed(const Parsed&) = delete;

  pair_rules rules{};
  std::string message;
};

void test_limits() {
  const Parsed parsed(
      "shared-l3:eager_limit=2048,single_copy_from=50000;same-numa:max_send_size=1024,single_copy_from=never;");
  CHECK(parsed.message.empty());
  CHECK(!are_rules_empty(&parsed.rules));
  for (int distance = 0; distance < NUM_DISTANCES; ++distance)
    CHECK(has_class(&parsed.rules, distance) == (distance == shared_l3 || distance == same_numa));
  CHECK(has_class(&parsed.rules, DEFAULT_CLASS));
  const auto has_limits = [&](int class_index, std::size_t eager, std::size_t max_send, std::size_t single) {
    const limits& of_class = parsed.rules.limits[class_index];
    return of_class.eager_limit == eager && of_class.max_send_size == max_send && of_class.single_copy_from == single;
  };
  CHECK(has_limits(shared_l3, 2048, 0, 50000));
  CHECK(has_limits(same_numa, 0, 1024, SINGLE_COPY_NEVER));
  CHECK(has_limits(DEFAULT_CLASS, 0, 0, 0));
}

void test_empty_texts() {
  const Parsed parsed("");
  CHECK(parsed.message.empty() && are_rules_empty(&parsed.rules));
  CHECK(class_of_pair(&parsed.rules, 0, 1, same_core) == DEFAULT_CLASS);
}

void test_classes() {
  const Parsed parsed("shared-l3:single_copy_from=0;same-node:single_copy_from=1",
                      "3-1:same-node;0-7:same-core;1-2:shared-l3");
  CHECK(parsed.message.empty());
  const auto class_of = [&](unsigned own, unsigned peer, int distance) {
    return class_of_pair(&parsed.rules, own, peer, distance);
  };
  // The determined distance counts if none is given.
  CHECK(class_of(0, 1, shared_l3) == shared_l3 && class_of(0, 1, same_core) == DEFAULT_CLASS);
  CHECK(class_of(0, 1, DEFAULT_CLASS) == DEFAULT_CLASS);
  // A given distance holds in both directions, whatever was determined.
  for (const int distance : {int{shared_l3}, int{same_package}, int{DEFAULT_CLASS}}) {
    CHECK(class_of(1, 3, distance) == same_node && class_of(3, 1, distance) == same_node);
    CHECK(class_of(2, 1, distance) == shared_l3);
    CHECK(class_of(7, 0, distance) == DEFAULT_CLASS);
  }
}

void test_mistakes_in_rules() {
  const std::pair<const char*, const char*> mistakes[] = {
      {"shard-l3:eager_limit=4096", "unknown distance 'shard-l3' at character 1, the nearest is shared-l3"},
      {"shared-l3:eagr_limit=4096", "unknown key 'eagr_limit' at character 11, the nearest is eager_limit"},
      {"shared-l3:eager_limit=12x", "not a number '12x' at character 23"},
      {"shared-l3:eager_limit=-1", "not a number '-1' at character 23"},
      {"shared-l3:eager_limit=never", "not a number 'never' at character 23"},
      {"shared-l3:eager_limit=", "a number is missing '' at character 23"},
      {"shared-l3:eager_limit=10", "too small '10' at character 23, the least is 256"},
      {"shared-l3:max_send_size=1023", "too small '1023' at character 25, the least is 1024"},
      {"shared-l3:eager_limit=99999999999999999999", "not a number '99999999999999999999' at character 23"},
      {"shared-l3:eager_limit=256,eager_limit=256", "a second 'eager_limit' at character 27"},
      {"shared-l3:eager_limit", "no value for 'eager_limit' at character 22"},
      {"shared-l3", "no limits for 'shared-l3' at character 10"},
      {"same-node:eager_limit=4096;same-node:eager_limit=4096", "a second rule for 'same-node' at character 28"},
      {";", "unknown distance '' at character 1, the nearest is same-core"},
  };
  for (const auto& [text, message] : mistakes) CHECK(Parsed(text).message == message);
}

void test_allowed_keys() {
  const auto message_of = [](const char* text) { return Parsed(text, "", KEY_SINGLE_COPY_FROM).message; };
  CHECK(message_of("same-node:single_copy_from=3").empty());
  CHECK(message_of("same-node:eager_limit=4096") ==
        "unknown key 'eager_limit' at character 11, the nearest is single_copy_from");
}

void test_mistakes_in_pairs() {
  const std::pair<const char*, const char*> mistakes[] = {
      {"0", "no second rank after '0' at character 2"},
      {"0:same-node", "no second rank after '0' at character 2"},
      {"0-1", "no distance for ranks that end with '1' at character 4"},
      {"0-0:same-node", "a rank and itself, '0' at character 3"},
      {"0-1:same-nod", "unknown distance 'same-nod' at character 5, the nearest is same-node"},
      {"x-1:same-node", "not a number 'x' at character 1"},
      {"0-4294967296:same-node", "not a number '4294967296' at character 3"},
      {"0-1:same-node;1-0:same-core", "ranks 0-1 are given twice"},
  };
  for (const auto& [text, message] : mistakes) CHECK(Parsed("", text).message == message);
}

}  // namespace

int main() {
  test_limits();
  test_empty_texts();
  test_classes();
  test_mistakes_in_rules();
  test_allowed_keys();
  test_mistakes_in_pairs();
  return failed_checks == 0 ? 0 : 1;
}
