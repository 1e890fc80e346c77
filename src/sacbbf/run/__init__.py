"""One run: training, evaluation, records, and checks against reference numbers."""
