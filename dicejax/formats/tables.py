"""Tables of `datasets`: folders that it saves, Arrow and Parquet files."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from etils import epath

from dicejax.errors import Flaw, InputError, first_line, quote, truncate
from dicejax.formats.records import Fields, FileRecord
from dicejax.io import files, json_text, limits

STATE = "state.json"  # in each folder that `Dataset.save_to_disk` wrote
_INFO = "dataset_info.json"
_FORMS = {".parquet": "Parquet", ".arrow": "Arrow"}
_PARQUET, _ARROW_FILE = b"PAR1", b"ARROW1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_DICTIONARY, _RECORDS = 2, 3  # kinds of a message's header
_AGAIN = "save or download it again"
_LISTS = ("list", "large_list", "fixed_size_list")
_ROWS = 1000  # of a batch

Features = Mapping[str, Any]  # of JSON: an object with "_type", a list, an object


def is_table(path: files.Path) -> bool:
    """Return whether a path names a saved folder, an Arrow or a Parquet file."""
    file = epath.Path(path)
    return file.suffix in _FORMS or (file / STATE).exists()


def describe(path: files.Path) -> str:
    """Return the kind of a table, and its columns with the names of their classes."""
    file = epath.Path(path)
    kind = f"a folder saved by datasets ({STATE})"
    if file.suffix in _FORMS:
        kind = f"a table in {_FORMS[file.suffix]}"
    schema = next(_batches(_files(file)[0]))
    features = _features(file, schema)
    listed = []
    for column in schema:
        feature = features.get(column.name)
        classes = ", ".join(map(str, _names(feature) or _names(_inner(feature)) or ()))
        if not _is_json(column.type):
            classes = f"{column.type}, not read"
        about = f" ({truncate(classes, 100)})" if classes else ""
        listed.append(column.name + about)
    return f"{kind}, columns: {truncate(', '.join(listed), 400)}"


def left_out(path: files.Path) -> dict[str, str]:
    """Return the columns of a table that JSON cannot hold, with their Arrow types."""
    schema = next(_batches(_files(epath.Path(path))[0]))
    return {x.name: str(x.type) for x in schema if not _is_json(x.type)}


def records(path: files.Path) -> Iterator[FileRecord]:
    """Yield the rows of a table, counted from 0 in messages as by `datasets`.

    Classes (`ClassLabel`) have their names instead of numbers, by the features in
    dataset_info.json or in the metadata of the file; -1, an unknown class, is None.
    Columns that JSON cannot hold, such as images and times, are left out.

    Raises:
      InputError: a file is missing, damaged or cut off.
    """
    row = 0
    for file in _files(epath.Path(path)):
        batches = _batches(file)
        features = _features(epath.Path(path), next(batches))

        def decode(values: Fields, features: Features = features) -> Fields:
            return {n: _decode(v, features.get(n), n) for n, v in values.items()}

        for batch in batches:
            # Few rows at a time are Python's.
            for start in range(0, batch.num_rows, _ROWS):
                for values in batch.slice(start, _ROWS).to_pylist():
                    row += 1
                    record = FileRecord(values, row, path, where=f"[{row - 1}]")
                    yield record.map(decode)


def _files(path: epath.Path) -> list[epath.Path]:
    """Return the files of a folder, or the file."""
    if path.suffix in _FORMS:
        return [path]
    with json_text.flaws_at(path / STATE):
        listed = json_text.field(json_text.read(path / STATE), "_data_files", list)
        names = [json_text.field(entry, "filename", str) for entry in listed]
    if not names:
        raise InputError.at(path / STATE, None, "names no files", _AGAIN)
    return [path / os.path.basename(name) for name in names]


def _batches(path: epath.Path) -> Iterator[Any]:
    """Yield the schema, then the batches of columns that JSON can hold.

    Counted are the rows before they are made, and the bytes of each batch.
    """
    import pyarrow  # takes a tenth of a second
    from pyarrow import parquet

    content = files.read_bytes(path)
    limit, memory = limits.unpacked(len(content)), 0
    try:
        if content.startswith(_PARQUET):
            buffer = pyarrow.BufferReader(content)
            # A long text that is there once stays so until it is counted. Threads may
            # outlive the interpreter, which then aborts.
            texts = _texts(parquet.ParquetFile(buffer, pre_buffer=False))
            file = parquet.ParquetFile(buffer, read_dictionary=texts, pre_buffer=False)
            limit.check(_declared(file.metadata))
            schema = file.schema_arrow
            names = _json_columns(schema)
            batches = file.iter_batches(_ROWS, columns=names, use_threads=False)
        else:
            is_file = content.startswith(_ARROW_FILE)
            stream = content[len(_ARROW_FILE) + 2 :] if is_file else content
            limit.check(_memory(stream))
            if not content.endswith(_ARROW_FILE if is_file else _END_OF_STREAM):
                # Else whole batches may lack.
                raise InputError.at(path, None, "is cut off", _AGAIN)
            reader = pyarrow.ipc.open_stream(stream)
            schema, batches = reader.schema, iter(reader)
            names = _json_columns(schema)
        schema.names  # noqa: B018  # decoded here
        yield schema
        for batch in batches:
            batch.validate(full=True)
            batch = batch.select(names)
            memory += limits.ITEM * batch.num_rows + sum(map(_size, batch.columns))
            limit.check(memory)
            yield batch
    except Flaw as flaw:
        raise flaw.at(path, None) from None
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        fault = f"cannot be read as {_FORMS.get(path.suffix, 'Arrow')}"
        fault = f"{fault}: {first_line(error)}"
        raise InputError.at(path, None, fault, _AGAIN) from None


def _texts(file: Any) -> list[str]:
    """Return the paths of the columns of text in a Parquet file."""
    columns = (file.schema.column(n) for n in range(file.metadata.num_columns))
    return [c.path for c in columns if c.logical_type.type == "STRING"]


def _declared(metadata: Any) -> int:
    """Return the memory of the rows and values that a Parquet file declares."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (g.column(n) for g in groups for n in range(metadata.num_columns))
    sizes = (c.total_uncompressed_size + limits.VALUE * c.num_values for c in chunks)
    return limits.ITEM * metadata.num_rows + sum(sizes)


