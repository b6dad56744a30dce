#!/usr/bin/env python3
"""Checks the arrows between folders, where third-party headers may appear, and the limits on size.

Prints one line a violation (file:line: what), then a summary; exits with 1 if there is any. Arrows and limits are those of
ARCHITECTURE.md and CONTRIBUTING.md. Limits are soft/hard: soft ones are printed with --soft and never fail; a hard one fails
unless the first line of the file gives a reason, as in `// limit: one table, better in one piece`.
"""

import argparse
import fnmatch
import pathlib
import re
import sys

ALL = {"engine/*", "trace/*", "lesson", "ui", "ui/*"}
ENGINE = {"engine/plan", "engine/checkpoint", "engine/config", "engine/footprint", "engine/executor", "engine/transport",
          "engine/transport/gloo", "engine/model", "engine/tokenizer", "trace/record"}
SHOWN = {"trace/query", "trace/analysis", "trace/bookmarks", "engine/plan", "engine/config", "engine/footprint", "engine/simulate", "lesson"}  # what ui may show
# Whom a folder may include, besides itself and trace/base. Of these names the longest that fits a path is its layer.
ARROWS = {
    "app": ALL, "tests": ALL,
    "engine/plan": set(), "engine/tokenizer": set(), "engine/config": {"engine/plan"}, "engine/executor": {"engine/plan", "trace/record"},
    "engine/transport": {"engine/plan"}, "engine/transport/gloo": {"engine/plan", "engine/transport"},
    "engine/checkpoint": {"engine/plan"}, "engine/model": {"engine/plan", "engine/checkpoint", "engine/tokenizer"},
    "engine/footprint": {"engine/plan", "engine/config", "engine/model", "engine/transport"},
    "engine/simulate": {"engine/plan", "engine/executor"},
    "lesson": {"engine/plan", "engine/config", "engine/footprint", "trace/query", "trace/store"},
    "engine/torch_ranges": {"trace/record/inject"},  # its events
    "engine/runtime": ENGINE,
    "engine/cuda": ENGINE - {"engine/checkpoint", "engine/tokenizer", "engine/transport/gloo"} |
                   {"engine/runtime", "engine/torch_ranges", "trace/record/cupti", "trace/record/gpu"},
    "trace/base": set(), "trace/schema": set(), "trace/store": {"trace/schema"},
    "trace/record": {"trace/store", "trace/schema"}, "trace/record/cupti": set(),
    "trace/record/gpu": {"trace/record", "trace/record/cupti", "trace/schema"},
    "trace/record/inject": {"trace/record", "trace/record/cupti", "trace/record/gpu", "trace/store", "trace/schema"},
    "trace/query": {"trace/store", "trace/schema"},
    "trace/bookmarks": set(), "trace/import": {"trace/bookmarks", "trace/store", "trace/schema"}, "trace/export": {"trace/query", "trace/store", "trace/schema"},
    "trace/analysis": {"trace/query"},
    "ui": SHOWN, "ui/widgets": {"ui"}, "ui/timeline": SHOWN | {"ui", "ui/widgets"},
    "ui/panels": SHOWN | {"ui", "ui/widgets", "ui/timeline", "ui/panels"}, "ui/shell": SHOWN | {"ui", "ui/*", "trace/import"},
}
# Unit tests and their helpers may use neighbours to make their inputs, but not turn these arrows round.
TEST_FILE = re.compile(r"_test\.cc$|_test_util\.(h|cc)$")
NEVER = [("trace", "engine"), ("trace", "lesson"), ("engine", "lesson"), ("trace", "ui"), ("engine", "ui"), ("ui", "engine/runtime"), ("ui", "engine/model")]
# Where headers of others may appear, and in which folders within these they may not: the longest that fits a path counts.
HEADERS = [
    ("LibTorch", r"(ATen|c10|torch|caffe2)/", ("engine/model", "engine/runtime", "engine/cuda", "engine/transport/gloo",
                                                 "engine/torch_ranges", "tests/fake_torch", "tests/bench"), ()),
    ("SQLite", r"sqlite3", ("trace/store",), ()),
    ("Dear ImGui", r"(imgui|GLFW/|GL/|EGL/)", ("ui", "ui/timeline/draw", "tests"), ("ui/timeline",)),
    ("tokeniser library", r"(pcre2|utf8proc|minja)", ("engine/tokenizer",), ()),
    ("CUDA", r"(cuda|nccl|cupti|nvToolsExt|nvtx3/)", ("engine/cuda", "engine/torch_ranges", "trace/record", "tests"), ("engine/cuda/device",)),
]
CODE_FOLDERS = ("app", "engine", "lesson", "trace", "ui", "tests")
UNNAMED = {"build", "runs", "__pycache__"}  # folders that ARCHITECTURE.md need not name, wherever they are,
OF_ONE_KIND = {"ui/panels"}  # and those in which every folder is of the same kind, which it says
HEADER_LINES, SOURCE_LINES, FUNCTION_LINES, FIELDS, PARAMETERS = (250, 450), (450, 800), (50, 100), (15, 25), (5, 7)


