"""Many runs: sweeps, aggregation, reports, speed."""
