r"""OntoNotes 5.0 English NER as machine reading.

The task of BERT-MRC: each type of entity has a query, and its spans are found by a
start, an end, and a match of the two. The queries are ours; others do as well, with
--task.queries.

command:  dicejax compare experiments/ner/ontonotes5.py --data.dir FOLDER
data:     train.txt, dev.txt and test.txt with a word and its tag (BIO) on each line, in
          the split of CoNLL-2012. The corpus is the LDC's, and licensed. BERT-MRC's own
          JSON is read by BertMrcFiles of bert_mrc_files.py, next to this file.
paper:    F1 91.11 ce, 91.43 wce, 91.22 focal, 91.88 dice, 92.07 dsc (Table 4).
measured: not run: the data is licensed.
"""

from dicejax.config import Experiment, PretrainedEncoder, Training
from dicejax.formats import ConllFiles
from dicejax.objectives import (
    CrossEntropy,
    Dice,
    Focal,
    SelfAdjustingDice,
    WeightedCrossEntropy,
)
from dicejax.optimizers import AdamW
from dicejax.tasks import MachineReading

QUERIES = (
    ("LAW", "laws and treaties by their name"),
    ("EVENT", "named wars, battles, storms, matches and other events"),
    ("CARDINAL", "numbers that count or measure nothing named below"),
    ("FAC", "buildings, airports, roads, bridges with a name"),
    ("TIME", "times within a day"),
    ("DATE", "dates, and periods of a day or longer"),
    ("ORDINAL", "first, second and so on"),
    ("ORG", "companies, agencies, institutions and other organizations"),
    ("QUANTITY", "measurements of weight, distance and the like"),
    ("PERCENT", "percentages"),
    ("WORK_OF_ART", "titles of books, songs, films and the like"),
    ("LOC", "mountains, waters, regions that are no states"),
    ("LANGUAGE", "languages with a name"),
    ("NORP", "nationalities, religious and political groups"),
    ("MONEY", "amounts of money"),
    ("PERSON", "names of people, also of fiction"),
    ("GPE", "countries, states, cities"),
    ("PRODUCT", "vehicles, weapons, foods and other things with a name"),
)


def get_config() -> Experiment:
    return Experiment(
        name="ontonotes5",
        data=ConllFiles(dir="data/ontonotes5"),
        task=MachineReading(queries=QUERIES),
        encoder=PretrainedEncoder(path="bert-large-cased"),
        objective=SelfAdjustingDice(alpha=0.01, smooth=1.0),
        compared=(
            CrossEntropy(),
            WeightedCrossEntropy(),
            Focal(),
            Dice(smooth=1.0, squared=True),
            SelfAdjustingDice(alpha=0.01, smooth=1.0),
        ),
        optimizer=AdamW(learning_rate=2e-5, warmup=0.1, weight_decay=0.002),
        training=Training(
            epochs=5,
            batch_size=72,
            max_length=300,
            precision="bfloat16",
        ),
    )
