"""compare.py --setup | --live | --record: what the real HolisticTraceAnalysis says of the cases; `--record` keeps it for tests/hta_test.py.

Needs HTA in an environment of its own (--setup makes it, from PyPI): ours is not linked to it.
"""

import argparse
import json
import logging
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


def answers(folder):
    """In the environment of HTA: its figures of the traces in a folder, or why it gives none."""
    from hta.trace_analysis import TraceAnalysis
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    files = sorted(str(path) for path in folder.iterdir())
    analysis = TraceAnalysis(trace_files=dict(enumerate(files)), trace_dir=str(folder))

    def ask(figure):
        try:
            return figure()
        except Exception as error:  # noqa: BLE001  what it raises is its answer
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"

    def temporal():
        rows = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
        return {str(row["rank"]): {key: int(row[f"{key}_time(us)"]) for key in ("kernel", "idle", "compute", "non_compute")} for row in rows}

    def overlap():
        return {str(row["rank"]): float(row["comp_comm_overlap_pctg"]) for row in analysis.get_comm_comp_overlap(visualize=False).to_dict("records")}

    def types():
        rows = analysis.get_gpu_kernel_breakdown(visualize=False)[0].to_dict("records")
        return {row["kernel_type"]: int(row["sum"]) for row in rows if int(row["sum"])}

    def idle():
        rows = analysis.get_idle_time_breakdown(ranks=list(range(len(files))), visualize=False)[0].to_dict("records")
        return {f"{row['rank']} {row['stream']} {row['idle_category']}": int(row["idle_time"]) for row in rows if int(row["idle_time"])}

    return {"temporal": ask(temporal), "overlap": ask(overlap), "types": ask(types), "idle": ask(idle)}


def all_answers():
    result = {}
    for name in cases.CASES:
        with tempfile.TemporaryDirectory() as folder:
            result[name] = answers(cases.write(name, pathlib.Path(folder)))
    return result


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
        RECORDED.write_text(json.dumps({"packages": PACKAGES, "cases": found}, indent=1) + "\n")
        return 0
    recorded = json.loads(RECORDED.read_text())["cases"]
    for name, answer in found.items():
        print(f"{name}: {'as recorded' if recorded.get(name) == answer else 'otherwise than recorded'}")
    return int(found != recorded)


if __name__ == "__main__":
    sys.exit(main())
