"""`make bench-peers`: the table's workload side by side, each simulator in turns, as Markdown.

Arguments: for each peer its name (dynamo is the only one yet) and its Python, such as
`dynamo=PATH`; and `rounds=N`.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.commands import table_command
from benchmarks.process import measure
from benchmarks.workload import loop, machine_code, table, table_trace

INTERPRETED = "kvtwin, interpreted"
HERE = Path(__file__).parent


def main(arguments: list[str]) -> None:
    peers = dict(argument.split("=", 1) for argument in arguments)
    rounds = int(peers.pop("rounds", "3"))
    loops: dict[str, list[float]] = {name: [] for name in ("kvtwin", INTERPRETED, *peers)}
    wholes: dict[str, list[float]] = {name: [] for name in loops}
    completed: dict[str, int] = {}
    peak: dict[str, float] = {}
    setup = table()
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        own = table_command(Path(folder))
        traces = _write_traces(Path(folder))
        machine_code(setup)  # compiled before anything is timed
        for _ in range(rounds):
            for name, run in (("kvtwin", machine_code), (INTERPRETED, lambda s: loop(s).log())):
                start = time.process_time()
                log = run(setup)
                loops[name].append(time.process_time() - start)
                completed[name] = int((log.requests["generated_tokens"] > 0).sum())
                used = measure(own, compiled=name == "kvtwin")
                wholes[name].append(used.cpu_s)
                peak[name] = used.peak_mb
            for name, python in peers.items():
                command = [python, str(HERE / f"run_{name}.py"), str(traces[name])]
                used = measure(command, said)
                answer = json.loads(said.read_text().splitlines()[-1])
                loops[name].append(answer["cpu_s"])
                completed[name] = answer["completed"]
                wholes[name].append(used.cpu_s)
                peak[name] = used.peak_mb
    print("| loop, × kvtwin | simulator | loop, CPU s | whole process, CPU s | MB | finished |")
    print("|---|---|---|---|---|---|")
    ours = statistics.median(loops["kvtwin"])
    for name, values in loops.items():
        took, whole = statistics.median(values), statistics.median(wholes[name])
        row = f"| {took / ours:.1f} | {name} | {took:.3f} | {whole:.2f} | {peak[name]:.0f} |"
        print(row, f"{completed[name]:,} |")


def _write_traces(folder: Path) -> dict[str, Path]:
    """The table's trace in each peer's format."""
    trace = table_trace()
    columns = (trace.arrival_s, trace.prompt_tokens, trace.output_tokens)
    mooncake = folder / "mooncake.jsonl"
    block = 0
    with mooncake.open("w") as file:
        for arrival_s, prompt, output in zip(*(c.tolist() for c in columns), strict=True):
            ids = list(range(block, block + -(-prompt // 16)))  # no two requests share any
            block = ids[-1] + 1
            line = {"timestamp": arrival_s * 1e3, "input_length": prompt, "output_length": output}
            file.write(json.dumps({**line, "hash_ids": ids}) + "\n")
    return {"dynamo": mooncake}


if __name__ == "__main__":
    main(sys.argv[1:])
