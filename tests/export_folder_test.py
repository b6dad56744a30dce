"""shardscope-train export: a checkpoint becomes a folder in Hugging Face's layout, bit for bit, or nothing at all."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

import hugging_face
import llama_cases
from programs import BIN, TIMEOUT_S, TRAIN, ProgramTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tokenizer"))
import material  # noqa: E402  (needs the path above)

SHIM = BIN.parent / "tests" / "libdisk_shim.so"
CASES = {case.name: {**case.config, "vocab_size": 256} for case in llama_cases.CASES}  # a token is a byte
SETTINGS = ["model.seq=16", "train.batch=2", "train.warmup_steps=2", "checkpoint.every=100"]


class ExportFolderTest(ProgramTest):
    def tune(self, name, config, *settings, ranks=2, steps=3):
        """The last checkpoint of a run from a folder with this config.json."""
        folder = hugging_face.write_folder(self.root / f"from {name}", config)
        return folder, self.train_from(name, f"model.path={folder}", *settings, ranks=ranks, steps=steps)

    def train_from(self, name, *settings, ranks=2, steps=3):
        self.run_program(TRAIN, "--ranks", ranks, "--out", self.root / name, "--set", f"data.path={self.data}", *SETTINGS, f"train.steps={steps}",
                         *settings)
        return self.root / name / "checkpoints" / f"step-{steps}"

    def export(self, checkpoint, out, *options, check=True, environment=None):
        done = subprocess.run([str(part) for part in (TRAIN, "export", "--checkpoint", checkpoint, "--out", out, *options)],
                              env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=TIMEOUT_S)
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        else:
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done

    def assert_same(self, checkpoint, tensors, config):
        """fp32, every element."""
        weights = hugging_face.read_checkpoint(checkpoint)
        self.assertEqual([[name, shape] for name, (_, shape, _) in sorted(tensors.items())],
                         sorted([name, shape] for name, shape in hugging_face.tensor_shapes(config)))
        self.assertEqual(len(weights), len(tensors))
        for name, (dtype, shape, data) in tensors.items():
            self.assertEqual(dtype, "F32")
            our_shape, values = weights[hugging_face.our_name(name)]
            self.assertEqual(shape, our_shape, name)
            self.assertEqual(list(struct.unpack(f"<{len(values)}f", data)), values, name)

    def losses(self, name, *settings):
        path = self.root / f"{name}.losses"
        self.run_program(TRAIN, "--ranks", 1, "--out", self.root / name, "--losses", path, "--set", *settings)
        return [float(line.split()[1]) for line in path.read_text().splitlines()]

    def test_every_kind_of_model_is_exported_bit_for_bit(self):
        for name, settings in (("llama3_scaling", ["strategy=full"]), ("qwen2", ["strategy=ddp"]), ("grouped", ["mesh.tensor=2"]),
                               ("tied", ["strategy=zero2"])):
            with self.subTest(name):
                folder, checkpoint = self.tune(name, CASES[name], *settings)
                out = self.root / f"out {name}"
                done = self.export(checkpoint.parent.parent, out)  # of a run the newest checkpoint
                self.assertIn(f"checkpoint: {checkpoint}, before step 3", done.stdout)
                self.assert_same(checkpoint, hugging_face.read_folder(out), CASES[name])
                self.assertEqual(hugging_face.read_safetensors(out / "model.safetensors")[1], {"format": "pt"})
                self.assertEqual(json.loads((out / "config.json").read_text()), {**CASES[name], "torch_dtype": "float32"})
                self.assertNotEqual(hugging_face.read_folder(out), hugging_face.read_folder(folder))  # it has learned
                self.assertEqual([], list(self.root.glob("*.partial")))

    def test_a_run_from_the_exported_folder_goes_on_with_the_same_loss(self):
        # All samples are those of one step, so that the order in which they come does not matter.
        self.data.write_bytes(bytes(llama_cases.mixed_bits(3, at) % 128 for at in range(4 * 17)))
        _, checkpoint = self.tune("run", CASES["tied"])
        out = self.root / "exported"
        self.export(checkpoint, out)
        settings = [f"data.path={self.data}", *SETTINGS, "train.batch=4"]
        resumed, = self.losses("resumed", f"checkpoint.resume={checkpoint}", "run.ranks=1", "train.batch=4", "train.steps=4")
        first, = self.losses("first", f"model.path={out}", *settings, "train.steps=1")
        self.assertAlmostEqual(first, resumed, delta=1e-6 * resumed)
        untuned, = self.losses("untuned", f"model.path={self.root / 'from run'}", *settings, "train.steps=1")
        self.assertGreater(untuned, resumed + 1e-3)

    def test_adapters_go_on_elsewhere_and_are_merged_into_their_weights(self):
        self.data.write_bytes(bytes(llama_cases.mixed_bits(3, at) % 128 for at in range(4 * 17)))
        lora = ["lora.rank=3", "lora.alpha=6", "lora.targets=q_proj,down_proj", "train.lr=0.02"]
        folder, checkpoint = self.tune("run", CASES["grouped"], *lora, "train.batch=2")
        adapters = [name for name in hugging_face.read_checkpoint(checkpoint) if ".lora_" in name]
        self.assertEqual(len(adapters), 2 * 2 * CASES["grouped"]["num_hidden_layers"])
        out = self.root / "exported"
        self.export(checkpoint, out)
        base, tuned = hugging_face.read_folder(folder), hugging_face.read_folder(out)
        changed = sorted(name for name in base if base[name] != tuned[name])
        self.assertEqual(changed, sorted(name for name in base if name.endswith(("q_proj.weight", "down_proj.weight"))))
        settings = [f"data.path={self.data}", *SETTINGS, "train.batch=4"]
        resumed, = self.losses("resumed", f"checkpoint.resume={checkpoint}", "run.ranks=1", "strategy=ddp", "train.batch=4", "train.steps=4")
        first, = self.losses("first", f"model.path={out}", *settings, "train.steps=1")
        self.assertAlmostEqual(first, resumed, delta=1e-6 * resumed)

    def test_adapters_alone_go_to_pefts_layout_and_back(self):
        held_out = self.root / "held out.txt"
        held_out.write_bytes(bytes(32 + llama_cases.mixed_bits(5, at) % 95 for at in range(8 * 17)))
        evaluates = [f"eval.path={held_out}", "eval.every=3"]
        lora = ["lora.rank=3", "lora.alpha=6", "lora.targets=q_proj,down_proj"]
        folder, checkpoint = self.tune("run", CASES["grouped"], *lora, *evaluates, "train.lr=0.02")
        out = self.root / "adapter"
        self.export(checkpoint, out, "--adapter")
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["adapter_config.json", "adapter_model.safetensors"])
        config = json.loads((out / "adapter_config.json").read_text())
        self.assertEqual([config[key] for key in ("peft_type", "task_type", "base_model_name_or_path", "r", "lora_alpha", "target_modules", "bias")],
                         ["LORA", "CAUSAL_LM", str(folder), 3, 6.0, ["q_proj", "down_proj"], "none"])
        tensors, metadata = hugging_face.read_safetensors(out / "adapter_model.safetensors")
        self.assertEqual(metadata, {"format": "pt"})
        sizes = CASES["grouped"]
        hidden, inner, heads = sizes["hidden_size"], sizes["intermediate_size"], sizes["num_attention_heads"]
        queries = sizes.get("head_dim", hidden // heads) * heads
        expected = {}
        for layer in range(sizes["num_hidden_layers"]):
            for module, rows, columns in (("self_attn.q_proj", queries, hidden), ("mlp.down_proj", hidden, inner)):
                stem = f"base_model.model.model.layers.{layer}.{module}.lora_"
                expected |= {stem + "A.weight": [3, columns], stem + "B.weight": [rows, 3]}
        self.assertEqual({name: shape for name, (_, shape, _) in tensors.items()}, expected)
        # Over its base it is what the run was when it ended.
        losses = lambda run: [row["loss"] for row in self.sql(run, "SELECT loss FROM v_evaluation ORDER BY before_step")]
        again = self.train_from("again", f"model.path={folder}", f"lora.path={out}", *evaluates)
        self.assertEqual(losses(again.parent.parent)[0], losses(checkpoint.parent.parent)[-1])
        self.assertNotEqual(losses(again.parent.parent)[0], losses(checkpoint.parent.parent)[0])
        # The reference begins with the same, and so it does with adapters that are drawn.
        for begins in ([f"lora.path={out}"], lora):
            settings = [f"data.path={self.data}", f"model.path={folder}", *SETTINGS, *begins, "checkpoint.every=0", "train.steps=3", "train.lr=0.02"]
            losses_of = [self.root / f"{name} of {len(begins)}.losses" for name in ("ranks", "reference")]
            for path, extra in zip(losses_of, ((), ("--reference",))):
                self.run_program(TRAIN, "--ranks", 2, "--out", path.with_suffix(""), "--losses", path, *extra, "--set", *settings)
            ranks, reference = ([float(line.split()[1]) for line in path.read_text().splitlines()] for path in losses_of)
            self.assertEqual(len(ranks), 3)
            for ours, theirs in zip(ranks, reference, strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs, msg=begins)
        # The run goes on without it, and its adapters are exported again.
        for path in out.iterdir():
            path.unlink()
        self.export(again, self.root / "second", "--adapter")

    def test_a_model_folder_that_has_moved_is_named(self):
        folder, checkpoint = self.tune("run", CASES["grouped"])
        moved = folder.rename(self.root / "moved")
        sample = ("sample", "--checkpoint", checkpoint, "--prompt", "a", "--tokens", 2)
        for done in (self.export(checkpoint, self.root / "out", check=False), self.run_program(TRAIN, *sample, check=False)):
            self.assertEqual(done.returncode, 1)
            self.assertIn("with --model FOLDER", done.stderr)
        self.export(checkpoint, self.root / "out", "--model", moved)
        self.run_program(TRAIN, *sample, "--model", moved)
        self.assertTrue((self.root / "out" / "config.json").exists())
        other = hugging_face.write_folder(self.root / "other", {**CASES["grouped"], "rope_theta": 77.0})
        self.assertIn("take the config.json that it was trained with", self.export(checkpoint, self.root / "none", "--model", other, check=False).stderr)

    def test_a_tokenizer_in_a_model_folder_has_moved_with_it(self):
        folder = hugging_face.write_folder(self.root / "from", {**CASES["llama"], "vocab_size": 400})
        tokenizer = folder / "words"
        material.write_folder(tokenizer, material.kinds(material.train(100))["qwen2"])
        checkpoint = self.train_from("run", f"model.path={folder}/", f"data.tokenizer={tokenizer}", f"data.cache={self.root / 'cache'}", steps=1)
        moved = folder.rename(self.root / "moved")
        self.run_program(TRAIN, "sample", "--checkpoint", checkpoint, "--prompt", "the", "--tokens", 2, "--model", moved)
        self.export(checkpoint, self.root / "out", "--model", moved)
        self.assertEqual((self.root / "out" / "tokenizer.json").read_bytes(), (moved / "words" / "tokenizer.json").read_bytes())

    def test_adapters_that_do_not_fit_are_one_error(self):
        folder, checkpoint = self.tune("run", CASES["grouped"], "lora.rank=3", "lora.targets=q_proj")
        out = self.root / "adapter"
        self.export(checkpoint, out, "--adapter")
        _, plain = self.tune("plain", CASES["grouped"])
        self.assertIn("has no adapters", self.export(plain, self.root / "none", "--adapter", check=False).stderr)
        other = hugging_face.write_folder(self.root / "other", CASES["qwen2"])
        config = json.loads((out / "adapter_config.json").read_text())

        def refused(text, *settings, **changed):
            (out / "adapter_config.json").write_text(json.dumps({**config, **changed}))
            done = self.run_program(TRAIN, "--out", self.root / "refused", "--set", f"data.path={self.data}", *SETTINGS, f"lora.path={out}", *settings,
                                    check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertFalse((self.root / "refused").exists())

        base = f"model.path={folder}"
        refused("set model.path")
        refused("contradicts lora.path, whose adapter_config.json has 3", base, "lora.rank=4")
        refused("peft_type is not LORA", base, peft_type="IA3")
        refused("use_dora", base, use_dora=True)
        refused("use_rslora", base, use_rslora=True)
        refused("modules_to_save is set", base, modules_to_save=["lm_head"])
        refused("rank_pattern is set", base, rank_pattern={"q_proj": 4})
        refused("lora_dropout=0.5 cannot be trained", base, lora_dropout=0.5)
        for other_way in ("pissa", "pissa_niter_4", "olora", "loftq"):
            refused(f'init_lora_weights="{other_way}" cannot be trained', base, init_lora_weights=other_way)
        refused("lora_bias=true cannot be trained", base, lora_bias=True)
        refused("use_qalora=true cannot be trained", base, use_qalora=True)
        refused("exclude_modules is set", base, exclude_modules=["q_proj"])
        refused("trainable_token_indices is set", base, trainable_token_indices=[1])
        refused("alora_invocation_tokens is set", base, alora_invocation_tokens=[1])
        refused("target_modules", base, target_modules=["lm_head"])
        refused("target_modules", base, target_modules="q.*")
        refused("has no tensor base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", base, target_modules=["q_proj", "k_proj"])
        refused("is [3, ", base, r=4)
        refused("adapter_model.safetensors: tensor ", f"model.path={other}")
        # As peft writes what is not used.
        idle = {"init_lora_weights": "gaussian", "lora_dropout": 0, "exclude_modules": None, "loftq_config": {}, "rank_pattern": {}, "use_bdlora": None}
        (out / "adapter_config.json").write_text(json.dumps({**config, **idle}))
        self.run_program(TRAIN, "--out", self.root / "idle", "--set", f"data.path={self.data}", *SETTINGS, f"lora.path={out}", base, "train.steps=1")
        (out / "adapter_model.safetensors").write_bytes((out / "adapter_model.safetensors").read_bytes()[:-5])
        refused("lora.path: ", base)
        (out / "adapter_model.safetensors").unlink()
        refused("lora.path: ", base)
        (out / "adapter_config.json").unlink()
        done = self.run_program(TRAIN, "--out", self.root / "refused", "--set", base, f"lora.path={out}", check=False)
        self.assertIn("name a folder that peft has written", done.stderr)

    def test_a_model_that_was_drawn_gets_a_config_that_describes_it(self):
        checkpoint = self.train_from("drawn", "model.kind=llama", "model.layers=1", "model.dim=24", "model.heads=4", "model.kv_heads=2", "model.ffn=40")
        out = self.root / "out"
        out.mkdir()  # empty: it may be there
        self.export(checkpoint, out)
        config = json.loads((out / "config.json").read_text())
        self.assertEqual([config[key] for key in ("architectures", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                                                  "num_key_value_heads", "vocab_size", "max_position_embeddings", "tie_word_embeddings")],
                         [["LlamaForCausalLM"], 24, 40, 1, 4, 2, 256, 16, False])
        self.assert_same(checkpoint, hugging_face.read_folder(out), config)
        again = self.train_from("again", f"model.path={out}", steps=1)
        self.assertTrue(again.exists())

    def test_a_config_without_its_kind_gets_it(self):
        config = CASES["qwen2"]
        folder = hugging_face.write_folder(self.root / "from", config)
        (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if key != "model_type"}))
        out = self.root / "out"
        self.export(self.train_from("run", f"model.path={folder}", steps=1), out)
        self.assertEqual(json.loads((out / "config.json").read_text()), {**config, "torch_dtype": "float32"})

    def test_several_files_bf16_and_what_lies_beside_the_weights(self):
        folder = hugging_face.write_folder(self.root / "from", CASES["llama"])
        beside = {"tokenizer_config.json": "{\"chat_template\": \"x\"}", "generation_config.json": "{}", "special_tokens_map.json": "{ }"}
        for name, text in beside.items():
            (folder / name).write_text(text)
        (folder / "README.md").write_text("of another model")
        checkpoint = self.train_from("run", f"model.path={folder}")
        out = self.root / "out"
        most = 20000
        self.export(checkpoint, out, "--dtype", "bf16", "--file-bytes", f"{most / 1000}kB")
        shutil.rmtree(out)
        self.export(checkpoint, out, "--dtype", "bf16", "--file-bytes", most)
        index = json.loads((out / "model.safetensors.index.json").read_text())
        names = sorted(set(index["weight_map"].values()))
        self.assertEqual(names, [f"model-{at + 1:05}-of-{len(names):05}.safetensors" for at in range(len(names))])
        self.assertGreater(len(names), 2)
        for name in names:
            tensors, _ = hugging_face.read_safetensors(out / name)
            self.assertTrue(len(tensors) == 1 or sum(len(data) for _, _, data in tensors.values()) <= most, name)
        tensors = hugging_face.read_folder(out)
        self.assertEqual(index["metadata"]["total_size"], sum(len(data) for _, _, data in tensors.values()))
        weights = hugging_face.read_checkpoint(checkpoint)
        for name, (dtype, _, data) in tensors.items():
            self.assertEqual(dtype, "BF16")
            self.assertEqual(list(struct.unpack(f"<{len(data) // 2}H", data)), [hugging_face.nearest_bf16(value) for value in weights[hugging_face.our_name(name)][1]])
        self.assertEqual(json.loads((out / "config.json").read_text())["torch_dtype"], "bfloat16")
        self.assertEqual(sorted(path.name for path in out.iterdir()), sorted([*beside, *names, "config.json", "model.safetensors.index.json"]))
        for name, text in beside.items():
            self.assertEqual((out / name).read_text(), text)

    def test_another_tokenizer_is_neither_copied_nor_sampled_with(self):
        kinds = material.kinds(material.train(100))
        tokenizer = self.root / "tokenizer"
        material.write_folder(tokenizer, kinds["qwen2"])
        _, checkpoint = self.tune("run", {**CASES["llama"], "vocab_size": 400}, f"data.tokenizer={tokenizer}", f"data.cache={self.root / 'cache'}", steps=1)
        fingerprint = json.loads((checkpoint / "index.json").read_text())["data"]["tokenizer"]
        sample = [TRAIN, "sample", "--checkpoint", checkpoint, "--prompt", "the", "--tokens", 2]
        self.run_program(*sample)
        self.export(checkpoint, self.root / "ours")
        self.assertEqual((self.root / "ours" / "tokenizer.json").read_bytes(), (tokenizer / "tokenizer.json").read_bytes())
        (tokenizer / "tokenizer.json").write_text(json.dumps(kinds["llama3"]))
        for use, done in (("the prompt would be read with", self.run_program(*sample, check=False)),
                          ("the folder would get", self.export(checkpoint, self.root / "other", check=False))):
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertIn(f"step-1 was trained with the tokenizer of {tokenizer} (fingerprint {fingerprint}), and here {use} the tokenizer of "
                          f"{tokenizer} (fingerprint ", done.stderr)
            self.assertTrue(done.stderr.strip().endswith(f"put the tokenizer that it was trained with back to {tokenizer}"), done.stderr)
        self.assertEqual([], [path.name for path in self.root.glob("other*")])

    def test_what_cannot_be_exported_is_said_and_leaves_nothing(self):
        gpt = self.train_from("gpt", "model.layers=1", "model.dim=24", "model.heads=3")
        folder, llama = self.tune("llama", CASES["llama"], steps=1)
        full, file = self.root / "full", self.root / "file"
        full.mkdir()
        (full / "mine").write_text("mine")
        (self.root / "empty").mkdir()
        for name, target in (("to empty", "empty"), ("to nothing", "nothing")):
            (self.root / name).symlink_to(self.root / target)
        file.write_text("mine")
        left = self.root / "left.partial"
        left.mkdir()
        for checkpoint, out, text in ((gpt, "out", "only a llama can be exported"), (self.root / "none", "out", "is not there"),
                                      (self.root, "out", "has no checkpoint"), (llama, full.name, "is there already"),
                                      (llama, file.name, "is there already"),
                                      (llama, "to empty", "is a symbolic link"), (llama, "to nothing", "is a symbolic link"), (llama, "left", "left.partial is there already"),
                                      (llama, "no folder/out", "No such file or directory")):
            with self.subTest(text):
                self.assertIn(text, self.export(checkpoint, self.root / out, check=False).stderr)
        self.assertIn("--dtype", self.export(llama, self.root / "out", "--dtype", "fp8", check=False).stderr)
        data = llama / "rank-0-of-2.safetensors"
        data.write_bytes(data.read_bytes()[:-1] + b"\x7f")
        self.assertIn("damaged", self.export(llama, self.root / "out", check=False).stderr)
        (folder / "config.json").rename(folder / "gone")
        self.assertIn("config.json", self.export(llama, self.root / "out", check=False).stderr)
        self.assertEqual(["file", "full", "left.partial"], sorted(path.name for path in self.root.iterdir() if path.name in (
            "file", "full", "left", "no folder") or path.name.startswith("out") or path.name.endswith(".partial")))
        self.assertEqual(["mine"], [path.name for path in full.iterdir()])
        self.assertEqual("mine", file.read_text())

    def test_a_disk_that_fails_leaves_nothing_half_made(self):
        _, checkpoint = self.tune("llama", CASES["llama"], steps=1)
        out, control = self.root / "out", self.root / "disk"
        for state, below, text in (("full", "out", "No space left on device"), ("read-only", "out", "Read-only file system"),
                                   ("room 30000", "out.partial", "No space left on device")):
            with self.subTest(state):
                if "log_path" in os.environ.get("ASAN_OPTIONS", ""):
                    self.skipTest("the preloaded disk stands in front of the address sanitizer's own log, and both wait for each other")
                control.write_text(state)
                shim = {"LD_PRELOAD": str(SHIM), "DISK_SHIM_FOLDER": str(self.root / below), "DISK_SHIM_CONTROL": str(control)}
                self.assertIn(text, self.export(checkpoint, out, check=False, environment=shim).stderr)
                self.assertEqual([], list(self.root.glob("out*")))
        limited = subprocess.run(["bash", "-c", f"ulimit -f 40; exec '{TRAIN}' export --checkpoint '{checkpoint}' --out '{out}'"],
                                 capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(limited.returncode, 1, limited.stdout)
        self.assertIn("File too large", limited.stderr)
        self.assertEqual([], list(self.root.glob("out*")))


if __name__ == "__main__":
    unittest.main()
