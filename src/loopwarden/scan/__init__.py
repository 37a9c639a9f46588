"""Replay recorded runs, summarise their loops, report."""
