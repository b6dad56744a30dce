// DrawLog: what a frame drew, for `shot --json` and for tests: panels log which item, text and
// value they put where. Cleared by the shell before each frame; costs nothing while it is not
// enabled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardscope::ui {

struct Box {  // pixels of the window
  float x0 = 0;
  float y0 = 0;
  float x1 = 0;
  float y1 = 0;

  bool operator==(const Box&) const = default;
};

struct DrawnItem {
  std::string panel;  // "top_bar", "timeline", ...
  std::string id;     // "exposed", "op_run:1234", "knob:prefetch.backward"
  std::string text;   // as on screen
  std::variant<std::monostate, int64_t, double>
      value;         // unrounded, from the same Report as `report --json`
  std::string unit;  // "ns", "B", "B/s", "share", "tokens/s", "step" or empty
  Box box;
};

class DrawLog {
 public:
  explicit DrawLog(bool enabled = false) : enabled_(enabled) {}

  bool enabled() const { return enabled_; }
  void Clear() { items_.clear(); }

  // The panel that the following items belong to.
  void SetPanel(std::string_view panel);

  void Text(std::string_view id, std::string_view text, const Box& box);
  void Int(std::string_view id, std::string_view text, int64_t value, std::string_view unit,
           const Box& box);
  void Real(std::string_view id, std::string_view text, double value, std::string_view unit,
            const Box& box);

  const std::vector<DrawnItem>& items() const { return items_; }

  // The first item with this panel and id; nullptr if none was drawn.
  const DrawnItem* Find(std::string_view panel, std::string_view id) const;

 private:
  DrawnItem* Add(std::string_view id, std::string_view text, const Box& box);

  bool enabled_ = false;
  std::string panel_;
  std::vector<DrawnItem> items_;
};

}  // namespace shardscope::ui
