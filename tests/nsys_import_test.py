"""Exports of Nsight Systems: imported, and reported as what they are known to hold."""

import random
import sqlite3
import unittest

from chrome_traces import Trace, fsdp2_step
from nsys_traces import COLLECTIVE, COMMUNICATOR, NCCL_DOMAIN, PEER, START_NS, Export, Process, payload
from programs import APP, ImportTestCase

FIGURES = {"step": 5, "step_ns": 1_000_000, "compute_ns": 670_000, "communication_ns": 400_000, "overlap_ns": 140_000,
           "exposed_ns": 260_000, "copy_ns": 20_000, "exposed_copy_ns": 10_000, "idle_ns": 60_000}


class NsysImportTest(ImportTestCase):
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

    def two_ranks(self, version=2026, **options):
        """Both ranks of the step of FSDP2 in one file; the second has the smaller process number."""
        export = Export(version, **options)
        for rank in (0, 1):
            fsdp2_step(rank, trace=Process(export, process=200 - rank, device=rank, rank=rank))
        return export

    def losses(self, run):
        return {row["reason"]: row["dropped"] for row in self.sql(run, "SELECT reason, dropped FROM capability WHERE dropped > 0")}

    def test_figures_of_a_step_are_those_it_was_made_with_in_each_version(self):
        for version in (2022, 2026):
            with self.subTest(version):
                run = self.import_path(self.two_ranks(version).write(self.root / "export.sqlite"), f"run{version}")
                steps = {row["rank"]: row for row in self.report(run)["steps"]}
                self.assertEqual(set(steps), {0, 1})
                for step in steps.values():
                    self.assertEqual({key: step[key] for key in FIGURES}, FIGURES)
                self.assertEqual(self.losses(run), {})

    def test_it_says_what_a_trace_of_pytorch_says(self):
        """Same ops, units, edges, causes and collectives as the same step has as a torch.profiler trace."""
        for rank in (0, 1):
            (self.root / "traces").mkdir(exist_ok=True)
            fsdp2_step(rank, trace=Trace(rank, process=100 + rank)).write(self.root / f"traces/rank{rank}.json")
        theirs = self.import_path(self.root / "traces", "kineto")
        ours = self.import_path(self.two_ranks().write(self.root / "export.sqlite"), "nsys")
        for query in ("SELECT DISTINCT name, kind, unit, phase, category FROM plan_op ORDER BY name",
                      "SELECT a.name AS waits, b.name AS awaited FROM plan_edge e JOIN plan_op a ON a.id = e.plan_op "
                      "JOIN plan_op b ON b.id = e.predecessor GROUP BY 1, 2 ORDER BY 1, 2",
                      "SELECT rank, kind, payload_bytes, wire_bytes, group_size, communicator, transport FROM collective ORDER BY rank, sequence",
                      "SELECT t.rank, s.duration_ns, w.kind, w.bytes FROM gpu_work w JOIN span s ON s.id = w.id JOIN track t ON t.id = s.track "
                      "ORDER BY t.rank, s.start_ns, s.duration_ns"):
            with self.subTest(query):
                rows = self.sql(ours, query)
                self.assertGreater(len(rows), 3)
                self.assertEqual(rows, self.sql(theirs, query))
        for key in ("recognised", "stalls"):
            self.assertEqual(self.report(ours)[key], self.report(theirs)[key])

    def test_rows_are_what_the_file_says(self):
        export = Export()
        process = Process(export)
        process.nvtx("work", 0, 90)
        process.work("void kernel<float>(int)", 7, 10.001, 20.001, 30.003)
        correlation = process.call("cudaMemcpyAsync_v3020", 31)
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", **process.place(9, 40, 50, correlation), bytes=4096, copyKind=1, srcKind=1, dstKind=2)
        export.add("CUPTI_ACTIVITY_KIND_MEMSET", **process.place(9, 51, 52, process.call("cudaMemsetAsync_v3020", 33)), bytes=77, value=0, memKind=2)
        export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **process.place(7, 60, 70, process.call("cudaGraphLaunch_v10000", 35)), graphId=3)
        export.add("OSRT_API", start=36_000, end=37_000, globalTid=process.tid(1), nameId=export.text("poll"))
        export.add("PROFILER_OVERHEAD", start=38_000, end=38_500, globalTid=process.tid(1), nameId=export.text("CUPTI flush"))
        process.name_thread(5, "pt_autograd_0")
        process.nvtx("later", 80, 81, thread=5)
        run = self.import_path(export.write(self.root / "export.sqlite"))
        rows = {row["name"]: row for row in self.sql(
            run, "SELECT n.text AS name, s.start_ns, s.duration_ns, t.name AS track, s.category, w.kind, w.bytes, w.grid_x, w.block_x, w.registers, "
                 "w.dynamic_shared_bytes, w.graph, w.launch_start_ns FROM span s JOIN string n ON n.id = s.name_string JOIN track t ON t.id = s.track "
                 "LEFT JOIN gpu_work w ON w.id = s.id")}
        self.assertEqual(set(rows), {"work", "later", "void kernel<float>(int)", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync",
                                     "cudaGraphLaunch", "Memcpy HtoD (Pinned -> Device)", "Memset (Device)", "CUDA graph 3", "poll",
                                     "profiler: CUPTI flush"})
        kernel = rows["void kernel<float>(int)"]
        self.assertEqual({key: kernel[key] for key in ("duration_ns", "grid_x", "block_x", "registers", "dynamic_shared_bytes", "category")},
                         {"duration_ns": 10_002, "grid_x": 4, "block_x": 128, "registers": 32, "dynamic_shared_bytes": 1536, "category": "compute"})
        self.assertEqual(kernel["start_ns"], START_NS + 20_001)
        self.assertEqual(kernel["launch_start_ns"], START_NS + 10_001)
        self.assertEqual(rows["Memcpy HtoD (Pinned -> Device)"]["bytes"], 4096)
        self.assertEqual(rows["Memset (Device)"]["bytes"], 77)
        for name in ("Memcpy HtoD (Pinned -> Device)", "Memset (Device)", "CUDA graph 3"):  # no kernel's
            self.assertEqual((rows[name]["grid_x"], rows[name]["registers"]), (0, 0), name)
        self.assertEqual(rows["CUDA graph 3"]["graph"], 3)
        self.assertEqual(rows["poll"]["track"], "thread 1 (python3)")
        self.assertEqual(rows["later"]["track"], "thread 5 (pt_autograd_0)")
        self.assertEqual(self.sql(run, "SELECT host, device FROM rank"), [{"host": "node7", "device": "NVIDIA H100 80GB HBM3"}])

    def test_processes_that_share_correlation_ids_stay_apart(self):
        export = Export()
        for rank in (0, 1):
            process = Process(export, process=100 + rank, device=rank)
            process.nvtx("step 1", 0, 100)
            for index in range(3):
                process.work(f"kernel{rank}", 7, 10 * rank + index, 20 + 10 * index, 25 + 10 * index)
        run = self.import_path(export.write(self.root / "export.sqlite"))
        rows = self.sql(run, "SELECT t.rank, n.text AS name, w.launch_start_ns FROM gpu_work w JOIN span s ON s.id = w.id "
                             "JOIN track t ON t.id = s.track JOIN string n ON n.id = s.name_string ORDER BY 1, 3")
        self.assertEqual([(row["rank"], row["name"], row["launch_start_ns"] - START_NS) for row in rows],
                         [(rank, f"kernel{rank}", 1000 * (10 * rank + index)) for rank in (0, 1) for index in range(3)])

    def test_ranks_are_those_of_nccl_of_mpi_or_of_the_environment(self):
        def export_of(*processes):
            export = Export()
            for number, rank in processes:
                Process(export, process=number, device=0, rank=rank, num_ranks=8).work("kernel", 7, 10, 20, 30)
            return export
        # The larger process number is the smaller rank.
        run = self.import_path(export_of((500, 3), (400, 5)).write(self.root / "nccl.sqlite"), "nccl")
        self.assertEqual([(row["rank"], row["pid"]) for row in self.sql(run, "SELECT rank, pid FROM rank ORDER BY rank")], [(3, 500), (5, 400)])
        export = Export()
        for number, rank in ((500, 1), (400, 2)):
            process = Process(export, process=number)
            process.name_thread(2, f"MPI Rank {rank}")
            process.work("kernel", 7, 10, 20, 30)
        run = self.import_path(export.write(self.root / "mpi.sqlite"), "mpi")
        self.assertEqual([(row["rank"], row["pid"]) for row in self.sql(run, "SELECT rank, pid FROM rank ORDER BY rank")], [(1, 500), (2, 400)])
        folder = self.root / "files"
        folder.mkdir()
        for rank in (0, 1):
            export = export_of((300, None))
            export.add("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value=f"LOCAL_RANK=0;RANK={rank + 6};WORLD_SIZE=8", devStateName="",
                       nameEnum=0)
            export.write(folder / f"report{rank}.sqlite")
        self.assertEqual([row["rank"] for row in self.sql(self.import_path(folder, "environment"), "SELECT rank FROM rank ORDER BY rank")], [6, 7])

    def test_one_process_with_two_devices_is_two_ranks(self):
        export = Export()
        process = Process(export)
        process.work("first", 7, 10, 20, 30)
        process.device = 1
        process.work("second", 7, 12, 20, 30)
        rows = self.sql(self.import_path(export.write(self.root / "export.sqlite")),
                        "SELECT t.rank, n.text AS name, w.launch_start_ns FROM gpu_work w JOIN span s ON s.id = w.id JOIN track t ON t.id = s.track "
                        "JOIN string n ON n.id = s.name_string ORDER BY 1")
        self.assertEqual([(row["rank"], row["name"], row["launch_start_ns"] - START_NS) for row in rows], [(0, "first", 10_000), (1, "second", 12_000)])

    def test_groups_of_nccl_calls_are_one_kernel_or_one_each(self):
        export = Export()
        process = Process(export, rank=0, num_ranks=4)

        def grouped(at_us, calls, kernels):
            process.nvtx("ncclGroupStart", at_us, at_us + 0.5, domain=NCCL_DOMAIN)
            for index, (name, size) in enumerate(calls):
                schema = PEER if name in ("ncclSend", "ncclRecv") else COLLECTIVE
                layout = ("<QQi", COMMUNICATOR, size, index) if schema == PEER else ("<QQ", COMMUNICATOR, size)
                process.nvtx(name, at_us + 1 + index, at_us + 1.5 + index, domain=NCCL_DOMAIN, binaryData=payload(schema, *layout))
            process.nvtx("ncclGroupEnd", at_us + 8, at_us + 12, domain=NCCL_DOMAIN)
            for index, kernel in enumerate(kernels):
                process.work(kernel, 20, at_us + 9 + index, at_us + 20 + 5 * index, at_us + 23 + 5 * index)

        gather, exchange = "ncclDevKernel_AllGather_RING_LL(x)", "ncclDevKernel_SendRecv(x)"
        process.nvtx("iteration 1", 0, 400)
        grouped(10, [("ncclAllGather", 100), ("ncclAllGather", 300)], [gather])
        grouped(110, [("ncclAllGather", 100), ("ncclAllGather", 300)], [gather, gather])
        grouped(210, [("ncclSend", 10), ("ncclRecv", 10), ("ncclSend", 20), ("ncclRecv", 20)], [exchange])
        grouped(310, [("ncclSend", 64), ("ncclRecv", 64)], [exchange])
        rows = self.sql(self.import_path(export.write(self.root / "export.sqlite")),
                        "SELECT kind, payload_bytes, group_size FROM collective ORDER BY sequence")
        self.assertEqual([(row["kind"], row["payload_bytes"], row["group_size"]) for row in rows],
                         [("all_gather", 1600, 4), ("all_gather", 400, 4), ("all_gather", 1200, 4), ("all_to_all", 120, 4), ("send_receive", 64, 4)])

    def test_steps_are_the_ranges_that_repeat_and_last_longest(self):
        export = Export()
        process = Process(export)
        for step in range(3):
            start = 1000 * step
            process.nvtx(f"Iteration {step + 40}", start, start + 900)
            process.nvtx("batch", start + 10, start + 60)  # shorter
            process.nvtx("Optimizer.step#AdamW.step", start + 700, start + 800)
            process.work("kernel", 7, start + 20, start + 30, start + 500)
            process.work("multi_tensor_apply_kernel", 7, start + 720, start + 730, start + 790)
        run = self.import_path(export.write(self.root / "export.sqlite"))
        self.assertEqual([(row["step"], row["compute_ns"]) for row in self.report(run)["steps"]], [(40, 530_000), (41, 530_000), (42, 530_000)])

    def test_parts_of_a_step_are_known_by_plain_words(self):
        """A backward asks for kernels on a thread of autograd, which marks nothing."""
        export = Export()
        process = Process(export)
        for step in range(2):
            start = 1000 * step
            process.nvtx(f"step {step}", start, start + 900)
            for index, (name, thread) in enumerate((("forward", 1), ("Backward pass", 3), ("optimizer.step", 1))):
                process.nvtx(name, start + 100 * index, start + 100 * index + 80)
                process.work(f"kernel{index}", 7, start + 100 * index + 10, start + 200 * index + 300, start + 200 * index + 400, thread)
        run = self.import_path(export.write(self.root / "export.sqlite"))
        self.assertEqual([(row["name"], row["phase"]) for row in self.sql(run, "SELECT name, phase FROM plan_op ORDER BY id")],
                         [("F forward", "forward"), ("B backward", "backward"), ("O optimizer", "optimizer")])

    def test_ranges_marks_domains_and_payloads(self):
        export = Export()
        process = Process(export)
        process.work("kernel", 7, 1, 5, 10)
        process.nvtx("Loader", 0, None, event_type=75, domain=4)
        process.nvtx("decode", 0, 3, domain=4, int32Value=17)
        process.nvtx("epoch", 0, 60, event_type=60, endGlobalTid=process.tid(9))
        process.nvtx("here", 2, None, event_type=34)
        process.nvtx("open", 3, None)
        process.nvtx("sized", 4, 5, jsonText='{"width": 3, "inner": {"scale": 0.5}, "name": "x"}')
        run = self.import_path(export.write(self.root / "export.sqlite"))
        spans = {row["name"]: row["track"] for row in self.sql(run, "SELECT n.text AS name, t.name AS track FROM span s JOIN string n ON n.id = s.name_string "
                                                                    "JOIN track t ON t.id = s.track")}
        self.assertEqual({name: spans.get(name) for name in ("Loader: decode", "epoch", "here", "open")},
                         {"Loader: decode": "thread 1 (python3)", "epoch": "NVTX ranges", "here": "thread 1 (python3)", "open": None})
        self.assertEqual({row["name"]: row["value"] for row in self.sql(run, "SELECT n.text AS name, c.value FROM counter c JOIN string n ON n.id = c.name_string")},
                         {"decode: payload": 17, "sized: width": 3, "sized: scale": 0.5})
        self.assertEqual(self.losses(run), {"not understood: NVTX ranges that never end": 1})

    def test_waits_for_events_say_whose(self):
        export = Export()
        process = Process(export)
        process.work("kernel", 20, 1, 5, 10)
        export.add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", deviceId=0, contextId=1, streamId=20, correlationId=9, globalPid=process.global_pid, eventId=3,
                   eventSyncId=77)
        place = process.place(7, 12, 13, 10)
        export.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **place, syncType=2, eventId=3, eventSyncId=77)
        export.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **place, syncType=4, eventId=0)
        run = self.import_path(export.write(self.root / "export.sqlite"))
        rows = self.sql(run, "SELECT n.text AS name, t.name AS track FROM span s JOIN string n ON n.id = s.name_string JOIN track t ON t.id = s.track "
                             "WHERE s.category = 'wait' ORDER BY 1")
        self.assertEqual([(row["name"], row["track"]) for row in rows],
                         [("Context Sync", "GPU 0 waits of the host"), ("Stream Wait Event", "GPU 0 stream 7 waits")])

    def test_memory_of_the_device_is_there(self):
        export = Export()
        process = Process(export)
        process.work("kernel", 7, 1, 5, 10)
        for at, size, kind, operation in ((2, 1000, 2, 0), (3, 500, 2, 0), (4, 800, 1, 0), (6, 1000, 2, 1)):
            export.add("CUDA_GPU_MEMORY_USAGE_EVENTS", start=at * 1000, globalPid=process.global_pid, deviceId=0, address=1 << 40, bytes=size,
                       memKind=kind, memoryOperationType=operation)
        run = self.import_path(export.write(self.root / "export.sqlite"))
        self.assertEqual([row["bytes"] for row in self.sql(run, "SELECT bytes FROM memory_event ORDER BY issued_ns")], [1000, 500, -1000])

    def test_what_is_not_understood_is_counted(self):
        export = self.two_ranks()
        for at in range(7):
            export.add("SCHED_EVENTS", start=at, cpu=0, isSchedIn=1, globalTid=1)
        process = Process(export, process=300)  # marks ranges, but uses no GPU
        process.nvtx("loading", 0, 10)
        process = Process(export, process=200)
        process.work("late", 7, 1, 9, 8)
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=1 << 62, end=1, deviceId=0, contextId=1, streamId=7, globalPid=process.global_pid,
                   demangledName=9999)
        for at, size in ((1000, -1), (1000, 1 << 62), (1 << 62, 1)):
            export.add("CUDA_GPU_MEMORY_USAGE_EVENTS", start=at, globalPid=process.global_pid, deviceId=0, address=1 << 40, bytes=size, memKind=2,
                       memoryOperationType=0)
        run = self.import_path(export.write(self.root / "export.sqlite"))
        self.assertEqual(self.losses(run), {"not understood: table SCHED_EVENTS": 7, "not understood: rows without a time that can be read": 2,
                                            "not understood: rows of memory of a size that cannot be": 2,
                                            "not understood: names that the file lacks": 1,
                                            "not understood: rows that end before they begin, taken as moments": 1})

    def test_what_nsys_says_that_it_lost_is_said(self):
        export = self.two_ranks()
        export.add("DIAGNOSTIC_EVENT", timestamp=1, severity=1, text="Dwarf backtraces collected.")
        export.add("DIAGNOSTIC_EVENT", timestamp=1, severity=2, text="Not all CUDA events might have been collected.")
        run = self.import_path(export.write(self.root / "export.sqlite"))
        self.assertEqual(self.report(run)["cut_files"], ["nsys: nsys says: Not all CUDA events might have been collected."])
        text = self.run_program(APP, "report", run).stdout
        self.assertIn("the file is not whole: nsys says: Not all CUDA events might have been collected.", text)
        self.assertNotIn("Dwarf", text)

    def test_files_of_other_tools_that_keep_no_keys_are_read(self):
        path = self.two_ranks().write(self.root / "export.sqlite")
        database = sqlite3.connect(path)
        database.executescript("CREATE TABLE texts AS SELECT * FROM StringIds; DROP TABLE StringIds; ALTER TABLE texts RENAME TO StringIds;"
                               "DROP TABLE META_DATA_EXPORT; DROP TABLE TARGET_INFO_SESSION_START_TIME;")
        database.close()
        steps = self.report(self.import_path(path))["steps"]
        self.assertEqual([{key: step[key] for key in FIGURES} for step in steps], [FIGURES] * 2)

    def test_a_folder_with_other_databases_is_read_without_them(self):
        folder = self.root / "folder"
        folder.mkdir()
        self.two_ranks().write(folder / "export.sqlite")
        sqlite3.connect(folder / "other.sqlite").execute("CREATE TABLE cats (name)").connection.close()
        (folder / "report.nsys-rep").write_bytes(b"\x00\x01")
        self.assertEqual(len(self.report(self.import_path(folder))["steps"]), 2)

    def test_what_cannot_be_read_says_what_to_do(self):
        (self.root / "report.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2025@1@1@0.\n\x0b\x01")
        for command in (("import",), ("report",), ("shot", "-o", "x.png"), ("sql",)):
            with self.subTest(command):
                error = self.refused(command[0], self.root / "report.nsys-rep", *command[1:], *(["SELECT 1"] if command == ("sql",) else []))
                self.assertIn("nsys export --type sqlite", error)
        (self.root / "unknown.nsys-rep").write_bytes(b"\x00\x01\x02")
        self.assertIn("nsys export --type sqlite", self.refused("import", self.root / "unknown.nsys-rep"))
        empty = Export()
        error = self.refused("import", empty.write(self.root / "empty.sqlite"), "-o", self.root / "run")
        self.assertIn("nsys profile -t cuda,nvtx", error)
        sqlite3.connect(self.root / "cats.sqlite").execute("CREATE TABLE cats (name)").connection.close()
        self.assertIn("holds nothing that can be imported", self.refused("import", self.root / "cats.sqlite"))
        self.assertFalse((self.root / "run").exists())

    def test_damaged_files_are_an_error_or_a_stated_loss(self):
        export = self.two_ranks()
        process = Process(export, process=200)
        for index in range(2000):
            process.nvtx(f"range {index}", index, index + 1)
        data = export.write(self.root / "whole.sqlite").read_bytes()
        path = self.root / "damaged.sqlite"
        seen = set()
        for index, share in enumerate((0.3, 0.6, 0.9)):
            path.write_bytes(data[:int(len(data) * share)])
            done = self.run_program(APP, "report", path, check=False)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            seen.add("the file is not whole" in done.stdout or "error" in done.stderr or "malformed" in done.stderr)
        self.assertEqual(seen, {True})
        dice = random.Random(7)
        for index in range(40):
            broken = bytearray(data)
            for _ in range(20):
                broken[dice.randrange(100, len(broken))] = dice.randrange(256)
            path.write_bytes(broken)
            done = self.run_program(APP, "import", path, "-o", self.root / f"broken{index}", check=False)
            self.assertIn(done.returncode, (0, 1), f"{index}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
