"""Words that answer a prompt, which is read and not labelled."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformers
from tokenizers import pre_tokenizers, processors

from dicejax.cli import run
from dicejax.data.examples import Sentence, TaggedWords, by_character
from dicejax.data.pack import fill, pack
from dicejax.data.tags import Span
from dicejax.errors import InputError
from dicejax.objectives import CrossEntropy
from dicejax.tasks import JointTagging, MachineReading, Tagging, TwoPointerNER
from dicejax.tasks.tagging import HEAD, WordTagging
from dicejax.tasks.task import IGNORED, Prediction
from dicejax.training.accumulation import loss_and_gradient

from ..data import made
from ..models.small import encoder_of, network_of

TASK = Tagging(prompt=True, stride=2)
PROMPT = "the café\n in  New York, costs 1,000"
ANSWER = Sentence(
    ("York", "costs", "unbelievable", "(U.S.)", "hello"),
    (Span("NEW", 2, 3), Span("NEW", 4, 5)),
    1,
    prompt=PROMPT,
)


def references(folder):
    """Return transformers' tokenizers, and write the files of each."""
    bert, roberta = (made.pieces(k, folder / k) for k in ("wordpiece", "byte_level"))
    learnt = made.tokenize.read(roberta, words=False)
    learnt.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[(name, learnt.token_to_id(name)) for name in ("<s>", "</s>")],
    )
    (folder / "modernbert").mkdir()
    file = str(folder / "modernbert" / "tokenizer.json")
    learnt.save(file)
    modernbert = transformers.PreTrainedTokenizerFast(tokenizer_file=file)
    spaced = pre_tokenizers.ByteLevel(add_prefix_space=True)
    modernbert.backend_tokenizer.pre_tokenizer = spaced
    kinds = transformers.BertTokenizer, transformers.RobertaTokenizer
    return {
        "wordpiece": kinds[0].from_pretrained(bert, do_lower_case=False),
        "byte_level": kinds[1].from_pretrained(roberta, add_prefix_space=True),
        "modernbert": modernbert,
    }


def test_pieces_and_types_are_those_of_transformers_on_the_two_texts(tmp_path):
    labels = TASK.label_names([ANSWER])
    for kind, reference in references(tmp_path).items():
        pair = reference(PROMPT, " ".join(ANSWER.words), return_token_type_ids=True)
        tokenizer = made.tokenize.read(tmp_path / kind)
        (item,) = TASK.encode([ANSWER], tokenizer, labels, 512)
        assert item.arrays["input_ids"].tolist() == pair["input_ids"]
        assert item.arrays["token_type_ids"].tolist() == pair["token_type_ids"]
        assert (1 in pair["token_type_ids"]) == (kind != "byte_level")
        lists = [PROMPT], list(ANSWER.words)
        split = reference(*lists, is_split_into_words=True)
        assert split["input_ids"] == pair["input_ids"]
        where = list(zip(split.sequence_ids(), split.word_ids(), strict=True))
        places = [where.index((1, n)) for n in range(len(ANSWER.words))]
        assert item.detail.tolist() == places
        assert (np.delete(item.arrays[HEAD], places) == IGNORED).all()
        gold = [labels[number] for number in item.arrays[HEAD][places]]
        assert gold == ["O", "O", "B-NEW", "O", "B-NEW"]


