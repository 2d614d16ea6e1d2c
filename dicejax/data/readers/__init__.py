r"""Readers, one per file format; `dicejax.data.sources` lists the formats.

Their arguments are the fields of the source and `path`, local or anything etils.epath
opens (gs://, s3://), of UTF-8 text with or without a byte order mark, whose lines end
in `\n` or `\r\n`; a name in `.gz` is decompressed. They return at least one example, in
the order of the file, and raise `InputError` with file and line where the file is
missing, empty, no regular file, not UTF-8 text or malformed. `on_error`, such as a
`skipping.Skipped`, is called with the error of each malformed example, which is then
skipped; None raises the first.
"""
