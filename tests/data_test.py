"""Training on token ids: text and conversations by a tokenizer, what the loss counts, and what is wrong with data said."""

import json
import pathlib
import re
import shutil
import struct
import sys

import hugging_face
import llama_cases
from programs import ProgramTest, TRAIN

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tokenizer"))
import chat_cases  # noqa: E402  (needs the path above)
import compare  # noqa: E402
import material  # noqa: E402

VOCABULARY = 400
FOOTER_BYTES = 40  # of a token file
NOT_COUNTED = 1 << 31


class DataTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = material.kinds(material.train(100))["qwen2"]

    def setUp(self):
        super().setUp()
        self.folder = self.root / "tokenizer"
        material.write_folder(self.folder, self.tokenizer)
        dice = material.Dice(5)
        lines = []
        for _ in range(60):
            words = [dice.one(material.WORDS) for _ in range(12)]
            answer = " ".join(reversed(words))
            lines.append({"messages": [{"role": "user", "content": " ".join(words)}, {"role": "assistant", "content": answer}]})
        self.data = self.root / "chats.jsonl"
        self.data.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.settings = [f"data.tokenizer={self.folder}", f"data.cache={self.root / 'cache'}", f"model.vocab={VOCABULARY}"]

    def losses(self, name, *settings, ranks=2, extra=()):
        path = self.root / f"{name}.losses"
        _, done = self.train(name, *self.settings, "train.steps=4", *settings, ranks=ranks, extra=("--losses", path, *extra))
        return [float(line.split()[1]) for line in path.read_text().splitlines()], done.stdout

    def test_ranks_share_the_token_file_and_train_as_the_reference_does(self):
        ours, said = self.losses("sharded", "train.micro_batches=2", ranks=2)
        self.assertRegex(said, r"data: 1 file, 60 documents, \d+ tokens, \d+ samples of 17 tokens; the loss counts the assistant's alone")
        reference, _ = self.losses("reference", "train.micro_batches=2", ranks=2, extra=("--reference",))
        self.assertEqual(len(ours), 4)
        for left, right in zip(ours, reference):
            self.assertAlmostEqual(left, right, delta=1e-4 * right)
        self.assertEqual(1, len(list((self.root / "cache").glob("*.tokens"))))
        again, _ = self.losses("again", "train.micro_batches=2", ranks=2)  # from the cache
        self.assertEqual(ours, again)

    def test_text_is_another_thing_than_conversations(self):
        chats, said = self.losses("chats")
        text, said_of_text = self.losses("text", "data.format=text")
        self.assertNotEqual(chats, text)
        self.assertIn("1 document,", said_of_text)
        self.assertNotIn("the loss counts", said_of_text)
        self.assertIn("60 documents", said)

    def test_ids_and_marks_of_conversations_are_those_of_transformers(self):
        recorded = json.loads(compare.RECORDED.read_text())["masks"]
        self.data.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in chat_cases.mask_conversations()))
        for name, tokenizer in chat_cases.mask_kinds().items():
            with self.subTest(name):
                folder, cache = self.root / name, self.root / f"{name}.cache"
                material.write_folder(folder, tokenizer)
                self.train(f"{name}.run", f"data.tokenizer={folder}", f"data.cache={cache}", f"model.vocab={VOCABULARY}", "train.steps=2", ranks=1)
                file, = cache.glob("*.tokens")
                tokens = file.read_bytes()[:-FOOTER_BYTES]
                ours = [token if token < NOT_COUNTED else ~(token - NOT_COUNTED) for token, in struct.iter_unpack("<I", tokens)]
                end = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == "<|end|>")
                self.assertEqual([number for line in recorded[name] for number in [*map(int, line.split()), ~end]], ours)

    def error(self, *settings):
        done = self.run_program(*self.train_command(self.root / "bad", *settings), check=False)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertFalse((self.root / "bad").exists())
        return done.stderr

    def test_what_is_wrong_is_said_before_a_run_begins(self):
        self.assertRegex(self.error(*self.settings, "model.vocab=300"), r"model.vocab=300 is too small for the tokenizer, which has ids up to \d+")
        self.assertIn("data.format=jsonl needs a tokenizer", self.error("data.format=jsonl"))
        self.assertIn("tokenizer.json", self.error(f"data.tokenizer={self.root / 'none'}"))
        unigram = {**self.tokenizer, "model": {"type": "Unigram", "vocab": []}}
        material.write_folder(self.root / "unigram", unigram)
        self.assertIn("its model is Unigram", self.error(f"data.tokenizer={self.root / 'unigram'}"))
        self.data.write_text(self.data.read_text() + '{"text": \n')
        self.assertRegex(self.error(*self.settings), r"chats.jsonl, line 61: it is no JSON")

    def test_a_tokenizer_of_another_kind_is_an_error_and_no_reason_to_train_on_bytes(self):
        model = hugging_face.write_folder(self.root / "llama", {**llama_cases.BASE, "vocab_size": 300, "num_key_value_heads": 2})
        out = self.root / "run"

        def run(*settings, check=False):
            return self.run_program(TRAIN, "--ranks", 1, "--out", out, "--set", f"model.path={model}", "model.seq=16", "train.batch=1", "train.steps=2",
                                    *settings, check=check)

        text = self.root / "text.txt"
        text.write_text("the quick brown fox jumps over the lazy dog. " * 20)
        for files in (["tokenizer.model"], ["vocab.json", "merges.txt"]):
            for name in files:
                (model / name).write_text("{}")
            shown = " and ".join(files)
            for data in (self.data, text):
                with self.subTest(shown, data=data.name):
                    done = run(f"data.path={data}")
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                    self.assertIn(f"{model} has a tokenizer of another kind ({shown}), and no tokenizer.json", done.stderr)
                    self.assertIn("set data.tokenizer=bytes", done.stderr)
                    self.assertFalse(out.exists())
            self.assertIn(f"({shown})", self.error(f"data.tokenizer={model}"))
            run(f"data.path={text}", "data.tokenizer=bytes", check=True)
            shutil.rmtree(out)
            for name in files:
                (model / name).unlink()
        run(f"data.path={text}", check=True)  # a folder without any

    def test_json_lines_are_not_learned_as_bytes_unless_that_is_said(self):
        for settings in ([], ["data.tokenizer=bytes"]):
            self.assertIn(f"{self.data} has JSON lines by its name, which need a tokenizer", self.error(*settings))
        self.train("bytes", "data.format=text", "train.steps=2")
        # The same of files in a folder, but of those alone that are learned from.
        folder = self.root / "texts"
        (folder / ".hidden").mkdir(parents=True)
        (folder / "notes.txt").write_text("the quick brown fox jumps over the lazy dog. " * 40)
        shutil.copy(self.data, folder / ".hidden" / "chats.jsonl")
        (folder / "binary.jsonl").write_bytes(b"\xff\x00" * 10)
        self.train("folder", f"data.path={folder}", "train.steps=2")
        shutil.copy(self.data, folder / "chats.jsonl")
        for settings in ([], ["data.tokenizer=bytes"]):
            self.assertIn(f"data.path: {folder / 'chats.jsonl'} has JSON lines by its name, which need a tokenizer",
                          self.error(f"data.path={folder}", *settings))
        self.train("folder of bytes", f"data.path={folder}", "data.format=text", "train.steps=2")
        self.train("folder of tokens", *self.settings, f"data.path={folder}", "train.steps=2")

    def test_a_broken_tokenizer_of_the_model_is_named_by_the_key_that_named_it(self):
        model = hugging_face.write_folder(self.root / "llama", {**llama_cases.BASE, "vocab_size": 300, "num_key_value_heads": 2})
        (model / "tokenizer.json").write_text("{")
        settings = (f"model.path={model}", "model.seq=16", "train.batch=1", "train.steps=2", f"data.path={self.data}")
        done = self.run_program(TRAIN, "--ranks", 1, "--out", self.root / "run", "--set", *settings, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, rf"error: model\.path: .*{re.escape(str(model))}.*with data\.tokenizer")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn("error: data.tokenizer: ", self.error(f"data.tokenizer={model}"))

    def test_eval_batches_are_of_all_ranks(self):
        # Its answer is behind the first two samples, and not behind the first eight.
        held_out = self.root / "held-out.jsonl"
        chat = {"messages": [{"role": "user", "content": "a " * 24}, {"role": "assistant", "content": "the gradient is reduced " * 20}]}
        held_out.write_text(json.dumps(chat) + "\n")
        settings = [*self.settings, "train.batch=1", "train.steps=2", "eval.every=2", f"eval.path={held_out}"]
        self.train("four", *settings, "eval.batches=2", ranks=4)
        done = self.run_program(*self.train_command(self.root / "one", *settings, "eval.batches=2", ranks=1), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"eval.path: of the first 2 samples of {held_out}, which eval.batches=2 takes, no token counts in the loss: raise eval.batches",
                      done.stderr)

    def test_sampling_without_a_checkpoint_is_an_error(self):
        done = self.run_program(TRAIN, "sample", "--checkpoint", self.root, "--prompt", "a", check=False)
        self.assertEqual(1, done.returncode)
        self.assertTrue(re.search(r"^error: .*checkpoint", done.stderr), done.stderr)
