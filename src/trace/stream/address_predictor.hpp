// Predicts the address of a site's next access. Writer and reader of a stream update the same predictor for each site
// in the same way, so a correctly predicted access needs no bytes.
//
// A new site is predicted by its stride: the last step that occurred twice in a row, so that one jump, to the next row
// of an array, does not change it. A site that is mispredicted often gets a history and is predicted to repeat its past
// steps: the gathers of a sparse matrix are the same in every sweep.
#pragma once

#include <cstdint>

namespace nearfield::stream {

using Step = std::int32_t;
constexpr Step unknown_step = INT32_MIN;  // leads to no address

// The steps of a site in the order of their first occurrence, with the successor of each context of sixteen steps.
// Shorter contexts would not do, because rows of a sparse matrix share short pieces and continue differently.
struct History {
  static constexpr std::uint32_t max_steps = 1 << 22, few_steps = 4096, slots = 1 << 18;
  Step* steps = nullptr;           // max_steps and one more; the one after the last is unknown
  std::uint32_t* after = nullptr;  // by slot: index of the next step; 0: not known
  std::uint32_t size = 0, slot = 0;
  std::uint64_t context = 0;  // hash of the last sixteen steps: each step shifts the earlier ones by four bits

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
  // Adds a step. `follows`: it directly follows the last added one. Returns the index of the predicted successor; 0:
  // unknown.
  std::uint32_t add(Step step, bool follows) {
    if (size == max_steps) clear();
    if (follows && slot) after[slot] = size;
    steps[size++] = step;
    steps[size] = unknown_step;
    pass(step);
    const std::uint64_t mixed = context * 0x9E3779B97F4A7C15ULL;
    const bool looked_at = size <= few_steps || (mixed >> 42 & 15) == 0;  // of many, one in sixteen suffices
    slot = looked_at ? static_cast<std::uint32_t>(mixed >> 46) : 0;
    return slot ? after[slot] : 0;
  }
};

class AddressPredictor {
 public:
  AddressPredictor() = default;
  AddressPredictor(const AddressPredictor&) = delete;
  AddressPredictor& operator=(const AddressPredictor&) = delete;

  std::uint64_t expected() const { return expected_; }
  // Starts with the site's first access in a chunk.
  void start(std::uint64_t address) {
    expected_ = address;
    stride_ = 0;
    last_step_ = 0;
    next_ = &stride_;
    history_advance_ = 0;
    history_ = nullptr;
    wrong_at_ = 0;
    wrong_ = 0;
  }
  void advance() {
    expected_ += static_cast<std::uint64_t>(std::int64_t{*next_});
    next_ += history_advance_;
  }
  // `now`: the number of accesses of all sites in the chunk so far.
  void mispredict(std::uint64_t address, std::uint64_t now) {
    const auto step = static_cast<std::int64_t>(address - last());
    const Step short_step = step > unknown_step && step <= INT32_MAX ? static_cast<Step>(step) : unknown_step;
    if (history_) return repeat(address, short_step);
    if (step == last_step_ && short_step != unknown_step) stride_ = short_step;
    last_step_ = step;
    expected_ = address + static_cast<std::uint64_t>(std::int64_t{stride_});
    wrong_ = now - wrong_at_ < soon ? wrong_ + 1 : 0;
    wrong_at_ = now;
  }
  // Returns whether the site is mispredicted so often that it should get a history.
  bool needs_history() const { return wrong_ >= many && !history_; }
  // Uses a history from now on, which is cleared.
  void use_history(History& history) {
    const std::uint64_t address = last();
    history.clear();
    history_ = &history;
    history_advance_ = 1;
    predict_from(address, 0);
  }

 private:
  static constexpr std::uint64_t soon = 64, many = 16;

  std::uint64_t last() const { return expected_ - static_cast<std::uint64_t>(std::int64_t{next_[-history_advance_]}); }
  void repeat(std::uint64_t address, Step step) {
    const Step* const wrong = next_ - 1;
    const Step* passed = decided_ - 1;
    if (wrong - passed > 16) passed = wrong - 16;
    for (; passed != wrong; ++passed) history_->pass(*passed);
    predict_from(address, history_->add(step, next_ == decided_));
  }
  // Predicts the step at this index of the history; 0: none.
  void predict_from(std::uint64_t address, std::uint32_t place) {
    const Step* const step = history_->steps + (place ? place : history_->size);
    expected_ = address + static_cast<std::uint64_t>(std::int64_t{*step});
    decided_ = next_ = step + 1;
  }

  std::uint64_t expected_ = 0;
  const Step* next_ = nullptr;  // the step after the one that leads to expected_
  std::int64_t history_advance_ = 0;
  Step stride_ = 0;
  std::uint32_t wrong_ = 0;  // mispredictions in short succession
  std::int64_t last_step_ = 0;
  std::uint64_t wrong_at_ = 0;
  History* history_ = nullptr;
  const Step* decided_ = nullptr;  // next_ when the last step was added
};

}  // namespace nearfield::stream
