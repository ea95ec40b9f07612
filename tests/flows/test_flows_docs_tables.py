"""The tables in the documentation say what the specs say."""

from flows.docs.tables import pages


def test_the_tables_are_those_of_the_code():
    for path, text in pages().items():
        assert path.read_text("utf-8") == text, "run `make docs`"
