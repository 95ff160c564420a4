// Detects mispredicted branches from the order of a program's accesses. A stream does not record branches, but if a
// code location is followed sometimes by one and sometimes by another location, a branch lies between them. The
// predictor is a small TAGE (Seznec and Michaud, "A case for (partially) tagged geometric history length branch
// prediction", JILP 8, 2006): it predicts the next location from the last 32 decisions if it has met them before,
// otherwise from the last eight decisions, otherwise as the location that followed the last time. Branches without
// accesses on both sides are not detected.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace nearfield::sim::replay {

class BranchPredictor {
 public:
  // Must be called with the code location of each access, in program order. Returns whether the core has predicted
  // another location.
  bool is_mispredicted(std::uint32_t site) {
    if (site >= successors_.size()) successors_.resize(site + std::size_t{1});
    Successor& last = successors_[last_site_];
    const std::uint32_t from = last_site_;
    last_site_ = site;
    if (last.site == site && !last.is_branch) [[likely]]
      return false;
    if (last.site == no_site) {
      last.site = site;
      return false;
    }
    return predict_and_learn(from, last, site);
  }

 private:
  static constexpr std::uint32_t no_site = ~std::uint32_t{0};
  static constexpr unsigned table_bits = 13;

  struct Successor {
    std::uint32_t site = no_site;
    bool is_branch = false;  // a branch decides between several successors
  };
  // The site that followed a history of decisions, if this history was met before.
  struct Entry {
    std::uint32_t tag = 0, site = no_site;
    bool is_confirmed = false;  // the last prediction was right; another one is replaced
  };

  bool predict_and_learn(std::uint32_t from, Successor& last, std::uint32_t site) {
    last.is_branch = true;
    Entry& short_history_entry = entry_of(from, history_ & 0xFFFFFFFF, 0);
    Entry& long_history_entry = entry_of(from, history_ * 0x9E3779B97F4A7C15ULL ^ older_history_, 1);
    const std::uint32_t tag = from + 1;
    const std::uint32_t expected =
        long_history_entry.is_confirmed && long_history_entry.tag == tag     ? long_history_entry.site
        : short_history_entry.is_confirmed && short_history_entry.tag == tag ? short_history_entry.site
                                                                             : last.site;
    update_entry(short_history_entry, tag, site);
    update_entry(long_history_entry, tag, site);
    last.site = site;
    older_history_ = older_history_ << 4 | history_ >> 60;
    history_ = history_ << 4 | (site * 0x9E3779B9U >> 28);
    return expected != site;
  }
  Entry& entry_of(std::uint32_t from, std::uint64_t history, std::size_t table) {
    const std::uint64_t hash = (history + from * 0xD1B54A32D192ED03ULL) * 0x9E3779B97F4A7C15ULL;
    return tables_[table][hash >> (64 - table_bits)];
  }
  static void update_entry(Entry& entry, std::uint32_t tag, std::uint32_t site) {
    if (entry.tag == tag && entry.site == site) {
      entry.is_confirmed = true;
    } else if (entry.is_confirmed) {
      entry.is_confirmed = false;
    } else {
      entry = {tag, site, false};
    }
  }

  std::vector<Successor> successors_{1};
  std::uint32_t last_site_ = 0;
  std::uint64_t history_ = 0, older_history_ = 0;  // four bits for each of the last 32 decisions
  std::array<std::vector<Entry>, 2> tables_{std::vector<Entry>(1 << table_bits), std::vector<Entry>(1 << table_bits)};
};

}  // namespace nearfield::sim::replay
