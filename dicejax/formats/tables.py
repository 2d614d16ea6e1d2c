"""Tables of `datasets`: folders that it saves, Arrow and Parquet files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from etils import epath

from dicejax.errors import Flaw, InputError, first_line, quote, truncate
from dicejax.formats import arrow_messages
from dicejax.formats.records import FileRecord
from dicejax.io import files, json_text, limits

STATE = "state.json"  # in each folder that `Dataset.save_to_disk` wrote
_INFO = "dataset_info.json"
_FORMS = {".parquet": "Parquet", ".arrow": "Arrow"}
_PARQUET, _ARROW_FILE = b"PAR1", b"ARROW1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_AGAIN = "save or download it again"
_LISTS = ("list", "large_list", "fixed_size_list")
_ROWS = 1000  # of a batch

Feature = Any  # of JSON: an object with "_type", a list of one, an object of fields


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
    schema, _ = next(_tables(file))
    features = _features(file, schema)
    listed = []
    for name in schema.names:
        feature = features.get(name)
        classes = ", ".join(map(str, _names(feature) or _names(_inner(feature)) or ()))
        listed.append(f"{name} ({truncate(classes, 100)})" if classes else name)
    return f"{kind}, columns: {truncate(', '.join(listed), 400)}"


def records(path: files.Path) -> Iterator[FileRecord]:
    """Yield the rows of a table, counted from 0 in messages as by `datasets`.

    Classes (`ClassLabel`) have their names instead of numbers, by the features in
    dataset_info.json or in the metadata of the file; -1, an unknown class, is None.
    Columns that JSON cannot hold, such as images and times, are left out.

    Raises:
      InputError: a file is missing, damaged or cut off.
    """
    row = 0
    for schema, batches in _tables(epath.Path(path)):
        features = _features(epath.Path(path), schema)
        for batch in _sliced(batches):
            for values in batch.to_pylist():
                value: dict | Flaw
                try:
                    value = {
                        name: _decode(value, features.get(name), name)
                        for name, value in values.items()
                    }
                except Flaw as flaw:
                    value = flaw
                row += 1
                yield FileRecord(value, row, path, where=f"[{row - 1}]")


def _sliced(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches in parts of few rows: only these are Python's at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


def _tables(path: epath.Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Yield schema and batches of each file of a folder, or of the file."""
    if path.suffix in _FORMS:
        yield _table(path)
        return
    try:
        listed = json_text.field(json_text.read(path / STATE), "_data_files", list)
        names = [json_text.field(entry, "filename", str) for entry in listed]
    except Flaw as flaw:
        raise flaw.at(path / STATE, None) from None
    if not names:
        raise InputError.at(path / STATE, None, "names no files", _AGAIN)
    for name in names:
        yield _table(path / os.path.basename(name))


def _table(path: epath.Path) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a file and its batches, read as they are asked for."""
    batches = _batches(path)
    return next(batches), batches


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
            limit.check(arrow_messages.memory(stream))
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
        what = f"cannot be read as {_FORMS.get(path.suffix, 'Arrow')}"
        what = f"{what}: {first_line(error)}"
        raise InputError.at(path, None, what, _AGAIN) from None


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
            lengths = compute.binary_length(column.dictionary)
            total = compute.sum(lengths.take(column.indices)).as_py()
            return column.indices.nbytes + (total or 0)
    if types.is_struct(column.type):
        return sum(map(_size, column.flatten()))
    if any(getattr(types, f"is_{k}")(column.type) for k in _LISTS):
        return len(column) + _size(column.flatten())
    return column.nbytes


def _json_columns(schema: Any) -> list[str]:
    return [column.name for column in schema if _is_json(column.type)]


def _features(path: epath.Path, schema: Any) -> Mapping[str, Feature]:
    """Return what `datasets` notes of the columns, in the folder or in the file."""
    info = path / _INFO if path.suffix not in _FORMS else None
    try:
        if info is not None and info.exists():
            content = json_text.read(info)
            return json_text.field(content, "features", dict)
        noted = (schema.metadata or {}).get(b"huggingface")
        if noted is None:
            return {}
        content = json_text.parse(noted.decode("utf-8", "replace"))
        return json_text.field(json_text.field(content, "info", dict), "features", dict)
    except Flaw as flaw:
        where = "" if info is not None else "features of datasets"
        raise flaw.at(info or path, None, where) from None


def _inner(feature: Feature) -> Feature:
    """Return the feature of the items of a list."""
    if isinstance(feature, list):
        return feature[0] if feature else None
    return feature.get("feature") if isinstance(feature, dict) else None


def _names(feature: Feature) -> list[str] | None:
    is_class = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    names = feature.get("names") if is_class else None
    return names if isinstance(names, list) and names else None


def _decode(value: Any, feature: Feature, name: str) -> Any:
    """Return a value with the names of classes in it."""
    if type(value) is int:
        names = _names(feature)
        if names is None:
            return value
        if value == -1:
            return None
        if not 0 <= value < len(names):
            what = f"{quote(name)} is {value}, but has names for 0 to {len(names) - 1}"
            raise Flaw(what, "correct it, or name all classes")
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
