"""The command line within the test's own process, where a process is not what is tested."""

import signal
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest

from sim import cli
from workloads.places import ENDINGS


def kvtwin(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of the command there; what `main` changes of the process is put back."""
    out, err = StringIO(), StringIO()
    handlers = {number: signal.getsignal(number) for number in ENDINGS}
    command = ["kvtwin", *arguments]
    try:
        with (
            chdir(cwd),
            redirect_stdout(out),
            redirect_stderr(err),
            mock.patch("sys.argv", command),
            pytest.raises(SystemExit) as ended,
        ):
            cli.main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
