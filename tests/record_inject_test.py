"""What `shardscope record` puts into a program: the library with its hooks for NVTX, CUDA and NCCL."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from programs import APP, BIN, TIMEOUT_S
from recorded import LIBRARY, RecordTest

PROGRAM = BIN.parent / "tests" / "recorded_program"
FAKE_CUPTI = BIN.parent / "tests" / "fake" / "libcupti.so.13"
NCCL = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib" / "libnccl.so.2"

# What a program may find on the machine where it is recorded: the C library.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"}
HOOKS = {"InitializeInjection", "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension", "ShardscopeAllocator", "ShardscopeState", "ShardscopeStateIfRecorded",
         "ncclProfiler_v4", "ncclProfiler_v5"}


class InjectedLibrary(RecordTest):
    def test_it_needs_only_the_c_library_and_shows_only_its_hooks(self):
        needed = self.run_program("readelf", "-d", LIBRARY).stdout
        libraries = {line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line}
        self.assertLessEqual(libraries, SYSTEM_LIBRARIES)
        symbols = self.run_program("nm", "-D", "--defined-only", LIBRARY).stdout
        self.assertEqual({line.split()[-1] for line in symbols.splitlines()}, HOOKS)

    def test_ranges(self):
        run, _ = self.record(PROGRAM, "ranges", check=0, environment={
            "RANK": "3", "WORLD_SIZE": "8", "NCCL_ALGO": "Ring", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"})
        counts = self.counts(run)
        for name, count in {"step": 3, "forward é": 3, "library: registered": 1, "mark": 1, "crossing": 1, "on a thread": 1,
                            "outer of program": 1, "inner of library": 1, "process": 1}.items():
            self.assertEqual(counts.get(name), count, name)
        self.assertEqual(self.sources(run), {"nvtx": "on", "nccl": "off", "cupti": "off"})
        program, = self.programs(run)
        self.assertEqual((program["rank"], program["state"]), (3, "finished"))
        self.assertIn("ranges", program["command"])
        nested = self.sql(run, "SELECT count(*) AS n FROM span a JOIN string x ON x.id = a.name_string AND x.text = 'step' "
                               "JOIN span b ON b.track = a.track AND b.start_ns >= a.start_ns AND "
                               "b.start_ns + b.duration_ns <= a.start_ns + a.duration_ns "
                               "JOIN string y ON y.id = b.name_string AND y.text = 'forward é'")
        self.assertEqual(nested, [{"n": 3}])
        # Two copies of NVTX whose ranges cross: each pop ends the range of its own copy.
        lengths = {row["name"]: row["total_ns"] for row in self.recorded(run)["spans"]}
        self.assertGreater(lengths["inner of library"], lengths["outer of program"])
        threads = self.sql(run, "SELECT DISTINCT t.name FROM span s JOIN track t ON t.id = s.track JOIN string n ON "
                                "n.id = s.name_string WHERE n.text IN ('step', 'on a thread')")
        self.assertEqual(len(threads), 2)
        numbers = self.sql(run, "SELECT n.text AS name, c.value FROM counter c JOIN string n ON n.id = c.name_string "
                                "JOIN span s ON s.track = c.track AND s.start_ns = c.time_ns ORDER BY 1")
        self.assertEqual(numbers, [{"name": f"numbers: {kind}: payload", "value": value} for kind, value in
                                   (("double", -0.5), ("float", 1.5), ("int", -7), ("mark", 2.0 ** 40), ("unsigned", 4000000000))])
        settings = self.sql(run, "SELECT key, value FROM config WHERE key IN ('env.NCCL_ALGO', 'env.PYTORCH_CUDA_ALLOC_CONF') ORDER BY key")
        self.assertEqual(settings, [{"key": "env.NCCL_ALGO", "value": "Ring"},
                                    {"key": "env.PYTORCH_CUDA_ALLOC_CONF", "value": "max_split_size_mb:64"}])

    def test_structured_payloads_are_read_as_they_were_registered(self):
        run, done = self.record(PROGRAM, "payloads", check=0)
        self.assertEqual(done.stdout, "1 1\n")
        names = sorted(name for name in self.counts(run) if name.startswith("library: "))
        self.assertEqual(names, ["library: known (layer=3, kind=sparse, where=decoder, share=0.25)", "library: short (layer=3)",
                                 "library: unknown", "library: wrong (layer=4, kind=7, where=?, share=0.5)"])
        self.assertEqual(self.report(run)["dropped"].get("nvtx", 0), 0)

    def test_the_library_without_a_launcher_records_nothing(self):
        environment = {**os.environ, "NVTX_INJECTION64_PATH": str(LIBRARY), "NCCL_PROFILER_PLUGIN": str(LIBRARY),
                       "CUDA_INJECTION64_PATH": str(LIBRARY)}
        environment.pop("SHARDSCOPE_RECORD_RUN", None)
        for mode in ("ranges", "nccl5", "cuda"):
            done = subprocess.run([PROGRAM, mode], env=environment, cwd=self.root, capture_output=True, timeout=TIMEOUT_S)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual([p.name for p in self.root.iterdir()], ["data.txt"])

    def test_a_folder_that_cannot_be_written_does_not_stop_the_program(self):
        environment = {**os.environ, "NVTX_INJECTION64_PATH": str(LIBRARY), "SHARDSCOPE_RECORD_RUN": "/nowhere/at/all"}
        done = subprocess.run([PROGRAM, "ranges"], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0)
        self.assertIn("is not recorded", done.stderr)

    def test_nothing_that_fails_reaches_the_program(self):
        environment = {**os.environ, "NVTX_INJECTION64_PATH": str(LIBRARY), "SHARDSCOPE_RECORD_RUN": "/nowhere/at/all"}
        for redirection in ("2>/dev/full", "2>&-", "2>&1 >&3 | true"):
            with self.subTest(redirection):
                command = f"set -o pipefail; exec 3>&1; ('{PROGRAM}' fork; echo \"code $?\" >&3) {redirection}"
                done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
                self.assertEqual(done.stdout, "code 0\n")

    def test_a_program_without_threads_for_us(self):
        preload = {"LD_PRELOAD": str(PROGRAM.parent / "libno_threads.so")}
        for after, command, source, said in ((0, (PROGRAM, "fork"), "inject", "the recorder cannot start its thread"),
                                             (1, (PROGRAM, "cuda", FAKE_CUPTI), "cupti", "CUPTI's records cannot be taken")):
            with self.subTest(after=after):
                variables = [f"{key}={value}" for key, value in {**preload, "NO_THREADS_AFTER": after}.items()]
                run, _ = self.record("env", *variables, *command, check=0, name=f"run{after}", environment={"FAKE_CUPTI": "ok"})
                reason, = [row["reason"] for row in self.report(run)["sources"] if (row["source"], row["status"]) == (source, "off")]
                self.assertIn(said, reason)
                self.assertIn("Resource temporarily unavailable", reason)

    def test_a_recorder_whose_thread_has_no_memory(self):
        run, _ = self.record("env", f"LD_PRELOAD={PROGRAM.parent / 'libno_memory.so'}", PROGRAM, "ranges", check=0)
        program, = self.programs(run)
        self.assertEqual(program["state"], "finished")
        reasons = {row["reason"] for row in self.report(run)["sources"] if row["source"] == "inject"}
        self.assertIn("the recorder had no memory: what came later is lost", reasons)

    def test_a_thread_that_is_cancelled_ends_as_it_would_alone(self):
        run, _ = self.record(PROGRAM, "cancelled", check=0)
        self.assertEqual({name: n for name, n in self.counts(run).items() if name in ("before the end", "after")},
                         {"before the end": 2, "after": 1})

    def test_files_that_may_not_grow(self):
        run, done = self.record("bash", "-c", f"ulimit -f 4; exec '{PROGRAM}' fork", check=0)
        self.assertIn("is not recorded", done.stderr)

    def test_a_program_without_memory_for_us(self):
        run, done = self.record(PROGRAM, "no_memory", check=0)
        self.assertEqual(done.stdout, "done\n")
        self.assertEqual(self.counts(run).get("first"), 1)
        self.assertIn("partial", [row["status"] for row in self.report(run)["sources"] if row["source"] == "inject"])

    def test_a_forked_child_is_not_recorded(self):
        run, _ = self.record(PROGRAM, "fork", check=0)
        program, = self.programs(run)
        self.assertEqual(program["state"], "finished")
        counts = self.counts(run)
        self.assertEqual((counts.get("before fork"), counts.get("in child"), counts.get("after fork")), (1, None, 1))

    def test_a_forked_child_does_not_keep_the_trace_alive(self):
        run, _ = self.record(PROGRAM, "orphan", check=0)
        self.assertEqual([p["state"] for p in self.programs(run)], ["cut"])
        self.assertEqual(self.counts(run).get("before fork"), 1)

    def test_exec_begins_a_new_file(self):
        run, _ = self.record(PROGRAM, "exec", check=0)
        before, after = sorted(self.programs(run), key=lambda p: p["state"])
        self.assertEqual((before["state"], after["state"]), ("cut", "finished"))
        self.assertEqual(before["pid"], after["pid"])
        self.assertEqual(self.counts(run)["step"], 3)

    def test_an_exit_without_handlers_loses_only_the_last_batch(self):
        run, _ = self.record(PROGRAM, "quick_exit", check=7)
        self.assertEqual([p["state"] for p in self.programs(run)], ["cut"])
        self.assertEqual(self.counts(run).get("first"), 1)
        self.assertEqual(self.sources(run)["nvtx"], "on")

    def test_a_killed_program_loses_only_the_last_batch(self):
        run, process = self.start(PROGRAM, "endless")
        self.assertEqual(process.stdout.readline(), "ready\n")
        live = self.wait_for(lambda: [p for p in self.programs(run) if p["spans"] > 0], "spans while it runs")
        self.assertEqual(live[0]["state"], "live")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), -signal.SIGTERM)
        self.assertEqual([p["state"] for p in self.programs(run)], ["cut"])
        self.assertEqual(self.counts(run).get("first"), 1)

    def test_twenty_short_processes_at_once(self):
        script = f"for i in $(seq 20); do RANK=$i '{PROGRAM}' ranges & done; wait"
        run, done = self.record("sh", "-c", script, check=0)
        self.assertIn("20 processes", done.stderr)
        programs = self.programs(run)
        self.assertEqual(sorted(p["rank"] for p in programs), list(range(1, 21)))
        self.assertEqual({p["state"] for p in programs}, {"finished"})
        self.assertEqual(self.counts(run)["step"], 60)

    def test_signals_are_not_taken_by_our_threads(self):
        _, done = self.record(PROGRAM, "signals", check=0)
        self.assertEqual(done.stdout, "program\n")

    def test_the_duration_ends_the_recording_and_not_the_program(self):
        for duration_ms in (600, 10_000):  # the second where the machine is too busy to start a program within the first
            run, process = self.start(PROGRAM, "endless", options=("--duration", f"{duration_ms}ms"), name=f"run {duration_ms}")
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(0.4 + duration_ms / 1000)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(TIMEOUT_S), -signal.SIGTERM)
            if "endless" in self.counts(run):
                break
        self.assertGreaterEqual(self.counts(run)["endless"], 1)
        last, = self.sql(run, "SELECT max(s.start_ns) - min(s.start_ns) AS length FROM span s JOIN string n ON n.id = "
                              "s.name_string WHERE n.text IN ('first', 'endless')")
        self.assertLess(last["length"], duration_ms * 1e6)

        run, _ = self.record("sh", "-c", f"sleep 0.2; '{PROGRAM}' ranges", options=("--duration", "100ms"), check=0, name="over")
        self.assertEqual(self.programs(run), [])

    def test_ranges_that_nobody_ends_last_until_their_thread_ends(self):
        run, _ = self.record(PROGRAM, "left_open", check=0)
        lengths = {row["name"]: row["total_ns"] for row in self.recorded(run)["spans"] if row["name"] != "process"}
        self.assertEqual({name for name in lengths if "left_open" not in name},  # the launcher's span has the command's name
                         {f"{name} (not ended)" for name in ("outer", "inner", "crossing", "of a thread", "of a sleeper")})
        for name in ("outer", "inner", "crossing"):
            self.assertGreaterEqual(lengths[f"{name} (not ended)"], 100e6)
        self.assertLess(lengths["of a thread (not ended)"], lengths["of a sleeper (not ended)"])
        self.assertEqual(self.report(run)["dropped"].get("nvtx", 0), 0)

    def test_a_range_that_lasts_longer_than_the_recording_ends_with_it(self):
        run, done = self.record(PROGRAM, "held", options=("--duration", "1500ms"), check=0)  # to begin takes time
        self.assertEqual(done.stdout, "0 -2\n")  # as NVTX answers where no tool listens
        self.assertEqual(set(self.counts(run)) & {"held", "held (not ended)", "too late", "too late (not ended)"}, {"held (not ended)"})
        ends = self.sql(run, "SELECT max(start_ns + duration_ns) AS end_ns FROM span GROUP BY name_string HAVING name_string IN "
                             "(SELECT id FROM string WHERE text IN ('process', 'held (not ended)'))")
        self.assertEqual(len({row["end_ns"] for row in ends}), 1)

    def test_cuda_without_a_driver_says_why_nothing_was_seen(self):
        run, _ = self.record(PROGRAM, "cuda", check=0)
        row, = [row for row in self.report(run)["sources"] if row["source"] == "cupti"]
        if pathlib.Path("/dev/nvidiactl").exists():
            self.assertIn(row["status"], ("on", "off"))  # another tool may have CUPTI
        else:
            self.assertEqual(row["status"], "off")
            self.assertIn("CUPTI", row["reason"])

    def record_gpu(self, how, environment=None):
        run, _ = self.record(PROGRAM, "cuda", FAKE_CUPTI, check=0, name=how, environment={"FAKE_CUPTI": how, **(environment or {})})
        return run, [row for row in self.report(run)["sources"] if row["source"] == "cupti"]

    def test_kernels_and_copies_of_a_gpu(self):
        run, sources = self.record_gpu("ok")
        self.assertEqual([(row["status"], row["reason"]) for row in sources], [("on", "")])
        spans = self.sql(run, "SELECT n.text AS name, s.category, s.duration_ns, t.name AS track FROM span s JOIN track t "
                              "ON t.id = s.track JOIN string n ON n.id = s.name_string WHERE t.role = 'compute' ORDER BY 1")
        self.assertEqual([(row["name"], row["category"], row["duration_ns"]) for row in spans],
                         [("copy host to device", "copy", 500), ("gemm(int)", "compute", 1000),
                          ("ncclDevKernel_AllGather_RING_LL", "communication", 1000)])
        self.assertEqual([row["track"].split("GPU")[1] for row in spans],
                         [" 0 context 1 stream 7", " 0 context 1 stream 7", " 0 context 1 stream 9"])

    def test_raw_buffers_are_dumped_on_request(self):
        run, sources = self.record_gpu("ok", {"SHARDSCOPE_CUPTI_DUMP": str(self.root)})
        self.assertEqual([row["status"] for row in sources], ["on"])
        dump, = self.root.glob("cupti-*.buffers")
        program, = self.programs(run)
        self.assertEqual(dump.name, f"cupti-{program['pid']}.buffers")
        self.assertEqual(dump.read_bytes()[:8], b"SHSCUPTI")
        self.assertIn(b"ncclDevKernel_AllGather_RING_LL", dump.read_bytes())  # names are in it

    def test_cupti_can_be_left_alone(self):
        _, sources = self.record_gpu("ok", {"SHARDSCOPE_CUPTI": "off"})
        self.assertEqual([row["status"] for row in sources], ["off"])
        self.assertIn("SHARDSCOPE_CUPTI=off", sources[0]["reason"])

    def test_lost_records_of_a_gpu_are_counted(self):
        run, sources = self.record_gpu("lossy")
        self.assertEqual({row["status"] for row in sources}, {"on", "partial"})
        self.assertEqual(self.report(run)["dropped"]["cupti"], 5)
        self.assertIn("the trace has holes", self.run_program(APP, "report", run).stdout)

    def test_who_keeps_cupti_from_us_is_said(self):
        for how, said in (("held", "Other Tool"), ("unknown", "999"), ("old", "130000")):
            with self.subTest(how=how):
                run, sources = self.record_gpu(how)
                self.assertEqual([row["status"] for row in sources], ["off"])
                self.assertIn(said, sources[0]["reason"])
                self.assertEqual(self.programs(run)[0]["state"], "finished")

    def test_pictures_of_a_run_without_steps(self):
        help_text = self.run_program(APP, "--help").stdout
        if "shot" not in help_text:
            self.skipTest("built without the app")
        run, _ = self.record(PROGRAM, "ranges", check=0)
        self.run_program(APP, "shot", run, "-o", self.root / "shot.png", "--json")
        self.assertGreater((self.root / "shot.png").stat().st_size, 0)


@unittest.skipUnless(NCCL.exists(), "there is no NCCL")
class RealNccl(RecordTest):
    def test_its_own_copy_of_nvtx_is_recorded_with_what_it_tells_of_each_operation(self):
        # Without a GPU there is no communicator: every call reports its range, then fails.
        script = f"""
