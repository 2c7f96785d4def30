"""The `kvtwin` command. Subcommands load when they are called, so help answers at once."""

import signal
import sys
from importlib.metadata import version
from types import FrameType

from cyclopts import App, CycloptsError

from workloads.errors import InputError

app = App(
    name="kvtwin",
    help="Size, choose and check an LLM server's KV cache.",
    version=lambda: version("kvtwin"),
    suppress_keyboard_interrupt=False,
)
COMMANDS = {
    "simulate": ("sim.simulate_cli:simulate", "Replay a trace through cache policies."),
    "report": ("reports.cli:report", "Compare runs in one HTML file that opens offline."),
    "calibrate": ("executor.cli:calibrate", "Time a model's steps here, for the simulator."),
    "validate": ("executor.cli:validate", "Simulate, execute and compare."),
    "doctor": ("executor.cli:doctor", "What this machine can run, and whether kernels are right."),
    "size": ("sim.sizing_cli:size", "Where a device's memory goes, and what fits."),
    "traces": ("workloads.cli:app", "List, describe and generate request traces."),
}
for name, (target, summary) in COMMANDS.items():
    app.command(target, name=name, help=summary)

LISTS = {
    "models": ("sim.sizing_cli:list_models", "Model presets."),
    "gpus": ("sim.sizing_cli:list_gpus", "Device presets."),
    "policies": ("sim.policy.cli:list_policies", "Cache policies and their options."),
    "traces": ("workloads.cli:list_traces", "Shipped traces."),
}
listing = App(name="list", help="List what can be named: models, gpus, policies, traces.")
for name, (target, summary) in LISTS.items():
    listing.command(target, name=name, help=summary)
app.command(listing)


def main() -> None:
    """Run the command line. The user's mistakes take one line and exit code 2."""
    signal.signal(signal.SIGTERM, _interrupt)  # so that nothing half-written stays behind
    try:
        app(exit_on_error=False, print_error=False)
    except InputError as error:
        sys.exit(_complain(str(error)))
    except CycloptsError as error:
        sys.exit(_complain(" ".join(str(error).split())))
    except KeyboardInterrupt:
        print("kvtwin: interrupted, nothing was written", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has left
        sys.stderr.close()
        sys.exit(141)


def _complain(message: str) -> int:
    print(f"kvtwin: error: {message}", file=sys.stderr)
    return 2


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
