"""The formats of text files, tables and known corpora."""

from __future__ import annotations

from typing import Final

from pipelines.corpus.format_spec import FormatSpec, unlabelled

FORMATS_OF_TEXT: Final = (
    unlabelled(
        name="txt",
        document="a file, a line or a paragraph",
        example="`Thank you for calling.`",
        kinds={".txt": "txt"},
        auto=(".txt",),
        settings=("txt_document",),
    ),
    FormatSpec(
        name="jsonl",
        document="an object, one per line",
        example='`{"id": "7", "text": "Hello."}`',
        kinds={".jsonl": "line", ".ndjson": "line"},
        auto=(".jsonl", ".ndjson"),
        names_fold=False,
    ),
    FormatSpec(
        name="json",
        document="an object of an array",
        example='`[{"text": "Hello."}]`',
        kinds={".json": "element"},  # not in auto: folders often hold small .json files that are not a corpus
        names_fold=False,
    ),
    FormatSpec(
        name="csv",
        document="a record; the first line or `column_names` name the columns",
        example='`id,text` / `7,"Hello, you."`',
        kinds={".csv": "record"},
        auto=(".csv",),
        names_fold=False,
        settings=("quoting", "delimiter", "column_names", "speaker_field"),
    ),
    FormatSpec(
        name="tsv",
        document='a record, without quotes unless `quoting = "double"`',
        example="`id⇥text` / `7⇥Hello.`",
        kinds={".tsv": "record"},
        auto=(".tsv",),
        names_fold=False,
        settings=("quoting", "delimiter", "column_names", "speaker_field"),
    ),
    FormatSpec(
        name="parquet",
        document="a row",
        example="columns `text`, `id`",
        kinds={".parquet": "parquet"},
        auto=(".parquet",),
        names_fold=False,
    ),
    FormatSpec(
        name="huggingface",
        document="a row of a folder that `datasets` saved",
        example="`train/data-00000-of-00001.arrow`",
        kinds={".arrow": "arrow", ".parquet": "parquet"},
        auto=(".arrow",),
    ),
    FormatSpec(
        name="wikitext",
        document="an article",
        example="` = Title =`, then its text",
        kinds={".raw": "article", ".tokens": "article", ".txt": "article"},
        has_gold=False,
        settings=("wikitext_joiners",),
    ),
    FormatSpec(
        name="dialogue",
        document="a dialogue; it ends with the file or before a line that starts with `<\\|endoftext\\|>`",
        example="`SYS: Hello.` / `USR: Hi.`",
        kinds={".txt": "dialogue", ".jsonl": "line"},
    ),
    FormatSpec(
        name="multidogo",
        document="a conversation",
        example="the data set's own files",
        kinds={".tsv": "conversation"},
        has_header=("conversation",),
    ),
    FormatSpec(
        name="e2e",
        document="a meaning representation, written out, and its reference, joined by ` \\|\\| `",
        example="`name[Aromi]` → `name : Aromi \\|\\| Aromi is a pub.`",
        kinds={".csv": "record", ".tsv": "record", ".jsonl": "line"},
        holds_pairs=True,
        has_gold=False,
        settings=("quoting", "delimiter"),
    ),
    FormatSpec(
        name="dart",
        document="triples and their text, joined by ` \\|\\| `",
        example="the data set's own files",
        kinds={".json": "element", ".jsonl": "line"},
        holds_pairs=True,
        has_gold=False,
    ),
    FormatSpec(
        name="glue",
        document="a sentence, or a pair joined by ` \\|\\| `",
        example="`sentence⇥label` / `fine film⇥1`",
        kinds={".tsv": "record", ".csv": "record", ".jsonl": "line"},
        holds_pairs=True,
        has_gold=False,
        settings=("quoting", "delimiter"),
    ),
    unlabelled(
        name="mail",
        document="a mail, one per file",
        example="`Subject: …`, the other headers, a blank line, the text",
        kinds={".eml": "file"},
        auto=(".eml",),
        settings=("mail_headers", "mail_quotes", "mail_signatures", "mail_text"),
        own_encoding=True,
    ),
    unlabelled(
        name="mbox",
        document="a mail of a mailbox",
        example="`From ann@example.org Mon Jan  5 10:00:00 2026`, then the mail",
        kinds={".mbox": "message", ".mbx": "message"},
        auto=(".mbox", ".mbx"),
        settings=("mail_headers", "mail_quotes", "mail_signatures", "mail_text"),
        own_encoding=True,
    ),
    FormatSpec(
        name="conll",
        document="a text: lines between blank ones, each with a token and its entity tag (BIO, BIOES)",
        example="`Ann⇥B-person`",
        kinds={".conll": "paragraph", ".bio": "paragraph", ".iob": "paragraph"},
    ),
    FormatSpec(
        name="personachat",
        document="a conversation",
        example="`1 your persona: i ski.`",
        kinds={".txt": "episode"},
        has_gold=False,
    ),
)
