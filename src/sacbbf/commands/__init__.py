"""The subcommands of the command line, one file each: `main(argv)` returns the exit code."""
