// Counts mispredicted branches from the order of a program's accesses. A stream has no branches, but where a code
// location is followed by now one and now another location, a branch has decided. The predictor is that of a core with
// two histories (a small TAGE: Seznec and Michaud, "A case for (partially) tagged geometric history length branch
// prediction", JILP 8, 2006): it predicts the next location by the last 32 decisions if it has met them before, else by
// the last eight, else by what followed the last time. Branches with no access on either side are not seen.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace nearfield::sim::replay {

class BranchPredictor {
 public:
  // The program accesses memory at this site next. Returns whether the core has predicted another one.
  bool passes(std::uint32_t site) {
    if (site >= successors_.size()) successors_.resize(site + std::size_t{1});
    Successor& last = successors_[last_site_];
    const std::uint32_t from = last_site_;
    last_site_ = site;
    if (last.site == site && !last.varies) [[likely]]
      return false;
    if (last.site == none) {
      last.site = site;
      return false;
    }
    return decides(from, last, site);
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr unsigned table_bits = 13;

  struct Successor {
    std::uint32_t site = none;
    bool varies = false;  // a branch decides between several successors
  };
  // What followed a history, if it was met before.
  struct Entry {
    std::uint32_t tag = 0, site = none;
    bool is_confirmed = false;  // the last prediction was right; another one is replaced
  };

  bool decides(std::uint32_t from, Successor& last, std::uint32_t site) {
    last.varies = true;
    Entry& after_few = entry_of(from, history_ & 0xFFFFFFFF, 0);
    Entry& after_many = entry_of(from, history_ * 0x9E3779B97F4A7C15ULL ^ older_, 1);
    const std::uint32_t tag = from + 1;
    const std::uint32_t expected = after_many.is_confirmed && after_many.tag == tag ? after_many.site
                                   : after_few.is_confirmed && after_few.tag == tag ? after_few.site
                                                                                    : last.site;
    learn(after_few, tag, site);
    learn(after_many, tag, site);
    last.site = site;
    older_ = older_ << 4 | history_ >> 60;
    history_ = history_ << 4 | (site * 0x9E3779B9U >> 28);
    return expected != site;
  }
  Entry& entry_of(std::uint32_t from, std::uint64_t history, std::size_t table) {
    const std::uint64_t mixed = (history + from * 0xD1B54A32D192ED03ULL) * 0x9E3779B97F4A7C15ULL;
    return tables_[table][mixed >> (64 - table_bits)];
  }
  static void learn(Entry& entry, std::uint32_t tag, std::uint32_t site) {
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
  std::uint64_t history_ = 0, older_ = 0;  // four bits for each of the last 32 decisions
  std::array<std::vector<Entry>, 2> tables_{std::vector<Entry>(1 << table_bits), std::vector<Entry>(1 << table_bits)};
};

}  // namespace nearfield::sim::replay
