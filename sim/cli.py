"""The `kvtwin` command. Subcommands load when they are called, so help answers at once."""

import signal
import sys
from contextlib import suppress
from types import FrameType

from cyclopts import App, CycloptsError

from reports.language import speaking, spoken
from sim.commands.spoken_help import SpokenHelp
from workloads.errors import InputError
from workloads.options import whole_numbers
from workloads.outgoing import visible
from workloads.places import ENDINGS
from workloads.streams import close_streams, open_streams

LONGEST_LINE = 2000
PIPE_CLOSED = 128 + 13
"""As a shell reports a program that SIGPIPE ended."""


def _version() -> str:
    from importlib.metadata import version  # late: it takes as long as Python's own start

    return version("kvtwin")


app = App(
    name="kvtwin",
    help="Size, choose and check an LLM server's KV cache.",
    version=_version,
    suppress_keyboard_interrupt=False,
    config=whole_numbers,
    help_formatter=SpokenHelp(),
)
COMMANDS = {
    "simulate": ("sim.commands.simulate:simulate", "Replay a trace through cache policies."),
    "sweep": ("sim.commands.sweep:sweep", "Run every combination of options into one table."),
    "search": ("sim.commands.search:search", "The most load, or the fewest GPUs, for a level."),
    "report": ("reports.cli:report", "Compare runs in one HTML file that opens offline."),
    "show": ("sim.commands.show:show", "Print a run: load, waste, the slowest requests."),
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
    "traces": ("reports.traces.cli:app", "List, describe and generate request traces."),
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
    for number in ENDINGS:
        signal.signal(number, _interrupt)  # so that nothing half-written stays behind
    open_streams()
    code = 0
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as `head`, has left
        code = PIPE_CLOSED
    except OSError as error:
        code = code or _complain(f"output: {error.strerror}")
    close_streams()
    sys.exit(code)


def _run() -> int:
    try:
        language, words = spoken(sys.argv[1:])
        with speaking(language):
            app(words, exit_on_error=False, print_error=False)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich's own end of the help
            return PIPE_CLOSED
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except InputError as error:
        return _complain(str(error))
    except CycloptsError as error:
        return _complain(" ".join(str(error).split()))
    except Interrupted as error:
        return _say("interrupted, nothing was written", 128 + error.number)
    except MemoryError:
        return _complain("out of memory; expected a smaller trace, fewer --jobs or more memory")
    except BrokenPipeError:
        raise
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}")
    except (ImportError, RuntimeError, SystemError) as error:
        if not _is_shortage(error):
            raise
        return _complain(f"out of memory: {error}")
    return 0


SHORTAGES = ("start new thread", "map segment", "cannot allocate", "returned null without setting")


def _is_shortage(error: Exception) -> bool:
    """Whether a library or a thread could not be started for lack of memory."""
    text = str(error).lower()
    return any(sign in text for sign in SHORTAGES)


def _complain(message: str) -> int:
    return _say(f"error: {message}", 2)


def _say(message: str, code: int) -> int:
    """Print one line on stderr; returns the exit code, whether or not anybody reads it."""
    line = visible(message)
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]}..."
    with suppress(OSError):
        print(f"kvtwin: {line}", file=sys.stderr, flush=True)
    return code


class Interrupted(KeyboardInterrupt):
    """The process was asked to end. SimPy makes exceptions anew from their arguments."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _interrupt(number: int, frame: FrameType | None) -> None:
    for other in ENDINGS:
        signal.signal(other, signal.SIG_IGN)  # once is enough: what follows only cleans up
    raise Interrupted(number)


if __name__ == "__main__":
    main()
