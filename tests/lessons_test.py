"""`shardscope lesson`: all lessons done as a learner would, right and wrong; the list, answers, prints, and files that are bad."""

import re
import subprocess
import tomllib
import unittest

from programs import APP, ROOT, TRAIN, ProgramTest, thinned

FILES = sorted((ROOT / "assets" / "lessons").glob("*.toml"))
# As the app's own Chinese texts: collectives keep their English names, and an op is an op.
BANNED = ("全收集", "全聚集", "全规约", "全归约", "规约", "归约", "散布", "通信子", "算子", "操作", "秩")


def names(path):
    order, _, name = path.stem.partition("-")
    return int(order), name


class LessonsTest(ProgramTest):
    def lesson(self, *arguments, code=0):
        done = self.run_program(APP, "lesson", *arguments, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def test_every_lesson_accepts_what_is_right_and_refuses_what_is_wrong(self):
        checked = thinned(FILES)
        ids = [names(path)[1] for path in checked] if len(checked) < len(FILES) else []
        done = subprocess.run([str(APP), "lesson", *ids, "--check"], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for path in checked:
            order, name = names(path)
            self.assertRegex(done.stdout, rf"ok +{order} {name}\n")

    def test_they_are_numbered_from_1_and_the_list_names_them_in_order(self):
        self.assertTrue(FILES)
        self.assertEqual([names(path)[0] for path in FILES], list(range(1, len(FILES) + 1)))
        for language in ("en", "zh"):
            listed = self.lesson("--language", language).stdout.splitlines()
            self.assertEqual(len(listed), len(FILES))
            for line, path in zip(listed, FILES):
                title = tomllib.loads(path.read_text())["title"][language]
                self.assertEqual(re.split(r"  +", line.strip()), [str(names(path)[0]), names(path)[1], title])

    def test_chinese_texts_have_the_terms_of_the_app(self):
        for path in FILES:
            chinese = "".join(re.findall(r'zh = (?:"""(.*?)"""|"(.*?)")', path.read_text(), re.S)[0])
            self.assertTrue(chinese, path)
            for term in BANNED:
                self.assertNotIn(term, path.read_text(), path)

    def test_a_lesson_is_found_by_id_and_number_and_an_unknown_one_is_told(self):
        self.assertEqual(self.lesson("prefetch").stdout, self.lesson("7").stdout)
        unknown = self.lesson("prefecth", code=1).stderr
        self.assertIn("did you mean prefetch?", unknown)
        self.assertIn("say which lesson", self.lesson("--start", code=1).stderr)

    def test_prints_have_all_texts_and_no_open_names(self):
        for language in ("en", "zh"):
            out = self.root / "all.md"
            self.lesson("--print", "--language", language, "-o", out)
            text = out.read_text()
            self.assertNotIn("{", text)
            for path in FILES:
                self.assertIn(f"## {names(path)[0]}. {tomllib.loads(path.read_text())['title'][language]}", text)
            self.assertEqual(text.count("\n### "), 4 * len(FILES))
        page = self.root / "all.html"
        self.lesson("--print", "1", "-o", page)
        self.assertIn("<h2>1. Where memory goes</h2>", page.read_text())
        self.assertEqual(page.read_text().count("<ul>"), page.read_text().count("</ul>"))

    def test_a_quiz_is_judged_without_a_run(self):
        self.assertIn("Right.", self.lesson("memory", "--quiz", "14.96 GiB").stdout)
        self.assertIn("Right.", self.lesson("strategies", "--quiz", "47.4").stdout)
        wrong = self.lesson("memory", "--quiz", "16", code=2).stdout
        self.assertIn("Not 16 GiB", wrong)
        self.assertIn("is no number", self.lesson("memory", "--quiz", "many", code=1).stderr)
        self.assertIn("is no choice: answer exposed, or hidden", self.lesson("prefetch", "--quiz", "yes", code=1).stderr)

    def test_the_answer_to_a_task_is_found_in_its_run(self):
        run = self.root / "run"
        self.lesson("collectives", "--start", "--run", run)
        (sent,) = self.sql(run, "SELECT wire_bytes FROM collective WHERE kind = 'all_gather' AND payload_bytes = "
                                "(SELECT max(payload_bytes) FROM collective WHERE kind = 'all_gather') LIMIT 1")
        self.assertIn("Right.", self.lesson("collectives", "--answer", f"{sent['wire_bytes']} B", "--run", run).stdout)
        wrong = self.lesson("collectives", "--answer", "1 MB", "--run", run, code=2).stdout
        self.assertRegex(wrong, r"See: shardscope open .*rank 0 step 0, op_run \d+")
        for lesson, answer in (("collectives", "1"), ("prefetch", "done")):
            nothing = self.lesson(lesson, "--answer", answer, "--run", self.root / "none", code=1).stderr
            self.assertEqual(nothing, f"shardscope lesson: {self.root / 'none'} does not exist: give a run folder or a trace file\n")

    def test_of_two_knobs_the_refusal_says_which_is_missing(self):
        keys = tomllib.loads((ROOT / "assets" / "lessons" / "07-prefetch.toml").read_text())["run"] | {"train.steps": 8}
        for key, value, said in (
            ("prefetch.backward", "pre", "0 of 3 forward all-gathers of blocks, and 3 of 3 backward ones"),
            ("prefetch.forward", 1, "3 of 3 forward all-gathers of blocks, and 0 of 3 backward ones"),
        ):
            with self.subTest(key):
                change = self.root / "change.toml"
                change.write_text(f'[[change]]\nstep = 4\nset = {{ "{key}" = "{value}" }}\n')
                run = self.root / key
                self.run_program(TRAIN, "--config", change, "--out", run, "--set", *(f"{name}={set_to}" for name, set_to in keys.items()))
                self.assertIn(said, self.lesson("prefetch", "--answer", "done", "--run", run, code=2).stdout)

    def test_a_run_that_does_not_start_is_not_offered(self):
        (self.root / "file").write_text("")
        refused = self.lesson("memory", "--start", "--run", self.root / "file" / "run", code=1)
        self.assertNotIn("watch it with", refused.stderr)
        self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
        run = self.root / "run"
        self.assertIn(f"watch it with: shardscope open {run}", self.lesson("collectives", "--start", "--run", run).stderr)

    def test_options_that_do_nothing_are_refused(self):
        for arguments, remedy in (
            (("-o", self.root / "a.html"), "--print"),
            (("--print", "-o", self.root / "a.pdf"), ".md or .html"),
            (("--folder", self.root / "none"), f"--folder {self.root / 'none'}: there is no such folder"),
            (("--folder", self.root), f"--folder {self.root}: it has no lessons"),
        ):
            with self.subTest(arguments):
                refused = self.lesson(*arguments, code=1)
                self.assertEqual((refused.stdout, len(refused.stderr.splitlines())), ("", 1))
                self.assertIn(remedy, refused.stderr)
        self.assertEqual(list(self.root.glob("a.*")), [])

    def test_a_bad_file_is_one_error_with_its_line(self):
        folder = self.root / "lessons"
        folder.mkdir()
        good = (ROOT / "assets" / "lessons" / "01-memory.toml").read_text()
        (folder / "01-memory.toml").write_text(good.replace("[eight]", "[nine]"))
        line = good[: good.index("[eight]")].count("\n") + 1
        error = self.lesson("--folder", folder, code=1).stderr
        self.assertRegex(error, rf"01-memory\.toml:{line}: a lesson has no 'nine'")
        self.assertEqual(error.count("\n"), 1)
        # One that can be read, and teaches what is not so.
        (folder / "01-memory.toml").write_text(good.replace("ORDER BY at_total_peak_mb DESC LIMIT 1", "ORDER BY at_total_peak_mb DESC LIMIT 0"))
        failed = self.lesson("--folder", folder, "--check", code=1)
        self.assertIn("FAILED   1 memory", failed.stdout)
        self.assertIn("the run does not show which answer is right", failed.stdout)


if __name__ == "__main__":
    unittest.main()
