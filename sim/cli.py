"""The `kvtwin` command. Subcommands load when they are called, so help answers at once."""

import signal
import sys
from importlib.metadata import version
from io import TextIOWrapper
from types import FrameType

from cyclopts import App, CycloptsError

from workloads.errors import InputError
from workloads.options import whole_numbers

app = App(
    name="kvtwin",
    help="Size, choose and check an LLM server's KV cache.",
    version=lambda: version("kvtwin"),
    suppress_keyboard_interrupt=False,
    config=whole_numbers,
)
COMMANDS = {
    "simulate": ("sim.commands.simulate:simulate", "Replay a trace through cache policies."),
    "report": ("reports.cli:report", "Compare runs in one HTML file that opens offline."),
    "calibrate": ("executor.cli:calibrate", "Time a model's steps here, for the simulator."),
    "validate": ("executor.cli:validate", "Simulate, execute and compare."),
    "doctor": ("executor.cli:doctor", "What this machine can run, and whether kernels are right."),
    "size": ("sim.commands.size:size", "Where a device's memory goes, and what fits."),
    "profiles": (
        "sim.commands.profiles:app",
        "Convert measured kernel times into a profile.",
    ),
    "fit": ("sim.commands.fit:fit_run", "Fit a few named parameters to a measured run."),
    "compare-run": (
        "sim.commands.compare_run:compare_run",
        "Lay a prediction beside a measured run.",
    ),
    "compare-policies": (
        "sim.commands.compare_policies:compare_policies",
        "What cache policies keep, read and give up, on the same requests.",
    ),
    "traces": ("workloads.cli:app", "List, describe and generate request traces."),
}
for name, (target, summary) in COMMANDS.items():
    app.command(target, name=name, help=summary)

LISTS = {
    "models": ("sim.commands.size:list_models", "Model presets."),
    "gpus": ("sim.commands.size:list_gpus", "Device presets."),
    "policies": ("sim.commands.policies:list_policies", "Cache policies and their options."),
    "engines": ("sim.commands.engines:list_engines", "Engine presets and how they differ."),
    "profiles": ("sim.commands.profiles:list_profiles", "Shipped kernel profiles."),
    "traces": ("workloads.cli:list_traces", "Shipped traces."),
}
listing = App(
    name="list", help="List what can be named: models, gpus, policies, engines, profiles, traces."
)
for name, (target, summary) in LISTS.items():
    listing.command(target, name=name, help=summary)
app.command(listing)

published = App(name="reproduce", help="Run published experiments again, beside their numbers.")
published.command(
    "sim.commands.reproduce:sosp23",
    name="sosp23",
    help="PagedAttention's shares and batches.",
)
app.command(published)

advice = App(name="advise", help="Weigh a choice on your own trace.")
advice.command("sim.commands.advise:block_size", name="block-size", help="Recommend a block size.")
app.command(advice)


def main() -> None:
    """Run the command line. The user's mistakes take one line and exit code 2."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # so that nothing half-written stays behind
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign gets a ?
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
    except OSError as error:  # such as a full disk
        sys.exit(_complain(f"{error.filename or 'output'}: {error.strerror}"))


def _complain(message: str) -> int:
    print(f"kvtwin: error: {message}", file=sys.stderr)
    return 2


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
