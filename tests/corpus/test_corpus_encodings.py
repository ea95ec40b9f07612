"""Character sets: the same documents as in UTF-8, in every form of file; bad bytes reject their own row alone."""

from __future__ import annotations

import codecs
import importlib
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.corpus.encodings import as_utf8, checked_encoding, encoding_of
from pipelines.corpus.formats import FORMATS, index_settings
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.scan import index_file
from pipelines.errors import ConfigError, InputError
from pipelines.settings.corpus import CorpusConfig
from tests.corpus.corpus_files import documents, dump, read, rejections

GERMAN = ["Sehr geehrte Frau Müller,", "das Paket kam für Zoë nie an.", "Schöne Grüße, José"]
GREEK = ["Καλημέρα σας,", "το δέμα δεν έχει φτάσει.", "Ευχαριστώ πολύ"]
RUSSIAN = ["Здравствуйте!", "Посылка ещё не пришла.", "Спасибо вам"]
JAPANESE = ["こんにちは。", "荷物がまだ届きません。", "表示が能力ソです"]  # their second bytes include a backslash
CHINESE = ["您好，", "包裹还没有到。", "谢谢您"]
TEXTS = {
    "windows-1252": GERMAN,
    "iso-8859-15": GERMAN,
    "mac-roman": GERMAN,
    "windows-1253": GREEK,
    "windows-1251": RUSSIAN,
    "koi8-r": RUSSIAN,
    "utf-16": JAPANESE,
    "utf-16-le": GERMAN,
    "utf-32": CHINESE,
    "shift_jis": JAPANESE,
    "euc-jp": JAPANESE,
    "iso-2022-jp": JAPANESE[:2],
    "gb18030": CHINESE,
    "big5": ["您好，", "包裹還沒有到。", "謝謝您"],
    "euc-kr": ["안녕하세요,", "소포가 도착하지 않았습니다.", "감사합니다"],
}
FILES = {
    "a.txt": lambda texts: "\r\n".join(texts) + "\n",
    "a.jsonl": lambda texts: "".join(
        json.dumps({"text": t, "id": n}, ensure_ascii=False) + "\n" for n, t in enumerate(texts)
    ),
    "a.csv": lambda texts: "id,text\n" + "".join(f'{n},"{t}"\r\n' for n, t in enumerate(texts)),
    "a.tsv": lambda texts: "id\ttext\n" + "".join(f"{n}\t{t}\n" for n, t in enumerate(texts)),
    "a.json": lambda texts: json.dumps([{"text": t} for t in texts], ensure_ascii=False),
}


@pytest.mark.parametrize("kind", ["", *(pytest.param(kind, marks=pytest.mark.slow) for kind in (".gz", ".zst"))])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", TEXTS)
def test_the_same_documents_as_in_utf8(tmp_path, encoding, name, kind):
    content = FILES[name](TEXTS[encoding])
    form = "json" if name == "a.json" else "auto"
    fields = {"txt_document": "line"}
    expected = read(dump("", name, content, tmp_path / "utf8"), form, **fields)
    assert [item.text for item in documents(expected)] == TEXTS[encoding]
    path = dump(kind, name, content.encode(encoding), tmp_path / "other")
    options = ReadOptions(**fields, encoding=encoding)
    for rows in (1, 2, 1000):
        found = read(path, form, rows, **fields, encoding=encoding)
        assert [(d.row, d.text, d.source_id) for d in found] == [(d.row, d.text, d.source_id) for d in expected]
        plain = index_file(
            tmp_path / "utf8" / name, name, form if form != "auto" else name[2:], ReadOptions(**fields), rows
        )
        assert index_file(path, path.name, form if form != "auto" else name[2:], options, rows) == plain


BAD = {
    "windows-1252": b"\x81",
    "windows-1253": b"\xd2",
    "shift_jis": b"\x81",  # half of a character: the line feed after it still ends the row
    "gb18030": b"\x81",
    "euc-jp": b"\x8e",
    "big5": b"\xff",
    "utf-16-le": b"\x00\xdc",
    "utf-16-be": b"\xdc\x00",
    "utf-32-le": b"\x00\x00\x11\x00",
    "iso-8859-7": b"\xff",
}


