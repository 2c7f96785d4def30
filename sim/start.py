"""What the command `kvtwin` starts: an end while things still load needs no words."""

import signal


def main() -> None:
    """Run the command line (`sim.cli`)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `sim.cli` takes it
    from sim.cli import main as run

    run()
