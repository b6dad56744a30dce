#include "ui/panels/blocks/treemap.h"

#include <algorithm>
#include <cstddef>

namespace shardscope::panels {
namespace {

// The worst ratio of sides of a row of tiles along a side of this length; `sum` of their areas.
double WorstRatio(double sum, double largest, double smallest, double side) {
  const double square = side * side;
  return std::max(square * largest / (sum * sum), sum * sum / (square * smallest));
}

struct Room {
  double x0 = 0;
  double y0 = 0;
  double x1 = 0;
  double y1 = 0;
  bool is_wide() const { return x1 - x0 >= y1 - y0; }
  double side() const { return std::min(x1 - x0, y1 - y0); }
};

// Along the shorter side of `room`, which loses what the row takes.
void PlaceRow(std::span<const double> areas, double sum, Room* room, ui::Box* tiles) {
  const bool wide = room->is_wide();
  const double depth = room->side() > 0 ? sum / room->side() : 0;
  double at = wide ? room->y0 : room->x0;
  for (size_t i = 0; i < areas.size(); ++i) {
    const double length = depth > 0 ? areas[i] / depth : 0;
    const Room tile = wide ? Room{room->x0, at, room->x0 + depth, at + length}
                           : Room{at, room->y0, at + length, room->y0 + depth};
    tiles[i] = {static_cast<float>(tile.x0), static_cast<float>(tile.y0),
                static_cast<float>(tile.x1), static_cast<float>(tile.y1)};
    at += length;
  }
  (wide ? room->x0 : room->y0) += depth;
}

}  // namespace

std::vector<ui::Box> Treemap(std::span<const int64_t> weights, const ui::Box& box) {
  std::vector<ui::Box> tiles(weights.size(), {box.x0, box.y0, box.x0, box.y0});
  double total = 0;
  for (const int64_t weight : weights) total += static_cast<double>(weight);
  const double area = static_cast<double>(box.x1 - box.x0) * static_cast<double>(box.y1 - box.y0);
  if (total <= 0 || area <= 0) return tiles;
  std::vector<double> areas;
  for (const int64_t weight : weights) {
    if (weight > 0) areas.push_back(static_cast<double>(weight) * area / total);
  }
  Room room{box.x0, box.y0, box.x1, box.y1};
  size_t begin = 0;
  while (begin < areas.size()) {
    double sum = areas[begin];
    size_t end = begin + 1;
    for (; end < areas.size(); ++end) {
      const double now = WorstRatio(sum, areas[begin], areas[end - 1], room.side());
      const double then = WorstRatio(sum + areas[end], areas[begin], areas[end], room.side());
      if (then > now) break;
      sum += areas[end];
    }
    PlaceRow({&areas[begin], end - begin}, sum, &room, &tiles[begin]);
    begin = end;
  }
  return tiles;
}

}  // namespace shardscope::panels
