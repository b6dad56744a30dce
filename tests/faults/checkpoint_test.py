"""Checkpoints of whole programs: kills, folders that cannot be written, ranks that are processes."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import hugging_face
import llama_cases
from faults import checkpoint_kills
from programs import APP, BIN, ROOT, TIMEOUT_S, TINY, TRAIN, ProgramTest, free_port

sys.path.insert(0, str(ROOT / "tests" / "tokenizer"))
import material  # noqa: E402  (needs the path above)


class CheckpointTest(ProgramTest):
    def losses(self, name):
        return [line.split()[:3] for line in (self.root / name).read_text().splitlines()]

    def processes(self, out, *arguments, ranks=2):
        """A run of one process a rank, as torchrun starts them; what rank 0 says."""
        port = str(free_port())
        started = []
        for rank in range(ranks):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            started.append(subprocess.Popen([str(TRAIN), "--out", str(out), *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True))
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in started]
        self.assertEqual([process.returncode for process in started], [0] * ranks, said)
        return said[0]

    def test_kills_leave_whole_checkpoints(self):
        facts, failures = checkpoint_kills.attack(BIN, moments=4, seed=3, jobs=2)
        self.assertEqual(failures, [])
        self.assertEqual(facts["moments"], 4)
        self.assertGreater(facts["read"], 4)  # not only the newest of each

    def test_processes_write_one_checkpoint_that_threads_and_processes_go_on_from(self):
        settings = [f"data.path={self.data}", *TINY, "train.steps=6", "checkpoint.every=3"]
        self.processes(self.root / "a", "--set", *settings, "--losses", self.root / "a.txt")
        checkpoint = self.root / "a" / "checkpoints" / "step-3"
        index = json.loads((checkpoint / "index.json").read_text())
        self.assertEqual({file["name"] for file in index["files"]}, {path.name for path in checkpoint.iterdir()} - {"index.json"})
        self.assertEqual(index["num_ranks"], 2)
        self.processes(self.root / "b", "--resume", checkpoint, "--losses", self.root / "b.txt")
        self.assertEqual(self.losses("b.txt"), self.losses("a.txt")[3:])
        self.run_program(TRAIN, "--resume", checkpoint, "--out", self.root / "c", "--losses", self.root / "c.txt")
        self.assertEqual(self.losses("c.txt"), self.losses("a.txt")[3:])
        report = self.report(self.root / "c")
        self.assertEqual(report["resumed"], {"run_id": index["run"], "step": 3, "folder": str(checkpoint)})
        self.assertEqual((report["scope"]["first_step"], report["scope"]["first_timed_step"]), (3, 5))  # it warms up again
        self.assertIn(f"Goes on from run {index['run']} with step 3", self.run_program(APP, "report", self.root / "c").stdout)
        for name in "abc":
            report = self.report(self.root / name)
            ranks = [one["ranks"] for one in report["checkpoints"]]
            self.assertEqual(ranks, [2, 2] if name == "a" else [2])
            for one in report["checkpoints"]:
                self.assertTrue(one["whole"])
                files = pathlib.Path(one["folder"]).glob("*.safetensors")
                self.assertEqual(one["bytes"], sum(file.stat().st_size for file in files))
        said = self.processes(self.root / "d", "--resume", self.root / "a", "--set", "train.steps=7", "strategy=ddp", ranks=3)
        self.assertIn("step-6 with step 6", said)
        self.assertEqual(sorted(path.name for path in (self.root / "d" / "checkpoints").iterdir()), ["step-7"])

    def test_a_stopped_run_goes_on_where_it_was(self):
        run, process = self.start_training("a", "train.steps=1000000", "checkpoint.every=1000000")
        self.wait_for_steps(run, 3)
        process.terminate()
        output, _ = process.communicate(timeout=TIMEOUT_S)
        step = int(re.search(r"checkpoint before step (\d+) in", output).group(1))
        done = self.run_program(TRAIN, "--resume", run, "--out", self.root / "b", "--set", f"train.steps={step + 2}")
        self.assertIn(f"with step {step}\n", done.stdout)
        self.assertIn(f"finished after {step + 2} of {step + 2} steps", done.stdout)

    def test_what_cannot_be_gone_on_from_is_one_line_and_leaves_nothing(self):
        run, _ = self.train("a", "train.steps=2", "checkpoint.every=1")
        (self.root / "empty").mkdir()
        for path, settings, text in ((self.root / "none", (), "is not there"), (self.root / "empty", (), "has no checkpoint"),
                                     (run, (), "has all steps behind it"), (run, ("train.steps=5", "model.dim=48"), "is of another model"),
                                     (run, ("train.steps=5", f"checkpoint.path={self.data}/x"), "cannot write checkpoints")):
            with self.subTest(text=text):
                words = ["--set", *settings] if settings else []
                done = self.run_program(TRAIN, "--resume", path, "--out", self.root / "b", *words, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(text, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse((self.root / "b").exists())

    def test_settings_of_the_strategy_before_a_change_go_on_without_effect(self):
        for name, before, after in (("no_sync", ["strategy=full", "accumulation=no_sync"], "zero1"),
                                    ("bucket", ["strategy=ddp", "ddp.bucket_cap=20kB"], "full"),
                                    ("overlap", ["strategy=zero3", "zero.overlap_comm=false"], "full")):
            with self.subTest(name):
                change = self.root / f"{name}.toml"
                change.write_text(f'[[change]]\nstep = 2\nset = {{ "strategy" = "{after}" }}\n')
                run, _ = self.train(name, *before, "train.micro_batches=2", "train.steps=6", "checkpoint.every=4",
                                    extra=["--config", change, "--losses", self.root / f"{name}.txt"])
                self.run_program(TRAIN, "--resume", run / "checkpoints" / "step-4", "--ranks", 2, "--out", self.root / f"{name} again", "--losses",
                                 self.root / f"{name} again.txt")
                self.assertEqual(self.losses(f"{name} again.txt"), self.losses(f"{name}.txt")[4:])

    def test_settings_that_another_strategy_does_not_have_are_no_fault(self):
        run, _ = self.train("a", "accumulation=no_sync", "train.micro_batches=2", "train.steps=4", "checkpoint.every=2")
        again = [TRAIN, "--resume", run / "checkpoints" / "step-2", "--out"]
        for at, settings in enumerate((["strategy=zero1"], ["strategy=zero1", "accumulation=reduce"], ["offload=all"])):
            self.run_program(*again, self.root / f"again{at}", "--set", *settings)
        for settings, text in ((["strategy=zero1", "accumulation=no_sync"], "accumulation=no_sync has no effect with strategy=zero1"),
                               (["strategy=zero1", "accumulation=reduce_scatter_only"], "is about replicas, which strategy=zero1 does not have")):
            with self.subTest(text):
                done = self.run_program(*again, self.root / "refused", "--set", *settings, check=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(text, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse((self.root / "refused").exists())

    def test_listed_changes_that_do_not_go_with_what_is_given_are_left_out_and_named(self):
        change = self.root / "change.toml"
        change.write_text('[[change]]\nstep = 3\nset = { "offload" = "all", "train.lr" = 0.002 }\n')
        run, _ = self.train("a", "train.steps=5", "checkpoint.every=2", extra=["--config", change])
        done = self.run_program(TRAIN, "--resume", run / "checkpoints" / "step-2", "--out", self.root / "b", "--set", "strategy=zero2")
        self.assertIn("give way: offload=all of the change at step 3 (left out)\n", done.stderr)
        settings = (self.root / "b" / "run.toml").read_text()
        changes = settings[settings.index("[[change]]"):]
        self.assertIn("0.002", changes)
        self.assertNotIn("offload", changes)

    def test_a_damaged_newest_checkpoint_is_passed_over_and_moved_aside(self):
        kept = self.root / "kept"
        self.train("a", "train.steps=6", "checkpoint.every=3", f"checkpoint.path={kept}")
        (kept / "step-6" / "run.toml").unlink()
        done = self.run_program(TRAIN, "--resume", kept, "--out", self.root / "b", "--set", f"checkpoint.path={kept}")
        self.assertIn("passed over: ", done.stderr)
        self.assertIn("step-3 with step 3\n", done.stdout)
        self.assertIn(f"; what was there is now {kept / 'step-6.aside'} (", done.stdout + done.stderr)
        self.assertEqual(sorted(path.name for path in kept.iterdir()), ["step-3", "step-6", "step-6.aside"])
        self.assertTrue((kept / "step-6" / "run.toml").exists())

    def test_data_that_have_changed_are_said(self):
        run, _ = self.train("a", "train.steps=2", "checkpoint.every=2")
        again = [TRAIN, "--resume", run, "--set", "train.steps=3", "--out"]
        self.assertNotIn("the data have", self.run_program(*again, self.root / "b").stdout)
        self.data.write_text(self.data.read_text() + "and then some more, which was not there before")
        done = self.run_program(*again, self.root / "c")
        self.assertRegex(done.stdout, r"the data have \d+ samples, and had \d+ when .*step-2 was written: they begin anew")
        done = self.run_program(TRAIN, "--resume", run, "--out", self.root / "d", "--set", "train.steps=3", "model.seq=12")
        self.assertRegex(done.stdout, r"model.seq is 12, and was 16 when .*step-2 was written: the data begin anew")

    def test_other_data_of_the_same_length_are_said(self):
        run, _ = self.train("a", "train.steps=2", "checkpoint.every=2")
        other = self.root / "other.txt"
        other.write_text(self.data.read_text()[::-1])
        again = [TRAIN, "--resume", run, "--set", "train.steps=3", f"data.path={other}", "--out"]
        self.assertRegex(self.run_program(*again, self.root / "b").stdout, r"the data are others than when .*step-2 was written: they begin anew")
        other.write_text(self.data.read_text())  # what counts is what they are, not where
        self.assertNotIn("begin anew", self.run_program(*again, self.root / "c").stdout)

    def test_another_tokenizer_is_one_error_that_names_both(self):
        kinds = material.kinds(material.train(100))
        ours, moved, other = self.root / "ours", self.root / "moved", self.root / "other"
        material.write_folder(ours, kinds["qwen2"])
        material.write_folder(other, kinds["llama3"])  # of as many tokens, which are cut from the text in another way
        run, _ = self.train("a", "train.steps=2", "checkpoint.every=2", "model.vocab=400", f"data.tokenizer={ours}", f"data.cache={self.root / 'cache'}")
        fingerprint = json.loads((run / "checkpoints" / "step-2" / "index.json").read_text())["data"]["tokenizer"]

        def again(name, *settings, check=True):
            return self.run_program(TRAIN, "--resume", run, "--out", self.root / name, "--set", "train.steps=3", *settings, check=check)

        def refused(there, remedy, *settings):
            done = again("b", *settings, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertIn("step-2 was trained with the tokenizer of", done.stderr)
            self.assertIn(f"{ours} (fingerprint {fingerprint}), and here the data would be read with {there}", done.stderr)
            self.assertTrue(done.stderr.strip().endswith(remedy), done.stderr)
            self.assertFalse((self.root / "b").exists())

        remedy = "set data.tokenizer to the one that it was trained with"
        refused(f"the tokenizer of {other} (fingerprint ", remedy, f"data.tokenizer={other}")
        refused("bytes as tokens", remedy, "data.tokenizer=bytes")
        # Elsewhere, laid out in another way, with more in it that says nothing of ids.
        material.write_folder(moved, kinds["qwen2"], model_max_length=5)
        (moved / "tokenizer.json").write_text(json.dumps(kinds["qwen2"], indent=1))
        self.assertNotIn("begin anew", again("c", f"data.tokenizer={moved}").stdout)
        (ours / "tokenizer.json").write_text((other / "tokenizer.json").read_text())
        refused(f"the tokenizer of {ours} (fingerprint ", remedy)
        run, _ = self.train("bytes", "train.steps=2", "checkpoint.every=2", "model.vocab=400")
        done = again("b", f"data.tokenizer={other}", f"data.cache={self.root / 'cache'}", check=False)
        self.assertIn("step-2 was trained with bytes as tokens, and here the data would be read with the tokenizer of", done.stderr)
        self.assertTrue(done.stderr.strip().endswith("set data.tokenizer=bytes"), done.stderr)

    def test_settings_that_are_damaged_are_said(self):
        run, _ = self.train("a", "train.steps=2", "checkpoint.every=1")
        newest = run / "checkpoints" / "step-2"
        text = (newest / "run.toml").read_text()
        for changed in (text.replace("lr", "l=", 1), text.replace("steps = 2", "steps = 3", 1)):
            (newest / "run.toml").write_text(changed)
            done = self.run_program(TRAIN, "--resume", run, "--out", self.root / "b", "--set", "train.steps=4", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertIn("run.toml", done.stderr)
            self.assertIn(f"take another checkpoint, as {run}/checkpoints/step-1", done.stderr)

    def test_a_run_without_a_checkpoint_names_what_it_went_on_from(self):
        run, _ = self.train("a", "train.steps=2", "checkpoint.every=2")
        again = self.root / "again"
        self.run_program(TRAIN, "--resume", run, "--out", again, "--set", "train.steps=3", "checkpoint.every=0")
        done = self.run_program(TRAIN, "--resume", again, "--out", self.root / "b", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(f"it went on from {run}/checkpoints/step-2: --resume {run}/checkpoints/step-2", done.stderr)
        elsewhere = self.root / "elsewhere"
        away, _ = self.train("away", "train.steps=2", "checkpoint.every=2", f"checkpoint.path={elsewhere}")
        done = self.run_program(TRAIN, "--resume", away, "--out", self.root / "b", check=False)
        self.assertIn(f"its checkpoints are in {elsewhere}: --resume {elsewhere}", done.stderr)

    def test_checkpoints_of_another_run_stay(self):
        kept = self.root / "kept"

        def steps(folder):
            return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())

        self.train("a", "train.steps=8", "checkpoint.every=2", f"checkpoint.path={kept}")
        self.assertEqual(steps(kept), [2, 4, 6, 8])
        before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
        again = [TRAIN, "--resume", kept / "step-2", "--out"]
        done = self.run_program(*again, self.root / "b", "--set", "train.lr=0.1", "checkpoint.keep=1")
        self.assertIn(f"checkpoint.path={kept} is that of the run before", done.stderr)
        self.assertEqual(steps(self.root / "b" / "checkpoints"), [8])
        # Where it is told to write among them, and where a run begins anew among them.
        for command, first in ((again + [self.root / "c", "--set", "train.lr=0.1", f"checkpoint.path={kept}"], 2),
                               (self.train_command(self.root / "c", f"checkpoint.path={kept}"), 0)):
            refused = self.run_program(*command, check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertEqual(len(refused.stderr.strip().splitlines()), 1, refused.stderr)
            self.assertIn(f"{kept} has checkpoints of another run up to step 8, and this one begins with step {first}: name another folder",
                          refused.stderr)
            self.assertFalse((self.root / "c").exists())
        self.assertEqual({path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}, before)
        # Behind the newest it may go on there; checkpoint.keep counts its own.
        self.run_program(TRAIN, "--resume", kept, "--out", self.root / "d", "--set", "train.steps=12", "checkpoint.keep=1", f"checkpoint.path={kept}")
        self.assertEqual(steps(kept), [2, 4, 6, 8, 12])

    def test_two_runs_do_not_write_into_one_folder(self):
        folder = f"checkpoint.path={self.root / 'checkpoints'}"
        run, _ = self.start_training("a", "train.steps=1000000", folder)
        self.wait_for_steps(run, 1)
        done = self.run_program(*self.train_command(self.root / "b", folder), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has the checkpoints of a run that is training", done.stderr)
        self.assertFalse((self.root / "b").exists())

    def test_settings_that_contradict_the_given_ones_give_way(self):
        run = self.root / "a"
        self.run_program(*self.train_command(run, "strategy=hybrid", "mesh.replicate=2", "offload=all", "train.steps=2", "checkpoint.every=2", ranks=4))
        for ranks, strategy, said in ((3, "ddp", "mesh.replicate=2 (now auto), offload=all (now none)"), (3, "full", "mesh.replicate=2 (now 1)"),
                                      (1, "single", "mesh.replicate=2 (now 1), offload=all (now none)"), (4, "hybrid_grad_op", "")):
            with self.subTest(strategy):
                done = self.run_program(TRAIN, "--resume", run, "--ranks", ranks, "--out", self.root / strategy, "--set", f"strategy={strategy}",
                                        "train.steps=3")
                self.assertEqual(said and f"settings of the checkpoint that do not go with the given ones give way: {said}\n", done.stderr)


class FineTuningTest(ProgramTest):
    """A folder of a Llama with its tokenizer and conversations: what goes on from a checkpoint has the same weights, and the samples that come next."""

    STEPS, STOP = 6, 3
    CONFIG = {**llama_cases.BASE, "vocab_size": 400, "num_key_value_heads": 2}

    def setUp(self):
        super().setUp()
        self.model = hugging_face.write_folder(self.root / "model", self.CONFIG)
        material.write_folder(self.model, material.kinds(material.train(100))["qwen2"])
        dice = material.Dice(5)
        words = [[dice.one(material.WORDS) for _ in range(12)] for _ in range(60)]
        chats = [{"messages": [{"role": "user", "content": " ".join(some)}, {"role": "assistant", "content": " ".join(reversed(some))}]}
                 for some in words]
        self.data = self.root / "chats.jsonl"
        self.data.write_text("".join(json.dumps(chat) + "\n" for chat in chats))

    def losses(self, name, *arguments):
        """As text, by step; the final weights are in the run's last checkpoint."""
        path = self.root / f"{name}.losses"
        self.run_program(TRAIN, "--out", self.root / name, "--losses", path, *arguments)
        return [line.split()[:3] for line in path.read_text().splitlines()]

    def written(self, name, step):
        """Bytes of the ranks' files."""
        return {path.name: path.read_bytes() for path in (self.root / name / "checkpoints" / f"step-{step}").glob("rank-*")}

    def test_a_step_in_which_no_token_counts_has_no_loss(self):
        # Answers that are shorter than most samples between two of them.
        chats = [{"messages": [{"role": "user", "content": "the optimizer shards the gradient " * 40}, {"role": "assistant", "content": "a"}]}] * 10
        self.data.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
        losses = self.root / "losses"
        done = self.run_program(TRAIN, "--ranks", 2, "--out", self.root / "run", "--losses", losses, "--set", f"model.path={self.model}",
                                f"data.path={self.data}", f"data.cache={self.root / 'cache'}", "model.seq=4", "train.batch=1", "train.steps=2")
        self.assertIn("step 0 (1 of 2)  no token counts", done.stdout)
        self.assertIn("finished after 2 of 2 steps, no token counts\n", done.stdout)
        self.assertEqual([line.split()[1] for line in losses.read_text().splitlines()], ["nan", "nan"])

    def test_goes_on_where_the_folder_has_its_weights_no_more(self):
        settings = [f"model.path={self.model}", f"data.path={self.data}", f"data.cache={self.root / 'cache'}", "model.seq=16", "train.batch=2",
                    f"train.steps={self.STEPS}", f"checkpoint.every={self.STOP}"]
        weights, moved = self.model / "model.safetensors", self.root / "moved"
        for name, adapters in (("all", []), ("adapters", ["lora.rank=4"])):
            with self.subTest(name):
                whole = self.losses(name, "--ranks", 2, "--set", *settings, *adapters)
                weights.rename(moved)
                again = self.losses(f"{name} again", "--resume", self.root / name / "checkpoints" / f"step-{self.STOP}")
                self.assertEqual(again, whole[self.STOP:])
                self.assertEqual(self.written(f"{name} again", self.STEPS), self.written(name, self.STEPS))
                moved.rename(weights)

    def test_what_is_taken_as_it_is_and_may_not_be_meant_is_said(self):
        settings = [f"model.path={self.model}", f"data.path={self.data}", f"data.cache={self.root / 'cache'}", "train.batch=1", "train.steps=1"]
        longer = "model.seq=65 is longer than max_position_embeddings=64"
        keeps = "checkpoint.keep=2 has no effect with checkpoint.every=0"
        for name, more, said in (("longer", ["model.seq=65"], [longer]), ("keeps", ["model.seq=64", "checkpoint.keep=2"], [keeps]),
                                 ("neither", ["model.seq=64", "checkpoint.keep=2", "checkpoint.every=1"], [])):
            with self.subTest(name):
                done = self.run_program(TRAIN, "--ranks", 1, "--out", self.root / name, "--set", *settings, *more)
                self.assertEqual([text for text in (longer, keeps) if text in done.stdout], said)

    def test_another_arithmetic_is_another_model(self):
        run = self.root / "run"
        settings = [f"model.path={self.model}", f"data.path={self.data}", f"data.cache={self.root / 'cache'}", "model.seq=16", "train.batch=2"]
        self.run_program(TRAIN, "--ranks", 1, "--out", run, "--set", *settings, "lora.rank=4", "train.steps=2", "checkpoint.every=2")
        again = [TRAIN, "--resume", run, "--out", self.root / "again", "--set", "train.steps=3"]
        config = json.loads((self.model / "config.json").read_text())
        scaling = {"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 16}
        for field, changed in (("rope_theta", {"rope_theta": 12345}), ("rms_norm_eps", {"rms_norm_eps": 0.5}),
                               ("rope_scaling.factor", {"rope_scaling": scaling}), ("tie_word_embeddings", {"tie_word_embeddings": True})):
            with self.subTest(field):
                (self.model / "config.json").write_text(json.dumps({**config, **changed}))
                for command in (again, [TRAIN, "export", "--checkpoint", run, "--out", self.root / "again"]):
                    done = self.run_program(*command, check=False)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                    self.assertIn("is of another model: it was trained with", done.stderr)
                    self.assertIn(f"{self.model}/config.json has {field}=", done.stderr)
                    self.assertFalse((self.root / "again").exists())
        (self.model / "config.json").write_text(json.dumps(config))
        self.run_program(*again)

    def test_a_run_with_relative_paths_is_read_from_any_folder(self):
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        train = TRAIN.resolve()
        self.run_program(train, "--ranks", 1, "--out", "run", "--set", "model.path=model", f"data.path=./{self.data.name}", "data.cache=cache",
                         "model.seq=16", "train.batch=2", "train.steps=2", "checkpoint.every=2", folder=self.root)
        settings = (self.root / "run" / "run.toml").read_text()
        for path in (self.model, self.data, self.root / "cache"):
            self.assertIn(f'= "{path.resolve()}"\n', settings)
        self.run_program(train, "--resume", "../run", "--out", "more", "--set", "train.steps=3", folder=elsewhere)
        self.run_program(train, "export", "--checkpoint", "more", "--out", "exported", folder=elsewhere)
        self.assertTrue((elsewhere / "exported" / "tokenizer.json").exists())
        self.run_program(train, "sample", "--checkpoint", self.root / "run", "--prompt", "the", "--tokens", 2, folder=elsewhere)

    def test_goes_on_at_other_ranks_and_strategies(self):
        whole = self.losses("whole", "--ranks", 2, "--set", f"model.path={self.model}", f"data.path={self.data}", f"data.cache={self.root / 'cache'}",
                            "model.seq=16", "train.batch=2", "strategy=full", f"train.steps={self.STEPS}", f"checkpoint.every={self.STOP}")
        self.assertEqual(len(whole), self.STEPS)
        checkpoint = self.root / "whole" / "checkpoints" / f"step-{self.STOP}"
        rest = whole[self.STOP:]
        self.assertEqual(self.losses("same", "--resume", checkpoint), rest)
        self.assertEqual(self.written("same", self.STEPS), self.written("whole", self.STEPS))
        # The same sums in the same order.
        self.assertEqual(self.losses("grad_op", "--resume", checkpoint, "--set", "strategy=grad_op"), rest)
        self.assertEqual(self.written("grad_op", self.STEPS), self.written("whole", self.STEPS))
        # The same samples in each step, added up in another order.
        for at, (ranks, *settings) in enumerate(((4, "strategy=ddp", "train.batch=1"), (1, "strategy=single", "train.batch=4"),
                                                 (2, "strategy=zero2", "train.batch=1", "train.micro_batches=2"),
                                                 (2, "strategy=pipeline", "train.batch=2", "train.micro_batches=2"),
                                                 (2, "strategy=tensor", "train.batch=4"))):
            with self.subTest(" ".join((str(ranks), *settings))):
                ours = self.losses(f"other{at}", "--resume", checkpoint, "--ranks", ranks, "--set", *settings)
                self.assertEqual([step for step, *_ in ours], [step for step, *_ in rest])
                for left, right in zip(ours, rest):
                    for mine, theirs in zip(left[1:], right[1:]):
                        self.assertAlmostEqual(float(mine), float(theirs), delta=1e-4 * float(theirs))
        # From there to where it came from: the weights have gone through four ranks' layout and back.
        back = self.losses("back", "--resume", self.root / "other0", "--ranks", 2, "--set", "strategy=full", "train.batch=2",
                           f"train.steps={self.STEPS + 1}")
        self.assertEqual(len(back), 1)


if __name__ == "__main__":
    unittest.main()