class Report:
    """Collects violations; `excused` files have a reason in their first line."""

    def __init__(self):
        self.hard, self.soft = [], []

    def violation(self, where, line, message):
        self.hard.append(f"{where}:{line}: {message}")

    def limit(self, where, line, what, value, limits, excused=False):
        message = f"{where}:{line}: {what}: {value}"
        if value > limits[1] and not excused:
            self.hard.append(f"{message} (limit {limits[1]})")
        elif value > limits[0]:
            self.soft.append(f"{message} (soft limit {limits[0]})")


def layer_of(folder):
    parts = folder.split("/")
    while parts and "/".join(parts) not in ARROWS:
        parts.pop()
    name = "/".join(parts)
    return "/".join(folder.split("/")[:3]) if name == "ui/panels" else name  # every panel is a layer of its own


def may_include(path, target):
    source, wanted = layer_of(path.rpartition("/")[0]), layer_of(target.rpartition("/")[0])
    if wanted in (source, "trace/base"):
        return True
    if TEST_FILE.search(path):
        return wanted != "app" and not any(inside(path, a) and inside(target, b) for a, b in NEVER)
    allowed = ARROWS.get("ui/panels" if inside(source, "ui/panels") else source, ())
    return any(fnmatch.fnmatch(wanted, pattern) for pattern in allowed)


def inside(path, folder):
    return path.startswith(folder + "/")


def may_appear(path, folders, barred):
    longest = max((folder for folder in (*folders, *barred) if inside(path, folder)), key=len, default="")
    return longest in folders


def check_includes(path, text, report):
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        bracket, target = found.groups()
        for name, pattern, folders, barred in HEADERS:
            if re.match(pattern, target) and not may_appear(path, folders, barred):
                but = f" or in {', '.join(barred)}" if barred else ""
                report.violation(path, number, f"{name} header <{target}> outside {', '.join(folders)}{but}")
        if bracket == '"' and (target.split("/")[0] not in CODE_FOLDERS or ".." in target.split("/")):
            report.violation(path, number, f'include "{target}" is not written from the repository root')
        elif bracket == '"' and not may_include(path, target):
            report.violation(path, number, f"{layer_of(path.rpartition('/')[0])} may not include {target}")
        elif bracket == '"' and TEST_FILE.search(target) and not TEST_FILE.search(path) and not inside(path, "tests"):
            report.violation(path, number, f"only tests may include {target}")


def blanked(text):
    """The text with comments, literals and preprocessor lines as spaces; lines stay where they are."""
    pattern = (r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
               r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*")
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)


def plain(head):
    """A declaration without what is between < and >, and without the names of operators."""
    head = re.sub(r"\b(PT_)?GUARDED_BY\s*\([^()]*\)", " ", head)
    head = re.sub(r"operator\s*(\(\s*\)|[^\s\w(]+)", "operator_", head).replace("->", "  ")
    while (shorter := re.sub(r"<[^<>;{}]*>", " ", head)) != head:
        head = shorter
    return re.sub(r"^(\s*((public|private|protected)\s*:|template\b|\[\[.*?\]\]))*\s*", "", head).strip()


