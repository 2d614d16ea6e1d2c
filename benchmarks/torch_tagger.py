"""A plain PyTorch loop for token classification, as a baseline.

Batches are padded to their longest sentence; AdamW with warm-up and linear decay,
clipping, autocast to bfloat16 if asked for. Prints JSON with the real (not padded) word
pieces per second, the first three updates left out.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_
from transformers import AutoModelForTokenClassification, AutoTokenizer

from dicejax.data import tags
from dicejax.formats import ConllFiles


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "train", "test"):
        parser.add_argument(name)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--bf16", action="store_true")
    return parser.parse_args()


def encode(
    sentences, tokenizer, labels: list[str]
) -> list[tuple[list[int], list[int]]]:
    """Return piece ids and labels, -100 on all but the first piece of a word."""
    words = [list(sentence.words) for sentence in sentences]
    encoded = tokenizer(
        words, is_split_into_words=True, truncation=True, max_length=128
    )
    examples = []
    for index, sentence in enumerate(sentences):
        gold = tags.encode(sentence.spans, len(sentence.words), "BIO")
        numbers, previous = [], None
        for word in encoded.word_ids(index):
            new = word is not None and word != previous
            numbers.append(labels.index(gold[word]) if new else -100)
            previous = word
        examples.append((encoded["input_ids"][index], numbers))
    return examples


def padded(rows, pad: int) -> dict[str, torch.Tensor]:
    """Return one batch as wide as its longest sentence."""
    shape = (len(rows), max(len(ids) for ids, _ in rows))
    batch = {
        "input_ids": torch.full(shape, pad),
        "attention_mask": torch.zeros(shape, dtype=torch.long),
        "labels": torch.full(shape, -100),
    }
    for row, (ids, numbers) in enumerate(rows):
        batch["input_ids"][row, : len(ids)] = torch.tensor(ids)
        batch["attention_mask"][row, : len(ids)] = 1
        batch["labels"][row, : len(ids)] = torch.tensor(numbers)
    return batch


def main() -> None:
    """Train and print the rate."""
    options = arguments()
    torch.manual_seed(0)
    sentences = ConllFiles.read_file(options.train)
    types = {span.type for sentence in sentences for span in sentence.spans}
    labels = tags.label_set("BIO", sorted(types))
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForTokenClassification.from_pretrained(
        options.model, num_labels=len(labels), dtype=torch.float32
    ).train()
    examples = encode(sentences, tokenizer, labels)
    optimizer = torch.optim.AdamW(model.parameters(), options.lr, weight_decay=0.01)
    total = options.steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / max(1, 0.1 * total), 1 - s / total)
    )
    order = np.random.default_rng(0).permutation(len(examples)).tolist()
    tokens, start = 0, 0.0
    for step in range(total):
        begin = step * options.batch % max(len(order) - options.batch, 1)
        rows = [examples[item] for item in order[begin : begin + options.batch]]
        batch = padded(rows, tokenizer.pad_token_id)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            loss = model(**batch).loss
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step == 2:
            start, tokens = time.perf_counter(), 0
        else:
            tokens += int(batch["attention_mask"].sum())
    rate = tokens / (time.perf_counter() - start)
    print(json.dumps({"train_tokens_per_s": round(rate, 1), "steps": total}))


if __name__ == "__main__":
    main()
