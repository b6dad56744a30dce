#include "ui/draw_log.h"

namespace shardscope::ui {

void DrawLog::SetPanel(std::string_view panel) {
  if (enabled_) panel_ = panel;
}

DrawnItem* DrawLog::Add(std::string_view id, std::string_view text, const Box& box) {
  DrawnItem& item = items_.emplace_back();
  item.panel = panel_;
  item.id = id;
  item.text = text;
  item.box = box;
  return &item;
}

void DrawLog::Text(std::string_view id, std::string_view text, const Box& box) {
  if (enabled_) Add(id, text, box);
}

void DrawLog::Int(std::string_view id, std::string_view text, int64_t value, std::string_view unit,
                  const Box& box) {
  if (!enabled_) return;
  DrawnItem* item = Add(id, text, box);
  item->value = value;
  item->unit = unit;
}

void DrawLog::Real(std::string_view id, std::string_view text, double value, std::string_view unit,
                   const Box& box) {
  if (!enabled_) return;
  DrawnItem* item = Add(id, text, box);
  item->value = value;
  item->unit = unit;
}

const DrawnItem* DrawLog::Find(std::string_view panel, std::string_view id) const {
  for (const DrawnItem& item : items_) {
    if (item.panel == panel && item.id == id) return &item;
  }
  return nullptr;
}

}  // namespace shardscope::ui