def num_commas(head, begin=0):
    """Those outside brackets, from `begin` to the end or to the bracket that closes what is around it; and where that is."""
    depth, count = 0, 0
    for position in range(begin, len(head)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(head[position], 0)
        if depth < 0:
            return count, position
        count += head[position] == "," and depth == 0
    return count, len(head)


def num_parameters(head):
    """Of a declaration as plain() gives it."""
    begin = head.index("(") + 1
    commas, end = num_commas(head, begin)
    return commas + (head[begin:end].strip() not in ("", "void"))


def is_function(head):
    return "(" in head and "=" not in head.split("(")[0] and not re.match(r"(using|typedef|extern\s*$)", head)


def kind_of(head, before):
    """What an opening brace at namespace or class level opens; `before` is the character before it."""
    if re.match(r"(inline\s+)?namespace\b|extern\s*$", head):
        return "namespace"
    if re.match(r"(class|struct|union)\b", head) and not re.search(r"\)\s*(const)?\s*$|=", head):
        return "class"
    in_initializers = re.search(r"\)\s*(noexcept\s*)?:[^:]", head) and (before.isalnum() or before in "_>")
    return "function" if is_function(head) and not in_initializers else "braces"


class Scanner:
    """Walks over one file's braces and semicolons; finds functions, classes and their fields."""

    def __init__(self, path, text, excused, report):
        self.path, self.text, self.excused, self.report = path, blanked(text), excused, report

    def line(self, position):
        return self.text.count("\n", 0, position) + 1

    def start(self, begin):
        return begin + len(self.text[begin:]) - len(self.text[begin:].lstrip())

    def limit(self, begin, what, value, limits):
        self.report.limit(self.path, self.line(self.start(begin)), what, value, limits, self.excused)

    def scope(self, position, kind, head_begin):
        """Reads a namespace or class from after its opening brace; returns the position after the closing one."""
        begin, parens, num_fields = position, 0, 0
        while position < len(self.text):
            char = self.text[position]
            parens += {"(": 1, ")": -1}.get(char, 0)
            position += 1
            if char == "{":
                head = plain(self.text[begin:position - 1])
                opened = kind_of(head, self.text[begin:position - 1].rstrip()[-1:]) if parens == 0 else "braces"
                if opened in ("namespace", "class"):
                    position = self.scope(position, opened, begin)
                else:
                    position = self.closing(position)
                if opened == "function":
                    lines = self.line(position) - self.line(self.start(begin)) + 1
                    self.limit(begin, "lines in a function", lines, FUNCTION_LINES)
                    self.limit(begin, "parameters", num_parameters(head), PARAMETERS)
                begin = begin if opened == "braces" else position
            elif char == ";" and parens == 0:
                head = plain(self.text[begin:position - 1])
                if is_function(head):
                    self.limit(begin, "parameters", num_parameters(head), PARAMETERS)
                elif head and not re.match(r"(using|typedef|friend|static|enum|class|struct|union)\b", head):
                    num_fields += 1 + num_commas(head)[0]  # int a, b = 2;
                begin = position
            elif char == "}":
                break
        if kind == "class":
            self.limit(head_begin, "fields", num_fields, FIELDS)
        return position

    def closing(self, position):
        depth = 1
        while depth and position < len(self.text):
            depth += {"{": 1, "}": -1}.get(self.text[position], 0)
            position += 1
        return position


def check_file(path, text, report):
    excused = "limit:" in text.partition("\n")[0]
    is_header = path.endswith((".h", ".cuh"))
    report.limit(path, 1, "lines", text.count("\n"), HEADER_LINES if is_header else SOURCE_LINES, excused)
    if not path.endswith(".py"):
        check_includes(path, text, report)
        Scanner(path, text, excused, report).scope(0, "namespace", 0)


def is_named(name, guide):
    """Whether the guide has a folder by its path, or by the rest of it in the row of a folder that it is in."""
    if f"`{name}/" + ("`" if "/" in name else "") in guide:  # `engine/` as a whole is named by its parts
        return True
    parts = name.split("/")
    for length in range(1, len(parts)):
        row = re.search(rf"^\| `{re.escape('/'.join(parts[:length]))}/` \|.*", guide, re.M)
        if row and f"`{'/'.join(parts[length:])}/`" in row.group():
            return True
    return False


def check_folders(root, report):
    """Every folder is named in ARCHITECTURE.md: of the repository, and at any depth of those with code."""
    path = root / "ARCHITECTURE.md"
    guide = path.read_text(encoding="utf-8") if path.exists() else ""
    top = [p for p in sorted(root.iterdir()) if p.is_dir() and p.name[0] != "."]
    inner = [p for name in CODE_FOLDERS for p in sorted(root.glob(name + "/**/*")) if p.is_dir()]
    for folder in top + inner:
        place = folder.relative_to(root)
        name = place.as_posix()
        if not UNNAMED & set(place.parts) and place.parent.as_posix() not in OF_ONE_KIND and not is_named(name, guide):
            report.violation(name, 1, f"the folder is not named in ARCHITECTURE.md (`{name}/`)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--soft", action="store_true", help="print what is over a soft limit, too")
    arguments = parser.parse_args()
    report, num_files = Report(), 0
    for folder in CODE_FOLDERS + ("scripts",):
        for path in sorted((arguments.root / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".cuh", ".py") and path.is_file():
                num_files += 1
                text = path.read_text(encoding="utf-8", errors="replace")
                check_file(path.relative_to(arguments.root).as_posix(), text, report)
    check_folders(arguments.root, report)
    for line in report.hard + (["soft: " + line for line in report.soft] if arguments.soft else []):
        print(line)
    print(f"check_layers: {num_files} files, {len(report.hard)} violations, {len(report.soft)} over a soft limit")
    return 1 if report.hard else 0


if __name__ == "__main__":
    sys.exit(main())
