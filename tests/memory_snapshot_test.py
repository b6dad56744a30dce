"""Memory snapshots of PyTorch: imported from every form they are written in, and joined to the rank's other files."""

import gzip
import json
import os
import pickle
import unittest

from chrome_traces import BASE_US as TRACE_BASE_US
from chrome_traces import Trace
from pickles import BASE_US, MEBI, Snapshot, forms, known_snapshot
from programs import APP, ImportTestCase


class Evil:
    """What a hostile pickle holds: it would run when read by Python."""

    def __reduce__(self):
        return (os.system, ("touch /tmp/never",))


class MemorySnapshotTest(ImportTestCase):
    def imported(self, name, *files):
        """The run of a folder with these (name, bytes)."""
        folder = self.root / name
        folder.mkdir()
        for file, data in files:
            (folder / file).write_bytes(data)
        self.run_program(APP, "import", folder, "-o", self.root / (name + ".run"))
        return self.root / (name + ".run")

    def import_refused(self, data):
        (self.root / "bad.pickle").write_bytes(data)
        done = self.run_program(APP, "import", self.root / "bad.pickle", "-o", self.root / "never", check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)
        self.assertFalse((self.root / "never").exists())
        return done.stderr

    def blocks(self, run):
        return self.sql(run, "SELECT a.address, a.requested_bytes AS requested, a.block_bytes AS bytes, a.allocated_ns AS allocated, "
                             "a.free_requested_ns AS requested_ns, a.free_completed_ns AS completed_ns, a.state, a.unit, a.phase, s.text AS stack, "
                             "c.text AS context, r.text AS range FROM allocation a JOIN allocation_stack k ON k.id = a.id "
                             "LEFT JOIN string s ON s.id = k.stack_string LEFT JOIN string c ON c.id = k.context_string "
                             "LEFT JOIN string r ON r.id = a.range_string ORDER BY a.allocated_ns, a.address")

    def test_every_form_has_the_known_figures(self):
        """Also what is packed, and of whatever name."""
        files = forms(known_snapshot().value())
        files["packed"] = gzip.compress(files["libtorch"])
        self.assertEqual(len(files), 7)
        first = None
        for name, data in files.items():
            with self.subTest(name):
                run = self.imported(name, ("snapshot of a rank", data))
                report = self.report(run)
                (memory,) = report["memory"]
                self.assertEqual(memory["rank"], 0)
                self.assertEqual(memory["peak_bytes"], 15 * MEBI + 1024)
                self.assertEqual(memory["peak_time_ns"], (BASE_US + 30) * 1000)
                self.assertEqual(memory["driver_peak_bytes"], 30 * MEBI)
                self.assertEqual(report["steps"], [])
                self.assertEqual(report["losses"], {})
                rows = self.blocks(run)
                self.assertEqual(sum(row["bytes"] for row in rows if row["state"] != "freed"), 10 * MEBI)
                first = first or rows
                self.assertEqual(rows, first)

    def test_blocks_have_their_times_stacks_and_owners(self):
        run = self.imported("run", ("rank3.pickle", forms(known_snapshot().value())["libtorch"]))
        at = lambda us: (BASE_US + us) * 1000
        rows = {row["address"]: row for row in self.blocks(run)}
        self.assertEqual(len(rows), 5)
        held = rows[0x10000]
        self.assertEqual((held["requested"], held["bytes"], held["allocated"], held["state"]), (8 * MEBI, 8 * MEBI, at(10), "held"))
        self.assertEqual((held["unit"], held["phase"], held["range"]), ("layers.0", "forward", "FSDP::all_gather (layers.0)"))
        self.assertEqual(held["stack"], "gather (/home/me/train.py:10)\nmain (/home/me/train.py:11)")
        self.assertIsNone(held["context"])
        freed = rows[0x10000 + 8 * MEBI]
        self.assertEqual((freed["allocated"], freed["requested_ns"], freed["completed_ns"], freed["state"]), (at(20), at(40), at(60), "freed"))
        self.assertEqual((freed["unit"], freed["range"], freed["context"]), ("", None, "user_metadata: activations"))
        self.assertEqual(rows[0x10000 + 12 * MEBI]["bytes"], 1024)
        old = rows[0x90000000]
        self.assertEqual((old["allocated"], old["completed_ns"], old["state"], old["stack"]), (at(1), at(70), "freed", None))
        pending = rows[0xA0000000]
        self.assertEqual((pending["requested"], pending["bytes"], pending["state"]), (2 * MEBI - 100, 2 * MEBI, "in use"))
        self.assertEqual(pending["stack"], "old (/home/me/train.py:10)\nmain (/home/me/train.py:11)")
        # The allocator's two ledgers: a free is asked for, and takes effect.
        events = self.sql(run, "SELECT issued_ns, executed_ns, bytes, rank FROM memory_event WHERE issued_ns <> executed_ns")
        self.assertEqual(events, [{"issued_ns": at(40), "executed_ns": at(60), "bytes": -3 * MEBI, "rank": 3}])
        self.assertEqual([row["value"] for row in self.sql(run, "SELECT value FROM counter")], [20 * MEBI, 30 * MEBI])
        settings = self.sql(run, "SELECT value FROM config WHERE key = 'import.allocator.PYTORCH_CUDA_ALLOC_CONF'")
        self.assertEqual(settings, [{"value": "expandable_segments:False"}])

    def test_out_of_memory_is_an_error_in_words(self):
        report = self.report(self.imported("run", ("a", forms(known_snapshot().value())["protocol4"])))
        (error,) = report["errors"]
        self.assertEqual(error["time_ns"], (BASE_US + 80) * 1000)
        self.assertEqual(error["new_value"], "GPU 0 is out of memory: 537 MB more were asked for, 105 MB are free; of the blocks that the "
                                             "snapshot knows 8.39 MB are in use; asked for by forward (/home/me/train.py:10)")
        self.assertIn("The run failed: GPU 0 is out of memory", self.run_program(APP, "report", self.root / "run.run").stdout)
        self.run_program(APP, "shot", self.root / "run.run", "-o", self.root / "shot.png")
        self.assertGreater((self.root / "shot.png").stat().st_size, 10_000)

    def test_what_is_not_known_is_counted(self):
        snapshot = known_snapshot()
        snapshot.event("teleport", 91, 5, 0x5, mood="good")
        snapshot.traces[0].append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": []})
        value = {**snapshot.value(), "weather": 1}
        value["segments"][0]["blocks"][0]["colour"] = "red"
        value["segments"].append(value["segments"][0])
        value["device_traces"].append(value["device_traces"][0])
        losses = self.report(self.imported("run", ("a", pickle.dumps(value))))["losses"]
        self.assertEqual({what.removeprefix("memory_snapshot: not understood: "): count for what, count in losses.items()}, {
            'field "weather" of the snapshot': 1, 'field "colour" of a block': 1, 'field "mood" of an event': 1,
            "events with an action that is not known": 1, "segments that are no record, or stand twice": 1,
            "lists of events that stand twice": 1, "events without a sensible time: taken for as late as those before them": 1})

    def test_rows_are_none_that_a_reader_refuses(self):
        """What mutated snapshots led to: a size that is more than a row may have."""
        for size in (2**40, 2**62, -1, 2**80):
            with self.subTest(size):
                snapshot = known_snapshot()
                snapshot.event("alloc", 95, size, 0x77000000)
                snapshot.event("free_completed", 96, size, 0x77000000)
                snapshot.event("segment_alloc", 97, size, 0x77000000)
                losses = self.report(self.imported(f"run{size}", ("a", pickle.dumps(snapshot.value()))))["losses"]
                self.assertNotIn("reader", "".join(losses))

    def test_old_snapshots_without_addresses_or_history_are_read(self):
        """Of PyTorch before 2.1, and of a program that recorded nothing: what is there in the end, when the file was written."""
        value = [{"device": 0, "address": 4096, "total_size": 4 * MEBI, "stream": 0, "segment_type": "large", "blocks": [
            {"size": 512, "state": "inactive"},
            {"size": MEBI, "state": "active_allocated", "history": [{"addr": 4608, "real_size": MEBI - 7, "frames": []}]},
            {"size": MEBI, "state": "active_awaiting_free"}]}]
        (self.root / "file").write_bytes(pickle.dumps({"segments": value, "device_traces": []}))
        os.utime(self.root / "file", ns=(10**18, 10**18))
        self.run_program(APP, "import", self.root / "file", "-o", self.root / "run")
        rows = self.blocks(self.root / "run")
        self.assertEqual([(row["address"], row["requested"], row["bytes"], row["state"], row["allocated"]) for row in rows],
                         [(4608, MEBI - 7, MEBI, "held", 10**18), (4608 + MEBI, MEBI, MEBI, "in use", 10**18)])
        (memory,) = self.report(self.root / "run")["memory"]
        self.assertEqual((memory["peak_bytes"], memory["driver_peak_bytes"]), (2 * MEBI, 4 * MEBI))

    def test_several_devices_are_of_one_rank(self):
        snapshot = Snapshot()
        for device in (0, 1):
            snapshot.event("alloc", 5 + device, MEBI, 0x1000, device=device)  # addresses repeat
            snapshot.segment(0x1000, 2 * MEBI, (MEBI, MEBI, "active_allocated"), device=device)
        run = self.imported("run", ("a", pickle.dumps(snapshot.value())))
        self.assertEqual([(row["device"], row["rank"]) for row in self.sql(run, "SELECT device, rank FROM memory_event")],
                         [("GPU 0", 0), ("GPU 1", 0)])
        self.assertEqual(self.report(run)["memory"][0]["peak_bytes"], 2 * MEBI)

    def trace_beside(self, rank):
        """One step, and what torch.profiler says of memory, which the snapshot says better."""
        self.assertEqual(TRACE_BASE_US, BASE_US)
        trace = Trace(rank, process=100 + rank)
        trace.host("ProfilerStep#5", 0, 100)
        trace.work("gemm", 7, 10, 20, 90)
        trace.host("FSDP::all_gather (layers.0)", 6, 9)
        trace.add('{"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": %d, "tid": 1, "ts": %d, '
                  '"args": {"Bytes": 77, "Device Type": 1, "Device Id": 0}}' % (100 + rank, BASE_US + 9))
        return trace.text().encode()

    def test_files_of_one_rank_become_one_trace(self):
        pickles = forms(known_snapshot().value())
        run = self.imported("run", ("trace-rank0.json", self.trace_beside(0)), ("trace-rank1.json", self.trace_beside(1)),
                            ("memory_rank1.pickle", pickles["protocol4"]))
        self.assertEqual(len(list(run.glob("trace-rank*"))), 2)
        report = self.report(run)
        self.assertEqual([(row["rank"], row["step"], row["compute_ns"]) for row in report["steps"]], [(0, 5, 70_000), (1, 5, 70_000)])
        self.assertEqual([(row["rank"], row["peak_bytes"]) for row in report["memory"]], [(0, 77), (1, 15 * MEBI + 1024)])
        self.assertEqual(report["memory"][1]["peak_time_ns"] - report["memory"][0]["peak_time_ns"], 21_000)
        self.assertEqual({row["step"] for row in self.sql(run, "SELECT step FROM memory_event WHERE rank = 1")}, {5})
        ranges = self.sql(run, "SELECT t.rank, count(*) AS count FROM span s JOIN string n ON n.id = s.name_string JOIN track t ON t.id = s.track "
                               "WHERE n.text = 'FSDP::all_gather (layers.0)' GROUP BY t.rank")
        self.assertEqual([row["count"] for row in ranges], [1, 1])
        self.assertEqual(report["errors"][0]["step"], 5)
        # Two of one kind are still of two runs.
        for name in ("a_rank1.pickle", "b_rank1.pickle"):
            (self.root / "run" / name).write_bytes(pickles["protocol2"])
        done = self.run_program(APP, "import", self.root / "run", "-o", self.root / "never", check=False)
        self.assertIn("rank 1 is in two files", done.stderr)

    def test_pickles_that_ask_for_more_are_refused_by_name(self):
        for protocol in (2, 3, 4, 5):
            with self.subTest(protocol):
                value = known_snapshot().value()
                value["device_traces"][0][3]["frames"] = Evil()
                error = self.import_refused(pickle.dumps(value, protocol=protocol))
                self.assertIn("this pickle asks for posix.system: refused, nothing was run (byte ", error)
                self.assertIn("bad.pickle", error)

    def test_damage_is_one_error(self):
        whole = forms(known_snapshot().value())["libtorch"]
        self.assertIn("ends in the middle (byte ", self.import_refused(whole[:-50]))
        self.assertIn("opcode 0xff", self.import_refused(whole[:-50] + b"\xff" * 50))
        self.assertIn("no dictionary", self.import_refused(pickle.dumps([{"segments": [], "device_traces": []}])))
        self.assertIn("no JSON, or it ends in the middle (byte ", self.import_refused(json.dumps(known_snapshot().value()).encode()[:-9]))
        self.assertIn("nothing that can be imported", self.import_refused(pickle.dumps({"weights": [1, 2]})))

    def test_odd_shapes_do_no_harm(self):
        """Everything of another type than it should be, and lists that hold themselves."""
        cycle = []
        cycle.append(cycle)
        loop = {"action": "alloc"}
        loop["frames"] = [loop]
        for at, odd in enumerate((None, 7, "text", [], {}, [None], [[None]], [7, "x"], {"a": {}}, cycle, 2**70, -1, 1.5, float("nan"), b"x", loop)):
            with self.subTest(at):
                value = {"segments": odd, "device_traces": odd, "allocator_settings": odd, "external_annotations": odd}
                self.report(self.imported(f"top{at}", ("a", pickle.dumps(value))))
                fields = {"device": odd, "address": odd, "total_size": odd, "stream": odd, "blocks": odd, "frames": odd}
                event = {"action": "alloc", "addr": odd, "size": odd, "stream": odd, "time_us": odd, "frames": odd, "compile_context": odd}
                value = {"segments": [fields, {**fields, "device": 0, "blocks": [odd, {"address": odd, "size": odd, "state": "active_allocated"}]}],
                         "device_traces": [[odd, event, {**event, "action": "free_completed"}, {**event, "action": "oom"}]],
                         "external_annotations": [odd, {"name": odd, "stage": "START", "device": odd, "time_us": 5}]}
                self.report(self.imported(f"deep{at}", ("a", pickle.dumps(value))))


if __name__ == "__main__":
    unittest.main()
