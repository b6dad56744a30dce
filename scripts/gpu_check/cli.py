"""Options, exit codes, and what is printed."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import sys
import tempfile

from . import machine, pack, table
from .lab import Lab, Places

PASSED, FAILED, CANNOT_RUN, NO_GPU = 0, 1, 2, 3
JSON_VERSION = 1
BUDGET_S = 570


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="gpu-check", description="Checks the GPU path on this machine, in under ten minutes.",
        epilog="Exit codes: 0 all passed or skipped for a reason, 1 a check failed, 2 it could not run, 3 there is no GPU.")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check-out"),
                        help="folder for gpu-check.json, raw CUPTI buffers and small traces (at most 8 files of 16 MiB)")
    parser.add_argument("--only", nargs="+", metavar="CHECK", choices=[check.name for check in table.CHECKS], help="these checks only")
    parser.add_argument("--list", action="store_true", help="print the checks with their limits, and end")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="what is not done by then fails")
    parser.add_argument("--pack", type=pathlib.Path, metavar="DIR", help="make a folder for a machine without compiler and network")
    parser.add_argument("--build", type=pathlib.Path, help="build folder whose programs are checked or packed; default build/release")
    parser.add_argument("--without-cuda", action="store_true", help="with --pack: also from a build without the GPU plugin")
    return parser.parse_args(arguments)


def run_checks(checks, lab, say=print):
    """Every entry of the JSON, each said as it is known."""
    entries = []
    for check in checks:
        entry = table.judge(check, lab)
        entries.append(entry)
        figures = ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                            for name, value in entry["measured"].items())
        say(f"{entry['status']:8}{entry['name']:20}{entry['seconds']:7.1f} s  {entry['reason'] or figures}", flush=True)
    return entries


def summary(entries):
    return {name: sum(entry["status"] == status for entry in entries)
            for name, status in (("passed", "pass"), ("failed", "fail"), ("skipped", "skipped"))}


def write_results(out, entries, facts, files, left_out):
    result = {"version": JSON_VERSION, **facts, "checks": entries, **summary(entries), "files": files, "files_left_out": left_out}
    (out / "gpu-check.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def check_machine(options, places, commit, say=print):
    torch = machine.find_torch()
    gpu = machine.describe_gpu()
    say(f"{gpu.name} (driver {gpu.driver}), LibTorch {torch.version} in {torch.lib}", flush=True)
    checks = [check for check in table.CHECKS if not options.only or check.name in options.only]
    options.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    try:
        lab = Lab(places, torch, work, gpu, options.budget)
        entries = run_checks(checks, lab, say)
        files, left_out = pack.bring_back(work, options.out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    facts = {"when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit,
             "machine": {"gpu": gpu.name, "gpus": gpu.count, "driver": gpu.driver, "torch": torch.version,
                         "python": platform.python_version(), "cores": os.cpu_count()}}
    result = write_results(options.out, entries, facts, files, left_out)
    say(f"gpu-check: {result['passed']} passed, {result['failed']} failed, {result['skipped']} skipped; {options.out / 'gpu-check.json'}")
    return FAILED if result["failed"] else PASSED


def main(arguments, script, no_gpu_reason=machine.no_gpu_reason):
    options = parse(arguments)
    root = script.parent.parent
    is_packed = (script.parent / "manifest.json").exists()
    try:
        if options.list:
            for check in table.CHECKS:
                print(f"{check.name:20} {check.what}: {', '.join(map(str, check.limits))}")
            return PASSED
        build = options.build or root / "build" / "release"
        if options.pack is not None:
            if is_packed:
                raise pack.PackError("this is a packed folder already: pack from the source tree")
            size = pack.make(options.pack, build / "bin", root, options.without_cuda)
            print(f"gpu-check: {options.pack} has {size / (1 << 20):.1f} MiB; on the machine with the GPU run {options.pack.name}/gpu-check")
            return PASSED
        commit = pack.verify(script.parent)["commit"] if is_packed else pack.commit_of(root)
        reason = no_gpu_reason()
        if reason is not None:
            print(f"gpu-check: no GPU here, so nothing was checked: {reason}")
            return NO_GPU
        folder = script.parent
        places = (Places(folder / "bin", [folder / "programs"], folder / "lib") if is_packed else
                  Places(build / "bin", [folder / "gpu_check" / "programs", root / "tests" / "parity"]))
        return check_machine(options, places, commit)
    except (machine.MachineError, pack.PackError, OSError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return CANNOT_RUN
