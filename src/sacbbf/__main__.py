"""`python -m sacbbf`: the command line, where the console script is not on the path."""

import os
import sys

# Python puts the working directory first, where a stranger's modules may lie.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 - nothing is imported yet
    del sys.path[0]

from sacbbf.cli import main

main()
