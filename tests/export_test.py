"""`shardscope export`: what other tools read, and that a run comes back from it as itself."""

import base64
import csv
import html
import io
import json
import re
import shutil
import subprocess
import unittest

from chrome_traces import Trace, fsdp2_step
from programs import APP, ROOT, TINY, ImportTestCase

# Places, ids, and how many files there are: all that may differ.
OF_THE_FILES = ("name", "run_folder", "clocks", "sources", "op_run", "waiting_op_run", "blocking_op_run", "plan_op")


def without_files(value):
    if isinstance(value, dict):
        return {key: without_files(content) for key, content in value.items() if key not in OF_THE_FILES}
    if isinstance(value, list):  # equals come in the order of their files
        return sorted((without_files(content) for content in value), key=lambda content: json.dumps(content, sort_keys=True))
    return value


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def chakra_fields(data):
    """Of a protobuf message: by number the values in their order."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        fields.setdefault(key >> 3, []).append(value)
    return fields


def chakra_messages(data):
    at = 0
    while at < len(data):
        length, at = varint(data, at)
        yield chakra_fields(data[at:at + length])
        at += length


class ExportTest(ImportTestCase):
    def export(self, run, form, *options, check=0):
        to = self.root / f"out-{form}"
        done = self.run_program(APP, "export", run, "--format", form, "-o", to, *options, check=check == 0)
        self.assertEqual(done.returncode, check, done.stderr)
        return to if check == 0 else done.stderr

    def facts(self, run):
        return without_files(self.report(run, "--all"))

    def back(self, folder, name="back"):
        run = self.root / name
        self.run_program(APP, "import", folder, "-o", run)
        return run

    def train_run(self):
        run, _ = self.train("run", *TINY, "train.steps=6", "transport=emulated", "link.bandwidth=100MB/s", "link.latency=50us")
        return run

    def test_our_own_run_comes_back_from_kinetos_form_with_the_same_report(self):
        run = self.train_run()
        folder = self.export(run, "kineto")
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["rank0.json", "rank1.json"])
        back, own = self.facts(self.back(folder)), self.facts(run)
        self.assertEqual(back.keys(), own.keys())
        for key in own:
            self.assertEqual(back[key], own[key], key)

    def test_an_export_by_an_older_version_comes_back_likewise(self):
        run = self.train_run()
        folder = self.export(run, "kineto")

        def set_version(version):
            before = set()
            for path in folder.iterdir():
                trace = json.loads(path.read_text())
                [arguments] = [event["args"] for event in trace["traceEvents"] if "shardscope schema" in event.get("args", {})]
                before.add(arguments["shardscope schema"])
                arguments["shardscope schema"] = version
                path.write_text(json.dumps(trace))
            return before

        [newest] = set_version(8)
        self.assertGreater(newest, 8)
        self.assertEqual(self.facts(self.back(folder)), self.facts(run))
        # Nobody knows what rows of a newer one are: then it is a trace of torch's profiler, which has no losses.
        set_version(newest + 1)
        trained = "SELECT count(*) AS n FROM step WHERE loss > 0"
        self.assertGreater(self.sql(run, trained)[0]["n"], 0)
        self.assertEqual(self.sql(self.back(folder, "newer"), trained), [{"n": 0}])

    def test_derived_rows_that_an_export_was_given_are_left_out(self):
        run = self.train_run()
        folder = self.export(run, "kineto")
        for path in folder.iterdir():
            trace = json.loads(path.read_text())
            for name, row in (("row_chunk", [1, "op_run", 1, "rows"]), ("step_range", [0, 1, 1, 1, 1, 1, 1])):
                trace["traceEvents"].append({"ph": "i", "cat": "shardscope", "name": name, "pid": 0, "tid": 0, "ts": 0, "s": "g",
                                             "args": {f"shardscope {name}": [row]}})
            path.write_text(json.dumps(trace))
        self.assertEqual(self.facts(self.back(folder)), self.facts(run))

    def test_an_imported_run_comes_back_likewise(self):
        traces = self.root / "traces"
        traces.mkdir()
        for rank in (0, 1):
            fsdp2_step(rank, 40 * rank).write(traces / f"rank{rank}.json")
        run = self.back(traces, "imported")
        self.assertEqual(self.facts(self.back(self.export(run, "kineto"))), self.facts(run))

    def test_without_our_own_arguments_it_is_still_a_trace_of_torchs_profiler(self):
        run = self.train_run()
        folder = self.export(run, "kineto")
        for path in folder.iterdir():
            trace = json.loads(path.read_text())
            kept = []
            for event in trace["traceEvents"]:
                arguments = event.get("args", {})
                ours = [key for key in arguments if key.startswith("shardscope")]
                if event.get("cat") == "shardscope":
                    continue
                event["args"] = {key: value for key, value in arguments.items() if key not in ours}
                kept.append(event)
            path.write_text(json.dumps({**trace, "traceEvents": kept}))
        own, back = self.report(run, "--all"), self.report(self.back(folder), "--all")
        self.assertEqual({(row["rank"], row["step"]) for row in back["steps"]}, {(row["rank"], row["step"]) for row in own["steps"]})
        self.assertEqual(back["losses"], {})
        count = "SELECT kind, count(*) AS n, sum(payload_bytes) AS bytes FROM collective GROUP BY 1 ORDER BY 1"
        self.assertEqual(self.sql(self.root / "back", count), self.sql(run, count))
        self.assertEqual([group["parallelism"] for group in back["recognised"]], ["FSDP2"])
        # Units and phases come from the ranges around the launches; the optimizer's have no unit in PyTorch.
        ops = "SELECT DISTINCT p.kind, p.phase, CASE WHEN p.unit != '' THEN p.unit ELSE substr(p.segment, 1, instr(p.segment || '.', '.') - 1) " \
              "END AS unit FROM op_run o JOIN plan_op p ON p.id = o.plan_op WHERE p.category IN ('communication', 'compute') " \
              "AND p.phase != 'optimizer' AND p.unit || p.segment != '' ORDER BY 1, 2, 3"
        self.assertEqual(self.sql(self.root / "back", ops), self.sql(run, ops))
        times = "SELECT * FROM v_step ORDER BY rank, step"
        for got, want in zip(self.sql(self.root / "back", times), self.sql(run, times), strict=True):
            for column in ("communication_ms", "copy_ms"):
                self.assertAlmostEqual(got[column], want[column], delta=1e-3, msg=(column, got, want))
            # Kernels of one range in a row are one op, which has the gaps between them too.
            self.assertGreater(got["compute_ms"], want["compute_ms"] - 1e-3)
            self.assertLess(got["exposed_ms"], want["exposed_ms"] + 1e-3)

    def test_perfettos_form_has_every_slice_and_they_nest(self):
        run = self.train_run()
        trace = json.loads(self.export(run, "perfetto").read_text())
        events = trace["traceEvents"]
        slices = [event for event in events if event["ph"] == "X" and event["cat"] != "step"]
        runs = self.sql(run, "SELECT o.rank + 1 AS pid, p.name, o.started_ns, o.ended_ns FROM op_run o JOIN plan_op p ON p.id = o.plan_op")
        exact = sorted((row["pid"], row["name"], row["started_ns"], row["ended_ns"] - row["started_ns"]) for row in runs)
        nanoseconds = lambda value: round(value * 1000)  # noqa: E731
        self.assertEqual(sorted((e["pid"], e["name"], nanoseconds(e["ts"]), nanoseconds(e["dur"])) for e in slices), exact)
        rows = {}
        for event in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            open_ends = rows.setdefault((event["pid"], event["tid"]), [])
            start, end = nanoseconds(event["ts"]), nanoseconds(event["ts"]) + nanoseconds(event["dur"])
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            self.assertTrue(not open_ends or open_ends[-1] >= end, event)
            open_ends.append(end)
        arrows = {phase: sorted(event["id"] for event in events if event["ph"] == phase) for phase in "sf"}
        self.assertEqual(arrows["s"], arrows["f"])
        named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
        self.assertLessEqual(set(rows), named)
        loss = [event["args"]["loss"] for event in events if event["ph"] == "C" and event["name"] == "loss" and event["pid"] == 1]
        self.assertEqual(loss, [row["loss"] for row in self.sql(run, "SELECT loss FROM step WHERE rank = 0 ORDER BY step")])

    def test_chakras_form_has_every_op_with_what_it_depends_on(self):
        run = self.train_run()
        folder = self.export(run, "chakra")
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["trace.0.et", "trace.1.et"])
        runs = self.sql(run, "SELECT o.id, o.rank, o.step, o.plan_op, o.started_ns, o.ended_ns, p.name, p.kind, c.payload_bytes, c.sequence "
                             "FROM op_run o JOIN plan_op p ON p.id = o.plan_op LEFT JOIN collective c ON c.op_run = o.id")
        edges = {}
        for row in self.sql(run, "SELECT plan_op, predecessor FROM plan_edge"):
            edges.setdefault(row["plan_op"], set()).add(row["predecessor"])
        plan_of = {row["id"]: row["plan_op"] for row in runs}
        for rank in (0, 1):
            messages = list(chakra_messages((folder / f"trace.{rank}.et").read_bytes()))
            self.assertEqual(messages[0], {1: [b"0.0.4"]})
            nodes = {node[1][0]: node for node in messages[1:]}
            expected = {row["id"]: row for row in runs if row["rank"] == rank}
            self.assertEqual(nodes.keys(), expected.keys())
            seen = set()
            for node in messages[1:]:  # what comes before stands before
                self.assertLessEqual(set(node.get(4, [])) | set(node.get(5, [])), seen)
                seen.add(node[1][0])
            for number, row in expected.items():
                attributes = {}
                for text in nodes[number][10]:
                    attribute = chakra_fields(text)
                    attributes[attribute[1][0].decode()] = attribute.get(9, attribute.get(27, attribute.get(29)))[0]
                self.assertEqual((nodes[number][2][0].decode(), attributes["start_ns"], attributes["duration_ns"]),
                                 (row["name"], row["started_ns"], row["ended_ns"] - row["started_ns"]))
                self.assertLessEqual({plan_of[before] for before in nodes[number].get(5, [])}, edges.get(row["plan_op"], set()))
                if row["payload_bytes"] is not None:
                    kinds = {"all_gather": 2, "reduce_scatter": 7, "all_reduce": 0}
                    self.assertEqual((nodes[number][3][0], attributes["comm_type"], attributes["comm_size"], attributes["comm_tag"]),
                                     (7, kinds[row["kind"]], row["payload_bytes"], row["sequence"]))

    def test_chakras_form_says_what_a_collective_is_or_nothing(self):
        types = {"broadcast": 5, "reduce": 1, "gather": 3, "scatter": 4, "all_to_all": 6, "all_reduce": 0, "send": None, "made_up": None}
        trace = Trace(0)
        trace.host("ProfilerStep#5", 0, 1000)
        for at, kind in enumerate(types):
            trace.work("ncclDevKernel_SendRecv(x)", 20, 10 + 100 * at, 20 + 100 * at, 60 + 100 * at, **{
                "Collective name": kind, "In msg nelems": 4, "Out msg nelems": 4, "Group size": 2, "dtype": "Float",
                "Process Group Name": "0", "Process Group Description": "default_pg", "Seq": at})
        trace.write(self.root / "trace.json")
        folder = self.export(self.back(self.root / "trace.json"), "chakra")
        found = {}
        for node in list(chakra_messages((folder / "trace.0.et").read_bytes()))[1:]:
            attributes = {attribute[1][0].decode(): attribute for attribute in map(chakra_fields, node[10])}
            found[attributes["kind"][29][0].decode()] = attributes["comm_type"][9][0] if "comm_type" in attributes else None
        self.assertEqual(found, types)

    def test_csv_is_what_sql_says(self):
        run = self.train_run()
        folder = self.export(run, "csv")
        for view in ("v_step", "v_op_run"):
            rows = list(csv.DictReader(io.StringIO((folder / f"{view}.csv").read_bytes().decode(), newline="")))
            expected = self.sql(run, f"SELECT * FROM {view}")
            self.assertEqual(len(rows), len(expected))
            for row, other in zip(rows, expected):
                for key, value in other.items():
                    text = row[key]
                    self.assertEqual(text if isinstance(value, str) else (None if text == "" else type(value)(text)), value, key)
        one = self.root / "one.csv"
        self.run_program(APP, "export", run, "--format", "csv", "--table", "plan_op", "-o", one)
        self.assertEqual(len(one.read_text().splitlines()) - 1, self.sql(run, "SELECT count(*) AS n FROM plan_op")[0]["n"])

    def test_the_page_is_whole_and_escapes_what_it_shows(self):
        run, _ = self.train("a<b>&c", *TINY, "train.steps=6")
        page = self.export(run, "html").read_text()
        report = self.report(run)
        self.assertIn("<h1>a&lt;b&gt;&amp;c</h1>", page)
        self.assertNotIn("<b>&c", page)
        self.assertIn(html.escape(report["verdict"]["sentence"], quote=False), page.replace("&quot;", '"'))
        self.assertNotRegex(page, r"(src|href|srcset)=\"(?!data:)|url\(|@import")  # nothing from elsewhere
        pictures = re.findall(r'"data:image/png;base64,([^"]*)"', page)
        for picture in pictures:
            self.assertTrue(base64.b64decode(picture, validate=True).startswith(b"\x89PNG"))
        self.assertTrue(len(pictures) == 2 or "No picture:" in page)
        tables = re.findall(r"<h2>([^<]*)</h2>\n<div class=\"scroll\"><table>(.*?)</table>", page, re.DOTALL)
        rows = {name: table.count("<tr>") - 1 for name, table in tables}
        for name in ("steps", "stalls", "collectives", "memory"):
            self.assertEqual(rows.get(name, 0), len(report[name]), name)

    def test_bad_input_is_one_error_and_loses_nothing(self):
        run = self.train_run()
        known = re.search(r"there are ([\w, ]+)", self.export(run, "png", check=1)).group(1).split(", ")
        documented = re.findall(r"^- \*\*(\w+)\*\*:", (ROOT / "docs" / "export.md").read_text(), re.M)
        self.assertEqual(sorted(known), sorted(documented))
        self.assertIn("perfetto", known)
        taken = self.root / "out-perfetto"
        taken.write_text("mine")
        self.assertIn("--force", self.export(run, "perfetto", check=1))
        self.assertEqual(taken.read_text(), "mine")
        self.export(run, "perfetto", "--force")
        self.assertIn("v_step", self.export(run, "csv", "--table", "no_such", check=1))
        self.assertFalse((self.root / "out-csv").exists())
        missing = self.root / "missing"
        for form in ("perfetto", "html"):
            done = self.run_program(APP, "export", run, "--format", form, "-o", missing / "file", check=False)
            self.assertEqual(done.returncode, 1, form)
            self.assertIn(f"cannot write {missing}/file: folder {missing}: No such file or directory", done.stderr)
            self.assertFalse(missing.exists(), form)

    def test_a_file_that_may_not_grow_is_an_error_and_leaves_nothing(self):
        run = self.train_run()
        to = self.root / "a.json"
        command = [APP, "export", run, "--format", "perfetto", "-o", to]
        done = subprocess.run(["bash", "-c", 'ulimit -f 4; exec "$@"', "bash", *command], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn(f"cannot write {to}: File too large", done.stderr)
        self.assertEqual([path.name for path in self.root.iterdir() if path.name.startswith((".shardscope-", "a."))], [])

    def test_force_replaces_exports_alone(self):
        run = self.train_run()

        def refused(to, form, *options, error):
            kept = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
            done = self.run_program(APP, "export", run, "--format", form, "-o", to, "--force", *options, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(error, done.stderr)
            self.assertIn("-o", done.stderr)
            self.assertEqual(kept, {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()})

        trace, = run.glob("trace-*.db")
        mine = self.root / "mine"
        mine.mkdir()
        (mine / "rank0.json").write_text("{}")
        (mine / "thesis.txt").write_text("years of work")
        # Links lead to what would be replaced.
        for name, leads_to in (("toml.json", run / "run.toml"), ("trace.json", trace)):
            (self.root / name).symlink_to(leads_to)
            refused(self.root / name, "perfetto", error="is of what is exported")
        (run / "bookmarks.json").write_text("{}")
        (run / "checkpoints" / "step-4").mkdir(parents=True)
        (run / "checkpoints" / "step-4" / "index.json").write_text("{}")
        for kept in ("bookmarks.json", "checkpoints/step-4/index.json"):
            refused(run / kept, "perfetto", error="is of what is exported")
        for form in ("kineto", "chakra", "csv"):
            refused(run / "checkpoints", form, error="is of what is exported")
            refused(run, form, error="is of what is exported")
            refused(run.parent, form, error="is no earlier export")
            refused(mine, form, error="is no earlier export")
            refused(trace, form, error="is a file")
        refused(mine, "perfetto", error="is a folder")
        refused(trace, "perfetto", error="is of what is exported")
        refused(run / "run.toml", "csv", "--table", "step", error="is of what is exported")
        refused(run / "schedules" / "0.txt", "html", error="is of what is exported")
        # Nor are files of other runs replaced, or a trace that lies elsewhere under another name.
        other = self.root / "other"
        shutil.copytree(run, other)
        (self.root / "copy.json").write_bytes(trace.read_bytes())
        (self.root / "link.json").symlink_to(other / trace.name)
        for kept in (other / trace.name, other / "run.toml", other / "bookmarks.json", other / "log.txt", other / "schedules" / "0.txt",
                     other / "checkpoints" / "step-4" / "index.json", self.root / "copy.json", self.root / "link.json"):
            refused(kept, "perfetto", error=f"-o {kept}: that is a file of a run")
            refused(kept, "csv", "--table", "step", error=f"-o {kept}: that is a file of a run")
        for place in (run / "exports" / "a.json", run / "a.json", other / "a.json"):
            place.parent.mkdir(exist_ok=True)
            place.write_text("old")
            self.run_program(APP, "export", run, "--format", "perfetto", "-o", place, "--force")
            self.assertNotEqual(place.read_text(), "old")
        for form in ("kineto", "csv"):
            to = self.root / f"out-{form}"
            self.run_program(APP, "export", run, "--format", form, "-o", f"{to}/")
            names = sorted(path.name for path in to.iterdir())
            (to / names[0]).write_text("old")
            self.run_program(APP, "export", run, "--format", form, "-o", to, "--force")
            self.assertEqual(sorted(path.name for path in to.iterdir()), names)
            self.assertNotEqual((to / names[0]).read_text(), "old")
        # What was imported is what is exported.
        source = self.root / "out-kineto"
        for to, form in ((source / "rank0.json", "perfetto"), (source, "kineto")):
            kept = (source / "rank0.json").read_bytes()
            done = self.run_program(APP, "export", source, "--format", form, "-o", to, "--force", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is of what is exported", done.stderr)
            self.assertEqual((source / "rank0.json").read_bytes(), kept)


if __name__ == "__main__":
    unittest.main()
