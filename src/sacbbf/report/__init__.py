"""The report of many runs: its numbers, computed once (contents), and writers: page, Markdown, LaTeX, CSV, plots."""
