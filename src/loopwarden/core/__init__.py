"""The core decides: events in, verdicts out, nothing else. See `run_state`."""
