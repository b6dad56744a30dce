#include "ui/shell/backend/headless.h"

#define EGL_EGLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>
#define GL_GLEXT_PROTOTYPES
#include <GL/gl.h>
#include <GL/glext.h>
#include <fmt/format.h>
#include <imgui.h>
#include <imgui_impl_opengl3.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

namespace shardscope::shell {
namespace {

// Animations and pictures see the same clock on every machine.
constexpr float kFrameSeconds = 1.0f / 60;

void SetFrame(int width, int height) {
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(width), static_cast<float>(height)};
  io.DeltaTime = kFrameSeconds;
}

// Mesa waits for ever for threads that it could not start. Throws what std::thread throws, where
// there are not as many as it takes (llvmpipe: one a core, at most 32, and a few for shaders).
void CheckThreads() {
  const unsigned wanted = std::min(std::thread::hardware_concurrency(), 32U) + 4;
  std::promise<void> all_started;
  const std::shared_future<void> end = all_started.get_future().share();
  std::vector<std::jthread> threads;
  try {
    for (unsigned i = 0; i < wanted; ++i) threads.emplace_back([end] { end.wait(); });
  } catch (...) {
    all_started.set_value();
    throw;
  }
  all_started.set_value();
}

// An EGL context without any window or display server; destroyed with its display connection.
class EglContext {
 public:
  ~EglContext() {
    if (display_ == EGL_NO_DISPLAY) return;
    eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    if (context_ != EGL_NO_CONTEXT) eglDestroyContext(display_, context_);
    eglTerminate(display_);
  }

  Status Create() {
    CheckThreads();
    display_ = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
    if (display_ == EGL_NO_DISPLAY || !eglInitialize(display_, nullptr, nullptr)) {
      display_ = EGL_NO_DISPLAY;
      return Unavailable("eglInitialize");
    }
    if (!eglBindAPI(EGL_OPENGL_API)) return Unavailable("eglBindAPI");
    const EGLint config_attributes[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE,
                                        EGL_OPENGL_BIT, EGL_NONE};
    EGLConfig config = nullptr;
    EGLint num_configs = 0;
    eglChooseConfig(display_, config_attributes, &config, 1, &num_configs);
    const EGLint context_attributes[] = {EGL_CONTEXT_MAJOR_VERSION,
                                         3,
                                         EGL_CONTEXT_MINOR_VERSION,
                                         3,
                                         EGL_CONTEXT_OPENGL_PROFILE_MASK,
                                         EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT,
                                         EGL_NONE};
    context_ = eglCreateContext(display_, num_configs > 0 ? config : EGL_NO_CONFIG_KHR,
                                EGL_NO_CONTEXT, context_attributes);
    if (context_ == EGL_NO_CONTEXT) return Unavailable("eglCreateContext");
    if (!eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, context_)) {
      return Unavailable("eglMakeCurrent");
    }
    return Status::Ok();
  }

 private:
  static Status Unavailable(const char* call) {
    return Status::Error(fmt::format(
        "cannot draw without a display: {} failed (EGL error {:#x}); install libegl1, libegl-mesa0 "
        "and libgl1-mesa-dri, or use `shardscope report`, which needs no graphics",
        call, eglGetError()));
  }

  EGLDisplay display_ = EGL_NO_DISPLAY;
  EGLContext context_ = EGL_NO_CONTEXT;
};

class EglSurface : public HeadlessSurface {
 public:
  EglSurface(int width, int height) : width_(width), height_(height) {}

  ~EglSurface() override {
    if (backend_ready_) ImGui_ImplOpenGL3_Shutdown();
    if (framebuffer_ != 0) glDeleteFramebuffers(1, &framebuffer_);
    if (color_ != 0) glDeleteRenderbuffers(1, &color_);
  }

  Status Create() {
    SHARDSCOPE_RETURN_IF_ERROR(egl_.Create());
    glGenFramebuffers(1, &framebuffer_);
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
    glGenRenderbuffers(1, &color_);
    glBindRenderbuffer(GL_RENDERBUFFER, color_);
    glRenderbufferStorage(GL_RENDERBUFFER, GL_RGBA8, width_, height_);
    glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER, color_);
    if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) {
      return Status::Error(
          fmt::format("cannot draw a picture of {}x{}: the graphics library refuses that size; "
                      "choose a smaller --size",
                      width_, height_));
    }
    backend_ready_ = ImGui_ImplOpenGL3_Init("#version 330");
    if (!backend_ready_) {
      return Status::Error(
          "cannot draw: OpenGL 3.3 is not available here; install libgl1-mesa-dri");
    }
    return Status::Ok();
  }

  void BeginFrame() override {
    SetFrame(width_, height_);
    ImGui_ImplOpenGL3_NewFrame();
  }

  void EndFrame() override {
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
    glViewport(0, 0, width_, height_);
    const ImVec4& ground = ImGui::GetStyle().Colors[ImGuiCol_DockingEmptyBg];
    glClearColor(ground.x, ground.y, ground.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  }

  Image Read() override {
    std::vector<uint8_t> bottom_up(static_cast<size_t>(width_) * 4 * static_cast<size_t>(height_));
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
    glPixelStorei(GL_PACK_ALIGNMENT, 1);
    glReadPixels(0, 0, width_, height_, GL_RGBA, GL_UNSIGNED_BYTE, bottom_up.data());
    return ImageFromBelow(width_, height_, bottom_up);
  }

 private:
  EglContext egl_;  // destroyed last
  int width_;
  int height_;
  GLuint framebuffer_ = 0;
  GLuint color_ = 0;
  bool backend_ready_ = false;
};

}  // namespace

Result<std::unique_ptr<HeadlessSurface>> HeadlessSurface::Create(int width, int height) {
  auto surface = std::make_unique<EglSurface>(width, height);
  const Status status = surface->Create();
  if (!status.ok()) return status;
  return std::unique_ptr<HeadlessSurface>(std::move(surface));
}

void NullSurface::BeginFrame() {
  // Like the real renderer: draw lists may hold more than 65,536 vertices.
  ImGui::GetIO().BackendFlags |=
      ImGuiBackendFlags_RendererHasTextures | ImGuiBackendFlags_RendererHasVtxOffset;
  SetFrame(width_, height_);
}

void NullSurface::EndFrame() {
  for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
    if (texture->Status == ImTextureStatus_WantDestroy) {
      texture->SetTexID(ImTextureID_Invalid);
      texture->SetStatus(ImTextureStatus_Destroyed);
    } else if (texture->Status != ImTextureStatus_OK &&
               texture->Status != ImTextureStatus_Destroyed) {
      texture->SetTexID(1);
      texture->SetStatus(ImTextureStatus_OK);
    }
  }
}

}  // namespace shardscope::shell
