"""A trained policy for others: a folder for the Hugging Face Hub, with a model card."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sacbbf import __version__
from sacbbf.disk.files import write_atomically
from sacbbf.disk.reading import CONFIGURATION, PICTURE, POLICY, RESULT, VIDEO, copy_file, is_there, open_file
from sacbbf.envs import games
from sacbbf.errors import UsageError
from sacbbf.run.certainty import certainty, counted
from sacbbf.run.records import RunDirectory
from sacbbf.run.settings import RunConfig, from_toml

# What a shared policy consists of, and how large each file may be.
SHARED = {
    "config.toml": CONFIGURATION,
    "policy.safetensors": POLICY,
    "result.json": RESULT,
    "curve.png": PICTURE,
    "video.mp4": VIDEO,
    "README.md": CONFIGURATION,
}
SCORED = ("score", "standard_error", "interval_95", "episodes")  # what a card needs to show a score
NEEDED = ("config.toml", "policy.safetensors")


def write_hub_folder(run: RunDirectory, folder: Path) -> list[Path]:
    """Write a folder ready for the Hugging Face Hub from a run; returns its files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"hub = {folder}: holds other files already; choose a new or empty directory")
    check_shared(run.path)
    config, result = from_toml(run.config), run.read_result()
    from sacbbf.run.policy_file import read_layout  # here, as it takes PyTorch, which nothing else of this file does

    read_layout(run.policy)
    folder.mkdir(parents=True, exist_ok=True)
    copy_shared(run.path, folder, [name for name in SHARED if name != "README.md"])
    write_atomically(folder / "README.md", model_card(config, result, (folder / "video.mp4").exists()).encode())
    return sorted(folder.iterdir())


def check_shared(folder: Path) -> None:
    """Raise UsageError unless a folder has what playing needs, and each of its files is one."""
    missing = [name for name in NEEDED if not is_there(folder / name)]
    if missing:
        raise UsageError(f"{folder} lacks {', '.join(missing)}: it is neither a finished run nor a shared policy")
    for name, most in SHARED.items():
        with contextlib.suppress(FileNotFoundError):
            open_file(folder / name, most).close()


def copy_shared(source: Path, target: Path, names: Iterable[str]) -> None:
    """Copy those of the shared files that a folder has."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            copy_file(source / name, target / name, SHARED[name])


def model_card(config: RunConfig, result: dict[str, Any] | None, video: bool) -> str:
    """Return the README of a shared policy, with the metadata that the Hub reads."""
    scored = result is not None and all(result.get(name) is not None for name in SCORED)
    lines = ["---", "library_name: sacbbf", "tags:", "- reinforcement-learning", "- deep-reinforcement-learning"]
    lines += [f"- {config.agent}", f"- {json.dumps(config.env)}"]
    if scored and result is not None:
        spread = f"{result['score']:.2f} +/- {result['standard_error'] * result['episodes'] ** 0.5:.2f}"
        lines += [
            "model-index:",
            f"- name: {config.agent}",
            "  results:",
            "  - task: {type: reinforcement-learning, name: reinforcement-learning}",
            f"    dataset: {{name: {json.dumps(config.env)}, type: {json.dumps(config.env)}}}",
            f"    metrics: [{{type: mean_reward, value: {spread}, name: mean_reward, verified: false}}]",
        ]
    lines += ["---", "", f"# {config.agent} on {config.env}", ""]
    words = f"{config.steps:,} environment steps, {config.size} size, seed {config.seed}"
    lines.append(f"Trained by sacbbf {__version__}: {words}.")
    if scored and result is not None:
        lines += ["", *_score_lines(config, result)]
    if video:
        lines += ["", '<video src="video.mp4" controls></video>']
    lines += [
        "",
        "    pip install sacbbf",
        "    sacbbf pull REPOSITORY folder && sacbbf evaluate folder && sacbbf play folder",
        "",
        "```python",
        "from sacbbf import Agent",
        "",
        'agent = Agent.load("folder")',
        "print(agent.evaluate(100))",
        "```",
        "",
        "`config.toml` holds every setting, `policy.safetensors` the weights; nothing in this folder is executed.",
        "",
    ]
    return "\n".join(lines)


def _score_lines(config: RunConfig, result: dict[str, Any]) -> Iterator[str]:
    episodes = result["episodes"]
    words = f" ({certainty(result['interval_95'], episodes)})" if episodes > 1 else ""
    yield f"Mean score {result['score']:.2f}{words} over {counted(episodes)}."
    for name, other in result.get("baselines", {}).items():
        yield f"The {name} player scores {other['score']:.2f}."
    if result.get("human_normalised") is not None and config.env in games.SCORES:
        scores = games.SCORES[config.env]
        yield (
            f"Human-normalised {result['human_normalised']:.3f} (random play {scores.random:g}, a human "
            f"{scores.human:g})."
        )


def push(folder: Path, repository: str, *, private: bool) -> str:
    """Upload a folder that `write_hub_folder` made; returns its address."""
    hub = _hub()
    check_shared(folder)
    try:
        api = hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=list(SHARED), commit_message="Policy by sacbbf"
        )
    except Exception as error:  # its HTTP library, and with it what is raised, differs by version
        raise UsageError(f"cannot push to {repository}: {type(error).__name__}: {error}") from error
    return str(commit.repo_url)


def pull(repository: str, folder: Path, *, revision: str | None = None) -> None:
    """Download a shared policy into a new folder: the files that are data to this package, and no others."""
    hub = _hub()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"folder = {folder}: holds other files already; choose a new or empty directory")
    with tempfile.TemporaryDirectory() as temporary:
        try:
            found = hub.snapshot_download(
                repository, revision=revision, local_dir=temporary, allow_patterns=list(SHARED)
            )
        except Exception as error:  # as above
            raise UsageError(f"cannot pull {repository}: {type(error).__name__}: {error}") from error
        check_shared(Path(found))
        folder.mkdir(parents=True, exist_ok=True)
        copy_shared(Path(found), folder, SHARED)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise UsageError(f"the Hub needs huggingface_hub: pip install 'sacbbf[hub]' ({error})") from error
    return huggingface_hub
