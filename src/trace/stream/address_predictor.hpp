// Predicts the address of the next access by a site (a code location). The writer and the reader of a stream keep the
// same predictor for each site and update it in the same way, so a correctly predicted access needs no bytes in the
// stream.
//
// A new site is predicted by its stride: the last difference between successive addresses that occurred twice in a row.
// So a single jump, for example to the next row of an array, does not change the stride. A site that is mispredicted
// often gets a history and is predicted to repeat its past steps: the gathers of a sparse matrix are the same in every
// sweep.
#pragma once

#include <cstdint>

namespace nearfield::stream {

using Step = std::int32_t;
constexpr Step unknown_step = INT32_MIN;  // the step is unknown or has more than 32 bits

// The steps of a site in the order in which they first occurred, and for each context of sixteen steps the step that
// followed it. Shorter contexts would not suffice, because rows of a sparse matrix share short sequences of steps and
// continue differently.
struct StepHistory {
  static constexpr std::uint32_t max_steps = 1 << 22, max_fully_indexed_steps = 4096, num_slots = 1 << 18;
  Step* steps = nullptr;  // max_steps + 1 elements; the element after the last step is unknown_step
  std::uint32_t* next_step_by_slot = nullptr;  // by slot of the context: index of the step that followed; 0: unknown
  std::uint32_t size = 0, slot = 0;
  std::uint64_t context = 0;  // hash of the last sixteen steps: each new step shifts the hash by four bits

  void clear() {
    __builtin_memset(next_step_by_slot, 0, num_slots * sizeof *next_step_by_slot);
    steps[0] = steps[1] = unknown_step;
    size = 1;
    slot = 0;
    context = 0;
  }
  void hash_step(Step step) {
    context = (context << 4) + (static_cast<std::uint64_t>(std::int64_t{step}) * 0x9E3779B97F4A7C15ULL >> 20);
  }
  // Appends a step. `is_consecutive`: the step occurred directly after the last appended one. Returns the index of the
  // step that is predicted next; 0 if unknown.
  std::uint32_t append_step(Step step, bool is_consecutive) {
    if (size == max_steps) clear();
    if (is_consecutive && slot) next_step_by_slot[slot] = size;
    steps[size++] = step;
    steps[size] = unknown_step;
    hash_step(step);
    const std::uint64_t mixed = context * 0x9E3779B97F4A7C15ULL;
    const bool is_looked_up =
        size <= max_fully_indexed_steps || (mixed >> 42 & 15) == 0;  // in a long history, one context in sixteen
    slot = is_looked_up ? static_cast<std::uint32_t>(mixed >> 46) : 0;
    return slot ? next_step_by_slot[slot] : 0;
  }
};

class AddressPredictor {
 public:
  AddressPredictor() = default;
  AddressPredictor(const AddressPredictor&) = delete;
  AddressPredictor& operator=(const AddressPredictor&) = delete;

  std::uint64_t predicted_address() const { return predicted_address_; }
  // Resets the predictor at the first access of the site in a chunk.
  void reset(std::uint64_t address) {
    predicted_address_ = address;
    stride_ = 0;
    last_step_ = 0;
    next_step_ = &stride_;
    history_increment_ = 0;
    history_ = nullptr;
    last_misprediction_time_ = 0;
    num_close_mispredictions_ = 0;
  }
  void advance() {
    predicted_address_ += static_cast<std::uint64_t>(std::int64_t{*next_step_});
    next_step_ += history_increment_;
  }
  // Corrects the predictor after an access to `address` instead of the predicted address. `access_time`: number of
  // accesses of all sites in the chunk so far.
  void correct(std::uint64_t address, std::uint64_t access_time) {
    const auto step = static_cast<std::int64_t>(address - last_address());
    const Step short_step = step > unknown_step && step <= INT32_MAX ? static_cast<Step>(step) : unknown_step;
    if (history_) return continue_history(address, short_step);
    if (step == last_step_ && short_step != unknown_step) stride_ = short_step;
    last_step_ = step;
    predicted_address_ = address + static_cast<std::uint64_t>(std::int64_t{stride_});
    num_close_mispredictions_ =
        access_time - last_misprediction_time_ < max_misprediction_distance ? num_close_mispredictions_ + 1 : 0;
    last_misprediction_time_ = access_time;
  }
  // Returns whether the site is mispredicted so often that it should get a history.
  bool needs_history() const { return num_close_mispredictions_ >= min_mispredictions_for_history && !history_; }
  // Clears the history and predicts from it from now on.
  void use_history(StepHistory& history) {
    const std::uint64_t address = last_address();
    history.clear();
    history_ = &history;
    history_increment_ = 1;
    predict_history_step(address, 0);
  }

 private:
  static constexpr std::uint64_t max_misprediction_distance = 64, min_mispredictions_for_history = 16;

  std::uint64_t last_address() const {
    return predicted_address_ - static_cast<std::uint64_t>(std::int64_t{next_step_[-history_increment_]});
  }
  void continue_history(std::uint64_t address, Step step) {
    const Step* const mispredicted = next_step_ - 1;
    const Step* skipped = next_after_misprediction_ - 1;
    if (mispredicted - skipped > 16) skipped = mispredicted - 16;
    for (; skipped != mispredicted; ++skipped) history_->hash_step(*skipped);
    predict_history_step(address, history_->append_step(step, next_step_ == next_after_misprediction_));
  }
  // Predicts `address` plus the step at this index of the history; 0: no known step.
  void predict_history_step(std::uint64_t address, std::uint32_t index) {
    const Step* const step = history_->steps + (index ? index : history_->size);
    predicted_address_ = address + static_cast<std::uint64_t>(std::int64_t{*step});
    next_after_misprediction_ = next_step_ = step + 1;
  }

  std::uint64_t predicted_address_ = 0;
  const Step* next_step_ = nullptr;  // the step that advance() adds next
  std::int64_t history_increment_ = 0;
  Step stride_ = 0;
  // mispredictions, each within `max_misprediction_distance` accesses of the previous one
  std::uint32_t num_close_mispredictions_ = 0;
  std::int64_t last_step_ = 0;
  std::uint64_t last_misprediction_time_ = 0;
  StepHistory* history_ = nullptr;
  const Step* next_after_misprediction_ = nullptr;  // value of next_step_ after the last misprediction
};

}  // namespace nearfield::stream
