"""`python -m sacbbf`: the command line, where the console script is not on the path."""

from sacbbf.cli import main

main()