@pytest.mark.parametrize("encoding", BAD)
def test_bad_bytes_reject_their_row_alone(tmp_path, encoding):
    end = "\n".encode(encoding)
    data = b"".join(
        [*("one".encode(encoding), end, "two".encode(encoding), BAD[encoding], end, "three".encode(encoding), end)]
    )
    (tmp_path / "a.txt").write_bytes(data)
    for rows in (1, 2, 9):
        found = read(tmp_path / "a.txt", "auto", rows, txt_document="line", encoding=encoding)
        assert [d.text for d in documents(found)] == ["one", "three"]
        assert rejections(found) == [(2, "undecodable")]


def test_a_row_in_another_character_set_says_what_to_set(tmp_path):
    (tmp_path / "a.txt").write_bytes("Grüße".encode("cp1252"))
    (bad,) = read(tmp_path / "a.txt")
    assert (bad.reason, "corpus.encoding" in bad.detail) == ("undecodable", True)
    (tmp_path / "a.txt").write_bytes("Grüße".encode("utf-16-le"))
    (bad,) = read(tmp_path / "a.txt")
    assert "corpus.encoding" in bad.detail


def test_a_table_of_settings_gives_files_their_own_character_set(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("Grüße")
    (tmp_path / "in" / "b.txt").write_bytes("Grüße".encode("utf-16"))
    config = CorpusConfig(source=[{"pattern": "b.txt", "encoding": "UTF_16"}])
    found = read(tmp_path / "in", sources=config.read_options().sources)
    assert [d.text for d in documents(found)] == ["Grüße", "Grüße"]


def test_the_key_changes_with_the_setting_only():
    usual = CorpusConfig()
    assert "encoding" not in usual.keyed()
    assert CorpusConfig(encoding="UTF8").keyed() == CorpusConfig(encoding="ascii").keyed() == usual.keyed()
    assert CorpusConfig(encoding="cp1252").keyed() == {**usual.keyed(), "encoding": "windows-1252"}
    one = {"pattern": "*.csv"}
    assert "encoding" not in CorpusConfig(source=[one]).keyed()["source"][0]
    assert CorpusConfig(source=[{**one, "encoding": "cp1252"}]).keyed()["source"][0]["encoding"] == "windows-1252"
    for name, spec in FORMATS.items():
        suffix = next(iter(spec.kinds))
        same = index_settings(name, f"a{suffix}", ReadOptions()) == index_settings(
            name, f"a{suffix}", ReadOptions(encoding="cp1252")
        )
        assert same == (spec.own_encoding or suffix in (".parquet", ".arrow"))


@pytest.mark.parametrize("name", ["rot13", "hex", "idna", "undefined", "no-such", "", "a\0b", "unicode_escape"])
def test_a_name_that_is_no_character_set_is_refused(name):
    with pytest.raises((ValueError, ConfigError), match="character set"):
        CorpusConfig(encoding=name)


@given(
    st.text(st.characters(exclude_characters="\x0e\x0f\x1b")),
    st.sampled_from(["utf-16", "utf-32-be", "gb18030", "iso-2022-jp", "shift_jis"]),
    st.integers(1, 40),
)
@settings(max_examples=150, deadline=None)
def test_a_stream_gives_the_bytes_of_utf8(tmp_path_factory, text, encoding, size):
    path = tmp_path_factory.mktemp("s") / "a"
    path.write_bytes(text.encode(encoding, "ignore"))
    with as_utf8(path.open("rb"), encoding) as file:
        parts = []
        while part := file.read(size):
            parts.append(part)
    assert b"".join(parts).decode() == path.read_bytes().decode(encoding)


@given(st.binary(max_size=400), st.sampled_from(sorted(TEXTS)))
@settings(max_examples=200, deadline=None)
@example(b"\x1b$", "iso-2022-jp")
def test_any_bytes_are_read_or_rejected(tmp_path_factory, data, encoding):
    path = tmp_path_factory.mktemp("b") / "a.txt"
    path.write_bytes(data)
    for rows in (1, 1000):
        with suppress(InputError):  # a file without rows
            for item in read(path, "auto", rows, txt_document="line", encoding=checked_encoding(encoding)):
                assert item.name == "a.txt"


# --- detection ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", TEXTS)
def test_the_character_set_is_guessed(encoding):
    text = "\n".join(TEXTS[encoding] * 3)
    data = text.encode(encoding)
    assert data.decode(encoding_of(data)) == text
    assert checked_encoding(encoding_of(data))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("The café parcel 1 did not come.", "windows-1252"),
        ("naïve", "windows-1252"),
        ("Price: 5 € – it’s “fine”.", "windows-1252"),
        ("Müller", "windows-1252"),
        ("Dzień dobry, paczka nie przyszła. Dziękuję, żółta koperta.", "windows-1250"),
        ("Dobrý den, balík ještě nepřišel. Žluťoučký kůň.", "windows-1250"),
        ("Merhaba, paket henüz gelmedi. Teşekkürler, şimdiden iyi günler. Nerede olduğunu", "windows-1254"),
        ("שלום, החבילה עדיין לא הגיעה.", "windows-1255"),
        ("مرحبا، لم تصل الطرد بعد.", "windows-1256"),
        ("สวัสดีครับ พัสดุยังไม่มาถึง", "cp874"),
        ("A parcel of \ufffd\ufffd5.00 came, and one of \ufffd\ufffd7.50 did not.", "utf-8"),
        ("plain ASCII", "utf-8"),
        ("", "utf-8"),
    ],
)
def test_short_texts(text, encoding):
    assert encoding_of(text.encode(encoding)) == encoding