import ctypes
nccl, eight, four = ctypes.CDLL({str(NCCL)!r}), ctypes.c_size_t(8), ctypes.c_size_t(4)
print(nccl.ncclAllGather(None, None, eight, 7, None, None))  # 7: ncclFloat32
nccl.ncclAllReduce(None, None, eight, 7, 2, None, None)
nccl.ncclReduceScatter(None, None, eight, 8, 4, None, None)
nccl.ncclBroadcast(None, None, four, 7, 1, None, None)
nccl.ncclSend(None, four, 7, 3, None, None)
nccl.ncclRecv(None, four, 7, 5, None, None)
"""
        run, done = self.record(sys.executable, "-c", script, check=0)
        self.assertNotEqual(done.stdout, "0\n")
        names = sorted(name for name in self.counts(run) if name.startswith("NCCL: "))
        self.assertEqual(names, ["NCCL: ncclAllGather (communicator 0, 32 bytes)", "NCCL: ncclAllReduce (communicator 0, 32 bytes, maximum)",
                                 "NCCL: ncclBroadcast (communicator 0, 16 bytes, root 1)",
                                 "NCCL: ncclRecv (communicator 0, 16 bytes, peer 5)",
                                 "NCCL: ncclReduceScatter (communicator 0, 64 bytes, average)",
                                 "NCCL: ncclSend (communicator 0, 16 bytes, peer 3)"])


class NcclPlugin(RecordTest):
    def check_plugin(self, version, launches):
        run, _ = self.record(PROGRAM, f"nccl{version}", check=0)
        counts = self.counts(run)
        self.assertEqual(counts.get("AllGather 1000 ncclBfloat16 RING LL128"), 3)
        self.assertEqual(counts.get("ReduceScatter 2000 ncclBfloat16 RING LL128"), 3)
        self.assertEqual(counts.get("Send 77 ncclFloat32 peer 5"), 2)
        self.assertEqual(counts.get("kernel launch", 0), launches)
        self.assertEqual(self.sources(run), {"nccl": "on", "nvtx": "off", "cupti": "off"})
        rows = self.sql(run, "SELECT t.name, c.value FROM counter c JOIN track t ON t.id = c.track ORDER BY c.time_ns")
        # Without those that ran while the mask was off; each communicator counts for itself.
        self.assertEqual([(row["name"].split("NCCL ")[1], row["value"]) for row in rows],
                         [("abcd world rank 3 of 8", 0), ("abcd world rank 3 of 8", 1), ("1234 rank 1 of 4", 0),
                          ("1234 rank 1 of 4", 1), ("abcd world rank 3 of 8", 4), ("abcd world rank 3 of 8", 5)])
        self.assertEqual({row["category"] for row in self.recorded(run)["spans"]}, {"host"})
        rows = self.sql(run, "SELECT n.*, s.start_ns FROM nccl_operation n JOIN span s ON s.id = n.id ORDER BY n.id")
        self.assertEqual([(row["communicator"], row["function"], row["sequence"], row["bytes"], row["group_size"], row["protocol"],
                           row["peer"]) for row in rows if row["communicator"] == "1234"],
                         [("1234", "AllGather", 0, 2000, 4, "LL128", 0), ("1234", "ReduceScatter", 1, 4000, 4, "LL128", 0),
                          ("1234", "Send", -1, 308, 4, "", 5), ("1234", "Send", -1, 308, 4, "", 5)])
        # The collectives of a group share the launch between their starts and stops; a send had none.
        windows = {(row["launch_track"], row["launch_start_ns"]) for row in rows if row["launch_track"] >= 0}
        self.assertEqual(len(windows), launches)
        self.assertEqual(sum(row["launch_track"] >= 0 for row in rows), 2 * launches)

    def test_version_5(self):
        self.check_plugin(5, launches=3)

    def test_version_4(self):
        self.check_plugin(4, launches=0)


del RecordTest  # only a base of the classes above


if __name__ == "__main__":
    unittest.main()
