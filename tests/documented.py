"""Execute the README and the pages of the site.

A page runs from top to bottom in a folder with the repository's experiments, data, an
encoder and a finished run. Files shown with a title are written, Python is executed;
commands are parsed or, at smaller sizes, run.
"""

import configparser
import dataclasses
import doctest
import importlib.util
import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from dicejax import config
from dicejax.cli import parse, run
from dicejax.data import tokenize
from dicejax.data.synthetic import SyntheticNER
from dicejax.models import huggingface
from dicejax.models.network import Network

from . import newcomer, tiny
from .models.small import drawn, encoder_of

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
]

# Names that a page takes from its text without defining them.
PREAMBLES = {
    "docs/library.md": """
import warnings
warnings.filterwarnings("ignore", "nothing was learnt")  # so small a run
""",
}

# Settings for quick commands: added to whatever trains or counts, and to that with an
# encoder from scratch or synthetic data.
SMALLER = """
--training.epochs 1 --training.max_length 64 --training.batch_size 4
"""
SMALLER_SCRATCH = """
--encoder.hidden_size 16 --encoder.num_hidden_layers 1
--encoder.num_attention_heads 2 --encoder.intermediate_size 32
"""
SMALLER_SYNTHETIC = "--data.train 24 --data.dev 8 --data.test 8"

TAKES_EXPERIMENTS = ("train", "compare", "choose", "profile", "plan")
SHELL = {"|", ";", ">", ">>", "<", "&"}

# Commands that are parsed even where the others of the page are run.
PARSED = {
    "--topology": "wants a compiler that is a wheel of its own: "
    "tests/planning/test_compiled.py runs it where that is installed",
    "--across": "wants comparisons of several data sets: tests/study has them",
    "--shard": "wants the runs of the other jobs: tests/study has them",
    "--processes.coordinator": "waits for a second process: two are run by "
    "tests/training/test_processes.py",
}
# Folders of data that are not the repository's: commands on them are parsed.
ELSEWHERE = ("DATA/", "THINNED/")


