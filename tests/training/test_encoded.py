"""What is said of data before training, and what a record says of versions."""

import dataclasses
import errno
import os

import pytest
from etils import epath

from dicejax import config
from dicejax.data.synthetic import SyntheticNER
from dicejax.errors import InputError
from dicejax.formats import ConllFiles
from dicejax.io import files
from dicejax.tasks import Tagging
from dicejax.training import checkpoint, encoded, final_scores, setup
from dicejax.training.encoded import load_data
from dicejax.training.loop_state import LoopState
from dicejax.training.train import train


@pytest.mark.parametrize(("tag", "said"), [("O", 1), ("B-X", 0)])
def test_a_dev_split_without_entities_is_said(tmp_path, tag, said):
    for name in ("train", "test"):
        (tmp_path / f"{name}.txt").write_text("a B-X\nb O\n\n" * 9)
    (tmp_path / "dev.txt").write_text(f"a {tag}\nb O\n\n" * 3)
    notes = []
    load_data(
        config.Experiment(
            name="x",
            data=ConllFiles(dir=str(tmp_path)),
            task=Tagging(),
            encoder=config.ScratchEncoder(),
        ),
        notes.append,
    )
    assert sum(note.startswith("dev has none of 'B-X'") for note in notes) == said


def test_what_runs_read_alike_is_read_once_and_dev_decoded_once_per_epoch(
    tmp_path, monkeypatch
):
    read, decoded = encoded.load_corpus, setup.Setup.decode
    corpora, splits = [], []

    def load_corpus(*inputs):
        corpora.append(inputs)
        return read(*inputs)

    def decode(self, params, split, mesh, **options):
        splits.append(split)
        return decoded(self, params, split, mesh, **options)

    monkeypatch.setattr(encoded, "load_corpus", load_corpus)
    monkeypatch.setattr(setup.Setup, "decode", decode)
    # So few updates would have the weights before them predict dev too.
    monkeypatch.setattr(final_scores, "untaught", lambda *inputs: None)
    experiment = config.Experiment(
        name="x",
        data=SyntheticNER(train=24, dev=4, test=4, o_per_entity=5.0),
        task=Tagging(),
        encoder=config.ScratchEncoder(
            hidden_size=16, num_hidden_layers=1, intermediate_size=16
        ),
        training=config.Training(epochs=2, batch_size=8, max_length=32),
    )
    notes = [], []
    with encoded.reading_once():
        for seed in (0, 1):
            training = dataclasses.replace(experiment.training, seed=seed)
            seeded = dataclasses.replace(experiment, training=training)
            train(seeded, tmp_path / str(seed))
        for of_load in notes:
            load_data(experiment, of_load.append)
        longer = dataclasses.replace(experiment.training, max_length=16)
        load_data(dataclasses.replace(experiment, training=longer), print)
    load_data(experiment, print)
    assert notes[0] == notes[1]
    assert len(corpora) == 3
    assert splits.count("dev") == 2 * 2


def test_a_run_that_goes_on_with_other_versions_has_both():
    loop = LoopState()
    for jax in ("0.10.2", "0.10.2", "0.12.0", "0.12.0", "0.10.2"):
        loop.go_on_with({"jax": jax, "python": "3.11.7"})
    assert loop.versions == {
        "jax": "0.10.2, then 0.12.0, then 0.10.2",
        "python": "3.11.7",
    }


def test_the_reason_of_a_full_disk_comes_first_and_is_short():
    folder = epath.Path(f"/{'long/' * 100}run")
    checkpoints = checkpoint.Checkpoints.__new__(checkpoint.Checkpoints)
    checkpoints._folder = folder
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    for place in (checkpoints._errors_in_one_line(), files.input_errors(folder)):
        with pytest.raises(InputError) as raised, place:
            raise full
        text = str(raised.value)
        assert text.startswith("No space left on device: ") and "run" in text
        assert len(f"dicejax: {text}") < 200
    nested = f"Error writing /a/{'b/' * 400}: [OS error 28: {os.strerror(errno.ENOSPC)}"
    assert checkpoint._reason(ValueError(nested)) == "No space left on device"
    assert len(checkpoint._reason(ValueError("x" * 900))) <= 80
