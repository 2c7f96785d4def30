"""Models by name: condensed config.json files, read by the same code as anybody's own."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from sim.model.geometry import Model
from sim.model.hf_config import model_from_config, read_config
from workloads.errors import InputError
from workloads.incoming import parse_json
from workloads.spec import suggestion

ALIASES = {
    "llama-7b": "llama-2-7b",
    "llama-13b": "llama-2-13b",
    "llama-3.3-70b": "llama-3.1-70b",  # the same shape, trained further
    "mistral-7b-v0.3": "mistral-7b",
}


def model_names() -> list[str]:
    """Names of the presets, aliases included."""
    return sorted([*_presets(), *ALIASES])


def find_model(name_or_path: str, casts: bool = False) -> Model:
    """The preset of that name in any case (an organisation before "/" is ignored), or the model
    that a Hugging Face config.json (or its folder) is; `casts` as in `model_from_config`.

    Raises InputError in one line: the closest preset for an unknown name, file and field for a
    configuration that can't be used.
    """
    if not name_or_path.strip():
        raise InputError("--model: is empty, expected a preset's name or a config.json")
    path = Path(name_or_path)
    if path.exists():
        return read_config(path, casts)
    name = name_or_path.lower()
    if name.count("/") == 1:
        name = name.split("/")[1]
    for tuned in ("-hf", "-instruct", "-chat", "-it"):
        name = name.removesuffix(tuned)
    name = ALIASES.get(name, name)
    if name in _presets():
        return model_from_config(_presets()[name], name, f"preset {name}", casts)
    if name.endswith(".json") or name_or_path.count("/") > 1:
        raise InputError(f"--model {name_or_path}: no such file, expected a config.json")
    hint = suggestion(name, model_names())
    raise InputError(
        f"--model {name_or_path}: no such model; {hint} (see: kvtwin "
        "list models; of any other give the config.json)"
    )


@cache
def _presets() -> dict[str, dict[str, object]]:
    content = files("sim.model").joinpath("presets.json").read_bytes()
    loaded: dict[str, dict[str, object]] = parse_json(content)
    return loaded
