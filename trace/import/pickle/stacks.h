// Stacks as PyTorch writes them: lists of {name, filename, line}, shared by all that have the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trace/import/pickle/document_file.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

// Counts unknown fields: "field "x" of a block" -> how often.
class UnknownFields {
 public:
  explicit UnknownFields(std::map<std::string, int64_t>* counts) : counts_(*counts) {}
  void Count(std::string_view of, const Value& key);

 private:
  static constexpr size_t kMostNames = 1000;  // a file may invent any number
  std::map<std::string, int64_t>& counts_;
};

// Texts of the stacks of one Document, each made once however often it is referred to.
class Stacks {
 public:
  Stacks(const Document* document, Names* names, UnknownFields* unknown)
      : document_(*document), names_(*names), unknown_(*unknown) {}

  // A line each frame, "name (file:line)", innermost first; 0: there are none. What is beyond 100
  // frames or 16 kB is left out, and says so.
  Names::Index Take(const Value& frames);

 private:
  const std::string& FrameText(const Value& frame);

  const Document& document_;
  Names& names_;
  UnknownFields& unknown_;
  std::unordered_map<uint32_t, Names::Index> stack_of_;  // by container
  std::unordered_map<uint32_t, std::string> frame_of_;
};

}  // namespace shardscope::imports
