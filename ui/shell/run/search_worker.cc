#include "ui/shell/run/search_worker.h"

#include <variant>

namespace shardscope::shell {

FoundHitsPtr FindHits(const SearchRequest& request, const std::stop_token& stop) {
  auto found = std::make_shared<ui::FoundHits>();
  found->text = request.text;
  found->snapshot = request.snapshot;
  const auto parsed = analysis::ParseSearch(request.text);
  if (const auto* error = std::get_if<analysis::SearchError>(&parsed)) {
    found->error = *error;
    return found;
  }
  found->result =
      analysis::Search(*request.snapshot, std::get<analysis::SearchQuery>(parsed), {.stop = stop});
  if (found->result.stopped) return nullptr;
  return found;
}

}  // namespace shardscope::shell
