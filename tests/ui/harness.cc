#include "tests/ui/harness.h"

#include <imgui_internal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "trace/base/time.h"

namespace shardscope::ui_test {
namespace {

constexpr int kWidth = 1600;
constexpr int kHeight = 900;

}  // namespace

Harness::Harness(const std::string& folder, const std::string& programs, bool log_widgets,
                 int64_t memory_bytes)
    : surface_(kWidth, kHeight), engine_(ImGuiTestEngine_CreateContext()) {
  shell::ShellOptions options;
  options.settings_folder = folder;
  options.settings = shell::LoadSettings(folder);
  options.program_folder = programs;
  options.log_drawing = true;
  options.log_widgets = log_widgets;
  options.memory_bytes = memory_bytes;
  shell_ = std::make_unique<shell::Shell>(std::move(options), gui_.fonts().fonts);
  ImGuiTestEngineIO& io = ImGuiTestEngine_GetIO(engine_);
  io.ConfigRunSpeed = ImGuiTestRunSpeed_Fast;
  io.ConfigNoThrottle = true;
  io.ConfigSavedSettings = false;
  io.ConfigRestoreFocusAfterTests = false;  // what a script opened stays in front
  io.ConfigLogToTTY = true;
  io.ConfigVerboseLevel = ImGuiTestVerboseLevel_Error;
  io.ConfigVerboseLevelOnError = ImGuiTestVerboseLevel_Info;
  ImGuiTestEngine_Start(engine_, ImGui::GetCurrentContext());
  Frames(3);
}

Harness::~Harness() {
  ImGuiTestEngine_Stop(engine_);
  shell_.reset();
  ImGuiTestEngine_DestroyContext(engine_);
}

void Harness::Frames(int count) {
  for (int i = 0; i < count; ++i) {
    const int64_t start_ns = ThreadCpuNs();
    surface_.BeginFrame();
    ImGui::NewFrame();
    shell_->Frame();
    ImGui::Render();
    surface_.EndFrame();
    dearest_frame_ns_ = std::max(dearest_frame_ns_, ThreadCpuNs() - start_ns);
    ImGuiTestEngine_PostSwap(engine_);
  }
}

bool Harness::Until(const std::function<bool()>& condition, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    Frames(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(16));
  }
  return true;
}

bool Harness::Drive(std::function<void(ImGuiTestContext*)> script) {
  script_ = std::move(script);
  names_.push_back("script" + std::to_string(names_.size()));
  ImGuiTest* test = ImGuiTestEngine_RegisterTest(engine_, "ui", names_.back().c_str());
  test->UserData = this;
  test->TestFunc = [](ImGuiTestContext* context) {
    static_cast<Harness*>(context->Test->UserData)->script_(context);
  };
  ImGuiTestEngine_QueueTest(engine_, test);
  while (!ImGuiTestEngine_IsTestQueueEmpty(engine_)) Frames(1);
  Frames(2);
  return test->Output.Status == ImGuiTestStatus_Success;
}

ImVec2 PlaceOf(const Harness& harness, const char* panel, const std::string& id) {
  const ui::DrawnItem* item = harness.log().Find(panel, id);
  if (item == nullptr) {
    ImGuiTestEngine_Error(__FILE__, __func__, __LINE__, ImGuiTestCheckFlags_None,
                          "%s did not draw %s", panel, id.c_str());
    return {0, 0};
  }
  return {(item->box.x0 + item->box.x1) / 2, (item->box.y0 + item->box.y1) / 2};
}

ImGuiWindow* PartOf(const char* panel, const char* part) {
  const std::string name = std::string("###") + panel;
  ImGuiWindow* window = ImGui::FindWindowByName(name.c_str());
  if (window != nullptr) {
    char number[16];
    ImFormatString(number, sizeof number, "%08X", ImHashStr(part, 0, window->ID));
    window = ImGui::FindWindowByName((name + "/" + part + "_" + number).c_str());
  }
  if (window == nullptr) {
    ImGuiTestEngine_Error(__FILE__, __func__, __LINE__, ImGuiTestCheckFlags_None,
                          "%s has no part %s", panel, part);
  }
  return window;
}

bool HaveRoom(const Harness& harness, const char* panel, const std::string& ids) {
  const ui::Context& context = harness.context();
  int cells = 0;
  for (const ui::DrawnItem& item : harness.log().items()) {
    if (item.panel != panel || !item.id.starts_with(ids)) continue;
    const float width = context.fonts.text
                            ->CalcTextSizeA(ui::kTextSize * context.scale, FLT_MAX, 0,
                                            item.text.data(), item.text.data() + item.text.size())
                            .x;
    if (item.box.x1 - item.box.x0 < width - 1) return false;
    ++cells;
  }
  return cells > 0;
}

}  // namespace shardscope::ui_test
