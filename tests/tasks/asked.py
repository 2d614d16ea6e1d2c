"""A sentence, nested spans, and queries for the tests of machine reading."""

from dicejax.data.examples import Sentence, Span
from dicejax.models.bert import BertConfig
from dicejax.tasks.machine_reading import MachineReading

BERT = BertConfig(
    vocab_size=40,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=64,
    initializer_range=2.0,
)
TASK = MachineReading(queries=(("LOC-city", "where it is"), ("ORG", "who plays")))
WORDS = ("York", "beats", "New", "York", "in", "York")
SENTENCE = Sentence(
    WORDS,
    (
        Span("ORG", 0, 1),  # one word
        Span("ORG", 2, 4),
        Span("LOC-city", 5, 6),  # the last word, named twice before
    ),
    1,
)
NESTED = Sentence(
    WORDS,
    (Span("ORG", 0, 4), Span("ORG", 0, 6), Span("ORG", 1, 3), Span("LOC-city", 2, 3)),
    1,
)


def encoded(task, sentences, tokenizer, max_length=64):
    """Encode sentences, one item for each query."""
    labels = task.label_names(sentences)
    return task.encode(sentences, tokenizer, labels, max_length)