def _size(column: Any) -> int:
    """Return the bytes of a column, texts of a dictionary as often as they occur."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type) and len(column.dictionary):
        kind = column.dictionary.type
        if types.is_string(kind) or types.is_large_string(kind):
            lengths = compute.call_function("binary_length", [column.dictionary])
            total = compute.call_function("sum", [lengths.take(column.indices)]).as_py()
            return column.indices.nbytes + (total or 0)
    if types.is_struct(column.type):
        return sum(map(_size, column.flatten()))
    if any(getattr(types, f"is_{k}")(column.type) for k in _LISTS):
        return len(column) + _size(column.flatten())
    return column.nbytes


def _json_columns(schema: Any) -> list[str]:
    return [column.name for column in schema if _is_json(column.type)]


def _features(path: epath.Path, schema: Any) -> Features:
    """Return what `datasets` notes of the columns, in the folder or in the file."""
    info = path / _INFO
    if path.suffix not in _FORMS and info.exists():
        with json_text.flaws_at(info):
            return json_text.field(json_text.read(info), "features", dict)
    if (noted := (schema.metadata or {}).get(b"huggingface")) is None:
        return {}
    with json_text.flaws_at(path, at="features of datasets"):
        content = json_text.parse(noted.decode("utf-8", "replace"))
        return json_text.field(json_text.field(content, "info", dict), "features", dict)


def _inner(feature: Any) -> Any:
    """Return the feature of the items of a list."""
    if isinstance(feature, list):
        return feature[0] if feature else None
    return feature.get("feature") if isinstance(feature, dict) else None


def _names(feature: Any) -> list[str] | None:
    is_class = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    names = feature.get("names") if is_class else None
    return names if isinstance(names, list) and names else None


def _decode(value: Any, feature: Any, name: str) -> Any:
    """Return a value with the names of classes in it."""
    if type(value) is int:
        names = _names(feature)
        if names is None:
            return value
        if value == -1:
            return None
        if not 0 <= value < len(names):
            fault = f"{quote(name)} is {value}, but has names for 0 to {len(names) - 1}"
            raise Flaw(fault, "correct it, or name all classes")
        return names[value]
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        inner = _inner(feature)
        if inner is None:
            return value
        return [_decode(item, inner, name) for item in value]
    if isinstance(value, dict) and isinstance(feature, dict):
        # A sequence of objects is an object of lists.
        is_sequence = "_type" in feature
        fields = feature.get("feature") if is_sequence else feature
        if isinstance(fields, dict):
            inner = {key: fields.get(key) for key in value}
            if is_sequence:
                inner = {key: {"feature": field} for key, field in inner.items()}
            return {key: _decode(value[key], inner[key], name) for key in value}
    return value


def _is_json(kind: Any) -> bool:
    """Whether values of an Arrow type are text, numbers, lists or objects of them."""
    from pyarrow import types

    if types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    if any(getattr(types, f"is_{name}")(kind) for name in ("dictionary", *_LISTS)):
        return _is_json(kind.value_type)
    plain = ("string", "large_string", "string_view", "integer", "float32", "float64")
    return any(getattr(types, f"is_{n}")(kind) for n in (*plain, "boolean", "null"))


def _memory(stream: bytes) -> int:
    """Return about the bytes of memory that the rows of an Arrow stream take.

    They are what its messages declare before they are unpacked: a message of 50 KB can
    hold 500 MB, and one of 200 bytes any number of nulls. Layouts are those of
    Message.fbs and Schema.fbs of Arrow's format, version 5.
    """
    import pyarrow

    total = 0
    for message in pyarrow.ipc.MessageReader.open_stream(stream):
        try:
            total += _memory_of(message.metadata.to_pybytes(), message.body)
        except (struct.error, IndexError):
            raise pyarrow.ArrowInvalid("a message is damaged") from None
    return total


def _memory_of(content: bytes, body: Any) -> int:
    table = _Flat(content, struct.unpack_from("<I", content)[0])
    kind = table.number(1, "<B")
    if kind not in (_DICTIONARY, _RECORDS):
        return 0
    batch = table.table(2)
    if kind == _DICTIONARY:
        batch = batch.table(1)
    # A damaged length may be negative, and would make up for another.
    total = limits.ITEM * abs(batch.number(0, "<q"))
    total += limits.VALUE * sum(abs(length) for length, _ in batch.pairs(1))
    is_packed = batch.field(3) != 0
    for offset, length in batch.pairs(2):
        if is_packed and length:  # the size comes first, -1 for what is not packed
            (size,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
            length = size if size >= 0 else length
        total += abs(length)
    return total


class _Flat:
    """A table of a FlatBuffer: its fields by their numbers in the schema."""

    def __init__(self, content: bytes, start: int):
        self._content, self._start = content, start
        self._fields = start - struct.unpack_from("<i", content, start)[0]

    def field(self, number: int) -> int:
        """Return the place of a field, 0 where it is absent."""
        at = 4 + 2 * number
        if at >= struct.unpack_from("<H", self._content, self._fields)[0]:
            return 0
        (offset,) = struct.unpack_from("<H", self._content, self._fields + at)
        return offset and self._start + offset

    def number(self, number: int, form: str) -> int:
        """Return a whole number, 0 where it is absent."""
        at = self.field(number)
        return struct.unpack_from(form, self._content, at)[0] if at else 0

    def table(self, number: int) -> _Flat:
        """Return an inner table."""
        at = self.field(number)
        (offset,) = struct.unpack_from("<I", self._content, at)
        return _Flat(self._content, at + offset)

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of 64 bits of a vector."""
        if not (at := self.field(number)):
            return
        at += struct.unpack_from("<I", self._content, at)[0]
        (count,) = struct.unpack_from("<I", self._content, at)
        for place in range(count):
            yield struct.unpack_from("<qq", self._content, at + 4 + 16 * place)
