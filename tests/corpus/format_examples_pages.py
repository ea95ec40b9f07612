"""A short file in the original layout of each format of pages, dumps, annotated columns and office files."""

from __future__ import annotations

import bz2
import io
import zlib

from format_example import Example

POSTS = """\ufeff<?xml version="1.0" encoding="utf-8"?>
<posts>
  <row Id="1" PostTypeId="1" AcceptedAnswerId="2" CreationDate="2019-03-01T10:00:00.000" Score="4" ViewCount="9" \
Body="&lt;p&gt;Ask &lt;b&gt;Ann Example&lt;/b&gt;, she uses &lt;code&gt;map&lt;/code&gt; &amp;amp; more.&lt;/p&gt;&#xA;\
&lt;pre&gt;&lt;code&gt;key = 'hunter2'&#xA;&lt;/code&gt;&lt;/pre&gt;&#xA;&lt;p&gt;Thanks!&lt;/p&gt;" OwnerUserId="9" \
Title="Who knows?" Tags="&lt;people&gt;" ContentLicense="CC BY-SA 4.0" />
  <row Id="2" PostTypeId="2" ParentId="1" Body="&lt;p&gt;Ann does.&lt;/p&gt;&#xA;&lt;ul&gt;&lt;li&gt;one&lt;/li&gt;\
&lt;li&gt;two&lt;/li&gt;&lt;/ul&gt;" OwnerDisplayName="bob77" />
  <row Id="3" PostTypeId="5" Body="" />
</posts>
""".replace("\n", "\r\n")

COMMENTS = """<?xml version="1.0" encoding="utf-8"?>
<comments>
  <row Id="5" PostId="1" Score="0" Text="@Ann is 3 &lt; 4? See [here](http://x.example)." UserDisplayName="bob77" />
</comments>
"""

WIKI = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
    </namespaces>
  </siteinfo>
  <page>
    <title>Ann Example</title>
    <ns>0</ns>
    <id>12</id>
    <revision>
      <id>99</id>
      <timestamp>2024-01-01T00:00:00Z</timestamp>
      <contributor><username>Bob Editor</username><id>3</id></contributor>
      <comment>a remark</comment>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="9" xml:space="preserve">{{Infobox person|name=Ann|born={{date|1950}}}}
