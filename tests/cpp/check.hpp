// The smallest test framework that says what failed and where.
#pragma once

#include <cstdio>

inline int failed_checks = 0;

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failed_checks;                                                      \
    }                                                                       \
  } while (false)

#define CHECK_THROWS(expression)                                                   \
  do {                                                                             \
    bool thrown = false;                                                           \
    try {                                                                          \
      static_cast<void>(expression);                                               \
    } catch (const std::exception&) {                                              \
      thrown = true;                                                               \
    }                                                                              \
    if (!thrown) {                                                                 \
      std::printf("%s:%d: does not throw: %s\n", __FILE__, __LINE__, #expression); \
      ++failed_checks;                                                             \
    }                                                                              \
  } while (false)
