// Where a site's next access is predicted. Writer and reader of a stream keep the same course for each site, by the same
// steps: an access as predicted needs no byte.
//
// At first a site is predicted to go on by its stride, which is the step that came twice in a row, so that one jump, to
// the next row of an array, does not change it. A site that is often wrong gets a history, and is predicted to repeat
// what it did before: the gathers of a sparse matrix are the same in every sweep.
#pragma once

#include <cstdint>

namespace nearfield::stream {

using Step = std::int32_t;
constexpr Step unknown_step = INT32_MIN;  // leads to no address

// The steps of a site in the order in which they were first made, and where they went on after sixteen steps like the
// last ones. Sixteen, because rows of a sparse matrix share shorter pieces, and go on differently.
struct History {
  static constexpr std::uint32_t most_steps = 1 << 22, few_steps = 4096, slots = 1 << 18;
  Step* steps = nullptr;           // most_steps and one more; the one behind the last is unknown
  std::uint32_t* after = nullptr;  // by slot: where the next step lies; 0: not known
  std::uint32_t size = 0, slot = 0;
  std::uint64_t context = 0;  // of the last sixteen steps: each one moves those before it by four bits

  void clear() {
    __builtin_memset(after, 0, slots * sizeof *after);
    steps[0] = steps[1] = unknown_step;
    size = 1;
    slot = 0;
    context = 0;
  }
  void pass(Step step) {
    context = (context << 4) + (static_cast<std::uint64_t>(std::int64_t{step}) * 0x9E3779B97F4A7C15ULL >> 20);
  }
  // Adds a step. `follows`: it came right after the last one that was added. Returns where it may go on; 0: not known.
  std::uint32_t add(Step step, bool follows) {
    if (size == most_steps) clear();
    if (follows && slot) after[slot] = size;
    steps[size++] = step;
    steps[size] = unknown_step;
    pass(step);
    const std::uint64_t mixed = context * 0x9E3779B97F4A7C15ULL;
    const bool looked_at = size <= few_steps || (mixed >> 42 & 15) == 0;  // of many, one in sixteen is enough
    slot = looked_at ? static_cast<std::uint32_t>(mixed >> 46) : 0;
    return slot ? after[slot] : 0;
  }
};

class Course {
 public:
  Course() = default;
  Course(const Course&) = delete;
  Course& operator=(const Course&) = delete;

  std::uint64_t expected() const { return expected_; }
  // The site's first access in a chunk.
  void begin(std::uint64_t address) {
    expected_ = address;
    stride_ = 0;
    last_step_ = 0;
    next_ = &stride_;
    advance_ = 0;
    history_ = nullptr;
    wrong_at_ = 0;
    wrong_ = 0;
  }
  void as_expected() {
    expected_ += static_cast<std::uint64_t>(std::int64_t{*next_});
    next_ += advance_;
  }
  // `now`: the number of accesses of all sites in the chunk so far.
  void elsewhere(std::uint64_t address, std::uint64_t now) {
    const auto step = static_cast<std::int64_t>(address - last());
    const Step short_step = step > unknown_step && step <= INT32_MAX ? static_cast<Step>(step) : unknown_step;
    if (history_) return repeat(address, short_step);
    if (step == last_step_ && short_step != unknown_step) stride_ = short_step;
    last_step_ = step;
    expected_ = address + static_cast<std::uint64_t>(std::int64_t{stride_});
    wrong_ = now - wrong_at_ < soon ? wrong_ + 1 : 0;
    wrong_at_ = now;
  }
  // Returns whether the site is wrong so often that it should get a history.
  bool wants_history() const { return wrong_ >= many && !history_; }
  // Begins to follow a history, which is cleared.
  void follow(History& history) {
    const std::uint64_t address = last();
    history.clear();
    history_ = &history;
    advance_ = 1;
    go_on(address, 0);
  }

 private:
  static constexpr std::uint64_t soon = 64, many = 16;

  std::uint64_t last() const { return expected_ - static_cast<std::uint64_t>(std::int64_t{next_[-advance_]}); }
  void repeat(std::uint64_t address, Step step) {
    const Step* const wrong = next_ - 1;
    const Step* passed = decided_ - 1;
    if (wrong - passed > 16) passed = wrong - 16;
    for (; passed != wrong; ++passed) history_->pass(*passed);
    go_on(address, history_->add(step, next_ == decided_));
  }
  // Predicts the step at this place of the history; 0: none.
  void go_on(std::uint64_t address, std::uint32_t place) {
    const Step* const step = history_->steps + (place ? place : history_->size);
    expected_ = address + static_cast<std::uint64_t>(std::int64_t{*step});
    decided_ = next_ = step + 1;
  }

  std::uint64_t expected_ = 0;
  const Step* next_ = nullptr;  // the step after the one that leads to expected_
  std::int64_t advance_ = 0;    // 1 along a history
  Step stride_ = 0;
  std::uint32_t wrong_ = 0;  // times in short succession
  std::int64_t last_step_ = 0;
  std::uint64_t wrong_at_ = 0;
  History* history_ = nullptr;
  const Step* decided_ = nullptr;  // where next_ was when the last step was added
};

}  // namespace nearfield::stream