FENCED = re.compile(
    r'^ *```(\w*)(?: +title="([^"]+)")? *\n(.*?)^ *``` *$', re.MULTILINE | re.DOTALL
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    where: str
    language: str
    title: str | None
    text: str


def script(path: Path) -> ModuleType:
    """Import a Python file that is in no package on the path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fenced = [
        Block(f"{page}:{text.count(chr(10), 0, match.start()) + 1}", *match.groups())
        for match in FENCED.finditer(text)
    ]
    fences = len(re.findall(r"^ *```", text, re.MULTILINE))
    assert fences == 2 * len(fenced), f"{page}: a fence is open or cannot be read"
    return fenced


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command of a block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        assert not SHELL & set(words), f"{block.where}: only && joins commands here"
        for is_command, group in itertools.groupby(words, key="&&".__ne__):
            if is_command:
                yield list(group)


def commands_of(page: str) -> list[list[str]]:
    """Return the words of all commands of a page."""
    in_bash = [block for block in blocks(page) if block.language == "bash"]
    return [words for block in in_bash for words in commands(block)]


def play(page: str, folder: Path, train: bool) -> int:
    """Execute a page in a folder from `prepare`."""
    names: dict[str, object] = {"__name__": "__page__"}
    exec(PREAMBLES.get(page, ""), names)
    done = 0
    with np.printoptions():  # a page sets its own
        for block in blocks(page):
            if block.title is not None:
                (folder / block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                execute(block, names)
                done += 1
            elif block.language == "bash":
                for words in commands(block):
                    perform(words, block.where, train)
                    done += 1
    return done


def execute(block: Block, names: dict[str, object]) -> None:
    """Run a block of Python; compare the output of one with prompts."""
    if ">>>" not in block.text:
        exec(compile(block.text, block.where, "exec", dont_inherit=True), names)
        return
    example = doctest.DocTestParser().get_doctest(
        block.text, names, block.where, block.where, 0
    )
    report: list[str] = []
    result = doctest.DocTestRunner().run(example, out=report.append, clear_globs=False)
    names.update(example.globs)
    assert result.failed == 0, "".join(report)


def perform(words: list[str], where: str, train: bool = True) -> None:
    """Run a command in the working folder at a smaller size, or check it.

    Raises:
      AssertionError: it fails, or no rule checks commands of its kind.
    """
    command = f"{where}: {shlex.join(words)}"
    if words[0] == "dicejax":
        small = smaller(words[1:])
        elsewhere = any(word.startswith(ELSEWHERE) for word in words)
        only_parsed = elsewhere or PARSED.keys() & set(words)
        if only_parsed or not (train or words[1] == "init"):
            assert parse(small) is not None, command
            return
        status = run(small)
        assert status == 0, f"{command}\nrun as: dicejax {shlex.join(small)}"
    elif words[:2] == ["pip", "install"]:
        check_installs(words[2:], command)
    elif words[0] == "pytest":  # this very command is how the tests are run
        ours = (ROOT / ".ci/run").read_text()
        assert shlex.join(words) in ours, f"{command}: .ci/run does not run it"
    elif words[0] == "python":  # scripts have tests of their own
        assert (ROOT / words[1]).is_file(), f"{command}: there is no such script"
    else:
        raise AssertionError(f"{command}: no rule in {__name__} runs or checks it")


def check_installs(words: list[str], command: str) -> None:
    """Check that the extras of an installation exist; nothing is installed."""
    assert words[0] == "-e", command
    match = re.fullmatch(r"\.(?:\[([\w,-]+)\])?", words[1])
    assert match and len(words) == 2, command
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"].keys()
    assert set((match[1] or "test").split(",")) <= extras, command


def smaller(words: list[str]) -> list[str]:
    """Return a small command of dicejax of the same kind.

    The experiment file keeps its name; `FOLDER` becomes a folder with its data.
    """
    words = list(words)
    for flag in {"--seeds", "--tune"} & set(words):
        words[words.index(flag) + 1] = "1"
    if words[0] not in TAKES_EXPERIMENTS:
        return words
    if words[1] in ("EXPERIMENT.py", "quickstart"):
        words[1] = "experiments/quickstart.py"
    files = [word for word in words if word.endswith(".py")]
    if not files:  # a choice begins with data
        return words
    (file,) = files
    experiment = config.load(file)
    if "--data.dir" in words and words[words.index("--data.dir") + 1] == "FOLDER":
        words[words.index("--data.dir") + 1] = data_for(experiment)
    flags = SMALLER
    if isinstance(experiment.data, SyntheticNER):
        flags += SMALLER_SYNTHETIC
    if "--encoder.path" not in words and (
        "--scratch" in words or isinstance(experiment.encoder, config.ScratchEncoder)
    ):
        flags += SMALLER_SCRATCH
    pairs = iter(flags.split())
    for flag, value in zip(pairs, pairs, strict=True):
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]
    # The baselines are one more training.
    return words + ["--no-baselines"] * (words[0] == "compare")


def data_for(experiment: config.Experiment) -> str:
    """Return a folder with a few lines in the format that an experiment reads."""
    folder = Path("data") / experiment.name
    if not folder.exists():
        folder.mkdir(parents=True)
        tiny.fitting(experiment.data, experiment.task, folder)
    return str(folder)


def prepare(folder: Path) -> None:
    """Copy and write the files that the pages assume: experiments, an encoder, data."""
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    evidence = folder / "docs" / "evidence"  # which has an experiment too
    evidence.mkdir(parents=True)
    for script in (ROOT / "docs" / "evidence").glob("*.py"):
        shutil.copy(script, evidence)
    write_encoder(folder / "bert-base-cased")
    newcomer.write(folder / "my.conll", sentences=200)
    rows = itertools.product(("ce", "focal"), range(3), range(20))
    lines = [f"x,{loss},{seed},{i},{(seed + i) % 7 * 10}" for loss, seed, i in rows]
    header = "data,loss,seed,example,score"
    (folder / "scores.csv").write_text("\n".join([header, *lines]) + "\n")


def write_encoder(folder: Path) -> None:
    """Write a BERT of one layer that knows letters, with random weights."""
    letters = [chr(code) for code in range(33, 127)]
    tokenizer = tokenize.learn_wordpiece(letters, vocab_size=300)
    encoder = encoder_of(
        "bert", 8, 16, heads=2, depth=1, vocab=len(tokenizer.get_vocab())
    )
    network = Network(encoder=encoder, heads=())
    huggingface.write(folder, network, drawn(network), tokenizer=tokenizer)


if __name__ == "__main__":  # python -m tests.documented PAGE [--exhaustive]
    play(sys.argv[1], Path.cwd(), train="--exhaustive" in sys.argv)
