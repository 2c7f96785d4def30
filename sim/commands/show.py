"""`kvtwin show`: a run folder on the terminal."""

from pathlib import Path


def show(
    runs: Path,
    /,
) -> None:
    """Print a run: does it keep up, its course as sparklines, waste, the slowest requests.

    Parameters
    ----------
    runs
        A run folder, or a folder of them, as `kvtwin simulate -o` writes them.
    """
    from reports.load import load_runs
    from reports.show import print_run
    from reports.terminal import print_outcome

    loaded = load_runs([runs])
    if len(loaded) > 1:
        print_outcome(loaded)
    for run in loaded if len(loaded) == 1 else ():
        print_run(run)
