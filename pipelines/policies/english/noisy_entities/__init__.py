"""A small model for entities in informal English, as data. `benchmarks/train_english_detector.py` made it.

``NOTICE.txt`` has the attribution of its sources.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
