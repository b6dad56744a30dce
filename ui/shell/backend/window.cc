#include "ui/shell/backend/window.h"

#include <GLFW/glfw3.h>
#include <fmt/format.h>
#include <imgui.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ui/shell/backend/gui.h"

namespace shardscope::shell {
namespace {

constexpr const char* kHeadless =
    "use the commands that need no display: `shardscope report RUN` for the numbers, `shardscope "
    "shot RUN -o picture.png` for the picture";

bool IsSoftwareRenderer() {
  const GLubyte* text = glGetString(GL_RENDERER);
  if (text == nullptr) return false;
  const char* name = reinterpret_cast<const char*>(text);
  return std::strstr(name, "llvmpipe") != nullptr || std::strstr(name, "softpipe") != nullptr ||
         std::strstr(name, "SWR") != nullptr;
}

class GlfwSurface : public WindowSurface {
 public:
  ~GlfwSurface() override {
    if (backends_ready_) {
      ImGui_ImplOpenGL3_Shutdown();
      ImGui_ImplGlfw_Shutdown();
    }
    if (window_ != nullptr) glfwDestroyWindow(window_);
    if (glfw_ready_) glfwTerminate();
  }

  Status Create(int width, int height, const std::string& title) {
    glfw_ready_ = glfwInit() == GLFW_TRUE;
    if (!glfw_ready_) return Unavailable("cannot open a window");
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    window_ = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
    if (window_ == nullptr) return Unavailable("cannot open a window with OpenGL 3.3");
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(1);
    glfwSetWindowUserPointer(window_, this);
    glfwSetDropCallback(window_, [](GLFWwindow* window, int count, const char** paths) {
      auto* self = static_cast<GlfwSurface*>(glfwGetWindowUserPointer(window));
      self->dropped_.assign(paths, paths + count);
    });
    glfwSetWindowRefreshCallback(window_, [](GLFWwindow* window) {
      static_cast<GlfwSurface*>(glfwGetWindowUserPointer(window))->Exposed();
    });
    glfwSetFramebufferSizeCallback(window_, [](GLFWwindow* window, int, int) {
      static_cast<GlfwSurface*>(glfwGetWindowUserPointer(window))->Exposed();
    });
    software_ = IsSoftwareRenderer();
    backends_ready_ =
        ImGui_ImplGlfw_InitForOpenGL(window_, true) && ImGui_ImplOpenGL3_Init("#version 330");
    return backends_ready_ ? Status::Ok() : Unavailable("cannot draw with OpenGL 3.3");
  }

  void BeginFrame() override {
    redraw_ = false;
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
  }

  // A frame that looks like the one on the screen is not drawn: where the CPU draws, that is what
  // costs.
  void EndFrame() override {
    const uint64_t hash = HashOf(*ImGui::GetDrawData());
    if (!stale_ && !captures_ && hash == shown_ && !HasNewTextures()) return;
    stale_ = false;
    shown_ = hash;
    int width = 0;
    int height = 0;
    glfwGetFramebufferSize(window_, &width, &height);
    glViewport(0, 0, width, height);
    const ImVec4& ground = ImGui::GetStyle().Colors[ImGuiCol_DockingEmptyBg];
    glClearColor(ground.x, ground.y, ground.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    if (captures_) Capture(width, height);
    glfwSwapBuffers(window_);
  }

  void CaptureNext() override { captures_ = true; }
  Image TakeCaptured() override { return std::exchange(captured_, {}); }

  void Wait(double seconds) override {
    if (seconds <= 0) {
      glfwPollEvents();
    } else {
      glfwWaitEventsTimeout(seconds);
    }
  }

  bool has_input() const override { return redraw_ || !dropped_.empty() || HasInput(); }
  void Hide() override { glfwHideWindow(window_); }
  bool close_requested() const override { return glfwWindowShouldClose(window_) == GLFW_TRUE; }
  bool software() const override { return software_; }
  float content_scale() const override {
    float x = 1;
    float y = 1;
    glfwGetWindowContentScale(window_, &x, &y);
    return x;
  }
  std::vector<std::string> TakeDropped() override { return std::exchange(dropped_, {}); }

 private:
  void Capture(int width, int height) {
    captures_ = false;
    std::vector<uint8_t> bottom_up(static_cast<size_t>(width) * 4 * static_cast<size_t>(height));
    glPixelStorei(GL_PACK_ALIGNMENT, 1);
    glReadPixels(0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, bottom_up.data());
    captured_ = ImageFromBelow(width, height, bottom_up);
  }

  void Exposed() { redraw_ = stale_ = true; }

  static bool HasNewTextures() {
    const auto& textures = ImGui::GetPlatformIO().Textures;
    return std::any_of(textures.begin(), textures.end(), [](const ImTextureData* texture) {
      return texture->Status != ImTextureStatus_OK;
    });
  }

  static Status Unavailable(const char* what) {
    const char* why = nullptr;
    glfwGetError(&why);
    return Status::Error(
        fmt::format("{}{}{}; {}", what, why ? ": " : "", why ? why : "", kHeadless));
  }

  GLFWwindow* window_ = nullptr;
  std::vector<std::string> dropped_;
  bool redraw_ = false;  // no frame has begun since the window's size or content was lost
  bool stale_ = true;    // ... and none was drawn
  uint64_t shown_ = 0;   // HashOf() what is on the screen
  bool captures_ = false;
  Image captured_;
  bool glfw_ready_ = false;
  bool backends_ready_ = false;
  bool software_ = false;
};

}  // namespace

Result<std::unique_ptr<WindowSurface>> WindowSurface::Create(int width, int height,
                                                             const std::string& title) {
  auto surface = std::make_unique<GlfwSurface>();
  const Status status = surface->Create(width, height, title);
  if (!status.ok()) return status;
  return std::unique_ptr<WindowSurface>(std::move(surface));
}

void WindowSurface::Wake() { glfwPostEmptyEvent(); }

}  // namespace shardscope::shell
