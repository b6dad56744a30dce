"""compare.py --setup | --live | --record: what the real HolisticTraceAnalysis says of the cases; `--record` keeps it for tests/hta_test.py.

Needs HTA in an environment of its own (--setup makes it, from PyPI): ours is not linked to it.
"""

import argparse
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cases  # noqa: E402

ENVIRONMENT = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "shardscope/hta"
PACKAGES = ["HolisticTraceAnalysis==0.5.0", "pandas<3"]  # pandas 3 breaks it on some traces
RECORDED = HERE / "recorded.json"


def setup():
    if not (ENVIRONMENT / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    subprocess.run([ENVIRONMENT / "bin/pip", "install", "-q", *PACKAGES], check=True)


def sort_in_order():
    """Rows that compare equal stay in the order of the file. HTA sorts by times alone with a method whose order of equal times depends on the
    processor, and its figures on that order: queue lengths, and all others where a length is below 0."""
    import pandas
    sort_values = pandas.DataFrame.sort_values

    def sorted_in_order(self, *arguments, **options):
        return sort_values(self, *arguments, **{"kind": "stable", **options})
    pandas.DataFrame.sort_values = sorted_in_order


DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def numbers(values):
    """Of one value there is no deviation."""
    return [0 if value != value else round(float(value), 9) for value in values]


def answers(folder):
    """In the environment of HTA: its figures of the traces in a folder, or why it gives none."""
    from hta.trace_analysis import TraceAnalysis
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    files = sorted(str(path) for path in folder.iterdir())
    analysis = TraceAnalysis(trace_files=dict(enumerate(files)), trace_dir=str(folder))
    ranks = list(range(len(files)))

    def ask(figure):
        try:
            return figure()
        except Exception as error:  # noqa: BLE001  what it raises is its answer
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"

    def temporal():
        rows = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
        return {str(row["rank"]): {key: int(row[f"{key}_time(us)"]) for key in ("kernel", "idle", "compute", "non_compute")} for row in rows}

    def overlap():
        rows = analysis.get_comm_comp_overlap(visualize=False).to_dict("records")
        shares = {str(row["rank"]): float(row["comp_comm_overlap_pctg"]) for row in rows}
        return {rank: share if math.isfinite(share) else None for rank, share in shares.items()}

    def breakdown(which):
        return analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1_000, duration_ratio=1.0)[which].to_dict("records")

    def types():
        return {row["kernel_type"]: int(row["sum"]) for row in breakdown(0) if int(row["sum"])}

    def kernels():
        return {f"{row['rank']} {row['kernel_type']} {row['name']}": numbers(row[key] for key in ("sum (us)", "min (us)", "max (us)", "mean (us)", "stddev"))
                for row in breakdown(1)}

    def idle():
        rows = analysis.get_idle_time_breakdown(ranks=ranks, visualize=False)[0].to_dict("records")
        return {f"{row['rank']} {row['stream']} {row['idle_category']}": int(row["idle_time"]) for row in rows if int(row["idle_time"])}

    def described(summary):
        if summary is None:
            return {}
        rows = zip(summary.index, summary.droplevel(0, axis=1)[list(DESCRIBED)].to_numpy())
        return {f"{int(rank)} {name}": numbers(values) for (rank, name), values in rows}

    return {"temporal": ask(temporal), "overlap": ask(overlap), "types": ask(types), "kernels": ask(kernels), "idle": ask(idle),
            "queue_length": ask(lambda: described(analysis.get_queue_length_summary(ranks=ranks))),
            "memory_bandwidth": ask(lambda: described(analysis.get_memory_bw_summary(ranks=ranks)))}


def all_answers():
    sort_in_order()
    result = {}
    for name in cases.CASES:
        with tempfile.TemporaryDirectory() as folder:
            result[name] = answers(cases.write(name, pathlib.Path(folder)))
    return result


def in_lines(recorded):
    """As JSON, a line for each figure of a case."""
    cases_text = ",\n".join(f' {json.dumps(name)}: {{\n' + ",\n".join(f"  {json.dumps(figure)}: {json.dumps(answer)}" for figure, answer in answer_of.items())
                            + "}" for name, answer_of in recorded["cases"].items())
    return f'{{"packages": {json.dumps(recorded["packages"])}, "cases": {{\n{cases_text}\n}}}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--setup", "--live", "--record", "--answers"):
        parser.add_argument(option, action="store_true", help=argparse.SUPPRESS if option == "--answers" else None)
    options = parser.parse_args()
    if options.answers:
        print(json.dumps(all_answers()))
        return 0
    if options.setup:
        setup()
    if not (options.live or options.record):
        return 0 if options.setup else parser.error("say --setup, --live or --record")
    if not (ENVIRONMENT / "bin/python").exists():
        raise SystemExit("HolisticTraceAnalysis is not there; run scripts/compare_hta --setup")
    done = subprocess.run([ENVIRONMENT / "bin/python", __file__, "--answers"], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    if options.record:
        RECORDED.write_text(in_lines({"packages": PACKAGES, "cases": found}))
        return 0
    recorded = json.loads(RECORDED.read_text())["cases"]
    for name, answer in found.items():
        print(f"{name}: {'as recorded' if recorded.get(name) == answer else 'otherwise than recorded'}")
    return int(found != recorded)


if __name__ == "__main__":
    sys.exit(main())
