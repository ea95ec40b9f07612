"""Deduplication from file to file, against datatrove, dolma, rbloom, polars and a Python set, on equal answers.

    python benchmarks/dedup.py [--peers] [--only NAME ...] [--sentences 2000000] [--data-dir FOLDER [--times 5]]
                               [--out FILE]

Sentences are generated with 15 % duplicates, or those of WikiText-2, CustomerSim and MultiDoGO in a folder with
``wikitext2/``, ``customersim/`` and ``multidogo/``, read and split by the pipeline's own readers. Real corpora are
small: ``--times`` takes them so many times, each time with another number after every sentence, so that lengths and
the share of duplicates stay as they are. Each contestant runs in its own process on one core, reads files, and writes
which sentences repeat an earlier one; rounds are interleaved and the fastest counts, by wall clock and by CPU seconds,
which say the same where other jobs share the machine. Answers must be equal (a Bloom filter that does not verify may
add as many false positives as its rate allows) before a figure is printed. Added memory is the peak resident size
above that of a process with the same imports that reads and writes the same Parquet files in batches and decides
nothing.

With ``--peers`` come dolma, rbloom and datatrove, in environments of their own, which the first run makes
(`benchmarks/peers.py`; dolma's takes ten minutes, for one of its packages is compiled); one that cannot be made is left
out, and the reason printed. They are imported before the clock starts, as ours is. dolma reads and writes compressed
JSON, which may take less memory than Parquet. datatrove gets the first tenth of the sentences, for it would take
minutes. The work is not equal: ours also covers speaker, domain and label, counts occurrences, names the kept copy, and
decides exactly.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import command_line, heading, write_json
from dedup_files import DOCUMENT_ROWS, RATE, link, nothing, num_rows, parts, peak_bytes, write_masks
from peers import FOLDER, PeerError, json_of, python_of
from peers import run as run_peer

DUPLICATES = 0.15
PARTITION_ROWS = 100_000
WORDS = """
    the of and to in is was for on are with as by from order your address name please thank you phone number
    tracking call help change update deliver package today tomorrow customer account
""".split()  # noqa: SIM905
