"""The agent runtime: a model, tools, compaction with a retry, and the guard in between."""
