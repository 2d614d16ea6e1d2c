"""A run folder or a model folder from elsewhere runs nothing and fetches nothing."""

import dataclasses
import json
import sys

import huggingface_hub
import pytest
from word_replacement import ImbalanceAblation, SynonymPairs

from dicejax import config
from dicejax.config import Experiment, PretrainedEncoder
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import InputError
from dicejax.formats import ConllFiles, TensorflowDataset
from dicejax.models import huggingface
from dicejax.training import inference
from dicejax.training.run_folder import Run
from dicejax.training.setup import prepare


@dataclasses.dataclass(frozen=True)
class Foreign(Run):
    """A run whose experiment is all that is asked for."""

    content: str = ""

    def experiment(self):
        """Return the experiment, by way of its JSON."""
        return config.from_json(self.content)


@pytest.fixture
def foreign(tmp_path):
    """Return a function that makes a run of an experiment."""

    def make(**parts):
        experiment = Experiment(name="theirs", **parts)
        return Foreign(tmp_path, content=config.to_json(experiment))

    return make


NAMESPACES = ["kaggle:titanic", "huggingface:conll2003", "kaggle:123", "../squad", ""]
NAMESPACES += ["squad/builder_dir=x", "squad/v1.1/data_dir=gs://elsewhere"]
REMOTE = ImbalanceAblation(
    variant="+positive", synonyms=SynonymPairs(path="https://elsewhere/pairs.txt")
)
REFUSED = [
    *(({"data": TensorflowDataset(name=name)}, "--experiment") for name in NAMESPACES),
    (
        {"data": ConllFiles(dir="gs://elsewhere/data")},
        "data.dir is 'gs://elsewhere/data', which",
    ),
    ({"data": TensorflowDataset(name="squad", dir="s3://x")}, "data.dir is 's3://x'"),
    (
        {"data": SyntheticNER(), "augmentation": REMOTE},
        "augmentation.synonyms.path is 'https://",
    ),
]


@pytest.mark.parametrize(("parts", "message"), REFUSED)
def test_names_with_a_namespace_and_addresses_are_refused(foreign, parts, message):
    with pytest.raises(InputError, match=f"experiment.json: .*{message}"):
        foreign(**parts).offline_experiment()


@pytest.mark.parametrize(
    "name", ["squad", "glue/mrpc:2.0.0", "universal_dependencies/en_ewt", "c4/en.no-x"]
)
def test_a_plain_data_set_is_read_but_not_fetched(foreign, name):
    run = foreign(data=TensorflowDataset(name=name, download=True))
    data = run.offline_experiment().data
    assert data == TensorflowDataset(name=name, download=False)


def test_a_data_set_is_accepted_from_the_user_s_experiment_file(foreign, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dicejax.config import Experiment\n"
        "from dicejax.formats import TensorflowDataset\n"
        "def get_config():\n"
        "    data = TensorflowDataset(name='kaggle:titanic')\n"
        "    return Experiment(name='mine', data=data)\n"
    )
    mine = foreign(data=TensorflowDataset(name="kaggle:titanic", train="train[:9]"))
    other = foreign(data=TensorflowDataset(name="kaggle:other"))
    with config.classes_of(file):
        assert mine.offline_experiment().data.name == "kaggle:titanic"
        with pytest.raises(InputError, match="'kaggle:other' is not a plain name"):
            other.offline_experiment()
    with pytest.raises(InputError, match="is not a plain name"):
        mine.offline_experiment()


@pytest.mark.parametrize("folder", ["gs://mine/data", "here"])
def test_an_address_that_the_user_names_is_read(foreign, folder):
    remote = foreign(data=ConllFiles(dir="gs://elsewhere/data"))
    assert remote.offline_experiment(data=folder).data.dir == folder


def test_evaluate_asks_before_it_loads_the_data(monkeypatch, foreign):
    run = foreign(data=TensorflowDataset(name="kaggle:titanic"))
    monkeypatch.setattr(Run, "open", classmethod(lambda cls, path: run))
    monkeypatch.setattr(TensorflowDataset, "load", lambda self: pytest.fail("loaded"))
    with pytest.raises(InputError, match="not a plain name"):
        inference.evaluate("theirs")


@pytest.mark.parametrize("kind", ["os.system", "exec", "runpy.run_path", "Evil"])
def test_an_experiment_names_registered_classes_only(kind):
    content = json.loads(config.to_json(Experiment(name="x", data=SyntheticNER())))
    content["data"] = {"type": kind}
    with pytest.raises(InputError, match=r"experiment.json: not an experiment"):
        config.from_json(json.dumps(content))


def test_features_of_a_prepared_set_import_no_module(tmp_path):
    pytest.importorskip("tensorflow_datasets")
    folder = tmp_path / "theirs" / "1.0.0"
    folder.mkdir(parents=True)
    for key in ("pythonClassName", "python_class_name", "type"):
        feature = {key: "antigravity.Feature", "content": {}}
        features = {"pythonClassName": "tensorflow_datasets.x.Y", "features": [feature]}
        (folder / "features.json").write_text(json.dumps(features))
        with pytest.raises(InputError, match=r"features.json: .*'antigravity.Feature'"):
            TensorflowDataset(name="theirs", dir=str(tmp_path)).read("train")
    assert "antigravity" not in sys.modules


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Return the questions to the hub, which answers with an empty folder."""
    asked = []

    def answer(name, **options):
        asked.append((name, options["revision"], options["local_files_only"]))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", answer)
    return asked


NO_IDS = "./bert ../bert /nowhere/bert ~/bert ~nobody/bert models/bert/ bert/ a/b/c"
NO_IDS = [*NO_IDS.split(), "models/my bert", "models\\bert", ".bert", "", "bert\n"]
NO_IDS += ["models//bert", "x" * 300 + "/", "b\0"]
PATHS = dict.fromkeys(NO_IDS, "not a folder( in .*)?; name a model folder or")
PATHS |= {"models/brt": "models/brt: not a folder, though models is"}
PATHS |= {"file": "file: not a folder"}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_no_hub_id_is_not_asked_of_the_hub(
    hub, tmp_path, monkeypatch, path
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=PATHS[path]):
        huggingface.locate(path)
    assert not hub


def test_a_hub_id_takes_a_revision(hub, tmp_path):
    assert huggingface.locate("bert-base-cased") == tmp_path
    huggingface.locate("owner/name.v1_x", "0a1b2c")
    huggingface.locate("microsoft/deberta-v3-base", "refs/pr/4")
    assert hub == [
        ("bert-base-cased", None, False),
        ("owner/name.v1_x", "0a1b2c", False),
        ("microsoft/deberta-v3-base", "refs/pr/4", False),
    ]
    with pytest.raises(InputError, match="a local folder has no revision"):
        huggingface.locate(str(tmp_path), "main")


def test_the_encoder_of_a_run_folder_is_not_fetched(hub):
    encoder = PretrainedEncoder(path="owner/name", revision="v1")
    experiment = Experiment(name="x", data=SyntheticNER(), encoder=encoder)
    with pytest.raises(InputError, match=r"config\.json: no such file"):
        prepare(experiment, print, fetch=False)
    assert hub == [("owner/name", "v1", True)]


def test_code_named_in_a_model_folder_is_ignored(model_folder):
    (model_folder / "theirs.py").write_text("raise SystemExit('run')")
    file = model_folder / "config.json"
    auto = {"auto_map": {"AutoModel": "theirs.Model"}, "trust_remote_code": True}
    file.write_text(json.dumps(json.loads(file.read_text()) | auto))
    assert huggingface.read_config(model_folder).hidden_size == 8
    assert "theirs" not in sys.modules
