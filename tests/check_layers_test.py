"""Plants each violation that scripts/check_layers.py knows in a small tree and expects it to be found, and nothing else."""

import contextlib
import importlib.util
import io
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts" / "check_layers.py")
check_layers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_layers)

FOLDERS = ["app", "engine/plan", "engine/plan/passes", "engine/config", "engine/cuda", "engine/cuda/device",
           "engine/cuda/runtime", "engine/executor", "engine/transport", "engine/model", "engine/runtime",
           "trace/base", "trace/schema", "trace/store", "trace/record", "trace/query", "trace/analysis", "ui/shell",
           "ui/timeline", "ui/timeline/draw", "ui/timeline/gpu", "ui/panels", "ui/widgets", "tests", "scripts"]

# What must pass: braces, parentheses and keywords where a careless scanner counts wrongly.
TRICKY = r'''
#include <vector>
#include "trace/base/status.h"
#define BRACES { { {
namespace a::b {
enum class Kind { kA, kB, kC, kD, kE, kF, kG, kH, kI, kJ, kK, kL, kM, kN, kO, kP, kQ, kR, kS, kT, kU, kV, kW, kX, kY, kZ };
/* { a comment; with; many; semicolons */
const char* const kText = "{ \" ; {";
const char* const kRaw = R"x({{{ ")" ;)x";
constexpr char kBrace = '{';
constexpr int kNumber = 1'000'000;
const auto kLambda = [](int x) { return x; };
template <typename T, int N, class U = std::map<int, std::pair<int, int>>>
class Box final : public std::vector<T> {
 public:
  Box(int a, int b) : a_{a}, b_(b), c_{} { Use({1, 2}); }
  bool operator<(const Box& other) const { return a_ < other.a_; }
  bool operator()(int a) const;
  std::function<void(int, int, int, int, int, int, int, int)> callback;
  std::map<int, std::pair<int, int>> map = {{1, {2, 3}}};
  static constexpr int kStatic = 3;
  using Alias = int;
  friend class Other;
 private:
  int a_ = Make(1, 2, 3, 4, 5, 6, 7, 8, 9);
  int b_{3};
  std::vector<int> c_;
};
void Default(std::vector<int> values = {}, std::map<int, int> map = {{1, 2}, {3, 4}}) {}
}  // namespace a::b
'''


def fields(count):
    return "struct Wide {\n" + "".join(f"  int field{i};\n" for i in range(count)) + "};\n"


def parameters(count):
    return ", ".join(f"std::map<int, int> p{i}" for i in range(count))


def function(num_lines):
    return "\nint Long(int x) {\n" + "  ++x;\n" * (num_lines - 3) + "  return x;\n}\n"


class CheckLayersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True)
        (self.root / "ARCHITECTURE.md").write_text("".join(f"| `{name}/` | ... |\n" for name in FOLDERS))

    def plant(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(self, *options):
        output = io.StringIO()
        arguments = ["check_layers.py", "--root", str(self.root), *options]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(output):
            code = check_layers.main()
        *lines, summary = output.getvalue().splitlines()
        self.assertIn("violations", summary)
        return code, lines

    def assert_clean(self):
        code, lines = self.check()
        self.assertEqual((code, lines), (0, []))

    def assert_found(self, where, fragment):
        code, lines = self.check()
        self.assertEqual(code, 1)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(where + ": "), lines)
        self.assertIn(fragment, lines[0])

    def test_a_clean_tree_passes(self):
        self.plant("engine/plan/tricky.cc", TRICKY)
        self.assert_clean()

    def test_the_tricky_file_is_counted_right(self):
        with mock.patch.object(check_layers, "FIELDS", (0, 0)):
            self.plant("engine/plan/tricky.cc", TRICKY)
            self.assert_found("engine/plan/tricky.cc:13", "fields: 5 ")

    def test_every_field_of_a_declaration_counts(self):
        for declaration, count in [
                ("Ages<uint32_t> a, b, c, d;", 4), ("int a = Make(1, 2), b = 3;", 2), ("int a[2], *b = nullptr;", 2), ("int a : 3, b : 4;", 2),
                ("std::map<int, std::pair<int, int>> a, b;", 2), ("int a{1}, b = {}, c;", 3), ("std::array<int, 3> a = {1, 2, 3};", 1),
                ("int a GUARDED_BY(mutex_) = 0, b;", 2), ("static int a, b;", 0), ("using A = std::map<int, int>;", 0), ("void F(int a, int b);", 0)]:
            with self.subTest(declaration=declaration), mock.patch.object(check_layers, "FIELDS", (0, 0)):
                self.plant("engine/plan/a.h", f"struct A {{\n  {declaration}\n}};\n")
                if count:
                    self.assert_found("engine/plan/a.h:1", f"fields: {count} ")
                else:
                    self.assert_clean()

    def test_forbidden_arrows(self):
        for source, target in [
                ("engine/plan/a.cc", "engine/config/config.h"), ("engine/config/a.h", "engine/runtime/trainer.h"),
                ("engine/executor/a.cc", "engine/transport/transport.h"), ("engine/transport/a.cc", "trace/record/recorder.h"),
                ("engine/model/a.cc", "engine/config/config.h"), ("engine/runtime/a.cc", "trace/store/writer.h"),
                ("engine/runtime/a.cc", "ui/context.h"), ("trace/base/a.h", "trace/schema/rows.h"),
                ("trace/schema/a.cc", "trace/store/writer.h"), ("trace/store/a.cc", "trace/query/snapshot.h"),
                ("trace/record/a.cc", "engine/plan/op.h"), ("trace/analysis/a.cc", "trace/store/reader.h"),
                ("trace/query/a.cc", "ui/context.h"), ("ui/a.cc", "engine/runtime/trainer.h"), ("ui/a.cc", "ui/shell/shell.h"),
                ("ui/shell/a.cc", "trace/store/reader.h"), ("ui/widgets/a.cc", "trace/query/snapshot.h"),
                ("ui/timeline/a.cc", "ui/panels/memory/panel.h"), ("ui/panels/log/a.cc", "ui/panels/memory/panel.h"),
                ("ui/panels/log/a.cc", "ui/shell/shell.h"), ("trace/store/a.cc", "app/train_main.h"),
                ("ui/shell/a.cc", "app/open.h"), ("tests/a.cc", "app/open.h"), ("trace/query/a_test.cc", "engine/plan/op.h"),
                ("ui/a_test.cc", "engine/runtime/trainer.h"), ("engine/plan/a_test.cc", "app/open.h"),
                ("engine/cuda/a.cc", "engine/checkpoint/checkpoint.h"), ("engine/cuda/runtime/a.cc", "engine/tokenizer/bpe.h"),
                ("engine/cuda/runtime/a.cc", "engine/transport/gloo/meeting.h")]:
            with self.subTest(source=source, target=target):
                self.plant(source, f'\n#include "{target}"\n')
                self.assert_found(source + ":2", target)
                (self.root / source).unlink()

    def test_allowed_arrows(self):
        for source, target in [
                ("engine/plan/a.cc", "engine/plan/passes/prefetch.h"), ("engine/plan/passes/a.cc", "engine/plan/op.h"),
                ("engine/config/a.h", "engine/plan/policy.h"), ("engine/executor/a.cc", "trace/record/recorder.h"),
                ("engine/executor/a_test_util.h", "engine/transport/transport.h"), ("trace/query/a_test.cc", "trace/record/recorder.h"),
                ("engine/runtime/a.cc", "engine/transport/transport.h"), ("trace/record/a.cc", "trace/schema/rows.h"),
                ("trace/analysis/a.cc", "trace/query/snapshot.h"), ("ui/a.h", "engine/config/config.h"),
                ("ui/panels/log/a.cc", "ui/timeline/axis.h"), ("ui/panels/log/a.cc", "ui/panels/log/b.h"),
                ("ui/shell/a.cc", "ui/panels/log/panel.h"), ("ui/widgets/a.cc", "ui/theme.h"), ("ui/a.cc", "engine/footprint/footprint.h"),
                ("app/a.cc", "engine/runtime/trainer.h"), ("app/a.cc", "app/open.h"), ("tests/a.cc", "ui/shell/shell.h")]:
            self.plant(source, f'#include "{target}"\n#include "trace/base/status.h"\n')
            with self.subTest(source=source, target=target):
                self.assert_clean()
            (self.root / source).unlink()

    def test_product_sources_include_no_helpers_of_tests(self):
        for source in ("engine/executor/a.cc", "engine/executor/a.h", "ui/timeline/draw/a.cc", "app/a.cc"):
            with self.subTest(source=source):
                folder = "ui/timeline" if source.startswith("ui/") else "engine/executor"
                self.plant(source, f'\n#include "{folder}/toys_test_util.h"\n')
                self.assert_found(source + ":2", "only tests may include")
                (self.root / source).unlink()
        for source in ("engine/executor/a_test.cc", "engine/executor/a_test_util.h", "engine/executor/a_test_util.cc", "tests/a.cc"):
            self.plant(source, '#include "engine/executor/toys_test_util.h"\n')
        self.assert_clean()

    def test_third_party_headers_outside_their_layer(self):
        for source, header, name in [
                ("engine/executor/a.cc", "ATen/core/Tensor.h", "LibTorch"), ("ui/a.cc", "torch/torch.h", "LibTorch"),
                ("trace/query/a.cc", "sqlite3.h", "SQLite"), ("app/a.cc", "sqlite3.h", "SQLite"),
                ("engine/runtime/a.cc", "imgui.h", "Dear ImGui"), ("app/a.cc", "GLFW/glfw3.h", "Dear ImGui"),
                ("engine/runtime/a.cc", "cuda_runtime.h", "CUDA"), ("engine/plan/a.cu", "nccl.h", "CUDA"),
                ("engine/cuda/device/a.cc", "cuda_runtime.h", "CUDA"), ("engine/cuda/device/a_test.cc", "cuda.h", "CUDA"),
                ("ui/timeline/a.cc", "imgui.h", "Dear ImGui"), ("ui/timeline/gpu/a.h", "imgui.h", "Dear ImGui")]:
            with self.subTest(source=source, header=header):
                self.plant(source, f"// a\n\n#include <{header}>\n")
                self.assert_found(source + ":3", name)
                (self.root / source).unlink()
        for source, header in [("engine/model/a.cc", "ATen/core/Tensor.h"), ("trace/store/a.cc", "sqlite3.h"),
                               ("ui/widgets/a.cc", "imgui.h"), ("ui/timeline/draw/a.cc", "imgui.h"), ("ui/panels/timeline/a.cc", "imgui.h"),
                               ("engine/cuda/runtime/a.cc", "cuda_runtime.h"), ("trace/record/a.cc", "nvtx3/nvToolsExt.h")]:
            self.plant(source, f"#include <{header}>\n")
        self.assert_clean()

    def test_includes_are_written_from_the_root(self):
        for target in ("op.h", "../plan/op.h", "engine/../plan/op.h", "plan/op.h"):
            with self.subTest(target=target):
                self.plant("engine/plan/a.cc", f'#include "{target}"\n')
                self.assert_found("engine/plan/a.cc:1", "from the repository root")

    def test_folders_are_named_in_the_architecture(self):
        for name in ("engine/secret", "trace/secret", "ui/secret", "secret", "engine/plan/secret", "ui/timeline/a/b", "app/secret", "tests/secret"):
            with self.subTest(folder=name):
                (self.root / name).parent.mkdir(exist_ok=True)
                (self.root / name).mkdir()
                guide = (self.root / "ARCHITECTURE.md").read_text()
                (self.root / "ARCHITECTURE.md").write_text(guide + "| `ui/timeline/a/` | ... |\n")
                self.assert_found(name + ":1", "ARCHITECTURE.md")
                (self.root / "ARCHITECTURE.md").write_text(guide)
                (self.root / name).rmdir()
        shutil.rmtree(self.root / "ui/timeline/a")
        for name in ("build/x", "runs/x", ".git/x", "engine/plan/__pycache__", "ui/panels/secret"):
            (self.root / name).mkdir(parents=True)
        self.assert_clean()

    def test_a_folder_may_be_named_in_the_row_of_one_that_it_is_in(self):
        (self.root / "engine/plan/checks/deep").mkdir(parents=True)
        guide = (self.root / "ARCHITECTURE.md").read_text()
        named = "| `engine/plan/` | Op; `checks/` the validator's parts, `checks/deep/` more |\n"
        (self.root / "ARCHITECTURE.md").write_text(guide.replace("| `engine/plan/` | ... |\n", named))
        self.assert_clean()
        # Another folder's row does not name it.
        (self.root / "ARCHITECTURE.md").write_text(guide + named.replace("engine/plan", "engine/config"))
        code, lines = self.check()
        self.assertEqual((code, [line.partition(":")[0] for line in lines]), (1, ["engine/plan/checks", "engine/plan/checks/deep"]))

    def assert_limit(self, path, make, hard, where, what):
        """At the limit all is well; one more fails, unless the first line says why."""
        self.plant(path, make(hard))
        self.assert_clean()
        self.plant(path, make(hard + 1))
        self.assert_found(where, f"{what}: {hard + 1} (limit {hard})")
        self.plant(path, "// limit: generated\n" + make(hard + 1).replace("\n", "", 1))
        self.assert_clean()
        (self.root / path).unlink()

    def test_hard_limits(self):
        self.assert_limit("engine/plan/a.h", lambda n: "\n" * n, 450, "engine/plan/a.h:1", "lines")
        self.assert_limit("engine/plan/a.cc", lambda n: "\n" * n, 800, "engine/plan/a.cc:1", "lines")
        self.assert_limit("engine/plan/a.cc", function, 100, "engine/plan/a.cc:2", "lines in a function")
        self.assert_limit("engine/plan/a.cc", lambda n: "\n" + fields(n), 25, "engine/plan/a.cc:2", "fields")
        self.assert_limit("engine/plan/a.cc", lambda n: f"\nvoid F({parameters(n)}) {{}}\n", 7, "engine/plan/a.cc:2", "parameters")
        self.assert_limit("engine/plan/a.h", lambda n: f"\nvoid F({parameters(n)});\n", 7, "engine/plan/a.h:2", "parameters")
        self.assert_limit("engine/plan/a.h", lambda n: f"\nclass A {{\n  virtual void F({parameters(n)}) = 0;\n}};\n", 7,
                          "engine/plan/a.h:3", "parameters")

    def test_long_functions_hide_nowhere(self):
        body = "".join("  if (x) {\n    y;\n  }\n" for _ in range(40))
        for opening, closing in [("Box::Box(int a) : a_{a}, b_(2) {", "}"), ("template <class T> auto F(T x) -> int {", "}"),
                                 ("TEST(Suite, Name) {", "}"), ("class A {\n  void F() const noexcept {", "}\n};"),
                                 ("namespace n { class A { struct B { static B operator+(B a, B b) {", "}};};}")]:
            with self.subTest(opening=opening):
                self.plant("engine/plan/a.cc", f"{opening}\n{body}{closing}\n")
                line = 2 if opening.startswith("class A") else 1
                self.assert_found(f"engine/plan/a.cc:{line}", "lines in a function: 122")

    def test_soft_limits_are_printed_on_request_and_never_fail(self):
        self.plant("engine/plan/a.cc", function(51))
        self.assert_clean()
        code, lines = self.check("--soft")
        self.assertEqual(code, 0)
        self.assertEqual(lines, ["soft: engine/plan/a.cc:2: lines in a function: 51 (soft limit 50)"])


if __name__ == "__main__":
    unittest.main()
