"""The formats of pages and office documents."""

from __future__ import annotations

from typing import Final

from pipelines.corpus.format_spec import FormatSpec, unlabelled

FORMATS_OF_PAGES: Final[tuple[FormatSpec, ...]] = (
    unlabelled(
        name="stackexchange",
        document="a question, an answer or a comment of `Posts.xml` or `Comments.xml`; blocks of code are left out",
        example='`<row Id="7" PostTypeId="1" Title="Why?" Body="&lt;p&gt;Hello.&lt;/p&gt;" />`',
        kinds={".xml": "post"},
        packages=("html-text", "lxml"),
    ),
    unlabelled(
        name="mediawiki",
        document="an article of `pages-articles.xml`, without templates and tables; redirects and pages that are no "
        "articles are left out (`reticent[documents]`)",
        example="`<page><title>Ann</title><ns>0</ns>…<text>Ann is a '''singer'''.</text>…</page>`",
        kinds={".xml": "page"},
        packages=("lxml", "mwparserfromhell"),
    ),
    unlabelled(
        name="html",
        document="the visible text of a file, with its title first",
        example="`<title>Ann</title><p>Hello.</p>`",
        kinds={".html": "file", ".htm": "file", ".xhtml": "file"},
        packages=("html-text", "lxml", "charset-normalizer"),
        reader="pipelines.corpus.pages:Html",
    ),
    unlabelled(
        name="markdown",
        document="the text of a file without its marks; front matter is left out",
        example="`# Ann` / `Ann is a *singer*.`",
        kinds={".md": "file", ".markdown": "file"},
        packages=("markdown-it-py", "charset-normalizer"),
        reader="pipelines.corpus.pages:Markdown",
    ),
    FormatSpec(
        name="conllu",
        document="a text: from `# newdoc` to the next, else from `# newpar` to the next, else a sentence; entities in "
        "the last column (`NER=B-PER`, `Entity=(1-person)`) are known secrets",
        example="`1⇥Ann⇥Ann⇥PROPN⇥_⇥_⇥2⇥nsubj⇥_⇥NER=B-PER`",
        kinds={".conllu": "whole", ".conllup": "whole"},
        reader="pipelines.corpus.annotated:Conllu",
    ),
    FormatSpec(
        name="conll_documents",
        document="a text: from `-DOCSTART-` or `#begin document` to the next, else a sentence; the columns of "
        "CoNLL-2003 and CoNLL-2012",
        example="`-DOCSTART- -X- O O` / `Ann⇥NNP⇥B-NP⇥B-PER`",
        kinds={".conll": "whole", ".iob2": "whole", ".v4_gold_conll": "whole"},
        reader="pipelines.corpus.annotated:Conll",
    ),
    unlabelled(
        name="pdf",
        document="a page with text; its row is the number of the page (`reticent[documents]`)",
        example="`page 3` of `report.pdf`",
        kinds={".pdf": "file"},
        packages=("pypdf",),
        reader="pipelines.corpus.office:Pdf",
    ),
    unlabelled(
        name="docx",
        document="a Word file; headers, footers, notes and comments are left out (`reticent[documents]`)",
        example="`letter.docx`",
        kinds={".docx": "file", ".docm": "file"},
        packages=("python-docx", "lxml"),
        reader="pipelines.corpus.office:Docx",
    ),
)
