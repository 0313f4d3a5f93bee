"""`python -m rxwow`: the same as the command `rxwow`."""

import sys

from rxwow.cli import main

if __name__ == "__main__":
    sys.exit(main())