def test_packed_loss_and_gradient_are_those_of_single_rows_with_a_mask(tmp_path):
    """The mask: first pieces of the answer's words, as the library says."""
    tokenizer = made.read("wordpiece", tmp_path, words=True)
    rng, span = np.random.default_rng(0), (Span("NEW", 0, 1),)
    drawn = [rng.choice(made.WORDS, (2, 2 + n % 3)).tolist() for n in range(4)]
    examples = [
        Sentence(tuple(words[n % 2 :]), span * (n % 2), n, prompt=" ".join(prompt))
        for n, (prompt, words) in enumerate(drawn)
    ]
    labels = TASK.label_names(examples)
    items = TASK.encode(examples, tokenizer, labels, 64)
    rows = pack([len(item) for item in items], 64)
    assert len(rows) < len(items)
    layout = TASK.layout(tokenizer)
    batch = fill([[items[n].arrays for n in row] for row in rows], 64, layout)
    sizes = {"heads": 2, "depth": 1, "vocab": tokenizer.get_vocab_size()}
    config = encoder_of("bert", 16, 16, **sizes, initializer_range=0.3)

    def oracle(params):
        losses = []
        for example in examples:
            pair = [example.prompt.split(), list(example.words)]
            whole = tokenizer.encode(*pair, is_pretokenized=True)
            single = {"input_ids": whole.ids, "token_type_ids": whole.type_ids}
            single["segment_ids"] = [1] * len(whole)
            single["position_ids"] = range(len(whole))
            arrays = {k: jnp.array([v], jnp.int32) for k, v in single.items()}
            logits = network.apply(params, arrays)[HEAD][0]
            where = list(zip(whole.sequence_ids, whole.word_ids, strict=True))
            for word, tag in enumerate(TASK.word_classes(example)):
                shares = jax.nn.log_softmax(logits[where.index((1, word))])
                losses.append(-shares[labels.index(tag)])
        return sum(losses) / len(losses)

    def step(params):
        objective = CrossEntropy(output=HEAD)
        arrays = jax.tree.map(jnp.asarray, batch)
        gradient = loss_and_gradient(
            params, arrays, objective, network=network, task=TASK
        )
        return gradient.loss, gradient.gradients

    with jax.enable_x64(True):
        head = TASK.heads(labels)[0][1]
        network = network_of(config, head, precision="float64")
        params = network.init(jax.random.key(1))
        params = jax.tree.map(lambda x: x.astype(jnp.float64), params)
        expected = jax.jit(jax.value_and_grad(oracle))(params)
        pairs = map(jax.tree.leaves, (jax.jit(step)(params), expected))
        for ours, theirs in zip(*pairs, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_context_around_an_answer_takes_the_room_that_the_prompt_leaves(tmp_path):
    tokenizer = made.read("wordpiece", tmp_path, words=True)
    near = Sentence(("York",), (), 1, ("fine", "world"), ("hello", "New"), "the cat")
    for length, words in ((10, "fine world York hello New"), (8, "world York hello")):
        (item,) = TASK.encode([near], tokenizer, ("O",), length)
        ids = item.arrays["input_ids"].tolist()
        pieces = ["[CLS]", "the", "cat", "[SEP]", *words.split(), "[SEP]"]
        assert [tokenizer.id_to_token(number) for number in ids] == pieces
        assert ids[item.detail[0]] == tokenizer.token_to_id("York")


def test_a_prompt_is_read_by_all_taggers_and_refused_by_other_tasks(tmp_path):
    others = [TwoPointerNER(), MachineReading(queries=(("NEW", "what"),)), Tagging()]
    for task in others:
        with pytest.raises(InputError, match=r"line 1 has a prompt.*--task\.prompt"):
            task.adapt([ANSWER])
    with pytest.raises(InputError, match=r"line 7 has no prompt.*--task\.prompt"):
        TASK.adapt([Sentence(("a",), (), 7)])
    for line in ("Who is it?", "a\tb\tc", "a\t "):
        with pytest.raises(
            InputError, match="text 2 is not a prompt, a tab and an answer"
        ):
            TASK.parse(line, 2)
    assert TASK.parse("Who  is it?\tit is Bo", 2) == Sentence(
        ("it", "is", "Bo"), (), 2, prompt="Who  is it?"
    )
    assert Tagging().parse("Who\tis", 2).words == ("Who", "is")
    tokenizer = made.read("wordpiece", tmp_path, words=True)
    tagged = TaggedWords(("the", "cat"), ("D", "N"), 1, prompt="New York")
    for task in (WordTagging(prompt=True), JointTagging(prompt=True)):
        (example,) = task.adapt([tagged])
        (item,) = task.encode([example], tokenizer, task.label_names([example]), 64)
        ids = item.arrays["input_ids"][:4].tolist()
        names = [tokenizer.id_to_token(number) for number in ids]
        assert names == ["[CLS]", "New", "York", "[SEP]"]
        record, lines = task.show(example, Prediction(getattr(example, "spans", "DN")))
        assert record["prompt"] == lines[0] == "New York" and len(lines) == 2
    assert by_character(tagged).prompt == "New York"


COPIES = """
import dataclasses
import numpy as np
from dicejax.config import Experiment, ScratchEncoder, Training
from dicejax.data.examples import Sentence, Span
from dicejax.data.source import Corpus, Source
from dicejax.optimizers import AdamW
from dicejax.tasks import Tagging

@dataclasses.dataclass(frozen=True, kw_only=True)
class Copies(Source):
    prompts: bool = True

    def load(self):
        rng, examples = np.random.default_rng(0), []
        names = [f"w{n}" for n in range(8)]
        for line in range(1, 1901):
            source, words = rng.permutation(names)[:4], rng.choice(names, 4)
            new = np.flatnonzero(~np.isin(words, source)).tolist()
            spans = tuple(Span("NEW", n, n + 1) for n in new)
            prompt = " ".join(source) if self.prompts else ""
            examples.append(Sentence(tuple(words.tolist()), spans, line, prompt=prompt))
        return Corpus(*map(tuple, (examples[100:], examples[:50], examples[50:100])))

def get_config():
    encoder = ScratchEncoder(vocab_size=60, hidden_size=32, intermediate_size=64,
                             num_hidden_layers=2, num_attention_heads=2, dropout=0.0)
    training = Training(epochs=4, batch_size=32, max_length=48)
    return Experiment(name="copies", data=Copies(), task=Tagging(prompt=True),
                      encoder=encoder, optimizer=AdamW(learning_rate=3e-3),
                      training=training)
"""


def test_a_tag_that_depends_on_the_prompt_is_learnt_with_it_alone(tmp_path, capsys):
    """All words tagged gives F1 2/3 where half of them are not in the prompt."""
    file, scores = tmp_path / "copies.py", []
    file.write_text(COPIES)
    without = ["--data.no-prompts", "--task.no-prompt", "--training.epochs", "2"]
    for name, more in (("with", []), ("without", without)):
        assert run(["train", str(file), "--out", str(tmp_path / name), *more]) == 0
        result = json.loads((tmp_path / name / "result.json").read_text())
        scores.append(result["test"]["f1"])
    assert scores[0] > 0.97 and scores[1] < 0.75
    used = [str(tmp_path / "with"), "--experiment", str(file)]
    (tmp_path / "new.txt").write_text("w1 w2  w3 w4\tw1  w5 w2\n")
    (tmp_path / "bare.conll").write_text("w1\n")
    capsys.readouterr()
    argv = ["predict", *used, "--file"]
    assert run([*argv, str(tmp_path / "new.txt"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (entity,) = record["entities"]
    assert record["prompt"] == "w1 w2  w3 w4" and record["words"] == ["w1", "w5", "w2"]
    places = [entity[n] for n in ("start", "end", "start_char", "end_char")]
    assert (entity["text"], places) == ("w5", [1, 2, 4, 6])
    assert run([*argv, str(tmp_path / "bare.conll")]) == 2
    assert "bare.conll: line 1 has no prompt" in capsys.readouterr().err
    out = tmp_path / "gold.jsonl"
    assert run(["evaluate", *used, "--predictions", str(out)]) == 0
    rows = list(map(json.loads, out.read_text().splitlines()))
    assert len(rows) == 50 and all(len(row["prompt"].split()) == 4 for row in rows)
    assert run(["train", str(file), "--out", str(tmp_path / "x"), without[0]]) == 2
    assert "train: line 101 has no prompt" in capsys.readouterr().err
