"""The built wheel: its content, and that it works without the source tree."""

import configparser
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml

import dicejax
from dicejax.cli import parse

from .small_project import write_project

ROOT = Path(__file__).parents[1]


def test_one_description_and_version_everywhere():
    for file in ("setup.cfg", "mkdocs.yml", "README.md"):
        assert dicejax.DESCRIPTION in (ROOT / file).read_text(), file
    citation = (ROOT / "CITATION.cff").read_text()
    assert dicejax.DESCRIPTION in re.sub(r"\s+", " ", citation)
    assert f"\nversion: {dicejax.__version__}\n" in citation
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert dicejax.__version__ in versions[:2]  # the first may be "Unreleased"


FEW = ["--data.train", "24", "--data.dev", "8", "--data.test", "8"]

# Each process would import JAX anew.
ONE_AFTER_ANOTHER = """
import json, sys, dicejax
from dicejax.cli import run
print(dicejax.__file__)
for words in json.loads(sys.argv[1]):
    assert run(words) == 0, words
"""


def execute(*words, cwd):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [str(word) for word in words]
    process = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-3000:]
    return process.stdout


LICENCES = {
    "Apache 2.0": r"Apache[- ](Software )?(License|2\.0)",
    "BSD": r"BSD",
    "MIT": r"MIT",
    "PSF": r"Python Software Foundation",
}


def test_dependencies_are_listed_with_their_licences():
    """By the metadata of what is installed."""
    rows = re.findall(
        r"^\| ([\w-]+) \| ([\w. ]+) \| [^|]+ \|$",
        (ROOT / "docs/dependencies.md").read_text(),
        re.M,
    )
    licences = {name: licence for name, licence in rows if name != "package"}
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = setup["options"]["install_requires"].split("\n")
    assert list(licences) == [re.match(r"[\w-]+", x)[0] for x in required if x]
    for name, licence in licences.items():
        metadata = importlib.metadata.metadata(name)
        stated = [
            metadata.get("License-Expression") or metadata.get("License") or "",
            *(metadata.get_all("Classifier") or []),
        ]
        assert re.search(LICENCES[licence], "\n".join(stated)), (name, stated)


def test_losses_load_jax_and_numpy_alone():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    required = parser["options"]["install_requires"]
    packages = set(re.findall(r"^[\w.-]+", required, re.MULTILINE))

    def loaded(names):
        code = f"import sys, {names}; print(*sys.modules)"
        output = execute(sys.executable, "-c", code, cwd=ROOT).split()
        return packages & {name.split(".")[0] for name in output}

    assert loaded("dicejax.losses") == loaded("jax, numpy")


@pytest.fixture
def source(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "dicejax", tmp_path / "source/dicejax", ignore=ignored)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / "source")
    return tmp_path / "source"


def test_an_editable_install_is_a_path_that_type_checkers_follow(source):
    build = "from setuptools import build_meta; build_meta.build_editable('.')"
    execute(sys.executable, "-c", build, cwd=source)
    (wheel,) = source.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if "dist-info" not in name]
        assert archive.read(path).decode().strip() == str(source)


@pytest.mark.slow
def test_an_installed_wheel_trains_compares_and_reports(source, tmp_path):
    project = tmp_path / "project"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    execute(*pip, "wheel", "--no-deps", "--no-build-isolation", source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")

    # An environment with the packages of this one, and the wheel in place of dicejax.
    execute(sys.executable, "-m", "venv", "--without-pip", "alone", cwd=tmp_path)
    python = tmp_path / "alone/bin/python"
    execute(*pip, "--python", python, "install", "--no-deps", wheel, cwd=tmp_path)
    (packages,) = (tmp_path / "alone/lib").glob("*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    assert (packages / "dicejax/py.typed").exists()

    write_project(project)
    init = ["init", "ner", "begun", "--data", "data"]
    execute(tmp_path / "alone/bin/dicejax", *init, cwd=project)
    assert (project / "begun/experiment.py").exists()

    short = ["--training.epochs", "1"]
    losses = ["--losses", "ce", "dice", "--seeds", "1", "--no-baselines"]
    commands = [
        ["train", "mine.py", *short, "--out", "alone"],
        ["compare", "mine.py", *short, *losses],
        ["report", "runs/small", "--out", "again"],
        ["train", "quickstart", *short, *FEW, "--out", "quick"],
    ]
    where = execute(python, "-c", ONE_AFTER_ANOTHER, json.dumps(commands), cwd=project)
    assert where.startswith(str(packages))
    assert (project / "alone/result.json").exists()
    page = (project / "runs/small/report.html").read_text()
    assert "<style>" in page and "dice" in page
    assert (project / "again/report.md").exists()
    assert (project / "quick/result.json").exists()  # the file is in the wheel


def test_the_quickstart_is_the_experiment_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = parse(["compare", str(ROOT / "experiments/quickstart.py")])
    assert parse(["compare", "quickstart"]).settings == expected.settings


@pytest.mark.parametrize("name", ["cloud-tpu.sh", "gke-jobset.yaml", "slurm.sbatch"])
def test_launch_files_start_a_run_that_exists(name):
    text = (ROOT / "launch" / name).read_text()
    if name.endswith("yaml"):
        job = yaml.safe_load(text)["spec"]["replicatedJobs"][0]["template"]["spec"]
        (container,) = job["template"]["spec"]["containers"]
        assert job["parallelism"] == job["completions"] == 2
        commands = [container["command"][-1]]
    else:
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        commands = re.findall(".*dicejax train.*", text.replace("\\\n", " "))
    flags = {f for line in commands for f in re.findall(r"--[\w.]+", line)}
    assert "--processes.find" in flags
    values = dict.fromkeys(("--data.dir", "--out"), "gs://BUCKET/folder")
    values |= {"--mesh.fsdp": "2", "--processes.find": ""}
    flags -= {"--kill"}  # of srun
    words = [word for f in flags for word in (f, values[f]) if word]
    parse(["train", str(ROOT / "experiments/ner/conll03.py"), "--out", "x", *words])
    assert "[tpu]" in text or "gs://" not in text  # a bucket wants the extra's package


def test_the_jobs_of_an_array_share_a_comparison(tmp_path):
    """The file runs with a stand-in for Slurm's command that prints its words."""
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/bash\nprintf "%s\\n" "${JAX_LOCAL_DEVICE_IDS:-}" "$@"\n')
    srun.chmod(0o755)
    file = ROOT / "launch" / "compare.sbatch"
    (array,) = re.findall(r"^#SBATCH --array=1-(\d+)$", file.read_text(), re.MULTILINE)
    job = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": array}
    env = os.environ | job | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = ["bash", str(file), str(ROOT / "experiments/quickstart.py"), "--seeds", "10"]
    run = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    _, flag, *words = run.stdout.splitlines()
    assert (flag, words[0]) == ("--kill-on-bad-exit=0", "dicejax")
    command = parse(words[1:])
    assert (command.shard, command.seeds) == (f"3/{array}", 10)
    page = (ROOT / "docs/scaling.md").read_text()
    for line in (f"#SBATCH --array=1-{array}", "srun --kill-on-bad-exit=0"):
        assert line in page and line in file.read_text()
    argv[1] = str(ROOT / "launch" / "slurm.sbatch")  # has one process for a node's GPUs
    env |= {"SLURM_GPUS_ON_NODE": "4"}
    assert subprocess.check_output(argv, env=env).startswith(b"0,1,2,3\n")
