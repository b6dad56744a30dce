"""Traces of torch.profiler: imported, and reported as what they are known to hold."""

import gzip
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import time
import unittest
import zipfile

from chrome_traces import BASE_US, Trace, fsdp2_step
from programs import APP, ImportTestCase


class ImportTest(ImportTestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.root / "traces"
        self.folder.mkdir()

    def import_path(self, path, name="run"):
        run = self.root / name
        self.run_program(APP, "import", path, "-o", run)
        return run

    def refused(self, *arguments):
        """The error of a command that must fail, in one line."""
        done = self.run_program(APP, *arguments, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)
        return done.stderr

    def write_fsdp2(self, late_us=0):
        for rank in (0, 1):
            fsdp2_step(rank, late_us * rank).write(self.folder / f"worker{rank}.pt.trace.json.gz")
        return self.folder

    def test_figures_of_a_step_are_those_it_was_made_with(self):
        run = self.import_path(self.write_fsdp2(late_us=40))
        steps = {row["rank"]: row for row in self.report(run)["steps"]}
        self.assertEqual(set(steps), {0, 1})
        for rank, late in ((0, 0), (1, 40_000)):
            with self.subTest(rank=rank):
                expected = {"step": 5, "step_ns": 1_000_000, "compute_ns": 670_000, "communication_ns": 400_000 - late, "overlap_ns": 140_000,
                            "exposed_ns": 260_000 - late, "copy_ns": 20_000, "exposed_copy_ns": 10_000, "idle_ns": 60_000 + late}
                self.assertEqual({key: steps[rank][key] for key in expected}, expected)

    def test_units_causes_and_collectives_are_found(self):
        run = self.import_path(self.write_fsdp2(late_us=90))
        ops = {row["name"]: row for row in self.sql(run, "SELECT DISTINCT name, kind, unit, phase, category FROM plan_op")}
        self.assertEqual(set(ops), {"F layers.0 all_gather", "F layers.0 copy_out", "F layers.0 forward", "F layers.1 all_gather",
                                    "F layers.1 copy_out", "F layers.1 forward", "B layers.1 backward", "B layers.1 reduce_scatter",
                                    "O optimizer"})
        self.assertEqual(ops["B layers.1 reduce_scatter"]["phase"], "backward")
        self.assertEqual(self.report(run)["recognised"],
                         [{"communicator": "world", "parallelism": "FSDP2", "evidence": "ranges", "num_units": 2}])
        self.assertEqual(ops["F layers.1 copy_out"]["category"], "copy")
        edges = {(row["waits"], row["awaited"]) for row in self.sql(
            run, "SELECT a.name AS waits, b.name AS awaited FROM plan_edge e JOIN plan_op a ON a.id = e.plan_op "
                 "JOIN plan_op b ON b.id = e.predecessor")}
        self.assertEqual(edges, {("F layers.0 copy_out", "F layers.0 all_gather"), ("F layers.0 forward", "F layers.0 copy_out"),
                                 ("F layers.1 copy_out", "F layers.1 all_gather"), ("F layers.1 forward", "F layers.1 copy_out"),
                                 ("B layers.1 reduce_scatter", "B layers.1 backward")})
        report = self.report(run, "--all")
        stalls = {stall["blocking_op"]: stall for stall in report["every_stall"] if stall["rank"] == 0}
        self.assertEqual({name: (stall["op"], stall["stall_ns"]) for name, stall in stalls.items()},
                         {"F layers.0 all_gather": ("F layers.0 forward", 150_000), "B layers.1 reduce_scatter": ("O optimizer", 160_000)})
        self.assertIn("rank 1", stalls["F layers.0 all_gather"]["sentence"])
        rows = self.sql(run, "SELECT DISTINCT communicator, sequence, kind, payload_bytes, wire_bytes, dtype, group_size, transport "
                             "FROM collective ORDER BY sequence")
        self.assertEqual([(row["communicator"], row["sequence"], row["kind"]) for row in rows],
                         [("world", 7, "all_gather"), ("world", 8, "all_gather"), ("world", 9, "reduce_scatter")])
        self.assertEqual({(row["payload_bytes"], row["wire_bytes"], row["dtype"], row["group_size"], row["transport"]) for row in rows},
                         {(4 << 20, 2 << 20, "fp32", 2, "nccl")})

    def test_times_are_exact_to_the_nanosecond(self):
        trace = Trace(0)
        trace.complete("kernel", "a", 7, 123, 456, process=0, device=0, stream=7, correlation=1)
        trace.complete("kernel", "b", 7, 457, 458, process=0, device=0, stream=7, correlation=2)
        trace.write(self.folder / "trace.json")
        rows = self.sql(self.import_path(self.folder / "trace.json"), "SELECT start_ns, duration_ns FROM span ORDER BY start_ns")
        self.assertEqual([(row["start_ns"] - BASE_US * 1000, row["duration_ns"]) for row in rows], [(123, 333), (457, 1)])

    def test_bytes_on_the_wire_are_counted_as_those_of_a_schedule(self):
        """Of three ranks, 1,001 numbers: of a payload that they do not divide, and of kinds that not all ranks send for alike."""
        trace = Trace(0)
        trace.host("ProfilerStep#5", 0, 1000)
        expected = {"all_gather": 2669, "all_reduce": 5338, "broadcast": 2669, "gather": 1334, "scatter": 0, "send": 4004, "recv": 0}
        for at, kind in enumerate(expected):
            trace.work("ncclDevKernel_SendRecv(x)", 20, 10 + 100 * at, 20 + 100 * at, 60 + 100 * at, **{
                "Collective name": kind, "In msg nelems": 1001, "Out msg nelems": 1001, "Group size": 3, "dtype": "Float",
                "Process Group Name": "0", "Process Group Description": "default_pg", "Seq": at})
        trace.write(self.folder / "trace.json")
        run = self.import_path(self.folder / "trace.json")
        for table in ("collective", "plan_op"):
            with self.subTest(table):
                sent = {row["kind"]: row["wire_bytes"] for row in self.sql(run, f"SELECT kind, wire_bytes FROM {table} WHERE payload_bytes = 4004")}
                self.assertEqual(sent, {kind.replace("recv", "receive"): wire for kind, wire in expected.items()})

    def test_archives_and_names_do_not_matter(self):
        self.write_fsdp2()
        plain = self.report(self.import_path(self.folder))["steps"]
        packed = self.root / "packed"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(self.folder.iterdir()):
                archive.writestr(f"runs/{path.stem}", gzip.decompress(path.read_bytes()))
        self.assertEqual(self.report(self.import_path(packed, "zip"))["steps"], plain)
        with tarfile.open(self.root / "tar", "w:gz") as archive:
            for rank in (0, 1):
                fsdp2_step(rank).write(self.root / "member.json")
                archive.add(self.root / "member.json", f"{rank}.json")
        self.assertEqual(self.report(self.import_path(self.root / "tar", "untarred"))["steps"], plain)

    def test_a_folder_of_folders_stands_for_their_files(self):
        for rank in (0, 1):
            (self.folder / f"node{rank}").mkdir()
            fsdp2_step(rank).write(self.folder / f"node{rank}/trace.json")
        self.assertEqual({step["rank"] for step in self.report(self.folder)["steps"]}, {0, 1})

    def test_events_without_times_are_no_trace(self):
        (self.folder / "rank0.json").write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "pid": 1, "tid": 1, "dur": 1}]}')
        self.assertIn("holds no events with a time", self.refused("report", self.folder))

    def test_a_host_without_device_computes_itself(self):
        trace = Trace(0, world_size=1)
        trace.host("ProfilerStep#1", 0, 1000)
        trace.host("aten::mm", 100, 300, category="cpu_op")
        trace.host("aten::addmm", 150, 250, category="cpu_op")  # inside of the one before
        trace.host("c10d::allreduce_", 310, 320, category="cpu_op")
        trace.host("gloo:all_reduce", 400, 700, thread=9)
        trace.host("aten::add_", 450, 500, thread=9, category="cpu_op")  # part of the collective
        trace.host("aten::mm", 600, 900, category="cpu_op")
        trace.write(self.folder / "rank0.json")
        (step,) = self.report(self.import_path(self.folder))["steps"]
        self.assertEqual({key: step[key] for key in ("step_ns", "compute_ns", "communication_ns", "overlap_ns", "idle_ns")},
                         {"step_ns": 1_000_000, "compute_ns": 500_000, "communication_ns": 300_000, "overlap_ns": 100_000, "idle_ns": 300_000})

    def test_what_is_not_understood_is_counted(self):
        trace = fsdp2_step(0)
        trace.complete("astrology", "moon", 1, 5000, 4000)
        trace.add('{"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 100, "tid": 1, "ts": NaN, "dur": 1, "args": {}}')
        trace.add('{"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 100, "tid": 1, "ts": %d, "dur": 1, "args": {"Mood": 7}}' % BASE_US)
        trace.write(self.folder / "rank0.json")
        run = self.import_path(self.folder)
        losses = {row["reason"]: row["dropped"] for row in self.sql(run, "SELECT reason, dropped FROM capability WHERE dropped > 0")}
        self.assertEqual(losses['not understood: argument "Mood"'], 1)
        self.assertEqual(losses["not understood: category astrology: shown with its thread"], 1)
        self.assertEqual(losses["not understood: events with a duration below 0, taken as 0"], 1)
        self.assertIn("Not understood while importing", self.run_program(APP, "report", run).stdout)

    def test_of_a_cut_file_all_that_is_whole_is_there(self):
        whole = fsdp2_step(0).text()
        for name, data in (("plain", whole.encode()[:-400]), ("packed", gzip.compress(whole.encode())[:-200])):
            with self.subTest(name):
                (self.root / name).write_bytes(data)
                run = self.import_path(self.root / name, name + ".run")
                count = self.sql(run, "SELECT count(*) AS spans FROM span")[0]["spans"]
                self.assertGreater(count, 5)
                self.assertLess(count, whole.count('"ph"'))
                text = self.run_program(APP, "report", run).stdout
                self.assertIn("the file is not whole", text)
                self.assertIn(": cut, ", text.splitlines()[0])
                self.assertIn("A file of it is not whole", text)
                report = json.loads(self.run_program(APP, "report", run, "--json").stdout)
                self.assertEqual((report["state"], len(report["cut_files"])), ("cut", 1))
                page = self.root / f"{name}.html"
                self.run_program(APP, "export", run, "--format", "html", "-o", page)
                said = page.read_text()
                self.assertLess(said.index('<p class="problem">A file of it is not whole'), said.index('<p class="verdict">'))
                if report["verdict"]["sentence"]:
                    self.assertLess(text.index("A file of it is not whole"), text.index(report["verdict"]["sentence"]))

    def test_of_several_cut_files_window_and_report_name_the_same(self):
        folder = self.root / "several"
        folder.mkdir()
        for rank, lost_bytes in ((0, 400), (1, 0), (2, 400)):
            data = fsdp2_step(rank).text().encode()
            (folder / f"rank{rank}.json").write_bytes(data[:len(data) - lost_bytes])
        report = self.report(folder)
        self.assertEqual((report["state"], [file.split(":")[0] for file in report["cut_files"]]), ("cut", ["kineto (rank 0)", "kineto (rank 2)"]))
        drawn = self.drawn(folder)
        self.assertEqual(drawn["top_bar", "state"]["text"], "CUT")
        self.assertEqual(drawn["banner", "problems"]["value"], len(report["cut_files"]))
        for file in report["cut_files"]:
            self.assertIn(file, drawn["banner", "problem"]["text"])

    def test_other_commands_import_into_the_cache_once(self):
        self.write_fsdp2()
        first = json.loads(self.run_program(APP, "report", self.folder, "--json").stdout)
        runs = list((self.root / "cache").rglob("trace-rank00000*"))
        self.assertEqual(len(runs), 1)
        written = runs[0].stat().st_mtime_ns
        self.assertEqual(json.loads(self.run_program(APP, "report", self.folder, "--json").stdout), first)
        self.assertEqual(runs[0].stat().st_mtime_ns, written)
        fsdp2_step(1, late_us=10).write(self.folder / "worker1.pt.trace.json.gz")
        self.assertNotEqual(json.loads(self.run_program(APP, "report", self.folder, "--json").stdout)["steps"], first["steps"])
        self.run_program(APP, "shot", self.folder, "-o", self.root / "shot.png")
        self.assertGreater((self.root / "shot.png").stat().st_size, 10_000)

    def report_text(self, run, *options):
        return self.run_program(APP, "report", run, *options).stdout

    def test_kept_reports_say_what_is_made_anew(self):
        run = self.import_path(self.write_fsdp2(late_us=40), 'run "1"')
        kept = run / "reports.kept"
        forms = [(), ("--json",), ("--definition", "hta"), ("--json", "--definition", "hta")]
        before = [self.report_text(run, *form) for form in forms]
        self.assertEqual(len(set(before)), 4 if before[0] != before[2] else 3)
        whole = kept.read_bytes()
        # It is read: another text in it is what is said.
        kept.write_bytes(whole.replace(b"FSDP2", b"FSDPx"))
        self.assertIn("FSDPx", self.report_text(run))
        # Damaged, cut, of other files, or not there: made anew, and equal.
        for content in (b"", b"\xff" * 100, whole[:-1], whole + b"x", whole.replace(b"\n", b"\n9", 1), whole.replace(b"\n", b" \n", 1)):
            kept.write_bytes(content)
            self.assertEqual([self.report_text(run, *form) for form in forms], before)
        kept.write_bytes(whole)
        moved = run.rename(self.root / "moved")
        self.assertEqual(json.loads(self.report_text(moved, "--json")), {**json.loads(before[1]), "run_folder": str(moved)})
        trace = moved / "trace-rank00001.db"
        trace.rename(moved / "gone")
        self.assertEqual(len(json.loads(self.report_text(moved, "--json"))["memory"]), 1)

    def memory_of(self, trace, name):
        trace.write(self.root / f"{name}.json")
        run = self.import_path(self.root / f"{name}.json", name)
        rows = self.sql(run, "SELECT device, issued_ns, bytes FROM memory_event ORDER BY issued_ns, id")
        first_ns = rows[0]["issued_ns"] if rows else 0
        return [(row["device"], row["issued_ns"] - first_ns, row["bytes"]) for row in rows]

    def test_memory_begins_with_what_was_there_before(self):
        trace = Trace(rank=0)
        trace.host("ProfilerStep#1", 0, 1000)
        trace.work("gemm", 7, 10, 20, 30)
        trace.memory(300, 50, 1050, device=0)
        trace.memory(200, -400, 600, device=1)
        trace.memory(400, -1000, 50, device=0)
        trace.memory(100, 7, 7, device=-1)  # the host's, beside a GPU
        trace.memory(500, 20, 20, device=2)  # nothing before
        self.assertEqual(self.memory_of(trace, "gpu"), [("GPU 1", 0, 1000), ("GPU 0", 0, 1000), ("GPU 1", 200_000, -400), ("GPU 0", 300_000, 50),
                                                        ("GPU 0", 400_000, -1000), ("GPU 2", 500_000, 20)])

    def test_memory_of_a_program_without_a_gpu_is_the_hosts(self):
        trace = Trace(rank=0)
        trace.host("ProfilerStep#1", 0, 1000)
        trace.memory(100, 40, 100, device=-1)
        trace.memory(200, -100, 0, device=-1)
        self.assertEqual(self.memory_of(trace, "cpu"), [("cpu", 0, 60), ("cpu", 100_000, 40), ("cpu", 200_000, -100)])

    def test_ranks_of_two_runs_are_refused(self):
        self.write_fsdp2()
        trace = fsdp2_step(1)
        trace.values["baseTimeNanoseconds"] = 26 * 3600 * 10**9
        trace.write(self.folder / "worker1.pt.trace.json.gz")
        self.assertIn("26 hours lie between", self.refused("report", self.folder))

    def test_more_threads_than_any_program_has_are_shown_together(self):
        path = self.root / "many.json"
        events = ({"ph": "X", "cat": "cpu_op", "name": "a", "pid": at, "tid": at, "ts": BASE_US + at, "dur": 1} for at in range(5000))
        path.write_text(json.dumps({"traceEvents": list(events)}))
        run = self.import_path(path)
        self.assertEqual(self.sql(run, "SELECT count(*) AS n FROM span")[0]["n"], 5000)
        self.assertLess(self.sql(run, "SELECT count(*) AS n FROM track")[0]["n"], 4200)
        self.assertEqual(self.report(run)["losses"], {"kineto: not understood: events of more threads and streams than 4096, shown together": 904})

    def test_a_signal_stops_an_import_and_leaves_nothing_of_it(self):
        path = self.folder / "rank0.json"
        event = ('{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":1,'
                 '"args":{"device":0,"stream":7,"correlation":%d}}')
        path.write_text('{"traceEvents":[' + ",\n".join(event % (i, i) for i in range(400_000)) + "]}")
        cache = self.root / "cache/shardscope/imports"
        importing = subprocess.Popen([APP, "import", path], stderr=subprocess.PIPE, text=True)
        while importing.poll() is None and not (cache.is_dir() and list(cache.iterdir())):
            time.sleep(0.001)
        importing.send_signal(signal.SIGTERM)
        error = importing.communicate(timeout=60)[1]
        self.assertEqual((importing.returncode, error), (-signal.SIGTERM, ""))
        self.assertEqual(list(cache.iterdir()), [])

    def test_what_a_killed_import_left_is_removed_by_the_next(self):
        cache = self.root / "cache/shardscope/imports"
        gone = subprocess.Popen(["true"])
        gone.wait()
        left = [cache / f"1234.importing-{gone.pid}", cache / f"1234.preview.importing-{gone.pid}"]
        kept = cache / f"1234.importing-{os.getpid()}"
        for folder in (*left, kept):
            folder.mkdir(parents=True)
        run = pathlib.Path(self.run_program(APP, "import", self.write_fsdp2()).stdout.strip())
        self.assertEqual(set(cache.iterdir()), {kept, run})

    def test_bad_input_is_one_error_and_leaves_nothing(self):
        good = fsdp2_step(0).text()
        (self.folder / "notes.txt").write_text("not a trace")
        cases = {"empty": b"", "text": b"hello " * 100, "no events": b'{"traceEvents": []}', "deep": b"[" * 1_000_000,
                 "half a head": gzip.compress(good.encode())[:9], "an image": b"\x89PNG\r\n\x1a\n" + bytes(1000)}
        for name, data in cases.items():
            with self.subTest(name):
                (self.root / "bad").write_bytes(data)
                self.assertIn("bad", self.refused("import", self.root / "bad", "-o", self.root / "never"))
                self.assertFalse((self.root / "never").exists())
        # Of an empty file, alone, in a folder or as an archive, it is said that it is one.
        for name, data, said in (("empty", b"", "is an empty file"), ("empty.tar", bytes(10240), "is an archive without files"),
                                 ("empty.zip", b"PK\x05\x06" + bytes(18), "is an archive without files")):
            with self.subTest(name):
                (self.root / name).write_bytes(data)
                alone = self.root / f"folder of {name}"
                alone.mkdir()
                (alone / name).write_bytes(data)
                for path, file in ((self.root / name, self.root / name), (alone, alone / name)):
                    self.assertIn(f"{file} {said}", self.refused("import", path, "-o", self.root / "never"))
        self.assertIn("nothing that can be imported", self.refused("import", self.folder, "-o", self.root / "never"))
        for copy in ("a.json", "b.json"):
            (self.folder / copy).write_text(good)
        error = self.refused("import", self.folder, "-o", self.root / "never")
        self.assertIn("rank 0 is in two files", error)
        self.assertEqual([path.name for path in self.root.iterdir() if "never" in path.name], [])
        self.assertIn("nowhere", self.refused("import", self.root / "nowhere", "-o", self.root / "never"))
        (self.folder / "b.json").unlink()
        run = self.import_path(self.folder)
        self.assertIn("already there", self.refused("import", self.folder, "-o", run))


if __name__ == "__main__":
    unittest.main()
