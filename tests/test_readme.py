"""The README's Python block runs as it stands, and its commands are ones the command line knows."""

import re
from pathlib import Path

from equipoise.cli.train_config import TrainConfig

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_python_block_runs_and_its_certificate_passes():
    """Copy, paste, run: the run it makes passes."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.S)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["run"].certificate().passed


def test_every_option_shown_exists():
    """No option in the README that --help would not show."""
    known = {"--" + name.replace("_", "-") for name in TrainConfig.model_fields}
    known |= {"--help", "--json", "--config", "--resume", "--budget-at"}
    shown = set(re.findall(r"equipoise train[^\n`#]*", README))
    assert len(shown) > 8
    for command in shown:
        assert set(re.findall(r"--[a-z-]+", command)) <= known, command
