"""Many runs as one piece of work: what they are (spec), where they lie (directory), who runs them (executors)."""