def test_replaced_characters_are_no_damage():
    assert encoding_of("Parcels of \ufffd\ufffd5 came.\n".encode() * 9 + b"One is w\xfdrn.\n") == "utf-8"


OTHER_LANGUAGES = ("es", "it", "pt", "nl", "da", "nb", "fi", "ca")


@pytest.mark.parametrize(
    "language", ["fr", "de", "sv", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHER_LANGUAGES)]
)
def test_no_western_text_is_taken_for_another(language):
    sentences = importlib.import_module(f"spacy.lang.{language}.examples").sentences
    for text in sentences:
        data = text.encode("cp1252", "ignore")
        assert data.isascii() or data.decode(encoding_of(data)) == data.decode("cp1252"), text


def test_marks_and_ends():
    assert encoding_of(codecs.BOM_UTF8 + b"x") == "utf-8"
    assert encoding_of(codecs.BOM_UTF16_LE + b"x\0") == "utf-16"
    assert encoding_of(codecs.BOM_UTF32_LE + b"x\0\0\0") == "utf-32"
    assert encoding_of(("x" * 5000 + "Zoë").encode()[:-1]) == "utf-8"  # the limit cut the character in two
    assert encoding_of("Zoë".encode("cp1252")) == "windows-1252"
    assert encoding_of(b"\0\1\2\xff" * 100) == encoding_of(b"\0\1\2\xff" * 100)
    nearly = ("Zoë, café, Grüße. " * 20).encode() + b"\xe9 "
    assert encoding_of(nearly) == "utf-8"  # one bad byte does not make mojibake of the rest
    late = b"x" * 300_000 + b"\n" + "Grüße aus Köln".encode("cp1252")
    assert encoding_of(late) == "windows-1252"


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_every_guess_is_a_name_that_the_settings_take(data):
    assert CorpusConfig(encoding=encoding_of(data)).encoding


def test_the_examples_of_the_settings_are_read(tmp_path: Path):
    for name in ("utf-8", "windows-1252", "utf-16", "shift_jis", "gb18030"):
        assert codecs.lookup(checked_encoding(name)).name == codecs.lookup(name).name