'''Ann Example''' (born 1950) is a [[Singer|singer]] from [[Berlin]].&lt;ref&gt;{{cite|url=http://x.example}}&lt;/ref&gt;
[[File:Ann.jpg|thumb|A caption with a [[link]]]]
== Life ==
* She sings at [http://x.example home] &amp;amp; away.
{| class="wikitext"
! year !! song
|-
| 1970 || One
|}
__NOTOC__
[[Category:Singers]]
[[de:Ann Example]]</text>
      <sha1>x</sha1>
    </revision>
  </page>
  <page>
    <title>Ann E.</title>
    <ns>0</ns>
    <id>13</id>
    <redirect title="Ann Example" />
    <revision><id>1</id><text>#REDIRECT [[Ann Example]]</text></revision>
  </page>
  <page>
    <title>Talk:Ann Example</title>
    <ns>1</ns>
    <id>14</id>
    <revision><id>2</id><text>I doubt it. ~~~~</text></revision>
  </page>
  <page>
    <title>Berlin</title>
    <ns>0</ns>
    <id>15</id>
    <revision><id>3</id><text>'''Berlin''' is a city.</text></revision>
  </page>
</mediawiki>
"""

HTML = """<!DOCTYPE html>
<html><head><meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1">
<title>Ann’s café</title><style>p { color: red }</style><script>var a = "hidden";</script></head>
<body><!-- not seen --><h1>Opening &amp; hours</h1><p>Ann Example opens<br>at <b>nine</b>.</p></body></html>
""".encode("cp1252")

MARKDOWN = """---
title: Ann
tags: [a, b]
---
# Ann *Example*

Ann Example is a [singer](http://x.example) from
Berlin & more.

- one
- two

| year | song |
|------|------|
| 1970 | `One` |

```py
x = 1
```
"""


def _words(*rows: str) -> str:
    return "\n".join("\t".join(row.split("|")) for row in rows) + "\n"


CONLLU = (
    "# global.Entity = eid-etype-head\n# newdoc id = d1\n# sent_id = d1-1\n# text = Ann Example doesn't sing.\n"
    + _words(
        "1|Ann|Ann|PROPN|NNP|_|4|nsubj|_|Entity=(e1-person-1",
        "2|Example|Example|PROPN|NNP|_|1|flat|_|Entity=e1)",
        "3-4|doesn't|_|_|_|_|_|_|_|_",
        "3|does|do|AUX|VBZ|_|5|aux|_|_",
        "4|n't|not|PART|RB|_|5|advmod|_|_",
        "5|sing|sing|VERB|VB|_|0|root|_|SpaceAfter=No",
        "5.1|_|_|PRON|_|_|_|_|5:obj|Entity=(e9-abstract-1)",
        "6|.|.|PUNCT|.|_|5|punct|_|_",
    )
    + "\n# sent_id = d1-2\n"
    + _words(
        "1|(|(|PUNCT|_|_|2|punct|_|SpaceAfter=No",
        "2|Berlin|Berlin|PROPN|_|_|0|root|_|Entity=(e2-place-1)|SpaceAfter=No".replace("|SpaceAfter", "\\SpaceAfter"),
        "3|)|)|PUNCT|_|_|2|punct|_|_",
    ).replace("\\", "|")
    + "\n# newdoc id = d2\n# text = Bye.\n"
    + _words("1|Bye|bye|INTJ|_|_|0|root|_|SpaceAfter=No", "2|.|.|PUNCT|_|_|1|punct|_|_")
    + "\n"
)

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER

# # O O
-DOCSTART- -X- -X- O

Bye UH B-INTJ O
"""


def pdf(*pages: str | bytes) -> bytes:
    """Writes a PDF file with one line of text per line of a page. A page of bytes is drawn as it is."""
    contents = []
    for text in pages:
        if isinstance(text, bytes):
            contents.append(text)
            continue
        lines = "".join(f"({line}) Tj T*\n" for line in text.split("\n"))
        contents.append(f"BT /F1 12 Tf 14 TL 50 750 Td\n{lines}ET".encode("latin-1") if text else b"")
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, content in enumerate(contents):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        packed = zlib.compress(content)
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed) + packed + b"\nendstream")
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    end = b"xref\n0 %d\n0000000000 65535 f \n" % size + table
    return data + end + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))


PDF_PAGE = """Report on Ann Example
Ann Example opened a new and large restau-
rant in Berlin, and all of her old friends
came to the party on Monday.
- first item of the list
The end."""


def docx(*paragraphs: str) -> bytes:
    """Writes a Word file with paragraphs, a table, a header and a comment by another hand."""
    import docx

    file = docx.Document()
    for text in paragraphs:
        file.add_paragraph(text)
    table = file.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "year", "song"
    file.sections[0].header.paragraphs[0].text = "a header"
    out = io.BytesIO()
    file.save(out)
    return out.getvalue()


EXAMPLES: dict[str, Example] = {
    "stackexchange": Example("Posts.xml", POSTS.encode(), 2, 2, 0),
    "mediawiki": Example("pages-articles.xml.bz2", bz2.compress(WIKI.encode()), 2, 2, 0),
    "html": Example("cafe.html", HTML, 1, 1, 0),
    "markdown": Example("ann.md", MARKDOWN.encode(), 1, 1, 0),
    "conllu": Example("a.conllu", CONLLU.encode(), 2, 2, 0),
    "conll_documents": Example("eng.conll", CONLL_2003.encode(), 2, 2, 0),
    "pdf": Example("report.pdf", pdf(PDF_PAGE, "", "Second page of the report."), 2, 2, 0),
    "docx": Example("letter.docx", docx("Dear Ann Example,", "see you on Monday."), 1, 1, 0),
}


def example(format: str) -> bytes:
    """Returns the example file of a format."""
    return EXAMPLES[format].data
