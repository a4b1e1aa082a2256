"""Every configuration has a model card, which agrees with it and names tests that exist."""

import ast
import glob
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(ROOT, "configs", "[!_]*.py")))
SECTIONS = ["Command", "Figures", "Verified here", "Not verified here", "How to verify it", "Data and licences",
            "Intended use and limits"]


def text(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def sections(name):
    parts = re.split(r"^## (.*)\n", text("docs", "model_cards", name + ".md"), flags=re.MULTILINE)
    return parts[0], dict(zip(parts[1::2], parts[2::2]))


def head(name):
    return ast.get_docstring(ast.parse(text("configs", name + ".py")))


def joined(command_lines):
    """Commands without the breaks in their lines."""
    return [" ".join(line.split()) for line in command_lines.replace("\\\n", " ").splitlines() if line.strip()]


def test_there_is_a_card_for_every_configuration_and_no_other():
    cards = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(ROOT, "docs", "model_cards", "*.md"))}
    assert cards == set(NAMES) and len(NAMES) >= 6


@pytest.mark.parametrize("name", NAMES)
def test_card_and_configuration_give_the_same_commands(name):
    title, parts = sections(name)
    assert list(parts) == SECTIONS and title.startswith("# {}: ".format(name))
    block = re.search(r"```bash\n(.*?)```", parts["Command"], re.DOTALL).group(1)
    commands = joined(block)
    assert commands == joined("\n".join(line for line in head(name).splitlines() if line.startswith("    ")))
    assert commands and all(command.startswith("python scripts/") for command in commands)
    for script in re.findall(r"(?<!tests/)scripts/\w+\.py", title + "".join(parts.values())):
        assert os.path.exists(os.path.join(ROOT, script)), script


@pytest.mark.parametrize("name", NAMES)
def test_card_and_configuration_name_the_same_figures_and_cost(name):
    cost, goal = " ".join(head(name).split()).split("Cost: ")[1].split("To reach:")
    card = " ".join(text("docs", "model_cards", name + ".md").split())
    for figure in re.findall(r"(?<![\d.])\.\d{2,4}\b", goal):  # scores are written .7730; 713 or 0.1 are none
        assert figure in card, figure
    steps = re.match(r"[\d,]+ steps of \d+ \S+( of \d+x\d+)?|[\d,]+ steps", cost).group()
    assert steps.split(" of ")[0] in card


@pytest.mark.parametrize("name", NAMES)
def test_what_a_card_calls_verified_is_a_test(name):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", sections(name)[1]["Verified here"])
    assert len(named) >= 5
    for path, function in named:
        assert re.search(r"^def {}\(".format(function), text(*path.split("/")), re.MULTILINE), (path, function)


@pytest.mark.parametrize("name", NAMES)
def test_no_card_claims_a_run_on_gpus(name):
    missing = " ".join(sections(name)[1]["Not verified here"].split())
    assert re.search(r"No run (of \d+|on) GPUs was made|No accuracy has been measured, on CPUs or GPUs", missing)
