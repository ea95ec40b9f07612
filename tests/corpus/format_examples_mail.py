"""Short mails and mailboxes, as mail programs write them. Their contents are made up."""

from __future__ import annotations

from tests.corpus.format_example import Example

MAIL = b"""\
Return-Path: <ann.lee@example.org>
Received: from mx.example.org by mail.example.com; Mon, 5 Jan 2026 10:00:00 +0000
From: Ann Lee <ann.lee@example.org>
To: support@example.com
Subject: =?utf-8?q?Caf=C3=A9_order?=
Date: Mon, 5 Jan 2026 10:00:00 +0000
Message-ID: <1@example.org>
MIME-Version: 1.0
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: 8bit

The order for the caf\xe9 did not come. Please look into it.

> Did it come?

--\x20
Ann Lee
"""

MBOX = b"""\
From 1577@xxx Mon Jan 05 10:00:00 +0000 2026
X-Gmail-Labels: Inbox
From: Ann Lee <ann.lee@example.org>
Subject: A parcel
Message-ID: <1@example.org>

The parcel did not come.

From 1578@xxx Mon Jan 05 11:00:00 +0000 2026
From: Bob Ray <bob.ray@example.com>
Subject: Re: A parcel
Message-ID: <2@example.com>

It is on its way.

"""

EXAMPLES: dict[str, Example] = {
    "mail": Example("1.eml", MAIL, documents=1, rows=1, speakers=0),
    "mbox": Example("All mail.mbox", MBOX, documents=2, rows=2, speakers=0),
}
