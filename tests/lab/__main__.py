"""`python tests/lab up 3`: works from anywhere, with any Python 3.11."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from lab.cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
