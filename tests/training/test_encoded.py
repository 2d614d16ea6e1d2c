"""What is said of data before training, and what a record says of versions."""

import errno
import os

import pytest
from etils import epath

from dicejax import config
from dicejax.errors import InputError
from dicejax.formats import ConllFiles
from dicejax.io import files
from dicejax.tasks import Tagging
from dicejax.training import checkpoint
from dicejax.training.encoded import load_data
from dicejax.training.loop_state import LoopState


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
