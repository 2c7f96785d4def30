"""Validation on a CPU, and its page: `python -m benchmarks.campaigns`.

Three campaigns, one run of `kvtwin validate` a policy, up to twelve minutes each on one core. What
fails is kept and shown like what passes. After every run numbers and page are written anew, so that
what was measured is there whatever ends the rest. With --tiny the same in seconds, to see that it
runs.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.campaigns.page import COUNTS, page
from benchmarks.campaigns.plan import CAMPAIGNS, TALK, Campaign, tiny
from benchmarks.process import processor

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "validation-cpu.md"
RESULTS = Path(__file__).with_name("results.json")
BUDGET_S = 720.0
"""No run of a campaign is begun that would, if as long as the longest before it, end later."""


def main(arguments: list[str] | None = None) -> int:
    """Run the campaigns. 0 if all ran, whether or not they passed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaigns", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/campaigns"))
    parser.add_argument("--only", choices=[one.name for one in CAMPAIGNS], nargs="*")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    results = _kept(options.results)
    for campaign in CAMPAIGNS:
        if not options.only or campaign.name in options.only:
            wanted = tiny(campaign) if options.tiny else campaign
            _run(wanted, options.output, results, options.page, options.results)
    return int(any(not run["rows"] for one in results["campaigns"] for run in one["runs"]))


def _kept(file: Path) -> dict[str, Any]:
    """What is there of other campaigns."""
    results: dict[str, Any] = {"campaigns": []}
    if file.exists():
        results = json.loads(file.read_text(encoding="utf-8"))
    return results


def _run(campaign: Campaign, folder: Path, results: dict[str, Any], doc: Path, kept: Path) -> None:
    runs: list[dict[str, Any]] = []
    found = {**asdict(campaign), "command": command(campaign, "POLICY"), "runs": runs}
    order = [one.name for one in CAMPAIGNS]
    others = [one for one in results["campaigns"] if one["name"] != campaign.name]
    results["campaigns"] = sorted([*others, found], key=lambda one: order.index(one["name"]))
    results["date"] = datetime.now(UTC).date().isoformat()
    results["machine"] = {"name": processor(), "cores": os.cpu_count()}
    began, longest = time.monotonic(), 0.0
    for policy in campaign.policies:
        if time.monotonic() - began + longest > BUDGET_S:
            missing = {"policy": policy, "rows": [], "why": "no time was left"}
            runs.append({**missing, "counts": {}, "wall_s": 0.0, "cpu_s": 0.0, "load": []})
        else:
            runs.append(_validated(campaign, policy, folder / f"{campaign.name}-{len(runs)}"))
            longest = max(longest, runs[-1]["wall_s"])
        kept.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        doc.write_text(page(results), encoding="utf-8")
        said = "ok" if runs[-1]["rows"] else f"FAILED: {runs[-1]['why']}"
        print(f"{campaign.name} {policy}: {said}, {runs[-1]['wall_s']:.0f} s", flush=True)


def _validated(campaign: Campaign, policy: str, folder: Path) -> dict[str, Any]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    config = folder.parent / f"{campaign.name}.json"
    config.write_text(json.dumps(campaign.config), encoding="utf-8")
    trace = folder.parent / "talk.csv"
    rows = ["arrival_s,prompt_tokens,output_tokens", *(f"{a:.1f},{p},{o}" for a, p, o in TALK)]
    trace.write_text("\n".join(rows) + "\n", encoding="utf-8")
    said = command(campaign, policy, str(config), str(folder)).split()[1:]
    said = [str(trace) if word == trace.name else word for word in said]
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier campaign
    load, before, began = [os.getloadavg()[0]], _children_s(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "sim.cli", *said],
        cwd=Path.cwd(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    load.append(os.getloadavg()[0])
    run: dict[str, Any] = {
        "policy": policy,
        "rows": [],
        "why": "",
        "counts": {},
        "wall_s": time.monotonic() - began,
        "cpu_s": _children_s() - before,
        "load": load,
    }
    judged = folder / "validation.json"
    if not judged.exists():  # else it ran, whether or not it missed a tolerance
        return {**run, "why": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    run["rows"] = json.loads(judged.read_text(encoding="utf-8"))["rows"]
    for file in folder.glob("*/run.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["kind"] == "measured":
            values = {metric["name"]: metric["value"] for metric in record["metrics"]}
            run["counts"] = {name: values[name] for name in COUNTS.values()}
    return run


def command(
    campaign: Campaign, policy: str, model: str = "config.json", output: str = "out/check"
) -> str:
    """As a user writes it."""
    options = " ".join(campaign.options)
    return (
        f"kvtwin validate {campaign.trace} --model {model} --first {campaign.first} {options}"
        f"{' ' if options else ''}--kv-cache-memory {campaign.memory} --repeats {campaign.repeats} "
        f"--policy {policy} -o {output}"
    )


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
