#include "ui/shell/drawn_json.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace shardscope::shell {
namespace {

using Json = nlohmann::ordered_json;

Json ItemsOf(const ui::DrawLog& log) {
  Json items = Json::array();
  for (const ui::DrawnItem& item : log.items()) {
    Json row = {{"panel", item.panel}, {"id", item.id}, {"text", item.text}};
    if (const auto* whole = std::get_if<int64_t>(&item.value)) row["value"] = *whole;
    if (const auto* real = std::get_if<double>(&item.value)) row["value"] = *real;
    if (!item.unit.empty()) row["unit"] = item.unit;
    row["box"] = {item.box.x0, item.box.y0, item.box.x1, item.box.y1};
    items.push_back(std::move(row));
  }
  return items;
}

}  // namespace

std::string PrintDrawn(const DrawnPage& page, const ui::DrawLog& log) {
  Json root = {{"name", page.run},
               {"width", page.width},
               {"height", page.height},
               {"language", page.language == ui::Language::kChinese ? "zh" : "en"},
               {"theme", page.theme == ui::ThemeName::kLight ? "light" : "dark"}};
  if (page.window) {
    const ui::View& view = page.window->view;
    root["frame"] = page.window->frame;
    root["scale"] = page.window->scale;
    root["view"] = {{"start_ns", view.start_ns}, {"end_ns", view.end_ns}, {"follow", view.follow}};
  }
  root["items"] = ItemsOf(log);
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope::shell
