"""The documentation tells the truth: its commands parse, its tables are those of the code, its links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import tyro

from sacbbf.agents.config import flatten
from sacbbf.agents.ladder import RUNGS, published
from sacbbf.commands.list import ladder_markdown
from sacbbf.commands.train import TrainArgs, preset_defaults, run_config
from sacbbf.run import diagnostics
from sacbbf.run.settings import RunConfig, check_run, differences

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
AGENT_PAGES = {name: (DOCS / "agents" / f"{name}.md") for name in RUNGS}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
PLAIN = "sacbbf train Seaquest --size paper"

# Flags of an ablation -> the settings that it changes, and to what.
ABLATIONS = {
    "--loss.no-variance-reduction": {"loss.variance_reduction": False},
    "--schedule.beta-end 0.01": {"schedule.beta_end": 0.01},
    "--schedule.beta-end 0.01 --eval.greedy": {"schedule.beta_end": 0.01, "eval.greedy": True},
    "--eval.greedy": {"eval.greedy": True},
    "--schedule.beta-start 0": {"schedule.beta_start": 0.0},
    "--loss.policy-gradient expected": {"loss.policy_gradient": "expected"},
    "--loss.backup expected": {"loss.backup": "expected"},
    "--loss.policy-gradient expected --loss.backup expected": {
        "loss.policy_gradient": "expected",
        "loss.backup": "expected",
    },
    "--loss.backup greedy": {"loss.backup": "greedy"},
    "--agent bbf": {
        "agent": "bbf",
        "network.policy": False,
        "loss.backup": "greedy",
        "schedule.beta_start": 0.0,
        "acting.epsilon_start": 1.0,
        "acting.epsilon_decay": 2_000,
        "acting.epsilon_eval": 0.001,
    },
    **{f"--replay-ratio {ratio}": {"schedule.replay_ratio": ratio} for ratio in (1, 4, 8, 16)},
    "--loss.spr-weight 0": {"loss.spr_weight": 0.0},
    "--schedule.reset-every 0": {"schedule.reset_every": 0},
    "--schedule.n-start 3 --schedule.gamma-start 0.997": {"schedule.n_start": 3, "schedule.gamma_start": 0.997},
    "--schedule.n-start 3": {"schedule.n_start": 3},
    "--schedule.gamma-start 0.997": {"schedule.gamma_start": 0.997},
    "--optimiser.weight-decay 0": {"optimiser.weight_decay": 0.0},
    "--acting.network online": {"acting.network": "online"},
    "--replay.no-prioritised": {"replay.prioritised": False},
    "--loss.no-augment": {"loss.augment": False},
    "--network.encoder nature --network.width-scale 1 --network.hidden-dim 512": {
        "network.encoder": "nature",
        "network.width_scale": 1.0,
        "network.hidden_dim": 512,
    },
    "--network.width-scale 1": {"network.width_scale": 1.0},
    "--behaviour released": {"behaviour": "released"},
}


def commands(page: Path) -> list[str]:
    """The indented `sacbbf train` lines of a page, without their comments."""
    lines = [line.split("#")[0].strip() for line in page.read_text().splitlines() if line.startswith("    ")]
    return [line for line in lines if line.startswith("sacbbf train ")]


def parse(command: str) -> RunConfig:
    """The run that a command line would start."""
    words = shlex.split(command)[2:]
    config = run_config(tyro.cli(TrainArgs, args=words, default=preset_defaults(words)[0]))
    check_run(config)
    return config


# --- commands ---


@pytest.fixture(scope="module")
def plain() -> RunConfig:
    return parse(PLAIN)


@pytest.mark.parametrize(("flags", "changes"), ABLATIONS.items())
def test_an_ablation_changes_what_it_says(flags, changes, plain):
    found = differences(plain, parse(f"{PLAIN} {flags}"))
    assert {name.removeprefix("settings."): new for name, (_, new) in found.items()} == changes


def test_the_page_of_ablations_has_these_and_no_others():
    assert commands(DOCS / "ablations.md") == [f"{PLAIN} {flags}" for flags in ABLATIONS]


@pytest.mark.parametrize("agent", RUNGS)
def test_an_agents_commands_run_that_agent(agent):
    found = commands(AGENT_PAGES[agent])
    assert any("MinAtar" in command for command in found) and any("Pong" in command for command in found)
    for command in found:
        if "MinAtar" in command and importlib.util.find_spec("minatar") is None:
            continue
        assert parse(command).agent == agent


def test_the_diagnostics_command_turns_them_on():
    (command,) = commands(DOCS / "diagnostics.md")
    if importlib.util.find_spec("minatar") is not None:
        assert parse(command).diagnose_every == 1_000


# --- tables ---


def settings_table(page: Path) -> dict[str, object]:
    """What a page states of settings: | `name` | value | source |."""
    rows = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (\S+) \| .+ \|$", page.read_text(), re.MULTILINE)
    stated: dict[str, object] = {}
    for name, value in rows:
        assert name not in stated, name
        try:
            stated[name] = ast.literal_eval(value.replace(",", ""))
        except ValueError:  # a word
            stated[name] = value
    return stated


@pytest.mark.parametrize("agent", RUNGS)
def test_an_agents_page_states_every_setting_of_its_rung_and_each_as_it_is(agent):
    stated, config = settings_table(AGENT_PAGES[agent]), flatten(published(agent))
    assert stated == {name: config[name] for name in stated}
    changed = {f"{part}.{name}" for part, settings in RUNGS[agent].changes.items() for name in settings}
    assert changed <= stated.keys()
    if RUNGS[agent].below is not None:
        assert changed == stated.keys()


def test_the_index_shows_the_ladder_as_it_is():
    text = (DOCS / "agents" / "README.md").read_text()
    shown = text.split("<!-- ladder:begin -->\n")[1].split("\n<!-- ladder:end -->")[0]
    assert shown == ladder_markdown(), "put sacbbf.commands.list.ladder_markdown() between the markers"
    assert all(f"[{name}]({name}.md)" in text for name in RUNGS)


def test_every_diagnostic_is_explained():
    text = (DOCS / "diagnostics.md").read_text()
    names = {"dormant_encoder", "dormant_hidden", "effective_rank", "entropy_mean", "entropy_min", "q_mean"}
    names |= {"return_mean", "q_bias", "q_error", "q_correlation", "priority_min", "priority_effective_share"}
    assert all(f"`{name}`" in text for name in names)
    assert f"on {diagnostics.STATES} stored states" in text and f"the last {diagnostics.RECENT:,} steps" in text
    assert f"at most {diagnostics.DORMANT}" in text and f"make up {1 - diagnostics.RANK_DELTA:.0%}" in text


def links(page: Path) -> list[str]:
    """What a page links to or shows, without the place inside it."""
    return re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    missing = [target for target in links(page) if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def test_links_are_found():
    readme = links(ROOT / "README.md")
    assert {"docs/resume.md", "docs/agents/README.md", "docs/images/space_invaders.png"} < set(readme)
    assert all("../results.md" in links(page) for page in AGENT_PAGES.values())
