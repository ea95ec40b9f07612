"""A small model for entities in informal English, as data: how it was made says `benchmarks/train_english_detector.py`.

The attribution of what it was made from is in ``NOTICE.txt``.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
